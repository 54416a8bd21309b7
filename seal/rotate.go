package seal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Rotation says how a store gets another key.
type Rotation struct {
	// New replaces another slot. The zero value leaves all slots as they are and
	// changes only the store key.
	New NewSlot

	// Replace is the id of the slot that New replaces; "" is the one that opened
	// the store.
	Replace string

	// Keep is called once, while both New and the old slot open the store,
	// before the old one is removed: here the caller makes the new key file
	// durable in its place. An error stops the rotation where it is. It is not
	// called when New is not needed (see Rotate).
	Keep func(context.Context) error

	// Progress, if not nil, is called with the number of data keys done.
	Progress func(done int)
}

// rewrapBatch is how many data keys are rewrapped in one commit: enough that a
// sync does not matter, few enough that a conflict costs little.
const rewrapBatch = 200

// Rotate gives the store another store key and wraps every data key in it. No
// body is rewritten. One program may rotate a store at a time; others may use it
// meanwhile.
//
// Whatever step it is killed at, the store opens with the old slot or with both,
// and Rotate, called again, finishes: with another New, which then replaces the
// first; or, opened with the new slot of the interrupted rotation, without any,
// and New and Keep are not used.
//
// ErrNotFound: there is no slot Replace. ErrConflict, ErrSealed: another program
// rotated the store meanwhile. ErrCorrupt: a data key is damaged; the rotation
// then stays unfinished, so that the old store key is still there for a repair
// of that record.
func (b *Backend) Rotate(ctx context.Context, r Rotation) error {
	used, err := b.beginRotation(ctx, r)
	if err != nil {
		return err
	}
	if err := b.rewrapAll(ctx, r.Progress); err != nil {
		return err
	}
	if used && r.Keep != nil {
		if err := r.Keep(ctx); err != nil {
			return err
		}
	}
	return b.endRotation(ctx, r.New, used)
}

// beginRotation puts a keyring in which the new store key is the current one,
// the old one is still there, and both slots open the store. It reports whether
// the new slot is used.
func (b *Backend) beginRotation(ctx context.Context, r Rotation) (used bool, err error) {
	err = b.change(ctx, func(next *ring) error {
		used = !r.New.IsZero()
		h := next.header
		if h.Rotation == nil {
			h.Rotation = &rotation{}
			if err := next.rekey(next.withNewKey()); err != nil {
				return err
			}
		} else if slices.Contains(h.Rotation.New, next.opened) {
			used = false
			return errNoChange
		}
		if !used || h.slot(r.New.slot.ID) != nil {
			return nil
		}
		if h.Rotation.Old == "" {
			h.Rotation.Old = cmp.Or(r.Replace, next.opened)
			if r.Replace != "" && h.slot(r.Replace) == nil {
				return tidemark.NotFoundf("slot %.40q: not found; the store opens with: %s", r.Replace, h.opensWith())
			}
		}
		h.Rotation.New = append(h.Rotation.New, r.New.slot.ID)
		return h.add(r.New, next.bundle)
	})
	return used, err
}

// rewrapAll wraps every data key in the current store key. Nobody wraps one in
// the old store key any more, because that requires the earlier version of the
// keyring; so one pass that finds nothing to do is the end.
func (b *Backend) rewrapAll(ctx context.Context, progress func(int)) error {
	for {
		wrapped, err := b.rewrapPass(ctx, progress)
		if err != nil || wrapped == 0 {
			return err
		}
	}
}

func (b *Backend) rewrapPass(ctx context.Context, progress func(int)) (wrapped int, err error) {
	ring := b.ring.Load()
	var todo []tidemark.Record
	var broken []error
	done := 0
	flush := func() error {
		err := b.putKeys(ctx, todo)
		wrapped += len(todo)
		todo = todo[:0]
		if progress != nil {
			progress(done)
		}
		return err
	}
	for r, err := range b.inner.List(ctx, tidemark.Query{Kind: kindDataKey, Order: tidemark.ByID}) {
		done++
		if err == nil {
			if id, _, _, ok := splitDataKey(r.Body); ok && id == ring.current {
				continue
			}
			var k *dataKey
			if k, err = b.openKey(ctx, r.ID, r); err == nil {
				todo = append(todo, k.record(r.Version, k.wrap(ring)))
			}
		}
		if errors.Is(err, tidemark.ErrCorrupt) {
			broken = append(broken, err)
		} else if err != nil {
			return wrapped, err
		}
		if len(todo) == rewrapBatch {
			if err := flush(); err != nil {
				return wrapped, err
			}
		}
	}
	if err := flush(); err != nil {
		return wrapped, err
	}
	return wrapped, errors.Join(broken...)
}

// putKeys puts data keys together or, when one of them was changed meanwhile,
// one by one. One that conflicts is left to the next pass.
func (b *Backend) putKeys(ctx context.Context, records []tidemark.Record) error {
	if len(records) == 0 {
		return nil
	}
	batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Puts: slices.Clone(records)}
	_, err := b.inner.Commit(ctx, batch)
	if !errors.Is(err, tidemark.ErrConflict) {
		return err
	}
	for i := range records {
		if len(records) == 1 {
			return nil
		}
		if err := b.putKeys(ctx, records[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// endRotation puts a keyring without the old store key and the slots that the
// new one replaces.
func (b *Backend) endRotation(ctx context.Context, n NewSlot, used bool) error {
	moved := false // the slot that opened the store is gone
	err := b.change(ctx, func(next *ring) error {
		h, stays := next.header, next.opened
		if used {
			stays = n.slot.ID
			if h.slot(stays) == nil {
				return tidemark.Conflictf("another program rotates the keys of the store")
			}
		}
		if h.Rotation == nil {
			return errNoChange // another program was quicker
		}
		if used || slices.Contains(h.Rotation.New, stays) {
			gone := append([]string{h.Rotation.Old}, h.Rotation.New...)
			h.Slots = slices.DeleteFunc(h.Slots, func(s slot) bool { return s.ID != stays && slices.Contains(gone, s.ID) })
		}
		if moved = h.slot(next.opened) == nil; moved {
			next.opened = stays
		}
		h.Rotation = nil
		return next.rekey(next.onlyCurrent())
	})
	if err == nil && moved && n.key != nil {
		b.opening.Lock()
		b.opener = &opener{slot: n.slot.ID, key: n.key}
		b.opening.Unlock()
	}
	return err
}
