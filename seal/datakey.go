package seal

import (
	"context"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// storeOwner is the owner of everything that belongs to no session.
const storeOwner = "store"

// ownerOf returns the owner of the data key that seals what is stored under key:
// the session whose id the key's id equals or begins with, or the store.
func ownerOf(key tidemark.Key) string {
	id, _, _ := strings.Cut(key.ID, ".")
	if !isSession(id) {
		return storeOwner
	}
	return id
}

func isSession(id string) bool {
	_, err := tidemark.ParseSessionID(id)
	return err == nil
}

func dataKeyKey(owner string) tidemark.Key { return tidemark.Key{Kind: kindDataKey, ID: owner} }

// dataKey is the opened key of one owner. It is never changed; another
// version of its record makes another dataKey.
type dataKey struct {
	owner   string
	version int64  // of its record, 0: not stored yet
	body    []byte // of its record
	print   keyPrint
	secret  secret
	bodies  cipher.AEAD
	keys    secret // hashes the keys of lines
}

// keyPrint tells in the clear whether two wrapped data keys are the same one.
type keyPrint [8]byte

const (
	dataKeyVersion = 1
	dataKeyBytes   = 1 + len(keyID{}) + len(keyPrint{}) + nonceBytes + len(secret{}) + tagBytes
)

func newDataKey(owner string, s secret) *dataKey {
	k := &dataKey{owner: owner, secret: s}
	print := s.derive("print")
	copy(k.print[:], print[:])
	bodies := s.derive("bodies")
	k.bodies, k.keys = bodies.aead(), s.derive("line keys")
	return k
}

// hash returns the key of a line in the form that the Backend underneath sees:
// equal in one log for equal keys, and meaningless elsewhere.
func (k *dataKey) hash(log tidemark.Key, key string) string {
	sum := k.keys.mac(log.Kind, log.ID, key)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// wrap returns the body of the record that holds k under a store key.
func (k *dataKey) wrap(r *ring) []byte {
	bound := dataKeyBound(r.store, k.owner, r.current, k.print)
	return joinDataKey(r.current, k.print, wrap(r.currentKey().derive("data keys"), k.secret[:], bound))
}

func joinDataKey(id keyID, print keyPrint, wrapped []byte) []byte {
	out := append([]byte{dataKeyVersion}, id[:]...)
	out = append(out, print[:]...)
	return append(out, wrapped...)
}

func splitDataKey(body []byte) (id keyID, print keyPrint, wrapped []byte, ok bool) {
	if len(body) != dataKeyBytes || body[0] != dataKeyVersion {
		return id, print, nil, false
	}
	copy(id[:], body[1:])
	copy(print[:], body[1+len(id):])
	return id, print, body[1+len(id)+len(print):], true
}

func dataKeyBound(store storeID, owner string, id keyID, print keyPrint) []byte {
	b := bind(nil, "data key", store)
	b = bindText(b, owner)
	b = append(b, id[:]...)
	return append(b, print[:]...)
}

// record returns the record that puts k, wrapped as body, after version.
func (k *dataKey) record(version int64, body []byte) tidemark.Record {
	r := tidemark.Record{Key: dataKeyKey(k.owner), Version: version + 1, Body: body}
	r.Sum = r.Checksum()
	return r
}

// dataKey returns the data key of owner, nil when it has none.
func (b *Backend) dataKey(ctx context.Context, owner string) (*dataKey, error) {
	if k, ok := b.keys.get(owner); ok {
		return k, nil
	}
	return b.loadKey(ctx, owner)
}

// loadKey is dataKey without the cache.
func (b *Backend) loadKey(ctx context.Context, owner string) (*dataKey, error) {
	r, err := b.inner.Get(ctx, dataKeyKey(owner))
	if errors.Is(err, tidemark.ErrNotFound) || err == nil && r.Version == 0 {
		b.keys.forget(owner)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data key of %s: %w", owner, err)
	}
	k, err := b.openKey(ctx, owner, r)
	if err != nil {
		b.keys.forget(owner)
		return nil, err
	}
	b.keys.set(owner, k)
	return k, nil
}

// openKey opens the record of a data key. An unknown store key comes from a
// rotation by another program: the keyring is then read again. If that does not
// open any more, a key that was opened before can still be used.
func (b *Backend) openKey(ctx context.Context, owner string, r tidemark.Record) (*dataKey, error) {
	id, print, wrapped, ok := splitDataKey(r.Body)
	if !ok {
		return nil, damaged(r.Key, "it is no sealed data key")
	}
	with := b.ring.Load()
	if with.key(id) == nil {
		var err error
		if with, err = b.reload(ctx); err != nil {
			if k, ok := b.keys.get(owner); ok && k.print == print && errors.Is(err, tidemark.ErrSealed) {
				return k.at(r), nil
			}
			return nil, err
		}
	}
	under := with.key(id)
	if under == nil {
		return nil, damaged(r.Key, "it is sealed by store key %s, which the keyring does not have", id)
	}
	plain, err := unwrap(under.derive("data keys"), wrapped, dataKeyBound(b.store, owner, id, print))
	if err != nil || len(plain) != len(secret{}) {
		return nil, damaged(r.Key, "it does not open with the store key: it was changed, or moved here from elsewhere")
	}
	return newDataKey(owner, secret(plain)).at(r), nil
}

// at returns k with the version and body of r.
func (k *dataKey) at(r tidemark.Record) *dataKey {
	next := *k
	next.version, next.body = r.Version, r.Body
	return &next
}

// keyFor returns the data key that seals what is stored under key. A missing or
// damaged one is damage to what is stored.
func (b *Backend) keyFor(ctx context.Context, key tidemark.Key) (*dataKey, error) {
	owner := ownerOf(key)
	k, err := b.dataKey(ctx, owner)
	return k, b.keyDamage(key, owner, k, err)
}

// keyAgain is keyFor without the cache, for what does not open with the key was:
// the session may have been purged and created again elsewhere. It returns nil
// when the key is the same.
func (b *Backend) keyAgain(ctx context.Context, key tidemark.Key, was *dataKey) (*dataKey, error) {
	owner := ownerOf(key)
	k, err := b.loadKey(ctx, owner)
	if err = b.keyDamage(key, owner, k, err); err != nil || k.print == was.print {
		return nil, err
	}
	return k, nil
}

func (b *Backend) keyDamage(key tidemark.Key, owner string, k *dataKey, err error) error {
	switch {
	case errors.Is(err, tidemark.ErrCorrupt):
		return damaged(key, "its data key %s is damaged: %s", dataKeyKey(owner), damageText(err))
	case err != nil:
		return err
	case k == nil:
		return damaged(key, "its data key %s is missing, and without it nobody can open this", dataKeyKey(owner))
	}
	return nil
}
