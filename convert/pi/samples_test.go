package pi_test

import (
	"os"
	"path"
	"testing"

	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/pi"
)

func TestEverySampleComesInAsItWasHeld(t *testing.T) {
	names := map[string][]string{"read": {"read"}, "edit": {"edit"}, "write": {"write"}, "bash": {"bash"}}
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/pi")) {
		t.Run(s.Name, func(t *testing.T) { s.Check(t, pi.Tool(), names) })
	}
}

// Every line is an entry, so that none changes when another one is added.
func TestAGrowingSessionKeepsWhatIsFinal(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/pi")) {
		t.Run(s.Name, func(t *testing.T) {
			drafts, entries := converttest.CheckGrowth(t, pi.Tool(), s.Source, func(file string) (bool, []string) { return path.Ext(file) == ".jsonl", nil })
			if drafts > 0 || entries == 0 {
				t.Errorf("%d drafts of %d entries", drafts, entries)
			}
		})
	}
}
