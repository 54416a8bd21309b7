package transfer_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// keptIndex is a store that keeps its search index itself, and what it is kept in.
type keptIndex struct {
	*store.Store
	t *testing.T
	b tidemark.Backend
}

func newKeptIndex(t *testing.T) keptIndex {
	b := memory.New()
	return keptIndex{store.New(b, &store.Options{Places: search.EachWord}), t, b}
}

func (k keptIndex) say(text string) tidemark.SessionID {
	k.t.Helper()
	w := k.ChangedAt(func() time.Time { return time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC) }).Create(tidemark.Session{}, store.Self("test"))
	if _, err := w.Append(k.t.Context(), tidemark.Say(tidemark.User, text)); err != nil {
		k.t.Fatal(err)
	}
	if err := w.Close(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
	return w.ID()
}

func (k keptIndex) catchUp() {
	k.t.Helper()
	if _, err := k.CatchUp(k.t.Context(), nil); err != nil {
		k.t.Fatal(err)
	}
	if n, err := k.Unindexed(k.t.Context(), 0); n != 0 || err != nil {
		k.t.Fatalf("%d lines are not indexed, %v", n, err)
	}
}

// holds reports whether the blocks of the index have a word.
func (k keptIndex) holds(word string) bool {
	k.t.Helper()
	for r, err := range k.b.List(k.t.Context(), tidemark.Query{Kind: tidemark.KindSegment}) {
		if err != nil {
			k.t.Fatal(err)
		}
		for l, err := range k.b.Lines(k.t.Context(), r.Key) {
			if err != nil {
				k.t.Fatal(err)
			}
			if bytes.Contains(l.Body, []byte(word)) {
				return true
			}
		}
	}
	return false
}

func (k keptIndex) finds(word string, want int) {
	k.t.Helper()
	query, err := search.Parse(word)
	if err != nil {
		k.t.Fatal(err)
	}
	a, err := hits.Search(k.t.Context(), k.Store, query, store.Question{}, hits.Width)
	if err != nil || a.Damage != nil || len(a.Hits) != want {
		k.t.Errorf("%s: found %d times, want %d; %v, %v", word, len(a.Hits), want, err, a.Damage)
	}
}

// What comes with an archive looks as old as it was elsewhere, and what an increment
// takes away is not purged by the rules of the store.
func TestTheIndexOfAStoreFollowsTheArchivesThatAreReadIntoIt(t *testing.T) {
	from, into := newKeptIndex(t), newKeptIndex(t)
	gone := from.say("the lighthouse")
	var last *archive.Manifest
	read := func() {
		t.Helper()
		var buf bytes.Buffer
		m, err := archive.Write(t.Context(), &buf, from.b, &archive.WriteOptions{Since: last})
		if err != nil {
			t.Fatal(err)
		}
		last = &m
		if _, err := transfer.Restore(t.Context(), &buf, false, transfer.RestoreOptions{Opened: open.Around(into.Store)}); err != nil {
			t.Fatal(err)
		}
	}
	read()
	into.catchUp()
	into.finds("lighthouse", 1)

	from.say("the breakwater")
	read()
	into.finds("breakwater", 1)
	into.catchUp()
	into.finds("breakwater", 1)
	if !into.holds("breakwater") || !into.holds("lighthouse") {
		t.Error("what was read is not indexed")
	}

	if err := from.Purge(t.Context(), gone, store.Self("test")); err != nil {
		t.Fatal(err)
	}
	read()
	into.finds("lighthouse", 0)
	into.finds("breakwater", 1)
	if into.holds("lighthouse") {
		t.Error("the index has words of what was taken away")
	}
	into.catchUp()
	into.finds("breakwater", 1)
}
