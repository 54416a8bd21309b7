package records

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Holding is a lease that this process holds, or is about to take with its first
// commit. Callers that commit under it lock its mutex from Guard to Renewed: a
// renewal in between would change what Guard requires.
type Holding struct {
	sync.Mutex
	k     *Kernel
	lease Lease
	ended chan struct{}
	// free means that nobody holds the lease, and that what is committed requires
	// just that, and also.
	free   bool
	also   []tidemark.Precondition
	needed []tidemark.Precondition // see needs
	// heard is when the last renewal that was committed began, by the clock that
	// nobody sets. It can be read while a renewal waits for the store.
	heard atomic.Pointer[time.Time]
}

// Hold returns the Holding of a lease. If the lease is not committed yet, only its
// Of and Holder are set, see Taken.
func (k *Kernel) Hold(l Lease) *Holding {
	h := &Holding{k: k, lease: l, ended: make(chan struct{})}
	h.hear(time.Now())
	return h
}

func (h *Holding) hear(at time.Time) { h.heard.Store(&at) }

// Silence is how long the store has not heard of this holder. It never waits.
func (h *Holding) Silence() time.Duration { return time.Since(*h.heard.Load()) }

// HoldFree returns a Holding of a lease that nobody holds, and that existed
// before. What is committed under it requires that nobody has taken the lease
// since it was read, and also. It is never renewed.
func (k *Kernel) HoldFree(l Lease, also ...tidemark.Precondition) *Holding {
	h := k.Hold(l)
	h.free, h.also = true, also
	return h
}

// IsFree reports whether nobody holds the lease, see HoldFree.
func (h *Holding) IsFree() bool { return h.free }

// Lease returns the lease as it was last renewed. The caller has to hold the mutex.
func (h *Holding) Lease() Lease { return h.lease }

// Taken records that the lease was committed. The caller has to hold the mutex.
func (h *Holding) Taken(l Lease) { h.lease = l }

// IsTaken reports whether the lease was ever committed. The caller has to hold the
// mutex.
func (h *Holding) IsTaken() bool { return h.lease.Version > 0 }

// While takes a lease and calls do while it is held. The context of do ends when the lease
// is lost. ErrHeld: somebody else holds it. ErrConflict: somebody else was faster.
func (k *Kernel) While(ctx context.Context, of tidemark.Key, who tidemark.Holder, do func(context.Context) error) error {
	l, b, err := k.Take(ctx, of, who)
	if err != nil {
		return err
	}
	if _, err := k.Commit(ctx, b); err != nil {
		return err
	}
	h := k.Hold(l)
	doing, stop := context.WithCancel(ctx)
	defer stop()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if h.KeepAlive(doing, func() {}, func(err error) bool { return errors.Is(err, tidemark.ErrConflict) }) != nil {
			stop()
		}
	}()
	err = do(doing)
	stop()
	<-kept
	return errors.Join(err, h.Close(context.WithoutCancel(ctx)))
}

// handoverLook is how often a holder checks for handover requests.
const handoverLook = time.Second

// KeepAlive renews the lease whenever it IsOld, until ctx or the Holding ends, or a
// renewal fails with an error for which ends returns true; it returns that error.
// It calls look once a second, or more often if the lease is shorter than 6 s.
func (h *Holding) KeepAlive(ctx context.Context, look func(), ends func(error) bool) error {
	ticker := time.NewTicker(min(handoverLook, h.k.o.Lease/6))
	defer ticker.Stop()
	for {
		look()
		select {
		case <-ctx.Done():
			return nil
		case <-h.ended:
			return nil
		case <-ticker.C:
		}
		if err := h.renewIfOld(ctx); err != nil && ends(err) {
			return err
		}
	}
}

func (h *Holding) renewIfOld(ctx context.Context) error {
	h.Lock()
	defer h.Unlock()
	if h.Ended() || !h.IsTaken() || !h.IsOld() {
		return nil
	}
	return h.Renew(ctx)
}

// IsOld reports whether a third of the lease has passed: renewed that often, a
// lease survives two renewals that fail. The caller has to hold the mutex.
func (h *Holding) IsOld() bool { return !h.free && h.k.Clock().Sub(h.lease.HeardAt) >= h.k.o.Lease/3 }

// Renew renews the lease now: ErrConflict when it is lost. The caller has to hold
// the mutex.
func (h *Holding) Renew(ctx context.Context) error {
	for first := true; ; first = false {
		b, began := tidemark.Batch{At: h.k.Clock()}, time.Now()
		if err := h.Guard(&b, true); err != nil {
			return err
		}
		_, err := h.k.Commit(ctx, b)
		if err == nil {
			h.Renewed()
			h.hear(began)
			return nil
		}
		if !first || !errors.Is(err, tidemark.ErrConflict) || !h.Holds(ctx) {
			return h.Lost(ctx, err)
		}
	}
}

// Guard adds the precondition to b that the lease is still ours, and with renew
// also a renewal. The caller has to hold the mutex.
func (h *Holding) Guard(b *tidemark.Batch, renew bool) error {
	if len(b.Require) == 0 {
		b.Require = h.needs()
	} else {
		b.Require = append(b.Require, h.needs()...)
	}
	if !renew {
		return nil
	}
	r, err := Put(pulseKey(h.lease.Of), h.lease.pulse, h.k.beat())
	b.Puts = append(b.Puts, r)
	return err
}

// needs returns what a batch requires under the lease. The slice is shared by all batches,
// and nothing can be appended to it in place.
func (h *Holding) needs() []tidemark.Precondition {
	if n := h.lease.Need(); len(h.needed) == 0 || h.needed[0] != n {
		h.needed = slices.Clip(append([]tidemark.Precondition{n}, h.also...))
	}
	return h.needed
}

// Renewed records that a renewal was committed. The caller has to hold the mutex.
func (h *Holding) Renewed() {
	h.lease.pulse++
	h.lease.HeardAt = h.k.Clock()
}

// Holds reports whether the lease is still ours, as far as that can be read. The
// caller has to hold the mutex.
func (h *Holding) Holds(ctx context.Context) bool {
	ours, err := h.Ours(ctx)
	return err == nil && ours
}

// Ours is Holds with the error of reading the lease. It also takes over the version
// of the pulse: a renewal with an unknown outcome may have taken effect, and nobody
// else changes the pulse of a lease that is ours.
func (h *Holding) Ours(ctx context.Context) (bool, error) {
	l, err := h.k.Lease(ctx, h.lease.Of)
	if err != nil || !h.IsTaken() || l.Version != h.lease.Version || l.Held == h.free {
		return false, err
	}
	h.lease.pulse = l.pulse
	return true, nil
}

// Renewals is a number that grows with each renewal. The caller has to hold the
// mutex.
func (h *Holding) Renewals() int64 { return h.lease.pulse }

// Lost returns err with an explanation if it is a conflict because the lease is no
// longer ours: it names the present holder. Any other error is returned unchanged.
func (h *Holding) Lost(ctx context.Context, err error) error {
	if !errors.Is(err, tidemark.ErrConflict) {
		return err
	}
	of := h.lease.Of
	l, lookErr := h.k.Lease(ctx, of)
	if lookErr != nil || l.Version == h.lease.Version {
		return err
	}
	if l.Held {
		return tidemark.Conflictf("%s %s: the lease was lost to %s", of.Kind, of.ID, l.Holder)
	}
	return tidemark.Conflictf("%s %s: the lease was released", of.Kind, of.ID)
}

// End ends the Holding without releasing the lease. The caller has to hold the
// mutex, and may call it only once.
func (h *Holding) End() { close(h.ended) }

// Ended reports whether the Holding has ended.
func (h *Holding) Ended() bool {
	select {
	case <-h.ended:
		return true
	default:
		return false
	}
}

// Close ends the Holding and releases the lease. It is no error if the lease is lost
// or was never taken, or if the Holding is closed already.
func (h *Holding) Close(ctx context.Context) error {
	h.Lock()
	defer h.Unlock()
	if h.Ended() {
		return nil
	}
	h.End()
	if !h.IsTaken() || h.free {
		return nil
	}
	err := h.k.Free(ctx, h.lease)
	if errors.Is(err, tidemark.ErrConflict) {
		return nil
	}
	return err
}
