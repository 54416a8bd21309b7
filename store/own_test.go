package store_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// owned returns the texts of what Own yields, in order of the alphabet.
func owned(t *testing.T, s *store.Store, since time.Time) (texts []string) {
	t.Helper()
	for o, err := range s.Own(t.Context(), since) {
		if err != nil {
			t.Fatal(err)
		}
		if o.Kind == tidemark.KindMessage {
			texts = append(texts, o.Text())
		}
	}
	slices.Sort(texts)
	return texts
}

func TestEachEntryIsOwnedByOneSession(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("q1"), assistant("a1"), after(1, assistant("a1, again")))
	if _, err := w.AppendTo(t.Context(), "scout", user("look"), assistant("seen")); err != nil {
		t.Fatal(err)
	}
	fork, err := s.Fork(t.Context(), w.ID(), 2, "fork")
	if err != nil {
		t.Fatal(err)
	}
	add(t, attach(t, s, fork.ID, "test"), user("q2"))
	deeper, err := s.Fork(t.Context(), fork.ID, 3, "deeper")
	if err != nil {
		t.Fatal(err)
	}
	add(t, attach(t, s, deeper.ID, "test"), user("q3"))
	all := []string{"a1", "a1, again", "look", "q1", "q2", "q3", "seen"}
	same(t, owned(t, s, time.Time{}), all)

	for o, err := range s.Own(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if o.Text() == "q3" && (o.Seq != 4 || o.Session.ID != deeper.ID) || o.Text() == "seen" && (o.Worker != "scout" || o.Seq != 2) {
			t.Errorf("%q is entry %d of %s, worker %q", o.Text(), o.Seq, o.Session.ID, o.Worker)
		}
	}

	// A copy of a purged past is not the fork's own writing either.
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), w.ID(), who("test")); err != nil {
		t.Fatal(err)
	}
	same(t, owned(t, s, time.Time{}), []string{"q2", "q3"})
}

func TestListsByIDHaveAllThatIsThere(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("live"))
	if _, err := w.AppendTo(t.Context(), "scout", user("look"), assistant("seen")); err != nil {
		t.Fatal(err)
	}
	thrown := begin(t, s, user("thrown away"))
	if _, err := thrown.AppendTo(t.Context(), "helper", user("look")); err != nil {
		t.Fatal(err)
	}
	if err := s.Label(t.Context(), thrown.ID(), 1, "here"); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*store.Writer{w, thrown} {
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Trash(t.Context(), thrown.ID()); err != nil {
		t.Fatal(err)
	}
	states := make(map[tidemark.SessionID]string)
	var ids []tidemark.SessionID
	for i, err := range s.SessionsByID(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		states[i.ID], ids = i.State, append(ids, i.ID)
	}
	same(t, states, map[tidemark.SessionID]string{w.ID(): store.Live, thrown.ID(): store.Trash})
	if !slices.IsSorted(ids) {
		t.Errorf("SessionsByID = %v, want them in order", ids)
	}
	workers := make(map[string]int64)
	for w, err := range s.WorkersByID(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		workers[w.Name] += w.Entries
	}
	same(t, workers, map[string]int64{"scout": 2, "helper": 1})
	noted, err := s.SessionsWithNotes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, noted, map[tidemark.SessionID]bool{thrown.ID(): true})
}

func TestOwnLeavesOutTheTrashAndWhatIsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		old, gone := begin(t, s, user("old")), begin(t, s, user("gone"))
		if _, err := gone.AppendTo(t.Context(), "scout", user("gone too")); err != nil {
			t.Fatal(err)
		}
		if err := gone.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Trash(t.Context(), gone.ID()); err != nil {
			t.Fatal(err)
		}
		same(t, owned(t, s, time.Time{}), []string{"old"})
		time.Sleep(time.Hour)
		since := time.Now()
		time.Sleep(time.Second)
		if _, err := old.AppendTo(t.Context(), "scout", user("a worker alone")); err != nil {
			t.Fatal(err)
		}
		same(t, owned(t, s, since), []string{"a worker alone"})
		add(t, old, user("new"))
		same(t, owned(t, s, since), []string{"a worker alone", "new"})
	})
}

func TestOwnGoesOnPastDamage(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	w := begin(t, s, user("one"), user("two"))
	// A line whose body is no entry's.
	l := tidemark.Line{Seq: 3, Kind: "user", At: time.Now().UTC().Truncate(time.Microsecond), Body: []byte("no entry")}
	log := tidemark.Key{Kind: "session", ID: string(w.ID())}
	l.Sum = l.Checksum(log)
	if _, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: l.At, Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}}); err != nil {
		t.Fatal(err)
	}
	begin(t, s, user("three"))
	good, bad := 0, 0
	for _, err := range s.Own(t.Context(), time.Time{}) {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			bad++
		case err != nil:
			t.Fatal(err)
		default:
			good++
		}
	}
	same(t, []int{good, bad}, []int{3, 1})
}
