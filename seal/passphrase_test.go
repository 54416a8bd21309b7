package seal

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

func TestPassphraseThatIsEasilyGuessedIsRefused(t *testing.T) {
	cheap := &Cost{Time: 1, MemoryKiB: 64, Threads: 1}
	for _, weak := range []string{"", "p", "short", "elevenchars", "äöüäöüäöüäö", "aaaaaaaaaaaaaaaaaaaa", "123456789012", "0987654321098",
		"abcabcabcabcabc", "passwordpassword", "Password1234", "qwertyuiop12", "qwertyuiopasdfghjkl", "Tidemark2026", "correct horse battery staple",
		"admin admin admin", "12121212121212", strings.Repeat("ab", 500), "            "} {
		_, err := PassphraseSlot("", []byte(weak), cheap)
		if !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("PassphraseSlot(%q) = %v, want ErrInvalid", weak, err)
			continue
		}
		if weak != "" && strings.Contains(err.Error(), weak) && len(weak) > 1 {
			t.Errorf("the error tells the passphrase: %v", err)
		}
		if weak != "" && !strings.Contains(err.Error(), "as long as they like") {
			t.Errorf("the error does not say why: %v", err)
		}
	}
	for _, strong := range []string{"correct horse", "tide lamp orbit mouse candle ferry", "xK3!vR9#qL2m", "Ebbe und Flut, immer!", "潮汐表每日两次高潮低潮更替有序", "my password is a walrus"} {
		if _, err := PassphraseSlot("", []byte(strong), cheap); err != nil {
			t.Errorf("PassphraseSlot(%q) = %v", strong, err)
		}
	}
}

// A passphrase of an earlier build may be shorter: it still opens its store.
func TestShortPassphraseOfAnEarlierBuildOpens(t *testing.T) {
	cheap := &argon{Time: 1, MemoryKiB: 64, Threads: 1, Salt: make([]byte, saltBytes)}
	key := cheap.key([]byte("p"))
	old := NewSlot{slot: slot{ID: randomID(), Type: TypePassphrase, Argon: cheap}, key: &key}
	inner := memory.New()
	if _, err := Create(t.Context(), inner.Again(), old); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), inner.Again(), Passphrase([]byte("p"))); err != nil {
		t.Errorf("Open with the short passphrase = %v", err)
	}
}
