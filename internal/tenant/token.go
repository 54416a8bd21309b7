package tenant

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/text"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// A service token admits a program. Its text is shown once, to whoever
// created it; what is kept cannot be turned back into it.

// TokenPrefix begins the text of every service token, so that people and
// scanners recognise one.
const TokenPrefix = "tmk_"

// The states of a token or a link that is not Active.
const (
	Revoked = "revoked"
	Expired = "expired"
)

// usedEvery is how often the use of a token is recorded.
const usedEvery = time.Minute

// maxTokenScopes bounds the scopes of a token.
const maxTokenScopes = 32

// OperatorScope makes whoever has a token an operator: of all tenants, their users,
// tokens, audit logs and limits, and of nothing that people keep. MetricsScope lets it
// read the metrics of the server, which cover all tenants. Only an operator grants
// either, and no token has one by default.
const (
	OperatorScope = "operator"
	MetricsScope  = "metrics"
)

// Token is a service token as it is kept.
type Token struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	User   string `json:"user"` // on whose behalf it acts: a user, or the tenant itself
	Name   string `json:"name"`
	Role   string `json:"role"`
	// Scopes are the parts of the server that the token is for, as in paths
	// after /api/v1/: sessions, jobs; none: all.
	Scopes    []string  `json:"scopes,omitempty"`
	State     string    `json:"state"`
	CreatedBy string    `json:"created_by,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	UsedAt    time.Time `json:"used_at,omitzero"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

// keptToken is a token with the hash that proves it.
type keptToken struct {
	Token
	Hash string `json:"sha256"` // of the whole text
}

func tokenKey(id string) tidemark.Key { return tidemark.Key{Kind: kindToken, ID: id} }

// tokenLetters are those of base32, in lower case: easy to select with a
// double click, and without a meaning to a shell or in a URL.
var tokenLetters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

const (
	tokenIDLength     = 16 // 80 bits: never repeated
	tokenSecretLength = 52 // 256 bits: never guessed
)

// ParseToken splits the text of a service token; ErrInvalid when it is none.
// It does not check whether the token exists.
func ParseToken(text string) (id, secret string, err error) {
	rest, ok := strings.CutPrefix(text, TokenPrefix)
	if !ok || len(rest) != tokenIDLength+1+tokenSecretLength || rest[tokenIDLength] != '_' {
		return "", "", tidemark.Invalidf("not a service token")
	}
	id, secret = rest[:tokenIDLength], rest[tokenIDLength+1:]
	for _, part := range []string{id, secret} {
		for i := range len(part) {
			if c := part[i]; !('a' <= c && c <= 'z' || '2' <= c && c <= '7') {
				return "", "", tidemark.Invalidf("not a service token")
			}
		}
	}
	return id, secret, nil
}

func tokenHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// CreateToken creates a service token for an existing tenant. It returns the
// text, which is kept nowhere. Errors: ErrInvalid, ErrNotFound.
func (d *Directory) CreateToken(ctx context.Context, t Token) (Token, string, error) {
	name, err := records.CheckText("name", t.Name)
	if err != nil {
		return t, "", err
	}
	if err := errors.Join(CheckRole(t.Role), checkScopes(t.Scopes)); err != nil {
		return t, "", err
	}
	if slices.Contains(t.Scopes, OperatorScope) && (t.Role != RoleAdmin || t.User != "" && t.User != t.Tenant) {
		return t, "", tidemark.Invalidf("a token with the scope %s has the role %s, and acts for no user", OperatorScope, RoleAdmin)
	}
	if _, err := d.Tenant(ctx, t.Tenant); err != nil {
		return t, "", err
	}
	if t.User == "" {
		t.User = t.Tenant
	}
	now := d.k.Now()
	if !t.ExpiresAt.IsZero() {
		if t.ExpiresAt = records.Keepable(t.ExpiresAt); !t.ExpiresAt.After(now) {
			return t, "", tidemark.Invalidf("token %s: it would have expired before it is made", name)
		}
	}
	var random [10 + 32]byte
	rand.Read(random[:])
	t.ID, t.Name, t.State, t.CreatedAt = tokenLetters.EncodeToString(random[:10]), d.k.Mask(name), Active, now
	t.UsedAt, t.RevokedAt = time.Time{}, time.Time{}
	text := TokenPrefix + t.ID + "_" + tokenLetters.EncodeToString(random[10:])
	r, err := tokenRecord(keptToken{Token: t, Hash: tokenHash(text)}, 0)
	if err != nil {
		return t, "", err
	}
	if _, err := d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}}); err != nil {
		return t, "", err
	}
	return t, text, nil
}

func tokenRecord(t keptToken, version int64) (tidemark.Record, error) {
	r, err := records.Put(tokenKey(t.ID), version, t)
	r.Group, r.State = t.Tenant, t.State
	return r, err
}

func checkScopes(scopes []string) error {
	if len(scopes) > maxTokenScopes {
		return tidemark.Invalidf("%d scopes, at most %d are allowed", len(scopes), maxTokenScopes)
	}
	for _, scope := range scopes {
		if err := checkName("scope", scope); err != nil {
			return err
		}
		if slices.Contains(scopes, OperatorScope) && scope != OperatorScope && scope != MetricsScope {
			return tidemark.Invalidf("scope %s: a token with the scope %s has no other but %s", scope, OperatorScope, MetricsScope)
		}
	}
	return nil
}

// errNoToken is the error for every text that is no usable token: whoever
// guesses learns nothing.
var errNoToken = tidemark.NotFoundf("no such token")

// UseToken returns the token with this text. It returns ErrNotFound when there
// is none, and the token with ErrDenied when it was revoked or has expired.
// Its use is recorded at most once a minute.
func (d *Directory) UseToken(ctx context.Context, text string) (Token, error) {
	id, _, err := ParseToken(text)
	if err != nil {
		return Token{}, errNoToken
	}
	var t keptToken
	r, err := d.k.Get(ctx, tokenKey(id), &t)
	if err != nil {
		return Token{}, err
	}
	// The comparison is made even without a token, so that both cases take
	// the same time.
	if subtle.ConstantTimeCompare([]byte(tokenHash(text)), []byte(t.Hash)) != 1 || r.Version == 0 {
		return Token{}, errNoToken
	}
	now := d.k.Now()
	if t.State != Active || !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt) {
		return t.Token, tidemark.ErrDenied
	}
	if now.Sub(t.UsedAt) >= usedEvery {
		t.UsedAt = now
		// If this loses a race, the use was recorded within the minute
		// anyway; and a store that cannot write still admits its readers.
		if p, err := tokenRecord(t, r.Version); err == nil {
			d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		}
	}
	return t.Token, nil
}

func (d *Directory) token(ctx context.Context, tenant, id string) (keptToken, int64, error) {
	var t keptToken
	missing := tidemark.NotFoundf("token %s: not found", text.Shorten(id, maxNameBytes))
	if tidemark.CheckID(id) != nil {
		return t, 0, missing
	}
	r, err := d.k.Get(ctx, tokenKey(id), &t)
	if err == nil && (r.Version == 0 || tenant != "" && t.Tenant != tenant) {
		return keptToken{}, 0, missing
	}
	return t, r.Version, err
}

// Tokens lists the tokens of a tenant, or of all when that is "", by id,
// starting after after.
func (d *Directory) Tokens(ctx context.Context, tenant, after string) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		for t, err := range records.List[keptToken](ctx, d.k, startingAfter(tidemark.Query{Kind: kindToken, Group: tenant}, after)) {
			if !yield(t.Token, err) {
				return
			}
		}
	}
}

// Token returns a token of a tenant, or of any when that is "", or ErrNotFound.
func (d *Directory) Token(ctx context.Context, tenant, id string) (Token, error) {
	t, _, err := d.token(ctx, tenant, id)
	return t.Token, err
}

// RevokeToken ends a token of a tenant, or of any when that is "", forever,
// or returns ErrNotFound. Revoking it again changes nothing.
func (d *Directory) RevokeToken(ctx context.Context, tenant, id string) (Token, error) {
	var t keptToken
	err := records.Retry(ctx, func() error {
		var version int64
		var err error
		if t, version, err = d.token(ctx, tenant, id); err != nil || t.State == Revoked {
			return err
		}
		t.State, t.RevokedAt = Revoked, d.k.Now()
		p, err := tokenRecord(t, version)
		if err != nil {
			return err
		}
		_, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		return err
	})
	return t.Token, err
}

// operatorParts are the parts of the server that an operator's token is for.
var operatorParts = []string{"tenants", "users", "tokens", "audit"}

// Operates reports whether the token is that of an operator.
func (t Token) Operates() bool { return slices.Contains(t.Scopes, OperatorScope) }

// InScope reports whether the token is for a part of the server.
func (t Token) InScope(scope string) bool {
	return len(t.Scopes) == 0 || slices.Contains(t.Scopes, scope) || t.Operates() && slices.Contains(operatorParts, scope)
}
