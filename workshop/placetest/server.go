package placetest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// TidemarkServer is a running server that lets in whoever says a name, as that
// person: TENANT/USER is the token.
type TidemarkServer struct {
	URL    string
	mu     sync.Mutex
	stores map[string]tidemark.Backend
}

// Server starts a Tidemark server with a store in memory for each person.
func Server(t testing.TB) *TidemarkServer {
	t.Helper()
	s := &TidemarkServer{stores: make(map[string]tidemark.Backend)}
	h, err := server.New(server.Options{
		Auth: s, Holder: process.Self("test"), Version: "test",
		Open: func(_ context.Context, p tidemark.Principal) (*store.Store, error) {
			return store.New(s.Of(p), nil), nil
		},
		Backend: func(_ context.Context, p tidemark.Principal) (tidemark.Backend, error) { return s.Of(p), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(h)
	t.Cleanup(func() {
		h.Drain()
		listening.Close()
	})
	s.URL = listening.URL
	return s
}

// Of is what the server keeps for somebody.
func (s *TidemarkServer) Of(p tidemark.Principal) tidemark.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stores[p.Tenant+"/"+p.User] == nil {
		s.stores[p.Tenant+"/"+p.User] = memory.New()
	}
	return s.stores[p.Tenant+"/"+p.User]
}

// Authenticate lets in whoever says a name.
func (s *TidemarkServer) Authenticate(r *http.Request) (request.Caller, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	tenant, user, ok := strings.Cut(token, "/")
	if !ok {
		return request.Caller{}, tidemark.ErrDenied
	}
	return request.Caller{Principal: tidemark.TenantOf(tenant, user), Name: user, Role: request.Writer}, nil
}

// As is what somebody opens remotes with; "" has no token.
func (s *TidemarkServer) As(token string) *remote.Options {
	return &remote.Options{Token: Token(token)}
}

// Token has every server be told the same.
func Token(token string) func(address string) func(context.Context) (string, error) {
	return func(string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return token, nil }
	}
}
