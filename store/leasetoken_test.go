package store_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
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
