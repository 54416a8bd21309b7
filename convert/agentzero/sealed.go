package agentzero

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/argon2"

	"github.com/tidemark-sessions/tidemark"
)

// The parameters of AgentZero's encryption. They are not in its files.
const (
	kdfTime    = 2
	kdfKiB     = 19456
	kdfThreads = 1
	keyBytes   = 32
	saltBytes  = 16
	nonceBytes = 12
	tagBytes   = 16
)

// passphraseEnv is the variable that AgentZero reads its passphrase from.
const passphraseEnv = "AZ_PASSPHRASE"

// passphrases are candidates to open a file, the likeliest first.
type passphrases struct {
	env     func(string) string
	machine string
}

func newPassphrases(env func(string) string) *passphrases { return &passphrases{env: env} }

// first returns the passphrase that AgentZero would encrypt with here.
func (p *passphrases) first() string {
	if given := p.env(passphraseEnv); given != "" {
		return given
	}
	return p.ofMachine()
}

// ofMachine derives the passphrase that AgentZero uses when none is given. It
// changes with the names of the host and of the user.
func (p *passphrases) ofMachine() string {
	if p.machine == "" {
		host := firstOf(p.env("HOSTNAME"), p.env("HOST"), hostFile(), "unknown-host")
		user := firstOf(p.env("USER"), p.env("USERNAME"), "unknown-user")
		p.machine = hex.EncodeToString(derive("agentzero:v1:"+host+":"+user+":machine-key", []byte("agentzero-mach01")))
	}
	return p.machine
}

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

// hostFile returns the name of the host from a system file, "" where there is
// none.
func hostFile() string {
	b, err := os.ReadFile("/etc/hostname")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func derive(passphrase string, salt []byte) []byte {
	return argon2.IDKey([]byte(passphrase), salt, kdfTime, kdfKiB, kdfThreads, keyBytes)
}

// open decrypts a session file. A file may be older than the passphrase that
// is set now, so the machine's is tried as well. ErrSealed: none fits.
func (p *passphrases) open(file []byte) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(file)))
	if err != nil || len(raw) < saltBytes+nonceBytes+tagBytes {
		return nil, tidemark.Invalidf("is no encrypted session")
	}
	salt, nonce, sealed := raw[:saltBytes], raw[saltBytes:saltBytes+nonceBytes], raw[saltBytes+nonceBytes:]
	given := p.env(passphraseEnv)
	tried := "the key of this machine does not open it; set " + passphraseEnv
	if given != "" {
		tried = "neither " + passphraseEnv + " nor the key of this machine opens it"
		if b, err := decrypt(derive(given, salt), nonce, sealed); err == nil {
			return b, nil
		}
	}
	if b, err := decrypt(derive(p.ofMachine(), salt), nonce, sealed); err == nil {
		return b, nil
	}
	return nil, fmt.Errorf("%w: %s", tidemark.ErrSealed, tried)
}

func decrypt(key, nonce, sealed []byte) ([]byte, error) {
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nonce, sealed, nil)
}

// seal encrypts a session file, on one line without a newline, which is the only
// form that AgentZero can read.
func seal(passphrase string, plain []byte) ([]byte, error) {
	raw := make([]byte, saltBytes+nonceBytes, saltBytes+nonceBytes+len(plain)+tagBytes)
	rand.Read(raw)
	aead, err := newAEAD(derive(passphrase, raw[:saltBytes]))
	if err != nil {
		return nil, err
	}
	raw = aead.Seal(raw, raw[saltBytes:], plain, nil)
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
