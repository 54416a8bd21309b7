package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
)

// fleetOn is the fleet of a store over b.
func fleetOn(b tidemark.Backend, o *store.Options) *fleet.Store { return fleet.Over(store.New(b, o)) }

// stage is a fleet whose agents only wait, in simulated time.
type stage struct {
	t       *testing.T
	backend *memory.Backend
	store   *fleet.Store

	mu    sync.Mutex
	began []string // agent and instant of each run
	at    map[string]int
	most  map[string]int
	takes time.Duration
	fails int
}

func newStage(t *testing.T) *stage {
	b := memory.New()
	return &stage{t: t, backend: b, store: fleetOn(b, nil), at: map[string]int{}, most: map[string]int{}, takes: time.Second}
}

func (s *stage) Run(ctx context.Context, t runner.Task) (runner.Outcome, error) {
	s.mu.Lock()
	s.began = append(s.began, fmt.Sprintf("%s %s", t.Agent, time.Now().UTC().Format("15:04:05")))
	s.at[t.Agent]++
	s.most[t.Agent] = max(s.most[t.Agent], s.at[t.Agent])
	fails := s.fails > 0
	s.fails--
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.at[t.Agent]--
		s.mu.Unlock()
	}()
	if err := t.Running(runner.Process{Session: t.Mint}); err != nil {
		return runner.Outcome{ExitReason: tidemark.ExitError}, err
	}
	if err := t.Emit(tidemark.Event{Type: tidemark.EventAssistant, Content: "at work", Timestamp: time.Now()}); err != nil {
		return runner.Outcome{ExitReason: tidemark.ExitError}, err
	}
	select {
	case <-ctx.Done():
		reason := tidemark.ExitCancelled
		if errors.Is(context.Cause(ctx), runner.ErrInterrupted) {
			reason = tidemark.ExitInterrupt
		}
		return runner.Outcome{ExitReason: reason, Session: t.Mint}, context.Cause(ctx)
	case <-time.After(s.takes):
	}
	if fails {
		return runner.Outcome{ExitReason: tidemark.ExitError}, errors.New("it went wrong")
	}
	return runner.Outcome{ExitReason: tidemark.ExitSuccess, Session: t.Mint, Summary: "done"}, nil
}

func (s *stage) daemon(f *file.File, name string) *Daemon {
	return New(Options{Store: fleetOn(s.backend, &store.Options{Dead: func(h tidemark.Holder) bool { return h.Program == "dead" }}),
		Holder: tidemark.Holder{Program: name, PID: 1, Host: name}, File: f, Key: bytes.Repeat([]byte{1}, fleet.KeyBytes), Runner: func(file.Agent) (runner.Runner, error) { return s, nil }})
}

// up runs daemons for a while.
func (s *stage) up(for_ time.Duration, daemons ...*Daemon) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	var wg sync.WaitGroup
	for _, d := range daemons {
		wg.Go(func() {
			if err := d.Run(ctx); err != nil {
				s.t.Error(err)
			}
		})
	}
	time.Sleep(for_)
	stop()
	wg.Wait()
}

func (s *stage) jobs() (all []tidemark.Job) {
	s.t.Helper()
	for j, err := range s.store.Jobs(s.t.Context(), fleet.JobFilter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

func every(agent string, d time.Duration, change func(*file.Schedule)) file.Agent {
	s := file.Schedule{Name: "tick", Type: fleet.TypeInterval, Every: d, Missed: fleet.MissedOnce, Overlap: fleet.OverlapSkip, From: fleet.FromStart, Prompt: "go"}
	if change != nil {
		change(&s)
	}
	return file.Agent{Name: agent, Runner: fleet.RunnerCommand, Limits: file.Limits{MaxConcurrent: 1}, Retries: file.Retries{Attempts: 1, Backoff: time.Second},
		SessionTimeout: time.Hour, RunMode: fleet.RunAutonomous, Schedules: []file.Schedule{s}}
}

// together makes a schedule that is due with all others of its kind, every ten
// seconds.
func together(s *file.Schedule) { s.Type, s.Every, s.Cron = fleet.TypeCron, 0, "*/10 * * * * *" }

func TestDueJobsRunInParallelAndOnceOverTwoDaemons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.takes = 1500 * time.Millisecond
		f := &file.File{Agents: []file.Agent{every("a", 0, together), every("b", 0, together), every("c", 0, together)}}
		s.up(35*time.Second, s.daemon(f, "one"), s.daemon(f, "two"))
		jobs := s.jobs()
		if len(jobs) != 9 {
			t.Errorf("%d jobs in 35 s, want 3 of each agent: %v", len(jobs), s.began)
		}
		seen := map[string]bool{}
		for _, j := range jobs {
			key := j.Agent + j.Occurrence.String()
			if seen[key] || j.Status != tidemark.JobCompleted || j.SessionID == "" {
				t.Errorf("%+v", j)
			}
			seen[key] = true
		}
		slices.Sort(s.began)
		if s.began[0][2:] != s.began[3][2:] || s.began[0][2:] != s.began[6][2:] {
			t.Errorf("not at the same time: %v", s.began)
		}
	})
}

func TestLimitsHoldForSchedulesAndByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.takes = 3 * time.Second
		f := &file.File{Agents: []file.Agent{every("a", 5*time.Second, nil)}}
		for range 4 {
			if _, err := s.store.AddJob(t.Context(), tidemark.Job{Agent: "a", Trigger: tidemark.TriggerManual}); err != nil {
				t.Fatal(err)
			}
		}
		s.up(30*time.Second, s.daemon(f, "one"), s.daemon(f, "two"))
		if s.most["a"] != 1 {
			t.Errorf("%d ran at once", s.most["a"])
		}
	})
}

func TestAnIntervalCanCountFromTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.takes = 3 * time.Second
		f := &file.File{Agents: []file.Agent{every("a", 2*time.Second, func(s *file.Schedule) { s.From = fleet.FromCompletion })}}
		s.up(19*time.Second, s.daemon(f, "one"))
		if n := len(s.began); n < 3 || n > 4 {
			t.Errorf("%d runs of 3 s, each 2 s after the last, in 19 s: %v", n, s.began)
		}
	})
}

func TestAStoppedDaemonLeavesRunsThatCanBeResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.takes = time.Hour
		f := &file.File{Agents: []file.Agent{every("a", 5*time.Second, nil)}}
		s.up(7*time.Second, s.daemon(f, "one"))
		jobs := s.jobs()
		if len(jobs) != 1 || jobs[0].Status != tidemark.JobInterrupted || jobs[0].SessionID == "" {
			t.Errorf("%+v", jobs)
		}
		if running, err := s.store.Running(t.Context(), ""); err != nil || len(running) != 0 {
			t.Errorf("running: %v, %v", running, err)
		}
	})
}

func TestAfterACrashTheScheduleGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		f := &file.File{Agents: []file.Agent{every("a", 10*time.Second, nil)}}
		dead := s.daemon(f, "dead")
		// It dies in the middle of a run: nothing of it is heard again.
		if err := dead.sync(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		due, err := s.store.DueSchedules(t.Context(), time.Now())
		if err != nil || len(due) != 1 {
			t.Fatalf("%v, %v", due, err)
		}
		if err := dead.occur(t.Context(), due[0], time.Now()); err != nil {
			t.Fatal(err)
		}
		waiting, err := s.store.DueJobs(t.Context(), time.Now(), 0)
		if err != nil || len(waiting) != 1 {
			t.Fatalf("%v, %v", waiting, err)
		}
		if _, err := dead.o.Store.StartJob(t.Context(), waiting[0].ID, dead.o.Holder, fleet.SlotLimits{Agent: 1}); err != nil {
			t.Fatal(err)
		}
		s.up(25*time.Second, s.daemon(f, "next"))
		count := map[string]int{}
		for _, j := range s.jobs() {
			count[j.Status]++
		}
		if count[tidemark.JobInterrupted] != 1 || count[tidemark.JobCompleted] < 2 || count[tidemark.JobRunning] != 0 {
			t.Errorf("%v", count)
		}
	})
}

func TestAFailedJobIsTriedAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.fails = 2
		a := file.Agent{Name: "a", Limits: file.Limits{MaxConcurrent: 1}, Retries: file.Retries{Attempts: 3, Backoff: 4 * time.Second}}
		if _, err := s.store.AddJob(t.Context(), tidemark.Job{Agent: "a", Trigger: tidemark.TriggerManual, Prompt: "go"}); err != nil {
			t.Fatal(err)
		}
		s.up(30*time.Second, s.daemon(&file.File{Agents: []file.Agent{a}}, "one"))
		var attempts []string
		for _, j := range s.jobs() {
			attempts = append(attempts, fmt.Sprint(j.Attempt, j.Status))
		}
		slices.Sort(attempts)
		if want := []string{"1failed", "2failed", "3completed"}; !slices.Equal(attempts, want) {
			t.Errorf("%v, want %v", attempts, want)
		}
	})
}

// A schedule that came from herdctl does not say when it is due: its
// configuration did.
func TestAScheduleOfTheFileWinsOverOneThatCameFromElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		past := time.Now().Add(-time.Hour)
		key := s.daemon(&file.File{}, "one").o.Key
		for _, name := range []string{"s", "gone", "odd"} {
			d := tidemark.Schedule{Agent: "ops.auditor", Name: name, Status: tidemark.Idle, NextRunAt: past}
			if name == "odd" { // somebody accepted it
				d.Cron, d.By = "whenever", fleet.ByPerson
				d = key.SignSchedule(d)
			}
			if _, err := s.store.PutSchedule(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		d := s.daemon(&file.File{Agents: []file.Agent{every("ops.auditor", time.Minute, func(s *file.Schedule) { s.Name = "s" })}}, "one")
		var mu sync.Mutex
		var told []string
		d.o.Tell = func(_, text string) {
			if strings.HasPrefix(text, "schedule ") {
				mu.Lock()
				told = append(told, text)
				mu.Unlock()
			}
		}
		s.up(5*time.Minute+time.Second, d)
		if jobs := s.jobs(); len(jobs) != 5 {
			t.Errorf("%d jobs, told %q", len(jobs), told)
		}
		if n := len(told); n != 1 { // of the cron that nobody can read, once
			t.Errorf("told %d times: %.300q", n, told)
		}
	})
}

func TestAReloadKeepsWhatRunsAndWhatWasDisabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.takes = 8 * time.Second
		d := s.daemon(&file.File{Agents: []file.Agent{every("a", 5*time.Second, nil), every("b", 5*time.Second, nil)}}, "one")
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { d.Run(ctx) })
		time.Sleep(6 * time.Second)
		if err := s.store.ChangeSchedule(ctx, "a", "tick", func(s *tidemark.Schedule) error { s.Status = tidemark.Disabled; return nil }); err != nil {
			t.Error(err)
		}
		d.Reload(&file.File{Agents: []file.Agent{every("a", 5*time.Second, nil)}})
		time.Sleep(30 * time.Second)
		stop()
		wg.Wait()
		count := map[string]int{}
		for _, j := range s.jobs() {
			count[j.Agent+" "+j.Status]++
		}
		if count["a completed"] != 1 || count["b completed"] != 1 || len(count) != 2 {
			t.Errorf("%v", count)
		}
		if _, err := s.store.Schedule(t.Context(), "b", "tick"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("the schedule of b: %v", err)
		}
	})
}
