package records_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

var (
	ada   = tidemark.Holder{Program: "chat", Host: "ada", PID: 1}
	bob   = tidemark.Holder{Program: "editor", Host: "bob", PID: 2}
	aTask = tidemark.Key{Kind: "task", ID: "7f3a"}
)

func newKernel(t *testing.T, o records.Options) *records.Kernel {
	t.Helper()
	b := memory.New()
	t.Cleanup(func() { b.Close() })
	return records.New(b, o)
}

// take takes the lease of a key and commits it.
func take(t *testing.T, k *records.Kernel, of tidemark.Key, who tidemark.Holder) *records.Holding {
	t.Helper()
	h, err := tryTake(t.Context(), k, of, who)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func tryTake(ctx context.Context, k *records.Kernel, of tidemark.Key, who tidemark.Holder) (*records.Holding, error) {
	l, b, err := k.Take(ctx, of, who)
	if err != nil {
		return nil, err
	}
	if _, err := k.Commit(ctx, b); err != nil {
		return nil, err
	}
	return k.Hold(l), nil
}

func leaseOf(t *testing.T, k *records.Kernel, of tidemark.Key) records.Lease {
	t.Helper()
	l, err := k.Lease(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// renew renews a lease that is held, as KeepAlive does.
func renew(ctx context.Context, h *records.Holding) error {
	h.Lock()
	defer h.Unlock()
	return h.Renew(ctx)
}

// write commits a record under the lease, as whoever holds it does.
func write(ctx context.Context, k *records.Kernel, h *records.Holding, id string) error {
	h.Lock()
	defer h.Unlock()
	r, err := records.Put(tidemark.Key{Kind: "thing", ID: id}, 0, id)
	if err != nil {
		return err
	}
	b := tidemark.Batch{Puts: []tidemark.Record{r}}
	if err := h.Guard(&b, true); err != nil {
		return err
	}
	if _, err := k.Commit(ctx, b); err != nil {
		return h.Lost(ctx, err)
	}
	h.Renewed()
	return nil
}

func TestALeaseIsTakenByOne(t *testing.T) {
	k := newKernel(t, records.Options{})
	if l := leaseOf(t, k, aTask); l.Held || l.Living() || l.Version != 0 {
		t.Errorf("what nobody ever held has the lease %+v", l)
	}
	take(t, k, aTask, ada)
	_, err := tryTake(t.Context(), k, aTask, bob)
	var held *records.HeldError
	if !errors.As(err, &held) || !errors.Is(err, tidemark.ErrHeld) || held.Lease.Holder != ada || held.Lease.Of != aTask {
		t.Errorf("another's Take = %v, want ErrHeld that names %v and %v", err, ada, aTask)
	}
	take(t, k, tidemark.Key{Kind: "task", ID: "another"}, bob) // of its own key
	var ids []string
	for l, err := range k.Leases(t.Context(), "task") {
		if err != nil || l.Of.Kind != "task" {
			t.Errorf("%+v, %v", l, err)
		}
		ids = append(ids, l.Of.ID)
	}
	if len(ids) != 2 {
		t.Errorf("the leases of %q are held, want two", ids)
	}
}

func TestOfTwoWhoTakeAtOnceOneLoses(t *testing.T) {
	k := newKernel(t, records.Options{})
	_, first, err := k.Take(t.Context(), aTask, ada)
	if err != nil {
		t.Fatal(err)
	}
	take(t, k, aTask, bob)
	if _, err := k.Commit(t.Context(), first); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("the slower Commit = %v, want ErrConflict", err)
	}
	if l := leaseOf(t, k, aTask); l.Holder != bob {
		t.Errorf("%v holds it, want %v", l.Holder, bob)
	}
}

func TestALeaseThatIsRenewedOutlastsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(t, records.Options{})
		h := take(t, k, aTask, ada)
		version := h.Lease().Version
		for range 5 {
			time.Sleep(records.DefaultLease - time.Second)
			if err := renew(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
		if l := leaseOf(t, k, aTask); !l.Living() || l.Version != version || h.Renewals() != 6 {
			t.Errorf("after 5 renewals: %+v, renewals %d", l, h.Renewals())
		}
	})
}

func TestASilentHolderLosesItsLeaseAndCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(t, records.Options{})
		silent := take(t, k, aTask, ada)
		time.Sleep(records.DefaultLease)
		if _, err := tryTake(t.Context(), k, aTask, bob); !errors.Is(err, tidemark.ErrHeld) {
			t.Errorf("Take at the last instant = %v, want ErrHeld", err)
		}
		time.Sleep(time.Millisecond)
		if l := leaseOf(t, k, aTask); !l.Expired || l.Living() || !l.Held {
			t.Errorf("the lease of a silent holder: %+v", l)
		}
		next := take(t, k, aTask, bob)
		if next.Lease().Version <= silent.Lease().Version {
			t.Errorf("fencing tokens %d and %d", silent.Lease().Version, next.Lease().Version)
		}
		lost := tidemark.Conflictf("task 7f3a: the lease was lost to %s", bob)
		for what, err := range map[string]error{"Renew": renew(t.Context(), silent), "a write": write(t.Context(), k, silent, "late")} {
			if !errors.Is(err, tidemark.ErrConflict) || err.Error() != lost.Error() {
				t.Errorf("%s of the old holder = %v, want %v", what, err, lost)
			}
		}
		if err := silent.Close(t.Context()); err != nil {
			t.Errorf("closing what is lost = %v", err)
		}
		if err := write(t.Context(), k, next, "early"); err != nil {
			t.Errorf("a write of the new holder = %v", err)
		}
	})
}

// Who is heard while another judges keeps its lease.
func TestAHolderThatIsHeardInTheMeantimeKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(t, records.Options{})
		h := take(t, k, aTask, ada)
		time.Sleep(records.DefaultLease + time.Second)
		_, takeover, err := k.Take(t.Context(), aTask, bob)
		if err != nil {
			t.Fatal(err)
		}
		if err := renew(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Commit(t.Context(), takeover); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("the takeover = %v, want ErrConflict", err)
		}
		if l := leaseOf(t, k, aTask); l.Holder != ada || !l.Living() {
			t.Errorf("the lease is %+v", l)
		}
	})
}

func TestWhoIsDeadLosesItsLeaseAtOnce(t *testing.T) {
	k := newKernel(t, records.Options{Dead: func(h tidemark.Holder) bool { return h == ada }})
	take(t, k, aTask, ada)
	if l := leaseOf(t, k, aTask); !l.Dead || l.Living() {
		t.Errorf("the lease of a dead holder: %+v", l)
	}
	take(t, k, aTask, bob)
}

// A renewal whose answer was lost counts, and the next write is not taken for
// one that lost the lease.
func TestARenewalOfUnknownOutcomeLosesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cut{Backend: settled(t), commit: func() (bool, bool) { return true, true }}
		k := records.New(c, records.Options{})
		h := take(t, k, aTask, ada)
		c.commit, c.get = func() (bool, bool) { return true, false }, errors.New("away")
		if err := renew(t.Context(), h); !errors.Is(err, tidemark.ErrUnknown) {
			t.Fatalf("Renew = %v, want ErrUnknown", err)
		}
		c.commit, c.get = func() (bool, bool) { return true, true }, nil
		if err := renew(t.Context(), h); err != nil {
			t.Errorf("the next Renew = %v", err)
		}
	})
}

func TestKeepAliveRenewsUntilTheLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(t, records.Options{})
		h := take(t, k, aTask, ada)
		looks, ended := 0, make(chan error, 1)
		go func() {
			ended <- h.KeepAlive(t.Context(), func() { looks++ }, func(err error) bool { return errors.Is(err, tidemark.ErrConflict) })
		}()
		time.Sleep(10 * records.DefaultLease)
		synctest.Wait()
		if l := leaseOf(t, k, aTask); !l.Living() || looks < 299 {
			t.Errorf("after ten leases: %+v, %d looks", l, looks)
		}
		if err := k.Release(t.Context(), aTask, true); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, tidemark.ErrConflict) || err.Error() != tidemark.Conflictf("task 7f3a: the lease was released").Error() {
			t.Errorf("KeepAlive = %v, want that the lease was released", err)
		}
	})
}

func TestKeepAliveEndsWithItsHolding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(t, records.Options{})
		h := take(t, k, aTask, ada)
		ended := make(chan error, 1)
		go func() { ended <- h.KeepAlive(t.Context(), func() {}, func(error) bool { return true }) }()
		synctest.Wait()
		for range 2 { // closing twice is no error
			if err := h.Close(t.Context()); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		if err := <-ended; err != nil || !h.Ended() {
			t.Errorf("KeepAlive = %v, ended %v", err, h.Ended())
		}
		if l := leaseOf(t, k, aTask); l.Held {
			t.Errorf("it is held after Close: %+v", l)
		}
	})
}

func TestALeaseIsReleasedWhenItsHolderIsSilentOrByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(t, records.Options{})
		if err := k.Release(t.Context(), aTask, false); err != nil {
			t.Errorf("Release of what nobody holds = %v", err)
		}
		take(t, k, aTask, ada)
		if err := k.Release(t.Context(), aTask, false); !errors.Is(err, tidemark.ErrHeld) {
			t.Errorf("Release of a living holder = %v, want ErrHeld", err)
		}
		if err := k.Release(t.Context(), aTask, true); err != nil || leaseOf(t, k, aTask).Held {
			t.Errorf("Release by force = %v, the lease is %+v", err, leaseOf(t, k, aTask))
		}
		take(t, k, aTask, bob)
		time.Sleep(records.DefaultLease + time.Second)
		if err := k.Release(t.Context(), aTask, false); err != nil || leaseOf(t, k, aTask).Held {
			t.Errorf("Release of a silent holder = %v", err)
		}
	})
}

// Freed goes into the batch that ends the work, so that both are there or
// neither; it keeps the fencing token growing.
func TestAFreedLeaseIsTakenByTheNextWithAHigherToken(t *testing.T) {
	k := newKernel(t, records.Options{})
	h := take(t, k, aTask, ada)
	freed, err := records.Freed(h.Lease())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Commit(t.Context(), tidemark.Batch{Puts: []tidemark.Record{freed}}); err != nil {
		t.Fatal(err)
	}
	if l := leaseOf(t, k, aTask); l.Held || l.Holder != ada || l.Version != h.Lease().Version+1 {
		t.Errorf("the freed lease is %+v", l)
	}
	for l, err := range k.Leases(t.Context(), "task") {
		t.Errorf("a freed lease is listed as held: %+v, %v", l, err)
	}
	if _, err := k.Commit(t.Context(), tidemark.Batch{Puts: []tidemark.Record{freed}}); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("freed twice = %v, want ErrConflict", err)
	}
	if next := take(t, k, aTask, bob); next.Lease().Version <= freed.Version {
		t.Errorf("the next token is %d after %d", next.Lease().Version, freed.Version)
	}
	if err := renew(t.Context(), h); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("Renew of who gave it up = %v, want ErrConflict", err)
	}
}

func TestAHolderIsAskedToHandOverAndDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(t, records.Options{})
		h := take(t, k, aTask, ada)
		if _, r, err := k.Handover(t.Context(), aTask); r.Version != 0 || err != nil {
			t.Errorf("a request before anybody asked: %+v, %v", r, err)
		}
		wanted := make(chan tidemark.Holder, 1)
		go h.KeepAlive(t.Context(), func() {
			if q, r, err := k.Handover(t.Context(), aTask); err == nil && r.Version > 0 {
				select {
				case wanted <- q.From:
				default:
				}
			}
		}, func(error) bool { return true })
		if err := k.RequestHandover(t.Context(), aTask, bob); err != nil {
			t.Fatal(err)
		}
		if from := <-wanted; from != bob {
			t.Errorf("%v wants it, want %v", from, bob)
		}
		if _, err := tryTake(t.Context(), k, aTask, bob); !errors.Is(err, tidemark.ErrHeld) {
			t.Errorf("Take of who only asked = %v, want ErrHeld", err)
		}
		if err := h.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		take(t, k, aTask, bob)
	})
}

func TestNothingOfAForgottenLeaseStays(t *testing.T) {
	b := settled(t)
	k := records.New(b, records.Options{})
	take(t, k, aTask, ada)
	if err := k.RequestHandover(t.Context(), aTask, bob); err != nil {
		t.Fatal(err)
	}
	deletes, err := k.Forget(t.Context(), leaseOf(t, k, aTask))
	if err != nil || len(deletes) != 3 {
		t.Fatalf("Forget = %v, %v", deletes, err)
	}
	if _, err := k.Commit(t.Context(), tidemark.Batch{Deletes: deletes}); err != nil {
		t.Fatal(err)
	}
	for key, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if key.ID == aTask.ID || err != nil {
			t.Errorf("%s stays, %v", key, err)
		}
	}
}

// Who brings what was changed elsewhere writes old times, and its lease lives
// by the clock all the same.
func TestALeaseGoesByTheClockWhateverTimeIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(t, records.Options{})
		old := k.Clock().AddDate(-3, 0, 0)
		importing := k.ChangedAt(func() time.Time { return old }, func(tidemark.Batch) {}, func(*tidemark.Batch) {})
		h := take(t, importing, aTask, ada)
		if _, err := tryTake(t.Context(), k, aTask, bob); !errors.Is(err, tidemark.ErrHeld) {
			t.Errorf("Take beside an import = %v, want ErrHeld", err)
		}
		if err := write(t.Context(), importing, h, "old"); err != nil {
			t.Fatal(err)
		}
		if l := leaseOf(t, k, aTask); !l.Living() {
			t.Errorf("the lease of an import: %+v", l)
		}
		r, err := k.Get(t.Context(), tidemark.Key{Kind: "thing", ID: "old"}, new(string))
		if err != nil || !r.UpdatedAt.Equal(old) {
			t.Errorf("what was imported is of %v, %v; want %v", r.UpdatedAt, err, old)
		}
	})
}

// What batches require under a lease is kept for the next one, and is its own all the same.
func TestWhatABatchRequiresIsNotChangedByTheNext(t *testing.T) {
	k := newKernel(t, records.Options{})
	h := take(t, k, aTask, ada)
	h.Lock()
	defer h.Unlock()
	guard := func(b tidemark.Batch) tidemark.Batch {
		if err := h.Guard(&b, false); err != nil {
			t.Fatal(err)
		}
		return b
	}
	own := tidemark.Precondition{Key: tidemark.Key{Kind: "thing", ID: "own"}, Version: 7}
	first, second := guard(tidemark.Batch{}), guard(tidemark.Batch{})
	first.Require = append(first.Require, own)
	second.Require = append(second.Require, tidemark.Precondition{Key: own.Key, Version: 8})
	if first.Require[1] != own {
		t.Errorf("the first batch requires %v, want %v", first.Require[1], own)
	}
	if third := guard(tidemark.Batch{Require: []tidemark.Precondition{own}}); len(third.Require) != 2 || third.Require[0] != own || third.Require[1] != first.Require[0] {
		t.Errorf("with one of its own it requires %v", third.Require)
	}
	l := h.Lease()
	l.Version++
	h.Taken(l)
	if next := guard(tidemark.Batch{}); len(next.Require) != 1 || next.Require[0] != l.Need() {
		t.Errorf("after the lease was taken again it requires %v, want %v", next.Require, l.Need())
	}
}
