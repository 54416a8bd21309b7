package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// plainWords is language enough for these tests: lower-case words.
func plainWords(e tidemark.Entry) []string { return strings.Fields(strings.ToLower(e.Text())) }

func plainPlaces(e tidemark.Entry, yield func(word []byte, place int)) bool {
	for i, word := range plainWords(e) {
		yield([]byte(word), i)
	}
	return true
}

func indexed() *store.Store {
	return store.New(memory.New(), &store.Options{Places: plainPlaces})
}

// bare hides what a Backend can do beyond the seven methods.
type bare struct{ tidemark.Backend }

func lookFor(word string) store.Question {
	return store.Question{
		All:   [][]tidemark.Term{{{Word: word}}},
		Match: func(e tidemark.Entry) bool { return slices.Contains(plainWords(e), word) },
	}
}

func hits(t *testing.T, s *store.Store, q store.Question) (refs []string) {
	t.Helper()
	a, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("Search = %v", err)
	}
	for _, f := range a.Found {
		refs = append(refs, f.Info.Title+strings.TrimPrefix(f.Ref(), string(f.Info.ID))+" "+f.Entry.Text())
	}
	return refs
}

func titled(t *testing.T, s *store.Store, sess tidemark.Session, entries ...tidemark.Entry) *store.Writer {
	t.Helper()
	w := s.Create(sess, who("test"))
	add(t, w, entries...)
	return w
}

// eachWay runs a test with an index that is behind, with one that is caught
// up, and without one: they have to answer alike.
func eachWay(t *testing.T, fill func(*testing.T, *store.Store), check func(*testing.T, *store.Store)) {
	for name, s := range map[string]*store.Store{
		"behind":  indexed(),
		"indexed": indexed(),
		"scanned": store.New(bare{memory.New()}, nil),
	} {
		t.Run(name, func(t *testing.T) {
			fill(t, s)
			if name == "indexed" {
				if _, err := s.CatchUp(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			check(t, s)
		})
	}
}

func TestSearchFindsEntriesNewestFirst(t *testing.T) {
	eachWay(t, func(t *testing.T, s *store.Store) {
		titled(t, s, tidemark.Session{Title: "one"}, user("red fish"), assistant("blue fish"))
		w := titled(t, s, tidemark.Session{Title: "two"}, user("a bird"))
		if _, err := w.AppendTo(t.Context(), "scout", user("a fish far away")); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, s *store.Store) {
		same(t, hits(t, s, lookFor("fish")), []string{"two a fish far away", "one@2 blue fish", "one@1 red fish"})
		q := lookFor("fish")
		q.Limit = 1
		same(t, hits(t, s, q), []string{"two a fish far away"})
		a, err := s.Search(t.Context(), q)
		if err != nil || !a.Cut() || a.Next == "" {
			t.Errorf("an answer that was cut says so: %v, next %q, %v", a.Cut(), a.Next, err)
		}
		same(t, len(hits(t, s, lookFor("whale"))), 0)
	})
}

func TestSearchFindsTitlesLabelsAndTags(t *testing.T) {
	eachWay(t, func(t *testing.T, s *store.Store) {
		w := titled(t, s, tidemark.Session{Title: "old name"}, user("hello"))
		for _, err := range []error{
			s.Rename(t.Context(), w.ID(), "new name"),
			s.Label(t.Context(), w.ID(), 1, "greeting here"),
			s.Tag(t.Context(), w.ID(), []string{"kept"}, nil),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}, func(t *testing.T, s *store.Store) {
		same(t, hits(t, s, lookFor("name")), []string{"new name new name"})
		same(t, len(hits(t, s, lookFor("old"))), 0)
		same(t, hits(t, s, lookFor("greeting")), []string{"new name@1 greeting here"})
		same(t, hits(t, s, lookFor("kept")), []string{"new name kept"})
	})
}

func TestSearchFilters(t *testing.T) {
	eachWay(t, func(t *testing.T, s *store.Store) {
		titled(t, s, tidemark.Session{Title: "one", Agent: "ada", Project: "/p"}, user("fish"), assistant("fish"))
		titled(t, s, tidemark.Session{Title: "two", Agent: "bob", Project: "/q"}, user("fish"))
	}, func(t *testing.T, s *store.Store) {
		for want, change := range map[string]func(*store.Question){
			"one@2 fish,one@1 fish": func(q *store.Question) { q.Agent = "ada" },
			"two@1 fish":            func(q *store.Question) { q.Project = "/q" },
			"two@1 fish,one@1 fish": func(q *store.Question) { q.Role = "user" },
			"":                      func(q *store.Question) { q.Since = time.Now().Add(time.Hour) },
		} {
			q := lookFor("fish")
			change(&q)
			same(t, strings.Join(hits(t, s, q), ","), want)
		}
	})
}

func TestSearchLeavesTheTrashAlone(t *testing.T) {
	eachWay(t, func(t *testing.T, s *store.Store) {
		w := titled(t, s, tidemark.Session{Title: "source"}, user("fish"), user("later fish"))
		if _, err := s.Fork(t.Context(), w.ID(), 1, "fork"); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Trash(t.Context(), w.ID()); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, s *store.Store) {
		q := lookFor("fish")
		q.Trash = true
		same(t, hits(t, s, q), []string{"source@2 later fish", "source@1 fish"})
		same(t, hits(t, s, lookFor("fish")), []string{"fork@1 fish"})
	})
}

func TestWhatAForkSharesWithTheTrashIsFoundInTheFork(t *testing.T) {
	s := indexed()
	w := titled(t, s, tidemark.Session{Title: "source"}, user("fish"), user("later fish"))
	if _, err := s.Fork(t.Context(), w.ID(), 1, "fork"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Trash(t.Context(), w.ID()); err != nil {
		t.Fatal(err)
	}
	same(t, hits(t, s, lookFor("fish")), []string{"fork@1 fish"})
	if err := s.Purge(t.Context(), w.ID(), who("test")); err != nil {
		t.Fatal(err)
	}
	same(t, hits(t, s, lookFor("fish")), []string{"fork@1 fish"})
	if _, err := s.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	same(t, hits(t, s, lookFor("fish")), []string{"fork@1 fish"})
}

func TestAStoreIndexesWhatItAppendsWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.New(memory.New(), &store.Options{Places: plainPlaces})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.KeepIndexed(ctx) }()
		w := begin(t, s, user("fish"))
		time.Sleep(time.Second)
		a, err := s.Search(t.Context(), lookFor("fish"))
		if err != nil {
			t.Fatal(err)
		}
		same(t, []int64{int64(len(a.Found)), a.Waiting}, []int64{1, 0})
		same(t, s.Pending(), false)
		add(t, w, user("bird"))
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		same(t, s.Pending(), true)
	})
}

func TestTwoStoresIndexOneLogOnce(t *testing.T) {
	b := memory.New()
	one := store.New(b, &store.Options{Places: plainPlaces})
	two := store.New(b.Again(), &store.Options{Places: plainPlaces})
	begin(t, one, user("fish"), user("fish"))
	done := make(chan error, 2)
	for _, s := range []*store.Store{one, two} {
		go func() {
			_, err := s.CatchUp(t.Context(), nil)
			if errors.Is(err, tidemark.ErrHeld) {
				err = nil // the other does it
			}
			done <- err
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	same(t, len(hits(t, two, lookFor("fish"))), 2)
	if n, err := one.Reindex(t.Context(), nil); err != nil || n == 0 {
		t.Errorf("Reindex = %d, %v", n, err)
	}
	same(t, len(hits(t, two, lookFor("fish"))), 2)
}

func TestARoleThatNobodyHasIsAMistake(t *testing.T) {
	_, err := open(t).Search(t.Context(), store.Question{Role: "bogus"})
	wants(t, err, tidemark.ErrInvalid)
}

func TestASearchSaysHowMuchItReads(t *testing.T) {
	s := store.New(memory.New(), &store.Options{Places: plainPlaces})
	w := s.Create(tidemark.Session{}, store.Self("test"))
	if _, err := w.Append(t.Context(), slices.Repeat([]tidemark.Entry{tidemark.Say(tidemark.User, "tide")}, 2500)...); err != nil {
		t.Fatal(err)
	}
	var read []int64
	q := lookFor("tide")
	q.Progress = func(n int64) { read = append(read, n) }
	for range 2 {
		if _, err := s.Search(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CatchUp(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(read, []int64{1000, 2000}) { // the second search finds all in the index
		t.Errorf("progress %v", read)
	}
}

func TestASessionThatMovedToAnotherProjectIsFoundThereWhole(t *testing.T) {
	s := indexed()
	w := titled(t, s, tidemark.Session{Title: "tides", Project: "/alpha", Agent: "mate"}, tidemark.Say(tidemark.User, "an anchor before"))
	titled(t, s, tidemark.Session{Title: "other", Project: "/alpha", Agent: "mate"}, tidemark.Say(tidemark.User, "an anchor that stays"))
	if _, err := s.CatchUp(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.SetOrigin(t.Context(), w.ID(), tidemark.Session{Title: "tides", Project: "/beta", Agent: "bosun"}); err != nil {
		t.Fatal(err)
	}
	add(t, w, tidemark.Say(tidemark.User, "an anchor after"))
	both := []string{"tides@2 an anchor after", "tides@1 an anchor before"}
	for _, caught := range []bool{false, true} {
		if caught {
			if _, err := s.CatchUp(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		for filter, want := range map[[2]string][]string{
			{"/alpha", ""}: {"other@1 an anchor that stays"}, {"/beta", ""}: both,
			{"", "mate"}: {"other@1 an anchor that stays"}, {"", "bosun"}: both,
		} {
			q := lookFor("anchor")
			q.Project, q.Agent = filter[0], filter[1]
			if got := hits(t, s, q); !slices.Equal(got, want) {
				t.Errorf("caught up %v, in %q: %q, want %q", caught, filter, got, want)
			}
		}
	}
}
