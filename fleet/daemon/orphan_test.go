package daemon

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
)

func waiting(t *testing.T, s *stage, agent string) string {
	t.Helper()
	j, err := s.store.AddJob(t.Context(), tidemark.Job{Agent: agent, Trigger: tidemark.TriggerManual})
	if err != nil {
		t.Fatal(err)
	}
	return j.ID
}

// known is a daemon that said that it is there.
func (s *stage) known(f *file.File, name string) *Daemon {
	s.t.Helper()
	d := s.daemon(f, name)
	if err := d.o.Store.AddDaemon(s.t.Context(), fleet.Daemon{Holder: d.o.Holder}); err != nil {
		s.t.Fatal(err)
	}
	return d
}

func statusIs(t *testing.T, s *stage, id, status string) tidemark.Job {
	t.Helper()
	j, err := s.store.Job(t.Context(), id)
	if err != nil || j.Status != status {
		t.Errorf("%s of %s is %s, %v, want %s", id, j.Agent, j.Status, err, status)
	}
	return j
}

func TestAJobOfAnAgentInNoFileIsAbandonedAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		old := waiting(t, s, "gone")
		time.Sleep(48 * time.Hour) // no fleet is up: it waits
		f := &file.File{Agents: []file.Agent{every("a", time.Hour, nil)}}
		one := s.known(f, "one")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- one.Run(ctx) }()
		time.Sleep(9 * time.Minute)
		statusIs(t, s, old, tidemark.JobPending)
		young := waiting(t, s, "gone")
		time.Sleep(2 * time.Minute)
		if j := statusIs(t, s, old, tidemark.JobAbandoned); !strings.Contains(j.ErrorMessage, "agent gone was in no file") || j.FinishedAt.IsZero() {
			t.Errorf("%+v", j)
		}
		statusIs(t, s, young, tidemark.JobPending)
		time.Sleep(9 * time.Minute)
		statusIs(t, s, young, tidemark.JobAbandoned)
		stop()
		<-done
	})
}

func TestAJobWaitsForAnAgentThatAnotherDaemonHasOrThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		busy := every("there", time.Hour, nil)
		one, two := s.known(&file.File{Agents: []file.Agent{every("a", time.Hour, nil)}}, "one"), s.known(&file.File{Agents: []file.Agent{busy}}, "two")
		s.takes = 30 * time.Minute // the second waits for the first
		first := waiting(t, s, "there")
		time.Sleep(time.Second) // so that it waits longer
		second, third := waiting(t, s, "there"), waiting(t, s, "back")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 2)
		for _, d := range []*Daemon{one, two} {
			go func() { done <- d.Run(ctx) }()
		}
		time.Sleep(9 * time.Minute)
		one.Reload(&file.File{Agents: []file.Agent{every("a", time.Hour, nil), every("back", time.Hour, nil)}})
		time.Sleep(20 * time.Minute)
		statusIs(t, s, first, tidemark.JobRunning)
		statusIs(t, s, second, tidemark.JobPending)
		statusIs(t, s, third, tidemark.JobRunning)
		stop()
		<-done
		<-done
	})
}

// writes counts the commits of a store.
type writes struct {
	tidemark.Backend
	n atomic.Int64
}

func (w *writes) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	w.n.Add(1)
	return w.Backend.Commit(ctx, b)
}

func TestJobsThatNobodyCanRunCostNoCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := func(orphans int) int64 {
			s := newStage(t)
			for range orphans {
				waiting(t, s, "gone")
			}
			w := &writes{Backend: s.backend}
			d := New(Options{Store: fleetOn(w, nil), Holder: tidemark.Holder{Program: "one", PID: 1, Host: "one"},
				File: &file.File{Agents: []file.Agent{every("a", 24*time.Hour, nil)}}, Runner: func(file.Agent) (runner.Runner, error) { return s, nil }})
			s.up(8*time.Minute, d)
			return w.n.Load()
		}
		if none, some := count(0), count(50); some > none {
			t.Errorf("%d commits with 50 such jobs, %d without", some, none)
		}
	})
}

// slowEnd is a program that takes its time to end.
type slowEnd struct{ *stage }

func (s slowEnd) Run(ctx context.Context, t runner.Task) (runner.Outcome, error) {
	<-ctx.Done()
	time.Sleep(29 * time.Second)
	return runner.Outcome{ExitReason: tidemark.ExitInterrupt, Session: t.Mint}, context.Cause(ctx)
}

func TestALeaseIsKeptUntilTheEndOfAProgramThatTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		id := waiting(t, s, "a")
		one, two := s.daemon(&file.File{Agents: []file.Agent{every("a", 24*time.Hour, nil)}}, "one"), s.daemon(&file.File{Agents: []file.Agent{every("b", 24*time.Hour, nil)}}, "two")
		one.o.Runner = func(file.Agent) (runner.Runner, error) { return slowEnd{s}, nil }
		ctx, stop := context.WithCancel(t.Context())
		go two.Run(ctx)
		s.up(9*time.Second, one) // just before its lease is renewed
		if j := statusIs(t, s, id, tidemark.JobInterrupted); strings.Contains(j.ErrorMessage, "is gone") {
			t.Errorf("it was taken for dead: %s", j.ErrorMessage)
		}
		stop()
	})
}
