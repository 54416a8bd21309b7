package store

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Lease says who may append to a session: its Holder, since when, when the holder
// was last heard from, and whether it is Held, Dead or Expired.
type Lease = records.Lease

// HeldError says who holds a session. It is ErrHeld under errors.Is.
type HeldError = records.HeldError

// HandoverRequest asks the holder of a session to hand it over to From.
type HandoverRequest = records.HandoverRequest

// LeaseTime is how long a holder may be silent before it can be replaced.
func (s *Store) LeaseTime() time.Duration { return s.k.LeaseTime() }

// Lease returns who holds a session. When nobody ever held it, or its last holder
// has closed it, the Lease is not Held.
func (s *Store) Lease(ctx context.Context, id tidemark.SessionID) (Lease, error) {
	return s.k.Lease(ctx, keyOf(kindSession, id))
}

// Leases lists the leases of sessions that are held.
func (s *Store) Leases(ctx context.Context) iter.Seq2[Lease, error] {
	return func(yield func(Lease, error) bool) {
		for l, err := range s.k.Leases(ctx, kindSession) {
			if _, notSession := tidemark.ParseSessionID(l.Of.ID); err == nil && notSession != nil {
				continue // the lease of a job, which belongs to the fleet
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// Release ends a lease whose holder is dead or silent; with force, any. It
// returns ErrHeld for a living holder, and nil when nobody holds the session.
func (s *Store) Release(ctx context.Context, id tidemark.SessionID, force bool) error {
	return s.k.Release(ctx, keyOf(kindSession, id), force)
}

// RequestHandover asks the holder of a session to hand it over to from. The holder
// decides; see Writer.KeepAlive.
func (s *Store) RequestHandover(ctx context.Context, id tidemark.SessionID, from tidemark.Holder) error {
	return s.k.RequestHandover(ctx, keyOf(kindSession, id), from)
}

// handoverPatience is how long a holder has to hand a session over: it looks for
// requests every second, and may have to finish a turn. handoverLook is how often
// is looked whether it has.
const (
	handoverPatience = 30 * time.Second
	handoverLook     = 200 * time.Millisecond
)

// AwaitHandover asks the holder of a session to hand it over to from, and calls try
// until it returns something else than ErrHeld, for half a minute at most.
func (s *Store) AwaitHandover(ctx context.Context, id tidemark.SessionID, from tidemark.Holder, try func(context.Context) error) error {
	if err := s.RequestHandover(ctx, id, from); err != nil {
		return err
	}
	end := time.After(handoverPatience)
	for {
		err := try(ctx)
		if !errors.Is(err, tidemark.ErrHeld) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			return err
		case <-time.After(handoverLook):
		}
	}
}

// KeepAlive renews the lease of w until ctx ends or w is closed, and then returns
// nil; when the lease is lost it returns ErrConflict. It calls requested, unless
// that is nil, once for each handover request that comes in. It is meant to run in
// a goroutine of its own.
func (w *Writer) KeepAlive(ctx context.Context, requested func(HandoverRequest)) error {
	seen := int64(-1)
	look := func() {
		if requested == nil {
			return
		}
		q, r, err := w.s.k.Handover(ctx, keyOf(kindSession, w.id))
		if err != nil {
			return
		}
		// The first look meets requests from before: those of this lease came while
		// nobody looked, others were for an earlier holder.
		if seen >= 0 && r.Version > seen || seen < 0 && q.Lease > 0 && q.Lease == w.leaseVersion() {
			requested(q)
		}
		seen = r.Version
	}
	return w.held.KeepAlive(ctx, look, func(err error) bool { return !errors.Is(err, context.Canceled) })
}

func (w *Writer) leaseVersion() int64 {
	w.held.Lock()
	defer w.held.Unlock()
	return w.held.Lease().Version
}

// Renew renews the lease now: ErrConflict when it is lost.
func (w *Writer) Renew(ctx context.Context) error {
	w.held.Lock()
	defer w.held.Unlock()
	return w.held.Renew(ctx)
}
