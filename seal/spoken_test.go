package seal

import (
	"errors"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/tidemark-sessions/tidemark"
)

func TestWordsOpenWhatTheyWereLetInto(t *testing.T) {
	for range 50 {
		words, slot, err := NewWords("pair")
		if err != nil {
			t.Fatal(err)
		}
		if len(strings.Fields(words)) != 9 || len(words) != 9*5+8 {
			t.Fatalf("%q", words)
		}
		ring, err := NewRing(slot)
		if err != nil {
			t.Fatal(err)
		}
		body, err := ring.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, typed := range []string{words, " " + strings.ToUpper(words) + "\n", strings.ReplaceAll(words, " ", "-"), "# code\n" + words} {
			u, err := KeyFile([]byte(typed))
			if err != nil {
				t.Fatalf("%q: %v", typed, err)
			}
			if _, err := OpenRing(t.Context(), body, u); err != nil {
				t.Errorf("%q: %v", typed, err)
			}
		}
		all := strings.Fields(words)
		all[0], all[1] = all[1], all[0]
		for _, wrong := range []string{strings.Join(all, " "), strings.Join(all[1:], " "), words + " babab"} {
			if wrong == words {
				continue // both words are the same
			}
			if _, err := KeyFile([]byte(wrong)); !errors.Is(err, tidemark.ErrSealed) {
				t.Errorf("%q: %v", wrong, err)
			}
		}
	}
}

// TestWordsStandForTheSameIdentityForGood holds what a code is that is on its way
// while one of the machines is updated.
func TestWordsStandForTheSameIdentityForGood(t *testing.T) {
	seed := []byte("0123456789abcdef")
	if got := wordsOf(seed); got != wordsWant {
		t.Errorf("words %q", got)
	}
	identity, is, err := parseWords(wordsWant)
	if err != nil || !is || identity != identityWant {
		t.Errorf("identity %q, %v, %v", identity, is, err)
	}
	if _, err := age.ParseX25519Identity(identity); err != nil {
		t.Error(err)
	}
}

const (
	wordsWant    = "gabud gamug gibuj gimul gobun kajof katoh kijok ruril"
	identityWant = "AGE-SECRET-KEY-1PNQDN5U8A4CZSQR8Y5EKE2XZY8DH0KTDM26ZMW7V2C3GC59GN3UQP8U8VH"
)

func FuzzWords(f *testing.F) {
	f.Add(wordsWant)
	f.Add("babab babab")
	f.Add("AGE-SECRET-KEY-1")
	f.Fuzz(func(t *testing.T, text string) {
		identity, is, err := parseWords(text)
		if !is || err != nil {
			if identity != "" {
				t.Errorf("%q: an identity of what are no words", text)
			}
			return
		}
		if _, err := age.ParseX25519Identity(identity); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
