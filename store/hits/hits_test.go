package hits_test

import (
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
)

func TestAPhraseOfFrequentWordsIsFoundHoweverManyEntriesHaveThem(t *testing.T) {
	eachStore(t, func(t *testing.T, b tidemark.Backend) {
		w := newWorld(t, b, 1)
		entries := []tidemark.Entry{tidemark.Say(tidemark.User, "it stands in with as nowhere else")}
		for n := range 2500 {
			entries = append(entries, tidemark.Say(tidemark.User, fmt.Sprint("as it is with those in there ", n)))
		}
		_, err := w.store.Create(tidemark.Session{Title: "long"}, w.who).Append(t.Context(), entries...)
		w.must(err)
		w.catchUp()
		query, err := search.Parse(`"in with as"`)
		w.must(err)
		a, err := hits.Search(t.Context(), w.store, query, store.Question{}, hits.Width)
		w.must(err)
		if len(a.Hits) != 1 || a.Hits[0].Seq != 1 || a.Cut {
			t.Errorf("%+v, cut %v", a.Hits, a.Cut)
		}
	})
}

func TestAHitIsHarmlessAndMarksWhatWasAskedFor(t *testing.T) {
	s := store.New(memory.New(), nil)
	w := s.Create(tidemark.Session{Title: "red \x1b[31m\u202etitle"}, store.Self("test"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.Tool, "a \x1b]0;x\x07high\ntide")); err != nil {
		t.Fatal(err)
	}
	query, err := search.Parse("high tide")
	if err != nil {
		t.Fatal(err)
	}
	a, err := hits.Search(t.Context(), s, query, store.Question{}, hits.Width)
	if err != nil || len(a.Hits) != 1 {
		t.Fatalf("%+v, %v", a.Hits, err)
	}
	h := a.Hits[0]
	var marked []string
	for _, m := range h.Marks {
		marked = append(marked, h.Snippet[m[0]:m[1]])
	}
	if d := gocmp.Diff([]string{"high", "tide"}, marked); d != "" {
		t.Errorf("marks (-want +got):\n%s", d)
	}
	for _, text := range []string{h.Title, h.Snippet, a.Sessions[0].Title} {
		for _, r := range text {
			if r < ' ' || r == '\u202e' {
				t.Errorf("%q has %U", text, r)
			}
		}
	}
	if h.Ref != string(w.ID())+"@1" || h.Role != "tool" {
		t.Errorf("%+v", h)
	}
}
