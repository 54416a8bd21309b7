package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// fromTool begins a session of another tool, as an import does.
func fromTool(t *testing.T, s *store.Store, entries ...tidemark.Entry) *store.Writer {
	t.Helper()
	w := s.Create(tidemark.Session{Title: "demo", Tool: "fake", ForeignID: "f1"}, who("import"))
	if len(entries) > 0 {
		add(t, w, entries...)
	}
	return w
}

func keepDraft(t *testing.T, w *store.Writer, worker string, entries ...tidemark.Entry) {
	t.Helper()
	if err := w.KeepDraft(t.Context(), worker, entries...); err != nil {
		t.Fatalf("KeepDraft = %v", err)
	}
}

func withDraft(t *testing.T, s *store.Store, id tidemark.SessionID) *store.View {
	t.Helper()
	v, err := s.View(t.Context(), id)
	if err == nil {
		v, err = v.WithDraft(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// shown is the entries on the path of a View; those of a draft in brackets.
func shown(t *testing.T, v *store.View) (all []string) {
	t.Helper()
	for e, err := range v.Path(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%d %s", e.Seq, e.Text())
		if e.Kind != tidemark.KindMessage {
			text = fmt.Sprintf("%d %s", e.Seq, e.Kind)
		}
		if e.Draft {
			text = "(" + text + ")"
		}
		all = append(all, text)
	}
	return all
}

func TestADraftIsReplacedUntilItIsFinal(t *testing.T) {
	s := open(t)
	w := fromTool(t, s, user("hello"))
	keepDraft(t, w, "", assistant("hal"))
	keepDraft(t, w, "", assistant("hallo"))
	same(t, shown(t, withDraft(t, s, w.ID())), []string{"1 hello", "(2 hallo)"})
	v, err := s.View(t.Context(), w.ID())
	if err != nil {
		t.Fatal(err)
	}
	same(t, shown(t, v), []string{"1 hello"})
	add(t, w, assistant("hallo!"))
	same(t, shown(t, withDraft(t, s, w.ID())), []string{"1 hello", "2 hallo!"})
	keepDraft(t, w, "", user("more"))
	keepDraft(t, w, "")
	same(t, shown(t, withDraft(t, s, w.ID())), []string{"1 hello", "2 hallo!"})
	healthy(t, s)
}

func TestASessionAndAWorkerMayBeginWithADraft(t *testing.T) {
	s := open(t)
	w := fromTool(t, s)
	keepDraft(t, w, "", user("hello"))
	keepDraft(t, w, "scout", user("look"))
	same(t, shown(t, withDraft(t, s, w.ID())), []string{"(1 hello)"})
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := s.AttachSource(t.Context(), w.ID(), who("import"))
	if err != nil {
		t.Fatal(err)
	}
	add(t, again, user("hello"))
	if _, err := again.AppendTo(t.Context(), "scout", user("look"), assistant("there")); err != nil {
		t.Fatal(err)
	}
	keepDraft(t, again, "")
	keepDraft(t, again, "scout")
	scout, err := withDraft(t, s, w.ID()).Worker(t.Context(), "scout")
	if err != nil {
		t.Fatal(err)
	}
	same(t, shown(t, scout), []string{"1 look", "2 there"})
	healthy(t, s)
}

func TestWhoGoesOnWithASessionGoesOnWithItsDraft(t *testing.T) {
	for name, goOn := range map[string]func(*testing.T, *store.Store, tidemark.SessionID){
		"attach": func(t *testing.T, s *store.Store, id tidemark.SessionID) {
			w := attach(t, s, id, "chat")
			if w.Head() != 5 {
				t.Errorf("the head is %d, want 5", w.Head())
			}
			same(t, add(t, w, user("go on")), []int64{6})
		},
		"the writer of a server": func(t *testing.T, s *store.Store, id tidemark.SessionID) {
			token, _, err := s.IssueToken(t.Context(), id, who("client"))
			if err != nil {
				t.Fatal(err)
			}
			w, err := s.AttachWithToken(t.Context(), id, token)
			if err != nil {
				t.Fatal(err)
			}
			same(t, add(t, w, user("go on")), []int64{6})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			w := fromTool(t, s, user("one"), assistant("two"))
			keepDraft(t, w, "", after(store.Root, user("another")), assistant("half"))
			keepDraft(t, w, "scout", user("look"))
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			goOn(t, s, w.ID())
			want := []string{"3 another", "4 half", "5 interrupted", "6 go on"}
			same(t, shown(t, withDraft(t, s, w.ID())), want)
			v, err := s.View(t.Context(), w.ID())
			if err != nil {
				t.Fatal(err)
			}
			same(t, shown(t, v), want)
			healthy(t, s)
		})
	}
}

func TestADraftWhoseSourceIsGoneIsAppended(t *testing.T) {
	s := open(t)
	w := fromTool(t, s, user("one"), assistant("two"))
	keepDraft(t, w, "", user("three"), after(1, tidemark.Entry{Kind: tidemark.KindBranch}))
	keepDraft(t, w, "scout", user("look"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Settle(t.Context(), w.ID(), who("import")); err != nil {
			t.Fatal(err)
		}
		v, err := s.View(t.Context(), w.ID())
		if err != nil {
			t.Fatal(err)
		}
		same(t, shown(t, v), []string{"1 one"})
		var kinds []string
		for e, err := range v.Log(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, e.Kind)
		}
		same(t, kinds, []string{"message", "message", "message", "interrupted", "branch"})
		scout, err := v.Worker(t.Context(), "scout")
		if err != nil {
			t.Fatal(err)
		}
		same(t, shown(t, scout), []string{"1 look", "2 interrupted"})
	}
	healthy(t, s)
}

func TestAForkIsMadeOfWhatIsFinalWhereTheToolIs(t *testing.T) {
	s := open(t)
	w := fromTool(t, s, user("one"), assistant("two"), user("three"))
	for _, c := range []struct {
		draft []tidemark.Entry
		want  []string
	}{
		{[]tidemark.Entry{assistant("half")}, []string{"1 one", "2 two", "3 three"}},
		{[]tidemark.Entry{after(2, user("other")), assistant("half")}, []string{"1 one", "2 two"}},
		{[]tidemark.Entry{after(1, tidemark.Entry{Kind: tidemark.KindBranch})}, []string{"1 one"}},
		{nil, []string{"1 one", "2 two", "3 three"}},
	} {
		keepDraft(t, w, "", c.draft...)
		i, err := s.Fork(t.Context(), w.ID(), 0, "")
		if err != nil {
			t.Fatal(err)
		}
		same(t, shown(t, withDraft(t, s, i.ID)), c.want)
	}
	healthy(t, s)
}

func TestAPurgeRemovesDrafts(t *testing.T) {
	b := memory.New()
	s := store.New(b, nil)
	w := fromTool(t, s, user("one"))
	keepDraft(t, w, "", assistant("two"))
	keepDraft(t, w, "scout", user("look"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), w.ID(), who("test")); err != nil {
		t.Fatal(err)
	}
	for key, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if err != nil || strings.HasPrefix(key.ID, string(w.ID())) {
			t.Errorf("%s is left, %v", key, err)
		}
	}
}

func TestSecretsInADraftAreMasked(t *testing.T) {
	find := func(e tidemark.Entry) (found []store.Secret) {
		e.EachText(func(i int, text string, _ bool) string {
			if at := strings.Index(text, "hunter2"); at >= 0 {
				found = append(found, store.Secret{Text: i, From: at, To: at + len("hunter2"), Rule: "password"})
			}
			return text
		})
		return found
	}
	for _, mode := range []store.Redaction{store.RedactMask, store.RedactOff} {
		s := store.New(memory.New(), &store.Options{Secrets: find, Redact: mode})
		w := fromTool(t, s, user("one"))
		keepDraft(t, w, "", assistant("it is hunter2."))
		v := withDraft(t, s, w.ID())
		if mode == store.RedactOff {
			if err := v.MaskDraft(t.Context()); err != nil {
				t.Fatal(err)
			}
			v = withDraft(t, s, w.ID())
		}
		if all := strings.Join(shown(t, v), " "); strings.Contains(all, "hunter2") || !strings.Contains(all, "it is") {
			t.Errorf("%s: %s", mode, all)
		}
	}
}

// A View with a draft is one of a session in which the draft was appended, except
// that it says which entries are drafts.
func TestADraftIsReadAsIfItWereAppended(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := open(t)
		kept := s.Create(tidemark.Session{Tool: "fake", ForeignID: "a"}, who("import"))
		drafted := s.Create(tidemark.Session{Tool: "fake", ForeignID: "b"}, who("import"))
		n, drafts := rapid.IntRange(0, 6).Draw(r, "final"), rapid.IntRange(1, 5).Draw(r, "drafts")
		var all []tidemark.Entry
		for i := range n + drafts {
			e := tidemark.Entry{Kind: tidemark.KindMessage, At: time.Unix(int64(i), 0).UTC(), Blocks: []tidemark.Block{tidemark.Text(fmt.Sprint(i))},
				Role: rapid.SampledFrom([]tidemark.Role{tidemark.User, tidemark.Assistant}).Draw(r, "role")}
			if i > 0 {
				if e.Parent = int64(rapid.IntRange(0, i).Draw(r, "parent")); rapid.IntRange(0, 5).Draw(r, "root") == 0 {
					e.Parent = store.Root
				} else if rapid.IntRange(0, 4).Draw(r, "marker") == 0 {
					e = tidemark.Entry{Kind: tidemark.KindBranch, At: e.At, Position: tidemark.Position{Parent: e.Parent}}
				}
			}
			all = append(all, e)
		}
		ctx := context.Background()
		must := func(err error) {
			if err != nil {
				r.Fatal(err)
			}
		}
		_, err := kept.Append(ctx, all...)
		must(err)
		if n > 0 {
			_, err = drafted.Append(ctx, all[:n]...)
			must(err)
		}
		must(drafted.KeepDraft(ctx, "", all[n:]...))
		a, err := s.View(ctx, kept.ID())
		must(err)
		b, err := s.View(ctx, drafted.ID())
		must(err)
		b, err = b.WithDraft(ctx)
		must(err)
		if diff := cmp.Diff(readings(r, a, 0), readings(r, b, int64(n))); diff != "" {
			r.Fatalf("appended - as a draft +\n%s", diff)
		}
	})
}

// readings are the ways to read a View. Entries after final have to be drafts.
func readings(r *rapid.T, v *store.View, final int64) (all []string) {
	ctx := context.Background()
	say := func(how string, e tidemark.Entry, err error) {
		if final > 0 && err == nil && e.Draft != (e.Seq > final) {
			r.Errorf("%s: entry %d: draft is %v", how, e.Seq, e.Draft)
		}
		all = append(all, fmt.Sprintf("%s: %d %+v %s %s, %v", how, e.Seq, e.Position, e.Kind, e.Text(), err))
	}
	for e, err := range v.Path(ctx, 0) {
		say("path", e, err)
	}
	for e, err := range v.Log(ctx) {
		say("log", e, err)
	}
	for seq := range v.Entries {
		for e, err := range v.Tail(ctx, seq+1, 3) {
			say(fmt.Sprint("tail ", seq+1), e, err)
		}
		for e, err := range v.Before(ctx, seq+1, 3) {
			say(fmt.Sprint("before ", seq+1), e, err)
		}
	}
	for e, err := range v.LogRange(ctx, 2, 4) {
		say("range", e, err)
	}
	tree, err := v.Tree(ctx)
	all = append(all, fmt.Sprintf("tree %+v, %v", tree, err), fmt.Sprint(v.Entries, v.Messages, v.Nodes))
	head, err := v.Head(ctx)
	return append(all, fmt.Sprint("head ", head, err))
}

func TestWhoFollowsSeesDraftsAsTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		w := fromTool(t, s, user("hello"))
		keepDraft(t, w, "", assistant("hal"))
		v := withDraft(t, s, w.ID())
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range v.Follow(ctx, v.Entries) {
				if err == nil {
					seen = append(seen, fmt.Sprintf("%d %s %v", e.Seq, e.Text(), e.Draft))
				}
			}
		}()
		time.Sleep(3 * time.Second)
		keepDraft(t, w, "", assistant("hallo"), user("and"))
		time.Sleep(3 * time.Second)
		add(t, w, assistant("hallo!"))
		keepDraft(t, w, "", user("and"))
		time.Sleep(3 * time.Second)
		cancel()
		<-done
		same(t, seen, []string{"2 hallo true", "3 and true", "2 hallo! false"})
	})
}

func TestACostThatBecomesKnownLaterIsShown(t *testing.T) {
	s := open(t)
	answer := assistant("two")
	answer.Usage = &tidemark.Usage{OutputTokens: 7}
	w := fromTool(t, s, user("one"), answer, assistant("three"))
	if _, err := w.AppendTo(t.Context(), "scout", user("look"), answer); err != nil {
		t.Fatal(err)
	}
	for worker, costs := range map[string]map[int64]float64{"": {2: 0.5, 3: 0.25}, "scout": {2: 2}} {
		if err := s.Charge(t.Context(), w.ID(), worker, costs); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Charge(t.Context(), w.ID(), "", map[int64]float64{3: 1}); err != nil {
		t.Fatal(err)
	}
	v, err := s.View(t.Context(), w.ID())
	if err != nil {
		t.Fatal(err)
	}
	scout, err := v.Worker(t.Context(), "scout")
	if err != nil {
		t.Fatal(err)
	}
	costs := func(v *store.View) (all []string) {
		for e, err := range v.Log(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Usage != nil {
				all = append(all, fmt.Sprintf("%d %d %g", e.Seq, e.Usage.OutputTokens, e.Usage.CostUSD))
			}
		}
		return all
	}
	same(t, costs(v), []string{"2 7 0.5", "3 0 1"})
	same(t, costs(v.Unmasked()), []string{"2 7 0.5", "3 0 1"})
	same(t, costs(scout), []string{"2 7 2"})
	healthy(t, s)
}

func TestATitleIsTheSourcesUntilSomebodyGivesOne(t *testing.T) {
	s := open(t)
	w := fromTool(t, s, user("one"))
	renamed := func() bool {
		v, err := s.View(t.Context(), w.ID())
		if err != nil {
			t.Fatal(err)
		}
		is, err := v.Renamed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if renamed() {
		t.Error("a new session was renamed")
	}
	if err := s.Rename(t.Context(), w.ID(), "mine"); err != nil || !renamed() {
		t.Errorf("after a person gave a title: %v, %v", renamed(), err)
	}
	if err := s.RenameToSource(t.Context(), w.ID(), "theirs"); err != nil || renamed() {
		t.Errorf("after going back: %v, %v", renamed(), err)
	}
	if i, err := s.Session(t.Context(), w.ID()); err != nil || i.Title != "theirs" {
		t.Errorf("it is called %q, %v", i.Title, err)
	}
	healthy(t, s)
}
