package auth

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// Issuers are the issuers whose tokens a server accepts. They may be replaced while
// it serves: the tokens and cookies of one that is gone are refused from then on.
type Issuers struct {
	all atomic.Pointer[[]*OIDCAuthenticator]
}

// NewIssuers returns the Authenticator for the tokens of several issuers.
func NewIssuers(all ...*OIDCAuthenticator) *Issuers {
	i := new(Issuers)
	i.Replace(all)
	return i
}

// Replace replaces the issuers.
func (i *Issuers) Replace(all []*OIDCAuthenticator) { i.all.Store(&all) }

// All returns the issuers.
func (i *Issuers) All() []*OIDCAuthenticator { return *i.all.Load() }

// Forget clears the caches.
func (i *Issuers) Forget() {
	for _, by := range i.All() {
		by.Forget()
	}
}

func (i *Issuers) takes(token string, _ *http.Request) bool {
	return strings.Count(token, ".") == 2
}

// Authenticate determines whom a token is about. Which issuer is asked is what the
// token says; whether that is true, the issuer's keys decide.
func (i *Issuers) Authenticate(r *http.Request) (request.Caller, error) {
	token, sent, err := bearer(r)
	if err != nil || !sent {
		return request.Caller{}, errors.Join(err, refuse("no token"))
	}
	_, rest, _ := strings.Cut(token, ".")
	body, _, _ := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil {
		return request.Caller{}, refuse("malformed")
	}
	c, err := parseClaims(raw)
	if err != nil {
		return request.Caller{}, err
	}
	iss, _ := c.text("iss")
	by := i.of(iss)
	if by == nil {
		return request.Caller{}, refuse("issuer")
	}
	return by.Authenticate(r)
}

// of returns the issuer whose tokens say iss, nil when there is none.
func (i *Issuers) of(iss string) *OIDCAuthenticator {
	for _, by := range i.All() {
		if by.o.Issuer == iss {
			return by
		}
	}
	for _, by := range i.All() {
		if by.speaksFor(iss) {
			return by
		}
	}
	return nil
}

// speaksFor reports whether iss is that of an organisation in Entra, where this
// issuer stands for all of them: https://HOST/TID/v2.0.
func (a *OIDCAuthenticator) speaksFor(iss string) bool {
	return a.o.Entra && organisationIn(a.o.Issuer) == "" && organisationIn(iss) != "" && sameHost(a.o.Issuer, iss) == nil
}

// organisationIn returns the organisation of an issuer in Entra, "" for one that is
// of no single organisation.
func organisationIn(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil {
		return ""
	}
	tid, version, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if id, err := tidemark.ParseSessionID(tid); err != nil || string(id) != tid || version != "v2.0" {
		return ""
	}
	return tid
}

// signIn returns the issuers that people sign in through with a browser.
func (i *Issuers) signIn() (all []*OIDCAuthenticator) {
	for _, by := range i.All() {
		if by.o.ClientID != "" {
			all = append(all, by)
		}
	}
	return all
}

// Issuer returns the URL of the issuer.
func (a *OIDCAuthenticator) Issuer() string { return a.o.Issuer }

// name is what people call the issuer.
func (a *OIDCAuthenticator) name() string {
	if a.o.Name != "" {
		return a.o.Name
	}
	if u, err := url.Parse(a.o.Issuer); err == nil {
		return u.Host
	}
	return a.o.Issuer
}
