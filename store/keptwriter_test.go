package store_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/store"
)

// counted counts the calls that a Backend gets.
type counted struct {
	tidemark.Backend
	reads, commits int
}

func (c *counted) Get(ctx context.Context, k tidemark.Key) (tidemark.Record, error) {
	c.reads++
	return c.Backend.Get(ctx, k)
}

func (c *counted) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	c.reads++
	return c.Backend.List(ctx, q)
}

func (c *counted) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	c.reads++
	return c.Backend.Lines(ctx, log, spans...)
}

func (c *counted) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	c.commits++
	return c.Backend.Commit(ctx, b)
}

func TestAnAppendWithATokenThatWasUsedIsOneCommitAndNoRead(t *testing.T) {
	c := &counted{Backend: memory.New()}
	s := store.New(c, nil)
	id, token := lentSession(t, s)
	if s.HasToken(id, token) {
		t.Error("a token is known before it was used")
	}
	if err := sayWith(t, s, id, token, "one"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		c.reads, c.commits = 0, 0
		if err := sayWith(t, s, id, token, "more"); err != nil || c.reads != 0 || c.commits != 1 {
			t.Errorf("%d reads, %d commits: %v", c.reads, c.commits, err)
		}
	}
	if s.HasToken(id, token+"x") || s.HasToken(tidemark.NewSessionID(), token) {
		t.Error("another token, or that of another session, is known")
	}
}

// What was kept of a token on one node is old when the token was used on
// another: appends find that out, also those that name a parent that only the
// other node has seen.
func TestOneTokenOnTwoNodesWritesAsIfThereWereOne(t *testing.T) {
	b := memory.New()
	one, two := store.New(b, nil), store.New(b, nil)
	id, token := lentSession(t, one)
	for n, s := range []*store.Store{one, two, one, one, two, two, one} {
		if err := sayWith(t, s, id, token, strconv.Itoa(n)); err != nil {
			t.Fatalf("append %d: %v", n, err)
		}
	}
	if err := sayWith(t, two, id, token, "only two has seen it"); err != nil {
		t.Fatal(err)
	}
	err := one.WithToken(t.Context(), id, token, func(w *store.Writer) error {
		e := tidemark.Say(tidemark.User, "a reply to it")
		e.Parent = 9
		seqs, err := w.Append(t.Context(), e)
		if err == nil && seqs[0] != 10 {
			t.Errorf("seq %d, want 10", seqs[0])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for err := range one.Verify(t.Context(), id) {
		t.Error(err)
	}
}

func TestATokenThatWasUsedEndsWithItsLease(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *store.Store, id tidemark.SessionID, token string) error{
		"returned": func(t *testing.T, s *store.Store, id tidemark.SessionID, token string) error {
			return s.ReturnToken(t.Context(), id, token)
		},
		"handed on": func(t *testing.T, s *store.Store, id tidemark.SessionID, token string) error {
			_, _, err := s.TransferToken(t.Context(), id, token, tidemark.Holder{Program: "phone"})
			return err
		},
		"taken after silence": func(t *testing.T, s *store.Store, id tidemark.SessionID, token string) error {
			time.Sleep(31 * time.Second)
			_, err := s.Attach(t.Context(), id, tidemark.Holder{Program: "chat"})
			return err
		},
		"silent": func(t *testing.T, s *store.Store, id tidemark.SessionID, token string) error {
			time.Sleep(31 * time.Second)
			return nil
		},
	} {
		for _, here := range []bool{true, false} {
			t.Run(name+" here "+strconv.FormatBool(here), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := memory.New()
					s, by := store.New(b, nil), store.New(b, nil)
					if here {
						by = s
					}
					id, token := lentSession(t, s)
					if err := sayWith(t, s, id, token, "one"); err != nil {
						t.Fatal(err)
					}
					if err := end(t, by, id, token); err != nil {
						t.Fatal(err)
					}
					if err := sayWith(t, s, id, token, "late"); !errors.Is(err, tidemark.ErrConflict) {
						t.Errorf("append = %v, want ErrConflict", err)
					}
					if i, err := s.Session(t.Context(), id); err != nil || i.Entries != 2 {
						t.Errorf("%d entries, %v", i.Entries, err)
					}
				})
			})
		}
	}
}

func TestManyCallsWithOneTokenAtOnceAreKeptOneAfterTheOther(t *testing.T) {
	s := store.New(memory.New(), nil)
	id, token := lentSession(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if err := sayWith(t, s, id, token, "more"); err != nil {
					t.Error(err)
				}
				if _, _, err := s.RenewToken(t.Context(), id, token); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if i, err := s.Session(t.Context(), id); err != nil || i.Entries != 161 {
		t.Errorf("%d entries, %v", i.Entries, err)
	}
}

func sayFree(t *testing.T, s *store.Store, id tidemark.SessionID, text string) (seq int64, err error) {
	t.Helper()
	err = s.WithoutLease(t.Context(), id, func(w *store.Writer) error {
		seqs, err := w.Append(t.Context(), tidemark.Say(tidemark.User, text))
		if err == nil {
			seq = seqs[0]
		}
		return err
	})
	return seq, err
}

func TestAnAppendWithoutALeaseTakesNone(t *testing.T) {
	c := &counted{Backend: memory.New()}
	s := store.New(c, nil)
	id, token := lentSession(t, s)
	if _, err := sayFree(t, s, id, "not while it is lent"); !errors.Is(err, tidemark.ErrHeld) {
		t.Errorf("append = %v, want ErrHeld", err)
	}
	if err := s.ReturnToken(t.Context(), id, token); err != nil {
		t.Fatal(err)
	}
	before, err := s.Lease(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sayFree(t, s, id, "two"); err != nil {
		t.Fatal(err)
	}
	c.reads, c.commits = 0, 0
	if seq, err := sayFree(t, s, id, "three"); err != nil || seq != 3 || c.reads != 0 || c.commits != 1 {
		t.Errorf("seq %d after %d reads and %d commits: %v", seq, c.reads, c.commits, err)
	}
	if err := sayWith(t, s, id, "", "with no token"); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("append with an empty token = %v, want ErrInvalid", err)
	}
	if _, _, err := s.RenewToken(t.Context(), id, ""); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("RenewToken without a token = %v, want ErrInvalid", err)
	}
	if after, err := s.Lease(t.Context(), id); err != nil || after.Version != before.Version || after.Held {
		t.Errorf("the lease is %+v, was %+v, %v", after, before, err)
	}
}

// What happens to a session after an append without a lease counts for the next
// one, whether it happens in this process or in another.
func TestAnAppendWithoutALeaseSeesWhatHappenedSince(t *testing.T) {
	title := "ebb"
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s *store.Store, id tidemark.SessionID) error
		want error
	}{
		{"held", func(t *testing.T, s *store.Store, id tidemark.SessionID) error {
			_, err := s.Attach(t.Context(), id, tidemark.Holder{Program: "chat", PID: 1, Host: "far"})
			return err
		}, tidemark.ErrHeld},
		{"lent", func(t *testing.T, s *store.Store, id tidemark.SessionID) error {
			_, _, err := s.IssueToken(t.Context(), id, client)
			return err
		}, tidemark.ErrHeld},
		{"trashed", func(t *testing.T, s *store.Store, id tidemark.SessionID) error { return s.Trash(t.Context(), id) }, tidemark.ErrNotFound},
		{"purged", func(t *testing.T, s *store.Store, id tidemark.SessionID) error {
			return s.Purge(t.Context(), id, client)
		}, tidemark.ErrNotFound},
		{"renamed", func(t *testing.T, s *store.Store, id tidemark.SessionID) error {
			_, err := s.Change(t.Context(), id, store.Patch{Title: &title})
			return err
		}, nil},
		{"held and left", func(t *testing.T, s *store.Store, id tidemark.SessionID) error {
			w, err := s.Attach(t.Context(), id, client)
			if err != nil {
				return err
			}
			_, err = w.Append(t.Context(), tidemark.Say(tidemark.User, "between"))
			return errors.Join(err, w.Close(t.Context()))
		}, nil},
	} {
		for _, here := range []bool{true, false} {
			t.Run(c.name+" here "+strconv.FormatBool(here), func(t *testing.T) {
				b := memory.New()
				s, by := store.New(b, nil), store.New(b, nil)
				if here {
					by = s
				}
				id, token := lentSession(t, s)
				if err := s.ReturnToken(t.Context(), id, token); err != nil {
					t.Fatal(err)
				}
				if _, err := sayFree(t, s, id, "two"); err != nil {
					t.Fatal(err)
				}
				if err := c.do(t, by, id); err != nil {
					t.Fatal(err)
				}
				if _, err := sayFree(t, s, id, "three"); !errors.Is(err, c.want) {
					t.Errorf("append = %v, want %v", err, c.want)
				}
				if _, err := b.Get(t.Context(), tidemark.Key{Kind: "session", ID: string(id)}); err != nil {
					return // purged
				}
				i, err := s.Session(t.Context(), id)
				if want := map[string]int64{"renamed": 3, "held and left": 4}[c.name]; err != nil || i.Entries != max(want, 2) {
					t.Errorf("%d entries, %v", i.Entries, err)
				}
			})
		}
	}
}

// Appends that take no lease never come between those of somebody who has it, in
// whatever backend.
func TestAHolderIsAloneAlsoWithAppendsThatTakeNoLease(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (tidemark.Backend, error){
		"memory": func(*testing.T) (tidemark.Backend, error) { return memory.New(), nil },
		"sqlite": func(t *testing.T) (tidemark.Backend, error) {
			return sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tidemark.db"), &sqlite.Options{Create: true})
		},
		"files": func(t *testing.T) (tidemark.Backend, error) {
			return files.Open(t.Context(), t.TempDir(), &files.Options{Create: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { b.Close() })
			holderIsAlone(t, b)
		})
	}
}

func holderIsAlone(t *testing.T, b tidemark.Backend) {
	one, two := store.New(b, nil), store.New(b, nil)
	id, token := lentSession(t, one)
	if err := one.ReturnToken(t.Context(), id, token); err != nil {
		t.Fatal(err)
	}
	var kept atomic.Int64
	kept.Store(1)
	var wg sync.WaitGroup
	for n := range 4 {
		s := []*store.Store{one, two}[n%2]
		wg.Go(func() {
			for done := 0; done < 10; {
				_, err := sayFree(t, s, id, "free")
				switch {
				case err == nil:
					done++
					kept.Add(1)
				case !errors.Is(err, tidemark.ErrHeld) && !errors.Is(err, tidemark.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range 10 {
			w, err := two.Attach(t.Context(), id, client)
			if err != nil {
				t.Error(err)
				return
			}
			head := w.Head()
			for range 3 {
				seqs, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "held"))
				if head++; err != nil || seqs[0] != head {
					t.Errorf("seq %v behind %d: %v", seqs, head-1, err)
					break
				}
				kept.Add(1)
			}
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if i, err := one.Session(t.Context(), id); err != nil || i.Entries != kept.Load() {
		t.Errorf("%d entries, %d were kept, %v", i.Entries, kept.Load(), err)
	}
	for err := range one.Verify(t.Context(), id) {
		t.Error(err)
	}
}
