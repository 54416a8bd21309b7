package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// taker is an Authenticator that knows its tokens by their shape.
type taker interface {
	request.Authenticator
	takes(token string, r *http.Request) bool
}

// Authenticators are several ways to know who calls, tried as one; those who guess are
// slowed down.
type Authenticators struct {
	// Refused is told of everybody who was not let in; nil: nobody is told.
	Refused func(context.Context, Refusal)
	// Address says where a request comes from; the default is the connection.
	Address func(*http.Request) string

	auths []request.Authenticator
	fails failures
	mu    sync.Mutex
	good  map[[32]byte]bool
}

// maxRemembered bounds what is remembered of addresses and of tokens.
const maxRemembered = 10_000

// Any returns the Authenticator that asks the one whose kind of token it is: a
// service token, one of an issuer, the token or the cookie of the local
// server. The one that is asked decides.
func Any(auths ...request.Authenticator) *Authenticators {
	return &Authenticators{auths: auths, good: make(map[[32]byte]bool)}
}

// Authenticate says who makes a request: ErrDenied, or a 429 for an address
// that failed too often with a token that was not good before.
func (g *Authenticators) Authenticate(r *http.Request) (request.Caller, error) {
	token, sent, err := bearer(r)
	sum := sha256.Sum256([]byte(token))
	address := g.address(r)
	if sent && !g.mayTry(address, sum) {
		g.tell(r.Context(), Refusal{Why: "too many failures"})
		return request.Caller{}, request.TooMany("too many refused tokens from this address", 5)
	}
	var caller request.Caller
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

func (g *Authenticators) ask(token string, r *http.Request) (request.Caller, error) {
	for _, auth := range g.auths {
		if t, ok := auth.(taker); !ok || t.takes(token, r) {
			return auth.Authenticate(r)
		}
	}
	return request.Caller{}, refuse("no token")
}

// Forget makes all who remember somebody for a while ask the store again.
func (g *Authenticators) Forget() {
	for _, auth := range g.auths {
		if f, ok := auth.(forgetter); ok {
			f.Forget()
		}
	}
}

func (g *Authenticators) tell(ctx context.Context, why Refusal) {
	request.Note(ctx, "refused", why.Why)
	if g.Refused != nil {
		g.Refused(ctx, why)
	}
}

func (g *Authenticators) address(r *http.Request) string {
	if g.Address != nil {
		return g.Address(r)
	}
	return addressOf(r)
}

// mayTry reports whether a token is looked at. One that was good stays welcome:
// behind a proxy, those who guess and those who work have one address.
func (g *Authenticators) mayTry(address string, sum [32]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.good[sum] || !g.fails.tooMany(address)
}

// settle remembers how it went.
func (g *Authenticators) settle(address string, sum [32]byte, sent bool, err error) {
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
