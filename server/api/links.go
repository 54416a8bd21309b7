package api

import (
	"bytes"
	"context"
	"io"
	"iter"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// Links lead strangers to sealed copies of sessions. These calls are of who made them;
// package server answers to strangers.

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
