package serve

import (
	"context"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// The ways to authenticate callers.
const (
	AuthLocal = "local"
	AuthOIDC  = "oidc"
	AuthEntra = "entra" // oidc with what Microsoft Entra needs
)

// OIDC describes the issuer of the callers' tokens.
type OIDC struct {
	Issuer, Audience string
	Clients          []string // the programs whose tokens are accepted
	// ClientID is for signing in with a browser, "" when that is not
	// possible; PublicURL is the public address of the server.
	ClientID, ClientSecret, PublicURL string
	// Role is that of new users; RoleClaim names the claim that sets it.
	Role, RoleClaim string
}

// access is how callers are authenticated, once known: one of the first two.
type access struct {
	local    *auth.LocalAuthenticator
	oidc     *auth.OIDCAuthenticator
	browsers *auth.OIDCSignIn // with OIDC.ClientID
}

// freshCaller is how long an answer about a user or a token is cached: a
// suspended user may still get in for that long.
const freshCaller = 2 * time.Second

// check checks everything that could prevent the start, before anything is
// created: a refusal leaves neither a store nor a key behind.
func (v *running) check(ctx context.Context) (err error) {
	if v.RequireDatabase && !open.IsPostgres(v.Store) {
		return hint.With(tidemark.Invalidf("a database is required, and the store is none"), "name one with --store postgres://…, or say --require-database=false")
	}
	if v.CertFile != "" {
		if _, err := newCertificate(v.CertFile, v.KeyFile, nil); err != nil {
			return err
		}
	}
	if v.Fleet != "" {
		if v.fleet, err = file.Read(v.Fleet); err != nil {
			return err
		}
	}
	if v.Auth == AuthLocal {
		path, err := open.TokenBeside(v.Store, v.Environ, v.TokenFile)
		if err == nil {
			_, err = open.ReadToken(path)
		}
		return err
	}
	return v.checkIssuer(ctx)
}

// checkIssuer asks the issuer where its keys are.
func (v *running) checkIssuer(ctx context.Context) (err error) {
	v.access.oidc, err = auth.OIDC(ctx, auth.OIDCOptions{Issuer: v.OIDC.Issuer, Audience: v.OIDC.Audience, Entra: v.Auth == AuthEntra, Clients: v.OIDC.Clients,
		Role: request.Role(v.OIDC.Role), RoleClaim: v.OIDC.RoleClaim, Fresh: freshCaller})
	if err != nil {
		return hint.With(err, "check --oidc-issuer, and that this machine reaches it")
	}
	if v.OIDC.ClientID != "" {
		_, err = v.browsers(make([]byte, 32)) // the key of its cookies is in the store
	}
	return err
}

// browsers lets people sign in with a browser, through the issuer.
func (v *running) browsers(key []byte) (*auth.OIDCSignIn, error) {
	return auth.SignInWith(auth.OIDCSignInOptions{Auth: v.access.oidc, ClientID: v.OIDC.ClientID, ClientSecret: v.OIDC.ClientSecret, Key: key, URL: v.OIDC.PublicURL})
}

// authenticator returns the configured Authenticator.
func (v *running) authenticator(ctx context.Context, users *tenant.Directory) (request.Authenticator, error) {
	tokens := auth.ServiceTokens(users)
	tokens.Fresh = freshCaller
	auths := []request.Authenticator{tokens}
	if v.Auth == AuthLocal {
		token, path, err := open.ServerToken(v.Store, v.Environ, v.TokenFile)
		if err != nil {
			return nil, err
		}
		p, err := v.stores.Principal()
		if err != nil {
			return nil, err
		}
		v.access.local = auth.Local(token, p)
		v.access.local.SetUsers(users)
		v.Say("The token is in %s", path)
		auths = append(auths, v.access.local)
	} else {
		v.access.oidc.SetUsers(users)
		auths = append(auths, v.access.oidc)
		if v.OIDC.ClientID != "" {
			key, err := users.ServerKey(ctx, "cookie")
			if err != nil {
				return nil, err
			}
			if v.access.browsers, err = v.browsers(key); err != nil {
				return nil, err
			}
			auths = append(auths, v.access.browsers)
		}
	}
	callers := auth.Any(auths...)
	if open.HasAudit(v.Store) {
		callers.Refused = auth.AuditRefusals(users)
	}
	return callers, nil
}
