package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// A lease is two records. The lease itself names the holder and changes only
// when the holder does, so that every append can require its version and a
// renewal never disturbs one. The pulse says when the holder was last heard. A
// takeover replaces both at the versions that it judged, so that a holder who
// is heard in the meantime keeps its lease. The version of the lease is the
// fencing token: a writer that slept through a takeover requires an old one.

// Lease is who may append to a session.
type Lease struct {
	Holder tidemark.Holder `json:"holder"`
	Since  time.Time       `json:"since"`

	Session tidemark.SessionID `json:"-"`
	HeardAt time.Time          `json:"-"` // the pulse's
	Held    bool               `json:"-"`
	Dead    bool               `json:"-"` // the holder is proven dead
	Expired bool               `json:"-"` // the holder has been silent for too long

	token, pulse int64 // versions
}

// HeldError says who holds a session. It is ErrHeld under errors.Is.
type HeldError struct {
	Session tidemark.SessionID
	Lease   Lease
	Now     time.Time
}

func (e *HeldError) Error() string {
	ago := e.Now.Sub(e.Lease.HeardAt).Round(time.Second)
	return fmt.Sprintf("session %s is open in %s, last active %s ago", e.Session, e.Lease.Holder, ago)
}

// Is makes a HeldError answer to ErrHeld.
func (e *HeldError) Is(target error) bool { return target == tidemark.ErrHeld }

// pulse is the body of the pulse record. Its time is the record's UpdatedAt.
type pulse struct{}

// Lease returns who holds a session. A session that nobody ever wrote to
// after its creation, or whose holder has closed it, has a Lease that is not
// Held.
func (s *Store) Lease(ctx context.Context, id tidemark.SessionID) (Lease, error) {
	var l Lease
	r, err := s.get(ctx, keyOf(kindLease, id), &l)
	if err != nil {
		return l, err
	}
	p, err := s.get(ctx, keyOf(kindPulse, id), &pulse{})
	if err != nil {
		return l, err
	}
	l.Session, l.token, l.pulse = id, r.Version, p.Version
	l.Held = r.State == held
	l.HeardAt = p.UpdatedAt
	if l.Held {
		l.Dead = s.o.Dead(l.Holder)
		l.Expired = s.now().Sub(l.HeardAt) > s.o.Lease
	}
	return l, nil
}

// Leases lists the leases that are held.
func (s *Store) Leases(ctx context.Context) iter.Seq2[Lease, error] {
	return func(yield func(Lease, error) bool) {
		for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindLease, State: held}) {
			if errors.Is(err, tidemark.ErrCorrupt) {
				continue // verify names it
			}
			var l Lease
			if err == nil {
				l, err = s.Lease(ctx, tidemark.SessionID(r.ID))
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// take returns the lease of a session for who, and the batch that writes it
// down: ErrHeld when a living holder was heard of lately.
func (s *Store) take(ctx context.Context, id tidemark.SessionID, who tidemark.Holder) (Lease, tidemark.Batch, error) {
	old, err := s.Lease(ctx, id)
	if err != nil {
		return old, tidemark.Batch{}, err
	}
	if old.Held && !old.Dead && !old.Expired {
		return old, tidemark.Batch{}, &HeldError{Session: id, Lease: old, Now: s.now()}
	}
	return s.lease(id, who, old)
}

// lease returns the lease that follows old, and the batch that writes it down.
func (s *Store) lease(id tidemark.SessionID, who tidemark.Holder, old Lease) (Lease, tidemark.Batch, error) {
	l := Lease{Holder: who, Since: s.now(), Held: true, token: old.token + 1, pulse: old.pulse + 1}
	l.HeardAt = l.Since
	lr, err := put(keyOf(kindLease, id), old.token, l)
	if err != nil {
		return l, tidemark.Batch{}, err
	}
	lr.State = held
	pr, err := put(keyOf(kindPulse, id), old.pulse, pulse{})
	return l, tidemark.Batch{At: l.Since, Puts: []tidemark.Record{lr, pr}}, err
}

// Release ends a lease whose holder is dead or silent; with force, any. It
// returns ErrHeld for a living holder, and nil when nobody holds the session.
func (s *Store) Release(ctx context.Context, id tidemark.SessionID, force bool) error {
	return retry(ctx, func() error {
		l, err := s.Lease(ctx, id)
		if err != nil || !l.Held {
			return err
		}
		if !l.Dead && !l.Expired && !force {
			return &HeldError{Session: id, Lease: l, Now: s.now()}
		}
		return s.free(ctx, id, l)
	})
}

// free writes down that nobody holds the lease any more.
func (s *Store) free(ctx context.Context, id tidemark.SessionID, l Lease) error {
	r, err := put(keyOf(kindLease, id), l.token, l)
	if err != nil {
		return err
	}
	r.State = free
	_, err = s.commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
	return err
}

// Ask is somebody's wish to get a session from its holder.
type Ask struct {
	From tidemark.Holder `json:"from"`
}

// AskHandOver tells the holder of a session that from wants it. The holder
// decides; see Writer.KeepAlive.
func (s *Store) AskHandOver(ctx context.Context, id tidemark.SessionID, from tidemark.Holder) error {
	return retry(ctx, func() error {
		key := keyOf(kindAsk, id)
		old, err := s.get(ctx, key, &Ask{})
		if err != nil {
			return err
		}
		r, err := put(key, old.Version, Ask{From: from})
		if err != nil {
			return err
		}
		_, err = s.commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		return err
	})
}

// askLook is how often a holder looks whether somebody asks for its session.
const askLook = time.Second

// KeepAlive renews the lease of w until ctx ends, w is closed or the lease is
// lost, and then returns nil, nil or ErrConflict. It calls asked, when it is
// not nil, once for each wish for a hand-over. It is meant to run beside the
// work, in a goroutine of its own.
func (w *Writer) KeepAlive(ctx context.Context, asked func(Ask)) error {
	seen := int64(-1)
	ticker := time.NewTicker(min(askLook, w.s.o.Lease/6))
	defer ticker.Stop()
	for {
		if asked != nil {
			var a Ask
			r, err := w.s.get(ctx, keyOf(kindAsk, w.id), &a)
			if err == nil && seen >= 0 && r.Version > seen {
				asked(a)
			}
			if err == nil {
				seen = r.Version
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.closed:
			return nil
		case <-ticker.C:
		}
		if err := w.renewIfOld(ctx); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
}

// renewIfOld renews when a third of the lease has passed, so that two missed
// chances do not lose it.
func (w *Writer) renewIfOld(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isClosed() || !w.attached || w.s.now().Sub(w.lease.HeardAt) < w.s.o.Lease/3 {
		return nil
	}
	return w.renew(ctx)
}

// Renew says that the holder is alive: ErrConflict when the lease is lost.
func (w *Writer) Renew(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.renew(ctx)
}

func (w *Writer) renew(ctx context.Context) error {
	for first := true; ; first = false {
		b := tidemark.Batch{At: w.s.now()}
		if err := w.guard(&b, true); err != nil {
			return err
		}
		_, err := w.s.commit(ctx, b)
		if err == nil {
			w.heard(b.At)
			return nil
		}
		if !first || !errors.Is(err, tidemark.ErrConflict) || !w.holds(ctx) {
			return w.lost(ctx, err)
		}
	}
}

// guard makes a batch conditional on the lease; with beat it renews it, too.
func (w *Writer) guard(b *tidemark.Batch, beat bool) error {
	b.Require = append(b.Require, tidemark.Need{Key: keyOf(kindLease, w.id), Version: w.lease.token})
	if !beat {
		return nil
	}
	r, err := put(keyOf(kindPulse, w.id), w.lease.pulse, pulse{})
	b.Puts = append(b.Puts, r)
	return err
}

// heard notes a renewal that was committed.
func (w *Writer) heard(at time.Time) {
	w.lease.pulse++
	w.lease.HeardAt = at
}

// lost explains a conflict: it says who has the lease now, when it is not w.
func (w *Writer) lost(ctx context.Context, err error) error {
	if !errors.Is(err, tidemark.ErrConflict) {
		return err
	}
	l, lookErr := w.s.Lease(ctx, w.id)
	if lookErr != nil || l.token == w.lease.token {
		return err
	}
	if l.Held {
		return tidemark.Conflictf("session %s: the lease was lost to %s", w.id, l.Holder)
	}
	return tidemark.Conflictf("session %s: the lease was released", w.id)
}
