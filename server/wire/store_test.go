package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// backendSpy sees what a server sees: every request, and every batch as it is
// understood.
type backendSpy struct {
	*memory.Backend
	mu   sync.Mutex
	seen bytes.Buffer
}

func (s *backendSpy) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.seen, format+"\n", args...)
}

func (s *backendSpy) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	for _, r := range b.Puts {
		s.note("%s %s %s %s", r.Key, r.Group, r.State, r.Body)
	}
	for _, a := range b.Appends {
		for _, l := range a.Lines {
			s.note("%s %s %s %s", a.Log, l.Kind, l.Key, l.Body)
		}
	}
	return s.Backend.Commit(ctx, b)
}

func (s *backendSpy) served(t *testing.T) *httptest.Server {
	routes := Handler(func(*http.Request) (tidemark.Backend, error) { return s, nil })
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.note("%s %s %v %s", r.Method, r.URL, r.Header, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		routes.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// backendTalk appends, branches, reads and searches, as a person does.
func backendTalk(t *testing.T, be tidemark.Backend) {
	t.Helper()
	ctx := t.Context()
	s := store.New(be, &store.Options{Places: backendPlaces})
	w := s.Create(tidemark.Session{Title: "kanarienvogel plans", Project: "/home/ada/kanarienvogel"}, tidemark.Holder{Program: "test"})
	for _, text := range []string{"the kanarienvogel sings", "it sings gladly", "and sleeps"} {
		if _, err := w.Append(ctx, backendSay(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Branch(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(ctx, backendSay("the other kanarienvogel")); err != nil {
		t.Fatal(err)
	}
	v, err := s.View(ctx, w.ID())
	if err != nil {
		t.Fatal(err)
	}
	head, err := v.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var tail []string
	for e, err := range v.Tail(ctx, head, 10) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == tidemark.KindMessage {
			tail = append(tail, e.Text())
		}
	}
	slices.Sort(tail)
	backendSame(t, "tail", []string{"the kanarienvogel sings", "the other kanarienvogel"}, tail)
	if _, err := s.CatchUp(ctx, nil); err != nil {
		t.Fatal(err)
	}
	answer, err := s.Search(ctx, store.Question{
		All:   [][]tidemark.Term{{{Word: "sings"}}, {{Word: "kanarien", Prefix: true}}},
		Match: func(e tidemark.Entry) bool { return strings.Contains(e.Text(), "kanarienvogel sings") },
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range answer.Found {
		found = append(found, f.Entry.Text())
	}
	backendSame(t, "search", []string{"the kanarienvogel sings"}, found)
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreWorksOverTheWire(t *testing.T) {
	spy := &backendSpy{Backend: memory.New()}
	backendTalk(t, backendOpened(t, spy.served(t).URL))
	if !strings.Contains(spy.seen.String(), "kanarienvogel sings") {
		t.Error("the spy is blind")
	}
}

func TestTheServerOfASealedStoreSeesNoWord(t *testing.T) {
	spy := &backendSpy{Backend: memory.New()}
	url := spy.served(t).URL
	be := backendSealed(t, func() tidemark.Backend { return backendOpened(t, url) })()
	if _, ok := be.(*seal.Backend); !ok {
		t.Fatalf("the store is a %T", be)
	}
	backendTalk(t, be)
	for _, word := range []string{"kanarien", "sings", "gladly", "sleeps", "the other", "plans", "home/ada"} {
		if i := strings.Index(spy.seen.String(), word); i >= 0 {
			t.Errorf("the server saw %q in …%.80q…", word, spy.seen.String()[max(i-30, 0):])
		}
	}
	for _, sign := range []string{"/api/v1/backend/lines", "/api/v1/backend/commit", "segment"} {
		if !strings.Contains(spy.seen.String(), sign) {
			t.Errorf("the spy saw no %s", sign)
		}
	}
}

// backendBare has the calls of the contract and nothing more, and wakes nobody.
type backendBare struct{ tidemark.Backend }

func (backendBare) Wait(context.Context, tidemark.Key, int64) error {
	return tidemark.Unsupportedf("nobody is woken")
}

func TestAbilitiesThatTheServerLacksAreUnsupported(t *testing.T) {
	kept := memory.New()
	b := backendOpened(t, backendServed(t, backendBare{kept}).URL)
	ctx := t.Context()
	for name, err := range map[string]error{
		"share": b.Share(ctx, tidemark.NewSessionID(), tidemark.Scope{With: tidemark.InTenant}),
	} {
		if c := tidemark.CodeOf(err); c.Err != tidemark.ErrUnsupported {
			t.Errorf("%s = %v, want ErrUnsupported", name, err)
		}
	}
	// The server looks on behalf of whoever waits.
	woken := make(chan error)
	log := tidemark.Key{Kind: "session", ID: "s"}
	go func() { woken <- b.Wait(ctx, log, 0) }()
	backendKeep(t, kept, backendLine(log))
	if err := <-woken; err != nil {
		t.Errorf("Wait = %v", err)
	}
}

// backendSharing can share.
type backendSharing struct {
	*memory.Backend
	with map[tidemark.SessionID]tidemark.Scope
}

func (s backendSharing) Share(_ context.Context, id tidemark.SessionID, with tidemark.Scope) error {
	s.with[id] = with
	return nil
}

func (s backendSharing) Shared(_ context.Context, id tidemark.SessionID) (tidemark.Scope, string, error) {
	with, ok := s.with[id]
	if !ok {
		return with, "", tidemark.NotFoundf("session %s: not found", id)
	}
	return with, "ada", nil
}

func (s backendSharing) Audience() (string, []string) { return "ada", []string{"room", "house"} }

// Of is for nobody here: there is one owner.
func (s backendSharing) Of(string) (tidemark.Backend, error) { return s, nil }

func TestSharingGoesOverTheWire(t *testing.T) {
	b := backendOpened(t, backendServed(t, backendSharing{memory.New(), map[tidemark.SessionID]tidemark.Scope{}}).URL)
	id := tidemark.NewSessionID()
	if _, _, err := b.Shared(t.Context(), id); tidemark.CodeOf(err).Err != tidemark.ErrNotFound {
		t.Errorf("Shared = %v, want ErrNotFound", err)
	}
	if me, scopes := b.Audience(); me != "ada" || !slices.Equal(scopes, []string{"room", "house"}) {
		t.Errorf("Audience = %s, %v", me, scopes)
	}
	want := tidemark.Scope{With: tidemark.InWorkspace, Workspace: "w"}
	if err := b.Share(t.Context(), id, want); err != nil {
		t.Fatal(err)
	}
	if got, owner, err := b.Shared(t.Context(), id); got != want || owner != "ada" || err != nil {
		t.Errorf("Shared = %v, %s, %v", got, owner, err)
	}
}

// Clients keep the index in the records and logs of the server, and a purge takes the
// words out there.
func TestClientsKeepTheIndexOfAServer(t *testing.T) {
	kept := memory.New()
	far := backendOpened(t, backendServed(t, kept).URL)
	who := store.Self("test")
	s, near := store.New(far, &store.Options{Places: backendPlaces}), store.New(kept.Again(), &store.Options{Places: backendPlaces})
	w := s.Create(tidemark.Session{Title: "far"}, who)
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "moonrise"), tidemark.Say(tidemark.User, "sunset")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.CatchUp(t.Context(), nil); n == 0 || err != nil {
		t.Fatalf("CatchUp = %d, %v", n, err)
	}
	blocks := func() string {
		var all strings.Builder
		for r, err := range kept.List(t.Context(), tidemark.Query{Kind: tidemark.KindSegment}) {
			if err != nil {
				t.Fatal(err)
			}
			for l, err := range kept.Lines(t.Context(), r.Key) {
				if err != nil {
					t.Fatal(err)
				}
				all.Write(l.Body)
			}
		}
		return all.String()
	}
	if !strings.Contains(blocks(), "moonrise") {
		t.Fatal("the index is not in the server's store")
	}
	q := store.Question{All: [][]tidemark.Term{{{Word: "moonrise"}}}, Match: func(e tidemark.Entry) bool { return slices.Contains(backendWords(e), "moonrise") }}
	for _, store := range []*store.Store{s, near} {
		if a, err := store.Search(t.Context(), q); err != nil || a.Scanned || a.Waiting > 0 || len(a.Found) != 1 {
			t.Errorf("found %d, scanned %v, waiting %d, %v", len(a.Found), a.Scanned, a.Waiting, err)
		}
	}
	if err := s.Trash(t.Context(), w.ID()); err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), w.ID(), who); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(blocks(), "moonrise") {
		t.Error("a purge by a client leaves the words in the index of the server")
	}
}
