package store_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/store"
)

var client = tidemark.Holder{Program: "editor", Host: "ada"}

// lentSession is a session of one entry that was lent.
func lentSession(t *testing.T, s *store.Store) (tidemark.SessionID, string) {
	t.Helper()
	w := s.Create(tidemark.Session{Title: "tides"}, client)
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "one")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, _, err := s.IssueToken(t.Context(), w.ID(), client)
	if err != nil {
		t.Fatal(err)
	}
	return w.ID(), token
}

func sayWith(t *testing.T, s *store.Store, id tidemark.SessionID, token, text string) error {
	t.Helper()
	return s.WithToken(t.Context(), id, token, func(w *store.Writer) error {
		_, err := w.Append(t.Context(), tidemark.Say(tidemark.User, text))
		return err
	})
}

func TestATokenWritesUntilItsLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		s, other := store.New(b, nil), store.New(b, nil)
		id, token := lentSession(t, s)
		for range 10 { // each append renews what is getting old
			time.Sleep(20 * time.Second)
			if err := sayWith(t, other, id, token, "more"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Attach(t.Context(), id, client); !errors.Is(err, tidemark.ErrHeld) {
			t.Errorf("Attach = %v, want ErrHeld", err)
		}
		time.Sleep(31 * time.Second)
		if err := sayWith(t, s, id, token, "late"); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("with a lease that ran out: %v, want ErrConflict", err)
		}
		if _, _, err := s.RenewToken(t.Context(), id, token); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("RenewToken = %v, want ErrConflict", err)
		}
		fresh, _, err := s.IssueToken(t.Context(), id, client)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ReturnToken(t.Context(), id, token); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("GiveBack of a lost lease = %v, want ErrConflict", err)
		}
		if err := sayWith(t, s, id, fresh, "again"); err != nil {
			t.Error(err)
		}
	})
}

func TestATokenIsTheSecretAndNotTheNumber(t *testing.T) {
	s := store.New(memory.New(), nil)
	id, token := lentSession(t, s)
	number, secret, _ := strings.Cut(token, "-")
	l, err := s.Lease(t.Context(), id)
	if err != nil || l.TokenHash == "" || strings.Contains(l.TokenHash, secret) || l.Dead {
		t.Errorf("%+v %v", l, err)
	}
	for bad, want := range map[string]error{"": tidemark.ErrInvalid, "x": tidemark.ErrInvalid, "x-" + secret: tidemark.ErrInvalid, number: tidemark.ErrInvalid,
		number + "-": tidemark.ErrConflict, number + "-x": tidemark.ErrConflict, "99-" + secret: tidemark.ErrConflict, number + "-" + l.TokenHash: tidemark.ErrConflict} {
		if _, err := s.AttachWithToken(t.Context(), id, bad); !errors.Is(err, want) {
			t.Errorf("Rejoin(%q) = %v, want %v", bad, err, want)
		}
	}
	if _, err := s.AttachWithToken(t.Context(), tidemark.NewSessionID(), token); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("Rejoin elsewhere = %v, want ErrNotFound", err)
	}
	// A process that holds a session has no token that could be guessed.
	if err := s.ReturnToken(t.Context(), id, token); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach(t.Context(), id, tidemark.Holder{Program: "chat", PID: 1, Host: "far"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AttachWithToken(t.Context(), id, "4-"); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("Rejoin of a process = %v, want ErrConflict", err)
	}
}

// Stores of earlier builds have it so, and earlier builds read it so.
func TestTheHashOfATokenIsKeptAsTheStartOfNoProcess(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	id, _ := lentSession(t, s)
	l, err := s.Lease(t.Context(), id)
	if err != nil || l.Holder != client {
		t.Errorf("held by %+v, %v", l.Holder, err)
	}
	r, err := b.Get(t.Context(), tidemark.Key{Kind: "lease", ID: string(id)})
	if want := `{"holder":{"program":"editor","pid":0,"host":"ada","started_at":"` + l.TokenHash + `","namespace":"token"},`; err != nil || !strings.HasPrefix(string(r.Body), want) {
		t.Errorf("kept %s, want %s…, %v", r.Body, want, err)
	}
}

func TestALeaseIsPassedOnWithoutAMomentFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.New(memory.New(), nil)
		id, token := lentSession(t, s)
		time.Sleep(time.Second)
		if err := s.RequestHandover(t.Context(), id, tidemark.Holder{Program: "phone"}); err != nil {
			t.Fatal(err)
		}
		_, asked, err := s.RenewToken(t.Context(), id, token)
		if err != nil || asked == nil || asked.From.Program != "phone" {
			t.Fatalf("asked %+v, %v", asked, err)
		}
		time.Sleep(time.Second)
		fresh, l, err := s.TransferToken(t.Context(), id, token, asked.From)
		if err != nil || l.Holder.Program != "phone" {
			t.Fatalf("%+v %v", l, err)
		}
		if err := sayWith(t, s, id, token, "late"); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("the old token: %v, want ErrConflict", err)
		}
		if err := sayWith(t, s, id, fresh, "new"); err != nil {
			t.Error(err)
		}
		if _, asked, err := s.RenewToken(t.Context(), id, fresh); err != nil || asked != nil {
			t.Errorf("asked %+v, %v: that was before its time", asked, err)
		}
	})
}

func TestAMadeSessionIsEmptyAndFree(t *testing.T) {
	s := store.New(memory.New(), nil)
	i, err := s.CreateEmpty(t.Context(), tidemark.Session{Title: "tides"})
	if err != nil || i.Entries != 0 || i.State != store.Live {
		t.Fatalf("%+v %v", i, err)
	}
	if _, err := s.CreateEmpty(t.Context(), tidemark.Session{ID: i.ID}); !errors.Is(err, tidemark.ErrExists) {
		t.Errorf("made twice: %v, want ErrExists", err)
	}
	for err := range s.Verify(t.Context(), i.ID) {
		t.Error(err)
	}
	w, err := s.Attach(t.Context(), i.ID, client)
	if err != nil {
		t.Fatal(err)
	}
	if seqs, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "one")); err != nil || seqs[0] != 1 {
		t.Errorf("%v %v", seqs, err)
	}
	if p, err := s.Resolve(t.Context(), "Tides", ""); err != nil || p.ID != i.ID {
		t.Errorf("its title does not lead to it: %v", err)
	}
}

func TestAChangeIsMadeWholeOrNotAtAll(t *testing.T) {
	s := store.New(memory.New(), nil)
	i, err := s.CreateEmpty(t.Context(), tidemark.Session{Title: "tides", Tags: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	title, tags, yes := "ebb", []string{"b", " c ", "c"}, true
	changed, err := s.Change(t.Context(), i.ID, store.Patch{Title: &title, Tags: &tags, Pinned: &yes})
	if err != nil || changed.Title != "ebb" || !cmp.Equal(changed.Tags, []string{"b", "c"}) || !changed.Pinned || changed.Version() != i.Version()+1 {
		t.Errorf("%+v %v", changed, err)
	}
	if _, err := s.Resolve(t.Context(), "tides", ""); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("the old title leads somewhere: %v", err)
	}
	v, err := s.View(t.Context(), i.ID)
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for n, err := range v.Notes(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		notes = append(notes, n.Kind+" "+n.Text)
	}
	if d := cmp.Diff([]string{"title ebb", "tag c", "tag a", "pin "}, notes); d != "" {
		t.Error(d)
	}
	no, empty := errors.New("no"), " "
	for _, p := range []store.Patch{{Pinned: new(bool), If: func(store.Info) error { return no }}, {Pinned: new(bool), Title: &empty}, {Pinned: new(bool), Tags: &[]string{""}}} {
		if _, err := s.Change(t.Context(), i.ID, p); err == nil {
			t.Error("no error")
		}
	}
	if again, err := s.Session(t.Context(), i.ID); err != nil || !cmp.Equal(again.Session, changed.Session) {
		t.Errorf("%+v %v", again, err)
	}
}

func TestTurnsAndRangesFollowThePath(t *testing.T) {
	s := store.New(memory.New(), nil)
	ctx := t.Context()
	w := s.Create(tidemark.Session{Title: "tides"}, client)
	say := func(role tidemark.Role, text string) {
		t.Helper()
		if _, err := w.Append(ctx, tidemark.Say(role, text)); err != nil {
			t.Fatal(err)
		}
	}
	say(tidemark.System, "be kind")
	say(tidemark.User, "one")
	say(tidemark.Assistant, "re one")
	say(tidemark.User, "two")
	if err := w.Branch(ctx, 3); err != nil {
		t.Fatal(err)
	}
	say(tidemark.User, "other")
	fork, err := s.Fork(ctx, w.ID(), 6, "fork")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[tidemark.SessionID]string{w.ID(): "1 2 3 4 5 6", fork.ID: "1 2 3 5 6 7"} {
		v, err := s.View(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		n, err := v.TurnCount(ctx)
		if err != nil || n != 2 {
			t.Errorf("%d turns, %v", n, err)
		}
		var turns []string
		for turn, err := range v.Turns(ctx, 0) {
			if err != nil {
				t.Fatal(err)
			}
			turns = append(turns, turn.Entries[0].Text())
		}
		if !cmp.Equal(turns, []string{"one", "other"}) {
			t.Errorf("%v", turns)
		}
		if got := seqsOf(t, v.LogRange(ctx, 1, 0)); got != want {
			t.Errorf("log %s, want %s", got, want)
		}
		if got := seqsOf(t, v.PathRange(ctx, 0, 2, 5)); got != "2 3" {
			t.Errorf("path %s", got)
		}
		for point, want := range map[string]int64{"": 0, "n0": 3, "3": 3, "n2~1": 3} {
			if seq, err := v.At(ctx, point); err != nil || seq != want {
				t.Errorf("At(%q) = %d, %v, want %d", point, seq, err, want)
			}
		}
		if _, err := v.At(ctx, "nowhere"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("%v", err)
		}
	}
}

func seqsOf(t *testing.T, entries func(func(tidemark.Entry, error) bool)) string {
	t.Helper()
	var out []string
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strconv.FormatInt(e.Seq, 10))
	}
	return strings.Join(out, " ")
}

func FuzzNoOtherTokenIsLetIn(f *testing.F) {
	s := store.New(memory.New(), nil)
	w := s.Create(tidemark.Session{}, client)
	if _, err := w.Append(f.Context(), tidemark.Say(tidemark.User, "one")); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(f.Context()); err != nil {
		f.Fatal(err)
	}
	token, _, err := s.IssueToken(f.Context(), w.ID(), client)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "3", "3-", "-3-x", "3-AAAAAAAAAAAAAAAAAAAAAAAAAA", "03-x", "+3-x", "99999999999999999999-x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, other string) {
		if _, err := s.AttachWithToken(t.Context(), w.ID(), other); other != token && !errors.Is(err, tidemark.ErrInvalid) && !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("Rejoin(%q) = %v", other, err)
		}
	})
}

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
