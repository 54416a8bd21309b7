package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// withTokens lets people in by the table of tests, and programs by service tokens.
type withTokens struct {
	table  request.Authenticator
	tokens *auth.TokenAuthenticator
}

func (w *withTokens) Authenticate(r *http.Request) (request.Caller, error) {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "+tenant.TokenPrefix) {
		return w.tokens.Authenticate(r)
	}
	return w.table.Authenticate(r)
}

func TestAnOperatorSeesToTenantsAndReadsNoSession(t *testing.T) {
	by := &withTokens{table: people()}
	s := administered(t, seeingOff, func(o *Options) { o.Auth = by })
	users, a, ids := leavers(t, s)
	by.tokens = auth.ServiceTokens(users)
	ctx := t.Context()
	make := func(token tenant.Token) (string, error) {
		token.Tenant, token.Name = a.ID, "op"
		_, text, err := users.CreateToken(ctx, token)
		return text, err
	}
	op, err := make(tenant.Token{Role: tenant.RoleAdmin, Scopes: []string{"operator"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []tenant.Token{{Role: tenant.RoleReader, Scopes: []string{"operator"}}, {Role: tenant.RoleAdmin, Scopes: []string{"operator", "sessions"}}, {Role: tenant.RoleAdmin, User: ids[0], Scopes: []string{"operator"}}} {
		if _, err := make(bad); err == nil {
			t.Errorf("made: %+v", bad)
		}
	}
	session := newSession(t, s, "admin-a", "tides", "hello")
	for _, c := range []struct {
		method, path string
		body         any
		want         int
	}{
		{"GET", "/api/v1/tenants", nil, 200}, {"POST", "/api/v1/tenants", map[string]any{"name": "new"}, 201}, {"POST", "/api/v1/tenants/new/suspend", nil, 200}, {"POST", "/api/v1/tenants/new/resume", nil, 200},
		{"GET", "/api/v1/users?tenant=b", nil, 200}, {"GET", "/api/v1/users?tenant=a", nil, 200}, {"PATCH", "/api/v1/users/" + ids[1] + "?tenant=a", map[string]any{"state": "suspended"}, 200},
		{"GET", "/api/v1/audit?tenant=b", nil, 200}, {"GET", "/api/v1/tokens?tenant=b", nil, 200},
		// It makes no tokens, and leads to nothing that people keep.
		{"POST", "/api/v1/tokens?tenant=b", map[string]any{"name": "x", "role": "reader", "as": "tenant"}, 403},
		{"GET", "/api/v1/sessions", nil, 403}, {"GET", "/api/v1/sessions/" + session, nil, 403}, {"GET", "/api/v1/sessions/" + session + "/entries", nil, 403}, {"GET", "/api/v1/search?q=tides", nil, 403},
		{"GET", "/api/v1/users/" + ids[0] + "/export?tenant=a", nil, 403}, {"POST", "/api/v1/users/" + ids[0] + "/hand-over?tenant=a", map[string]any{"to": ids[1]}, 403},
		{"POST", "/api/v1/backend/list", map[string]any{}, 403}, {"GET", "/api/v1/memory", nil, 403}, {"GET", "/api/v1/jobs", nil, 403}, {"GET", "/metrics", nil, 403}, {"GET", "/api/v1/workspaces", nil, 403},
		{"POST", "/api/v1/tenants/new/erase", map[string]any{"confirm": "new"}, 200}, {"GET", "/api/v1/tenants/new/erasure", nil, 200},
	} {
		if got := s.call(t, op, c.method, c.path, c.body); got.Status != c.want {
			t.Errorf("%s %s: %d %.200s, want %d", c.method, c.path, got.Status, got.Body, c.want)
		}
	}
	// Nobody but an operator grants it.
	for who, want := range map[string]int{"admin-a": 403, "op": 201} {
		if got := s.call(t, who, "POST", "/api/v1/tokens?tenant=a", map[string]any{"name": "x", "role": "admin", "as": "tenant", "scopes": []string{"operator"}}); who == "admin-a" && got.Status != want || who == "op" && got.Status != want {
			t.Errorf("%s: %d %s, want %d", who, got.Status, got.Body, want)
		}
	}
	// An admin's token of a tenant without that scope is none.
	plain, err := make(tenant.Token{Role: tenant.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	s.call(t, plain, "GET", "/api/v1/tenants", nil).want(t, 403)
	s.call(t, plain, "GET", "/api/v1/users?tenant=b", nil).want(t, 404)
	var done []string
	for l, err := range users.AuditLines(ctx, tidemark.TenantOf("new", "").Tenant, tidemark.Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Token == "" {
			t.Errorf("whose token did it? %+v", l)
		}
		done = append(done, l.Action)
	}
	if all := strings.Join(done, " "); all != "tenant.create tenant.suspend tenant.resume tenant.erase" {
		t.Errorf("the audit log has %s", all)
	}
}

// Whom a rule of an issuer makes an operator sees to all tenants, as a token of the
// scope does, and is an admin of one tenant beside that.
func TestAnOperatorByARuleReadsNothingOfOtherTenants(t *testing.T) {
	all := people()
	c := all["admin-a"]
	c.Operator, c.Ruled = true, true
	all["ruled"] = c
	s := administered(t, seeingOff, func(o *Options) { o.Auth = all })
	_, _, ids := leavers(t, s)
	session := newSession(t, s, "admin-b", "tides", "hello")
	for _, c := range []struct {
		method, path string
		body         any
		want         int
	}{
		{"GET", "/api/v1/tenants", nil, 200}, {"POST", "/api/v1/tenants", map[string]any{"name": "new"}, 201}, {"POST", "/api/v1/tenants/new/suspend", nil, 200},
		{"GET", "/api/v1/users?tenant=b", nil, 200}, {"GET", "/api/v1/audit?tenant=b", nil, 200}, {"PUT", "/api/v1/tenants/b/limits", tenant.UsageLimits{Sessions: 5}, 200}, {"GET", "/metrics", nil, 200},
		{"GET", "/api/v1/sessions", nil, 200}, {"GET", session, nil, 404}, {"GET", session + "/entries", nil, 404},
		{"GET", "/api/v1/users/" + ids[0] + "/export", nil, 200}, // of the own tenant
		{"GET", "/api/v1/users/" + ids[0] + "/export?tenant=b", nil, 403}, {"POST", "/api/v1/users/" + ids[0] + "/hand-over?tenant=b", map[string]any{"to": ids[1]}, 403},
		{"POST", "/api/v1/tokens?tenant=b", map[string]any{"name": "x", "role": "reader", "as": "tenant"}, 403}, {"POST", "/api/v1/tokens", map[string]any{"name": "x", "role": "reader", "as": "tenant"}, 201},
		{"POST", "/api/v1/tokens", map[string]any{"name": "x", "role": "admin", "as": "tenant", "scopes": []string{"operator"}}, 403}, {"POST", "/api/v1/signin-code", nil, 403},
	} {
		if got := s.call(t, "ruled", c.method, c.path, c.body); got.Status != c.want {
			t.Errorf("%s %s: %d %.200s, want %d", c.method, c.path, got.Status, got.Body, c.want)
		}
	}
}
