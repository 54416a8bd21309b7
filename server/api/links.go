package api

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"iter"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// Links lead strangers to sealed copies of sessions. These calls are of who made them,
// and of who looks after the tenant; package server answers to strangers.

func (s *Server) linkRoutes() {
	put := op("PUT", request.LinksPath+"/{name}", "put-link", "Keep a sealed copy of a session for whoever has the link", "links", request.Writer)
	put.RequestBody = rawBody("the copy, encrypted under a key that the server does not get")
	huma.Register(s.huma, put, s.putLink)
	huma.Register(s.huma, op("GET", request.LinksPath, "list-links", "Your links, also those that ended within the last month", "links", request.Reader), func(ctx context.Context, in *PageInput) (*struct{ Body Page[tenant.Link] }, error) {
		users, err := s.stores.Operators(ctx)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		c := request.CallerOf(ctx)
		return Paged(s, ctx, *in, func(after string) iter.Seq2[tenant.Link, error] { return users.Links(ctx, c.Tenant, c.User, after) }, func(l tenant.Link) string { return l.Name })
	})
	huma.Register(s.huma, op("DELETE", request.LinksPath+"/{name}", "revoke-link", "Remove the copy that a link leads to", "links", request.Writer), func(ctx context.Context, in *LinkPath) (*struct{ Body tenant.Link }, error) {
		users, err := s.stores.Operators(ctx)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		c := request.CallerOf(ctx)
		l, err := users.RevokeLink(ctx, c.Tenant, c.User, in.Name)
		return &struct{ Body tenant.Link }{l}, request.Fail(ctx, err)
	})
	// They are beside the users, and not beside one's own links: a token that is for
	// users is for them, and so is an operator's.
	huma.Register(s.huma, op("GET", "/api/v1/users/links", "list-user-links", "The links of all users of the tenant, also those that ended within the last month", "admin", request.Admin), s.UserLinks)
	huma.Register(s.huma, op("DELETE", "/api/v1/users/links/{name}", "revoke-user-link", "Remove the copy that a link of any user of the tenant leads to", "admin", request.Admin), s.RevokeUserLink)
}

// UserLink is a link with the name of who made it.
type UserLink struct {
	tenant.Link
	Owner string `json:"owner,omitempty" doc:"what the user is called; empty: the tenant itself, or somebody who is not known any more"`
}

// UserLinks lists the links of all users of a tenant. Nothing in it leads to a copy: a
// link without its key does not.
func (s *Server) UserLinks(ctx context.Context, in *ListInput) (*struct{ Body Page[UserLink] }, error) {
	users, t, err := s.Administered(ctx, in.Tenant)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	page, err := Paged(s, ctx, in.PageInput, func(after string) iter.Seq2[tenant.Link, error] { return users.TenantLinks(ctx, t.ID, after) }, func(l tenant.Link) string { return l.Name })
	if err != nil {
		return nil, err
	}
	called := make(map[string]string)
	out := Page[UserLink]{Items: []UserLink{}, Next: page.Body.Next}
	for _, l := range page.Body.Items {
		name, known := called[l.User]
		if !known {
			if u, err := users.User(ctx, t.ID, l.User); err == nil {
				name = cmp.Or(u.Email, u.Name, u.Subject)
			}
			called[l.User] = name
		}
		out.Items = append(out.Items, UserLink{l, name})
	}
	return &struct{ Body Page[UserLink] }{out}, nil
}

// UserLinkInput names a link of a user of a tenant.
type UserLinkInput struct {
	Tenant string `query:"tenant" maxLength:"64" doc:"the name or id of the tenant, for operators; the default is the caller's"`
	LinkPath
}

// RevokeUserLink ends a link of any user of a tenant.
func (s *Server) RevokeUserLink(ctx context.Context, in *UserLinkInput) (*struct{ Body tenant.Link }, error) {
	users, t, err := s.Administered(ctx, in.Tenant)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	l, err := users.RevokeTenantLink(ctx, t.ID, request.CallerOf(ctx).User, in.Name)
	if err == nil {
		err = s.stores.AuditIn(ctx, t.ID, "link.revoke", l.Thing(), tenant.AuditDone)
	}
	return &struct{ Body tenant.Link }{l}, request.Fail(ctx, err)
}

// LinkPath is the link that a call is about.
type LinkPath struct {
	Name string `path:"name" maxLength:"64" doc:"26 random letters of a-z and 2-7, made by who makes the link"`
}

type putLinkInput struct {
	LinkPath
	BodyInput
	ExpiresAt time.Time `query:"expires_at" required:"true" doc:"when the copy is removed, within 366 days"`
	Session   string    `query:"session" maxLength:"64" doc:"which session it is a copy of, for your own list"`
}

func (s *Server) putLink(ctx context.Context, in *putLinkInput) (*struct{ Body tenant.Link }, error) {
	if in.Session != "" {
		if _, err := tidemark.ParseSessionID(in.Session); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	var sealed bytes.Buffer
	n, err := io.Copy(&sealed, io.LimitReader(request.Weighed(ctx, in.body, request.LineWeights), tenant.MaxLinkBytes+1))
	if err == nil && n > tenant.MaxLinkBytes {
		err = request.TooLarge(tenant.MaxLinkBytes)
	}
	if err != nil {
		return nil, request.Fail(ctx, in.explain(err))
	}
	users, err := s.stores.Operators(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	c := request.CallerOf(ctx)
	l, err := users.PutLink(ctx, tenant.Link{Name: in.Name, Tenant: c.Tenant, User: c.User, Session: in.Session, ExpiresAt: in.ExpiresAt}, sealed.Bytes())
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &struct{ Body tenant.Link }{l}, nil
}
