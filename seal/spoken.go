package seal

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"strings"

	"filippo.io/age"
)

// Words are a short-lived age identity in a form that people read to each other and
// type: eight words of five letters for 128 random bits, and a ninth that tells a
// typing mistake. Each word is sixteen bits, as consonants and vowels in turn.
const (
	wordSeed   = 16
	consonants = "bdfghjklmnprstvz"
	vowels     = "aiou"
)

// NewWords returns fresh words, and the slot that lets them open a keyring. A file
// that holds the words is a key file.
func NewWords(label string) (text string, slot NewSlot, err error) {
	seed := make([]byte, wordSeed)
	rand.Read(seed)
	id, err := age.ParseX25519Identity(wordIdentity(seed))
	if err != nil {
		return "", NewSlot{}, err
	}
	slot, err = AgeSlot(label, id.Recipient().String())
	return wordsOf(seed), slot, err
}

func wordsOf(seed []byte) string {
	var words []string
	check := wordCheck(seed)
	for data := append(bytes.Clone(seed), check...); len(data) > 0; data = data[2:] {
		n := int(data[0])<<8 | int(data[1])
		words = append(words, string([]byte{consonants[n>>12], vowels[n>>10&3], consonants[n>>6&15], vowels[n>>4&3], consonants[n&15]}))
	}
	return strings.Join(words, " ")
}

// wordCheck is what the last word says.
func wordCheck(seed []byte) []byte {
	sum := sha256.Sum256(append([]byte("tidemark words 1 check\n"), seed...))
	return sum[:2]
}

// parseWords returns the identity that words stand for. is reports whether the text
// looks like words at all. ErrSealed: they are not whole.
func parseWords(text string) (identity string, is bool, err error) {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r == ' ' || r == '-' || r == '\t' })
	var data []byte
	for _, w := range words {
		if len(w) != 5 {
			return "", false, nil
		}
		n := 0
		for i, set := range []string{consonants, vowels, consonants, vowels, consonants} {
			at := strings.IndexByte(set, w[i])
			if at < 0 {
				return "", false, nil
			}
			n = n*len(set) + at
		}
		data = append(data, byte(n>>8), byte(n))
	}
	if len(data) != wordSeed+2 {
		return "", len(data) > 0, sealedf("%d words; a code has %d", len(words), (wordSeed+2)/2)
	}
	seed := data[:wordSeed]
	if !bytes.Equal(wordCheck(seed), data[wordSeed:]) {
		return "", true, sealedf("the words are not those that were shown: a letter was changed, or their order")
	}
	return wordIdentity(seed), true, nil
}

// wordIdentity is the age identity of a seed: its SHA-256, with a name before it, in
// Bech32.
func wordIdentity(seed []byte) string {
	key := sha256.Sum256(append([]byte("tidemark words 1 identity\n"), seed...))
	return strings.ToUpper(bech32("age-secret-key-", key[:]))
}

const bech32Letters = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// bech32 encodes data as BIP 173 says.
func bech32(name string, data []byte) string {
	var values []byte
	bits, held := 0, 0
	for _, b := range data {
		held, bits = held<<8|int(b), bits+8
		for ; bits >= 5; bits -= 5 {
			values = append(values, byte(held>>(bits-5)&31))
		}
		held &= 1<<bits - 1
	}
	if bits > 0 {
		values = append(values, byte(held<<(5-bits)&31))
	}
	sum := 1
	feed := func(v byte) {
		top := sum >> 25
		sum = (sum&0x1ffffff)<<5 ^ int(v)
		for i, g := range []int{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for _, c := range []byte(name) {
		feed(c >> 5)
	}
	feed(0)
	for _, c := range []byte(name) {
		feed(c & 31)
	}
	for _, v := range values {
		feed(v)
	}
	for range 6 {
		feed(0)
	}
	sum ^= 1
	for i := range 6 {
		values = append(values, byte(sum>>(5*(5-i))&31))
	}
	out := []byte(name + "1")
	for _, v := range values {
		out = append(out, bech32Letters[v])
	}
	return string(out)
}
