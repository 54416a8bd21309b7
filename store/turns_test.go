package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// shapes are sessions that are one path, have branches, share their past, and are
// empty.
func shapes(t *testing.T, s *store.Store) (straight, branched, fork, empty tidemark.SessionID) {
	t.Helper()
	ctx := t.Context()
	w := begin(t, s, tidemark.Say(tidemark.System, "be kind"))
	for _, text := range []string{"one", "two", "three", "four", "five"} {
		add(t, w, tidemark.Say(tidemark.User, text), tidemark.Say(tidemark.Assistant, "re "+text), tidemark.Say(tidemark.Assistant, "more of "+text))
	}
	b := begin(t, s, tidemark.Say(tidemark.System, "be kind"))
	for _, text := range []string{"one", "two", "three"} {
		add(t, b, tidemark.Say(tidemark.User, text), tidemark.Say(tidemark.Assistant, "re "+text))
		if err := b.Branch(ctx, b.Head()-1); err != nil {
			t.Fatal(err)
		}
		add(t, b, tidemark.Say(tidemark.User, "not "+text))
	}
	f, err := s.Fork(ctx, w.ID(), 8, "fork")
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.CreateEmpty(ctx, tidemark.Session{Title: "empty"})
	if err != nil {
		t.Fatal(err)
	}
	return w.ID(), b.ID(), f.ID, e.ID
}

func TestPagesOfATreeAreAllOfIt(t *testing.T) {
	s := store.New(memory.New(), nil)
	straight, branched, fork, empty := shapes(t, s)
	if err := s.Label(t.Context(), branched, 3, "here"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[tidemark.SessionID]int{straight: 5, branched: 6, fork: 3, empty: 0} {
		v := view(t, s, id)
		all, err := v.Tree(t.Context())
		if err != nil || len(all) != want {
			t.Fatalf("%d nodes, %v, want %d", len(all), err, want)
		}
		for limit := 1; limit <= want+1; limit++ {
			var got []store.Node
			for more := true; more; {
				var page []store.Node
				if page, more, err = v.TreePage(t.Context(), int64(len(got)), limit); err != nil || len(page) > limit {
					t.Fatalf("behind %d: %d nodes, %v", len(got), len(page), err)
				}
				got = append(got, page...)
			}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("in pages of %d: %s", limit, diff)
			}
		}
	}
}

// Pages of any size, one after the other, are all turns, whether the session is
// one path, has branches, or shares its past.
func TestPagesOfTurnsAreAllTurns(t *testing.T) {
	s := store.New(memory.New(), nil)
	ctx := t.Context()
	straight, branched, fork, empty := shapes(t, s)
	for _, c := range []struct {
		id   tidemark.SessionID
		at   int64
		want int
	}{{straight, 0, 5}, {straight, 16, 5}, {straight, 9, 3}, {straight, 1, 0}, {branched, 0, -1}, {branched, 5, -1}, {fork, 0, 3}, {fork, 4, 1}, {empty, 0, 0}} {
		v := view(t, s, c.id)
		var all []store.Turn
		for turn, err := range v.Turns(ctx, c.at) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, turn)
		}
		if c.want >= 0 && len(all) != c.want {
			t.Errorf("%s at %d has %d turns, want %d", c.id, c.at, len(all), c.want)
		}
		for limit := 1; limit <= len(all)+1; limit++ {
			var got []store.Turn
			for more := true; more; {
				page, err := v.TurnPage(ctx, c.at, int64(len(got)), limit)
				if err != nil || page.Total != int64(len(all)) || page.First != int64(len(got)) || len(page.Turns) > limit {
					t.Fatalf("behind %d: %d of %d turns, %v", len(got), len(page.Turns), page.Total, err)
				}
				got, more = append(got, page.Turns...), len(page.Turns) > 0
			}
			if diff := cmp.Diff(all, got); diff != "" {
				t.Errorf("%s at %d in pages of %d: %s", c.id, c.at, limit, diff)
			}
		}
	}
}
