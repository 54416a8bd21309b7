package seal

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"
)

const (
	nonceBytes = chacha20poly1305.NonceSizeX
	tagBytes   = chacha20poly1305.Overhead
)

// secret is 32 bytes that must stay secret.
type secret [chacha20poly1305.KeySize]byte

// storeID tells one sealed store from another. It is bound to everything that is
// sealed, so that nothing can be moved from one store into another.
type storeID [16]byte

func newSecret() (s secret) {
	rand.Read(s[:])
	return s
}

// derive returns a key for one purpose, so that no key ever serves two.
func (s *secret) derive(purpose string) (d secret) {
	h := hmac.New(sha256.New, s[:])
	h.Write([]byte("tidemark seal 1 " + purpose))
	h.Sum(d[:0])
	return d
}

func (s *secret) aead() cipher.AEAD {
	a, err := chacha20poly1305.NewX(s[:])
	if err != nil {
		panic(err) // 32 bytes are always a key
	}
	return a
}

// mac is HMAC-SHA-256 over several texts, each preceded by its length, so that
// no two splits of the same bytes are equal.
func (s *secret) mac(parts ...string) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, s[:])
	var size [4]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint32(size[:], uint32(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	h.Sum(sum[:0])
	return sum
}

var errOpen = errors.New("it does not open")

// wrap seals a few bytes under a key: the nonce, then the ciphertext.
func wrap(key secret, plain, bound []byte) []byte {
	var nonce [nonceBytes]byte
	rand.Read(nonce[:])
	return wrapWith(key, nonce, plain, bound)
}

func wrapWith(key secret, nonce [nonceBytes]byte, plain, bound []byte) []byte {
	return key.aead().Seal(nonce[:], nonce[:], plain, bound)
}

func unwrap(key secret, wrapped, bound []byte) ([]byte, error) {
	if len(wrapped) < nonceBytes+tagBytes {
		return nil, errOpen
	}
	plain, err := key.aead().Open(nil, wrapped[:nonceBytes], wrapped[nonceBytes:], bound)
	if err != nil {
		return nil, errOpen
	}
	return plain, nil
}

const bindWords = "tidemark seal 1 "

// bind begins the bound data of a sealed thing with its domain and its store.
func bind(room []byte, domain string, store storeID) []byte {
	room = bindText(room, bindWords+domain)
	return append(room, store[:]...)
}

// bindText adds a text preceded by its length.
func bindText[T string | []byte](room []byte, s T) []byte {
	room = binary.LittleEndian.AppendUint16(room, uint16(len(s)))
	return append(room, s...)
}

// bounded is a map that never holds more than limit things. When it is full, an
// arbitrary half is removed; what is missing is read again.
type bounded[K comparable, V any] struct {
	mu    sync.RWMutex
	limit int
	kept  map[K]V
}

func newBounded[K comparable, V any](limit int) *bounded[K, V] {
	return &bounded[K, V]{limit: limit, kept: make(map[K]V)}
}

func (b *bounded[K, V]) get(k K) (V, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	v, ok := b.kept[k]
	return v, ok
}

func (b *bounded[K, V]) set(k K, v V) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kept) >= b.limit {
		left := b.limit / 2
		for old := range b.kept {
			if left--; left < 0 {
				break
			}
			delete(b.kept, old)
		}
	}
	b.kept[k] = v
}

func (b *bounded[K, V]) forget(k K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.kept, k)
}

func (b *bounded[K, V]) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.kept)
}
