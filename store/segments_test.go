package store_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// segments returns all blocks of the search index of a store.
func segments(t *testing.T, b tidemark.Backend) (blocks []byte) {
	t.Helper()
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: tidemark.KindSegment}) {
		if err != nil {
			t.Fatal(err)
		}
		for l, err := range b.Lines(t.Context(), r.Key) {
			if err != nil {
				t.Fatal(err)
			}
			blocks = append(blocks, l.Body...)
		}
	}
	return blocks
}

func caughtUp(t *testing.T, s *store.Store) {
	t.Helper()
	if _, err := s.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Unindexed(t.Context()); n != 0 || err != nil {
		t.Fatalf("%d lines are not indexed, %v", n, err)
	}
}

func TestThePurgeOfASessionTakesItsWordsOutOfTheIndex(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: plainPlaces})
	gone := titled(t, s, tidemark.Session{Title: "one"}, tidemark.Say(tidemark.User, "the lighthouse"))
	titled(t, s, tidemark.Session{Title: "two"}, tidemark.Say(tidemark.User, "the breakwater"))
	if err := gone.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	caughtUp(t, s)
	if !bytes.Contains(segments(t, b), []byte("lighthouse")) {
		t.Fatal("the word is not in the index: the test looks for nothing")
	}
	if err := s.Purge(t.Context(), gone.ID(), who("test")); err != nil {
		t.Fatal(err)
	}
	if blocks := segments(t, b); bytes.Contains(blocks, []byte("lighthouse")) || !bytes.Contains(blocks, []byte("breakwater")) {
		t.Error("the index has words of what was purged, or not those of the rest")
	}
	if got := hits(t, s, lookFor("breakwater")); len(got) != 1 {
		t.Errorf("found %q", got)
	}
}

func TestSeveralSessionsAreTakenOutOfTheIndexTogether(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: plainPlaces})
	var gone []tidemark.SessionID
	for _, word := range []string{"lighthouse", "foghorn"} {
		w := titled(t, s, tidemark.Session{Title: word}, tidemark.Say(tidemark.User, "the "+word))
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone = append(gone, w.ID())
	}
	titled(t, s, tidemark.Session{Title: "kept"}, tidemark.Say(tidemark.User, "the breakwater"))
	caughtUp(t, s)
	for _, id := range gone {
		if err := s.Destroy(t.Context(), id, who("test")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Contains(segments(t, b), []byte("lighthouse")) {
		t.Error("the index was rewritten for a session of several")
	}
	if got := hits(t, s, lookFor("lighthouse")); len(got) != 0 {
		t.Errorf("found after it was destroyed: %q", got)
	}
	if err := s.RewriteIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	blocks := segments(t, b)
	for word, want := range map[string]bool{"lighthouse": false, "foghorn": false, "breakwater": true} {
		if bytes.Contains(blocks, []byte(word)) != want {
			t.Errorf("the index has %s: %v, want %v", word, !want, want)
		}
	}
}

func TestWhatIsMaskedIsTakenOutOfTheIndex(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: plainPlaces})
	w := titled(t, s, tidemark.Session{Title: "one"}, tidemark.Say(tidemark.User, "the password is hunter2"))
	caughtUp(t, s)
	v, err := s.View(t.Context(), w.ID())
	if err != nil {
		t.Fatal(err)
	}
	text := "the password is hunter2"
	if err := v.MarkSecrets(t.Context(), 1, []store.Secret{{From: len(text) - len("hunter2"), To: len(text), Rule: "test"}}); err != nil {
		t.Fatal(err)
	}
	caughtUp(t, s)
	if blocks := segments(t, b); bytes.Contains(blocks, []byte("hunter2")) || !bytes.Contains(blocks, []byte("password")) {
		t.Error("the index has what is masked, or not the rest")
	}
	if got := hits(t, s, lookFor("password")); len(got) != 1 {
		t.Errorf("found %q", got)
	}
}

// An import dates what it writes back. Whoever indexes later has to find it, also
// when the process that imported is gone.
func TestWhatWasDatedBackIsFoundByWhoeverIndexesLater(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: plainPlaces})
	titled(t, s, tidemark.Session{Title: "now"}, tidemark.Say(tidemark.User, "ebb"))
	caughtUp(t, s)
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	imports := store.New(b, &store.Options{Places: plainPlaces}).ChangedAt(func() time.Time { return old })
	w := titled(t, imports, tidemark.Session{Title: "then"}, tidemark.Say(tidemark.User, "flow"))
	other := store.New(b, &store.Options{Places: plainPlaces})
	if got := hits(t, other, lookFor("flow")); len(got) != 1 {
		t.Errorf("before it is indexed: %q", got)
	}
	if n, err := other.Unindexed(t.Context()); n == 0 || err != nil {
		t.Errorf("%d lines are not indexed, %v", n, err)
	}
	caughtUp(t, other)
	if !bytes.Contains(segments(t, b), []byte("flow")) {
		t.Error("what was imported is not indexed")
	}
	for r, err := range b.List(t.Context(), tidemark.Query{Kind: tidemark.KindUnindexed}) {
		t.Errorf("a note is left: %s, %v", r.Key, err)
	}
	add(t, w, tidemark.Say(tidemark.User, "flow again"))
	if got := hits(t, other, lookFor("flow")); len(got) != 2 {
		t.Errorf("after the import went on: %q", got)
	}
}

func TestWhatAStoreWroteIsIndexedWithoutLookingAtTheRest(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: plainPlaces})
	titled(t, s, tidemark.Session{Title: "first"}, tidemark.Say(tidemark.User, "ebb"))
	caughtUp(t, s)
	other := store.New(b, &store.Options{Places: plainPlaces})
	titled(t, other, tidemark.Session{Title: "theirs"}, tidemark.Say(tidemark.User, "moonrise"))
	titled(t, s, tidemark.Session{Title: "ours"}, tidemark.Say(tidemark.User, "sunset"))
	if err := s.IndexWritten(t.Context()); err != nil {
		t.Fatal(err)
	}
	if blocks := segments(t, b); !bytes.Contains(blocks, []byte("sunset")) || bytes.Contains(blocks, []byte("moonrise")) {
		t.Error("what this store wrote is not indexed, or what another wrote is")
	}
	for _, word := range []string{"sunset", "moonrise", "ebb"} {
		if got := hits(t, s, lookFor(word)); len(got) != 1 {
			t.Errorf("%s: %q", word, got)
		}
	}
}

// What takes long to merge is not merged by who indexes, but nobody has to ask for
// it either.
func TestLargeMergesAreDoneBesideWhatIsIndexed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		s := store.New(b, &store.Options{Places: plainPlaces})
		count := func() (n int) {
			for _, err := range b.List(t.Context(), tidemark.Query{Kind: tidemark.KindSegment}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			return n
		}
		many := make([]tidemark.Entry, 3000)
		for i := range many {
			many[i] = tidemark.Say(tidemark.User, "ebb")
		}
		for range 8 {
			titled(t, s, tidemark.Session{Title: "much"}, many...)
			if err := s.IndexWritten(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := count(); n != 8 {
			t.Fatalf("%d segments, want 8", n)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.KeepIndexed(ctx) }()
		titled(t, s, tidemark.Session{Title: "little"}, tidemark.Say(tidemark.User, "flow"))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := count(); n != 2 {
			t.Errorf("%d segments, want those that were merged as one, and the new one", n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
