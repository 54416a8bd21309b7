package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// freshCaller is for how long an answer about a user or a token is good: so
// long somebody who was suspended may still get in.
const freshCaller = 2 * time.Second

// authenticator says who may call, as was asked for.
func (v *serving) authenticator(ctx context.Context, t *team) (request.Authenticator, error) {
	users, err := t.operator(ctx)
	if err != nil {
		return nil, err
	}
	tokens := auth.ServiceTokens(users)
	tokens.Fresh = freshCaller
	var gate *auth.Authenticators
	if v.auth == authLocal {
		token, path, err := v.serverToken()
		if err != nil {
			return nil, err
		}
		p, err := t.principal()
		if err != nil {
			return nil, err
		}
		v.local = auth.Local(token, p)
		v.local.SetUsers(users)
		v.say("The token is in %s", path)
		gate = auth.Any(tokens, v.local)
	} else {
		v.oidc.SetUsers(users)
		auths := []request.Authenticator{tokens, v.oidc}
		if v.clientID != "" {
			key, err := users.ServerKey(ctx, "cookie")
			if err != nil {
				return nil, err
			}
			if v.signIn, err = v.browsers(key); err != nil {
				return nil, err
			}
			auths = append(auths, v.signIn)
		}
		gate = auth.Any(auths...)
	}
	if !isFiles(t.url) {
		gate.Refused = auth.AuditRefusals(users)
	}
	return gate, nil
}

// browsers lets people sign in with a browser, through the issuer.
func (v *serving) browsers(key []byte) (*auth.OIDCSignIn, error) {
	return auth.SignInWith(auth.OIDCSignInOptions{Auth: v.oidc, ClientID: v.clientID, ClientSecret: os.Getenv("OIDC_CLIENT_SECRET"), Key: key, URL: v.publicURL})
}

// check looks at everything that could keep the server from starting, before
// anything is made: a refusal leaves neither a store nor a key behind.
func (v *serving) check(ctx context.Context) error {
	place, _, err := v.location()
	if err != nil {
		return err
	}
	if v.requireDatabase && !open.IsPostgres(place) {
		return withHint(tidemark.Invalidf("a database is required, and the store is none"), "name one with --store postgres://…, or say --require-database=false")
	}
	if v.cert != "" {
		if _, err := tls.LoadX509KeyPair(v.cert, v.key); err != nil {
			return tidemark.Invalidf("--tls-cert and --tls-key: %w", err)
		}
	}
	if v.fleetFile != "" {
		if v.fleet, err = (&fleetRoom{app: v.app, file: v.fleetFile}).read(); err != nil {
			return err
		}
	}
	if v.auth == authLocal {
		path, err := v.besideStore(v.tokenFile)
		if err == nil {
			_, err = open.ReadToken(path)
		}
		return err
	}
	return v.checkIssuer(ctx)
}

// checkIssuer asks the issuer where its keys are.
func (v *serving) checkIssuer(ctx context.Context) (err error) {
	v.oidc, err = auth.OIDC(ctx, auth.OIDCOptions{Issuer: v.issuer, Audience: v.audience, Entra: v.auth == authEntra, Clients: v.clients,
		Role: request.Role(v.role), RoleClaim: v.roleClaim, Fresh: freshCaller})
	if err != nil {
		return withHint(err, "check --oidc-issuer, and that this machine reaches it")
	}
	if v.clientID != "" {
		_, err = v.browsers(make([]byte, 32)) // the key of its cookies is in the store
	}
	return err
}

// anchorEvery is how often the head of the audit log is put down elsewhere.
const anchorEvery = time.Minute

// keepAnchors writes the heads of audit logs to a file, and returns what ends
// that. Who changes the log would have to change the file as well.
func (v *serving) keepAnchors(ctx context.Context, s *server.Server) (end func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := v.anchor(ctx, s); err != nil && ctx.Err() == nil {
				v.complain(err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(anchorEvery):
			}
		}
	}()
	return func() {
		stop()
		<-done
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if err := errors.Join(s.FlushAudit(late), v.anchor(late, s)); err != nil {
			v.complain(err)
		}
	}
}

func (v *serving) anchor(ctx context.Context, s *server.Server) error {
	heads, err := s.AnchorAudit(ctx)
	if err != nil || v.anchorFile == "" || len(heads) == 0 {
		return err
	}
	return v.appendAnchors(heads)
}

// appendAnchors adds heads to the file that keeps them, one JSON object a line.
func (v *serving) appendAnchors(heads []tenant.Anchor) error {
	old, err := os.ReadFile(v.anchorFile)
	if err != nil && !os.IsNotExist(err) {
		return tidemark.Storagef("%w", err)
	}
	return v.toFile(v.anchorFile, func(w io.Writer) error {
		if _, err := w.Write(old); err != nil {
			return err
		}
		enc := json.NewEncoder(w)
		for _, h := range heads {
			if err := enc.Encode(h); err != nil {
				return err
			}
		}
		return nil
	})
}
