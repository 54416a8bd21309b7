package seal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// Anybody with a copy of a store can try passphrases on it for as long as they
// like; only the passphrase and the cost of a guess protect it. So a new
// passphrase has a minimum strength. One that was set earlier still opens the
// store.
const (
	minPassphrase = 12 // characters
	minSurprises  = 8  // of them that do not follow from the ones before
)

// wellKnown are the first guesses of an attacker. A passphrase may contain one,
// which counts as little as it adds.
var wellKnown = []string{"password", "passphrase", "passwort", "letmein", "welcome", "iloveyou", "changeme", "trustno1", "tidemark",
	"administrator", "admin", "dragon", "monkey", "football", "baseball", "sunshine", "princess", "superman", "starwars", "whatever",
	"secret", "master", "shadow", "login", "hello", "qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "azertyuiop", "qwerty", "qwertz",
	"azerty", "asdf", "yxcvbnm", "1q2w3e4r5t", "1qaz2wsx", "correcthorsebatterystaple", "correct horse battery staple"}

// checkPassphrase returns ErrInvalid, with the reason, for a passphrase that is
// too easily guessed to be set.
func checkPassphrase(passphrase []byte) error {
	const why = "whoever has a copy of the store can try guesses for as long as they like; six words chosen at random will do"
	n := utf8.RuneCount(passphrase)
	switch {
	case n == 0:
		return tidemark.Invalidf("passphrase: is empty")
	case n < minPassphrase:
		return tidemark.Invalidf("passphrase: has %d characters and needs at least %d: %s", n, minPassphrase, why)
	case surprises(string(passphrase)) < minSurprises:
		return tidemark.Invalidf("passphrase: is made of repetitions, sequences or words that are tried first: %s", why)
	}
	return nil
}

// surprises counts the characters that do not follow from the ones before: not
// the rest of a well-known word, not the next one of a sequence such as 4567 or
// aaaa, and not one that followed the same two before.
func surprises(passphrase string) int {
	text := strings.ToLower(passphrase)
	for _, word := range wellKnown {
		text = strings.ReplaceAll(text, word, string(unicode.ReplacementChar))
	}
	r := []rune(text)
	seen := make(map[[3]rune]bool)
	count := min(len(r), 2)
	for i := 2; i < len(r); i++ {
		step := r[i] - r[i-1]
		three := [3]rune{r[i-2], r[i-1], r[i]}
		follows := step == r[i-1]-r[i-2] && -1 <= step && step <= 1
		if !follows && !seen[three] {
			count++
		}
		seen[three] = true
	}
	return count
}
