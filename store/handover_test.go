package store_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestAHandoverIsFoundByTheIDThatTheToolHas(t *testing.T) {
	s := open(t)
	w := s.Create(tidemark.Session{Title: "demo"}, who("test"))
	add(t, w, user("1"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []string{"first", "second"} {
		h := store.Handover{Session: w.ID(), Tool: "fake", ForeignID: foreign, Tip: 1}
		h.Add("", foreign+" a", 1)
		h.Add("helper", "b", 0)
		for range 2 { // a second one takes the place of the first
			if err := s.HandOver(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(s *store.Store) {
		t.Helper()
		for _, foreign := range []string{"first", "second"} {
			h, err := s.HandedOver(t.Context(), "fake", foreign)
			if err != nil || h.Session != w.ID() || h.Tip != 1 || h.Len() != 2 {
				t.Fatalf("%s: %+v, %v", foreign, h, err)
			}
			if seq, ok := h.Seq("", foreign+" a"); !ok || seq != 1 {
				t.Errorf("entry a is %d, %v", seq, ok)
			}
			if seq, ok := h.Seq("helper", "b"); !ok || seq != 0 {
				t.Errorf("entry b of the helper is %d, %v", seq, ok)
			}
			if _, ok := h.Seq("", "b"); ok {
				t.Error("an entry of the helper counts as one of the session")
			}
		}
		if h, err := s.HandedOver(t.Context(), "other", "first"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("another tool has it: %+v, %v", h, err)
		}
	}
	check(s)
	if i, err := s.Session(t.Context(), w.ID()); err != nil || !i.Handed {
		t.Errorf("the session is %+v, %v", i, err)
	}

	var all bytes.Buffer
	if _, err := archive.Write(t.Context(), &all, s.Records().Backend(), nil); err != nil {
		t.Fatal(err)
	}
	inner := &salted{memory.New(), "other"}
	to := store.New(inner, nil)
	if _, err := archive.Read(t.Context(), &all, inner, &archive.ReadOptions{Change: to.Refile}); err != nil {
		t.Fatal(err)
	}
	check(to)

	if err := s.Purge(t.Context(), w.ID(), who("test")); err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []string{"first", "second"} {
		if purged, err := s.Purged(t.Context(), tidemark.Session{Tool: "fake", ForeignID: foreign}); err != nil || !purged {
			t.Errorf("the tool's %s may come back: %v", foreign, err)
		}
	}
	if h, err := s.HandedOver(t.Context(), "fake", "first"); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("after a purge: %+v, %v", h, err)
	}
	if err := s.HandOver(t.Context(), store.Handover{Session: w.ID(), Tool: "fake", ForeignID: "first"}); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("handing over what is not there: %v", err)
	}
}
