package store

import (
	"context"
	"errors"

	"github.com/tidemark-sessions/tidemark"
)

// A store that is empty is neither plain nor sealed, and several processes may
// have it open. The first of them that writes decides: sealing puts the
// keyring, and the first batch in the clear puts the mark, each only where the
// other is not. From then on no later batch pays for it: a marked store cannot
// be sealed, so there is never a lease, nor anything else in the clear, that a
// keyring would have to make void.

// Standing returns ErrSealed when the store was sealed after it was opened as
// a plain one: then it has to be opened again, with its key. It costs nothing
// once it is known what the store is.
func (s *Store) Standing(ctx context.Context) error {
	if s.settled.Load() {
		return nil
	}
	_, err := s.marked(ctx)
	return err
}

// marked reports whether the store is known to be plain: ErrSealed when it has
// a keyring.
func (s *Store) marked(ctx context.Context) (bool, error) {
	has, err := s.has(ctx, tidemark.PlainMark())
	if has {
		s.settled.Store(true)
	}
	if has || err != nil {
		return has, err
	}
	if has, err = s.has(ctx, tidemark.Keyring()); has {
		return false, sealedSince{}
	}
	return false, err
}

// has reports whether a record is there, be it damaged.
func (s *Store) has(ctx context.Context, key tidemark.Key) (bool, error) {
	r, err := s.backend.Get(ctx, key)
	switch {
	case errors.Is(err, tidemark.ErrCorrupt):
		return true, nil
	case errors.Is(err, tidemark.ErrNotFound):
		return false, nil
	}
	return r.Version > 0, err
}

// commitFirst carries out a batch of a Store that does not know yet what its
// place is: one that is not marked is marked by it, in the same commit.
func (s *Store) commitFirst(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	plain, err := s.marked(ctx)
	if err != nil {
		return tidemark.Receipt{}, err
	}
	if plain {
		return s.send(ctx, b)
	}
	receipt, err := s.send(ctx, b.MarkPlain())
	if err == nil {
		s.settled.Store(true)
	}
	if !errors.Is(err, tidemark.ErrConflict) {
		return receipt, err
	}
	plain, lookErr := s.marked(ctx)
	if lookErr != nil {
		return tidemark.Receipt{}, lookErr
	}
	if plain { // somebody else's first batch was quicker; it says nothing of this one
		return s.send(ctx, b)
	}
	return receipt, err
}

// sealedSince says that somebody else sealed the store. It is ErrSealed under
// errors.Is.
type sealedSince struct{}

func (sealedSince) Error() string {
	return "the store was encrypted by somebody else after it was opened here: it has to be opened again, with its key"
}
func (sealedSince) Is(target error) bool { return target == tidemark.ErrSealed }
