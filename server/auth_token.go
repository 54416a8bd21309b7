package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

// maxBearer bounds the text of a token. Those of large directories, with many
// groups in them, have some 8 KiB.
const maxBearer = 16 << 10

// Refusal is why somebody was not let in. It is ErrDenied under errors.Is. The
// caller is never told more than that; the rest is for whoever runs the server.
type Refusal struct {
	Why    string // a word or two: expired, issuer, revoked
	Tenant string // what is known of who it was, ids all of them
	User   string
	Token  string
}

func (r *Refusal) Error() string { return "not let in: " + r.Why }

// Is makes a Refusal answer to ErrDenied.
func (r *Refusal) Is(target error) bool { return target == tidemark.ErrDenied }

func refuse(why string) error { return &Refusal{Why: why} }

// bearer returns the token that a request brings; ok is false when it brings
// none, and the error says that it brings something that cannot be one.
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

// taker is an Authenticator that knows its tokens by their shape.
type taker interface {
	Authenticator
	takes(token string, r *http.Request) bool
}

// Gate tries several ways to know who calls, and slows down those who guess.
type Gate struct {
	// Refused is told of everybody who was not let in; nil: nobody is told.
	Refused func(context.Context, Refusal)
	// Address says where a request comes from; the default is the connection.
	Address func(*http.Request) string

	auths []Authenticator
	fails failures
	mu    sync.Mutex
	good  map[[32]byte]bool
}

// maxRemembered bounds what is remembered of addresses and of tokens.
const maxRemembered = 10_000

// Any returns the Authenticator that asks the one whose kind of token it is: a
// service token, one of an issuer, the token or the cookie of the local
// server. The one that is asked decides.
func Any(auths ...Authenticator) *Gate {
	return &Gate{auths: auths, good: make(map[[32]byte]bool)}
}

// Authenticate says who makes a request: ErrDenied, or a 429 for an address
// that failed too often with a token that was not good before.
func (g *Gate) Authenticate(r *http.Request) (Caller, error) {
	token, sent, err := bearer(r)
	sum := sha256.Sum256([]byte(token))
	address := g.address(r)
	if sent && !g.mayTry(address, sum) {
		g.tell(r.Context(), Refusal{Why: "too many failures"})
		return Caller{}, tooMany("too many refused tokens from this address", 5)
	}
	var caller Caller
	if err == nil {
		caller, err = g.ask(token, r)
	}
	g.settle(address, sum, sent, err)
	var why *Refusal
	switch {
	case errors.As(err, &why):
		g.tell(r.Context(), *why)
	case errors.Is(err, tidemark.ErrDenied):
		g.tell(r.Context(), Refusal{Why: "denied"})
	}
	return caller, err
}

func (g *Gate) ask(token string, r *http.Request) (Caller, error) {
	for _, auth := range g.auths {
		if t, ok := auth.(taker); !ok || t.takes(token, r) {
			return auth.Authenticate(r)
		}
	}
	return Caller{}, refuse("no token")
}

// Forget makes all who remember somebody for a while ask the store again.
func (g *Gate) Forget() {
	for _, auth := range g.auths {
		if f, ok := auth.(forgetter); ok {
			f.Forget()
		}
	}
}

func (g *Gate) tell(ctx context.Context, why Refusal) {
	note(ctx, "refused", why.Why)
	if g.Refused != nil {
		g.Refused(ctx, why)
	}
}

func (g *Gate) address(r *http.Request) string {
	if g.Address != nil {
		return g.Address(r)
	}
	return addressOf(r)
}

// mayTry reports whether a token is looked at. One that was good stays welcome:
// behind a proxy, those who guess and those who work have one address.
func (g *Gate) mayTry(address string, sum [32]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.good[sum] || !g.fails.tooMany(address)
}

// settle remembers how it went.
func (g *Gate) settle(address string, sum [32]byte, sent bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !sent:
	case err == nil:
		if len(g.good) >= maxRemembered {
			clear(g.good)
		}
		g.good[sum] = true
	case errors.Is(err, tidemark.ErrDenied):
		delete(g.good, sum)
		g.fails.add(address)
	}
}

// MetricsScope lets a token read what the server counts. It is of all tenants
// together, so only the operator gives it, and no token has it unsaid.
const MetricsScope = "metrics"

// TokenAuth knows service tokens.
type TokenAuth struct {
	users *tenant.Directory
	// Fresh is for how long an answer of the store is good: a token that was
	// revoked works for so long, and the store is asked so much less. The
	// default is to ask each time.
	Fresh time.Duration

	seen recent[knownToken]
}

type knownToken struct {
	token  tenant.Token
	caller Caller
}

// ServiceTokens returns the Authenticator of the service tokens that the
// operator's store keeps.
func ServiceTokens(users *tenant.Directory) *TokenAuth { return &TokenAuth{users: users} }

// Forget makes it ask the store again about everybody.
func (a *TokenAuth) Forget() { a.seen.forget() }

func (a *TokenAuth) takes(token string, _ *http.Request) bool {
	return strings.HasPrefix(token, tenant.TokenPrefix)
}

// Authenticate says whose service token a request brings.
func (a *TokenAuth) Authenticate(r *http.Request) (Caller, error) {
	text, sent, err := bearer(r)
	if err != nil || !sent {
		return Caller{}, errors.Join(err, refuse("no token"))
	}
	known, err := a.seen.get(text, a.Fresh, func() (knownToken, error) { return a.look(r.Context(), text) })
	if err != nil {
		return Caller{}, err
	}
	if scope := partOf(r.URL.Path); !known.token.InScope(scope) {
		return Caller{}, &api.Problem{Status: http.StatusForbidden, Title: "Forbidden", Code: "denied", Detail: "the token is not for this part of the server"}
	}
	return known.caller, nil
}

// partOf is the part of the server that a path belongs to, "" for none that a
// token could be scoped to.
func partOf(p string) string {
	if p == "/"+MetricsScope || p == mcpPath {
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
func (a *TokenAuth) look(ctx context.Context, text string) (knownToken, error) {
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
	caller := Caller{Principal: tidemark.Principal{Tenant: t.Tenant, User: t.User}, Name: t.Name, Role: Role(t.Role), Token: t.ID, Scopes: t.Scopes}
	if t.User == t.Tenant {
		return knownToken{t, caller}, nil
	}
	switch u, err := a.users.User(ctx, t.Tenant, t.User); {
	case errors.Is(err, tidemark.ErrNotFound): // one that the operator named, and that no issuer vouched for yet
	case err != nil:
		return knownToken{}, err
	case u.State != tenant.Active:
		why.Why = "suspended user"
		return knownToken{}, why
	default:
		caller.Workspaces = u.Workspaces
		// Who may do less than before has no token that may do more.
		if tenant.RoleWithin(u.Role, t.Role) {
			caller.Role = Role(u.Role)
		}
	}
	return knownToken{t, caller}, nil
}

// recent remembers what was found out for a while. What went wrong it forgets.
type recent[T any] struct {
	mu sync.Mutex
	of map[[32]byte]remembered[T]
}

type remembered[T any] struct {
	value T
	until time.Time
}

func (m *recent[T]) forget() {
	m.mu.Lock()
	m.of = nil
	m.mu.Unlock()
}

func (m *recent[T]) get(token string, fresh time.Duration, find func() (T, error)) (T, error) {
	if fresh <= 0 {
		return find()
	}
	sum := sha256.Sum256([]byte(token))
	m.mu.Lock()
	have, ok := m.of[sum]
	m.mu.Unlock()
	if ok && time.Now().Before(have.until) {
		return have.value, nil
	}
	value, err := find()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.of, sum)
		return value, err
	}
	if m.of == nil || len(m.of) >= maxRemembered {
		m.of = make(map[[32]byte]remembered[T])
	}
	m.of[sum] = remembered[T]{value, time.Now().Add(fresh)}
	return value, nil
}
