package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
)

// Me is the caller, as the server sees it.
type Me struct {
	Tenant     string       `json:"tenant"`
	TenantName string       `json:"tenant_name,omitempty"`
	User       string       `json:"user"`
	Name       string       `json:"name"`
	Role       request.Role `json:"role" enum:"reader,writer,admin"`
	Token      string       `json:"token,omitempty" doc:"the id of the service token"`
	Operator   bool         `json:"operator"`
	Workspaces []string     `json:"workspaces" nullable:"false"`
}

// NewToken is a service token with the text that is shown once.
type NewToken struct {
	tenant.Token
	Text string `json:"text" doc:"shown now and never again"`
}

type byID struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	ID     string `path:"id" maxLength:"128"`
}

// ListInput names the tenant of a list.
type ListInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	PageInput
}

// adminRoutes are about who may do what: tokens, users, workspaces and the
// audit log for the admins of a tenant, tenants for the operator.
func (s *Server) adminRoutes() {
	huma.Register(s.huma, op("GET", "/api/v1/me", "get-me", "Who calls", "admin", request.Reader), s.getMe)
	s.tokenRoutes()
	s.tenantRoutes()
	s.userRoutes()
	s.workspaceRoutes()
	s.limitRoutes()
	s.offboardingRoutes()
	huma.Register(s.huma, op("GET", "/api/v1/audit", "list-audit", "Who did what, newest first", "admin", request.Admin), s.listAudit)
	export := op("GET", "/api/v1/audit/export", "export-audit", "Who did what, as JSON lines, oldest first", "admin", request.Admin)
	export.Responses = streamed("application/x-ndjson", "a line of the log in each line; the last ones may not be chained yet, and have no number then")
	huma.Register(s.huma, export, s.exportAudit)
	huma.Register(s.huma, op("POST", "/api/v1/audit/verify", "verify-audit", "Verify the audit log, also against anchors kept elsewhere", "admin", request.Admin), s.VerifyAudit)
	huma.Register(s.huma, op("GET", "/api/v1/audit/anchor", "get-audit-anchor", "The head of the audit log, to keep elsewhere", "admin", request.Admin), s.getAnchor)
}

func created(o huma.Operation) huma.Operation {
	o.DefaultStatus = http.StatusCreated
	return o
}

// Administered returns the operator's store, and the tenant that the caller
// means: operators may name any, others their own, and the error for a
// foreign one is the same as for one that does not exist.
func (s *Server) Administered(ctx context.Context, name string) (*tenant.Directory, tenant.Tenant, error) {
	users, err := s.stores.Operators(ctx)
	if err != nil {
		return nil, tenant.Tenant{}, err
	}
	c := request.CallerOf(ctx)
	if name == "" || name == c.Tenant {
		t, err := s.ownTenant(ctx, users, c)
		return users, t, err
	}
	t, err := users.TenantNamed(ctx, name)
	if err == nil && t.ID != c.Tenant && !c.Operator {
		err = tidemark.NotFoundf("tenant %s: not found", name)
	}
	return users, t, err
}

// ownTenant is the tenant of the caller. On a server for one person it is
// created when it is first needed.
func (s *Server) ownTenant(ctx context.Context, users *tenant.Directory, c request.Caller) (tenant.Tenant, error) {
	if c.Operator && c.Tenant == tidemark.TenantOf(tenant.DefaultTenant, "").Tenant {
		if t, err := users.CreateTenant(ctx, tenant.Tenant{Name: tenant.DefaultTenant}); err == nil {
			return t, nil
		}
	}
	t, err := users.Tenant(ctx, c.Tenant)
	if errors.Is(err, tidemark.ErrNotFound) {
		// Whoever authenticated the caller vouched for the tenant.
		return tenant.Tenant{ID: c.Tenant, State: tenant.Active}, nil
	}
	return t, err
}

// Paged collects a page of a list by id.
func Paged[T any](s *Server, ctx context.Context, in PageInput, list func(after string) iter.Seq2[T, error], id func(T) string) (*struct{ Body Page[T] }, error) {
	caller, after := request.CallerOf(ctx), ""
	if in.Cursor != "" {
		if err := s.ParseCursor(caller, in.Cursor, &after); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	page, most := Page[T]{Items: []T{}}, s.limit(in.Limit)
	for v, err := range list(after) {
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		if len(page.Items) == most {
			page.Next = s.Cursor(caller, id(page.Items[most-1]))
			break
		}
		page.Items = append(page.Items, v)
	}
	return &struct{ Body Page[T] }{page}, nil
}

func (s *Server) getMe(ctx context.Context, _ *struct{}) (*struct{ Body Me }, error) {
	c := request.CallerOf(ctx)
	me := Me{Tenant: c.Tenant, User: c.User, Name: c.Name, Role: c.Role, Token: c.Token, Operator: c.Operator, Workspaces: append([]string{}, c.Workspaces...)}
	if users, err := s.stores.Operators(ctx); err == nil {
		if t, err := users.Tenant(ctx, c.Tenant); err == nil {
			me.TenantName = t.Name
		}
	}
	return &struct{ Body Me }{me}, nil
}

// NewTokenInput says what a new token is for.
type NewTokenInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	Body   struct {
		Name      string       `json:"name" minLength:"1" maxLength:"200"`
		Role      request.Role `json:"role" enum:"reader,writer,admin"`
		Scopes    []string     `json:"scopes,omitempty" maxItems:"32" doc:"the parts of the server that it is for, as in paths: sessions, jobs; none: all"`
		As        string       `json:"as,omitempty" enum:"me,tenant" default:"me" doc:"on whose behalf it acts"`
		ExpiresAt time.Time    `json:"expires_at,omitzero" doc:"the default is in 90 days"`
	}
}

// tokenLife is the default lifetime of a token: long enough to be
// forgotten, short enough to be harmless then.
const tokenLife = 90 * 24 * time.Hour

func (s *Server) tokenRoutes() {
	huma.Register(s.huma, created(op("POST", "/api/v1/tokens", "create-token", "Make a service token", "admin", request.Admin)), s.CreateToken)
	huma.Register(s.huma, op("GET", "/api/v1/tokens", "list-tokens", "List the service tokens", "admin", request.Admin), func(ctx context.Context, in *ListInput) (*struct{ Body Page[tenant.Token] }, error) {
		users, t, err := s.Administered(ctx, in.Tenant)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		return Paged(s, ctx, in.PageInput, func(after string) iter.Seq2[tenant.Token, error] { return users.Tokens(ctx, t.ID, after) }, func(t tenant.Token) string { return t.ID })
	})
	huma.Register(s.huma, op("DELETE", "/api/v1/tokens/{id}", "revoke-token", "Revoke a service token", "admin", request.Admin), func(ctx context.Context, in *byID) (*struct{ Body tenant.Token }, error) {
		users, t, err := s.Administered(ctx, in.Tenant)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		token, err := users.RevokeToken(ctx, t.ID, in.ID)
		if err == nil {
			err = s.stores.AuditIn(ctx, t.ID, "token.revoke", token.ID, tenant.AuditDone)
		}
		return &struct{ Body tenant.Token }{token}, request.Fail(ctx, err)
	})
}

// CreateToken creates a service token, whose text is shown once.
func (s *Server) CreateToken(ctx context.Context, in *NewTokenInput) (*struct{ Body NewToken }, error) {
	c := request.CallerOf(ctx)
	// A token that creates tokens would outlive its own end, and its own
	// scopes.
	if c.Token != "" || !c.Role.May(in.Body.Role) {
		return nil, request.Fail(ctx, tidemark.ErrDenied)
	}
	users, t, err := s.Administered(ctx, in.Tenant)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if c.Ruled && t.ID != c.Tenant {
		return nil, request.Fail(ctx, tidemark.ErrDenied) // it would lead to what people keep there
	}
	if !c.OwnsServer() && slices.ContainsFunc(in.Body.Scopes, func(scope string) bool { return slices.Contains(auth.OperatorScopes, scope) }) {
		return nil, request.Fail(ctx, tidemark.ErrDenied)
	}
	token := tenant.Token{Tenant: t.ID, User: t.ID, Name: in.Body.Name, Role: string(in.Body.Role), Scopes: in.Body.Scopes, CreatedBy: c.User, ExpiresAt: in.Body.ExpiresAt}
	if in.Body.As != "tenant" && t.ID == c.Tenant {
		token.User = c.User
	}
	if token.ExpiresAt.IsZero() {
		token.ExpiresAt = s.o.Now().Add(tokenLife)
	}
	token, text, err := users.CreateToken(ctx, token)
	if err == nil {
		err = s.stores.AuditIn(ctx, t.ID, "token.create", token.ID, tenant.AuditDone)
	}
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &struct{ Body NewToken }{NewToken{token, text}}, nil
}

type newTenantInput struct {
	Body struct {
		Name    string `json:"name" minLength:"1" maxLength:"64"`
		Issuer  string `json:"issuer,omitempty" maxLength:"1000" doc:"the iss of its users' tokens"`
		Foreign string `json:"foreign,omitempty" maxLength:"200" doc:"the tid of its users' tokens, with Entra"`
	}
}

// Operate returns the operator's store, only for operators.
func (s *Server) Operate(ctx context.Context) (*tenant.Directory, error) {
	if !request.CallerOf(ctx).Operator {
		return nil, tidemark.ErrDenied
	}
	return s.stores.Operators(ctx)
}

func (s *Server) tenantRoutes() {
	huma.Register(s.huma, created(op("POST", "/api/v1/tenants", "create-tenant", "Make a tenant", "operator", request.Admin)), func(ctx context.Context, in *newTenantInput) (*struct{ Body tenant.Tenant }, error) {
		users, err := s.Operate(ctx)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		t, err := users.CreateTenant(ctx, tenant.Tenant{Name: in.Body.Name, Issuer: in.Body.Issuer, Foreign: in.Body.Foreign})
		if err == nil {
			err = s.stores.AuditIn(ctx, t.ID, "tenant.create", t.ID, tenant.AuditDone)
		}
		return &struct{ Body tenant.Tenant }{t}, request.Fail(ctx, err)
	})
	huma.Register(s.huma, op("GET", "/api/v1/tenants", "list-tenants", "List the tenants", "operator", request.Admin), func(ctx context.Context, in *PageInput) (*struct{ Body Page[tenant.Tenant] }, error) {
		users, err := s.Operate(ctx)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		return Paged(s, ctx, *in, func(after string) iter.Seq2[tenant.Tenant, error] { return users.Tenants(ctx, after) }, func(t tenant.Tenant) string { return t.ID })
	})
	for verb, state := range map[string]string{"suspend": tenant.Suspended, "resume": tenant.Active} {
		huma.Register(s.huma, op("POST", "/api/v1/tenants/{id}/"+verb, verb+"-tenant", tenantVerbs[verb], "operator", request.Admin), func(ctx context.Context, in *struct {
			ID string `path:"id" maxLength:"128" doc:"its name or id"`
		}) (*struct{ Body tenant.Tenant }, error) {
			users, err := s.Operate(ctx)
			if err != nil {
				return nil, request.Fail(ctx, err)
			}
			t, err := users.TenantNamed(ctx, in.ID)
			if err == nil {
				t, err = users.SetTenantState(ctx, t.ID, state)
			}
			if err == nil {
				err = s.stores.AuditIn(ctx, t.ID, "tenant."+verb, t.ID, tenant.AuditDone)
			}
			return &struct{ Body tenant.Tenant }{t}, request.Fail(ctx, err)
		})
	}
}

var tenantVerbs = map[string]string{"suspend": "Keep the users of a tenant out", "resume": "Let the users of a tenant in again"}

// ChangeUserInput says what to change about a user.
type ChangeUserInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	ID     string `path:"id" maxLength:"128"`
	Body   struct {
		Role  request.Role `json:"role,omitempty" enum:"reader,writer,admin"`
		State string       `json:"state,omitempty" enum:"active,suspended"`
	}
}

func (s *Server) userRoutes() {
	huma.Register(s.huma, op("GET", "/api/v1/users", "list-users", "List the users of the tenant", "admin", request.Admin), func(ctx context.Context, in *ListInput) (*struct{ Body Page[tenant.User] }, error) {
		users, t, err := s.Administered(ctx, in.Tenant)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		return Paged(s, ctx, in.PageInput, func(after string) iter.Seq2[tenant.User, error] { return users.Users(ctx, t.ID, after) }, func(u tenant.User) string { return u.ID })
	})
	huma.Register(s.huma, op("PATCH", "/api/v1/users/{id}", "change-user", "Give a user another role, suspend the user or not", "admin", request.Admin), s.ChangeUser)
}

// ChangeUser changes what a user may do.
func (s *Server) ChangeUser(ctx context.Context, in *ChangeUserInput) (*struct{ Body tenant.User }, error) {
	c := request.CallerOf(ctx)
	if in.ID == c.User && in.Body.State == tenant.Suspended {
		return nil, request.Fail(ctx, tidemark.Invalidf("nobody suspends themselves: somebody has to be left to undo it"))
	}
	if in.Body.Role == "" && in.Body.State == "" {
		return nil, request.Fail(ctx, tidemark.Invalidf("neither a role nor a state"))
	}
	users, t, err := s.Administered(ctx, in.Tenant)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	u, err := users.ChangeUser(ctx, t.ID, in.ID, func(u *tenant.User) error {
		if in.Body.Role != "" {
			u.Role = string(in.Body.Role)
		}
		if in.Body.State != "" {
			u.State = in.Body.State
		}
		return nil
	})
	if err == nil && in.Body.Role != "" {
		err = s.stores.AuditIn(ctx, t.ID, "user.role."+u.Role, u.ID, tenant.AuditDone)
	}
	if err == nil && in.Body.State != "" {
		err = s.stores.AuditIn(ctx, t.ID, "user."+u.State, u.ID, tenant.AuditDone)
	}
	return &struct{ Body tenant.User }{u}, request.Fail(ctx, err)
}

type newWorkspaceInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	Body   struct {
		Name string `json:"name" minLength:"1" maxLength:"64"`
	}
}

func (s *Server) workspaceRoutes() {
	huma.Register(s.huma, created(op("POST", "/api/v1/workspaces", "create-workspace", "Make a workspace", "admin", request.Admin)), func(ctx context.Context, in *newWorkspaceInput) (*struct{ Body tenant.Workspace }, error) {
		users, t, err := s.Administered(ctx, in.Tenant)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		w, err := users.CreateWorkspace(ctx, t.ID, in.Body.Name)
		if err == nil {
			err = s.stores.AuditIn(ctx, t.ID, "workspace.create", w.ID, tenant.AuditDone)
		}
		return &struct{ Body tenant.Workspace }{w}, request.Fail(ctx, err)
	})
	huma.Register(s.huma, op("GET", "/api/v1/workspaces", "list-workspaces", "List the workspaces of the tenant", "admin", request.Reader), func(ctx context.Context, in *ListInput) (*struct{ Body Page[tenant.Workspace] }, error) {
		users, t, err := s.Administered(ctx, in.Tenant)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		return Paged(s, ctx, in.PageInput, func(after string) iter.Seq2[tenant.Workspace, error] { return users.Workspaces(ctx, t.ID, after) }, func(w tenant.Workspace) string { return w.ID })
	})
	for method, member := range map[string]bool{"PUT": true, "DELETE": false} {
		id, summary := "add-member", "Make a user a member of a workspace"
		if !member {
			id, summary = "remove-member", "End a user's membership of a workspace"
		}
		huma.Register(s.huma, op(method, "/api/v1/workspaces/{id}/members/{user}", id, summary, "admin", request.Admin), func(ctx context.Context, in *struct {
			Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
			ID     string `path:"id" maxLength:"128"`
			User   string `path:"user" maxLength:"128"`
		}) (*struct{ Body tenant.User }, error) {
			users, t, err := s.Administered(ctx, in.Tenant)
			if err != nil {
				return nil, request.Fail(ctx, err)
			}
			u, err := users.Join(ctx, t.ID, in.ID, in.User, member)
			if err == nil {
				err = s.stores.AuditIn(ctx, t.ID, "workspace."+id, in.ID+"/"+in.User, tenant.AuditDone)
			}
			return &struct{ Body tenant.User }{u}, request.Fail(ctx, err)
		})
	}
}

// auditSearch is how many lines of the audit log are looked through for one page
// of those that match.
const auditSearch = 20_000

// listAudit reads the audit log, the newest first.
func (s *Server) listAudit(ctx context.Context, in *struct {
	ListInput
	tenant.AuditFilter
}) (*struct{ Body Page[tenant.AuditLine] }, error) {
	match, err := in.Match(nil)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return s.FindAudit(ctx, &in.ListInput, match)
}

// FindAudit reads the lines of the audit log that match, the newest first; nil: all
// of them. A page may have fewer than were asked for, and still a next one.
func (s *Server) FindAudit(ctx context.Context, in *ListInput, match func(tenant.AuditLine) bool) (*struct{ Body Page[tenant.AuditLine] }, error) {
	if s.o.NoAudit {
		return nil, request.Fail(ctx, stores.ErrNoAudit())
	}
	users, t, err := s.Administered(ctx, in.Tenant)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	caller, before := request.CallerOf(ctx), int64(0)
	if in.Cursor != "" {
		if err := s.ParseCursor(caller, in.Cursor, &before); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	most := s.limit(in.Limit)
	through := most
	if match == nil {
		match = func(tenant.AuditLine) bool { return true }
	} else {
		through = auditSearch
	}
	page := Page[tenant.AuditLine]{Items: []tenant.AuditLine{}}
	var fresh []tenant.AuditLine
	if in.Cursor == "" {
		if fresh, err = s.stores.Unchained(ctx, users, t.ID, most); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	read := 0
	// The first line has number 1; there is nothing before it.
	if before != 1 {
		for l, err := range users.AuditLines(ctx, t.ID, tidemark.Span{To: max(before-1, 0), Newest: through, Backwards: true}) {
			if err != nil {
				l.Action, l.Outcome = "damaged", "damaged"
			}
			read, before = read+1, l.Seq
			if match(l) || err != nil {
				page.Items = append(page.Items, l)
			}
			if len(page.Items) == most {
				break
			}
		}
	}
	if (len(page.Items) == most || read == through) && before > 1 {
		page.Next = s.Cursor(caller, before)
	}
	fresh = slices.DeleteFunc(tenant.NotIn(fresh, page.Items), func(l tenant.AuditLine) bool { return !match(l) })
	page.Items = append(fresh, page.Items...)
	return &struct{ Body Page[tenant.AuditLine] }{page}, nil
}

// ExportAudit yields the lines of an audit log that match, the oldest first, and
// behind them those that are not chained yet. An unreadable one comes with its
// error.
func (s *Server) ExportAudit(ctx context.Context, of string, match func(tenant.AuditLine) bool) (iter.Seq2[tenant.AuditLine, error], error) {
	if s.o.NoAudit {
		return nil, stores.ErrNoAudit()
	}
	users, t, err := s.Administered(ctx, of)
	if err != nil {
		return nil, err
	}
	from, err := s.stores.Acts(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	return users.ExportAudit(ctx, t.ID, from, match)
}

// exportAudit answers with the lines of the audit log that are meant, as JSON lines.
func (s *Server) exportAudit(ctx context.Context, in *struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	tenant.AuditFilter
}) (*huma.StreamResponse, error) {
	match, err := in.Match(nil)
	var lines iter.Seq2[tenant.AuditLine, error]
	if err == nil {
		lines, err = s.ExportAudit(ctx, in.Tenant, match)
	}
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", "application/x-ndjson")
		hc.SetHeader("Content-Disposition", `attachment; filename="audit.jsonl"`)
		Cut(ctx, tenant.WriteAudit(hc.BodyWriter(), lines))
	}}, nil
}

// VerifyAuditInput says which audit log, and an earlier head.
type VerifyAuditInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	Body   struct {
		Anchors []tenant.Anchor `json:"anchors,omitempty" maxItems:"10000" doc:"heads that the log once had, kept elsewhere"`
	}
}

// VerifyAudit checks that nothing of the audit log was changed.
func (s *Server) VerifyAudit(ctx context.Context, in *VerifyAuditInput) (*struct{ Body tenant.AuditReport }, error) {
	if s.o.NoAudit {
		return nil, request.Fail(ctx, stores.ErrNoAudit())
	}
	users, t, err := s.Administered(ctx, in.Tenant)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	anchors, err := users.Anchors(ctx, t.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	anchors = append(anchors, in.Body.Anchors...)
	from, err := s.stores.Acts(ctx, t.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	report, err := users.ReportAudit(ctx, t.ID, from, anchors, nil)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &struct{ Body tenant.AuditReport }{report}, nil
}

func (s *Server) getAnchor(ctx context.Context, in *struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
}) (*struct{ Body tenant.Anchor }, error) {
	users, t, err := s.Administered(ctx, in.Tenant)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	head, err := users.AuditHead(ctx, t.ID)
	return &struct{ Body tenant.Anchor }{head}, request.Fail(ctx, err)
}
