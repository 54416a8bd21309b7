package seal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
)

// keyID names a store key in the clear.
type keyID [4]byte

func (id keyID) String() string { return hexOf(id[:]) }

func hexOf(b []byte) string { return hex.EncodeToString(b) }

// bundle is what a slot opens: every key of a store. There is one store key, and
// two during a rotation; names stays for the life of the store, because replacing
// what was derived from it would mean reading everything.
type bundle struct {
	store   storeID
	current keyID
	keys    []storeKey
	names   secret // for Hash
	words   secret // unused: earlier versions hashed the words of an index with it
}

type storeKey struct {
	id  keyID
	key secret
}

const bundleVersion = 1

// maxStoreKeys is how many store keys a bundle may hold. The keyring of a store has
// two during a rotation; a Ring has an earlier one until nothing is sealed with it.
const maxStoreKeys = 16

func (b *bundle) key(id keyID) *secret {
	for i := range b.keys {
		if b.keys[i].id == id {
			return &b.keys[i].key
		}
	}
	return nil
}

func (b *bundle) currentKey() *secret { return b.key(b.current) }

// withNewKey returns b with one more store key, which is the current one.
func (b *bundle) withNewKey() *bundle {
	next := *b
	k := storeKey{key: newSecret()}
	rand.Read(k.id[:])
	next.keys = append(slices.Clone(b.keys), k)
	next.current = k.id
	return &next
}

// onlyCurrent returns b without earlier store keys.
func (b *bundle) onlyCurrent() *bundle {
	next := *b
	next.keys = []storeKey{{id: b.current, key: *b.currentKey()}}
	return &next
}

func (b *bundle) encode() []byte {
	out := append([]byte{bundleVersion}, b.store[:]...)
	out = append(out, b.current[:]...)
	out = append(out, byte(len(b.keys)))
	for _, k := range b.keys {
		out = append(out, k.id[:]...)
		out = append(out, k.key[:]...)
	}
	out = append(out, b.names[:]...)
	return append(out, b.words[:]...)
}

var errBundle = errors.New("the keys in it are not whole")

func decodeBundle(data []byte) (*bundle, error) {
	var b bundle
	take := func(into []byte) bool {
		if len(data) < len(into) {
			return false
		}
		data = data[copy(into, data):]
		return true
	}
	var version, count [1]byte
	if !take(version[:]) || version[0] != bundleVersion || !take(b.store[:]) || !take(b.current[:]) || !take(count[:]) ||
		count[0] < 1 || count[0] > maxStoreKeys {
		return nil, errBundle
	}
	for range count[0] {
		var k storeKey
		if !take(k.id[:]) || !take(k.key[:]) {
			return nil, errBundle
		}
		b.keys = append(b.keys, k)
	}
	if !take(b.names[:]) || !take(b.words[:]) || len(data) != 0 || b.currentKey() == nil {
		return nil, errBundle
	}
	return &b, nil
}
