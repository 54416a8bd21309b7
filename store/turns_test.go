package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// Pages of any size, one after the other, are all turns, whether the session is
// one path, has branches, or shares its past.
func TestPagesOfTurnsAreAllTurns(t *testing.T) {
	s := store.New(memory.New(), nil)
	ctx := t.Context()
	w := begin(t, s, tidemark.Say(tidemark.System, "be kind"))
	for _, text := range []string{"one", "two", "three", "four", "five"} {
		add(t, w, tidemark.Say(tidemark.User, text), tidemark.Say(tidemark.Assistant, "re "+text), tidemark.Say(tidemark.Assistant, "more of "+text))
	}
	branched := begin(t, s, tidemark.Say(tidemark.System, "be kind"))
	for _, text := range []string{"one", "two", "three"} {
		add(t, branched, tidemark.Say(tidemark.User, text), tidemark.Say(tidemark.Assistant, "re "+text))
		if err := branched.Branch(ctx, branched.Head()-1); err != nil {
			t.Fatal(err)
		}
		add(t, branched, tidemark.Say(tidemark.User, "not "+text))
	}
	fork, err := s.Fork(ctx, w.ID(), 8, "fork")
	if err != nil {
		t.Fatal(err)
	}
	empty, err := s.CreateEmpty(ctx, tidemark.Session{Title: "empty"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id   tidemark.SessionID
		at   int64
		want int
	}{{w.ID(), 0, 5}, {w.ID(), 16, 5}, {w.ID(), 9, 3}, {w.ID(), 1, 0}, {branched.ID(), 0, -1}, {branched.ID(), 5, -1}, {fork.ID, 0, 3}, {fork.ID, 4, 1}, {empty.ID, 0, 0}} {
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
