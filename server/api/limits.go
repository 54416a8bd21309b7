package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// LimitsOf are the limits of a tenant or a user, and how much of them is used.
type LimitsOf struct {
	Limits  tenant.UsageLimits `json:"limits" doc:"what is said for them by name; what is missing is left to the settings of each server"`
	Allowed tenant.UsageLimits `json:"allowed" doc:"what counts at this server; what is missing, or -1, is not limited"`
	Kept    tenant.Kept        `json:"kept" doc:"as it was last counted, which is done while a limit asks for it"`
}

// SetLimitsInput says what a tenant or a user may have at most.
type SetLimitsInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the user's tenant; the default is the caller's"`
	ID     string `path:"id" maxLength:"128"`
	Body   tenant.UsageLimits
}

func (s *Server) limitRoutes() {
	huma.Register(s.huma, op("GET", "/api/v1/me/limits", "get-my-limits", "How much of their limits the caller and the tenant use", "admin", request.Reader), func(ctx context.Context, _ *struct{}) (*struct{ Body []request.Use }, error) {
		uses, err := s.Uses(ctx)
		return &struct{ Body []request.Use }{uses}, request.Fail(ctx, err)
	})
	huma.Register(s.huma, op("GET", "/api/v1/tenants/{id}/limits", "get-tenant-limits", "What a tenant may have, and keeps", "operator", request.Admin), func(ctx context.Context, in *byID) (*struct{ Body LimitsOf }, error) {
		_, t, err := s.operatedTenant(ctx, in.ID)
		return s.limitsOf(ctx, t.ID, "", err)
	})
	huma.Register(s.huma, op("PUT", "/api/v1/tenants/{id}/limits", "set-tenant-limits", "Say what a tenant may have at most", "operator", request.Admin), func(ctx context.Context, in *SetLimitsInput) (*struct{ Body LimitsOf }, error) {
		users, t, err := s.operatedTenant(ctx, in.ID)
		return s.setLimits(ctx, users, t.ID, "", in.Body, err)
	})
	huma.Register(s.huma, op("GET", "/api/v1/users/{id}/limits", "get-user-limits", "What a user may have, and keeps", "admin", request.Admin), func(ctx context.Context, in *byID) (*struct{ Body LimitsOf }, error) {
		users, t, err := s.Administered(ctx, in.Tenant)
		if err == nil {
			_, err = users.User(ctx, t.ID, in.ID)
		}
		return s.limitsOf(ctx, t.ID, in.ID, err)
	})
	huma.Register(s.huma, op("PUT", "/api/v1/users/{id}/limits", "set-user-limits", "Say what a user may have at most", "operator", request.Admin), func(ctx context.Context, in *SetLimitsInput) (*struct{ Body LimitsOf }, error) {
		users, err := s.Operate(ctx)
		var t tenant.Tenant
		if err == nil {
			_, t, err = s.Administered(ctx, in.Tenant)
		}
		if err == nil {
			_, err = users.User(ctx, t.ID, in.ID)
		}
		return s.setLimits(ctx, users, t.ID, in.ID, in.Body, err)
	})
}

// operatedTenant returns a tenant by its name or id, only for operators.
func (s *Server) operatedTenant(ctx context.Context, name string) (*tenant.Directory, tenant.Tenant, error) {
	users, err := s.Operate(ctx)
	if err != nil {
		return nil, tenant.Tenant{}, err
	}
	t, err := users.TenantNamed(ctx, name)
	return users, t, err
}

// Uses returns how much of their limits the caller and the tenant use.
func (s *Server) Uses(ctx context.Context) ([]request.Use, error) {
	c := request.CallerOf(ctx)
	kept, err := s.stores.Kept(ctx, c.Principal, true)
	return append(append([]request.Use{}, kept...), s.stores.Quotas().Uses(ctx, c)...), err
}

// Limits returns the limits of a user or, without one, of a tenant. Who may see them
// is decided by whoever calls it.
func (s *Server) Limits(ctx context.Context, of, user string) (l LimitsOf, err error) {
	users, err := s.stores.Operators(ctx)
	if err != nil {
		return l, err
	}
	if l.Limits, err = users.Limits(ctx, of, user); err != nil {
		return l, err
	}
	forUser, forTenant := s.stores.Quotas().Allowed(ctx, of, user)
	if l.Allowed = forUser; user == "" {
		l.Allowed = forTenant
	}
	by, err := s.stores.KeptBy(ctx, of)
	if l.Kept = by[user]; user == "" {
		l.Kept = tenant.SumKept(by)
	}
	return l, err
}

func (s *Server) limitsOf(ctx context.Context, of, user string, err error) (*struct{ Body LimitsOf }, error) {
	var l LimitsOf
	if err == nil {
		l, err = s.Limits(ctx, of, user)
	}
	return &struct{ Body LimitsOf }{l}, request.Fail(ctx, err)
}

func (s *Server) setLimits(ctx context.Context, users *tenant.Directory, of, user string, to tenant.UsageLimits, err error) (*struct{ Body LimitsOf }, error) {
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if _, err := users.ChangeLimits(ctx, of, user, func(l *tenant.UsageLimits) error { *l = to; return nil }); err != nil {
		return nil, request.Fail(ctx, err)
	}
	s.stores.LimitsChanged()
	what, thing := "user.limits", user
	if user == "" {
		what, thing = "tenant.limits", of
	}
	return s.limitsOf(ctx, of, user, s.stores.AuditIn(ctx, of, what, thing, tenant.AuditDone))
}
