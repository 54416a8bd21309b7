package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// problem is an error as a client gets it.
func problem(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		return p
	}
	p = api.ProblemOf(err)
	if p.Code == "storage" && !errors.Is(err, syscall.ENOSPC) {
		// Most often the database is away, and a client that tries again finds
		// it there. Where it is, is nobody's business.
		p = away("the store cannot be reached; nothing was changed by halves").(*api.Problem)
	}
	var database interface{ SQLState() string }
	if p.Status < 500 && errors.As(err, &database) {
		// What a database says names it, its tables and its role.
		p.Detail = "the store does not take this"
	}
	return p
}

const (
	// maxFieldErrors and maxFieldText bound what is said about a body: one with
	// a thousand things wrong is not answered with a larger one.
	maxFieldErrors = 20
	maxFieldText   = 300
)

// clipText cuts what was made of what a client sent.
func clipText(s string) string {
	if len(s) <= maxFieldText {
		return s
	}
	return strings.ToValidUTF8(s[:maxFieldText], "") + "…"
}

// fail returns an error for huma to write. What went wrong inside is for the
// log; a client is told only what it can do something about.
func fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if late := refusedSince(ctx); late != nil && errors.Is(err, context.Canceled) {
		err = late
	}
	p := named(problem(err), requestID(ctx))
	if p.Status >= 500 {
		note(ctx, "error", err.Error())
	}
	return p
}

// named returns p with the id of the request, by which whoever runs the server
// finds it in the log.
func named(p *api.Problem, request string) *api.Problem {
	if p.Instance != "" {
		return p
	}
	q := *p // some are shared
	q.Instance = request
	return &q
}

// writeProblem answers a request of huma's with an error.
func writeProblem(ctx huma.Context, err error) {
	p := named(problem(err), requestID(ctx.Context()))
	ctx.SetHeader("Content-Type", "application/problem+json")
	if p.RetryAfter > 0 {
		ctx.SetHeader("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	ctx.SetStatus(p.Status)
	json.NewEncoder(ctx.BodyWriter()).Encode(p)
}

// answerProblem answers any request with an error.
func answerProblem(w http.ResponseWriter, err error) {
	p := named(problem(err), w.Header().Get("X-Request-Id"))
	w.Header().Set("Content-Type", "application/problem+json")
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tidemark"`)
	}
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// config is what huma does, but for three of its ways: pages that load scripts
// from elsewhere, links that echo the host of the request, and errors that
// echo what was sent.
func config(version string) huma.Config {
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

// unreadBody is what huma says of a body that ended before its end, or is not
// in chunks as it says.
const unreadBody = "cannot read request body"

// ownProblems makes huma's own errors problems of ours. It is a variable of
// that package, so it is set once for the whole process.
var ownProblems = sync.OnceFunc(func() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		if message == unreadBody {
			status = http.StatusBadRequest // the client's doing
		}
		p := &api.Problem{Status: status, Title: http.StatusText(status), Detail: clipText(message), Code: "invalid"}
		for _, err := range errs {
			if len(p.Errors) == maxFieldErrors {
				break
			}
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				return tooLarge(large.Limit)
			}
			var d *huma.ErrorDetail
			switch {
			case errors.As(err, &d):
				p.Errors = append(p.Errors, api.FieldError{Where: clipText(d.Location), What: clipText(d.Message)})
			case err != nil && status < 500:
				p.Errors = append(p.Errors, api.FieldError{What: clipText(err.Error())})
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
			return named(p, requestID(ctx.Context()))
		}
		return err
	}
})
