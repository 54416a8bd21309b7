package server

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// administered returns a server that has the tenants a and b.
func administered(t *testing.T, change ...func(*Options)) *testServer {
	t.Helper()
	s := newTestServer(t, change...)
	for _, name := range []string{"a", "b"} {
		if got := s.call(t, "op", "POST", "/api/v1/tenants", map[string]any{"name": name}); got.Status != http.StatusCreated {
			t.Fatalf("tenant %s: %d %s", name, got.Status, got.Body)
		}
	}
	return s
}

func TestTokensAreMadeByAdminsForTheirTenantAlone(t *testing.T) {
	s := administered(t)
	var made routes.NewToken
	got := s.call(t, "admin-a", "POST", "/api/v1/tokens", map[string]any{"name": "ci", "role": "writer", "as": "tenant"})
	if got.into(t, &made); got.Status != http.StatusCreated || !strings.HasPrefix(made.Text, "tmk_") || made.Tenant != tidemark.TenantOf("a", "").Tenant || made.ExpiresAt.IsZero() {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	for who, status := range map[string]int{"reader-a": 403, "writer-a": 403, "nobody": 401} {
		if got := s.call(t, who, "POST", "/api/v1/tokens", map[string]any{"name": "ci", "role": "reader"}); got.Status != status {
			t.Errorf("%s: %d %s", who, got.Status, got.Body)
		}
	}
	foreign := s.call(t, "admin-b", "DELETE", "/api/v1/tokens/"+made.ID, nil)
	absent := s.call(t, "admin-b", "DELETE", "/api/v1/tokens/"+strings.Repeat("a", 16), nil)
	if foreign.Status != 404 || absent.Status != 404 || foreign.problem(t).Code != absent.problem(t).Code {
		t.Errorf("a foreign token answers %d, an absent one %d", foreign.Status, absent.Status)
	}
	var page routes.Page[tenant.Token]
	s.call(t, "admin-a", "GET", "/api/v1/tokens", nil).into(t, &page)
	if len(page.Items) != 1 || page.Items[0].ID != made.ID {
		t.Errorf("listed %+v", page)
	}
	if body := string(s.call(t, "admin-a", "GET", "/api/v1/tokens", nil).Body); strings.Contains(body, "sha256") || strings.Contains(body, made.Text) {
		t.Errorf("the list tells too much: %s", body)
	}
	var other routes.Page[tenant.Token]
	s.call(t, "admin-b", "GET", "/api/v1/tokens", nil).into(t, &other)
	if len(other.Items) != 0 {
		t.Errorf("b sees %+v", other)
	}
	if got := s.call(t, "admin-b", "GET", "/api/v1/tokens?tenant=a", nil); got.Status != 404 {
		t.Errorf("b names a: %d", got.Status)
	}
	if got := s.call(t, "op", "GET", "/api/v1/tokens?tenant=a", nil); got.Status != 200 {
		t.Errorf("the operator names a: %d", got.Status)
	}
	if got := s.call(t, "admin-a", "DELETE", "/api/v1/tokens/"+made.ID, nil); got.Status != 200 {
		t.Errorf("revoked: %d %s", got.Status, got.Body)
	}
}

func TestATokenMakesNoTokens(t *testing.T) {
	s := administered(t, func(o *Options) {
		p := people()
		c := p["admin-a"]
		c.Token = "k3vq7x2mzp4a6tnb"
		p["token-a"] = c
		o.Auth = p
	})
	if got := s.call(t, "token-a", "POST", "/api/v1/tokens", map[string]any{"name": "more", "role": "reader"}); got.Status != 403 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

func TestTenantsAreTheOperatorsAlone(t *testing.T) {
	s := administered(t)
	for _, c := range [][2]string{{"GET", "/api/v1/tenants"}, {"POST", "/api/v1/tenants/a/suspend"}, {"POST", "/api/v1/tenants/b/resume"}, {"POST", "/api/v1/tenants/nowhere/suspend"}} {
		if got := s.call(t, "admin-a", c[0], c[1], nil); got.Status != 403 {
			t.Errorf("%v: %d %s", c, got.Status, got.Body)
		}
	}
	var page routes.Page[tenant.Tenant]
	s.call(t, "op", "GET", "/api/v1/tenants?limit=1", nil).into(t, &page)
	if len(page.Items) != 1 || page.Next == "" {
		t.Fatalf("%+v", page)
	}
	var second routes.Page[tenant.Tenant]
	s.call(t, "op", "GET", "/api/v1/tenants?limit=1&cursor="+page.Next, nil).into(t, &second)
	if len(second.Items) != 1 || second.Next != "" || second.Items[0].ID == page.Items[0].ID {
		t.Errorf("the second page: %+v", second)
	}
	var suspended tenant.Tenant
	s.call(t, "op", "POST", "/api/v1/tenants/a/suspend", nil).into(t, &suspended)
	if suspended.State != tenant.Suspended {
		t.Errorf("%+v", suspended)
	}
	if got := s.call(t, "op", "POST", "/api/v1/tenants", map[string]any{"name": "a"}); got.Status != http.StatusConflict {
		t.Errorf("made twice: %d", got.Status)
	}
}

func TestUsersAndWorkspacesAreTheAdmins(t *testing.T) {
	s := administered(t)
	users, err := s.stores.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a, err := users.TenantNamed(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	u, _, err := users.UpsertUser(t.Context(), tenant.Claims{Tenant: a, Issuer: "i", Subject: "ada", Role: tenant.RoleReader})
	if err != nil {
		t.Fatal(err)
	}
	var w tenant.Workspace
	s.call(t, "admin-a", "POST", "/api/v1/workspaces", map[string]any{"name": "core"}).into(t, &w)
	var got tenant.User
	s.call(t, "admin-a", "PATCH", "/api/v1/users/"+u.ID, map[string]any{"role": "writer", "state": "suspended"}).into(t, &got)
	if got.Role != tenant.RoleWriter || got.State != tenant.Suspended {
		t.Errorf("%+v", got)
	}
	s.call(t, "admin-a", "PUT", "/api/v1/workspaces/"+w.ID+"/members/"+u.ID, nil).into(t, &got)
	if len(got.Workspaces) != 1 {
		t.Errorf("a member: %+v", got)
	}
	for _, c := range [][3]string{{"admin-b", "PATCH", "/api/v1/users/" + u.ID}, {"admin-b", "PUT", "/api/v1/workspaces/" + w.ID + "/members/" + u.ID}, {"admin-a", "PATCH", "/api/v1/users/nobody"}} {
		if got := s.call(t, c[0], c[1], c[2], map[string]any{"role": "admin"}); got.Status != 404 {
			t.Errorf("%v: %d %s", c, got.Status, got.Body)
		}
	}
	me := people()["admin-a"].User
	if got := s.call(t, "admin-a", "PATCH", "/api/v1/users/"+me, map[string]any{"state": "suspended"}); got.Status != 400 {
		t.Errorf("suspended themselves: %d", got.Status)
	}
	var who routes.Me
	s.call(t, "reader-b", "GET", "/api/v1/me", nil).into(t, &who)
	if who.Role != request.Reader || who.TenantName != "b" || who.Operator {
		t.Errorf("me: %+v", who)
	}
}

func TestWhatIsDoneAndWhatIsRefusedIsInTheAuditLog(t *testing.T) {
	s := administered(t)
	s.call(t, "admin-a", "POST", "/api/v1/tokens", map[string]any{"name": "ci", "role": "reader"})
	s.call(t, "reader-a", "POST", "/api/v1/tokens", map[string]any{"name": "secret words", "role": "reader"})
	s.call(t, "admin-a", "DELETE", "/api/v1/tokens/absent", nil)
	s.call(t, "reader-a", "GET", "/api/v1/users", nil)
	s.call(t, "admin-a", "GET", "/api/v1/tokens", nil)
	if err := s.stores.FlushAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var page routes.Page[tenant.AuditLine]
	got := s.call(t, "admin-a", "GET", "/api/v1/audit?limit=3", nil)
	got.into(t, &page)
	if len(page.Items) != 3 || page.Next == "" {
		t.Fatalf("%s", got.Body)
	}
	var rest routes.Page[tenant.AuditLine]
	s.call(t, "admin-a", "GET", "/api/v1/audit?limit=20&cursor="+page.Next, nil).into(t, &rest)
	var told []string
	for _, l := range append(page.Items, rest.Items...) {
		if l.Request == "" || l.At.IsZero() {
			t.Errorf("%+v", l)
		}
		told = append(told, l.Name+" "+l.Action+" "+l.Outcome)
	}
	want := []string{"admin-a DELETE /api/v1/tokens/{id} begun", "admin-a DELETE /api/v1/tokens/{id} failed", "admin-a GET /api/v1/audit begun", "admin-a POST /api/v1/tokens begun",
		"admin-a token.create done", "op tenant.create done", "reader-a GET /api/v1/users refused", "reader-a POST /api/v1/tokens begun", "reader-a POST /api/v1/tokens refused"}
	before := func(one, other string) bool { return slices.Index(told, one) > slices.Index(told, other) } // the newest is first
	if !before("admin-a POST /api/v1/tokens begun", "admin-a token.create done") || !before("reader-a POST /api/v1/tokens begun", "reader-a POST /api/v1/tokens refused") {
		t.Errorf("what is done is not written down before it is:\n%s", strings.Join(told, "\n"))
	}
	slices.Sort(told)
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("the audit log says\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	if strings.Contains(string(got.Body), "secret words") {
		t.Error("the audit log holds content")
	}
	if heads, err := s.stores.AnchorAudit(t.Context()); err != nil || len(heads) != 2 {
		t.Errorf("anchors %+v, %v", heads, err)
	}
	var report tenant.AuditReport
	s.call(t, "admin-a", "POST", "/api/v1/audit/verify", map[string]any{}).into(t, &report)
	if report.Head.Length != 10 || report.Anchors != 1 || len(report.Faults) != 0 {
		t.Errorf("%+v", report)
	}
	forged := tenant.Anchor{Tenant: tidemark.TenantOf("a", "").Tenant, Length: 99, Hash: "x"}
	s.call(t, "admin-a", "POST", "/api/v1/audit/verify", map[string]any{"anchors": []tenant.Anchor{forged}}).into(t, &report)
	if len(report.Faults) != 1 || report.Faults[0].Seq < 6 {
		t.Errorf("against an anchor of 99 lines: %+v", report)
	}
}

// An archive is adopted below the store, whose commits would carry the line.
func TestAnImportIsInTheAuditLogBeforeItIsDone(t *testing.T) {
	var s *testServer
	lines := func() (n int) {
		var page routes.Page[tenant.AuditLine]
		s.call(t, "admin-a", "GET", "/api/v1/audit", nil).want(t, 200).into(t, &page)
		for _, l := range page.Items {
			if l.Action == "POST /api/v1/import" && l.Outcome == tenant.AuditBegun {
				n++
			}
		}
		return n
	}
	var written []int
	s = administered(t, func(o *Options) {
		o.Import = func(context.Context, *store.Store, string, io.Reader) ([]routes.Imported, error) {
			written = append(written, lines())
			return nil, nil
		}
	})
	for range 2 {
		s.call(t, wA, "POST", "/api/v1/import?name=a.json", `{}`).want(t, 200)
	}
	if !slices.Equal(written, []int{1, 2}) {
		t.Errorf("lines at the time of the imports: %d, want 1 and 2", written)
	}
}
