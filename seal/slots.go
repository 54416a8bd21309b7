package seal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Header is what a keyring holds in the clear.
type Header struct {
	Format   int    `json:"format"`
	Store    string `json:"store"`
	NoIndex  bool   `json:"no_index"`
	Rotating bool   `json:"rotating"` // a rotation was begun and not finished
	Slots    []Slot `json:"slots"`
}

// Slot is one way to open a store.
type Slot struct {
	ID         string    `json:"id"`
	Type       string    `json:"type"`
	Label      string    `json:"label,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	Recipients []string  `json:"recipients,omitempty"` // of type age
	Opened     bool      `json:"opened"`               // it opened this Backend
}

// Inspect returns what the keyring of a store holds in the clear, without
// opening it: nothing in it is authenticated. ErrNotFound: the store is not
// sealed.
func Inspect(ctx context.Context, inner tidemark.Backend) (Header, error) {
	r, err := getRing(ctx, inner)
	if err != nil {
		return Header{}, err
	}
	h, _, _, err := parseRing(r.Body)
	if err != nil {
		return Header{}, err
	}
	return h.public(""), nil
}

// Header returns the header of the current keyring, and which slot opened it.
func (b *Backend) Header(ctx context.Context) (Header, error) {
	r, err := b.reload(ctx)
	if err != nil {
		return Header{}, err
	}
	return r.header.public(r.opened), nil
}

func (h *header) public(opened string) Header {
	p := Header{Format: h.Format, Store: h.Store, NoIndex: h.NoIndex, Rotating: h.Rotation != nil}
	for _, s := range h.Slots {
		p.Slots = append(p.Slots, Slot{ID: s.ID, Type: s.Type, Label: s.Label, CreatedAt: s.CreatedAt,
			Recipients: slices.Clone(s.Recipients), Opened: s.ID == opened})
	}
	return p
}

// add adds a slot that opens keys to the header.
func (h *header) add(n NewSlot, keys *bundle) error {
	switch {
	case n.IsZero():
		return tidemark.Invalidf("a slot that opens nothing")
	case len(h.Slots) == maxSlots:
		return tidemark.Invalidf("a store has at most %d slots", maxSlots)
	case h.slot(n.slot.ID) != nil:
		return errIsThere(n.slot.ID)
	}
	s := n.slot
	s.CreatedAt = now()
	if err := s.fill(keys, n.key); err != nil {
		return err
	}
	h.Slots = append(h.Slots, s)
	return nil
}

// change puts a keyring that edit made from the current one, and repeats that
// when another program was quicker.
func (b *Backend) change(ctx context.Context, edit func(next *ring) error) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	var err error
	for range tries {
		var was *ring
		if was, err = b.reload(ctx); err != nil {
			return err
		}
		next := &ring{bundle: was.bundle, header: was.header.clone(), version: was.version, opened: was.opened}
		if err = edit(next); errors.Is(err, errNoChange) {
			return nil
		} else if err != nil {
			return err
		}
		if err = b.put(ctx, next); !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
	}
	return err
}

// errNoChange says that the keyring is already as it should be.
var errNoChange = errors.New("nothing to change")

// rekey gives the ring other keys and wraps them for every slot.
func (r *ring) rekey(keys *bundle) error {
	for i := range r.header.Slots {
		if err := r.header.Slots[i].refill(r.bundle, keys); err != nil {
			return err
		}
	}
	r.bundle = keys
	return nil
}

// AddSlot adds a way to open the store. ErrExists: that key file opens it
// already.
func (b *Backend) AddSlot(ctx context.Context, n NewSlot) error {
	return b.change(ctx, func(next *ring) error { return next.header.add(n, next.bundle) })
}

// RemoveSlot removes a way to open the store. ErrNotFound. ErrInvalid: it is the
// last one, or the one that opened this Backend, so that callers do not lock
// themselves out, or a rotation needs it.
//
// Anyone who had the slot and a copy of the keyring can still read what the
// store keys of that time opened: call Rotate afterwards.
func (b *Backend) RemoveSlot(ctx context.Context, id string) error {
	return b.change(ctx, func(next *ring) error {
		h := next.header
		switch {
		case h.slot(id) == nil:
			return tidemark.NotFoundf("slot %.40q: not found; the store opens with: %s", id, h.opensWith())
		case len(h.Slots) == 1:
			return tidemark.Invalidf("slot %s: nothing else opens the store", id)
		case id == next.opened:
			return tidemark.Invalidf("slot %s: opened the store just now; open it with another one to remove this", id)
		case h.Rotation != nil && (id == h.Rotation.Old || slices.Contains(h.Rotation.New, id)):
			return tidemark.Invalidf("slot %s: a rotation that is not finished needs it", id)
		}
		h.Slots = slices.DeleteFunc(h.Slots, func(s slot) bool { return s.ID == id })
		return nil
	})
}

// SetIndex sets whether the store may have a search index: MayIndex reports it in
// every program. An index that is there is removed by who keeps it, which is package
// store.
func (b *Backend) SetIndex(ctx context.Context, allowed bool) error {
	return b.change(ctx, func(next *ring) error {
		next.header.NoIndex = !allowed
		return nil
	})
}

// MayIndex reports whether the store may have a search index: see SetIndex.
func (b *Backend) MayIndex(ctx context.Context) (bool, error) {
	r, err := b.reload(ctx)
	if errors.Is(err, tidemark.ErrSealed) {
		r, err = b.ring.Load(), nil // a rotation changes neither this nor word hashes
	}
	if err != nil {
		return false, err
	}
	return !r.header.NoIndex, nil
}

func errIsThere(id string) error {
	return &existsError{id}
}

type existsError struct{ id string }

func (e *existsError) Error() string        { return "slot " + e.id + ": that key opens the store already" }
func (e *existsError) Is(target error) bool { return target == tidemark.ErrExists }
