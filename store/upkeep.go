package store

import (
	"context"
	"iter"

	"github.com/tidemark-sessions/tidemark"
)

// Share says who else may read a session with all that belongs to it.
// ErrNotFound: it is not the principal's own. ErrUnsupported: the store has one
// user, or a key that others do not have.
func (s *Store) Share(ctx context.Context, id tidemark.SessionID, with tidemark.Scope) error {
	sharer, err := tidemark.Ability[tidemark.Sharer](s.backend)
	if err != nil {
		return err
	}
	return sharer.Share(ctx, id, with)
}

// Shared returns who else may read a session, and whose it is: "" where nobody
// else could. ErrUnsupported: the store has one user.
func (s *Store) Shared(ctx context.Context, id tidemark.SessionID) (with tidemark.Scope, owner string, err error) {
	sharer, err := tidemark.Ability[tidemark.Sharer](s.backend)
	if err != nil {
		return tidemark.Scope{}, "", err
	}
	return sharer.Shared(ctx, id)
}

// Compact gives back space that nothing needs any more, and returns how many
// bytes that was. It loses nothing and may be interrupted. ErrUnsupported: this
// kind of store has nothing to give back.
func (s *Store) Compact(ctx context.Context) (int64, error) {
	compactor, err := tidemark.Ability[tidemark.Compactor](s.backend)
	if err != nil {
		return 0, err
	}
	return compactor.Compact(ctx)
}

// Mend repairs what VerifyAll finds, as far as nothing that can still be read
// is lost by it, and yields what it did, for people to read. ErrUnsupported:
// this kind of store cannot be repaired.
func (s *Store) Mend(ctx context.Context) iter.Seq2[string, error] {
	mender, err := tidemark.Ability[tidemark.Mender](s.backend)
	if err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return mender.Mend(ctx)
}
