package store

import (
	"context"
	"errors"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// CreateEmpty creates a session without entries, and which nobody holds: ErrExists
// when there is one of that id. Use Create to append to the session right away.
func (s *Store) CreateEmpty(ctx context.Context, sess tidemark.Session) (Info, error) {
	w := s.Create(sess, tidemark.Holder{})
	b := tidemark.Batch{At: s.k.Now()}
	if _, err := w.addCreation(ctx, &b); err != nil {
		return Info{}, err
	}
	for i := range b.Puts {
		if b.Puts[i].Kind == records.KindLease {
			b.Puts[i].State = records.Free
		}
	}
	if _, err := s.k.Commit(ctx, b); err != nil {
		if errors.Is(err, tidemark.ErrConflict) {
			return Info{}, tidemark.Existsf("session %s: already there", w.id)
		}
		return Info{}, err
	}
	s.recordProject(ctx, w.session.Project)
	return s.Session(ctx, w.id)
}
