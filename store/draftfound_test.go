package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// foundFor is what a search for a part of a text finds: reference, seq, worker and
// role, with a mark for drafts.
func foundFor(t *testing.T, s *store.Store, part string) (all []string) {
	t.Helper()
	q := store.Question{Text: part, Match: func(e tidemark.Entry) bool { return strings.Contains(e.Text(), part) }}
	answer, err := s.Search(t.Context(), q)
	if err != nil || answer.Damage != nil {
		t.Fatal(err, answer.Damage)
	}
	for _, f := range answer.Found {
		text := f.Role() + " " + f.Entry.Text()
		if f.Worker != "" {
			text = text + " of " + f.Worker
		}
		if f.Entry.Draft {
			text = "(" + text + ")"
		}
		all = append(all, strings.TrimPrefix(f.Ref(), string(f.Info.ID))+" "+text)
	}
	return all
}

func TestADraftIsFoundUntilItIsFinalAndThenOnce(t *testing.T) {
	s := open(t)
	w := fromTool(t, s)
	keepDraft(t, w, "", user("high tide"))
	keepDraft(t, w, "scout", user("low tide"))
	same(t, foundFor(t, s, "high"), []string{" (user high tide)"})
	same(t, foundFor(t, s, "low"), []string{" (user low tide of scout)"})
	same(t, foundFor(t, s, "demo"), []string{" title demo"}) // the title of a session that has nothing else
	add(t, w, user("high tide"))
	same(t, foundFor(t, s, "high"), []string{"@1 user high tide"})
	same(t, foundFor(t, s, "demo"), []string{" title demo"})
	keepDraft(t, w, "", assistant("at noon"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Trash(t.Context(), w.ID()); err != nil {
		t.Fatal(err)
	}
	same(t, foundFor(t, s, "noon"), []string(nil))
}

func TestListsAndStatisticsCountDrafts(t *testing.T) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	s := open(t).ChangedAt(func() time.Time { return at })
	w := fromTool(t, s, user("hello"))
	listed := func() (messages int64, changed time.Time) {
		for i, err := range s.Sessions(t.Context(), store.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			messages, changed = i.Messages, i.UpdatedAt
		}
		return messages, changed
	}
	answer := assistant("hallo")
	answer.Usage = &tidemark.Usage{OutputTokens: 7, CostUSD: 0.5}
	at = at.Add(time.Hour)
	keepDraft(t, w, "", answer, user("and"))
	keepDraft(t, w, "scout", answer)
	if n, changed := listed(); n != 3 || !changed.Equal(at) {
		t.Errorf("%d messages, changed at %v, want 3 at %v", n, changed, at)
	}
	for since, want := range map[time.Time]store.Tally{{}: {Messages: 4, Turns: 2}, at: {Messages: 3, Turns: 1}} {
		rows, err := s.Count(t.Context(), store.Counting{Since: since})
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		if r := rows[0]; r.Messages != want.Messages || r.Turns != want.Turns || r.OutputTokens != 14 || r.USD() != 1 {
			t.Errorf("since %v: %+v, want %+v", since, *r, want)
		}
	}
	// Somebody renames it while the draft is replaced.
	if err := s.Rename(t.Context(), w.ID(), "mine"); err != nil {
		t.Fatal(err)
	}
	keepDraft(t, w, "", answer)
	if n, _ := listed(); n != 2 {
		t.Errorf("%d messages with a shorter draft, want 2", n)
	}
	add(t, w, answer, user("and"), assistant("so on"))
	if n, _ := listed(); n != 4 {
		t.Errorf("%d messages with a draft that no longer counts, want 4", n)
	}
	keepDraft(t, w, "")
	if i, err := s.Session(t.Context(), w.ID()); err != nil || i.Draft != nil || i.Title != "mine" {
		t.Errorf("without a draft: %+v, %v", i.Session, err)
	}
	healthy(t, s)
}

func TestWordsInDraftsAreFoundHoweverTheyAreWritten(t *testing.T) {
	fill := func(t *testing.T, s *store.Store) {
		for _, text := range []string{"ebb & <Flow>", "die Flüsse", `C:\users`, "plain words", "e\u0301bb", "\uff45bb"} {
			w := fromTool(t, s, user("before"))
			keepDraft(t, w, "", user(text))
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		alone := fromTool(t, s)
		keepDraft(t, alone, "", user("nothing else"))
		if err := alone.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eachWay(t, fill, func(t *testing.T, s *store.Store) {
		for query, want := range map[string]int{"flow": 1, "EBB": 3, "fluss": 0, "flusse": 1, "users": 1, "words plain": 1, "nothing flow": 0, "^plai": 1, "flow | words": 2, "demo": 7, "absent": 0} {
			q, err := search.Parse(query)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := s.Search(t.Context(), store.Question{}.About(q))
			if err != nil || len(answer.Found) != want {
				t.Errorf("%q: %d found, want %d; %v", query, len(answer.Found), want, err)
			}
		}
	})
}

// BenchmarkSearchBesideDrafts is a search in a store in which many sessions were left
// before their last answer.
func BenchmarkSearchBesideDrafts(b *testing.B) {
	s := indexed()
	for n := range 1000 {
		w := s.Create(tidemark.Session{Title: fmt.Sprint("session ", n), Tool: "fake", ForeignID: fmt.Sprint(n)}, who("import"))
		_, err := w.Append(b.Context(), user("hello"))
		if err := errors.Join(err, w.KeepDraft(b.Context(), "", user(strings.Repeat("some words of a prompt ", 20))), w.Close(b.Context())); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := s.CatchUp(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	q, err := search.Parse("absent")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Search(b.Context(), store.Question{}.About(q)); err != nil {
			b.Fatal(err)
		}
	}
}
