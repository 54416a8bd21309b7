package records

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Holding is a lease that this process holds, or is about to take with its
// first commit. Its mutex is for whoever commits under it, from Guard to
// Renewed: a renewal in between would change what Guard requires.
type Holding struct {
	sync.Mutex
	k     *Kernel
	lease Lease
	ended chan struct{}
}

// Hold returns the Holding of a lease: one that was committed, or one of which
// only Of and Holder are known, see Taken.
func (k *Kernel) Hold(l Lease) *Holding { return &Holding{k: k, lease: l, ended: make(chan struct{})} }

// Lease is the lease as it was last renewed. The caller has the mutex.
func (h *Holding) Lease() Lease { return h.lease }

// Taken notes that the lease was committed. The caller has the mutex.
func (h *Holding) Taken(l Lease) { h.lease = l }

// IsTaken reports whether the lease was ever committed. The caller has the
// mutex.
func (h *Holding) IsTaken() bool { return h.lease.Version > 0 }

// handoverLook is how often a holder looks whether somebody wants its lease.
const handoverLook = time.Second

// KeepAlive renews the lease until ctx ends, the Holding ends, or a renewal
// fails with an error that ends says so of; it returns that error. Before each
// renewal it calls look.
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

// IsOld reports whether a third of the lease has passed, so that two missed
// chances to renew it do not lose it. The caller has the mutex.
func (h *Holding) IsOld() bool { return h.k.Clock().Sub(h.lease.HeardAt) >= h.k.o.Lease/3 }

// Renew says that the holder is alive: ErrConflict when the lease is lost. The
// caller has the mutex.
func (h *Holding) Renew(ctx context.Context) error {
	for first := true; ; first = false {
		b := tidemark.Batch{At: h.k.Clock()}
		if err := h.Guard(&b, true); err != nil {
			return err
		}
		_, err := h.k.Commit(ctx, b)
		if err == nil {
			h.Renewed()
			return nil
		}
		if !first || !errors.Is(err, tidemark.ErrConflict) || !h.Holds(ctx) {
			return h.Lost(ctx, err)
		}
	}
}

// Guard makes a batch conditional on the lease; with renew it renews it, too.
// The caller has the mutex.
func (h *Holding) Guard(b *tidemark.Batch, renew bool) error {
	b.Require = append(b.Require, h.lease.Need())
	if !renew {
		return nil
	}
	r, err := Put(pulseKey(h.lease.Of), h.lease.pulse, h.k.beat())
	b.Puts = append(b.Puts, r)
	return err
}

// Renewed notes a renewal that was committed. The caller has the mutex.
func (h *Holding) Renewed() {
	h.lease.pulse++
	h.lease.HeardAt = h.k.Clock()
}

// Holds reports whether the lease is still ours. The caller has the mutex.
func (h *Holding) Holds(ctx context.Context) bool {
	ours, err := h.Ours(ctx)
	return err == nil && ours
}

// Ours is Holds with the error of the look. A renewal whose outcome nobody could
// tell may have taken effect: nobody else touches the pulse of a lease that is
// ours, so it is as it stands.
func (h *Holding) Ours(ctx context.Context) (bool, error) {
	l, err := h.k.Lease(ctx, h.lease.Of)
	if err != nil || !h.IsTaken() || l.Version != h.lease.Version || !l.Held {
		return false, err
	}
	h.lease.pulse = l.pulse
	return true, nil
}

// Renewals counts the renewals that are known of. The caller has the mutex.
func (h *Holding) Renewals() int64 { return h.lease.pulse }

// Lost explains a conflict: it says who has the lease now, when it is not ours.
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

// End ends the Holding and leaves the lease as it is. The caller has the mutex,
// and ends it once.
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

// Close ends the Holding and gives up the lease. A lease that is lost already,
// or was never taken, is no error, and so is closing twice.
func (h *Holding) Close(ctx context.Context) error {
	h.Lock()
	defer h.Unlock()
	if h.Ended() {
		return nil
	}
	h.End()
	if !h.IsTaken() {
		return nil
	}
	err := h.k.Free(ctx, h.lease)
	if errors.Is(err, tidemark.ErrConflict) {
		return nil
	}
	return err
}
