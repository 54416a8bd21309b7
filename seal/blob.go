package seal

import (
	"context"
	"encoding/hex"
	"slices"

	"filippo.io/age"

	"github.com/tidemark-sessions/tidemark"
)

// Ring is a keyring that belongs to no Backend. It seals blobs that are kept where
// nobody is trusted, for everyone whom one of its slots lets in. It has the form of
// the keyring of a store. A Ring never changes: what changes it returns another one.
type Ring struct{ ring *ring }

// NewRing returns a ring that these slots open.
func NewRing(slots ...NewSlot) (*Ring, error) {
	if len(slots) == 0 {
		return nil, tidemark.Invalidf("a keyring needs something that opens it")
	}
	r := emptyRing()
	for _, s := range slots {
		if err := r.header.add(s, r.bundle); err != nil {
			return nil, err
		}
	}
	return &Ring{r}, nil
}

// emptyRing returns the keyring of a new store, without a slot.
func emptyRing() *ring {
	var keys bundle
	id := newSecret()
	copy(keys.store[:], id[:])
	keys.names, keys.words = newSecret(), newSecret()
	return &ring{bundle: keys.withNewKey(), header: &header{Format: Format, Store: hex.EncodeToString(keys.store[:])}}
}

// OpenRing opens a ring that Encode wrote. ErrSealed: none of the unlockers fits.
// ErrCorrupt: it was changed. ErrUnsupported: a newer program made it.
func OpenRing(ctx context.Context, body []byte, unlockers ...Unlocker) (*Ring, error) {
	r, _, err := unlock(ctx, tidemark.Record{Key: keyringKey, Body: body}, unlockers)
	if err != nil {
		return nil, err
	}
	return &Ring{r}, nil
}

// Encode returns the ring as it is kept.
func (r *Ring) Encode() ([]byte, error) { return encodeRing(r.ring.header, r.ring.bundle) }

// Header returns what the ring holds in the clear.
func (r *Ring) Header() Header { return r.ring.header.public(r.ring.opened) }

// KeyID names the key that Seal uses.
func (r *Ring) KeyID() string { return r.ring.current.String() }

func (r *Ring) clone() *ring {
	return &ring{bundle: r.ring.bundle, header: r.ring.header.clone(), opened: r.ring.opened}
}

// Add returns the ring with another slot. ErrExists: that key opens it already.
func (r *Ring) Add(n NewSlot) (*Ring, error) {
	next := r.clone()
	if err := next.header.add(n, next.bundle); err != nil {
		return nil, err
	}
	return &Ring{next}, nil
}

// Remove returns the ring without a slot. ErrNotFound. ErrInvalid: nothing else opens
// it. Whoever had the slot still has the keys of that time; see NewKey.
func (r *Ring) Remove(id string) (*Ring, error) {
	next := r.clone()
	switch {
	case next.header.slot(id) == nil:
		return nil, tidemark.NotFoundf("slot %.40q: not found", id)
	case len(next.header.Slots) == 1:
		return nil, tidemark.Invalidf("slot %s: nothing else opens the keyring", id)
	}
	next.header.Slots = slices.DeleteFunc(next.header.Slots, func(s slot) bool { return s.ID == id })
	return &Ring{next}, nil
}

// NewKey returns the ring with another key that Seal uses from then on. The earlier
// ones still open what was sealed with them. ErrInvalid: there are too many.
func (r *Ring) NewKey() (*Ring, error) {
	if len(r.ring.keys) == maxStoreKeys {
		return nil, tidemark.Invalidf("a keyring has at most %d keys", maxStoreKeys)
	}
	next := r.clone()
	if err := next.rekey(next.withNewKey()); err != nil {
		return nil, err
	}
	return &Ring{next}, nil
}

// OnlyKey returns the ring without the keys that were used before the current one.
func (r *Ring) OnlyKey() (*Ring, error) {
	next := r.clone()
	if err := next.rekey(next.onlyCurrent()); err != nil {
		return nil, err
	}
	return &Ring{next}, nil
}

// blobVersion begins each sealed blob.
const blobVersion = 1

func blobBound(store storeID, what string) []byte { return bindText(bind(nil, "blob", store), what) }

// Seal seals a blob under the current key. It opens only as the same what.
func (r *Ring) Seal(what string, plain []byte) []byte {
	out := append([]byte{blobVersion}, r.ring.current[:]...)
	return append(out, wrap(r.ring.currentKey().derive("blobs"), plain, blobBound(r.ring.store, what))...)
}

// Open opens what Seal sealed. ErrSealed: it was sealed under a key that this ring
// does not have, or no more. ErrCorrupt: it was changed, or is something else.
func (r *Ring) Open(what string, sealed []byte) ([]byte, error) {
	var id keyID
	if len(sealed) < 1+len(id) || sealed[0] != blobVersion {
		return nil, tidemark.Errorf(tidemark.ErrCorrupt, "it is not sealed in a form that this program knows")
	}
	copy(id[:], sealed[1:])
	key := r.ring.key(id)
	if key == nil {
		return nil, sealedf("it is sealed under the key %s, which this keyring does not have", id)
	}
	return openBlob(key.derive("blobs"), sealed[1+len(id):], blobBound(r.ring.store, what))
}

func openBlob(key secret, sealed, bound []byte) ([]byte, error) {
	plain, err := unwrap(key, sealed, bound)
	if err != nil {
		return nil, tidemark.Errorf(tidemark.ErrCorrupt, "it does not open with its key: it was changed, or stood elsewhere")
	}
	return plain, nil
}

// BlobKey is a key for a few blobs that belong together, and that become unreadable
// together when it is destroyed.
type BlobKey []byte

// NewBlobKey returns a random key.
func NewBlobKey() BlobKey {
	s := newSecret()
	return s[:]
}

func (k BlobKey) secret() (s secret, err error) {
	if len(k) != len(s) {
		return s, tidemark.Errorf(tidemark.ErrCorrupt, "a key of %d bytes", len(k))
	}
	copy(s[:], k)
	return s, nil
}

// SealWith is Seal with a key of its own.
func (r *Ring) SealWith(k BlobKey, what string, plain []byte) ([]byte, error) {
	s, err := k.secret()
	if err != nil {
		return nil, err
	}
	return append([]byte{blobVersion}, wrap(s.derive("blob"), plain, blobBound(r.ring.store, what))...), nil
}

// OpenWith opens what SealWith sealed: ErrCorrupt.
func (r *Ring) OpenWith(k BlobKey, what string, sealed []byte) ([]byte, error) {
	s, err := k.secret()
	if err == nil && (len(sealed) < 1 || sealed[0] != blobVersion) {
		err = tidemark.Errorf(tidemark.ErrCorrupt, "it is not sealed in a form that this program knows")
	}
	if err != nil {
		return nil, err
	}
	return openBlob(s.derive("blob"), sealed[1:], blobBound(r.ring.store, what))
}

// NewIdentity returns the text of a fresh age identity, and the slot that lets it
// open a keyring.
func NewIdentity(label string) (text string, slot NewSlot, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", NewSlot{}, err
	}
	slot, err = AgeSlot(label, id.Recipient().String())
	return id.String(), slot, err
}
