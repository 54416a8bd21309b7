package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
)

// What herdctl 1.5.28 takes for the same, its best figures: on a machine of 2
// cores with ext4 and node 20, apart from the runs of this program. It cannot
// be installed from everywhere, so it is not measured again.
const (
	herdctl       = "herdctl 1.5.28 (2 cores, ext4, node 20; measured apart)"
	herdctlJobs   = 4.4e9 // herdctl jobs with 5,002 jobs of 2 KB
	herdctlLogs   = 1.7e9 // herdctl logs -n 50 of 100,000 lines
	herdctlAppend = 90e3  // a line of 243 bytes, without a sync
	herdctlTick   = 5.1e9 // of CPU, nothing due of 200 schedules
)

// herded is the size of the fleet part.
type herded struct {
	jobs      []int // kept in a store
	lines     int   // of the log of one job
	schedules []int
	ticks     int // per repetition
	started   int // jobs per repetition
}

// herded derives it from the size of the rest.
func (s size) herded() herded {
	switch {
	case s.reps >= full.reps:
		return herded{jobs: []int{5_000, 100_000}, lines: 100_000, schedules: []int{20, 1_000, 10_000}, ticks: 100, started: 400}
	case s.reps >= small.reps:
		return herded{jobs: []int{5_000, 20_000}, lines: 100_000, schedules: []int{20, 1_000, 10_000}, ticks: 50, started: 100}
	}
	return herded{jobs: []int{50, 100}, lines: 100, schedules: []int{2, 20}, ticks: 2, started: 4}
}

// herding measures a fleet: its lists and logs as processes, its daemon in
// process and as one.
func (r *run) herding(ctx context.Context) error {
	h := r.size.herded()
	for _, measure := range []func(context.Context, herded) error{r.herdLists, r.herdLogs, r.herdAppends, r.herdTicks, r.herdStarts, r.herdIdle} {
		if err := measure(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// beside adds a row compared with herdctl.
func (r *run) beside(w row, theirs float64) {
	w.against, w.faster = "herdctl, as above", true
	w.ratio = spread{theirs / w.time.median, theirs / w.time.high, theirs / w.time.low}
	r.table.add(w)
}

// pastJob is a job that has ended, with a prompt and a summary of 1 KB each.
func pastJob(i int) tidemark.Job {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Minute)
	return tidemark.Job{ID: fmt.Sprintf("job-%s-%06d", at.Format(time.DateOnly), i), Agent: fmt.Sprintf("agent-%d", i%20), Schedule: "hourly",
		Trigger: tidemark.TriggerSchedule, Status: tidemark.JobCompleted, ExitReason: tidemark.ExitSuccess, StartedAt: at, FinishedAt: at.Add(30 * time.Second),
		DurationSeconds: 30, Prompt: strings.Repeat(words[i%len(words)]+" ", 1000/(len(words[i%len(words)])+1)),
		Summary: strings.Repeat(words[(i+1)%len(words)]+" ", 1000/(len(words[(i+1)%len(words)])+1))}
}

// makers is the number of goroutines that fill a store.
const makers = 64

// inParallel does something n times, with several goroutines.
func inParallel(n int, do func(i int) error) error {
	var wait sync.WaitGroup
	errs := make([]error, makers)
	for m := range makers {
		wait.Go(func() {
			for i := m; i < n && errs[m] == nil; i += makers {
				errs[m] = do(i)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// herdLists measures tidemark jobs.
func (r *run) herdLists(ctx context.Context, h herded) error {
	if !r.hasProgram() {
		return nil
	}
	n := r.size.processes
	contenders := []contender{{"version", times(n, func() error { return r.start(ctx, nil, "version") })}}
	var names []string
	for _, backend := range []string{inFiles, inSQLite, sealed + inSQLite} {
		for _, jobs := range h.jobs {
			if backend == inFiles && jobs != h.jobs[0] {
				continue
			}
			p, err := r.kept(ctx, backend, short(jobs)+" jobs", func(p *place) error {
				return inParallel(jobs, func(i int) error {
					_, err := fleet.Over(p).PutJob(ctx, pastJob(i))
					return err
				})
			})
			if err != nil {
				return err
			}
			newest, all := fmt.Sprintf("tidemark jobs, the newest 50 of %s: %s", short(jobs), backend), fmt.Sprintf("tidemark jobs -n 0, all %s: %s", short(jobs), backend)
			names = append(names, newest, all)
			contenders = append(contenders, contender{newest, times(n, func() error { return r.start(ctx, p, "jobs") })},
				contender{all, times(n, func() error { return r.start(ctx, p, "jobs", "-n", "0") })})
		}
	}
	if err := r.closeKept(); err != nil {
		return err
	}
	r.say("lists of jobs")
	s, err := r.compareTimes(ctx, r.size.moves, contenders...)
	if err != nil {
		return err
	}
	r.table.add(row{what: "process: tidemark version", time: s.time("version")})
	r.table.add(row{what: "process: herdctl jobs, 5,002 jobs: " + herdctl, time: spread{median: herdctlJobs}})
	most := map[bool]float64{false: 20e6, true: 100e6} // the newest, all
	for _, name := range names {
		w := row{what: "process: " + name, time: s.time(name)}
		if !strings.Contains(name, short(h.jobs[0])+":") {
			r.table.add(w)
			continue
		}
		if h.jobs[0] == 5_000 {
			w.goal, w.want = "P11", want{timeAtMost: most[strings.Contains(name, "-n 0")]}
		}
		r.beside(w, herdctlJobs)
	}
	return nil
}

// event is some 240 bytes as a line.
func event(i int) tidemark.Event {
	return tidemark.Event{Type: tidemark.EventAssistant, Timestamp: time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Millisecond),
		Content: fmt.Sprintf("line %d of the log of a job, about %q, %s", i, words[i%len(words)], strings.Repeat("and so on ", 11))}
}

// herdLogs measures tidemark logs of a job that said much.
func (r *run) herdLogs(ctx context.Context, h herded) error {
	if !r.hasProgram() {
		return nil
	}
	job := pastJob(1)
	var contenders []contender
	backends := []string{inFiles, inSQLite, sealed + inSQLite}
	for _, backend := range backends {
		p, err := r.kept(ctx, backend, short(h.lines)+" lines", func(p *place) error {
			if _, err := fleet.Over(p).PutJob(ctx, job); err != nil {
				return err
			}
			for from := 0; from < h.lines; from += stride {
				var batch []tidemark.Event
				for i := from; i < min(from+stride, h.lines); i++ {
					batch = append(batch, event(i))
				}
				if err := fleet.Over(p).AppendOutput(ctx, job.ID, int64(from), batch...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		contenders = append(contenders, contender{backend, times(r.size.processes, func() error { return r.start(ctx, p, "logs", job.ID, "-n", "50") })})
	}
	if err := r.closeKept(); err != nil {
		return err
	}
	r.say("logs of a job")
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.table.add(row{what: "process: herdctl logs -n 50, 100,000 lines: " + herdctl, time: spread{median: herdctlLogs}})
	for _, backend := range backends {
		r.beside(row{goal: "P11", what: fmt.Sprintf("process: tidemark logs -n 50, %s lines: %s", short(h.lines), backend),
			time: s.time(backend), want: want{timeAtMost: 20e6}}, herdctlLogs)
	}
	return nil
}

// herdAppends measures how long it takes to keep an event of a running job.
func (r *run) herdAppends(ctx context.Context, _ herded) error {
	r.say("appends of events")
	dir := filepath.Join(r.dir, "plain")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	line, err := json.Marshal(event(1))
	if err != nil {
		return err
	}
	contenders, err := plainContenders(dir, 1, r.size.appends, append(line, '\n'))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, backend := range durable {
		p, err := r.open(ctx, backend, "events")
		if err != nil {
			return err
		}
		defer p.leave()
		job, err := fleet.Over(p).AddJob(ctx, tidemark.Job{Agent: "a", Trigger: tidemark.TriggerManual})
		if err != nil {
			return err
		}
		work, err := fleet.Over(p).StartJob(ctx, job.ID, p.who, fleet.SlotLimits{})
		if err != nil {
			return err
		}
		go work.KeepAlive(ctx, func(tidemark.Holder) {}) // its end is the next append's error
		said := 0
		contenders = append(contenders, contender{backend, times(r.size.appends, func() error {
			said++
			return work.Emit(ctx, event(said))
		})})
	}
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.table.add(row{what: "append an event of 240 bytes: " + plainEach, time: s.time(plainEach)})
	r.table.add(row{what: "append a line of 243 bytes, without a sync: " + herdctl, time: spread{median: herdctlAppend}})
	for _, backend := range durable {
		r.table.add(row{goal: "P11", what: "append an event to a job that runs: " + backend, time: s.time(backend), against: plainEach, ratio: s.ratio(backend, plainEach)})
	}
	return nil
}

// idleAgents are the agents of fleets whose schedules are not due.
const idleAgents = 20

func idleFile() *file.File {
	f := &file.File{}
	for i := range idleAgents {
		f.Agents = append(f.Agents, file.Agent{Name: fmt.Sprintf("agent-%d", i), Runner: fleet.RunnerCommand, Limits: file.Limits{MaxConcurrent: 1},
			Retries: file.Retries{Attempts: 1}, RunMode: fleet.RunAutonomous})
	}
	return f
}

// rounds is the Dispatch of an observed daemon: it signals the end of each
// round.
type rounds struct {
	s    *fleet.Store
	done chan struct{}
}

func (rounds) Added(context.Context, []tidemark.Job) error { return nil }

func (d rounds) HandOut(ctx context.Context, now time.Time, _ func(context.Context, tidemark.Job) error) error {
	_, err := d.s.DueJobs(ctx, now, 500)
	d.done <- struct{}{}
	return err
}

// herdTicks measures what a daemon does every second while nothing is due. Its
// clock advances by a second per round, so that it also looks for dead owners
// as often as it would.
func (r *run) herdTicks(ctx context.Context, h herded) error {
	if cpuTime() == 0 {
		r.table.skip("an idle tick: this system does not tell what a process computed")
		return nil
	}
	var contenders []contender
	name := func(backend string, n int) string { return fmt.Sprintf("%s schedules: %s", short(n), backend) }
	for _, backend := range durable {
		for _, n := range h.schedules {
			p, err := r.kept(ctx, backend, short(n)+" schedules", func(p *place) error { return idleSchedules(ctx, p, n) })
			if err != nil {
				return err
			}
			tick, stop, err := r.ticking(ctx, p)
			if err != nil {
				return err
			}
			defer stop()
			contenders = append(contenders, contender{name(backend, n), func() (sample, error) {
				begin := cpuTime()
				for range h.ticks {
					if err := tick(); err != nil {
						return sample{}, err
					}
				}
				return sample{each: float64(cpuTime()-begin) / float64(h.ticks)}, nil
			}})
		}
	}
	r.say("idle ticks")
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.table.add(row{what: "CPU of an idle tick, 200 schedules: " + herdctl, time: spread{median: herdctlTick}})
	for _, backend := range durable {
		for _, n := range h.schedules {
			w := row{goal: "P11", what: "CPU of an idle tick, " + name(backend, n), time: s.time(name(backend, n))}
			if n == 10_000 {
				w.want = want{timeAtMost: 1e6}
			}
			if n < 200 {
				r.table.add(w)
				continue
			}
			r.beside(w, herdctlTick)
		}
	}
	return nil
}

// idleSchedules makes schedules that are due in a year.
func idleSchedules(ctx context.Context, p *place, n int) error {
	now := time.Now().UTC().Truncate(time.Second)
	return inParallel(n, func(i int) error {
		_, err := fleet.Over(p).PutSchedule(ctx, tidemark.Schedule{Agent: fmt.Sprintf("agent-%d", i%idleAgents), Name: fmt.Sprintf("s%d", i), Status: tidemark.Idle,
			Type: fleet.TypeInterval, Every: "8760h0m0s", Missed: fleet.MissedOnce, Overlap: fleet.OverlapSkip, From: fleet.FromStart, By: fleet.ByPerson,
			CreatedAt: now, NextRunAt: now.AddDate(1, 0, 0)})
		return err
	})
}

// ticking starts a daemon and returns a function that makes it run one round.
func (r *run) ticking(ctx context.Context, p *place) (tick func() error, stop func(), err error) {
	var seconds atomic.Int64
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	d := rounds{fleet.Over(p), make(chan struct{})}
	daemon := daemon.New(daemon.Options{Store: fleet.Over(p), Holder: p.who, File: idleFile(), Dispatch: d,
		Now:    func() time.Time { return began.Add(time.Duration(seconds.Load()) * time.Second) },
		Runner: func(file.Agent) (runner.Runner, error) { return atOnce{}, nil }})
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx) }()
	tick = func() error {
		seconds.Add(1)
		daemon.Wake()
		select {
		case <-d.done:
			return nil
		case err := <-ended:
			return fmt.Errorf("the daemon ended: %w", err)
		}
	}
	stop = func() {
		cancel()
		for {
			select {
			case <-d.done: // a last round
			case <-ended:
				return
			}
		}
	}
	return tick, stop, tick() // the first tick loads the file
}

// atOnce is a runner whose agents have nothing to do.
type atOnce struct{ begun func() }

func (a atOnce) Run(_ context.Context, t runner.Task) (runner.Outcome, error) {
	if a.begun != nil {
		a.begun()
	}
	return runner.Outcome{ExitReason: tidemark.ExitSuccess, Session: t.Mint}, nil
}

// herdStarts measures how many waiting jobs a daemon starts, and ends.
func (r *run) herdStarts(ctx context.Context, h herded) error {
	r.say("starts of jobs")
	var contenders []contender
	limits := map[string]int{"": 0, ", 4 at a time": 4}
	for _, backend := range durable {
		for name, limit := range limits {
			p, err := r.open(ctx, backend, fmt.Sprint("starts-", limit))
			if err != nil {
				return err
			}
			defer p.leave()
			jobs := h.started
			if backend == inFiles {
				jobs = max(jobs/4, 1) // it searches all jobs for those that wait
			}
			contenders = append(contenders, contender{backend + name, func() (sample, error) { return p.startJobs(ctx, jobs, limit) }})
		}
	}
	s, err := r.compareTimes(ctx, r.size.moves, contenders...)
	if err != nil {
		return err
	}
	for _, backend := range durable {
		for _, name := range []string{"", ", 4 at a time"} {
			t := s.time(backend + name)
			met := t.median <= 1e9/500
			r.table.add(row{goal: "P11", what: "start a job that waits: " + backend + name, time: t, want: want{text: "≥ 500 a second", met: &met}})
		}
	}
	return nil
}

// startJobs lets a daemon start n waiting jobs, whose agents finish at once.
func (p *place) startJobs(ctx context.Context, n, limit int) (sample, error) {
	f := idleFile()
	for i := range f.Agents {
		f.Agents[i].Limits.MaxConcurrent = n
	}
	f.Limits.MaxConcurrent = limit
	err := inParallel(n, func(i int) error {
		_, err := fleet.Over(p).AddJob(ctx, tidemark.Job{Agent: f.Agents[i%idleAgents].Name, Trigger: tidemark.TriggerManual, Prompt: "go"})
		return err
	})
	if err != nil {
		return sample{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var begun atomic.Int64
	all := make(chan struct{})
	count := atOnce{func() {
		if begun.Add(1) == int64(n) {
			close(all)
		}
	}}
	d := daemon.New(daemon.Options{Store: fleet.Over(p), Holder: p.who, File: f, Runner: func(file.Agent) (runner.Runner, error) { return count, nil }})
	ended := make(chan error, 1)
	begin := time.Now()
	go func() { ended <- d.Run(ctx) }()
	select {
	case <-all:
	case err := <-ended:
		return sample{}, fmt.Errorf("the daemon ended: %w", err)
	}
	took := time.Since(begin)
	stop()
	return sample{each: float64(took) / float64(n)}, <-ended
}

// herdIdle measures the memory of a daemon that waits.
func (r *run) herdIdle(ctx context.Context, _ herded) error {
	if !r.hasProgram() {
		return nil
	}
	r.say("an idle daemon")
	var file strings.Builder
	file.WriteString("version: 1\nagents:\n")
	for i := range idleAgents {
		fmt.Fprintf(&file, "  - name: agent-%d\n    provider: demo\n    schedules:\n      - {name: yearly, every: 365d, prompt: go}\n", i)
	}
	p, err := r.open(ctx, sealed+inSQLite, "idle")
	if err != nil {
		return err
	}
	defer p.leave()
	if err := p.close(); err != nil {
		return err
	}
	path := filepath.Join(p.dir, "fleet.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return err
	}
	cmd := r.commandOf(ctx, r.program, p, "fleet", "up", "--file", path)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	if err := r.untilKnown(ctx, p, fmt.Sprintf("agent-%d", idleAgents-1)); err != nil {
		return fmt.Errorf("tidemark fleet up: %w", err)
	}
	// A few more rounds, in which it also looks for dead owners.
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.size.settle()):
	}
	resident := residentBytes(cmd.Process.Pid)
	if resident == 0 {
		r.table.skip("memory of an idle daemon: this system does not tell")
		return nil
	}
	met := resident <= 50<<20
	r.table.add(row{goal: "P11", what: fmt.Sprintf("memory of an idle tidemark fleet up, %d schedules: %s", idleAgents, sealed+inSQLite),
		value: megabytes(resident), want: want{text: "≤ 50 MB", met: &met}})
	return nil
}

// settle is how long an idle daemon is left alone before it is measured.
func (s size) settle() time.Duration {
	if s.reps < small.reps {
		return time.Second
	}
	return 8 * time.Second
}

// untilKnown waits until a daemon has published an agent's schedules.
func (r *run) untilKnown(ctx context.Context, p *place, agent string) error {
	for range 200 {
		if out, err := r.commandOf(ctx, r.program, p, "schedules", "--json").Output(); err == nil && strings.Contains(string(out), `"`+agent+`"`) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("it does not know %s after ten seconds", agent)
}
