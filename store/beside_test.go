package store_test

import (
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

func TestWhatAnImportTellsOfIsIndexedWhileItGoesOn(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: search.EachWord})
	tell, end := s.IndexBeside(t.Context())
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

func TestIndexingBesideAnImportPromisesNothing(t *testing.T) {
	s := store.New(memory.New(), &store.Options{Places: search.EachWord})
	ended, stop := context.WithCancel(t.Context())
	stop()
	tell, end := s.IndexBeside(ended)
	for n := range 2000 { // more than may wait
		tell(tidemark.SessionID(fmt.Sprint(n)))
	}
	end()
	id := importedLongAgo(t, s, "left")
	plain := store.New(memory.New(), nil)
	tell, end = plain.IndexBeside(t.Context())
	tell(id)
	end()
	if n, err := s.CatchUp(t.Context(), nil); err != nil || n != 2 {
		t.Errorf("CatchUp indexed %d lines, %v, want 2", n, err)
	}
}
