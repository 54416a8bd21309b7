package tidemark_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestWhatIsDerivedIsTheSearchIndexAndWhoMakesIt(t *testing.T) {
	const id = "7f3a0c1e-0000-4000-8000-000000000001"
	for key, want := range map[tidemark.Key]bool{
		{Kind: "segment", ID: id}:       true,
		{Kind: "index", ID: "index"}:    true,
		{Kind: "lease", ID: "index"}:    true,
		{Kind: "pulse", ID: "index.t1"}: true,
		{Kind: "ask", ID: "index"}:      true,
		{Kind: "lease", ID: id}:         false,
		{Kind: "lease", ID: "indexes"}:  false,
		{Kind: "session", ID: "index"}:  false,
		{Kind: "datakey", ID: id}:       false,
	} {
		if got := key.Derived(); got != want {
			t.Errorf("%s is derived: %v, want %v", key, got, want)
		}
	}
}
