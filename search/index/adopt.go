package index

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// adoptionAge is how long copying logs into a store may take. Who is not done by
// then has died.
const adoptionAge = 24 * time.Hour

// Adopting says that logs are about to be copied into the store from elsewhere: they
// look as old as they are there. Until Adopted is called with what it returns, all
// logs are looked at whenever something is searched, or indexed by who looks for
// what others left; also when the caller dies before that. Nothing is written where
// there is no index yet.
func (ix *Index) Adopting(ctx context.Context) (id string, err error) {
	v, err := ix.look(ctx)
	if err != nil || v.version == 0 {
		return "", err
	}
	id = tidemark.NewBatchID()
	_, err = ix.settle(ctx, v, nil, func(v *snapshot) (family, []kept, []tidemark.Precondition, error) {
		next := v.family
		next.Epoch++ // who has listed the logs before has to do it again
		next.Adopting = append(slices.Clone(next.Adopting), adoption{id, ix.k.Clock()})
		return next, nil, nil, nil
	})
	return id, err
}

// Adopted ends what Adopting began. The next who indexes looks at all logs.
func (ix *Index) Adopted(ctx context.Context, id string) error {
	v, err := ix.look(ctx)
	if err != nil || v.version == 0 {
		return err
	}
	_, err = ix.settle(ctx, v, nil, func(v *snapshot) (family, []kept, []tidemark.Precondition, error) {
		next := v.family
		next.Adopting = slices.DeleteFunc(slices.Clone(next.Adopting), func(a adoption) bool { return a.ID == id })
		next.Epoch, next.Until = next.Epoch+1, time.Time{}
		return next, nil, nil, nil
	})
	return err
}

// Forget has the index of a Backend made anew by who indexes next. It needs no key: it
// is for those who change logs below the encryption. The segments are dropped an hour
// later, as those of a killed process are.
func Forget(ctx context.Context, b tidemark.Backend, now time.Time) error {
	key := tidemark.Key{Kind: tidemark.KindIndex, ID: Own}
	r, err := b.Get(ctx, key)
	if errors.Is(err, tidemark.ErrNotFound) || err == nil && r.Version == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = b.Commit(ctx, tidemark.Batch{ID: tidemark.NewBatchID(), At: now.UTC().Truncate(time.Microsecond), Deletes: []tidemark.Precondition{{Key: key, Version: r.Version}}})
	return err
}
