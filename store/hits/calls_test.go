package hits_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// counting counts how often lines of sessions are asked for: elsewhere each time is a
// round trip.
type counting struct {
	tidemark.Backend
	calls int
}

func (c *counting) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if log.Kind == "session" {
		c.calls++
	}
	return c.Backend.Lines(ctx, log, spans...)
}

func TestHitsOfOneSessionAreReadAtOnce(t *testing.T) {
	b := &counting{Backend: memory.New()}
	s := store.New(b, &store.Options{Places: search.EachWord})
	const sessions, each = 2, 30
	for n := range sessions {
		w := s.Create(tidemark.Session{}, store.Self("test"))
		for i := range each {
			if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, fmt.Sprintf("tide %d of session%d", i, n)), tidemark.Say(tidemark.System, "tide tables")); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	ask := func(text string, limit int) int {
		q, err := search.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		b.calls = 0
		a, err := s.Search(t.Context(), store.Question{Limit: limit}.About(q))
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Found) != limit || !a.Cut() && a.LeftOut.N != sessions*each {
			t.Errorf("%s: %d hits, cut %v, %d left out", text, len(a.Found), a.Cut(), a.LeftOut.N)
		}
		return b.calls
	}
	for _, c := range []struct {
		text        string
		limit, most int
	}{
		{"tide", 20, sessions},
		{"tide session1", 20, 1},
		// Each rank is asked for, and what is left out.
		{"tide", sessions * each, 3 * sessions},
	} {
		if n := ask(c.text, c.limit); n == 0 || n > c.most {
			t.Errorf("%s: lines of sessions were asked for %d times for %d hits, want %d at most", c.text, n, c.limit, c.most)
		}
	}
}
