package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
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
