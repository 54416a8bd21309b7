package data

import (
	"encoding/json"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/records"
)

// FuzzHarmless wants JSON that a terminal cannot act on, and the same value.
func FuzzHarmless(f *testing.F) {
	f.Add("a\x1b[31m\u202e\u009b\U000e0041ü")
	f.Fuzz(func(t *testing.T, s string) {
		b, err := records.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		safe := harmless(b)
		for _, r := range string(safe) {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e {
				t.Fatalf("%q is left in %q", r, safe)
			}
		}
		var want, got string
		if json.Unmarshal(b, &want) != nil || json.Unmarshal(safe, &got) != nil || want != got {
			t.Fatalf("%q became %q", want, got)
		}
	})
}
