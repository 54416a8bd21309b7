package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

var errGone = errors.New("this process is gone")

// lastCall is a store as a process sees it that is killed at one call: before
// its commit or, when late, after it and before it hears of it.
type lastCall struct {
	tidemark.Backend
	left int
	late bool
	end  func() // of all that the process would still try
}

func (b *lastCall) gone() error {
	if b.left--; b.left <= 0 {
		b.end()
		return errGone
	}
	return nil
}

func (b *lastCall) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if err := b.gone(); err != nil {
		return tidemark.Record{}, err
	}
	return b.Backend.Get(ctx, key)
}

func (b *lastCall) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	if err := b.gone(); err != nil {
		return func(yield func(tidemark.Record, error) bool) { yield(tidemark.Record{}, err) }
	}
	return b.Backend.List(ctx, q)
}

func (b *lastCall) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	err := b.gone()
	if err != nil && b.left == 0 && b.late {
		b.Backend.Commit(ctx, batch) // nobody hears how it went
	}
	if err != nil {
		return tidemark.Receipt{}, err
	}
	return b.Backend.Commit(ctx, batch)
}

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// lifeOfAJob is all that a daemon does about one instant of a schedule. It
// returns how many lines of output were acknowledged.
func lifeOfAJob(ctx context.Context, s *fleet.Store) (said int, err error) {
	d, err := s.Schedule(ctx, "coder", "noon")
	if err != nil {
		return 0, err
	}
	if d.NextRunAt.Equal(noon) {
		if _, err := s.ClaimOccurrence(ctx, fleet.Occurrence{Of: d, Jobs: []tidemark.Job{{Trigger: tidemark.TriggerSchedule, Occurrence: noon}},
			Skipped: []fleet.Skipped{{Instant: noon.Add(-time.Hour), Count: 1, Reason: "nobody was there"}}, Next: noon.Add(24 * time.Hour)}); err != nil {
			return 0, err
		}
	}
	due, err := s.DueJobs(ctx, time.Now(), 0)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	r, err := s.StartJob(ctx, due[0].ID, who("dead"), fleet.SlotLimits{Agent: 1, Fleet: 1})
	if err != nil {
		return 0, err
	}
	for ; said < 3; said++ {
		if err := r.Emit(ctx, tidemark.Event{Type: tidemark.EventAssistant, Content: fmt.Sprint(said), Timestamp: noon}); err != nil {
			return said, err
		}
	}
	if err := r.Note(ctx, func(j *tidemark.Job) { j.SessionID = "s1" }); err != nil {
		return said, err
	}
	_, err = r.Finish(ctx, func(j *tidemark.Job) { j.Status, j.ExitReason = tidemark.JobFailed, tidemark.ExitError }, nil,
		&tidemark.Job{Agent: "coder", Schedule: "noon", Trigger: tidemark.TriggerSchedule, Occurrence: noon, Attempt: 2})
	return said, err
}

func TestAKillAtAnyCallLeavesAJobThatTheNextDaemonGoesOnWith(t *testing.T) {
	for _, late := range []bool{false, true} {
		whole := false
		for call := 1; !whole; call++ {
			b := memory.New()
			s := over(b, &store.Options{Dead: func(h tidemark.Holder) bool { return h.Program == "dead" }})
			if _, err := s.PutSchedule(t.Context(), tidemark.Schedule{Agent: "coder", Name: "noon", Status: tidemark.Idle, NextRunAt: noon}); err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			said, err := lifeOfAJob(ctx, over(&lastCall{b, call, late, end}, nil))
			end()
			if whole = err == nil; !whole && !errors.Is(err, errGone) {
				t.Fatalf("call %d: %v", call, err)
			}
			where := fmt.Sprintf("killed at call %d, late %v", call, late)
			afterTheKill(t, s, where, said)
			if call > 1000 {
				t.Fatal("it never comes to its end")
			}
		}
	}
}

// afterTheKill looks at what the next daemon finds, lets it do the rest, and
// looks at that.
func afterTheKill(t *testing.T, s *fleet.Store, where string, said int) {
	t.Helper()
	if _, err := s.Interrupt(t.Context(), fleet.Gone{}); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	for range 3 { // the instant, if nobody took it, and the second attempt
		if _, err := lifeOfAJob(t.Context(), s); err != nil {
			t.Fatalf("%s: the next one: %v", where, err)
		}
	}
	first, lines := 0, 0
	for j, err := range s.Jobs(t.Context(), fleet.JobFilter{}) {
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if j.Attempt <= 1 {
			first++
		}
		if j.Status == tidemark.JobRunning {
			t.Errorf("%s: %s runs for ever", where, j.ID)
		}
		n := 0
		for e, err := range s.Output(t.Context(), j.ID) {
			if err != nil || e.Content != fmt.Sprint(n) {
				t.Errorf("%s: line %d of %s: %+v, %v", where, n, j.ID, e, err)
			}
			n++
		}
		lines = max(lines, n)
	}
	running, err := s.Running(t.Context(), "")
	agents, agentErr := s.Running(t.Context(), "coder")
	skips, skipErr := s.Skips(t.Context(), "coder", "noon", 10)
	if first != 1 || lines < said || len(running)+len(agents) > 0 || len(skips) != 1 || errors.Join(err, agentErr, skipErr) != nil {
		t.Errorf("%s: %d jobs for one instant, %d lines of %d, slots %q and %q, skips %v, %v", where, first, lines, said, running, agents, skips,
			errors.Join(err, agentErr, skipErr))
	}
}

func TestACancelThatComesBeforeTheFirstLookIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		j := addJob(t, s, "coder")
		r := startJob(t, s, j.ID, "daemon", fleet.SlotLimits{})
		if _, err := s.CancelJob(t.Context(), j.ID, who("me")); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		asked := 0
		if err := r.KeepAlive(ctx, func(tidemark.Holder) { asked++ }); err != nil || asked != 1 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	})
}

func TestAJobIsOursOnceItIsStartedEvenIfWeAreToldToStopMeanwhile(t *testing.T) {
	b := memory.New()
	s := over(b, nil)
	j := addJob(t, s, "coder")
	ctx, stop := context.WithCancel(t.Context())
	r, err := over(&stops{b, stop}, nil).StartJob(ctx, j.ID, who("daemon"), fleet.SlotLimits{})
	if err != nil || r == nil {
		t.Fatalf("%v, %v: it runs, and nobody knows", r, err)
	}
}

// stops calls a function with each commit.
type stops struct {
	tidemark.Backend
	stop func()
}

func (b *stops) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	b.stop()
	return b.Backend.Commit(ctx, batch)
}

func TestWhatADeadOwnerLeftIsEndedWhileItsSlotIsTaken(t *testing.T) {
	s := open(t)
	dead, waiting := addJob(t, s, "coder"), addJob(t, s, "coder")
	startJob(t, s, dead.ID, "dead", fleet.SlotLimits{Agent: 1})
	calls := 0
	ended, err := s.Interrupt(t.Context(), fleet.Gone{Before: func(j tidemark.Job) {
		calls++
		if _, err := s.StartJob(t.Context(), waiting.ID, who("daemon"), fleet.SlotLimits{Agent: 1}); j.ID != dead.ID || !errors.Is(err, fleet.ErrBusy) {
			t.Errorf("beside what is left of %s another begins: %v", j.ID, err)
		}
	}})
	if err != nil || calls != 1 || len(ended) != 1 {
		t.Errorf("%d calls, %v, %v", calls, ended, err)
	}
	startJob(t, s, waiting.ID, "daemon", fleet.SlotLimits{Agent: 1})
}
