package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/store"
)

// freshCaller is for how long an answer about a user or a token is good: so
// long somebody who was suspended may still get in.
const freshCaller = 5 * time.Second

// authenticator says who may call, as was asked for.
func (v *serving) authenticator(ctx context.Context, t *team) (server.Authenticator, error) {
	users, err := t.operator(ctx)
	if err != nil {
		return nil, err
	}
	tokens := server.ServiceTokens(users)
	tokens.Fresh = freshCaller
	var gate *server.Gate
	if v.auth == authLocal {
		path, err := tokenPath(v.tokenFile)
		if err != nil {
			return nil, err
		}
		token, err := localToken(path)
		if err != nil {
			return nil, err
		}
		p, err := t.principal()
		if err != nil {
			return nil, err
		}
		v.local = server.Local(token, p)
		v.say("The token is in %s", path)
		gate = server.Any(tokens, v.local)
	} else {
		issuer, err := server.OIDC(ctx, server.OIDCOptions{Issuer: v.issuer, Audience: v.audience, Entra: v.auth == authEntra,
			Users: users, Role: server.Role(v.role), RoleClaim: v.roleClaim, Fresh: freshCaller})
		if err != nil {
			return nil, withHint(err, "check --oidc-issuer, and that this machine reaches it")
		}
		auths := []server.Authenticator{tokens, issuer}
		if v.clientID != "" {
			if v.signIn, err = v.browsers(ctx, users, issuer); err != nil {
				return nil, err
			}
			auths = append(auths, v.signIn)
		}
		gate = server.Any(auths...)
	}
	gate.Refused = server.AuditRefusals(users)
	return gate, nil
}

// browsers lets people sign in with a browser, through the issuer.
func (v *serving) browsers(ctx context.Context, users *store.Store, issuer *server.OIDCAuth) (*server.OIDCSignIn, error) {
	key, err := users.ServerKey(ctx, "cookie")
	if err != nil {
		return nil, err
	}
	return server.SignInWith(server.OIDCSignInOptions{Auth: issuer, ClientID: v.clientID, ClientSecret: os.Getenv("OIDC_CLIENT_SECRET"), Key: key, URL: v.publicURL})
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
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainPatience)
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
func (v *serving) appendAnchors(heads []store.Anchor) error {
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
