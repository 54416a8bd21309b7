package store

import (
	"context"
	"errors"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// A server gets one append at a time, and has no Writer open in between. So that
// each is one commit all the same, the Writer of the last one is kept.

// WithoutLease runs do with a Writer of a session that nobody holds, for one
// commit. It takes no lease: the commit requires that nobody has taken one, and
// that the session is as it was. ErrHeld: somebody holds the session, or did, or
// nobody ever has; Attach decides.
func (s *Store) WithoutLease(ctx context.Context, id tidemark.SessionID, do func(*Writer) error) error {
	return s.withKept(keptName{id: id, free: true}, func() (*Writer, error) {
		i, err := s.Session(ctx, id)
		if err != nil {
			return nil, err
		}
		if i.State != Live {
			return nil, tidemark.Errorf(tidemark.ErrTrashed, "session %s is in the trash", id)
		}
		l, err := s.Lease(ctx, id)
		if err != nil {
			return nil, err
		}
		if l.Held || l.Version == 0 || i.Owner != "" {
			return nil, &HeldError{Lease: l, Now: s.k.Clock()}
		}
		w := s.writer(i, l)
		w.held = s.k.HoldFree(l, tidemark.Precondition{Key: keyOf(kindSession, id), Version: i.version})
		return w, w.main.load(ctx, s)
	}, do)
}

// withKept runs do with the Writer that is kept under a name, or else with one of
// attach, which is then kept; again when somebody else was quicker.
func (s *Store) withKept(name keptName, attach func() (*Writer, error), do func(*Writer) error) error {
	if w := s.kept.get(name); w != nil {
		err := do(w)
		if err == nil {
			return nil
		}
		s.kept.forget(name)
		// What is kept may be old: the lease was lost, or somebody appended
		// elsewhere, so that a parent is not known here. Nothing was written then.
		if !errors.Is(err, tidemark.ErrConflict) && !errors.Is(err, tidemark.ErrInvalid) {
			return err
		}
	}
	var err error
	for range records.Tries {
		w, lookErr := attach()
		if lookErr != nil {
			return lookErr
		}
		if err = do(w); !errors.Is(err, tidemark.ErrConflict) {
			if err == nil {
				s.kept.keep(name, w)
			}
			return err
		}
	}
	return err
}

// HasToken reports whether the Writer of a token is kept, see WithToken, or with
// "" that of WithoutLease: then the session is one's own, and each commit
// checks the lease.
func (s *Store) HasToken(id tidemark.SessionID, token string) bool {
	return s.kept.get(keptName{id: id, token: token, free: token == ""}) != nil
}

// maxKeptWriters bounds the Writers that a Store keeps.
const maxKeptWriters = 256

// keptWriters are the Writers of tokens that were used not long ago, and those of
// WithoutLease. Nothing in them is relied on: what they commit requires the lease
// at its version and the log at its length.
type keptWriters struct {
	mu sync.Mutex
	of map[keptName]*Writer
}

type keptName struct {
	id    tidemark.SessionID
	token string // whatever a client sends
	free  bool   // of WithoutLease
}

// get returns the Writer of a token, nil when there is none, or when its lease
// may have run out: then the lease has to be looked at.
func (t *keptWriters) get(name keptName) *Writer {
	t.mu.Lock()
	w := t.of[name]
	t.mu.Unlock()
	if w == nil || w.fresh() {
		return w
	}
	t.forget(name)
	return nil
}

func (t *keptWriters) keep(name keptName, w *Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil || len(t.of) >= maxKeptWriters {
		t.of = make(map[keptName]*Writer)
	}
	t.of[name] = w
}

// KeptWriters is how many Writers are kept for tokens and for appends without a lease.
func (s *Store) KeptWriters() int {
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	return len(s.kept.of)
}

func (t *keptWriters) forget(name keptName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, name)
}

// fresh reports whether the lease cannot have run out, as far as is known here.
func (w *Writer) fresh() bool {
	return w.held.IsFree() || !w.held.Ended() && w.s.k.Clock().Before(w.lease().HeardAt.Add(w.s.LeaseTime()))
}

func (w *Writer) lease() Lease {
	w.held.Lock()
	defer w.held.Unlock()
	return w.held.Lease()
}
