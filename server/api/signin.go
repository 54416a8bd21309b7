package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// linker makes sign-in links.
type linker interface{ NewCode() string }

// signInRoutes are for programs that sign a browser in.
func (s *Server) signInRoutes() {
	o := op("POST", "/api/v1/signin-code", "make-signin-code", "Make a code that signs a browser in, once", "admin", request.Admin)
	huma.Register(s.huma, status(o, http.StatusCreated), s.makeSignInCode)
}

type signInCodeOutput struct {
	Body struct {
		Path string    `json:"path" doc:"where the browser goes, on this server"`
		Code string    `json:"code"`
		Till time.Time `json:"till" doc:"it works until then, and once"`
	}
}

func (s *Server) makeSignInCode(ctx context.Context, _ *struct{}) (*signInCodeOutput, error) {
	if !request.CallerOf(ctx).OwnsServer() {
		return nil, request.Fail(ctx, tidemark.ErrDenied)
	}
	l, ok := s.o.SignIn.(linker)
	if !ok {
		return nil, request.Fail(ctx, tidemark.Unsupportedf("people sign in to this server with their organisation; there are no links"))
	}
	var out signInCodeOutput
	out.Body.Code = l.NewCode()
	out.Body.Path, out.Body.Till = "/signin?code="+out.Body.Code, s.o.Now().Add(auth.CodeLife)
	return &out, nil
}
