package store_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
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
	if n, err := s.Unindexed(t.Context(), 0); n != 0 || err != nil {
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

// full is a Backend that has no room for another segment.
type full struct {
	tidemark.Backend
	on bool
}

func (f *full) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if f.on && slices.ContainsFunc(b.Appends, func(a tidemark.Append) bool { return a.Log.Kind == tidemark.KindSegment }) {
		return tidemark.Receipt{}, tidemark.Storagef("no space left")
	}
	return f.Backend.Commit(ctx, b)
}

func TestAPurgeOnAFullDiskGivesUpTheIndex(t *testing.T) {
	b := &full{Backend: memory.New()}
	s := store.New(b, &store.Options{Places: plainPlaces})
	gone := titled(t, s, tidemark.Session{Title: "one"}, tidemark.Say(tidemark.User, "the lighthouse"))
	titled(t, s, tidemark.Session{Title: "two"}, tidemark.Say(tidemark.User, "the breakwater"))
	if err := gone.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	caughtUp(t, s)
	b.on = true
	if err := s.Purge(t.Context(), gone.ID(), who("test")); err != nil {
		t.Errorf("Purge = %v", err)
	}
	if blocks := segments(t, b); len(blocks) != 0 {
		t.Errorf("the index has %d bytes", len(blocks))
	}
	if got := hits(t, s, lookFor("breakwater")); len(got) != 1 {
		t.Errorf("without an index: found %q", got)
	}
	b.on = false
	caughtUp(t, s)
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
	if n, err := other.Unindexed(t.Context(), 0); n == 0 || err != nil {
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

// keptIndexed runs KeepIndexed until the test ends.
func keptIndexed(t *testing.T, s *store.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.KeepIndexed(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestWhatAStoreWroteIsIndexedWithoutLookingAtTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		s := store.New(b, &store.Options{Places: plainPlaces})
		titled(t, s, tidemark.Session{Title: "first"}, tidemark.Say(tidemark.User, "ebb"))
		caughtUp(t, s)
		other := store.New(b, &store.Options{Places: plainPlaces})
		titled(t, other, tidemark.Session{Title: "theirs"}, tidemark.Say(tidemark.User, "moonrise"))
		defer keptIndexed(t, s)()
		titled(t, s, tidemark.Session{Title: "ours"}, tidemark.Say(tidemark.User, "sunset"))
		time.Sleep(time.Second)
		if blocks := segments(t, b); !bytes.Contains(blocks, []byte("sunset")) || bytes.Contains(blocks, []byte("moonrise")) {
			t.Error("what this store wrote is not indexed, or what another wrote is")
		}
		for _, word := range []string{"sunset", "moonrise", "ebb"} {
			if got := hits(t, s, lookFor(word)); len(got) != 1 {
				t.Errorf("%s: %q", word, got)
			}
		}
	})
}

func TestAProgramThatStaysIndexesWhatOthersLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		left := store.New(b, &store.Options{Places: plainPlaces})
		titled(t, left, tidemark.Session{Title: "left"}, tidemark.Say(tidemark.User, "moonrise"))
		s := store.New(b, &store.Options{Places: plainPlaces})
		defer keptIndexed(t, s)()
		time.Sleep(time.Second)
		if bytes.Contains(segments(t, b), []byte("moonrise")) {
			t.Error("a program that may end at once looked for what others left")
		}
		time.Sleep(10 * time.Second)
		if !bytes.Contains(segments(t, b), []byte("moonrise")) {
			t.Error("what another program left is not indexed")
		}
		titled(t, left, tidemark.Session{Title: "later"}, tidemark.Say(tidemark.User, "sunset"))
		time.Sleep(30 * time.Minute)
		if !bytes.Contains(segments(t, b), []byte("sunset")) {
			t.Error("what another program left later is not indexed")
		}
	})
}

// A segment is a durable commit: a command that appends one line does not make one,
// until there is much to read for who searches, whoever left it.
func TestAProgramThatEndsIndexesWhenThereIsMuch(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Places: plainPlaces})
	titled(t, s, tidemark.Session{Title: "first"}, tidemark.Say(tidemark.User, "ebb"))
	caughtUp(t, s)
	w := titled(t, s, tidemark.Session{Title: "few"}, tidemark.Say(tidemark.User, "moonrise"))
	ends := func() bool {
		t.Helper()
		one := store.New(b, &store.Options{Places: plainPlaces})
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var err error
		if w, err = one.Attach(t.Context(), w.ID(), who("test")); err != nil {
			t.Fatal(err)
		}
		add(t, w, tidemark.Say(tidemark.User, "sunset"))
		if err := one.IndexWritten(t.Context()); err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(segments(t, b), []byte("sunset"))
	}
	made := 0
	for n := 1; n <= 600; n++ {
		if ends() {
			made = n
			break
		}
	}
	if made < 100 || made == 0 {
		t.Errorf("the index was made after %d lines, want some hundred", made)
	}
	if n, err := s.Unindexed(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("%d lines are left, %v; want what others wrote, too", n, err)
	}
	if got := hits(t, s, lookFor("sunset")); len(got) == 0 {
		t.Error("nothing is found")
	}
}

func TestAnIndexThatIsForbiddenIsNotMade(t *testing.T) {
	slot, err := seal.FileSlot("test", seal.NewKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	inner := memory.New()
	b, err := seal.Create(t.Context(), inner, slot)
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(b, &store.Options{Places: plainPlaces})
	titled(t, s, tidemark.Session{Title: "one"}, tidemark.Say(tidemark.User, "ebb"))
	caughtUp(t, s)
	if err := b.SetIndex(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := s.ResetIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	titled(t, s.ChangedAt(func() time.Time { return old }), tidemark.Session{Title: "two"}, tidemark.Say(tidemark.User, "ebb"))
	if _, err := s.CatchUp(t.Context(), nil); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("CatchUp = %v, want ErrUnsupported", err)
	}
	if _, err := s.Unindexed(t.Context(), 0); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("Unindexed = %v, want ErrUnsupported", err)
	}
	for k, err := range inner.Walk(t.Context(), tidemark.Key{}) {
		if err != nil || k.Kind == tidemark.KindSegment || k.Kind == tidemark.KindUnindexed {
			t.Errorf("there is %s (%v)", k, err)
		}
	}
	a, err := s.Search(t.Context(), lookFor("ebb"))
	if err != nil || !a.Scanned || len(a.Found) != 2 {
		t.Errorf("found %d, read everything: %v, %v; want both by reading", len(a.Found), a.Scanned, err)
	}
	if err := b.SetIndex(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	caughtUp(t, s)
	if a, err := s.Search(t.Context(), lookFor("ebb")); err != nil || a.Scanned || len(a.Found) != 2 {
		t.Errorf("allowed again, found %d, read everything: %v, %v", len(a.Found), a.Scanned, err)
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
