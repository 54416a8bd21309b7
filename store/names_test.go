package store_test

import (
	"fmt"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestTheBeginningOfAForeignIDIsAReference(t *testing.T) {
	s := open(t)
	ids := map[string]tidemark.SessionID{}
	for _, foreign := range []string{"ses_66d0aa8c2ffeX", "ses_66d0aa8c2ffeY", "ses_77", "Über-längere-Namen-1", "a1b2"} {
		w := s.Create(tidemark.Session{Title: "of " + foreign, Tool: "opencode", ForeignID: foreign}, who("test"))
		add(t, w, user("1"))
		if ids[foreign] = w.ID(); w.Close(t.Context()) != nil {
			t.Fatal("not closed")
		}
	}
	for ref, want := range map[string]string{
		"ses_66d0aa8c2ffeX": "ses_66d0aa8c2ffeX", "SES_66D0AA8C2FFEX": "ses_66d0aa8c2ffeX",
		"ses_7": "ses_77", "ses_77": "ses_77", "über": "Über-längere-Namen-1", "Über-läng": "Über-längere-Namen-1", "a1b2": "a1b2",
	} {
		p, err := s.Resolve(t.Context(), ref, "")
		if err != nil || p.ID != ids[want] {
			t.Errorf("%s is %q, %v; want %s", ref, p.ForeignID, err, want)
		}
	}
	for _, ref := range []string{"ses", "ses_8", "ses_66d0aa8c2ffeXX", "Übe"} {
		_, err := s.Resolve(t.Context(), ref, "")
		wants(t, err, tidemark.ErrNotFound)
	}
	for _, ref := range []string{"ses_", "ses_66d0", "ses_66d0aa8c2ffe"} {
		_, err := s.Resolve(t.Context(), ref, "")
		wants(t, err, tidemark.ErrInvalid)
	}
	if err := s.Purge(t.Context(), ids["ses_77"], who("test")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Resolve(t.Context(), "ses_7", "")
	wants(t, err, tidemark.ErrNotFound)
	healthy(t, s)
}

func TestAWholeNameIsMeantBeforeOneThatBeginsWithIt(t *testing.T) {
	s := open(t)
	one := s.Create(tidemark.Session{ForeignID: "sess-1"}, who("test"))
	add(t, one, user("1"))
	add(t, s.Create(tidemark.Session{ForeignID: "sess-10"}, who("test")), user("1"))
	p, err := s.Resolve(t.Context(), "sess-1", "")
	if err != nil || p.ID != one.ID() {
		t.Errorf("sess-1 is %q, %v", p.ForeignID, err)
	}
}

func TestAPartOfAForeignIDReadsAFewRecordsAmongMany(t *testing.T) {
	s := open(t)
	for i := range 300 {
		add(t, s.Create(tidemark.Session{ForeignID: fmt.Sprintf("%08x-tail", i*7919)}, who("test")), user("1"))
	}
	p, err := s.Resolve(t.Context(), fmt.Sprintf("%08x-t", 299*7919), "")
	if err != nil || p.ForeignID != fmt.Sprintf("%08x-tail", 299*7919) {
		t.Errorf("found %q, %v", p.ForeignID, err)
	}
	_, err = s.Resolve(t.Context(), "0000", "")
	wants(t, err, tidemark.ErrInvalid)
}

func TestSessionsAreListedByTheToolTheyCameFrom(t *testing.T) {
	s := open(t)
	for _, sess := range []tidemark.Session{
		{Title: "own"}, {Title: "new", Tool: "codex", ForeignID: "1"},
		{Title: "of an earlier program", ForeignID: "2", Extra: []byte(`{"imported":{"tool":"codex"}}`)},
	} {
		add(t, s.Create(sess, who("test")), user("1"))
	}
	for tool, want := range map[string]int{"": 3, "codex": 2, store.Native: 1, "pi": 0} {
		n := 0
		for _, err := range s.Sessions(t.Context(), store.Filter{Tool: tool, Limit: 3}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Errorf("%q: %d sessions, want %d", tool, n, want)
		}
	}
}

func TestTheOriginOfASessionIsReplaced(t *testing.T) {
	s := open(t)
	w := s.Create(tidemark.Session{Title: "old"}, who("test"))
	add(t, w, user("1"))
	if err := s.SetOrigin(t.Context(), w.ID(), tidemark.Session{Title: "new", Tool: "codex", Model: "m"}); err != nil {
		t.Fatal(err)
	}
	i, err := s.Session(t.Context(), w.ID())
	if err != nil || i.Tool != "codex" || i.Title != "new" || i.Model != "m" {
		t.Errorf("it came from %q as %q with %q, %v", i.Tool, i.Title, i.Model, err)
	}
	if found, err := s.Resolve(t.Context(), "new", ""); err != nil || found.ID != w.ID() {
		t.Errorf("by its new title: %s, %v", found.ID, err)
	}
	healthy(t, s)
}

func TestANodeTellsItsFirstWords(t *testing.T) {
	s := open(t)
	w := s.Create(tidemark.Session{}, who("test"))
	add(t, w, tidemark.Say(tidemark.System, "Be brief."),
		tidemark.Say(tidemark.User, "<system-reminder>It is May.</system-reminder>\nfix\nthe bug"), assistant("done"),
		tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.User, Blocks: []tidemark.Block{{Type: tidemark.BlockImage, Data: []byte{1}}}}, assistant("a dot"))
	nodes, err := view(t, s, w.ID()).Tree(t.Context())
	if err != nil || len(nodes) != 2 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	same(t, []string{nodes[0].Text, nodes[1].Text}, []string{"fix the bug", "a dot"})
	if nodes[0].At.IsZero() {
		t.Error("a node does not tell when it began")
	}
}

func TestWorkersOfManySessionsAreListed(t *testing.T) {
	s := open(t)
	for i := range 3 {
		w := s.Create(tidemark.Session{Project: fmt.Sprintf("/p%d", i%2)}, who("test"))
		add(t, w, user("1"))
		if _, err := w.AppendTo(t.Context(), "scout", user("2"), assistant("3")); err != nil {
			t.Fatal(err)
		}
	}
	for project, want := range map[string]int{"": 3, "/p0": 2, "/p1": 1, "/p2": 0} {
		n := 0
		for w, err := range s.Workers(t.Context(), store.Filter{Project: project}) {
			if err != nil || w.Name != "scout" || w.Entries != 2 {
				t.Fatalf("%+v, %v", w, err)
			}
			n++
		}
		if n != want {
			t.Errorf("%q: %d workers, want %d", project, n, want)
		}
	}
}
