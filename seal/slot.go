package seal

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"filippo.io/age"
	"golang.org/x/crypto/argon2"

	"github.com/tidemark-sessions/tidemark"
)

// The types of slots.
const (
	TypeFile       = "file"
	TypePassphrase = "passphrase"
	TypeAge        = "age"
)

const (
	slotIDBytes = 8
	saltBytes   = 16

	maxSlots      = 32
	maxRecipients = 32
	maxLabel      = 100     // bytes
	maxBundle     = 1 << 17 // bytes; the age file of 32 hybrid recipients has some 60 KB

	// The bounds of what a header may demand of Argon2id. A header is read
	// before anything in it can be trusted, and must not cost more than a strong
	// passphrase would.
	maxArgonTime      = 16
	maxArgonMemoryKiB = 1 << 20 // 1 GiB
	maxArgonThreads   = 16
)

// slot is one way to open the store.
type slot struct {
	ID         string    `json:"id"`
	Type       string    `json:"type"`
	Label      string    `json:"label,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	Argon      *argon    `json:"argon2id,omitempty"`
	Recipients []string  `json:"recipients,omitempty"`
	Bundle     []byte    `json:"bundle"`         // the keys of the store, wrapped by the slot's key
	Kept       []byte    `json:"kept,omitempty"` // the slot's key, wrapped by the store key
}

// argon holds the parameters that turn a passphrase into a key.
type argon struct {
	Time      uint32 `json:"time"`
	MemoryKiB uint32 `json:"memory_kib"`
	Threads   uint8  `json:"threads"`
	Salt      []byte `json:"salt"`
}

func (a *argon) check() error {
	switch {
	case a == nil:
		return errors.New("a passphrase without its parameters")
	case a.Time < 1 || a.Time > maxArgonTime || a.Threads < 1 || a.Threads > maxArgonThreads,
		a.MemoryKiB < 8*uint32(a.Threads) || a.MemoryKiB > maxArgonMemoryKiB, len(a.Salt) != saltBytes:
		return errors.New("parameters of a passphrase out of bounds")
	}
	return nil
}

func (a *argon) key(passphrase []byte) secret {
	return secret(argon2.IDKey(passphrase, a.Salt, a.Time, a.MemoryKiB, a.Threads, uint32(len(secret{}))))
}

// Cost is how much work a passphrase takes: nil means 64 MiB of memory, three
// passes, four threads, about half a second.
type Cost struct {
	Time      uint32
	MemoryKiB uint32
	Threads   uint8
}

var defaultCost = Cost{Time: 3, MemoryKiB: 64 << 10, Threads: 4}

// NewSlot is a way to open a store, not yet added to it.
type NewSlot struct {
	slot slot
	key  *secret // of a slot of type file or passphrase
}

// IsZero reports whether s is no slot at all.
func (s NewSlot) IsZero() bool { return s.slot.Type == "" }

// ID is the slot's id in the header of the store.
func (s NewSlot) ID() string { return s.slot.ID }

// FileSlot lets the key file with these contents open the store. They come from
// NewKeyFile; for age identities there is AgeSlot.
func FileSlot(label string, contents []byte) (NewSlot, error) {
	u, err := KeyFile(contents)
	if err != nil {
		return NewSlot{}, err
	}
	if u.key == nil {
		return NewSlot{}, tidemark.Invalidf("key file: holds age identities; add their recipients instead")
	}
	s := NewSlot{slot: slot{ID: printOf(u.key), Type: TypeFile, Label: label}, key: u.key}
	return s, checkLabel(label)
}

// printOf is the id of the slot of a key file: it identifies the key, and
// reveals nothing about it.
func printOf(key *secret) string {
	id := key.derive("slot id")
	return hexOf(id[:slotIDBytes])
}

// PassphraseSlot lets a passphrase open the store. ErrInvalid: it is too easily
// guessed.
func PassphraseSlot(label string, passphrase []byte, cost *Cost) (NewSlot, error) {
	if err := checkPassphrase(passphrase); err != nil {
		return NewSlot{}, err
	}
	c := defaultCost
	if cost != nil {
		c = *cost
	}
	salt := newSecret()
	a := &argon{Time: c.Time, MemoryKiB: c.MemoryKiB, Threads: c.Threads, Salt: salt[:saltBytes]}
	if err := a.check(); err != nil {
		return NewSlot{}, tidemark.Invalidf("passphrase: %w", err)
	}
	key := a.key(passphrase)
	s := NewSlot{slot: slot{ID: randomID(), Type: TypePassphrase, Label: label, Argon: a}, key: &key}
	return s, checkLabel(label)
}

// AgeSlot lets anyone with an identity of one of the recipients open the store.
// Recipients with and without post-quantum keys need separate slots, because the
// weaker kind would decide.
func AgeSlot(label string, recipients ...string) (NewSlot, error) {
	if len(recipients) > maxRecipients {
		return NewSlot{}, tidemark.Invalidf("recipients: at most %d are allowed", maxRecipients)
	}
	parsed, err := parseRecipients(recipients)
	if err != nil {
		return NewSlot{}, tidemark.Invalidf("recipients: %w", err)
	}
	if _, err := ageEncrypt(nil, parsed); err != nil {
		return NewSlot{}, tidemark.Invalidf("recipients: age1pq1… and age1… cannot share a slot; add one for each")
	}
	s := NewSlot{slot: slot{ID: randomID(), Type: TypeAge, Label: label, Recipients: slices.Clone(recipients)}}
	return s, checkLabel(label)
}

func checkLabel(label string) error {
	if len(label) > maxLabel || !utf8.ValidString(label) || bytes.ContainsFunc([]byte(label), unicode.IsControl) {
		return tidemark.Invalidf("label %.40q: want at most %d bytes without control characters", label, maxLabel)
	}
	return nil
}

// check validates a slot of a header that is not authenticated yet.
func (s *slot) check() error {
	switch {
	case tidemark.CheckID(s.ID) != nil:
		return errors.New("a slot without an id")
	case checkLabel(s.Label) != nil:
		return errors.New("a label that cannot be one")
	case len(s.Bundle) == 0 || len(s.Bundle) > maxBundle:
		return errors.New("a slot without keys")
	}
	switch s.Type {
	case TypeFile:
		return nil
	case TypePassphrase:
		return s.Argon.check()
	case TypeAge:
		if len(s.Recipients) > maxRecipients {
			return errors.New("too many recipients")
		}
		_, err := parseRecipients(s.Recipients)
		return err
	}
	return errors.New("a slot of an unknown type")
}

// bound is what a wrapped key of the slot is bound to.
func (s *slot) bound(domain string, store storeID) []byte {
	b := bind(nil, domain, store)
	b = bindText(b, s.Type)
	return bindText(b, s.ID)
}

// fill wraps the keys of the store for the slot. Unless the slot is of type age,
// its own key is stored too, under the store key: so the keys can be rewrapped
// without asking for every passphrase.
func (s *slot) fill(keys *bundle, key *secret) error {
	if s.Type == TypeAge {
		recipients, err := parseRecipients(s.Recipients)
		if err == nil {
			s.Bundle, err = ageEncrypt(keys.encode(), recipients)
		}
		return err
	}
	s.Bundle = wrap(key.derive("slot"), keys.encode(), s.bound("bundle", keys.store))
	s.Kept = wrap(keys.currentKey().derive("kept"), key[:], s.bound("kept", keys.store))
	return nil
}

// refill wraps other keys for a slot that was filled with old ones.
func (s *slot) refill(old, keys *bundle) error {
	if s.Type == TypeAge {
		return s.fill(keys, nil)
	}
	kept, err := unwrap(old.currentKey().derive("kept"), s.Kept, s.bound("kept", old.store))
	if err != nil || len(kept) != len(secret{}) {
		return damaged(keyringKey, "the kept key of slot %s does not open", s.ID)
	}
	key := secret(kept)
	return s.fill(keys, &key)
}

// open unwraps the keys of the store with the key of the slot.
func (s *slot) open(key *secret, store storeID) (*bundle, error) {
	plain, err := unwrap(key.derive("slot"), s.Bundle, s.bound("bundle", store))
	if err != nil {
		return nil, err
	}
	return decodeBundle(plain)
}

// openAge unwraps the keys of the store with age identities; nil when none of
// them belongs to a recipient.
func (s *slot) openAge(ids []age.Identity) (*bundle, error) {
	r, err := age.Decrypt(bytes.NewReader(s.Bundle), ids...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) && !s.isFor(ids) {
		return nil, nil
	}
	if err != nil {
		return nil, errOpen
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxBundle))
	if err != nil {
		return nil, errOpen
	}
	return decodeBundle(plain)
}

// isFor reports whether one of the identities belongs to a recipient.
func (s *slot) isFor(ids []age.Identity) bool {
	for _, id := range ids {
		text := ""
		switch id := id.(type) {
		case *age.X25519Identity:
			text = id.Recipient().String()
		case *age.HybridIdentity:
			text = id.Recipient().String()
		}
		if slices.Contains(s.Recipients, text) {
			return true
		}
	}
	return false
}

func ageEncrypt(plain []byte, recipients []age.Recipient) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, recipients...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// name is what people call the slot.
func (s *slot) name() string {
	what := map[string]string{TypeFile: "key file", TypePassphrase: "passphrase", TypeAge: "age identity"}[s.Type]
	switch {
	case s.Type == TypeAge && s.Label == RecoveryLabel:
		return "recovery key"
	case s.Label != "":
		return what + " “" + s.Label + "”"
	case s.Type == TypeFile:
		return what + " " + s.ID
	}
	return what
}
