package fleet_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

// weather is a store as one process sees it: what happens at a call is up to the
// test.
type weather struct {
	tidemark.Backend
	get    func() error
	commit func(ctx context.Context, b tidemark.Batch) error // nil: the commit goes through
}

func (w *weather) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if w.get != nil {
		if err := w.get(); err != nil {
			return tidemark.Record{}, err
		}
	}
	return w.Backend.Get(ctx, key)
}

func (w *weather) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if w.commit != nil {
		if err := w.commit(ctx, b); err != nil {
			return tidemark.Receipt{}, err
		}
	}
	return w.Backend.Commit(ctx, b)
}

// ends reports whether a batch ends a job.
func ends(b tidemark.Batch) bool {
	for _, d := range b.Deletes {
		if d.Kind == "lease" {
			return true
		}
	}
	return false
}

func completed(j *tidemark.Job) { j.Status, j.ExitReason = tidemark.JobCompleted, tidemark.ExitSuccess }

// finishing runs a job to its end on one store, and has another process look
// for owners that are gone every five seconds.
func finishing(t *testing.T, w *weather) tidemark.Job {
	t.Helper()
	s, other := over(w, nil), over(w.Backend, nil)
	j := addJob(t, other, "coder")
	r := startJob(t, s, j.ID, "daemon", fleet.SlotLimits{Agent: 1, Fleet: 1})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := other.Interrupt(ctx, fleet.Gone{}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		}
	}()
	_, err := r.Finish(t.Context(), completed, func(a *tidemark.Agent, j tidemark.Job) { a.LastJob = j.ID }, nil)
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if running, err := other.Running(t.Context(), ""); err != nil || len(running) > 0 {
		t.Errorf("still running: %q, %v", running, err)
	}
	return statusOf(t, other, j.ID)
}

func TestTheEndOfAJobIsNotGivenUpWhileOthersAreInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(10 * time.Minute) // twenty leases
		w := &weather{Backend: memory.New()}
		others := over(w.Backend, nil)
		met := 0
		w.commit = func(ctx context.Context, b tidemark.Batch) error {
			if ends(b) && time.Now().Before(until) {
				met++
				_, err := others.PutAgent(ctx, tidemark.Agent{Name: "coder", Status: tidemark.Idle, LastJob: time.Now().String()})
				return err
			}
			return nil
		}
		if j := finishing(t, w); j.Status != tidemark.JobCompleted || met < 200 {
			t.Errorf("after %d conflicts it is %s: %s", met, j.Status, j.ErrorMessage)
		}
	})
}

func TestTheEndOfAJobWaitsForAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(15 * time.Second) // less than a lease
		away := func() error {
			if time.Now().Before(until) {
				return tidemark.Storagef("the database is away")
			}
			return nil
		}
		w := &weather{Backend: memory.New()}
		w.commit = func(_ context.Context, b tidemark.Batch) error {
			if !ends(b) {
				return nil
			}
			return away()
		}
		if j := finishing(t, w); j.Status != tidemark.JobCompleted {
			t.Errorf("it is %s: %s", j.Status, j.ErrorMessage)
		}
	})
}

func TestAnEndThatWasKeptUnheardIsAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &weather{Backend: memory.New()}
		deaf := false
		w.get = func() error {
			if deaf {
				deaf = false
				return tidemark.Storagef("the connection is gone")
			}
			return nil
		}
		w.commit = func(ctx context.Context, b tidemark.Batch) error {
			if !ends(b) {
				return nil
			}
			w.commit, deaf = nil, true
			if _, err := w.Backend.Commit(ctx, b); err != nil {
				t.Error(err)
			}
			return tidemark.ErrUnknown
		}
		if j := finishing(t, w); j.Status != tidemark.JobCompleted {
			t.Errorf("it is %s: %s", j.Status, j.ErrorMessage)
		}
	})
}

func TestAStartThatWasKeptUnheardIsAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &weather{Backend: memory.New()}
		deaf := 0
		w.get = func() error {
			if deaf > 0 {
				deaf--
				return tidemark.Storagef("the connection is gone")
			}
			return nil
		}
		s := over(w, nil)
		j := addJob(t, s, "coder")
		w.commit = func(ctx context.Context, b tidemark.Batch) error {
			w.commit, deaf = nil, 20
			if _, err := w.Backend.Commit(ctx, b); err != nil {
				t.Error(err)
			}
			return tidemark.ErrUnknown
		}
		r := startJob(t, s, j.ID, "daemon", fleet.SlotLimits{Agent: 1})
		if _, err := r.Finish(t.Context(), completed, nil, nil); err != nil {
			t.Fatal(err)
		}
		if got := statusOf(t, s, j.ID); got.Status != tidemark.JobCompleted {
			t.Errorf("it is %s", got.Status)
		}
	})
}

func TestAnEndIsGivenUpWhenTheProcessIsToldToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &weather{Backend: memory.New()}
		s := over(w, &store.Options{Dead: func(tidemark.Holder) bool { return true }})
		j := addJob(t, s, "coder")
		r := startJob(t, s, j.ID, "daemon", fleet.SlotLimits{})
		away := tidemark.Storagef("the disk is full")
		w.commit = func(context.Context, tidemark.Batch) error { return away }
		var told error
		r.Delayed = func(err error) { told = err }
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := r.Finish(ctx, completed, nil, nil); !errors.Is(err, tidemark.ErrStorage) || !errors.Is(told, tidemark.ErrStorage) {
			t.Errorf("Finish = %v, told %v", err, told)
		}
		w.commit = nil
		if ended, err := s.Interrupt(t.Context(), fleet.Gone{}); err != nil || len(ended) != 1 || ended[0].Status != tidemark.JobInterrupted {
			t.Errorf("a successor finds %v, %v", ended, err)
		}
	})
}

func TestOneDamagedJobKeepsNoOtherFromItsEnd(t *testing.T) {
	b := memory.New()
	s := over(b, &store.Options{Dead: func(tidemark.Holder) bool { return true }})
	bad, good := addJob(t, s, "coder"), addJob(t, s, "writer")
	for _, j := range []tidemark.Job{bad, good} {
		startJob(t, s, j.ID, "gone", fleet.SlotLimits{})
	}
	key := tidemark.Key{Kind: "job", ID: bad.ID}
	old, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	harmed := tidemark.Record{Key: key, Version: old.Version + 1, State: tidemark.JobRunning, Body: []byte("{")}
	harmed.Sum = harmed.Checksum()
	if _, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Puts: []tidemark.Record{harmed}}); err != nil {
		t.Fatal(err)
	}
	ended, err := s.Interrupt(t.Context(), fleet.Gone{})
	if len(ended) != 1 || ended[0].ID != good.ID || !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("interrupted %v, %v", ended, err)
	}
}
