package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

func unitsOf(t *testing.T, s *store.Store, src store.Source) (names []string) {
	t.Helper()
	for u, err := range s.SourceUnits(t.Context(), src) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, u.Unit+" "+u.Stamp)
	}
	return names
}

func TestTheLedgerOfAFolderIsThatOfItsToolAndMachine(t *testing.T) {
	s := open(t)
	src := store.Source{Machine: "one", Tool: "fake", Path: "/home/ada/.fake"}
	others := []store.Source{{Machine: "two", Tool: src.Tool, Path: src.Path}, {Machine: "one", Tool: "other", Path: src.Path}, {Machine: "one", Tool: "fake", Path: "/elsewhere"}}
	if _, err := s.SourceState(t.Context(), src); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("a folder that was never read: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.KeepSource(t.Context(), store.SourceState{Source: src, Stamp: "first", Sessions: 1}))
	must(s.KeepSource(t.Context(), store.SourceState{Source: src, Stamp: "second", Sessions: 2}))
	must(s.KeepUnits(t.Context(), store.SourceUnit{Source: src, Unit: "a", Stamp: "1"}))
	must(s.KeepUnits(t.Context(), store.SourceUnit{Source: src, Unit: "a", Stamp: "2", Version: 1}))
	if err := s.KeepUnits(t.Context(), store.SourceUnit{Source: src, Unit: "a", Stamp: "3", Version: 1}); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("a unit at another version: %v, want ErrConflict", err)
	}
	large := store.SourceUnit{Source: src, Unit: "b", State: []byte(strings.Repeat("x", store.MaxUnitState+1))}
	if err := s.KeepUnits(t.Context(), large); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a state that is too large: %v, want ErrInvalid", err)
	}
	state, err := s.SourceState(t.Context(), src)
	must(err)
	if state.Stamp != "second" || state.Sessions != 2 || state.Source != src {
		t.Errorf("the folder is %+v", state)
	}
	same(t, unitsOf(t, s, src), []string{"a 2"})
	for _, other := range others {
		if _, err := s.SourceState(t.Context(), other); !errors.Is(err, tidemark.ErrNotFound) || unitsOf(t, s, other) != nil {
			t.Errorf("%+v has a ledger: %v", other, err)
		}
	}
}

func TestAPurgedSessionIsMissingInTheLedger(t *testing.T) {
	s := open(t)
	src := store.Source{Machine: "one", Tool: "fake", Path: "/home/ada/.fake"}
	gone, stays := begun(t, s), begun(t, s)
	err := errors.Join(gone.Close(t.Context()), stays.Close(t.Context()),
		s.KeepUnits(t.Context(), store.SourceUnit{Source: src, Unit: "gone", Session: gone.ID()}, store.SourceUnit{Source: src, Unit: "stays", Session: stays.ID()}),
		s.KeepSource(t.Context(), store.SourceState{Source: src, Stamp: "all"}),
		s.Purge(t.Context(), gone.ID(), who("test")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SourceState(t.Context(), src); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("the folder is still known: %v", err)
	}
	same(t, unitsOf(t, s, src), []string{"stays "})
}

func TestTheBookmarkOfAUnitIsReadAloneAndGoesWithIt(t *testing.T) {
	s := open(t)
	src := store.Source{Machine: "one", Tool: "fake", Path: "/home/ada/.fake"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(unit, bookmark string) {
		t.Helper()
		if b, err := s.SourceBookmark(t.Context(), src, unit); string(b) != bookmark || err != nil {
			t.Errorf("the bookmark of %s is %q, want %q; %v", unit, b, bookmark, err)
		}
	}
	u := store.SourceUnit{Source: src, Unit: "a", Stamp: "1", Bookmark: []byte("page 1")}
	want("a", "")
	must(s.KeepUnits(t.Context(), u))
	want("a", "page 1")
	u.Version, u.Bookmark = 1, []byte("page 2")
	must(s.KeepUnits(t.Context(), u))
	want("a", "page 2")
	u.Version, u.Bookmark = 2, nil // the one that is there is still right
	must(s.KeepUnits(t.Context(), u))
	want("a", "page 2")
	for have, err := range s.SourceUnits(t.Context(), src) {
		if must(err); have.Bookmark != nil {
			t.Errorf("%s has its bookmark with it", have.Unit)
		}
	}
	u.Version, u.Bookmark = 3, make([]byte, store.MaxUnitState+1)
	if err := s.KeepUnits(t.Context(), u); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a bookmark that is too large: %v, want ErrInvalid", err)
	}
	must(s.ForgetUnits(t.Context(), u))
	want("a", "")
}
