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
	// File describes further issuers, and where their people belong. It is read
	// again when it changes.
	File             string
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
	oidc     *issuerKeeper
	browsers *auth.OIDCSignIn // with OIDC.ClientID or OIDC.File
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
	return v.checkIssuers(ctx)
}

// checkIssuers asks the issuers where their keys are. One that is down is asked
// later.
func (v *running) checkIssuers(ctx context.Context) (err error) {
	k := &issuerKeeper{Config: v.Config, Program: &v.Program, issuers: auth.NewIssuers()}
	all, err := k.read()
	if err != nil {
		return err
	}
	found, err := k.find(ctx, all)
	if err != nil {
		return hint.With(err, "check --oidc-issuer, and what it answers")
	}
	k.issuers.Replace(found)
	k.now, v.access.oidc = all, k
	_, err = v.browsers(nil, make([]byte, 32)) // the key of its cookies is in the store
	return err
}

// browsers lets people sign in with a browser, through the issuers; nil when none
// knows this server.
func (v *running) browsers(users *tenant.Directory, key []byte) (*auth.OIDCSignIn, error) {
	if v.OIDC.ClientID == "" && v.OIDC.File == "" {
		return nil, nil
	}
	return auth.SignInWith(auth.OIDCSignInOptions{Issuers: v.access.oidc.issuers, Users: users, Key: key, URL: v.OIDC.PublicURL, Fresh: freshCaller})
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
		key, err := users.ServerKey(ctx, "cookie")
		if err == nil {
			err = v.access.oidc.begin(ctx, users)
		}
		if err == nil {
			v.access.browsers, err = v.browsers(users, key)
		}
		if err != nil {
			return nil, err
		}
		auths = append(auths, v.access.oidc.issuers)
		if v.access.browsers != nil {
			auths = append(auths, v.access.browsers)
		}
	}
	callers := auth.Any(auths...)
	if v.access.oidc != nil {
		v.access.oidc.changed = callers.Forget
	}
	if open.HasAudit(v.Store) {
		callers.Refused = auth.AuditRefusals(users)
	}
	return callers, nil
}
