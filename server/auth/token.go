package auth

import (
	"context"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// maxBearer bounds the text of a token. Those of large directories, with many
// groups in them, have some 8 KiB.
const maxBearer = 16 << 10

// bearer returns the token of a request; ok is false when there is none, and
// the error means that it cannot be one.
func bearer(r *http.Request) (token string, ok bool, err error) {
	values := r.Header.Values("Authorization")
	switch {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", true, refuse("several tokens")
	}
	scheme, token, found := strings.Cut(values[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxBearer {
		return "", true, refuse("malformed")
	}
	for i := range len(token) {
		switch c := token[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '.', c == '_', c == '~', c == '+', c == '/', c == '=':
		default:
			return "", true, refuse("malformed")
		}
	}
	return token, true, nil
}

// OperatorScopes are those that only an operator grants.
var OperatorScopes = []string{tenant.OperatorScope, tenant.MetricsScope}

// MetricsScope lets a token read the metrics of the server.
const MetricsScope = tenant.MetricsScope

// TokenAuthenticator authenticates service tokens.
type TokenAuthenticator struct {
	users *tenant.Directory
	// Fresh is how long an answer of the store is cached: a revoked token
	// works for that long, and the store is asked less. The default is to
	// ask each time.
	Fresh time.Duration

	seen recent[knownToken]
}

type knownToken struct {
	token  tenant.Token
	caller request.Caller
}

// ServiceTokens returns the Authenticator for the service tokens in the
// operator's store.
func ServiceTokens(users *tenant.Directory) *TokenAuthenticator {
	return &TokenAuthenticator{users: users}
}

// Forget clears the cache.
func (a *TokenAuthenticator) Forget() { a.seen.forget() }

func (a *TokenAuthenticator) takes(token string, _ *http.Request) bool {
	return strings.HasPrefix(token, tenant.TokenPrefix)
}

// Authenticate determines whose service token a request has.
func (a *TokenAuthenticator) Authenticate(r *http.Request) (request.Caller, error) {
	text, sent, err := bearer(r)
	if err != nil || !sent {
		return request.Caller{}, errors.Join(err, refuse("no token"))
	}
	known, err := a.seen.get(text, a.Fresh, func() (knownToken, error) { return a.look(r.Context(), text) })
	if err != nil {
		return request.Caller{}, err
	}
	scope := ScopeOf(r.URL.Path)
	if !known.token.InScope(scope) && !(scope == backendScope && OnlyBlobs(known.token.Scopes)) {
		return request.Caller{}, &api.Problem{Status: http.StatusForbidden, Title: "Forbidden", Code: "denied", Detail: "the token is not for this part of the server"}
	}
	return known.caller, nil
}

// BlobsScope is for tokens of machines that only share sessions by a remote at the
// server. They use the calls of a store, and get at nothing but blobs by them.
const BlobsScope = "blobs"

const backendScope = "backend"

// OnlyBlobs reports whether a token with such scopes may use the calls of a store for
// the blobs of remotes alone.
func OnlyBlobs(scopes []string) bool {
	return slices.Contains(scopes, BlobsScope) && !slices.Contains(scopes, backendScope)
}

// ScopeOf is the part of the server that a path belongs to, "" for one that no
// token can be scoped to.
func ScopeOf(p string) string {
	if p == "/"+MetricsScope || p == request.MCPPath {
		return p[1:]
	}
	rest, ok := strings.CutPrefix(p, "/api/v1/")
	if !ok || path.Clean(p) != strings.TrimSuffix(p, "/") {
		return ""
	}
	scope, _, _ := strings.Cut(rest, "/")
	return scope
}

// look asks the store about a token.
func (a *TokenAuthenticator) look(ctx context.Context, text string) (knownToken, error) {
	t, err := a.users.UseToken(ctx, text)
	why := &Refusal{Tenant: t.Tenant, User: t.User, Token: t.ID}
	switch {
	case errors.Is(err, tidemark.ErrNotFound):
		return knownToken{}, refuse("unknown token")
	case errors.Is(err, tidemark.ErrDenied) && t.State == tenant.Revoked:
		why.Why = "revoked token"
		return knownToken{}, why
	case errors.Is(err, tidemark.ErrDenied):
		why.Why = "expired token"
		return knownToken{}, why
	case err != nil:
		return knownToken{}, err
	}
	in, err := a.users.Tenant(ctx, t.Tenant)
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return knownToken{}, err
	}
	if in.State != tenant.Active {
		why.Why = "suspended tenant"
		return knownToken{}, why
	}
	caller := request.Caller{Principal: tidemark.Principal{Tenant: t.Tenant, User: t.User}, Name: t.Name, Role: request.Role(t.Role), Token: t.ID, Scopes: t.Scopes, Operator: t.Operates()}
	if t.User == t.Tenant {
		return knownToken{t, caller}, nil
	}
	switch u, err := a.users.User(ctx, t.Tenant, t.User); {
	case errors.Is(err, tidemark.ErrNotFound): // named by the operator, and not seen with an issuer's token yet
	case err != nil:
		return knownToken{}, err
	case u.State != tenant.Active:
		why.Why = "suspended user"
		return knownToken{}, why
	default:
		caller.Workspaces = u.Workspaces
		// A user whose role was lowered has no token with a higher one.
		if tenant.RoleWithin(u.Role, t.Role) {
			caller.Role = request.Role(u.Role)
		}
	}
	return knownToken{t, caller}, nil
}
