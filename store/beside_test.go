package store_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// importedLongAgo appends a session as an import does, long ago.
func importedLongAgo(t *testing.T, s *store.Store, text string) tidemark.SessionID {
	t.Helper()
	w := s.ChangedAt(func() time.Time { return time.Now().Add(-1000 * time.Hour).UTC() }).Create(tidemark.Session{}, who("import"))
	add(t, w, user(text), user("yes"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.ID()
}

// notes counts what says that sessions have to be indexed.
func notes(t *testing.T, b tidemark.Backend) (n int) {
	t.Helper()
	for _, err := range b.List(t.Context(), tidemark.Query{Kind: tidemark.KindUnindexed}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// longImport appends a session of so many entries as an import does, in several commits.
func longImport(t *testing.T, s *store.Store, title string, entries int) tidemark.SessionID {
	t.Helper()
	w := s.ChangedAt(func() time.Time { return time.Now().Add(-1000 * time.Hour).UTC() }).Create(tidemark.Session{Title: title}, who("import"))
	for n := 0; n < entries; n += 100 {
		var some []tidemark.Entry
		for i := range 100 {
			some = append(some, user(fmt.Sprintf("question %d about tides", n+i)))
		}
		add(t, w, some...)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.ID()
}

func TestWhatAnImportTellsOfIsIndexedWhileItGoesOn(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: search.EachWord})
	tell, end := s.IndexBeside(t.Context(), 1<<20)
	tell(longImport(t, s, "", 2000))
	for n := range 30 {
		tell(importedLongAgo(t, s, fmt.Sprintf("question %d", n)))
	}
	later := importedLongAgo(t, s, "of which nobody was told")
	end()
	if n := notes(t, b); n != 1 {
		t.Errorf("%d sessions are noted as not indexed, want that of which nobody was told", n)
	}
	if n, err := s.Unindexed(t.Context(), 0); err != nil || n != 2 {
		t.Errorf("%d lines are not indexed, %v, want those of session %s", n, err, later)
	}
	if n, err := s.CatchUp(t.Context(), nil); err != nil || n != 2 || notes(t, b) != 0 {
		t.Errorf("CatchUp indexed %d lines, %v, and left %d notes; want 2 and none", n, err, notes(t, b))
	}
}

func TestAShortImportIsIndexedWhenItIsDone(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: search.EachWord})
	tell, end := s.IndexBeside(t.Context(), 1<<20)
	tell(importedLongAgo(t, s, "ebb"))
	end()
	if n, err := s.Unindexed(t.Context(), 0); err != nil || n != 2 || notes(t, b) != 1 {
		t.Errorf("%d lines are not indexed, %v, and %d notes are left; want 2 and one", n, err, notes(t, b))
	}
}

// titles returns the titles of the sessions that a search finds by their title.
func titles(t *testing.T, s *store.Store, query string) (found []string) {
	t.Helper()
	q, err := search.Parse(query)
	if err != nil {
		t.Fatal(err)
	}
	all, none, _ := q.Terms()
	answer, err := s.Search(t.Context(), store.Question{All: all, None: none, Match: q.MatchEntry, Role: store.RoleTitle})
	if err != nil {
		t.Fatal(err)
	}
	for _, hit := range answer.Found {
		found = append(found, hit.Info.Title)
	}
	return found
}

func TestASessionThatGetsItsTitleAtTheEndOfALongImportIsFoundByIt(t *testing.T) {
	s := store.New(memory.New(), &store.Options{Places: search.EachWord})
	tell, end := s.IndexBeside(t.Context(), 1<<20)
	id := longImport(t, s, "provisional", 20_000) // more than waits for the end
	i, err := s.Session(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	i.Title = "definitive"
	if err := s.SetOrigin(t.Context(), id, i.Session); err != nil {
		t.Fatal(err)
	}
	tell(id)
	end()
	if _, err := s.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Unindexed(t.Context(), 0); err != nil || n != 0 {
		t.Errorf("%d lines are not indexed, %v", n, err)
	}
	if got := titles(t, s, "definitive"); len(got) != 1 {
		t.Errorf("by its title is found: %q", got)
	}
	if got := titles(t, s, "provisional"); len(got) != 0 {
		t.Errorf("by the title that it has no more is found: %q", got)
	}
}

func TestWhatIsPurgedDuringALongImportIsNotIndexed(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: search.EachWord})
	tell, end := s.IndexBeside(t.Context(), 1<<20)
	tell(longImport(t, s, "", 3000))
	purged := importedLongAgo(t, s, "neverwhere") // it waits to be told of
	if err := s.Destroy(t.Context(), purged, who("me")); err != nil {
		t.Fatal(err)
	}
	tell(purged)
	after := longImport(t, s, "", 3000)
	tell(after)
	end()
	if _, err := s.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Unindexed(t.Context(), 0); err != nil || n != 0 || notes(t, b) != 0 {
		t.Errorf("%d lines are not indexed, %v, and %d notes are left", n, err, notes(t, b))
	}
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: tidemark.KindSegment}) {
		if err != nil {
			t.Fatal(err)
		}
		for l, err := range b.Lines(t.Context(), r.Key, tidemark.Span{}) {
			if err != nil || bytes.Contains(l.Body, []byte("neverwhere")) {
				t.Fatalf("a segment has a word of what was purged, or %v", err)
			}
		}
	}
}

func TestIndexingBesideAnImportPromisesNothing(t *testing.T) {
	s := store.New(memory.New(), &store.Options{Places: search.EachWord})
	ended, stop := context.WithCancel(t.Context())
	stop()
	tell, end := s.IndexBeside(ended, 1<<20)
	for n := range 2000 { // more than may wait
		tell(tidemark.SessionID(fmt.Sprint(n)))
	}
	end()
	id := importedLongAgo(t, s, "left")
	plain := store.New(memory.New(), nil)
	tell, end = plain.IndexBeside(t.Context(), 1<<20)
	tell(id)
	end()
	if n, err := s.CatchUp(t.Context(), nil); err != nil || n != 2 {
		t.Errorf("CatchUp indexed %d lines, %v, want 2", n, err)
	}
}
