package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func open(*testing.T) *store.Store {
	return store.New(memory.New(), &store.Options{Dead: func(h tidemark.Holder) bool { return h.Program == "dead" }})
}

func who(name string) tidemark.Holder { return tidemark.Holder{Program: name, PID: 1, Host: "here"} }

func user(s string) tidemark.Entry      { return tidemark.Say(tidemark.User, s) }
func assistant(s string) tidemark.Entry { return tidemark.Say(tidemark.Assistant, s) }
func system(s string) tidemark.Entry    { return tidemark.Say(tidemark.System, s) }

// after makes an entry follow another one than the newest.
func after(parent int64, e tidemark.Entry) tidemark.Entry {
	e.Parent = parent
	return e
}

func begin(t *testing.T, s *store.Store, entries ...tidemark.Entry) *store.Writer {
	t.Helper()
	w := s.Create(tidemark.Session{Title: "demo"}, who("test"))
	add(t, w, entries...)
	return w
}

func add(t *testing.T, w *store.Writer, entries ...tidemark.Entry) []int64 {
	t.Helper()
	seqs, err := w.Append(t.Context(), entries...)
	if err != nil {
		t.Fatalf("Append = %v", err)
	}
	return seqs
}

func attach(t *testing.T, s *store.Store, id tidemark.SessionID, name string) *store.Writer {
	t.Helper()
	w, err := s.Attach(t.Context(), id, who(name))
	if err != nil {
		t.Fatalf("Attach = %v", err)
	}
	return w
}

func view(t *testing.T, s *store.Store, id tidemark.SessionID) *store.View {
	t.Helper()
	v, err := s.View(t.Context(), id)
	if err != nil {
		t.Fatalf("View = %v", err)
	}
	return v
}

func texts(t *testing.T, entries iter.Seq2[tidemark.Entry, error]) (texts []string) {
	t.Helper()
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, e.Text())
	}
	return texts
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func healthy(t *testing.T, s *store.Store) {
	t.Helper()
	for err := range s.VerifyAll(t.Context(), nil) {
		t.Errorf("verify: %v", err)
	}
}

func wants(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestSessionIsCreatedByItsFirstEntry(t *testing.T) {
	s := open(t)
	w := s.Create(tidemark.Session{Title: "demo", Model: "m"}, who("test"))
	if _, err := s.Session(t.Context(), w.ID()); !errors.Is(err, tidemark.ErrNotFound) {
		t.Fatalf("before the first entry: %v, want ErrNotFound", err)
	}
	same(t, add(t, w, user("hello"), assistant("hi")), []int64{1, 2})
	i, err := s.Session(t.Context(), w.ID())
	if err != nil {
		t.Fatal(err)
	}
	if i.Title != "demo" || i.Model != "m" || i.Mode != tidemark.ModeLocal || i.Messages != 2 || i.Entries != 2 || i.State != store.Live {
		t.Errorf("session is %+v", i)
	}
	same(t, texts(t, view(t, s, w.ID()).Path(t.Context(), 0)), []string{"hello", "hi"})
	healthy(t, s)
}

func TestWriterThatNeverWroteLeavesNothing(t *testing.T) {
	s := open(t)
	w := s.Create(tidemark.Session{}, who("test"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range s.Sessions(t.Context(), store.Filter{}) {
		t.Error("a session is there")
	}
}

func TestSecondWriterIsRefusedWithTheHoldersName(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("one"))
	_, err := s.Attach(t.Context(), w.ID(), who("second"))
	wants(t, err, tidemark.ErrHeld)
	var held *store.HeldError
	if !errors.As(err, &held) || held.Lease.Holder != who("test") || !strings.Contains(err.Error(), "test (pid 1 on here)") {
		t.Errorf("error %v does not name the holder", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := attach(t, s, w.ID(), "second")
	add(t, again, user("two"))
	if _, err := w.Append(t.Context(), user("late")); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("a closed writer's Append = %v, want ErrConflict", err)
	}
	same(t, texts(t, view(t, s, w.ID()).Path(t.Context(), 0)), []string{"one", "two"})
}

func TestDeadHolderIsReplacedAtOnce(t *testing.T) {
	s := open(t)
	w := s.Create(tidemark.Session{}, who("dead"))
	add(t, w, user("one"))
	fresh := attach(t, s, w.ID(), "new")
	add(t, fresh, user("two"))
	_, err := w.Append(t.Context(), user("from the grave"))
	wants(t, err, tidemark.ErrConflict)
	if err == nil || !strings.Contains(err.Error(), "lost to new") {
		t.Errorf("error %v does not say who has the lease", err)
	}
	same(t, texts(t, view(t, s, w.ID()).Path(t.Context(), 0)), []string{"one", "two"})
}

func TestSilentWriterLosesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		old := begin(t, s, user("one"))
		time.Sleep(29 * time.Second) // the bubble's clock: no time passes
		if _, err := s.Attach(t.Context(), old.ID(), who("new")); !errors.Is(err, tidemark.ErrHeld) {
			t.Fatalf("Attach within the lease = %v, want ErrHeld", err)
		}
		time.Sleep(2 * time.Second)
		attach(t, s, old.ID(), "new")
		if _, err := old.Append(t.Context(), user("late")); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("old writer's Append = %v, want ErrConflict", err)
		}
		same(t, texts(t, view(t, s, old.ID()).Path(t.Context(), 0)), []string{"one"})
	})
}

func TestWriterThatIsHeardKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		busy, idle := begin(t, s, user("one")), begin(t, s, user("one"))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- idle.KeepAlive(ctx, nil) }()
		for range 20 {
			time.Sleep(11 * time.Second)
			add(t, busy, user("still here"))
			for _, w := range []*store.Writer{busy, idle} {
				_, err := s.Attach(t.Context(), w.ID(), who("new"))
				wants(t, err, tidemark.ErrHeld)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("KeepAlive = %v", err)
		}
	})
}

func TestHolderHearsWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		w := begin(t, s, user("one"))
		asked := make(chan store.HandoverRequest, 1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.KeepAlive(ctx, func(a store.HandoverRequest) { asked <- a })
		synctest.Wait()
		if err := s.RequestHandover(t.Context(), w.ID(), who("other")); err != nil {
			t.Fatal(err)
		}
		if a := <-asked; a.From != who("other") {
			t.Errorf("asked by %v", a.From)
		}
	})
}

func TestHolderHearsWhoAskedBeforeItListened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		ask := func(id tidemark.SessionID, from string) {
			t.Helper()
			if err := s.RequestHandover(t.Context(), id, who(from)); err != nil {
				t.Fatal(err)
			}
		}
		first := begin(t, s, user("one"))
		ask(first.ID(), "earlier")
		listen := func(w *store.Writer) (chan store.HandoverRequest, func()) {
			asked := make(chan store.HandoverRequest, 9)
			ctx, stop := context.WithCancel(t.Context())
			go w.KeepAlive(ctx, func(a store.HandoverRequest) { asked <- a })
			synctest.Wait()
			return asked, stop
		}
		asked, stop := listen(first)
		if a := <-asked; a.From != who("earlier") {
			t.Errorf("asked by %v", a.From)
		}
		time.Sleep(5 * time.Second) // it is told once
		if len(asked) > 0 {
			t.Errorf("asked again: %v", <-asked)
		}
		stop()
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		// What the one before was asked for is none of the next one's business.
		asked, stop = listen(attach(t, s, first.ID(), "next"))
		defer stop()
		time.Sleep(5 * time.Second)
		if len(asked) > 0 {
			t.Errorf("the next holder was asked: %v", <-asked)
		}
		ask(first.ID(), "later")
		if a := <-asked; a.From != who("later") {
			t.Errorf("asked by %v", a.From)
		}
	})
}

func TestLeaseOfALivingHolderIsReleasedOnlyByForce(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("one"))
	wants(t, s.Release(t.Context(), w.ID(), false), tidemark.ErrHeld)
	if err := s.Release(t.Context(), w.ID(), true); err != nil {
		t.Fatal(err)
	}
	_, err := w.Append(t.Context(), user("late"))
	wants(t, err, tidemark.ErrConflict)
	attach(t, s, w.ID(), "new")
}

func TestKeyIsAppendedOnce(t *testing.T) {
	s := open(t)
	keyed := func(key, text string) tidemark.Entry {
		e := user(text)
		e.Key = key
		return e
	}
	w := begin(t, s, keyed("a", "one"))
	same(t, add(t, w, keyed("a", "one again")), []int64{1})
	same(t, add(t, w, keyed("b", "two"), keyed("a", "one again"), user("three")), []int64{2, 1, 3})
	same(t, add(t, w, keyed("a", ""), keyed("b", "")), []int64{1, 2})
	same(t, texts(t, view(t, s, w.ID()).Path(t.Context(), 0)), []string{"one", "two", "three"})
	healthy(t, s)
}

func TestBadEntriesAreRefusedAndNothingIsKept(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("one"))
	for _, bad := range []tidemark.Entry{
		{Role: "king"},
		{Kind: "Bad Kind"},
		{Kind: "user"},
		{Kind: "note", Role: tidemark.User},
		after(99, user("no such parent")),
		after(3, user("its own parent")),
		after(-7, user("x")),
		{Role: tidemark.User, Key: strings.Repeat("k", 200)},
		{Role: tidemark.User, Blocks: []tidemark.Block{{}}},
		{Role: tidemark.User, Extra: json.RawMessage(`{"a":`)},
		{Role: tidemark.User, Blocks: []tidemark.Block{tidemark.Text(strings.Repeat("x", tidemark.MaxBodyBytes))}},
	} {
		_, err := w.Append(t.Context(), user("good"), bad)
		wants(t, err, tidemark.ErrInvalid)
	}
	same(t, texts(t, view(t, s, w.ID()).Path(t.Context(), 0)), []string{"one"})
	add(t, w, user("two"))
	healthy(t, s)
}

// picture draws a tree as the command line does.
func picture(t *testing.T, v *store.View) string {
	t.Helper()
	nodes, err := v.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "n%d<n%d:%d", n.Number, n.Parent, n.Messages)
		if n.Label != "" {
			fmt.Fprintf(&b, "[%s]", n.Label)
		}
		if n.Current {
			b.WriteString("*")
		}
		b.WriteString(" ")
	}
	return strings.TrimSpace(b.String())
}

func TestNodesEndBeforeTheNextUserMessage(t *testing.T) {
	s := open(t)
	w := begin(t, s, system("be brief"), user("1"), assistant("one"))
	add(t, w, user("2"), assistant("two"))
	add(t, w, user("3"), assistant("calls"), tidemark.Say(tidemark.Tool, "result"))
	if err := w.Branch(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	v := view(t, s, w.ID())
	same(t, picture(t, v), "n0<n-1:3* n1<n0:5 n2<n1:8")
	if v.Messages != 3 {
		t.Errorf("%d messages on the branch, want 3", v.Messages)
	}
	add(t, w, user("2b"), assistant("two b"), assistant("more"))
	if err := s.Label(t.Context(), w.ID(), 8, "refactor approach"); err != nil {
		t.Fatal(err)
	}
	same(t, picture(t, v), "n0<n-1:3 n1<n0:5 n2<n1:8[refactor approach] n3<n0:6*")
	same(t, texts(t, v.Path(t.Context(), 0)), []string{"be brief", "1", "one", "2b", "two b", "more"})
	same(t, texts(t, v.Path(t.Context(), 8)), []string{"be brief", "1", "one", "2", "two", "3", "calls", "result"})
	same(t, texts(t, v.Tail(t.Context(), 0, 4)), []string{"one", "2b", "two b", "more"})
	same(t, texts(t, v.Before(t.Context(), 10, 2)), []string{"1", "one"})
	for node, want := range map[int64]int64{0: 3, 1: 5, 2: 8, 3: 12} {
		if got, err := v.NodeEnd(t.Context(), node); err != nil || got != want {
			t.Errorf("n%d ends at %d, %v; want %d", node, got, err, want)
		}
	}
	_, err := v.NodeEnd(t.Context(), 4)
	wants(t, err, tidemark.ErrNotFound)
	if up, err := v.Up(t.Context(), 12, 1); err != nil || up != 3 {
		t.Errorf("~1 is %d, %v; want 3", up, err)
	}
	_, err = v.Up(t.Context(), 12, 2)
	wants(t, err, tidemark.ErrNotFound)
	healthy(t, s)
}

func TestParentsMayBeNamed(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"), assistant("a"), after(1, assistant("a again")), after(2, user("2")), after(3, user("2 again")))
	v := view(t, s, w.ID())
	same(t, picture(t, v), "n0<n-1:2 n1<n0:2 n2<n0:3 n3<n1:3*")
	same(t, texts(t, v.Path(t.Context(), 0)), []string{"1", "a again", "2 again"})
	same(t, texts(t, v.Path(t.Context(), 4)), []string{"1", "a", "2"})
	add(t, w, after(store.Root, user("another beginning")))
	same(t, texts(t, v.Path(t.Context(), 0)), []string{"another beginning"})
	healthy(t, s)
}

func TestForkSharesThePastByReference(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"), assistant("a"), user("2"), assistant("b"))
	one, err := s.Fork(t.Context(), w.ID(), 2, "")
	if err != nil {
		t.Fatal(err)
	}
	if one.Messages != 2 || one.Title != "demo (fork)" || one.Base.Session != w.ID() {
		t.Errorf("the fork is %+v", one)
	}
	f := attach(t, s, one.ID, "fork")
	add(t, f, user("2 f"), assistant("b f"))
	two, err := s.Fork(t.Context(), one.ID, 0, "second")
	if err != nil {
		t.Fatal(err)
	}
	g := attach(t, s, two.ID, "fork")
	add(t, g, user("3 g"))
	three, err := s.Fork(t.Context(), two.ID, 1, "third")
	if err != nil {
		t.Fatal(err)
	}
	if three.Base.Session != one.Base.Session && three.Base.Session != one.ID {
		t.Errorf("third leans on %s", three.Base.Session)
	}
	check := func() {
		t.Helper()
		same(t, texts(t, view(t, s, one.ID).Path(t.Context(), 0)), []string{"1", "a", "2 f", "b f"})
		same(t, texts(t, view(t, s, two.ID).Path(t.Context(), 0)), []string{"1", "a", "2 f", "b f", "3 g"})
		same(t, texts(t, view(t, s, two.ID).Tail(t.Context(), 0, 4)), []string{"a", "2 f", "b f", "3 g"})
		same(t, texts(t, view(t, s, three.ID).Path(t.Context(), 0)), []string{"1"})
		same(t, picture(t, view(t, s, two.ID)), "n0<n-1:2 n1<n0:4 n2<n1:5*")
		for n, want := range map[int64]int64{0: 2, 1: 5, 2: 7} {
			if got, err := view(t, s, two.ID).NodeEnd(t.Context(), n); err != nil || got != want {
				t.Errorf("n%d of the second fork ends at %d, %v; want %d", n, got, err, want)
			}
		}
		healthy(t, s)
	}
	check()
	same(t, texts(t, view(t, s, w.ID()).Path(t.Context(), 0)), []string{"1", "a", "2", "b"})

	// The fork may go on from its shared past, but not from what it does not share.
	_, err = f.Append(t.Context(), after(1, user("from the first")))
	if err != nil {
		t.Errorf("branch from the shared past: %v", err)
	}
	if err := f.Branch(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Trash(t.Context(), w.ID()); err != nil {
		t.Fatal(err)
	}
	check()
	if err := s.Purge(t.Context(), w.ID(), who("purge")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Session(t.Context(), w.ID())
	wants(t, err, tidemark.ErrNotFound)
	check()
	add(t, g, user("4 g")) // its writer was open all along
	add(t, g, after(1, user("from the first")))
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), one.ID, who("purge")); err != nil {
		t.Fatal(err)
	}
	same(t, texts(t, view(t, s, two.ID).Path(t.Context(), 8)), []string{"1", "a", "2 f", "b f", "3 g", "4 g"})
	healthy(t, s)
}

func TestPurgeGivesForksOnlyWhatTheyShare(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"), assistant("a"), user("secret of another branch"), after(2, user("2")), assistant("b"))
	f, err := s.Fork(t.Context(), w.ID(), 5, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(t.Context(), string(f.ID)+"@3", ""); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("an entry beside the shared path resolves: %v", err)
	}
	w.Close(t.Context())
	if err := s.Purge(t.Context(), w.ID(), who("purge")); err != nil {
		t.Fatal(err)
	}
	same(t, texts(t, view(t, s, f.ID).Path(t.Context(), 0)), []string{"1", "a", "2", "b"})
	for kind := range map[string]bool{"session": true, "past": true, "notes": true} {
		for r, err := range s.Records().Backend().Lines(t.Context(), tidemark.Key{Kind: kind, ID: string(f.ID)}) {
			if err != nil || strings.Contains(string(r.Body), "secret") {
				t.Errorf("%s line %d: %v %s", kind, r.Seq, err, r.Body)
			}
		}
	}
	left := 0
	for _, kind := range []string{"lease", "pulse", "name", "fork", "worker", "checkpoint"} {
		for r := range s.Records().Backend().List(t.Context(), tidemark.Query{Kind: kind, Prefix: string(w.ID())}) {
			t.Logf("left: %s", r.Key)
			left++
		}
	}
	if left > 0 {
		t.Errorf("%d records of the purged session are left", left)
	}
}

func TestLabelsTitlesAndTagsNeedNoLease(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"), assistant("a"), user("2"))
	ctx := t.Context()
	for _, err := range []error{
		s.Label(ctx, w.ID(), 2, "first answer"),
		s.Label(ctx, w.ID(), 2, "better name"),
		s.Label(ctx, w.ID(), 3, "second"),
		s.Rename(ctx, w.ID(), "Another Title"),
		s.Tag(ctx, w.ID(), []string{"red", "blue", "red"}, nil),
		s.Tag(ctx, w.ID(), nil, []string{"blue", "never"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	add(t, w, assistant("b"))
	v := view(t, s, w.ID())
	labels, err := v.Labels(ctx)
	if err != nil {
		t.Fatal(err)
	}
	same(t, labels, map[int64]string{2: "better name", 3: "second"})
	same(t, v.Tags, []string{"red"})
	same(t, v.Title, "Another Title")
	for ref, want := range map[string]int64{"another title@better name": 2, "another title@first answer": 2, "Another Title@Second": 3} {
		p, err := s.Resolve(ctx, ref, "")
		if err != nil || p.Seq != want {
			t.Errorf("%q is entry %d, %v; want %d", ref, p.Seq, err, want)
		}
	}
	for _, gone := range []string{"demo", string(w.ID()) + "@no such label"} {
		_, err := s.Resolve(ctx, gone, "")
		wants(t, err, tidemark.ErrNotFound)
	}
	wants(t, s.Label(ctx, w.ID(), 99, "x"), tidemark.ErrNotFound)
	wants(t, s.Label(ctx, w.ID(), 1, "  "), tidemark.ErrInvalid)
	wants(t, s.Rename(ctx, w.ID(), strings.Repeat("x", 2000)), tidemark.ErrInvalid)
	notes := 0
	for n, err := range v.Notes(ctx) {
		if err != nil || n.Kind == "" {
			t.Errorf("note %+v, %v", n, err)
		}
		notes++
	}
	if notes != 9 {
		t.Errorf("%d notes are kept, want all 9", notes)
	}
	for _, label := range []string{"red", "second"} {
		n := 0
		for i := range s.Sessions(ctx, store.Filter{Tag: label}) {
			if i.ID == w.ID() {
				n++
			}
		}
		if n != 1 {
			t.Errorf("--label %s finds it %d times", label, n)
		}
	}
	healthy(t, s)
}

func TestReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		ctx := t.Context()
		make := func(id, title, project string) {
			w := s.Create(tidemark.Session{ID: tidemark.SessionID(id), Title: title, Project: project, ForeignID: "foreign-" + id[:4]}, who("test"))
			add(t, w, user("1"), assistant("a"), user("2"))
			time.Sleep(time.Second)
		}
		make("aaaa1111-0000-4000-8000-000000000001", "first", "/p")
		make("aaaa2222-0000-4000-8000-000000000002", "second", "/p")
		make("bbbb1111-0000-4000-8000-000000000003", "same name", "/q")
		make("cccc1111-0000-4000-8000-000000000004", "same name", "/q")
		make("dddd1111-0000-4000-8000-000000000005", "me@home", "/q")
		make("eeee1111-0000-4000-8000-000000000006", "aaaa1", "/q")
		for _, c := range []struct {
			ref, project string
			want         string
			seq          int64
		}{
			{"aaaa1111-0000-4000-8000-000000000001", "", "aaaa1111", 0},
			{"AAAA2222", "", "aaaa2222", 0},
			{"aaaa2", "", "aaaa2222", 0},
			{"First", "", "aaaa1111", 0},
			{"foreign-bbbb", "", "bbbb1111", 0},
			{"last", "", "eeee1111", 0},
			{"last", "/p", "aaaa2222", 0},
			{"@-2", "/p", "aaaa1111", 0},
			{"last", "/nowhere", "eeee1111", 0},
			{"me@home", "", "dddd1111", 0},
			{"me@home@n0", "", "dddd1111", 2},
			{"first@n0", "", "aaaa1111", 2},
			{"first@n1", "", "aaaa1111", 3},
			{"first@1", "", "aaaa1111", 1},
			{"first~1", "", "aaaa1111", 2},
			{"first@n1~1", "", "aaaa1111", 2},
			{"@-1@n0", "/p", "aaaa2222", 2},
		} {
			p, err := s.Resolve(ctx, c.ref, c.project)
			if err != nil || string(p.ID[:8]) != c.want || p.Seq != c.seq {
				t.Errorf("%q in %q: %v, want %s@%d", c.ref, c.project, err, c.want, c.seq)
			}
		}
		for ref, want := range map[string]error{
			"":           tidemark.ErrInvalid,
			"aaa":        tidemark.ErrNotFound,
			"aaaa":       tidemark.ErrInvalid,
			"aaaa1":      tidemark.ErrInvalid, // a prefix and a title
			"same name":  tidemark.ErrInvalid,
			"nothing":    tidemark.ErrNotFound,
			"first@n9":   tidemark.ErrNotFound,
			"first@99":   tidemark.ErrNotFound,
			"first@0":    tidemark.ErrNotFound,
			"first~9":    tidemark.ErrNotFound,
			"first@what": tidemark.ErrNotFound,
			"@-9":        tidemark.ErrNotFound,
			"../../etc":  tidemark.ErrNotFound,
			"a\x00b":     tidemark.ErrNotFound,
		} {
			_, err := s.Resolve(ctx, ref, "/p")
			if !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", ref, err, want)
			}
		}
		_, err := s.Resolve(ctx, "same name", "")
		var several *store.AmbiguousError
		if !errors.As(err, &several) || len(several.Candidates) != 2 || several.Candidates[0].ID[:4] != "cccc" {
			t.Errorf("error %v does not list the candidates, newest first", err)
		}
		if err := s.Trash(ctx, "cccc1111-0000-4000-8000-000000000004"); !errors.Is(err, tidemark.ErrHeld) {
			t.Errorf("Trash of a held session = %v, want ErrHeld", err)
		}
		time.Sleep(time.Minute)
		if err := s.Trash(ctx, "cccc1111-0000-4000-8000-000000000004"); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Resolve(ctx, "same name", ""); err != nil || p.ID[:4] != "bbbb" {
			t.Errorf("the living one does not come first: %v", err)
		}
		if p, err := s.Resolve(ctx, "cccc", ""); err != nil || p.State != store.Trash {
			t.Errorf("the trash cannot be referred to: %v", err)
		}
	})
}

func TestTrashAndRestore(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"))
	w.Close(t.Context())
	count := func(state string) (n int) {
		for _, err := range s.Sessions(t.Context(), store.Filter{State: state}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	if err := s.Trash(t.Context(), w.ID()); err != nil {
		t.Fatal(err)
	}
	if count(store.Live) != 0 || count(store.Trash) != 1 {
		t.Error("it is not in the trash alone")
	}
	_, err := s.Attach(t.Context(), w.ID(), who("new"))
	wants(t, err, tidemark.ErrNotFound)
	same(t, texts(t, view(t, s, w.ID()).Path(t.Context(), 0)), []string{"1"})
	if err := s.Restore(t.Context(), w.ID()); err != nil {
		t.Fatal(err)
	}
	if count(store.Live) != 1 || count(store.Trash) != 0 {
		t.Error("it is not back")
	}
	wants(t, s.Trash(t.Context(), tidemark.NewSessionID()), tidemark.ErrNotFound)
}

func TestWorkersHaveLogsOfTheirOwn(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"))
	for _, worker := range []string{"scout", "Scribe.2", "scout"} {
		if _, err := w.AppendTo(t.Context(), worker, assistant("by "+worker)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.AppendTo(t.Context(), "../up", user("x"))
	wants(t, err, tidemark.ErrInvalid)
	v := view(t, s, w.ID())
	names, err := v.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	same(t, names, []string{"Scribe.2", "scout"})
	scout, err := v.Worker(t.Context(), "scout")
	if err != nil {
		t.Fatal(err)
	}
	same(t, texts(t, scout.Tail(t.Context(), 0, 10)), []string{"by scout", "by scout"})
	same(t, texts(t, v.Path(t.Context(), 0)), []string{"1"})
	_, err = v.Worker(t.Context(), "nobody")
	wants(t, err, tidemark.ErrNotFound)
	healthy(t, s)
	w.Close(t.Context())
	if err := s.Purge(t.Context(), w.ID(), who("purge")); err != nil {
		t.Fatal(err)
	}
	for l := range s.Records().Backend().Lines(t.Context(), tidemark.Key{Kind: "worker", ID: string(w.ID()) + ".scout"}) {
		t.Errorf("a worker's line outlived the purge: %s", l.Body)
	}
}

func TestCheckpointReplacesAndNeverMerges(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"))
	full := store.Checkpoint{
		Approvals:     []store.Approval{{Tool: "bash", Scope: "git *"}},
		Limits:        store.Limits{ToolRounds: 5, OutputBytes: 2000, ToolsInContext: 20},
		Loops:         []store.Loop{{ID: "l1", Goal: "tidy", EverySeconds: 300}},
		DynamicTools:  []store.DynamicTool{{Name: "t", Schema: json.RawMessage(`{"type":"object"}`), Command: "true"}},
		WakeTriggers:  []store.WakeTrigger{{Kind: "timer", At: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}},
		CoreMemory:    map[string]string{"human": "likes tea", "own": "key"},
		DocumentPaths: []string{"a.md"},
		Interpreter: store.Interpreter{SandboxID: "s", WorkspacePath: "/w", RepoURL: "u", RepoRef: "r",
			ContextPaths: []string{"c"}, VolumeName: "v", VolumeSubpath: "p"},
	}
	ctx := t.Context()
	if err := w.SaveCheckpoint(ctx, full); err != nil {
		t.Fatal(err)
	}
	got, err := s.Checkpoint(ctx, w.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	want := full
	want.Seq, want.SavedAt = 1, got.SavedAt
	want.CoreMemory = map[string]string{"human": "likes tea", "own": "key", "persona": "", "scratchpad": ""}
	same(t, got, want)

	if err := w.SaveCheckpoint(ctx, store.Checkpoint{Name: "Decision point"}); err != nil {
		t.Fatal(err)
	}
	if err := w.SaveCheckpoint(ctx, store.Checkpoint{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "decision point"} {
		got, err = s.Checkpoint(ctx, w.ID(), name)
		if err != nil {
			t.Fatal(err)
		}
		want = store.Checkpoint{Name: got.Name, Seq: 1, SavedAt: got.SavedAt,
			CoreMemory: map[string]string{"human": "", "persona": "", "scratchpad": ""}}
		same(t, got, want)
	}
	all, err := s.Checkpoints(ctx, w.ID())
	if err != nil || len(all) != 2 {
		t.Errorf("%d checkpoints, %v; want 2", len(all), err)
	}
	_, err = s.Checkpoint(ctx, w.ID(), "never")
	wants(t, err, tidemark.ErrNotFound)
	s.Release(ctx, w.ID(), true)
	wants(t, w.SaveCheckpoint(ctx, store.Checkpoint{}), tidemark.ErrConflict)
}

func TestFollowSeesWhatOthersWrite(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("1"))
	f, err := s.Fork(t.Context(), w.ID(), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	fw := attach(t, s, f.ID, "fork")
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan string)
	go func() {
		for e, err := range view(t, s, f.ID).Follow(ctx, 0) {
			if err != nil {
				break
			}
			if e.Kind == tidemark.KindMessage {
				got <- e.Text()
			}
		}
		close(got)
	}()
	for i, text := range []string{"1", "2", "3"} {
		if i > 0 {
			add(t, fw, user(text))
		}
		if read := <-got; read != text {
			t.Errorf("followed %q, want %q", read, text)
		}
	}
	stop()
	if text, ok := <-got; ok {
		t.Errorf("followed %q after the end", text)
	}
}

func TestListingByProjectAgentAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		start := time.Now()
		for i := range 4 {
			time.Sleep(time.Hour)
			w := s.Create(tidemark.Session{Title: fmt.Sprint(i), Project: []string{"/p", "/q"}[i%2], Agent: []string{"x", "y"}[i/2]}, who("test"))
			add(t, w, user("1"))
		}
		for want, f := range map[string]store.Filter{
			"3 2 1 0": {},
			"2 0":     {Project: "/p"},
			"1 0":     {Agent: "x"},
			"1":       {Agent: "x", Limit: 1},
			"3 2":     {Since: start.Add(150 * time.Minute)},
			"3":       {Limit: 1},
		} {
			var got []string
			for i, err := range s.Sessions(t.Context(), f) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, i.Title)
			}
			same(t, strings.Join(got, " "), want)
		}
	})
}
