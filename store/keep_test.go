package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestRetentionPassesOverWhatIsPinnedHeldOrOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		old, pinned, held, busy := begin(t, s, user("a")), begin(t, s, user("b")), begin(t, s, user("c")), begin(t, s, user("d"))
		for _, w := range []*store.Writer{old, pinned, held} {
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Pin(t.Context(), pinned.ID(), true); err != nil {
			t.Fatal(err)
		}
		if err := s.Hold(t.Context(), held.ID(), true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		begin(t, s, user("new"))
		expired := func() (ids []tidemark.SessionID) {
			all, err := s.Expired(t.Context(), time.Now().Add(-5*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range all {
				ids = append(ids, i.ID)
			}
			return ids
		}
		same(t, expired(), []tidemark.SessionID{old.ID()})
		if err := busy.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Pin(t.Context(), pinned.ID(), false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		same(t, len(expired()), 3) // all but the one on hold and the one that is open
	})
}

func TestASessionOnHoldCannotBeRemoved(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("a"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Hold(t.Context(), w.ID(), true); err != nil {
		t.Fatal(err)
	}
	wants(t, s.Trash(t.Context(), w.ID()), tidemark.ErrDenied)
	wants(t, s.Purge(t.Context(), w.ID(), who("test")), tidemark.ErrDenied)
	if err := s.Hold(t.Context(), w.ID(), false); err != nil {
		t.Fatal(err)
	}
	if err := s.Trash(t.Context(), w.ID()); err != nil {
		t.Error(err)
	}
}

func TestAPatchThatIsRefusedIsNotTriedAgain(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"))
	asked, title := 0, "other"
	_, err := s.Change(t.Context(), w.ID(), store.Patch{Title: &title, If: func(store.Info) error {
		asked++
		return tidemark.Conflictf("it was changed meanwhile")
	}})
	wants(t, err, tidemark.ErrConflict)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
