package auth

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// signedInUser is the content of a cookie: who, and until when. It does not
// contain their rights, which may change while they are signed in.
type signedInUser struct {
	Tenant string    `json:"tenant"`
	User   string    `json:"user"`
	Until  time.Time `json:"until"`
	// Nonce makes each sign-in a different cookie: signing out ends one of
	// them.
	Nonce string `json:"nonce,omitempty"`
}

// Forget clears the cache.
func (a *OIDCSignIn) Forget() { a.seen.forget() }

func (a *OIDCSignIn) takes(token string, r *http.Request) bool {
	return token == "" && a.cookie(r, userCookie) != ""
}

// Authenticate determines who is signed in. The store is asked each time, or as
// often as OIDCOptions.Fresh says: a suspended user is out within that time.
func (a *OIDCSignIn) Authenticate(r *http.Request) (request.Caller, error) {
	value := a.cookie(r, userCookie)
	var who signedInUser
	if !a.unsigned(userCookie, value, &who) {
		return request.Caller{}, refuse("cookie")
	}
	if !a.o.Now().Before(who.Until) {
		return request.Caller{}, &Refusal{Why: "expired cookie", Tenant: who.Tenant, User: who.User}
	}
	if !fromOurPage(r) {
		return request.Caller{}, refuse("cookie from another page")
	}
	// Whether they signed out is checked each time: it takes effect at once,
	// everywhere.
	if err := stillSignedIn(r.Context(), a.o.Users, value); err != nil {
		return request.Caller{}, err
	}
	return a.seen.get(value, a.o.Fresh, func() (request.Caller, error) { return a.lookUp(r.Context(), who) })
}

// stillSignedIn refuses a cookie whose owner signed out.
func stillSignedIn(ctx context.Context, users *tenant.Directory, cookie string) error {
	out, err := users.SignedOut(ctx, cookie)
	if out {
		return refuse("signed out")
	}
	return err
}

// lookUp asks the store what a user may do now.
func (a *OIDCSignIn) lookUp(ctx context.Context, who signedInUser) (request.Caller, error) {
	users := a.o.Users
	why := &Refusal{Tenant: who.Tenant, User: who.User}
	in, err := users.Tenant(ctx, who.Tenant)
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return request.Caller{}, err
	}
	if in.State != tenant.Active {
		why.Why = "suspended tenant"
		return request.Caller{}, why
	}
	u, err := users.User(ctx, who.Tenant, who.User)
	switch {
	case errors.Is(err, tidemark.ErrNotFound):
		why.Why = "unknown user"
		return request.Caller{}, why
	case err != nil:
		return request.Caller{}, err
	case u.State != tenant.Active:
		why.Why = "suspended user"
		return request.Caller{}, why
	}
	if a.o.Issuers.of(u.Issuer) == nil {
		why.Why = "issuer"
		return request.Caller{}, why
	}
	// A cookie does not have the claims that a rule is about.
	changed, err := users.RulesChanged(ctx, u.Issuer)
	if err != nil {
		return request.Caller{}, err
	}
	if !who.Until.Add(-userCookieLife).After(changed) {
		why.Why = "signed in before the rules changed"
		return request.Caller{}, why
	}
	name := u.Name
	if name == "" {
		name = u.ID
	}
	return request.Caller{Principal: tidemark.Principal{Tenant: in.ID, User: u.ID, Workspaces: u.Workspaces}, Name: name, Role: request.Role(u.Role), Operator: u.Operator, Ruled: u.Operator}, nil
}
