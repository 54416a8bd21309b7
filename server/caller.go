package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
)

// Role is what a caller may do: each role may do what the one before may.
type Role string

// The roles.
const (
	Reader Role = "reader" // reads
	Writer Role = "writer" // reads and writes sessions, runs and cancels jobs
	Admin  Role = "admin"  // tokens, users, the audit log of the tenant
)

var roles = []Role{Reader, Writer, Admin}

// May reports whether r includes want.
func (r Role) May(want Role) bool {
	return slices.Index(roles, r) >= slices.Index(roles, want) && slices.Contains(roles, want)
}

// Caller is who makes a request.
type Caller struct {
	tidemark.Principal
	Name  string // for people and for the audit log
	Role  Role
	Token string // the id of the service token, "" when a person calls
	// Scopes are the parts of the server that the token is for; none: all of
	// the API.
	Scopes []string
	// Operator says that the caller may make and suspend tenants.
	Operator bool
}

// Authenticator says who makes a request: ErrDenied when nobody who is known.
type Authenticator interface {
	Authenticate(*http.Request) (Caller, error)
}

type callerKey struct{}

// CallerOf returns who makes the request that ctx belongs to.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

func withCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// op describes one call: who may make it stands in the description itself, so
// that whatever is generated from it knows as well.
func op(method, path, id, summary, group string, need Role) huma.Operation {
	return huma.Operation{
		Method: method, Path: path, OperationID: id, Summary: summary, Tags: []string{group},
		Security:     []map[string][]string{{"bearer": {}}},
		Extensions:   map[string]any{"x-tidemark-role": string(need)},
		MaxBodyBytes: -1, BodyReadTimeout: -1, // the guard and the listener bound both
		Errors: []int{400, 401, 403, 404, 409, 413, 422, 429, 503},
		Middlewares: huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
			if !CallerOf(ctx.Context()).Role.May(need) {
				writeProblem(ctx, tidemark.ErrDenied)
				return
			}
			next(ctx)
		}},
	}
}
