package daemon

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/due"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
)

// Years of a fleet in simulated time. Daemons die in the middle of whatever
// they do, for some time nobody is there, and others come, up to three at once.
// In the end every instant of every schedule has one answer.

var errKilled = errors.New("this process was killed")

// mortal is a store as a process sees it that dies after so many calls: nothing
// of it is heard again.
type mortal struct {
	tidemark.Backend
	died chan struct{}

	mu   sync.Mutex
	left int
	late bool // the last commit is kept, and nobody is told
}

// step reports whether the process dies with this call; the error is that of
// one who is dead.
func (m *mortal) step() (last bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left--; m.left == 0 {
		close(m.died)
	}
	if m.left <= 0 {
		err = errKilled
	}
	return m.left == 0, err
}

func (m *mortal) dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left <= 0
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left > 0 {
		m.left = 0
		close(m.died)
	}
}

func (m *mortal) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if _, err := m.step(); err != nil {
		return tidemark.Record{}, err
	}
	return m.Backend.Get(ctx, key)
}

func (m *mortal) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	if _, err := m.step(); err != nil {
		return func(yield func(tidemark.Record, error) bool) { yield(tidemark.Record{}, err) }
	}
	return m.Backend.List(ctx, q)
}

func (m *mortal) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if _, err := m.step(); err != nil {
		return func(yield func(tidemark.Line, error) bool) { yield(tidemark.Line{}, err) }
	}
	return m.Backend.Lines(ctx, log, spans...)
}

func (m *mortal) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	last, err := m.step()
	if last && m.late {
		m.Backend.Commit(ctx, b) // nobody hears how it went
	}
	if err != nil {
		return tidemark.Receipt{}, err
	}
	return m.Backend.Commit(ctx, b)
}

// world is the years of one fleet.
type world struct {
	t       *testing.T
	r       *rand.Rand // guarded by mu
	backend *memory.Backend
	store   *fleet.Store
	file    *file.File
	end     time.Time

	mu      sync.Mutex
	dead    map[string]bool
	at      map[string]int
	begun   map[string]int
	done    map[string]bool
	old     map[string]tidemark.Job // that have ended and were put away
	deaths  int
	daemons int
}

func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.r.IntN(n)
}

// mortalProcess is what the agents of one daemon are run by: they die with it.
type mortalProcess struct {
	*world
	m      *mortal
	inside map[string]string // its agents by job, guarded by mu; nil when it is dead
}

func (p *mortalProcess) Run(ctx context.Context, t runner.Task) (runner.Outcome, error) {
	if !p.enter(t) {
		return runner.Outcome{ExitReason: tidemark.ExitError}, errKilled
	}
	defer p.leave(t.Job)
	if err := t.Running(runner.Process{Session: t.Mint}); err != nil {
		return runner.Outcome{ExitReason: tidemark.ExitError}, err
	}
	takes := []time.Duration{time.Second, 5 * time.Second, 20 * time.Second, 70 * time.Second, 150 * time.Second}[p.draw(5)]
	select {
	case <-p.m.died:
		return runner.Outcome{ExitReason: tidemark.ExitError}, errKilled
	case <-ctx.Done():
		return runner.Outcome{ExitReason: tidemark.ExitCancelled}, context.Cause(ctx)
	case <-time.After(takes):
	}
	if err := t.Emit(tidemark.Event{Type: tidemark.EventAssistant, Content: "done", Timestamp: time.Now()}); err != nil {
		return runner.Outcome{ExitReason: tidemark.ExitError}, err
	}
	if p.draw(8) == 0 {
		return runner.Outcome{ExitReason: tidemark.ExitError}, errors.New("it went wrong")
	}
	p.mu.Lock()
	p.done[t.Job] = true
	p.mu.Unlock()
	return runner.Outcome{ExitReason: tidemark.ExitSuccess}, nil
}

// enter looks at the limits at each instant at which they could be broken.
func (p *mortalProcess) enter(t runner.Task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inside == nil {
		return false
	}
	p.inside[t.Job] = t.Agent
	p.at[t.Agent]++
	p.at[""]++
	p.begun[t.Job]++
	limit := 0
	for _, a := range p.file.Agents {
		if a.Name == t.Agent {
			limit = a.Limits.MaxConcurrent
		}
	}
	if p.at[t.Agent] > limit || p.at[""] > p.file.Limits.MaxConcurrent || p.begun[t.Job] > 1 {
		p.t.Errorf("%s: %s of %s begins for time %d: %d of it and %d in all run", time.Now().UTC(), t.Job, t.Agent, p.begun[t.Job], p.at[t.Agent], p.at[""])
	}
	return true
}

func (p *mortalProcess) leave(job string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if agent, ok := p.inside[job]; ok {
		delete(p.inside, job)
		p.at[agent]--
		p.at[""]--
	}
}

// die makes the process one that is known to be dead, with all of its agents.
func (p *mortalProcess) die(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, agent := range p.inside {
		p.at[agent]--
		p.at[""]--
	}
	p.inside = nil
	p.dead[name] = true
	p.deaths++
}

// daemon starts a process that dies after so many calls of its store.
func (w *world) daemon(calls int) (*Daemon, *mortal) {
	w.mu.Lock()
	w.daemons++
	name := fmt.Sprint("daemon", w.daemons)
	w.mu.Unlock()
	m := &mortal{Backend: w.backend, died: make(chan struct{}), left: calls, late: calls%2 == 0}
	p := &mortalProcess{world: w, m: m, inside: map[string]string{}}
	s := fleetOn(m, &store.Options{Dead: func(h tidemark.Holder) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.dead[h.Program]
	}})
	d := New(Options{Store: s, Holder: tidemark.Holder{Program: name, PID: 1, Host: "here"}, File: w.file,
		Runner: func(file.Agent) (runner.Runner, error) { return p, nil }})
	go func() {
		<-m.died
		p.die(name)
		d.giveUp() // the dead do not try again
	}()
	return d, m
}

// live lets one daemon work until it dies or the years are over. It looks as
// Run does, but sleeps while nothing is due: that is all that Run's pace adds.
func (w *world) live(d *Daemon, m *mortal) {
	for !m.dead() && time.Now().Before(w.end) {
		d.sweep(w.t.Context(), time.Now()) // the error is its death
		d.round(w.t.Context(), time.Now()) // here, too
		select {
		case <-m.died:
		case <-d.wake:
		case <-time.After(w.pause()):
		}
	}
}

// pause is how long nothing happens, give or take.
func (w *world) pause() time.Duration {
	now, next := time.Now(), time.Now().Add(30*24*time.Hour)
	ctx := w.t.Context()
	running, err := w.store.Running(ctx, "")
	if err != nil {
		w.t.Error(err)
	}
	waiting, err := w.store.DueJobs(ctx, now.Add(time.Hour), 1)
	if err != nil {
		w.t.Error(err)
	}
	if len(running)+len(waiting) > 0 {
		return time.Duration(1+w.draw(20)) * time.Second
	}
	for s, err := range w.store.Schedules(ctx, "") {
		if err != nil {
			w.t.Error(err)
		} else if s.NextRunAt.Before(next) {
			next = s.NextRunAt
		}
	}
	return max(next.Sub(now), 0) + time.Duration(w.draw(3000))*time.Millisecond
}

// lane is the place of one daemon after the other, with times between them in
// which it is empty.
func (w *world) lane() {
	for time.Now().Before(w.end) {
		d, m := w.daemon(100 + w.draw(6000))
		w.live(d, m)
		m.kill()
		switch w.draw(4) {
		case 0:
			time.Sleep(time.Duration(w.draw(4*24*60)) * time.Minute)
		case 1:
			time.Sleep(time.Duration(w.draw(300)) * time.Second)
		}
	}
}

// putAway takes what has ended out of the store now and then, as people do.
func (w *world) putAway() {
	ctx := w.t.Context()
	for time.Now().Before(w.end) {
		time.Sleep(5 * 24 * time.Hour)
		for r, err := range w.backend.List(ctx, tidemark.Query{Kind: "job"}) {
			j, jobErr := w.store.Job(ctx, r.ID)
			if err != nil || jobErr != nil {
				w.t.Error(err, jobErr)
				return
			}
			if j.Status == tidemark.JobPending || j.Status == tidemark.JobRunning {
				continue
			}
			b := tidemark.Batch{ID: "away-" + r.ID, At: time.Now().UTC(), Deletes: []tidemark.Precondition{{Key: r.Key, Version: r.Version}}, Drops: []tidemark.Key{r.Key}}
			if _, err := w.backend.Commit(ctx, b); err != nil {
				w.t.Error(err)
				return
			}
			w.old[j.ID] = j
		}
	}
}

// settle lets a last daemon do what is left.
func (w *world) settle() {
	d, m := w.daemon(1 << 40)
	ctx := w.t.Context()
	for {
		_, err := d.round(ctx, w.end)
		if err := errors.Join(d.sweep(ctx, time.Now()), err); err != nil {
			w.t.Fatal(err)
		}
		d.wg.Wait()
		pending, err := w.store.DueJobs(ctx, time.Now().Add(time.Hour), 1)
		due, dueErr := w.store.DueSchedules(ctx, w.end)
		if err := errors.Join(err, dueErr); err != nil {
			w.t.Fatal(err)
		}
		if len(pending)+len(due) == 0 {
			break
		}
		time.Sleep(10 * time.Second)
		for _, j := range pending { // it came after the end, or waits for its time
			if err := d.start(ctx, j); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	m.kill()
	synctest.Wait()
}

// account finds the one answer of each instant.
func (w *world) account() (instants int) {
	ctx := w.t.Context()
	ran := map[string]map[int64]int{}
	attempts := map[string]bool{}
	for j, err := range w.store.Jobs(ctx, fleet.JobFilter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		w.old[j.ID] = j
	}
	for _, j := range w.old {
		key := fmt.Sprint(j.Agent, " ", j.Schedule, " ", j.Occurrence.UnixMilli(), " ", max(j.Attempt, 1))
		if attempts[key] || j.Status == tidemark.JobRunning || j.Status == tidemark.JobPending || j.Status == tidemark.JobCompleted && !w.done[j.ID] {
			w.t.Errorf("%s is twice, or has not ended as it says: %+v", key, j)
		}
		attempts[key] = true
		if ran[j.Agent] == nil {
			ran[j.Agent] = map[int64]int{}
		}
		if j.Attempt <= 1 {
			ran[j.Agent][j.Occurrence.UnixMilli()]++
		}
	}
	book := new(due.Book)
	for s, err := range w.store.Schedules(ctx, "") {
		if err != nil {
			w.t.Fatal(err)
		}
		skips, err := w.store.Skips(ctx, s.Agent, s.Name, 1<<30)
		if err != nil {
			w.t.Fatal(err)
		}
		if s.From == fleet.FromCompletion {
			if len(ran[s.Agent]) < 10 {
				w.t.Errorf("%s ran %d times in years", s.Agent, len(ran[s.Agent]))
			}
			continue // it has no instants of its own
		}
		instants += w.grid(book, s, ran[s.Agent], skips)
	}
	return instants
}

func (w *world) grid(book *due.Book, s tidemark.Schedule, ran map[int64]int, skips []fleet.Skipped) (n int) {
	inside := make([]int64, len(skips))
	for at := s.CreatedAt; ; n++ {
		var err error
		if at, err = book.Next(timingOf(s), idOf(s), at); err != nil {
			w.t.Fatal(err)
		}
		if !at.Before(s.NextRunAt) {
			break
		}
		answers := ran[at.UnixMilli()]
		delete(ran, at.UnixMilli())
		for i, skip := range skips {
			if !at.Before(skip.Instant) && !at.After(later(skip.Until, skip.Instant)) {
				answers++
				inside[i]++
			}
		}
		if answers != 1 {
			w.t.Errorf("%s: %s has %d answers", s.Agent, at, answers)
		}
	}
	for i, skip := range skips {
		if inside[i] != skip.Count || skip.Reason == "" {
			w.t.Errorf("%s: %+v, and there are %d", s.Agent, skip, inside[i])
		}
	}
	if len(ran) > 0 || !s.SettledAt.IsZero() {
		w.t.Errorf("%s: %d runs that no instant asks for; %+v", s.Agent, len(ran), s)
	}
	return n
}

// yearsFile is a fleet with schedules of many kinds in many zones.
// yearsZones put their clocks forward and back at different times, by an hour
// or half of one, or leave out a day.
var yearsZones = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia",
	"America/Sao_Paulo", "Africa/Casablanca", "America/St_Johns", "Pacific/Chatham", "Asia/Tehran", "Antarctica/Troll", "Africa/Cairo", "America/Havana"}

func yearsFile(r *rand.Rand) *file.File {
	f := &file.File{Limits: file.FleetLimits{MaxConcurrent: 4}}
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	for i, cron := range []string{"30 2 * * *", "0 3 * * 0", "*/20 1-3 * * 6", "15 9,17 * * MON-FRI", "0 0 1 * *", "59 59 23 * * 3", "@weekly", "", ""} {
		a := every(fmt.Sprint("agent", i), time.Duration(20+r.IntN(100))*time.Hour, func(s *file.Schedule) {
			s.Missed, s.Overlap = pick(fleet.MissedSkip, fleet.MissedOnce, fleet.MissedAll), pick(fleet.OverlapSkip, fleet.OverlapQueue, fleet.OverlapReplace)
			switch {
			case cron != "":
				s.Type, s.Every, s.Cron, s.Zone = fleet.TypeCron, 0, cron, pick(yearsZones...)
			case i%2 == 0:
				s.From = fleet.FromCompletion
			}
			s.Jitter = time.Duration(r.IntN(3)) * 10 * time.Minute
		})
		a.Limits.MaxConcurrent = 1 + i%2
		a.Retries = file.Retries{Attempts: 1 + i%3, Backoff: 10 * time.Second}
		f.Agents = append(f.Agents, a)
	}
	// One that is due again before it has ended, on a day of each month.
	f.Agents = append(f.Agents, every("busy", 4*time.Hour, func(s *file.Schedule) {
		s.Type, s.Every, s.Cron, s.Overlap, s.Missed = fleet.TypeCron, 0, "* 12 1 * *", pick(fleet.OverlapSkip, fleet.OverlapQueue, fleet.OverlapReplace), pick(fleet.MissedSkip, fleet.MissedOnce, fleet.MissedAll)
	}))
	return f
}

// years is how many are simulated: a few here, as many as TIDEMARK_YEARS says
// in long runs.
func years(t *testing.T) uint64 {
	t.Helper()
	s := os.Getenv("TIDEMARK_YEARS")
	if s == "" {
		return 3
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatalf("TIDEMARK_YEARS: %v", err)
	}
	return n
}

func TestYearsOfSchedulesWithDaemonsThatAreKilled(t *testing.T) {
	for seed := range years(t) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 6))
				time.Sleep(time.Duration(r.IntN(30*365*24)) * time.Hour) // to another year
				b := memory.New()
				w := &world{t: t, r: r, backend: b, store: fleetOn(b, nil), file: yearsFile(r), end: time.Now().Add(366 * 24 * time.Hour),
					dead: map[string]bool{}, at: map[string]int{}, begun: map[string]int{}, done: map[string]bool{}, old: map[string]tidemark.Job{}}
				var wg sync.WaitGroup
				for range 1 + seed%3 {
					wg.Go(w.lane)
				}
				wg.Go(w.putAway)
				wg.Wait()
				w.settle()
				n := w.account()
				t.Logf("%d instants, %d runs, %d daemons, %d died", n, len(w.begun), w.daemons, w.deaths)
			})
		})
	}
}
