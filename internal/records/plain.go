package records

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
func (k *Kernel) Standing(ctx context.Context) error {
	if k.settled.Load() {
		return nil
	}
	_, err := k.marked(ctx)
	return err
}

// marked reports whether the store is known to be plain: ErrSealed when it has
// a keyring.
func (k *Kernel) marked(ctx context.Context) (bool, error) {
	has, err := k.Has(ctx, tidemark.PlainMark())
	if has {
		k.settled.Store(true)
	}
	if has || err != nil {
		return has, err
	}
	if has, err = k.Has(ctx, tidemark.Keyring()); has {
		return false, sealedSince{}
	}
	return false, err
}

// commitFirst carries out a batch of a Kernel that does not know yet what its
// place is: one that is not marked is marked by it, in the same commit.
func (k *Kernel) commitFirst(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	plain, err := k.marked(ctx)
	if err != nil {
		return tidemark.Receipt{}, err
	}
	if plain {
		return k.send(ctx, b)
	}
	receipt, err := k.send(ctx, b.MarkPlain())
	if err == nil {
		k.settled.Store(true)
	}
	if !errors.Is(err, tidemark.ErrConflict) {
		return receipt, err
	}
	plain, lookErr := k.marked(ctx)
	if lookErr != nil {
		return tidemark.Receipt{}, lookErr
	}
	if plain { // somebody else's first batch was quicker; it says nothing of this one
		return k.send(ctx, b)
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
