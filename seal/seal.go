// Package seal is a Backend that encrypts what another Backend stores, and
// manages the keys that open it: a key file, a passphrase, age identities, or
// several of them.
//
// Bodies, the search index among them, and the keys of lines are sealed or hashed;
// kinds, ids, times, places, states and sizes stay in the clear, so that the
// Backend underneath still lists, orders and checks. Anything in a sealed store
// that is not sealed, or is not where it was put, is damage; a wrong key is
// ErrSealed, and never an empty history. docs/formats/seal.md describes every
// byte, and what an attacker can and cannot do.
//
// The package reads no file, no environment and no terminal: the caller passes
// in what they hold.
//
//	key, err := seal.KeyFile(contents)
//	backend, err := seal.Open(ctx, inner, key)
package seal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

const (
	// keptKeys is how many opened data keys are kept in memory, some 600 bytes
	// each.
	keptKeys = 16 << 10
	// keptTails is how many logs have their end remembered, so that an append
	// need not read it.
	keptTails = 16 << 10

	// tries bounds how often something is repeated because another program was
	// quicker.
	tries = 100
)

// Backend is a sealed store over another Backend. It has the methods of every
// ability; where the one underneath lacks it, they return ErrUnsupported.
type Backend struct {
	inner tidemark.Backend
	store storeID
	ring  atomic.Pointer[ring]

	changing sync.Mutex // one change of the keyring at a time
	opening  sync.Mutex
	opener   *opener

	keys  *bounded[string, *dataKey]
	tails *bounded[tidemark.Key, tail]
}

// IsSealed reports whether inner is sealed. ErrCorrupt: it is, but its keyring
// is gone, so that writing to it as to a plain store would mix plain text with
// sealed data.
func IsSealed(ctx context.Context, inner tidemark.Backend) (bool, error) {
	if has, err := hasRing(ctx, inner); has || err != nil {
		return has, err
	}
	for _, err := range inner.List(ctx, tidemark.Query{Kind: kindDataKey, Order: tidemark.ByID, Limit: 1}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return false, err
		}
		// It may have been sealed since: the keyring is written before any key.
		if has, err := hasRing(ctx, inner); has || err != nil {
			return has, err
		}
		return true, damaged(keyringKey, "the store has sealed data keys, and its keyring is gone")
	}
	return looksSealed(ctx, inner)
}

// looksSealed detects a store that lost its keyring and all data keys: writing
// to it as to a plain store would mix plain text with sealed data.
func looksSealed(ctx context.Context, inner tidemark.Backend) (bool, error) {
	for r, err := range inner.List(ctx, tidemark.Query{Kind: "session", Order: tidemark.ByID, Limit: 1}) {
		if err != nil || !isSealedBody(r.Body) {
			break // reading reports the damage
		}
		if has, err := hasRing(ctx, inner); has || err != nil {
			return has, err
		}
		return true, damaged(keyringKey, "the store holds what is sealed, and its keyring is gone")
	}
	return false, nil
}

// hasRing reports whether inner has a keyring, even a damaged one.
func hasRing(ctx context.Context, inner tidemark.Backend) (bool, error) {
	r, err := inner.Get(ctx, keyringKey)
	switch {
	case errors.Is(err, tidemark.ErrCorrupt) || err == nil && r.Version > 0:
		return true, nil
	case errors.Is(err, tidemark.ErrNotFound):
		return false, nil
	}
	return false, err
}

// Create seals an empty store and opens it. ErrExists: it is sealed already.
// ErrInvalid: it holds something in the clear, or no slot was given. The Backend
// closes inner when it is closed; after an error inner still belongs to the
// caller.
func Create(ctx context.Context, inner tidemark.Backend, slots ...NewSlot) (*Backend, error) {
	if len(slots) == 0 {
		return nil, tidemark.Invalidf("a sealed store needs something that opens it")
	}
	sealed, err := IsSealed(ctx, inner)
	if err != nil {
		return nil, err
	}
	if sealed {
		return nil, errIsSealed()
	}
	if err := empty(ctx, inner); err != nil {
		return nil, err
	}
	r := emptyRing()
	o := &opener{}
	for _, s := range slots {
		if err := r.header.add(s, r.bundle); err != nil {
			return nil, err
		}
		if o.key == nil && s.key != nil {
			o.slot, o.key = s.slot.ID, s.key
			r.opened = s.slot.ID
		}
	}
	b := newBackend(inner, r, o)
	err = b.put(ctx, r, tidemark.Precondition{Key: tidemark.PlainMark()})
	if errors.Is(err, tidemark.ErrConflict) {
		if err := empty(ctx, inner); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// KeepPlain marks a store as plain on purpose. ErrExists: it is sealed.
func KeepPlain(ctx context.Context, inner tidemark.Backend) error {
	for range tries {
		r, err := inner.Get(ctx, tidemark.PlainMark())
		if err == nil && r.Version > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
		if has, err := hasRing(ctx, inner); err != nil || has {
			return cmp.Or(err, errIsSealed())
		}
		mark := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond)}
		_, err = inner.Commit(ctx, mark.MarkPlain())
		if !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
	}
	return tidemark.Conflictf("the store is being made by others")
}

func errIsSealed() error { return fmt.Errorf("the store is sealed: %w", tidemark.ErrExists) }

// empty returns an error when inner holds anything.
func empty(ctx context.Context, inner tidemark.Backend) error {
	for k, err := range inner.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			return err
		}
		if records.IsBlob(k.Kind) {
			continue
		}
		if hidden(k.Kind) {
			return errIsSealed() // by another process, just now
		}
		return tidemark.Invalidf("the store holds %s in the clear: only an empty one can be sealed", k)
	}
	return nil
}

// Open opens a sealed store with the first of unlockers that fits. ErrNotFound:
// it is not sealed. ErrSealed: none of them fits; the error says what would.
// ErrCorrupt: its keyring is damaged. ErrUnsupported: a newer program made it.
// The Backend closes inner when it is closed; after an error inner still belongs
// to the caller.
func Open(ctx context.Context, inner tidemark.Backend, unlockers ...Unlocker) (*Backend, error) {
	record, err := getRing(ctx, inner)
	if err != nil {
		return nil, err
	}
	r, o, err := unlock(ctx, record, unlockers)
	if err != nil {
		return nil, err
	}
	return newBackend(inner, r, o), nil
}

func newBackend(inner tidemark.Backend, r *ring, o *opener) *Backend {
	b := &Backend{
		inner: inner, store: r.store, opener: o,
		keys:  newBounded[string, *dataKey](keptKeys),
		tails: newBounded[tidemark.Key, tail](keptTails),
	}
	b.ring.Store(r)
	return b
}

func getRing(ctx context.Context, inner tidemark.Backend) (tidemark.Record, error) {
	r, err := inner.Get(ctx, keyringKey)
	if err == nil && r.Version == 0 || errors.Is(err, tidemark.ErrNotFound) {
		if _, err := IsSealed(ctx, inner); err != nil {
			return r, err
		}
		return r, tidemark.NotFoundf("the store is not sealed")
	}
	return r, err
}

// Sealed reports that what is stored is encrypted.
func (b *Backend) Sealed() bool { return true }

// Close closes the Backend underneath and forgets the opened keys.
func (b *Backend) Close() error {
	err := b.inner.Close()
	b.keys.clear()
	b.tails.clear()
	return err
}

// reload returns the current keyring. When another program changed it, it is
// opened again with what opened it first.
func (b *Backend) reload(ctx context.Context) (*ring, error) {
	record, err := getRing(ctx, b.inner)
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil, damaged(keyringKey, "the keyring of the store is gone")
	}
	if err != nil {
		return nil, err
	}
	b.opening.Lock()
	defer b.opening.Unlock()
	was := b.ring.Load()
	if record.Version <= was.version {
		return was, nil // another goroutine may have been quicker
	}
	r, err := b.opener.openRing(record)
	if err != nil {
		return nil, err
	}
	if r.store != b.store {
		return nil, damaged(keyringKey, "the keyring is of another store")
	}
	b.ring.Store(r)
	return r, nil
}

// put replaces the previous version of the keyring with r.
func (b *Backend) put(ctx context.Context, r *ring, needs ...tidemark.Precondition) error {
	body, err := encodeRing(r.header, r.bundle)
	if err != nil {
		return err
	}
	rec := tidemark.Record{Key: keyringKey, Version: r.version + 1, Body: body}
	rec.Sum = rec.Checksum()
	batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Require: needs, Puts: []tidemark.Record{rec}}
	_, err = b.inner.Commit(ctx, batch)
	if errors.Is(err, tidemark.ErrUnknown) {
		if is, lookErr := b.inner.Get(ctx, keyringKey); lookErr == nil && is.Batch == batch.ID {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	r.version++
	b.opening.Lock()
	defer b.opening.Unlock()
	b.ring.Store(r)
	return nil
}
