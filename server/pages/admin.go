package pages

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// pageOf is the part of a list that a page requests.
func (s *Site) pageOf(r *http.Request) (routes.PageInput, error) {
	in := routes.PageInput{Limit: 50, Cursor: r.URL.Query().Get("cursor")}
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return in, tidemark.Invalidf("limit %.20q: want a number from 1", text)
		}
		in.Limit = n
	}
	return in, nil
}

// back is a tab of the page of the store, for the tenant that was shown.
func back(r *http.Request, part string) string {
	path := "/store/" + part
	if tenant := r.FormValue("tenant"); tenant != "" {
		path += "?" + url.Values{"tenant": {tenant}}.Encode()
	}
	return path
}

// auditPages show who did what.
func (s *Site) auditPages() {
	s.page("/store/audit", request.Admin, func(r *http.Request) (view, error) {
		a, err := s.gatherAudit(r)
		return s.storeView(r, web.Store{Part: "audit", Audit: a}), err
	})
	s.pages.HandleFunc("GET /store/audit/export", s.exportAudit)
	s.act("/store/audit/verify", request.Admin, func(r *http.Request) (string, string, error) {
		ctx := r.Context()
		in := &routes.VerifyAuditInput{Tenant: r.FormValue("tenant")}
		// Whose log it is, is decided before anything runs behind the page.
		_, t, err := s.api.Administered(ctx, in.Tenant)
		if err != nil {
			return "", "", err
		}
		s.stores.AuditLater(ctx, "audit.verify", t.ID, tenant.AuditDone)
		s.Begin(ctx, TaskName(request.CallerOf(ctx).Principal, "audit/"+t.ID), func(ctx context.Context, _ func(int64)) (any, error) {
			out, err := s.api.VerifyAudit(ctx, in)
			if err != nil {
				return nil, err
			}
			return &out.Body, nil
		}).wait(ctx, glance)
		return back(r, "audit"), web.Say("", "store.audit.begun"), nil
	})
}

func (s *Site) gatherAudit(r *http.Request) (*web.StoreAudit, error) {
	ctx := r.Context()
	in, err := s.pageOf(r)
	if err != nil {
		return nil, err
	}
	_, of, err := s.api.Administered(ctx, r.FormValue("tenant"))
	if err != nil {
		return nil, err
	}
	if s.o.NoAudit {
		return &web.StoreAudit{Lines: []web.AuditLine{}, None: true}, nil
	}
	filter, match, err := auditFilter(r)
	if err != nil {
		return nil, err
	}
	out, err := s.api.FindAudit(ctx, &routes.ListInput{Tenant: r.FormValue("tenant"), PageInput: in}, match)
	if err != nil {
		return nil, err
	}
	a := &web.StoreAudit{AuditFilter: filter, Lines: []web.AuditLine{}, Next: out.Body.Next}
	if a.Next != "" {
		a.More = address("/store/audit", r.URL.Query(), "cursor", a.Next)
	}
	a.Export = address("/store/audit/export", r.URL.Query(), "cursor", "")
	for _, l := range out.Body.Items {
		a.Lines = append(a.Lines, web.AuditLine{Seq: l.Seq, At: l.At, Who: render.CleanLine(cmp.Or(l.Name, l.Who)), Token: l.Token,
			Action: render.CleanLine(l.Action), Thing: render.CleanLine(l.Thing), Outcome: render.CleanLine(l.Outcome)})
	}
	t := s.task(TaskName(request.CallerOf(ctx).Principal, "audit/"+of.ID))
	if a.Verify = taskView(t); t != nil && t.over() {
		if report, err := taskResult[*tenant.AuditReport](t); err == nil {
			a.Report = &web.AuditReport{Length: report.Head.Length, Hash: report.Head.Hash, Anchors: report.Anchors, Faults: []web.StoreDamage{}}
			for _, f := range report.Faults[:min(len(report.Faults), maxDamageShown)] {
				a.Report.Faults = append(a.Report.Faults, web.StoreDamage{Seq: f.Seq, What: render.CleanLine(f.What)})
			}
		}
	}
	return a, nil
}

// auditFilter is what the address says about the lines to show, and whether a line
// is one of them; nil: all are.
func auditFilter(r *http.Request) (f web.AuditFilter, match func(tenant.AuditLine) bool, err error) {
	value := func(name string) string { return strings.TrimSpace(r.FormValue(name)) }
	asked := tenant.AuditFilter{Who: value("who"), What: value("what"), Since: value("since"), Until: value("until")}
	f = web.AuditFilter{Who: render.CleanLine(asked.Who), What: render.CleanLine(asked.What), Since: asked.Since, Until: asked.Until}
	match, err = asked.Match(func(action string) string { return web.Deed("", action) })
	return f, match, err
}

// exportAudit answers with the lines of the audit log that the page would show, as
// JSON lines, the oldest first; the last ones may not be chained yet, and have no
// number then. What cannot be read is said in its place.
func (s *Site) exportAudit(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if !request.CallerOf(ctx).Role.May(request.Admin) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	_, match, err := auditFilter(r)
	var lines iter.Seq2[tenant.AuditLine, error]
	if err == nil {
		lines, err = s.api.ExportAudit(ctx, r.FormValue("tenant"), match)
	}
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
	if err := tenant.WriteAudit(w, lines); err != nil {
		routes.Cut(ctx, err)
	}
}

// TokenScopes are the parts of the server that a token may be for. An operator
// may also grant OperatorScopes.
var TokenScopes = []string{"sessions", "search", "resolve", "import", "stats", "memory", "agents", "schedules", "jobs", "fleet", "backend", auth.BlobsScope, "links", "ws",
	"datasets", "optimization-runs", "run-steps", "sandbox-snapshots", "workspaces", "users", "tenants", "tokens", "audit", "scim", request.MCPPath[1:]}

// CheckScopes returns ErrInvalid for what is no part of a server.
func CheckScopes(scopes []string) error {
	known := append(slices.Clone(TokenScopes), auth.OperatorScopes...)
	for _, scope := range scopes {
		if !slices.Contains(known, scope) {
			return hint.With(tidemark.Invalidf("--scope %q: there is no such part of a server", scope), "one of: %s", strings.Join(known, ", "))
		}
	}
	return nil
}

// tokenPages are the service tokens.
func (s *Site) tokenPages() {
	s.page("/store/tokens", request.Admin, func(r *http.Request) (view, error) {
		t, err := s.gatherTokens(r)
		return s.storeView(r, web.Store{Part: "tokens", Tokens: t}), err
	})
	// The text of a token is shown once, in the answer itself: it is in no
	// cookie and no address.
	s.pages.HandleFunc("POST /store/tokens", func(w http.ResponseWriter, r *http.Request) {
		made, err := s.makeToken(r)
		if err != nil {
			s.Trouble(w, r, err)
			return
		}
		t, err := s.gatherTokens(r)
		if err != nil {
			t = &web.StoreTokens{} // the token exists, and this is the only chance to show it
		}
		shown := s.tokenView(r, made.Token)
		t.New, t.Text = &shown, made.Text
		s.show(w, r, http.StatusCreated, s.storeView(r, web.Store{Part: "tokens", Tokens: t}))
	})
	s.act("/store/tokens/{id}/revoke", request.Admin, func(r *http.Request) (string, string, error) {
		ctx := r.Context()
		users, t, err := s.api.Administered(ctx, r.FormValue("tenant"))
		if err != nil {
			return "", "", err
		}
		token, err := users.RevokeToken(ctx, t.ID, r.PathValue("id"))
		if err == nil {
			err = s.stores.AuditIn(ctx, t.ID, "token.revoke", token.ID, tenant.AuditDone)
		}
		return back(r, "tokens"), web.Say("", "store.token.revoked", render.CleanLine(token.Name)), err
	})
}

// maxTokenDays is the longest life that the page offers to type.
const maxTokenDays = 3650

func (s *Site) makeToken(r *http.Request) (routes.NewToken, error) {
	ctx := r.Context()
	if !request.CallerOf(ctx).Role.May(request.Admin) {
		return routes.NewToken{}, tidemark.ErrDenied
	}
	in := &routes.NewTokenInput{Tenant: r.FormValue("tenant")}
	in.Body.Name, in.Body.Role = strings.TrimSpace(r.FormValue("name")), request.Role(r.FormValue("role"))
	in.Body.As, in.Body.Scopes = r.FormValue("as"), r.Form["scope"]
	days, err := strconv.Atoi(cmp.Or(r.FormValue("days"), "90"))
	if err != nil || days < 1 || days > maxTokenDays {
		return routes.NewToken{}, tidemark.Invalidf("a token lives from 1 to %d days", maxTokenDays)
	}
	if err := tenant.CheckRole(string(in.Body.Role)); err != nil {
		return routes.NewToken{}, err
	}
	in.Body.ExpiresAt = s.o.Now().Add(time.Duration(days) * 24 * time.Hour)
	out, err := s.api.CreateToken(ctx, in)
	if err != nil {
		return routes.NewToken{}, err
	}
	return out.Body, nil
}

func (s *Site) gatherTokens(r *http.Request) (*web.StoreTokens, error) {
	ctx := r.Context()
	in, err := s.pageOf(r)
	if err != nil {
		return nil, err
	}
	users, t, err := s.api.Administered(ctx, r.FormValue("tenant"))
	if err != nil {
		return nil, err
	}
	page, err := routes.Paged(s.api, ctx, in, func(after string) iter.Seq2[tenant.Token, error] { return users.Tokens(ctx, t.ID, after) }, func(t tenant.Token) string { return t.ID })
	if err != nil {
		return nil, err
	}
	v := &web.StoreTokens{Tokens: []web.Token{}, Next: page.Body.Next, Making: request.CallerOf(ctx).Token == "", Roles: []string{"reader", "writer", "admin"}, Scopes: TokenScopes}
	if request.CallerOf(ctx).Operator {
		v.Scopes = append(slices.Clone(TokenScopes), auth.OperatorScopes...)
	}
	for _, t := range page.Body.Items {
		v.Tokens = append(v.Tokens, s.tokenView(r, t))
	}
	return v, nil
}

func (s *Site) tokenView(r *http.Request, t tenant.Token) web.Token {
	v := web.Token{ID: t.ID, Name: render.CleanLine(t.Name), Role: t.Role, Scopes: t.Scopes, For: t.User, State: t.State, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, UsedAt: t.UsedAt}
	switch t.User { // who has a tenant for themselves acts for both
	case request.CallerOf(r.Context()).User:
		v.For = "me"
	case t.Tenant:
		v.For = "tenant"
	}
	if v.State == tenant.Active && !t.ExpiresAt.IsZero() && !s.o.Now().Before(t.ExpiresAt) {
		v.State = "expired"
	}
	return v
}

// peoplePages are users for admins, and tenants for the operator.
func (s *Site) peoplePages() {
	s.page("/store/users", request.Admin, func(r *http.Request) (view, error) {
		u, err := s.gatherUsers(r)
		return s.storeView(r, web.Store{Part: "users", Users: u}), err
	})
	s.act("/store/users/{id}", request.Admin, func(r *http.Request) (string, string, error) {
		in := &routes.ChangeUserInput{Tenant: r.FormValue("tenant"), ID: r.PathValue("id")}
		in.Body.Role, in.Body.State = request.Role(r.FormValue("role")), r.FormValue("state")
		if in.Body.Role != "" {
			if err := tenant.CheckRole(string(in.Body.Role)); err != nil {
				return "", "", err
			}
		}
		out, err := s.api.ChangeUser(r.Context(), in)
		if err != nil {
			return "", "", err
		}
		u := out.Body
		return back(r, "users"), web.Say("", "store.user.changed", render.CleanLine(cmp.Or(u.Name, u.Subject)), u.Role, u.State), nil
	})
	s.page("/store/tenants", request.Admin, func(r *http.Request) (view, error) {
		t, err := s.gatherTenants(r)
		return s.storeView(r, web.Store{Part: "tenants", Tenants: t}), err
	})
	s.act("/store/tenants/{id}", request.Admin, func(r *http.Request) (string, string, error) {
		ctx := r.Context()
		users, err := s.api.Operate(ctx)
		if err != nil {
			return "", "", err
		}
		state, err := choose("state", r.FormValue("state"), tenant.Active, tenant.Suspended)
		if err != nil {
			return "", "", err
		}
		if state == tenant.Suspended && r.PathValue("id") == request.CallerOf(ctx).Tenant {
			return "", "", tidemark.Invalidf("nobody suspends their own tenant: somebody has to be left to undo it")
		}
		t, err := users.SetTenantState(ctx, r.PathValue("id"), state)
		if err == nil {
			verb := map[string]string{tenant.Active: "resume", tenant.Suspended: "suspend"}[state]
			err = s.stores.AuditIn(ctx, t.ID, "tenant."+verb, t.ID, tenant.AuditDone)
		}
		return "/store/tenants", web.Say("", "store.tenant.changed", t.Name, t.State), err
	})
}

func (s *Site) gatherUsers(r *http.Request) (*web.StoreUsers, error) {
	ctx := r.Context()
	in, err := s.pageOf(r)
	if err != nil {
		return nil, err
	}
	users, t, err := s.api.Administered(ctx, r.FormValue("tenant"))
	if err != nil {
		return nil, err
	}
	page, err := routes.Paged(s.api, ctx, in, func(after string) iter.Seq2[tenant.User, error] { return users.Users(ctx, t.ID, after) }, func(u tenant.User) string { return u.ID })
	if err != nil {
		return nil, err
	}
	v := &web.StoreUsers{Users: []web.User{}, Next: page.Body.Next, Leave: s.api.Offboards(), Roles: []string{"reader", "writer", "admin"}}
	for _, u := range page.Body.Items {
		v.Users = append(v.Users, web.User{ID: u.ID, Name: userName(u), Email: render.CleanLine(u.Email), Role: u.Role, State: u.State,
			LastSeenAt: u.LastSeenAt, Self: u.ID == request.CallerOf(ctx).User, Keeps: s.keeps(ctx, t.ID, u.ID)})
	}
	return v, nil
}

func (s *Site) gatherTenants(r *http.Request) (*web.StoreTenants, error) {
	ctx := r.Context()
	in, err := s.pageOf(r)
	if err != nil {
		return nil, err
	}
	users, err := s.api.Operate(ctx)
	if err != nil {
		return nil, err
	}
	page, err := routes.Paged(s.api, ctx, in, func(after string) iter.Seq2[tenant.Tenant, error] { return users.Tenants(ctx, after) }, func(t tenant.Tenant) string { return t.ID })
	if err != nil {
		return nil, err
	}
	v := &web.StoreTenants{Tenants: []web.Tenant{}, Next: page.Body.Next, Leave: s.api.Offboards()}
	for _, t := range page.Body.Items {
		v.Tenants = append(v.Tenants, web.Tenant{ID: t.ID, Name: render.CleanLine(t.Name), State: t.State, Issuer: render.CleanLine(t.Issuer), CreatedAt: t.CreatedAt, Self: t.ID == request.CallerOf(ctx).Tenant, Keeps: s.keeps(ctx, t.ID, "")})
	}
	return v, nil
}
