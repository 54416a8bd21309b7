package records

import (
	"context"
	"errors"

	"github.com/tidemark-sessions/tidemark"
)

// An empty store is neither plain nor sealed, and several processes may have it
// open. The first that writes decides: sealing writes the keyring, and the first
// unencrypted batch writes the plain mark, each on the condition that the other is
// not there. Later batches need no such condition, since a store with the mark can
// never be sealed. So a sealed store never has anything in it that was written
// unencrypted, such as a lease.

// Standing returns ErrSealed when the store was sealed after it was opened as
// a plain one: then it has to be opened again, with its key. Once the store is
// known to be plain or sealed, the call costs nothing.
func (k *Kernel) Standing(ctx context.Context) error {
	if k.settled.Load() {
		return nil
	}
	_, err := k.marked(ctx)
	return err
}

// marked reports whether the store has the plain mark: ErrSealed when it has a
// keyring.
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

// commitFirst commits a batch when it is not known yet whether the store is plain.
// If the store has no mark, the same commit writes it.
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
	if plain { // somebody else wrote the mark first: this batch may still succeed
		return k.send(ctx, b)
	}
	return receipt, err
}

// sealedSince is the error when somebody else sealed the store. It is ErrSealed
// under errors.Is.
type sealedSince struct{}

func (sealedSince) Error() string {
	return "the store was encrypted by somebody else after it was opened here: it has to be opened again, with its key"
}
func (sealedSince) Is(target error) bool { return target == tidemark.ErrSealed }
