package seal

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/tidemark-sessions/tidemark"
)

// Format is the version of the keyring and of everything that is sealed. Stores
// keep the one that they were made with.
const Format = packingFormat

const (
	kindKeyring = "keyring"
	kindDataKey = "datakey"

	// maxHeader bounds a keyring that is read: only 32 slots of 32 hybrid
	// recipients would exceed it, and nobody has those.
	maxHeader = 4 << 20
)

// keyringKey is where the keyring of a store is. A store that has it is
// sealed.
var keyringKey = tidemark.Keyring()

// header is the content of the keyring, in the clear. All of it is covered by
// a MAC under a key that only the slots open.
type header struct {
	Format   int       `json:"format"`
	Store    string    `json:"store"`
	NoIndex  bool      `json:"no_index,omitempty"`
	Rotation *rotation `json:"rotation,omitempty"`
	Slots    []slot    `json:"slots"`
}

// rotation says that one is in progress: the slot that will be removed, and
// those that may replace it.
type rotation struct {
	Old string   `json:"old,omitempty"`
	New []string `json:"new,omitempty"`
}

func (h *header) slot(id string) *slot {
	i := slices.IndexFunc(h.Slots, func(s slot) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &h.Slots[i]
}

// clone returns a header that can be changed without changing h.
func (h *header) clone() *header {
	next := *h
	next.Slots = slices.Clone(h.Slots)
	if h.Rotation != nil {
		r := *h.Rotation
		r.New = slices.Clone(r.New)
		next.Rotation = &r
	}
	return &next
}

// opensWith lists what opens the store, for people.
func (h *header) opensWith() string {
	var names []string
	for i := range h.Slots {
		if n := h.Slots[i].name(); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// envelope is the body of the record: the header, byte for byte as its MAC
// covers it.
type envelope struct {
	Keyring json.RawMessage `json:"keyring"`
	MAC     string          `json:"mac"`
}

// ring is an opened keyring. It is replaced whole and never changed.
type ring struct {
	*bundle
	header  *header
	version int64  // of its record
	opened  string // the id of the slot that opened it
}

// encodeRing returns the body of a keyring.
func encodeRing(h *header, keys *bundle) ([]byte, error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"keyring":%s,"mac":"%s"}`, raw, hexOf(ringMAC(raw, keys))), nil
}

func ringMAC(raw []byte, keys *bundle) []byte {
	key := keys.currentKey().derive("keyring")
	h := hmac.New(sha256.New, key[:])
	h.Write(raw)
	return h.Sum(nil)
}

// parseRing reads the body of a keyring. The result is well-formed, but not yet
// authenticated. ErrUnsupported: it was written by a newer program.
func parseRing(body []byte) (*header, envelope, storeID, error) {
	var e envelope
	var id storeID
	bad := func(what string) (*header, envelope, storeID, error) {
		return nil, e, id, damaged(keyringKey, "the header of the sealed store cannot be read: %s", what)
	}
	if len(body) > maxHeader {
		return bad("it is too long")
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return bad(err.Error())
	}
	var version struct {
		Format int64 `json:"format"`
	}
	if err := json.Unmarshal(e.Keyring, &version); err != nil {
		return bad("no keyring in it")
	}
	if version.Format > Format {
		return nil, e, id, &tidemark.NewerError{What: "what the store is sealed with", Format: version.Format, Known: Format}
	}
	h := new(header)
	d := json.NewDecoder(bytes.NewReader(e.Keyring))
	d.DisallowUnknownFields()
	if err := d.Decode(h); err != nil {
		return bad(err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return bad("something stands behind it")
	}
	raw, err := hex.DecodeString(h.Store)
	if err != nil || len(raw) != len(id) {
		return bad("no store id in it")
	}
	copy(id[:], raw)
	if h.Format < 1 || len(h.Slots) == 0 || len(h.Slots) > maxSlots {
		return bad("no slots in it, or too many")
	}
	seen := make(map[string]bool)
	for i := range h.Slots {
		if err := h.Slots[i].check(); err != nil {
			return bad(err.Error())
		}
		if seen[h.Slots[i].ID] {
			return bad("two slots of one id")
		}
		seen[h.Slots[i].ID] = true
	}
	return h, e, id, nil
}

// opener is what opened the keyring, kept to open it again after another program
// changed it.
type opener struct {
	slot       string // of key
	key        *secret
	identities []age.Identity
}

// openRing opens the keyring in r with the opener's key.
func (o *opener) openRing(r tidemark.Record) (*ring, error) {
	h, e, id, err := parseRing(r.Body)
	if err != nil {
		return nil, err
	}
	if s := h.slot(o.slot); s != nil && o.key != nil {
		keys, err := s.open(o.key, id)
		if err != nil {
			return nil, damaged(keyringKey, "slot %s, which opened the store, no longer does: %s", s.ID, err)
		}
		return newRing(r, h, e, keys, s.ID)
	}
	for i := range h.Slots {
		if s := &h.Slots[i]; s.Type == TypeAge && len(o.identities) > 0 {
			if keys, err := s.openAge(o.identities); err == nil && keys != nil {
				return newRing(r, h, e, keys, s.ID)
			}
		}
	}
	return nil, sealedf("the keys of the store were changed by another program since it was opened here; open it again (it opens with: %s)", h.opensWith())
}

// newRing checks the header against the keys that were unlocked with it.
func newRing(r tidemark.Record, h *header, e envelope, keys *bundle, opened string) (*ring, error) {
	mac, err := hex.DecodeString(e.MAC)
	if err != nil || !hmac.Equal(mac, ringMAC(e.Keyring, keys)) || hexOf(keys.store[:]) != h.Store {
		return nil, damaged(keyringKey, "the header of the sealed store was changed by somebody without its key")
	}
	return &ring{bundle: keys, header: h, version: r.Version, opened: opened}, nil
}

// unlock opens the keyring in r with what the caller has. ErrSealed: none of it
// fits. ErrCorrupt: something fits but does not open.
func unlock(ctx context.Context, r tidemark.Record, unlockers []Unlocker) (*ring, *opener, error) {
	h, e, id, err := parseRing(r.Body)
	if err != nil {
		return nil, nil, err
	}
	var broken error
	for _, u := range unlockers {
		for i := range h.Slots {
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			s := &h.Slots[i]
			o, keys, err := u.try(s, id)
			if err != nil {
				broken = damaged(keyringKey, "slot %s (%s) is the right one and does not open: it was changed", s.ID, s.name())
			}
			if keys == nil {
				continue
			}
			opened, err := newRing(r, h, e, keys, s.ID)
			return opened, o, err
		}
	}
	switch {
	case broken != nil:
		return nil, nil, broken
	case len(unlockers) == 0:
		return nil, nil, sealedf("the store is sealed, and no key was given; it opens with: %s", h.opensWith())
	}
	return nil, nil, sealedf("the store is sealed, and what was given does not open it; it opens with: %s", h.opensWith())
}

// try tries one slot. It returns no keys when the slot is for somebody else, and
// an error when it is the right one but does not open.
func (u Unlocker) try(s *slot, id storeID) (*opener, *bundle, error) {
	switch {
	case s.Type == TypeFile && u.key != nil && printOf(u.key) == s.ID:
		keys, err := s.open(u.key, id)
		return &opener{slot: s.ID, key: u.key}, keys, err
	case s.Type == TypePassphrase && u.passphrase != nil:
		key := s.Argon.key(u.passphrase)
		keys, err := s.open(&key, id)
		if errors.Is(err, errOpen) {
			err = nil // most likely another passphrase
		}
		return &opener{slot: s.ID, key: &key}, keys, err
	case s.Type == TypeAge && u.identities != nil:
		keys, err := s.openAge(u.identities)
		return &opener{identities: u.identities}, keys, err
	}
	return nil, nil, nil
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }
