// Package request is what every package of the server knows about one request:
// who makes it, what the log says about it, how much memory it may use, and the
// problem that it is answered with. It opens no store and has no routes.
//
//	caller := request.CallerOf(ctx)
//	request.Note(ctx, "error", err.Error())
//	request.AnswerProblem(w, err)
package request

import (
	"context"
	"net/http"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Role is what a caller may do; each role includes the one before.
type Role string

// The roles.
const (
	Reader Role = "reader" // reads
	Writer Role = "writer" // reads and writes sessions, runs and cancels jobs
	Admin  Role = "admin"  // tokens, users, the audit log of the tenant
)

// Roles are all of them, from the least to the most.
var Roles = []Role{Reader, Writer, Admin}

// May reports whether r includes want.
func (r Role) May(want Role) bool {
	return slices.Index(Roles, r) >= slices.Index(Roles, want) && slices.Contains(Roles, want)
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
	// Operator means that the caller sees to all tenants. Ruled means that a rule of an
	// issuer says so: like a token of the scope, it leads to nothing that people of
	// other tenants keep.
	Operator, Ruled bool
}

// OwnsServer reports whether the caller is the person whose server it is, and not
// somebody who operates it for others.
func (c Caller) OwnsServer() bool { return c.Operator && c.Token == "" && !c.Ruled }

// Authenticator determines who makes a request; ErrDenied for an unknown
// caller.
type Authenticator interface {
	Authenticate(*http.Request) (Caller, error)
}

type callerKey struct{}

// CallerOf returns who makes the request that ctx belongs to.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// WithCaller returns a context of a request that c makes.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}
