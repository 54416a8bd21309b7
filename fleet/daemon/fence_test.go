package daemon

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
)

// cable is a store at the other end of a network. Cut, every call fails.
type cable struct {
	tidemark.Backend
	cut atomic.Bool
}

func (c *cable) try() error {
	if !c.cut.Load() {
		return nil
	}
	return tidemark.Errorf(tidemark.ErrStorage, "the network is cut")
}

func (c *cable) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if err := c.try(); err != nil {
		return tidemark.Receipt{}, err
	}
	return c.Backend.Commit(ctx, b)
}

func (c *cable) Get(ctx context.Context, k tidemark.Key) (tidemark.Record, error) {
	if err := c.try(); err != nil {
		return tidemark.Record{}, err
	}
	return c.Backend.Get(ctx, k)
}

func (c *cable) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	if err := c.try(); err != nil {
		return func(yield func(tidemark.Record, error) bool) { yield(tidemark.Record{}, err) }
	}
	return c.Backend.List(ctx, q)
}

func (c *cable) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if err := c.try(); err != nil {
		return func(yield func(tidemark.Line, error) bool) { yield(tidemark.Line{}, err) }
	}
	return c.Backend.Lines(ctx, log, spans...)
}

// spans runs a program that takes an hour, and knows when it ran where.
type spans struct {
	mu  sync.Mutex
	all []span
}

type span struct {
	host     string
	from, to time.Time
}

func (s *spans) on(host string) runner.Runner {
	return runs(func(ctx context.Context, t runner.Task) (runner.Outcome, error) {
		s.mu.Lock()
		i := len(s.all)
		s.all = append(s.all, span{host: host, from: time.Now()})
		s.mu.Unlock()
		if err := t.Running(runner.Process{Session: t.Mint}); err != nil {
			return runner.Outcome{ExitReason: tidemark.ExitError}, err
		}
		out, err := runner.Outcome{ExitReason: tidemark.ExitSuccess, Session: t.Mint}, error(nil)
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
			time.Sleep(100 * time.Millisecond) // it ends when it likes
			out.ExitReason, err = tidemark.ExitCancelled, context.Cause(ctx)
			if errors.Is(err, runner.ErrInterrupted) {
				out.ExitReason = tidemark.ExitInterrupt
			}
		}
		s.mu.Lock()
		s.all[i].to = time.Now()
		s.mu.Unlock()
		return out, err
	})
}

type runs func(context.Context, runner.Task) (runner.Outcome, error)

func (r runs) Run(ctx context.Context, t runner.Task) (runner.Outcome, error) { return r(ctx, t) }

// fencing is a fleet of two machines, one of them behind a cable.
type fencing struct {
	*stage
	file  *file.File
	spans spans
	cable *cable
	lease time.Duration
}

func newFencing(t *testing.T, r file.Retries) *fencing {
	s := newStage(t)
	a := every("a", time.Hour, nil)
	a.Schedules, a.Retries = nil, r
	f := &fencing{stage: s, file: &file.File{Agents: []file.Agent{a}}, cable: &cable{Backend: s.backend}}
	if _, err := s.store.AddJob(t.Context(), tidemark.Job{Agent: "a", Trigger: tidemark.TriggerManual, Prompt: "go"}); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fencing) on(host string, b tidemark.Backend) *Daemon {
	return New(Options{Store: fleetOn(b, &store.Options{Lease: f.lease, Dead: func(h tidemark.Holder) bool { return h.Program == "dead" }}), Holder: tidemark.Holder{Program: host, PID: 1, Host: host},
		File: f.file, Key: bytes.Repeat([]byte{1}, fleet.KeyBytes), Runner: func(file.Agent) (runner.Runner, error) { return f.spans.on(host), nil }})
}

// begin has a daemon run until end is called.
func (f *fencing) begin(d *Daemon) (end func()) {
	ctx, stop := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return func() {
		f.t.Helper()
		stop()
		if err := <-done; err != nil && !errors.Is(err, tidemark.ErrStorage) {
			f.t.Error(err)
		}
	}
}

// job returns the job of an attempt.
func (f *fencing) job(attempt int) (j tidemark.Job) {
	for _, one := range f.jobs() {
		if max(one.Attempt, 1) == attempt {
			j = one
		}
	}
	return j
}

// until waits for a state.
func (f *fencing) until(what string, is func() bool) {
	f.t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("%s: %+v", what, f.jobs())
		}
	}
}

// ran returns where it ran, and when.
func (f *fencing) ran() []span {
	f.spans.mu.Lock()
	defer f.spans.mu.Unlock()
	return slices.Clone(f.spans.all)
}

// These two take real time: the end of a job is tried again and again under the lock
// that its lease is renewed under, and simulated time stands still while anybody waits
// for a lock.

func TestASilentOwnerIsFencedBeforeTheJobIsTriedAgain(t *testing.T) {
	t.Parallel()
	const fence = 3 * time.Second
	f := newFencing(t, file.Retries{Attempts: 3, Backoff: time.Millisecond, Interrupted: true, Fence: fence})
	f.lease = 2 * time.Second
	endFar := f.begin(f.on("far", f.cable))
	f.until("it does not begin", func() bool { return len(f.ran()) == 1 })
	f.cable.cut.Store(true)
	cut := time.Now()
	endNear := f.begin(f.on("near", f.backend))
	f.until("nobody notices", func() bool { return f.job(1).Status == tidemark.JobInterrupted })
	first, second := f.job(1), f.job(2)
	if first.RunsUntil.Before(cut.Add(fence)) || !strings.Contains(first.ErrorMessage, "may run on there until") {
		t.Errorf("the first attempt: %+v", first)
	}
	if second.NotBefore.Before(first.RunsUntil) || second.SessionID != first.SessionID {
		t.Errorf("the second attempt: %+v after %+v", second, first)
	}
	f.until("it is not tried again", func() bool { return len(f.ran()) == 2 })
	if all := f.ran(); all[0].host != "far" || all[1].host != "near" || all[0].to.IsZero() || !all[1].from.After(all[0].to) {
		t.Errorf("ran %+v", all)
	}
	f.cable.cut.Store(false)
	endFar()
	if second := f.job(2); second.Status != tidemark.JobRunning || len(f.jobs()) != 2 {
		t.Errorf("after the network is back: %+v of %d jobs", second, len(f.jobs()))
	}
	endNear()
	if len(f.jobs()) != 2 || f.job(2).Status != tidemark.JobInterrupted {
		t.Errorf("what fleet down interrupted was tried again: %+v", f.jobs())
	}
}

func TestAnOwnerThatIsFencedAndComesBackTriesAgainItself(t *testing.T) {
	t.Parallel()
	f := newFencing(t, file.Retries{Attempts: 2, Backoff: time.Millisecond, Interrupted: true, Fence: time.Second})
	end := f.begin(f.on("far", f.cable))
	f.until("it does not begin", func() bool { return len(f.ran()) == 1 })
	f.cable.cut.Store(true)
	f.until("it runs on without the store", func() bool { return !f.ran()[0].to.IsZero() })
	f.cable.cut.Store(false)
	f.until("it is not tried again", func() bool { return len(f.ran()) == 2 && f.job(2).Status == tidemark.JobRunning })
	if first := f.job(1); first.Status != tidemark.JobInterrupted || !strings.Contains(first.ErrorMessage, "the store was away") {
		t.Errorf("%+v", first)
	}
	end()
}

func TestAJobOfADeadOwnerIsTriedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFencing(t, file.Retries{Attempts: 2, Backoff: 10 * time.Second, Interrupted: true, Fence: time.Hour})
		began := time.Now()
		if _, err := f.store.StartJob(t.Context(), f.job(1).ID, tidemark.Holder{Program: "dead", PID: 1, Host: "near"}, fleet.SlotLimits{}); err != nil {
			t.Fatal(err)
		}
		end := f.begin(f.on("near", f.backend))
		time.Sleep(time.Minute)
		first, second := f.job(1), f.job(2)
		if first.Status != tidemark.JobInterrupted || !first.RunsUntil.IsZero() || second.Status != tidemark.JobRunning || second.StartedAt.Sub(began) > 30*time.Second {
			t.Errorf("%+v\n%+v", first, second)
		}
		end()
	})
}

func TestWithoutAPolicyWhatIsInterruptedStaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFencing(t, file.Retries{Attempts: 3, Backoff: time.Second})
		endFar := f.begin(f.on("far", f.cable))
		time.Sleep(time.Minute)
		f.cable.cut.Store(true)
		endNear := f.begin(f.on("near", f.backend))
		time.Sleep(10 * time.Minute)
		if j := f.job(1); len(f.jobs()) != 1 || j.Status != tidemark.JobInterrupted || !j.RunsUntil.IsZero() || !strings.HasSuffix(j.ErrorMessage, "its program may still run there") {
			t.Errorf("%+v", f.jobs())
		}
		f.spans.mu.Lock()
		if all := f.spans.all; len(all) != 1 || !all[0].to.IsZero() {
			t.Errorf("a program without a policy was ended: %+v", all)
		}
		f.spans.mu.Unlock()
		f.cable.cut.Store(false)
		endFar()
		endNear()
	})
}
