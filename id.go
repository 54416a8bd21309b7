package tidemark

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// MaxIDBytes bounds everything that names a file or a row: long enough for a
// session id with a worker's name behind it, short enough for every file
// system.
const MaxIDBytes = 128

// SessionID is a UUID in its lower-case text form: a random one (version 4), or
// one made from what the session is (version 8). With both a short prefix
// identifies one session; time-ordered ids share their prefix for weeks.
type SessionID string

// NewSessionID returns a fresh id.
func NewSessionID() SessionID {
	var b [16]byte
	rand.Read(b[:])
	return uuid(b, 4)
}

// DerivedSessionID returns the id that stands for these texts: the same one on
// every machine, a UUID of version 8 with the beginning of their SHA-256.
func DerivedSessionID(parts ...string) SessionID {
	h := sha256.New()
	for _, part := range parts {
		// With the length before each, no two lists are written alike.
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return uuid([16]byte(h.Sum(nil)), 8)
}

// Derived reports whether the id is one of DerivedSessionID.
func (id SessionID) Derived() bool { return len(id) == 36 && id[14] == '8' }

// uuid sets the version of a UUID.
func uuid(b [16]byte, version byte) SessionID {
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	var t [36]byte
	hex.Encode(t[0:8], b[0:4])
	hex.Encode(t[9:13], b[4:6])
	hex.Encode(t[14:18], b[6:8])
	hex.Encode(t[19:23], b[8:10])
	hex.Encode(t[24:36], b[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return SessionID(t[:])
}

// ParseSessionID accepts the 36-character text of a UUID of any version, in
// either case. It returns ErrInvalid for anything else.
func ParseSessionID(s string) (SessionID, error) {
	if len(s) != 36 {
		return "", Invalidf("session id %q: want 36 characters like 7f3a0c1e-…", clip(s))
	}
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return "", Invalidf("session id %q: want a dash at position %d", s, i+1)
			}
		} else if !isHex(s[i]) {
			return "", Invalidf("session id %q: not a hexadecimal digit at position %d", clip(s), i+1)
		}
	}
	return SessionID(strings.ToLower(s)), nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// Key names a record, a log, or a record and the log that belongs to it. Kind
// is a lower-case word, ID is what CheckID accepts.
type Key struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

func (k Key) String() string { return k.Kind + "/" + k.ID }

// Check returns ErrInvalid when k could not name a file or a row.
func (k Key) Check() error {
	if k.Kind == "" || len(k.Kind) > 32 {
		return Invalidf("kind %q: want 1 to 32 lower-case letters", clip(k.Kind))
	}
	for i := range len(k.Kind) {
		if c := k.Kind[i]; c < 'a' || c > 'z' {
			return Invalidf("kind %q: want 1 to 32 lower-case letters", clip(k.Kind))
		}
	}
	return CheckID(k.ID)
}

// CheckID returns ErrInvalid for an id that is empty, longer than MaxIDBytes,
// begins with a dot, holds "..", or has any character but letters, digits,
// dot, dash and underscore. What passes is safe as a file name and as a row.
func CheckID(s string) error {
	switch {
	case s == "":
		return Invalidf("empty id")
	case len(s) > MaxIDBytes:
		return Invalidf("id %q: %d bytes, at most %d are allowed", clip(s), len(s), MaxIDBytes)
	case s[0] == '.':
		return Invalidf("id %q: begins with a dot", clip(s))
	}
	dot := false // the character before is one
	for i := range len(s) {
		switch allowedInID[s[i]] {
		case noID:
			if strings.Contains(s, "..") {
				return Invalidf("id %q: holds \"..\"", clip(s))
			}
			return Invalidf("id %q: %q is not allowed (letters, digits, dot, dash, underscore)", clip(s), s[i])
		case plainID:
			dot = false
		default:
			if dot {
				return Invalidf("id %q: holds \"..\"", clip(s))
			}
			dot = true
		}
	}
	return nil
}

// The characters of ids, in a table: each append checks some four ids.
const (
	noID = iota
	plainID
	dotID
)

var allowedInID = func() (of [256]uint8) {
	for c := range of {
		switch c := byte(c); {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_':
			of[c] = plainID
		case c == '.':
			of[c] = dotID
		}
	}
	return of
}()

// NewBatchID returns a fresh name for a batch: 96 random bits.
func NewBatchID() string {
	var b [12]byte
	rand.Read(b[:])
	var text [16]byte
	base64.RawURLEncoding.Encode(text[:], b[:])
	return string(text[:])
}

// clip keeps hostile ids from flooding an error message.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
