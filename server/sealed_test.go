package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// TestAStoreThatItsOwnerSealedIsClosedToTheServer opens a store while nothing
// is in it, and has its owner seal it from elsewhere: from then on the server
// answers as it does for every sealed store, and keeps nothing in the clear.
func TestAStoreThatItsOwnerSealedIsClosedToTheServer(t *testing.T) {
	inner := memory.New()
	s := newTestServer(t, withPages, func(o *Options) {
		o.Open = func(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
			if p.User != people()["writer-a"].User {
				return store.New(memory.New(), nil), nil
			}
			if sealed, err := seal.IsSealed(ctx, inner); sealed || err != nil {
				return nil, tidemark.ErrSealed
			}
			return store.New(inner.Again(), nil), nil
		}
	})
	if a := s.call(t, "writer-a", "GET", "/api/v1/sessions", nil); a.Status != http.StatusOK {
		t.Fatalf("an empty store: %d %s", a.Status, a.Body)
	}
	slot, err := seal.FileSlot("", seal.NewKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	owners, err := seal.Create(t.Context(), inner.Again(), slot)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range [][3]string{
		{"GET", "/api/v1/sessions"},
		{"POST", "/api/v1/sessions", `{"title":"plain"}`},
		{"GET", "/api/v1/search?q=x"},
	} {
		a := s.call(t, "writer-a", call[0], call[1], call[2])
		if a.Status != http.StatusForbidden || a.problem(t).Code != "sealed" {
			t.Errorf("%s %s after the sealing: %d %s, want 403 sealed", call[0], call[1], a.Status, a.Body)
		}
	}
	for path, want := range map[string]string{"/sessions": " ls</code>", "/sessions/7f3a2c1e-0000-4000-8000-000000000001": " show 7f3a2c1e-0000-4000-8000-000000000001</code>"} {
		if body := string(s.call(t, "writer-a", "GET", path, nil).want(t, http.StatusForbidden).Body); !strings.Contains(body, "has no key for it") || !strings.Contains(body, "tidemark --store http://") || !strings.Contains(body, want) {
			t.Errorf("%s does not say how to read it: %s", path, body)
		}
	}
	for err := range store.New(owners, nil).VerifyAll(t.Context(), nil) {
		t.Errorf("what the owner finds: %v", err)
	}
}

// TestAPageOfASealedSessionSaysHowToReadIt opens a session in a browser after
// its owner sealed the store: the page says so, with a command that can be
// copied, instead of an empty conversation.
func TestAPageOfASealedSessionSaysHowToReadIt(t *testing.T) {
	chrome := chromium(t)
	inner := memory.New()
	slot, err := seal.FileSlot("", seal.NewKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	owners, err := seal.Create(t.Context(), inner.Again(), slot)
	if err != nil {
		t.Fatal(err)
	}
	hidden := store.New(owners, nil).Create(tidemark.Session{Title: "the hidden cove"}, process.Self("talk"))
	must[[]int64](t)(hidden.Append(t.Context(), tidemark.Say(tidemark.User, "drop the anchor")))
	id := string(hidden.ID())
	s := newSite(t, chrome, func(ctx context.Context, _ tidemark.Principal) (*store.Store, error) {
		if sealed, err := seal.IsSealed(ctx, inner); sealed || err != nil {
			return nil, tidemark.ErrSealed
		}
		return store.New(inner.Again(), nil), nil
	})
	w := s.window(t)
	w.signsIn("a")
	for path, read := range map[string]string{"/sessions": "ls", "/sessions/" + id: "show " + id} {
		w.opens(path)
		command := "tidemark --store " + s.url + " " + read
		w.sees("This is sealed, and this server has no key for it.", "a terminal shows it", command, "not", "the hidden cove", "drop the anchor")
		if n := w.count("#entries, #composer, #pane, .sessions"); n > 0 {
			t.Errorf("%s shows %d parts of a session or a list that it cannot read", path, n)
		}
		if got := asks[string](w, `document.querySelector(".trouble [data-copy]").dataset.copy`); got != command {
			t.Errorf("%s copies %q, want %q", path, got, command)
		}
	}
	w.do(chromedp.EmulateViewport(390, 844))
	if wide := asks[int](w, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("on a phone the page is %d pixels wide", wide)
	}
	if err := hidden.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
