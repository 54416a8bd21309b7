package pi_test

import (
	"os"
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
