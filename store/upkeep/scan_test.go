package upkeep_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

// hasWord reports whether the search index of a store has a word.
func hasWord(t *testing.T, b tidemark.Backend, word string) bool {
	t.Helper()
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: tidemark.KindSegment}) {
		if err != nil {
			t.Fatal(err)
		}
		for l, err := range b.Lines(t.Context(), r.Key) {
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(l.Body, []byte(word)) {
				return true
			}
		}
	}
	return false
}

func TestWhatAScanMasksIsNoLongerInTheIndex(t *testing.T) {
	const secret = "swordfish"
	b := memory.New()
	s := store.New(b, &store.Options{Places: search.EachWord, Secrets: func(e tidemark.Entry) (found []store.Secret) {
		e.EachText(func(i int, text string, _ bool) string {
			if at := strings.Index(text, secret); at >= 0 {
				found = append(found, store.Secret{Text: i, From: at, To: at + len(secret), Rule: "test"})
			}
			return text
		})
		return found
	}})
	w := s.Create(tidemark.Session{Title: "one"}, store.Self("test"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "my password is "+secret)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CatchUp(t.Context(), nil); err != nil || !hasWord(t, b, secret) {
		t.Fatalf("CatchUp = %v, and the secret is in the index: %v", err, hasWord(t, b, secret))
	}
	scan := upkeep.Scan{Mask: true, Progress: func(string, ...any) {}}
	if err := scan.All(t.Context(), s); err != nil || len(scan.Found) != 1 {
		t.Fatalf("the scan found %+v, %v", scan.Found, err)
	}
	if hasWord(t, b, secret) {
		t.Error("the index has what was masked")
	}
}
