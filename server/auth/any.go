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

// taker is an Authenticator that recognises its tokens by their form.
type taker interface {
	request.Authenticator
	takes(token string, r *http.Request) bool
}

// Authenticators are several Authenticators, tried as one; guessing is slowed down.
type Authenticators struct {
	// Refused is called for everybody who was not admitted; it may be nil.
	Refused func(context.Context, Refusal)
	// Address returns where a request comes from; the default is the
	// connection.
	Address func(*http.Request) string

	auths []request.Authenticator
	fails failures
	mu    sync.Mutex
	good  map[[32]byte]bool
}

// maxRemembered bounds the cached addresses and tokens.
const maxRemembered = 10_000

// Any returns the Authenticator that asks the one whose kind of token it is: a
// service token, one of an issuer, the token or the cookie of the local
// server. That one decides.
func Any(auths ...request.Authenticator) *Authenticators {
	return &Authenticators{auths: auths, good: make(map[[32]byte]bool)}
}

// Authenticate determines who makes a request. Errors: ErrDenied, or a 429
// for an address that failed too often with a token that was not valid
// before.
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

// Forget clears all caches.
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

// mayTry reports whether a token is checked. One that was valid before always
// is: behind a proxy, those who guess and those who work share one address.
func (g *Authenticators) mayTry(address string, sum [32]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.good[sum] || !g.fails.tooMany(address)
}

// settle records the outcome.
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
