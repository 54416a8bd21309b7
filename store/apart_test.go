package store_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestAWorkerIsNeverTheLastSession(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"))
	other := s.Create(tidemark.Session{Title: "other"}, who("test"))
	add(t, other, user("1"))
	if _, err := w.AppendTo(t.Context(), "scout", assistant("the newest of all")); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for i, err := range s.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, i.Title)
	}
	same(t, len(listed), 2)
	p, err := s.Resolve(t.Context(), "last", "")
	if err != nil || p.ID != w.ID() && p.ID != other.ID() {
		t.Errorf("last is %s, %v", p.ID, err)
	}
	same(t, texts(t, p.Path(t.Context(), 0)), []string{"1"})
	_, err = s.Resolve(t.Context(), "scout", "")
	wants(t, err, tidemark.ErrNotFound)
}

func TestAForkLeavesItsSourceAsItWasAndFree(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"), assistant("a"))
	before, err := s.Session(t.Context(), w.ID())
	if err != nil {
		t.Fatal(err)
	}
	// Of a session that somebody else writes, too.
	f, err := s.Fork(t.Context(), w.ID(), 0, "fork")
	if err != nil {
		t.Fatal(err)
	}
	add(t, w, user("2"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	g, err := s.Fork(t.Context(), w.ID(), 2, "fork again")
	if err != nil {
		t.Fatal(err)
	}
	for _, fork := range []tidemark.SessionID{f.ID, g.ID} {
		fw := attach(t, s, fork, "fork")
		add(t, fw, user("of the fork"))
		same(t, texts(t, view(t, s, fork).Path(t.Context(), 0)), []string{"1", "a", "of the fork"})
	}
	if l, err := s.Lease(t.Context(), w.ID()); err != nil || l.Held {
		t.Errorf("after the forks the source is held: %+v, %v", l, err)
	}
	after, err := s.Session(t.Context(), w.ID())
	if err != nil || after.Title != before.Title || after.Messages != 3 {
		t.Errorf("the source is %+v, %v", after, err)
	}
	again := attach(t, s, w.ID(), "next")
	add(t, again, user("3"))
	same(t, texts(t, view(t, s, w.ID()).Path(t.Context(), 0)), []string{"1", "a", "2", "3"})
}

// Nothing that a session is made of, or lacks, keeps it out of the list.
func TestEverySessionIsListedWhateverItIsMadeOf(t *testing.T) {
	s := open(t)
	want := map[tidemark.SessionID]bool{}
	for _, c := range []struct {
		session tidemark.Session
		entry   tidemark.Entry
	}{
		{tidemark.Session{Title: "one model", Model: "m1", Agent: "a"}, user("hello")},
		{tidemark.Session{Title: "another", Model: "m2", Mode: tidemark.ModeRemote}, user("hello")},
		{tidemark.Session{}, user("no title, no model")},
		{tidemark.Session{Title: "nothing was asked"}, assistant("unasked")},
		{tidemark.Session{Title: "no text"}, tidemark.Entry{Role: tidemark.User}},
		{tidemark.Session{Title: "no message"}, tidemark.Entry{Kind: "note"}},
		{tidemark.Session{Title: "of a dead writer"}, user("hello")},
	} {
		by := who("test")
		if c.session.Title == "of a dead writer" {
			by = who("dead")
		}
		w := s.Create(c.session, by)
		add(t, w, c.entry)
		want[w.ID()] = true
	}
	for i, err := range s.Sessions(t.Context(), store.Filter{}) {
		if err != nil || !want[i.ID] {
			t.Errorf("lists %s, %v", i.ID, err)
		}
		delete(want, i.ID)
	}
	if len(want) > 0 {
		t.Errorf("%d are not listed", len(want))
	}
}

func TestABranchThatBeginsAnewHasNoHeadAndEnds(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"), assistant("a"), tidemark.Entry{Kind: tidemark.KindBranch, Position: tidemark.Position{Parent: store.Root}})
	v := view(t, s, w.ID())
	if seq, err := v.Head(t.Context()); seq != 0 || err != nil {
		t.Errorf("Head = %d, %v, want 0", seq, err)
	}
	_, err := s.Fork(t.Context(), w.ID(), 0, "")
	wants(t, err, tidemark.ErrInvalid)
	if f, err := s.Fork(t.Context(), w.ID(), 2, ""); err != nil || f.Base.Seq != 2 {
		t.Errorf("Fork from 2 = %+v, %v", f.Base, err)
	}
	add(t, w, user("2"))
	same(t, texts(t, v.Path(t.Context(), 0)), []string{"2"})
}
