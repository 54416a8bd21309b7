package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/workshop/nodes"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// shift is the size of the part with several daemons on one database.
type shift struct {
	daemons int
	agents  int
	every   [2]int // seconds: the shortest and the longest interval of an agent
	warm    time.Duration
	watched time.Duration
	orphans int           // jobs that wait for an agent which nobody has
	idle    time.Duration // how long daemons without work are watched
	limits  []int         // of the fleet, 0: none
}

// shift derives it from the size of the rest.
func (s size) shift() shift {
	switch {
	case s.reps >= full.reps:
		return shift{3, 300, [2]int{20, 60}, 20 * time.Second, 5 * time.Minute, 20, time.Minute, []int{0, 64}}
	case s.reps >= small.reps:
		return shift{3, 300, [2]int{20, 60}, 15 * time.Second, 2 * time.Minute, 20, 20 * time.Second, []int{0, 64}}
	}
	return shift{2, 4, [2]int{1, 2}, 0, 5 * time.Second, 2, time.Second, []int{1}}
}

// shifts measures daemons, each a process, that run one fleet on one database:
// how often they conflict, whether the end of a job is ever lost, how late
// jobs begin, and what waiting costs.
func (r *run) shifts(ctx context.Context) error {
	if !r.hasProgram() {
		return nil
	}
	cluster, err := pgtest.Run(pgtest.Options{Synced: true, Settings: map[string]string{"max_connections": "200", "shared_buffers": "256MB"}})
	if pgtest.IsMissing(err) {
		r.table.skip("%s", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer cluster.End()
	for _, limit := range r.size.shift().limits {
		if err := r.shift(ctx, cluster, limit); err != nil {
			return err
		}
	}
	return r.idleShift(ctx, cluster)
}

// watched is one fleet on a database of its own, and the means to observe it.
type watched struct {
	shift
	at      *nodes.Place
	watch   *pgx.Conn // of a superuser, in the same database
	kept    *place
	daemons []*nodes.Daemon
}

// onShift starts the daemons of a fleet file.
func (r *run) onShift(ctx context.Context, c *pgtest.Cluster, name, file string) (_ *watched, err error) {
	w := &watched{shift: r.size.shift()}
	defer func() {
		if err != nil {
			w.leave()
		}
	}()
	db, err := c.Make(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	w.at = &nodes.Place{Program: r.program, Dir: dir, Env: os.Environ(), Store: teamURL(db.Server), Flags: []string{"--no-encrypt"}}
	if err := w.at.Migrate(ctx, db.Owner); err != nil {
		return nil, err
	}
	if w.watch, err = pgx.Connect(ctx, db.Super); err != nil {
		return nil, err
	}
	if w.kept, err = openDatabase(ctx, inPostgres, db.Server, nil); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		return nil, err
	}
	for range w.shift.daemons {
		d, err := w.at.Fleet(ctx, path)
		if d != nil {
			w.daemons = append(w.daemons, d)
		}
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *watched) leave() {
	for _, d := range w.daemons {
		d.Kill()
	}
	if w.watch != nil {
		w.watch.Close(context.Background())
	}
	if w.kept != nil {
		w.kept.close()
	}
	if w.at != nil {
		os.RemoveAll(w.at.Dir)
	}
}

// transactions are the numbers of committed and rolled-back transactions of the
// database.
type transactions struct{ commits, rollbacks int64 }

func (w *watched) count(ctx context.Context) (n transactions, err error) {
	err = w.watch.QueryRow(ctx, `select xact_commit, xact_rollback from pg_stat_database where datname = current_database()`).Scan(&n.commits, &n.rollbacks)
	return n, err
}

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// shiftFile is a fleet whose agents work a second each.
func (s shift) file(limit int) string {
	var file strings.Builder
	file.WriteString("version: 1\n")
	if limit > 0 {
		fmt.Fprintf(&file, "limits: {max_concurrent: %d}\n", limit)
	}
	file.WriteString("agents:\n")
	for i := range s.agents {
		fmt.Fprintf(&file, "  - name: agent-%d\n    runner: command\n    command: [sleep, \"1\"]\n    schedules:\n      - {name: often, every: %ds, prompt: go}\n",
			i, s.every[0]+i%(s.every[1]-s.every[0]+1))
	}
	return file.String()
}

// shift measures a fleet at work, and its end.
func (r *run) shift(ctx context.Context, c *pgtest.Cluster, limit int) error {
	s := r.size.shift()
	r.say("%d daemons on one database, %d agents, limit %d", s.daemons, s.agents, limit)
	w, err := r.onShift(ctx, c, fmt.Sprint("shift-", limit), s.file(limit))
	if err != nil {
		return err
	}
	defer w.leave()
	if err := pause(ctx, s.warm); err != nil {
		return err
	}
	began := time.Now()
	before, err := w.count(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, s.watched); err != nil {
		return err
	}
	after, err := w.count(ctx)
	if err != nil {
		return err
	}
	ended := time.Now()
	if err := w.stop(); err != nil {
		return err
	}
	seen, err := w.look(ctx, began, ended)
	if err != nil {
		return err
	}
	if seen.ended == 0 {
		return errors.New("no job has ended")
	}
	r.shifted(s, limit, seen, transactions{after.commits - before.commits, after.rollbacks - before.rollbacks})
	return nil
}

// stop tells all daemons to end, at once.
func (w *watched) stop() error {
	for _, d := range w.daemons {
		if err := d.Signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	for _, d := range w.daemons {
		if err := d.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// seen is what became of the jobs of a fleet.
type seen struct {
	ended       int       // between two times
	interrupted int       // though their daemons were alive
	running     int       // after all daemons had ended
	late        []float64 // nanoseconds from an instant to the beginning of its job, in order
}

// look reads all jobs. A job whose end was lost is one that is marked as
// interrupted, or whose daemon is said to be gone, although its daemon was
// alive.
func (w *watched) look(ctx context.Context, from, to time.Time) (s seen, err error) {
	for j, err := range fleet.Over(w.kept).Jobs(ctx, fleet.JobFilter{}) {
		if err != nil {
			return s, err
		}
		gone := strings.HasSuffix(j.ErrorMessage, "is gone")
		switch {
		case j.Status == tidemark.JobRunning:
			s.running++
		case j.Status == tidemark.JobInterrupted && (gone || j.FinishedAt.Before(to)):
			s.interrupted++
		}
		if j.Status != tidemark.JobPending && !j.FinishedAt.IsZero() && !j.FinishedAt.Before(from) && j.FinishedAt.Before(to) {
			s.ended++
		}
		if j.Status != tidemark.JobPending && !j.Occurrence.IsZero() && !j.StartedAt.Before(from) && j.StartedAt.Before(to) {
			s.late = append(s.late, float64(j.StartedAt.Sub(j.Occurrence)))
		}
	}
	slices.Sort(s.late)
	return s, nil
}

func (r *run) shifted(s shift, limit int, seen seen, n transactions) {
	work := fmt.Sprintf("%d daemons, %d agents every %d to %d s", s.daemons, s.agents, s.every[0], s.every[1])
	if limit > 0 {
		work += fmt.Sprintf(", at most %d at a time", limit)
	}
	each := float64(n.rollbacks) / float64(seen.ended)
	few, none, over := each <= 2, seen.interrupted == 0, seen.running == 0
	r.table.add(row{what: work + ": jobs that ended", value: fmt.Sprint(seen.ended)})
	r.table.add(row{what: work + ": transactions a job", value: number(float64(n.commits+n.rollbacks) / float64(seen.ended))})
	r.table.add(row{goal: "P11", what: work + ": rollbacks a job", value: fmt.Sprintf("%.2f", each), want: want{text: "≤ 2", met: &few}})
	r.table.add(row{goal: "P11", what: work + ": jobs called interrupted that were not", value: fmt.Sprint(seen.interrupted), want: want{text: "0", met: &none}})
	r.table.add(row{goal: "P11", what: work + ": jobs that run after all daemons were told to end", value: fmt.Sprint(seen.running), want: want{text: "0", met: &over}})
	if len(seen.late) == 0 {
		return
	}
	r.table.add(row{what: work + ": a job begins late, p50", time: spread{median: quantile(seen.late, 0.5)}})
	r.table.add(row{goal: "P11", what: work + ": a job begins late, p99", time: spread{median: quantile(seen.late, 0.99)}, want: want{timeAtMost: 1e9}})
}

// quantile is the value below which a given part of some ordered values lies.
func quantile(ordered []float64, part float64) float64 {
	return ordered[min(int(part*float64(len(ordered))), len(ordered)-1)]
}

// idleShift measures what daemons cost a database while nothing is due: without
// a job, and with jobs that wait for an agent that is in no file.
func (r *run) idleShift(ctx context.Context, c *pgtest.Cluster) error {
	s := r.size.shift()
	r.say("%d idle daemons on one database", s.daemons)
	w, err := r.onShift(ctx, c, "idle-shift", "version: 1\nagents:\n  - name: agent\n    runner: command\n    command: [sleep, \"1\"]\n    schedules:\n      - {name: yearly, every: 365d, prompt: go}\n")
	if err != nil {
		return err
	}
	defer w.leave()
	for _, orphans := range []int{0, s.orphans} {
		for range orphans {
			if _, err := fleet.Over(w.kept).AddJob(ctx, tidemark.Job{Agent: "nobody", Trigger: tidemark.TriggerManual, Prompt: "go"}); err != nil {
				return err
			}
		}
		if err := pause(ctx, s.idle/2); err != nil {
			return err
		}
		before, err := w.count(ctx)
		if err != nil {
			return err
		}
		if err := pause(ctx, s.idle); err != nil {
			return err
		}
		after, err := w.count(ctx)
		if err != nil {
			return err
		}
		work := fmt.Sprintf("%d idle daemons: transactions a second", s.daemons)
		if orphans > 0 {
			work = fmt.Sprintf("%d idle daemons, %d jobs of an agent in no file: transactions a second", s.daemons, orphans)
		}
		r.table.add(row{what: work, value: fmt.Sprintf("%.1f", float64(after.commits+after.rollbacks-before.commits-before.rollbacks)/s.idle.Seconds())})
	}
	return w.stop()
}
