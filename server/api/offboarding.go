package api

import (
	"context"
	"fmt"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// EraseInput says what to erase.
type EraseInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	ID     string `path:"id" maxLength:"128"`
	Body   struct {
		Confirm     string `json:"confirm" maxLength:"128" doc:"the id again: nothing brings back what is erased"`
		UnseenHolds bool   `json:"unseen_holds,omitempty" doc:"erase what is sealed though the server cannot see whether sessions in it are on hold"`
	}
}

// HandOverUserInput says whose sessions go to whom.
type HandOverUserInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	ID     string `path:"id" maxLength:"128"`
	Body   struct {
		To string `json:"to" minLength:"1" maxLength:"128" doc:"the id of another user of the tenant"`
	}
}

// offboardingRoutes are about people and tenants that leave.
func (s *Server) offboardingRoutes() {
	if s.o.Offboarding == nil {
		return
	}
	huma.Register(s.huma, op("POST", "/api/v1/users/{id}/erase", "erase-user", "Erase everything that a user has, and what is known about them", "admin", request.Admin), s.EraseUser)
	huma.Register(s.huma, op("GET", "/api/v1/users/{id}/erasure", "get-user-erasure", "What was erased of a user, what is on hold, and what is left", "admin", request.Admin), func(ctx context.Context, in *byID) (*struct{ Body tenant.Erasure }, error) {
		users, t, err := s.Administered(ctx, in.Tenant)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		u, err := users.User(ctx, t.ID, in.ID)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		e, err := users.Erasure(ctx, t.ID, u.ID)
		return &struct{ Body tenant.Erasure }{e}, request.Fail(ctx, err)
	})
	huma.Register(s.huma, op("POST", "/api/v1/users/{id}/hand-over", "hand-over-user", "Give the sessions of a user to another", "admin", request.Admin), s.HandOverUser)
	huma.Register(s.huma, op("GET", "/api/v1/users/{id}/export", "export-user", "Everything about one person, as a ZIP file", "admin", request.Admin), s.exportUser)
	huma.Register(s.huma, op("POST", "/api/v1/tenants/{id}/erase", "erase-tenant", "Erase a tenant and everything in it", "operator", request.Admin), s.EraseTenant)
	huma.Register(s.huma, op("GET", "/api/v1/tenants/{id}/erasure", "get-tenant-erasure", "What was erased of a tenant, what is on hold, and what is left", "operator", request.Admin), func(ctx context.Context, in *struct {
		ID string `path:"id" maxLength:"128" doc:"its name or id"`
	}) (*struct{ Body tenant.Erasure }, error) {
		users, err := s.Operate(ctx)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		e, err := users.Erasure(ctx, in.ID, "")
		if err != nil {
			e, err = users.Erasure(ctx, tidemark.TenantOf(in.ID, "").Tenant, "")
		}
		return &struct{ Body tenant.Erasure }{e}, request.Fail(ctx, err)
	})
}

// offboarding returns what does it, for the caller.
func (s *Server) offboarding(ctx context.Context) *transfer.Offboarding {
	x := *s.o.Offboarding
	x.By = request.CallerOf(ctx).User
	return &x
}

// EraseUser erases what a user has.
func (s *Server) EraseUser(ctx context.Context, in *EraseInput) (*struct{ Body tenant.Erasure }, error) {
	users, t, err := s.Administered(ctx, in.Tenant)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	u, err := users.User(ctx, t.ID, in.ID)
	switch {
	case err != nil:
		return nil, request.Fail(ctx, err)
	case in.Body.Confirm != u.ID:
		return nil, request.Fail(ctx, tidemark.Invalidf("confirm is not the id of the user: nothing was erased"))
	case u.ID == request.CallerOf(ctx).User:
		return nil, request.Fail(ctx, tidemark.Invalidf("nobody erases themselves: somebody has to be left to see to it"))
	}
	x := s.offboarding(ctx)
	x.Users, x.UnseenHolds = users, in.Body.UnseenHolds
	e, err := x.User(ctx, t, u)
	if err == nil {
		err = s.stores.AuditIn(ctx, t.ID, "user.erase", u.ID, tenant.AuditDone)
	}
	return &struct{ Body tenant.Erasure }{e}, request.Fail(ctx, err)
}

// HandOverUser gives the sessions of a user to another.
func (s *Server) HandOverUser(ctx context.Context, in *HandOverUserInput) (*struct{ Body transfer.HandedOver }, error) {
	if err := noSessions(ctx, in.Tenant); err != nil {
		return nil, request.Fail(ctx, err)
	}
	users, t, err := s.Administered(ctx, in.Tenant)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	from, err := users.User(ctx, t.ID, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	to, err := users.User(ctx, t.ID, in.Body.To)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	x := s.offboarding(ctx)
	x.Users = users
	h, err := x.HandOver(ctx, t, from, to)
	if err == nil {
		err = s.stores.AuditIn(ctx, t.ID, "user.hand-over", from.ID, tenant.AuditDone)
	}
	return &struct{ Body transfer.HandedOver }{h}, request.Fail(ctx, err)
}

// EraseTenant erases a tenant.
func (s *Server) EraseTenant(ctx context.Context, in *EraseInput) (*struct{ Body tenant.Erasure }, error) {
	users, err := s.Operate(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	t, err := users.TenantNamed(ctx, in.ID)
	switch {
	case err != nil:
		return nil, request.Fail(ctx, err)
	case in.Body.Confirm != t.Name && in.Body.Confirm != t.ID:
		return nil, request.Fail(ctx, tidemark.Invalidf("confirm is neither the name nor the id of the tenant: nothing was erased"))
	case t.ID == request.CallerOf(ctx).Tenant:
		return nil, request.Fail(ctx, tidemark.Invalidf("nobody erases their own tenant: somebody has to be left to see to it"))
	}
	x := s.offboarding(ctx)
	x.Users, x.UnseenHolds = users, in.Body.UnseenHolds
	e, err := x.Tenant(ctx, t)
	if err == nil {
		err = s.stores.AuditIn(ctx, t.ID, "tenant.erase", t.ID, tenant.AuditDone)
	}
	return &struct{ Body tenant.Erasure }{e}, request.Fail(ctx, err)
}

// exportUser answers with everything about one person.
func (s *Server) exportUser(ctx context.Context, in *byID) (*huma.StreamResponse, error) {
	u, write, err := s.ExportUser(ctx, in.Tenant, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &huma.StreamResponse{Body: func(h huma.Context) {
		h.SetHeader("Content-Type", "application/zip")
		h.SetHeader("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.zip"`, u.ID))
		Cut(h.Context(), write(h.BodyWriter()))
	}}, nil
}

// noSessions returns ErrDenied for an operator who does not own the server, and who is
// never led to what people keep; but for one whose tenant it is, of whom it is an admin.
func noSessions(ctx context.Context, of string) error {
	c := request.CallerOf(ctx)
	if c.Operator && !c.OwnsServer() && (c.Token != "" || of != "" && of != c.Tenant) {
		return tidemark.ErrDenied
	}
	return nil
}

// ExportUser returns what writes everything about one person, as a ZIP file.
func (s *Server) ExportUser(ctx context.Context, of, id string) (u tenant.User, write func(io.Writer) error, err error) {
	if err := noSessions(ctx, of); err != nil {
		return u, nil, err
	}
	users, t, err := s.Administered(ctx, of)
	if err != nil {
		return u, nil, err
	}
	if u, err = users.User(ctx, t.ID, id); err != nil {
		return u, nil, err
	}
	if err := s.stores.AuditIn(ctx, t.ID, "user.export", u.ID, tenant.AuditDone); err != nil {
		return u, nil, err
	}
	x := s.offboarding(ctx)
	x.Users = users
	return u, func(w io.Writer) error { return x.Export(ctx, w, t, u) }, nil
}

// Offboards reports whether this server erases, hands over and exports.
func (s *Server) Offboards() bool { return s.o.Offboarding != nil }
