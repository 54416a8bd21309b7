package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// op describes one call: the required role is part of the description, so
// that whatever is generated from it knows it as well.
func op(method, path, id, summary, group string, need request.Role) huma.Operation {
	return huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary, Tags: []string{group},
		Security:     []map[string][]string{{"bearer": {}}},
		Extensions:   map[string]any{"x-tidemark-role": string(need)},
		MaxBodyBytes: -1, BodyReadTimeout: -1, // the guard and the listener bound both
		Errors: []int{400, 401, 403, 404, 409, 413, 422, 429, 503},
		Middlewares: huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
			if !request.CallerOf(ctx.Context()).Role.May(need) {
				writeProblem(ctx, tidemark.ErrDenied)
				return
			}
			next(ctx)
		}},
	}
}

const (
	// maxFieldErrors and maxFieldText bound the answer about an invalid body:
	// one with a thousand mistakes is not answered with a larger one.
	maxFieldErrors = 20
	maxFieldText   = 300
)

// writeProblem answers a request of huma's with an error.
func writeProblem(ctx huma.Context, err error) {
	p := request.Named(request.Problem(err), request.ID(ctx.Context()))
	ctx.SetHeader("Content-Type", "application/problem+json")
	if p.RetryAfter > 0 {
		ctx.SetHeader("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	ctx.SetStatus(p.Status)
	json.NewEncoder(ctx.BodyWriter()).Encode(p)
}

// humaConfig is the configuration of huma, without three of its defaults: pages
// that load scripts from elsewhere, links that echo the host of the request, and
// errors that echo what was sent.
func humaConfig(version string) huma.Config {
	ownProblems()
	c := huma.DefaultConfig("Tidemark", version)
	c.DocsPath = ""
	c.CreateHooks = nil
	c.Info.Description = "Durable sessions for AI agents. Errors are problem+json; lists have cursors; streams resume by Last-Event-ID."
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", Description: "the token of the local server, a service token, or one of the issuer"},
	}
	return c
}

// unreadBody is huma's message for a truncated body, or one with invalid
// chunks.
const unreadBody = "cannot read request body"

// ownProblems turns huma's own errors into ours. It sets a variable of that
// package, so it is done once for the whole process.
var ownProblems = sync.OnceFunc(func() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		if message == unreadBody {
			status = http.StatusBadRequest // the client's fault
		}
		p := &api.Problem{Status: status, Title: http.StatusText(status), Detail: text.Shorten(message, maxFieldText), Code: "invalid"}
		for _, err := range errs {
			if len(p.Errors) == maxFieldErrors {
				break
			}
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				return request.TooLarge(large.Limit)
			}
			var d *huma.ErrorDetail
			switch {
			case errors.As(err, &d):
				p.Errors = append(p.Errors, api.FieldError{Where: text.Shorten(d.Location, maxFieldText), What: text.Shorten(d.Message, maxFieldText)})
			case err != nil && status < 500:
				p.Errors = append(p.Errors, api.FieldError{What: text.Shorten(err.Error(), maxFieldText)})
			}
		}
		if status >= 500 {
			p.Code = tidemark.CodeOf(errors.New("failed")).Name
		}
		return p
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		err := huma.NewError(status, message, errs...)
		var p *api.Problem
		if errors.As(err, &p) {
			return request.Named(p, request.ID(ctx.Context()))
		}
		return err
	}
})

// OpenAPI returns the description of everything that the server answers.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.huma.OpenAPI() }
