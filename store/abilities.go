package store

import (
	"context"
	"iter"

	"github.com/tidemark-sessions/tidemark"
)

// Share sets who else may read a session and all that belongs to it.
// ErrNotFound: the principal does not own it. ErrUnsupported: the store has one
// user, or is sealed with a key that others do not have.
func (s *Store) Share(ctx context.Context, id tidemark.SessionID, with tidemark.Scope) error {
	sharer, err := tidemark.Ability[tidemark.Sharer](s.backend)
	if err != nil {
		return err
	}
	err = sharer.Share(ctx, id, with)
	s.o.Scopes.grew(s.backend)
	return err
}

// Shared returns who else may read a session, and its owner.
// ErrUnsupported: the store has one user.
func (s *Store) Shared(ctx context.Context, id tidemark.SessionID) (with tidemark.Scope, owner string, err error) {
	sharer, err := tidemark.Ability[tidemark.Sharer](s.backend)
	if err != nil {
		return tidemark.Scope{}, "", err
	}
	return sharer.Shared(ctx, id)
}

// Compact frees space that is no longer in use, and returns how many bytes. It
// loses no data and may be interrupted. ErrUnsupported: this kind of store has
// nothing to free.
func (s *Store) Compact(ctx context.Context) (int64, error) {
	return tidemark.Compact(ctx, s.backend)
}

// Mend repairs damage that VerifyAll finds, where nothing that can still be read
// is lost by that, and yields what it did, for people to read. ErrUnsupported:
// this kind of store cannot be repaired.
func (s *Store) Mend(ctx context.Context) iter.Seq2[string, error] {
	return tidemark.Mend(ctx, s.backend)
}
