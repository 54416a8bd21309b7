package seal

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"

	"filippo.io/age"

	"github.com/tidemark-sessions/tidemark"
)

const (
	keyFileComment = "# The key of a Tidemark store. Whoever has it can read the store; without it, nobody can. Keep a copy.\n"
	keyFileWord    = "TIDEMARK-KEY-"
	keyFileVersion = "1"
	keyFileCheck   = 4 // bytes

	// maxKeyFile is far above any file of keys, and small enough for memory when
	// somebody names another file by mistake.
	maxKeyFile = 1 << 20
)

// NewKeyFile returns the contents of a fresh key file, for the caller to store
// where nobody else can read it.
func NewKeyFile() []byte {
	return formatKeyFile(newSecret())
}

func formatKeyFile(key secret) []byte {
	check := keyCheck(key)
	text := base64.StdEncoding.EncodeToString(append(key[:], check[:]...))
	return []byte(keyFileComment + keyFileWord + keyFileVersion + " " + text + "\n")
}

// keyCheck tells a typing error from a wrong key.
func keyCheck(key secret) (check [keyFileCheck]byte) {
	sum := sha256.Sum256(append([]byte("tidemark key file 1"), key[:]...))
	copy(check[:], sum[:])
	return check
}

// Unlocker is something that may open a store. It is made by KeyFile or
// Passphrase; the zero value opens nothing.
type Unlocker struct {
	key        *secret
	identities []age.Identity
	passphrase []byte
}

// Passphrase returns an Unlocker for a passphrase.
func Passphrase(p []byte) Unlocker { return Unlocker{passphrase: bytes.Clone(p)} }

// KeyFile returns an Unlocker for the contents of a key file: one made by
// NewKeyFile, or age identities, one per line. ErrSealed: it holds no key, or
// one with a typing error in it, which is distinguished from a wrong key.
// ErrUnsupported: it was made by a newer program.
func KeyFile(contents []byte) (Unlocker, error) {
	if len(contents) > maxKeyFile {
		return Unlocker{}, sealedf("key file: %d bytes is too long for one", len(contents))
	}
	var u Unlocker
	var ids []string
	for n, line := range strings.Split(string(contents), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, keyFileWord):
			if u.key != nil {
				return Unlocker{}, sealedf("key file: line %d: a second key", n+1)
			}
			key, err := parseKeyLine(line)
			if err != nil {
				return Unlocker{}, err
			}
			u.key = &key
		case strings.HasPrefix(line, "AGE-SECRET-KEY-"):
			ids = append(ids, line)
		default:
			identity, is, err := parseWords(line)
			if !is {
				return Unlocker{}, sealedf("key file: line %d is neither a key nor an age identity", n+1)
			}
			if err != nil {
				return Unlocker{}, err
			}
			ids = append(ids, identity)
		}
	}
	if len(ids) > 0 {
		var err error
		if u.identities, err = age.ParseIdentities(strings.NewReader(strings.Join(ids, "\n"))); err != nil {
			return Unlocker{}, sealedf("key file: an age identity cannot be read: a character is missing or was changed")
		}
	}
	if u.key == nil && u.identities == nil {
		return Unlocker{}, sealedf("key file: holds no key")
	}
	return u, nil
}

func parseKeyLine(line string) (key secret, err error) {
	version, text, _ := strings.Cut(strings.TrimPrefix(line, keyFileWord), " ")
	if version != keyFileVersion {
		return key, tidemark.Unsupportedf("key file: version %.20q; this program reads version %s", version, keyFileVersion)
	}
	data, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(data) != len(key)+keyFileCheck {
		return key, sealedf("key file: the key is not whole")
	}
	copy(key[:], data)
	if check := keyCheck(key); !bytes.Equal(check[:], data[len(key):]) {
		return key, sealedf("key file: the key does not match its checksum: a character was changed")
	}
	return key, nil
}

// NewRecovery returns the text of a fresh recovery key, to be shown once and
// kept on paper, and the slot that lets it open the store. The text is an age
// identity: a file that holds it is a key file.
func NewRecovery() (text string, slot NewSlot, err error) {
	return NewIdentity(RecoveryLabel)
}

// RecoveryLabel is the label of the slot of a recovery key.
const RecoveryLabel = "recovery"

// parseRecipients reads age recipients, X25519 or hybrid.
func parseRecipients(texts []string) ([]age.Recipient, error) {
	if len(texts) == 0 {
		return nil, errors.New("no recipient")
	}
	for _, t := range texts {
		if t == "" || strings.ContainsAny(t, "\r\n#") || len(t) > maxRecipient {
			return nil, errors.New("not an age recipient")
		}
	}
	r, err := age.ParseRecipients(strings.NewReader(strings.Join(texts, "\n")))
	if err != nil {
		return nil, errors.New("not an age recipient (age1… or age1pq1…)")
	}
	return r, nil
}

// maxRecipient is above the length of a hybrid recipient.
const maxRecipient = 4096

func randomID() string {
	var b [slotIDBytes]byte
	rand.Read(b[:])
	return hexOf(b[:])
}
