package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// table is an Authenticator for tests: token to caller.
type table map[string]request.Caller

func (t table) Authenticate(r *http.Request) (request.Caller, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	c, ok := t[token]
	if !ok {
		return request.Caller{}, tidemark.ErrDenied
	}
	return c, nil
}

// people are who calls in tests: ROLE-TENANT, and op for the operator.
func people() table {
	t := table{"op": {Principal: tidemark.Operator(), Name: "op", Role: request.Admin, Operator: true}}
	for _, tenant := range []string{"a", "b"} {
		for _, role := range request.Roles {
			name := string(role) + "-" + tenant
			t[name] = request.Caller{Principal: tidemark.TenantOf(tenant, "jo"), Name: name, Role: role}
		}
		t["other-"+tenant] = request.Caller{Principal: tidemark.TenantOf(tenant, "kim"), Name: "other-" + tenant, Role: request.Writer}
	}
	return t
}

// testServer is a Server that listens, with a store in memory for each
// principal.
type testServer struct {
	*Server
	URL  string
	HTTP *httptest.Server
}

func newTestServer(t *testing.T, change ...func(*Options)) *testServer {
	t.Helper()
	var mu sync.Mutex
	stores := make(map[string]*store.Store)
	o := Options{
		Auth:    people(),
		Version: "test",
		Holder:  process.Self("test"),
		Open: func(_ context.Context, p tidemark.Principal) (*store.Store, error) {
			mu.Lock()
			defer mu.Unlock()
			name := p.Tenant + p.User
			if stores[name] == nil {
				stores[name] = store.New(complete{memory.New(), t}, &store.Options{Places: search.EachWord})
			}
			return stores[name], nil
		},
	}
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Drain()
		h.Close()
	})
	return &testServer{Server: s, URL: h.URL, HTTP: h}
}

// answer is what came back.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// into decodes the body.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		t.Fatalf("%v in %s", err, a.Body)
	}
}

// problem decodes an error, which has to be one.
func (a answer) problem(t *testing.T) api.Problem {
	t.Helper()
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("status %d, content type %q, body %s; want a problem", a.Status, got, a.Body)
	}
	var p api.Problem
	a.into(t, &p)
	if p.Status != a.Status || p.Code == "" || p.Title == "" {
		t.Fatalf("problem %+v with status %d", p, a.Status)
	}
	return p
}

// call makes one request as somebody. A body that is no string, bytes or
// reader is sent as JSON. Headers are given as "Name: value".
func (s *testServer) call(t *testing.T, who, method, path string, body any, headers ...string) answer {
	t.Helper()
	var in io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
		kind = ""
	case string:
		in = strings.NewReader(b)
	case []byte:
		in = bytes.NewReader(b)
	case io.Reader:
		in = b
	default:
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, in)
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, got}
}

// want fails unless the status is the one wanted.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.Status != status {
		t.Fatalf("status %d, want %d: %s", a.Status, status, a.Body)
	}
	return a
}
