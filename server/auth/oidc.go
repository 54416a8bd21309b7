package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// EntraIssuer is the issuer of every organisation in Microsoft Entra.
const EntraIssuer = "https://login.microsoftonline.com/organizations/v2.0"

// entraTenant is the placeholder for the tenant in Entra's issuer.
const entraTenant = "{tenantid}"

const (
	// clockLeeway is how much the clocks of issuer and server may differ.
	clockLeeway = time.Minute
	// maxTokenLife bounds how long a token may remain valid: one that never
	// expires cannot be revoked.
	maxTokenLife = 366 * 24 * time.Hour
	// issuerTimeout is how long an issuer may take to answer.
	issuerTimeout = 10 * time.Second
	// Keys are fetched when a token names an unknown one. That many fetches at
	// once, then one per interval: made-up key names cause no more requests
	// than that, and a new key is found as soon.
	keyFetches     = 10
	keyFetchEvery  = 2 * time.Second
	maxIssuerBytes = 1 << 20
)

// signatures are the algorithms that a token may be signed with. Symmetric
// ones, which share a secret with the issuer, are not among them, nor is
// none.
var signatures = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// OIDCOptions say whose tokens are accepted, and for what.
type OIDCOptions struct {
	Issuer   string // required, except with Entra
	Audience string // the required audience of tokens
	// Name is what the sign-in page calls the issuer; "": its host. ClientID is this
	// server's id at the issuer, "": nobody signs in there with a browser.
	// ClientSecret may be empty, too.
	Name, ClientID, ClientSecret string
	// Entra accepts the tokens of organisations in Microsoft Entra: the
	// user is in tid and oid, and each tid is a tenant.
	Entra bool
	// Clients are the programs that may send tokens, by azp, or client_id where
	// a token has that. With none, a token must have been issued to Audience
	// itself, or name no client.
	Clients []string
	// Users is the operator's store. If it is opened only after the issuer was
	// checked, OIDCAuthenticator.SetUsers sets it instead.
	Users *tenant.Directory
	// Role is the role of a new user. The default is Reader.
	Role request.Role
	// RoleClaim is the claim that sets the role, each time; "" leaves it to
	// the admins of the tenant. Roles maps its values to our roles; without it
	// they are ours.
	RoleClaim string
	Roles     map[string]request.Role
	// Fresh is how long an answer of the store is cached. The default is to
	// ask each time.
	Fresh time.Duration
	HTTP  *http.Client
	Now   func() time.Time
}

// OIDCAuthenticator authenticates the users of an issuer by its tokens.
type OIDCAuthenticator struct {
	o     OIDCOptions
	seen  recent[request.Caller]
	found *discovery
}

// issuerDoors are the endpoints at which an issuer signs people in.
type issuerDoors struct {
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	Methods   []string `json:"token_endpoint_auth_methods_supported"`
}

// OIDC returns the Authenticator for an issuer. An issuer that does not answer now
// is asked again when somebody comes with a token of it; one that describes itself
// as another, or has its keys where they are not safe, is ErrInvalid.
func OIDC(ctx context.Context, o OIDCOptions) (*OIDCAuthenticator, error) {
	if o.Entra && o.Issuer == "" {
		o.Issuer = EntraIssuer
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	if o.Role == "" {
		o.Role = request.Reader
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	a := &OIDCAuthenticator{o: o, found: &discovery{o: o}}
	_, _ = a.found.get(ctx)
	if err := a.Away(); errors.Is(err, tidemark.ErrInvalid) {
		return nil, err
	}
	return a, nil
}

// Away returns why the issuer could not be asked when it was last tried, nil when it
// was found.
func (a *OIDCAuthenticator) Away() error { return a.found.away() }

// SetUsers sets the store of the users, before the first request.
func (a *OIDCAuthenticator) SetUsers(users *tenant.Directory) { a.o.Users = users }

// forSignIn accepts the tokens that say who signed in: an ID token is for the
// client, as an access token for the API is for the audience.
func (a *OIDCAuthenticator) forSignIn() *OIDCAuthenticator {
	ids := &OIDCAuthenticator{o: a.o, found: a.found}
	ids.o.Audience, ids.o.Clients = a.o.ClientID, nil
	return ids
}

func (o OIDCOptions) check() error {
	switch {
	case o.Audience == "":
		return tidemark.Invalidf("oidc: whom tokens must be for is not said")
	case !slices.Contains(request.Roles, o.Role):
		return tidemark.Invalidf("oidc: role %q", o.Role)
	}
	for value, role := range o.Roles {
		if !slices.Contains(request.Roles, role) {
			return tidemark.Invalidf("oidc: role %q of %q", role, value)
		}
	}
	return checkIssuerURL(o.Issuer)
}

// checkIssuerURL refuses keys that come over an unprotected connection.
func checkIssuerURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return tidemark.Invalidf("issuer %q: want a URL like https://issuer.example", text)
	}
	host := u.Hostname()
	if u.Scheme != "https" && !(u.Scheme == "http" && (host == "localhost" || host == "127.0.0.1" || host == "::1")) {
		return tidemark.Invalidf("issuer %q: want https", text)
	}
	return nil
}

func sameHost(a, b string) error {
	// The placeholder for the tenant cannot be parsed as part of a URL.
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(strings.ReplaceAll(b, entraTenant, "tenant"))
	if errA != nil || errB != nil || ua.Scheme != ub.Scheme || ua.Host != ub.Host {
		return tidemark.Invalidf("issuer %s: it describes another one, %q", a, b)
	}
	return nil
}

// Forget clears the cache.
func (a *OIDCAuthenticator) Forget() { a.seen.forget() }

func (a *OIDCAuthenticator) takes(token string, _ *http.Request) bool {
	return strings.Count(token, ".") == 2
}

// Authenticate determines whom a token is about.
func (a *OIDCAuthenticator) Authenticate(r *http.Request) (request.Caller, error) {
	token, sent, err := bearer(r)
	if err != nil || !sent {
		return request.Caller{}, errors.Join(err, refuse("no token"))
	}
	c, err := a.verify(r.Context(), token)
	if err != nil {
		return request.Caller{}, err
	}
	return a.seen.get(token, a.o.Fresh, func() (request.Caller, error) { return a.caller(r.Context(), c) })
}

// verify reads a token and checks that it is meant for us, from our issuer, and
// valid now.
func (a *OIDCAuthenticator) verify(ctx context.Context, token string) (claims, error) {
	if err := checkHeader(token); err != nil {
		return nil, err
	}
	by, err := a.found.get(ctx)
	if err != nil {
		return nil, err
	}
	var silent bool
	// It checks signatures and the audience. The library has no issuer for many
	// tenants, no leeway, and no iat: issuer and times are checked below.
	verifier := oidc.NewVerifier(by.issuer, by.keys, &oidc.Config{ClientID: a.o.Audience, SupportedSigningAlgs: signatures, SkipIssuerCheck: true, SkipExpiryCheck: true})
	verified, err := verifier.Verify(context.WithValue(ctx, silentKey{}, &silent), token)
	switch {
	case silent && err != nil:
		request.Note(ctx, "error", "the issuer does not answer: "+err.Error())
		return nil, request.Unavailable("the issuer of the token does not answer")
	case err != nil:
		request.Note(ctx, "token", err.Error())
		return nil, refuse("not valid")
	}
	var raw jsontext.Value
	if err := verified.Claims(&raw); err != nil {
		return nil, refuse("claims")
	}
	c, err := parseClaims(raw)
	if err != nil {
		return nil, err
	}
	// The library ignores the case of names, and reads the last of two.
	if sub, _ := c.text("sub"); sub != verified.Subject {
		return nil, refuse("subject")
	}
	return c, errors.Join(a.checkIssuer(by.issuer, c), a.checkAudience(c), c.checkTimes(a.o.Now()))
}

// checkIssuer compares the issuer of the token with the accepted one.
func (a *OIDCAuthenticator) checkIssuer(issuer string, c claims) error {
	if a.o.Entra {
		tid, ok := c.uuid("tid")
		if !ok {
			return refuse("tid")
		}
		issuer = strings.ReplaceAll(issuer, entraTenant, tid)
	}
	if iss, ok := c.text("iss"); !ok || iss != issuer {
		return refuse("issuer")
	}
	return nil
}

// checkAudience compares the audience of the token with ours, and the
// program that it was issued to with those that may send one: any program
// that an issuer knows can ask people for a token that names us. A token for
// several audiences has to name that program.
func (a *OIDCAuthenticator) checkAudience(c claims) error {
	aud, ok := c.texts("aud")
	if !ok || !slices.Contains(aud, a.o.Audience) {
		return refuse("audience")
	}
	said := false
	for _, name := range []string{"azp", "client_id"} {
		if _, has := c[name]; !has {
			continue
		}
		client, ok := c.text(name)
		switch {
		case !ok || client == "":
			return refuse(name)
		case client != a.o.Audience && !slices.Contains(a.o.Clients, client):
			return refuse("client " + client)
		}
		said = said || name == "azp" || len(aud) == 1
	}
	if !said && (len(aud) > 1 || len(a.o.Clients) > 0) {
		return refuse("azp")
	}
	return nil
}

// caller finds, or creates, the user of the claims.
func (a *OIDCAuthenticator) caller(ctx context.Context, c claims) (request.Caller, error) {
	iss, _ := c.text("iss")
	subject, ok := c.text("sub")
	foreign := ""
	if a.o.Entra {
		// sub differs between programs; oid is the user.
		foreign, _ = c.uuid("tid")
		subject, ok = c.uuid("oid")
	}
	if !ok || subject == "" {
		return request.Caller{}, refuse("subject")
	}
	role, err := a.role(c)
	if err != nil {
		return request.Caller{}, err
	}
	if a.o.Users == nil {
		return request.Caller{}, errors.New("oidc: no store of users was set")
	}
	in, rule, err := a.o.Users.Belonging(ctx, iss, foreign, func(claim string) []string {
		values, _ := c.texts(claim)
		return values
	})
	if errors.Is(err, tidemark.ErrNotFound) {
		return request.Caller{}, refuse("unknown tenant")
	}
	if err != nil {
		return request.Caller{}, err
	}
	if in.State != tenant.Active {
		return request.Caller{}, &Refusal{Why: "suspended tenant", Tenant: in.ID, User: tenant.UserID(in.Name, iss, subject)}
	}
	if rule.Role != "" {
		role = request.Role(rule.Role)
	}
	u, _, err := a.o.Users.UpsertUser(ctx, tenant.Claims{Tenant: in, Issuer: iss, Subject: subject, Role: string(role), Decides: a.o.RoleClaim != "" || rule.Role != "",
		Workspaces: rule.WorkspacesOf(in), Places: len(rule.Workspaces) > 0, Operator: rule.Operator,
		Name: c.any("name", "preferred_username", "email"), Email: c.any("email", "preferred_username")})
	switch {
	case errors.Is(err, tidemark.ErrInvalid):
		return request.Caller{}, refuse("subject")
	case errors.Is(err, tidemark.ErrDenied):
		return request.Caller{}, &Refusal{Why: "not provisioned", Tenant: in.ID, User: tenant.UserID(in.Name, iss, subject)}
	case err != nil:
		return request.Caller{}, err
	case u.State != tenant.Active:
		return request.Caller{}, &Refusal{Why: "suspended user", Tenant: in.ID, User: u.ID}
	}
	name := u.Name
	if name == "" {
		name = u.ID
	}
	return request.Caller{Principal: tidemark.Principal{Tenant: in.ID, User: u.ID, Workspaces: u.Workspaces}, Name: name, Role: request.Role(u.Role), Operator: u.Operator, Ruled: u.Operator}, nil
}

// role is the role from the claims: the highest that they contain. Without a
// known role the user gets that of new users.
func (a *OIDCAuthenticator) role(c claims) (request.Role, error) {
	role := a.o.Role
	if _, has := c[a.o.RoleClaim]; a.o.RoleClaim == "" || !has {
		return role, nil
	}
	values, ok := c.texts(a.o.RoleClaim)
	if !ok {
		return role, refuse("roles")
	}
	for _, v := range values {
		said := request.Role(v)
		if a.o.Roles != nil {
			said = a.o.Roles[v]
		}
		if said.May(role) {
			role = said
		}
	}
	return role, nil
}

// checkHeader refuses what is not a signed token in compact form, before
// anything is done with it.
func checkHeader(token string) error {
	head, _, _ := strings.Cut(token, ".")
	if strings.Count(token, ".") != 2 {
		return refuse("malformed")
	}
	for part := range strings.SplitSeq(token, ".") {
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil || part == "" {
			return refuse("malformed")
		}
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(head)
	if err != nil {
		return refuse("malformed")
	}
	h, err := parseClaims(raw)
	if err != nil {
		return refuse("header")
	}
	if alg, ok := h.text("alg"); !ok || !slices.Contains(signatures, alg) {
		return refuse("algorithm")
	}
	if _, has := h["crit"]; has {
		return refuse("header")
	}
	if _, has := h["typ"]; has {
		typ, _ := h.text("typ")
		if typ = strings.TrimPrefix(strings.ToLower(typ), "application/"); typ != "jwt" && typ != "at+jwt" {
			return refuse("type")
		}
	}
	if kid, ok := h.text("kid"); len(h["kid"]) > 0 && (!ok || len(kid) > 256) {
		return refuse("key")
	}
	return nil
}

// claims are the content of a token, read strictly: no duplicate names, and no
// names that differ only in case.
type claims map[string]jsontext.Value

func parseClaims(raw []byte) (claims, error) {
	var c claims
	if err := jsonv2.Unmarshal(raw, &c); err != nil || c == nil {
		return nil, refuse("claims")
	}
	folded := make(map[string]bool, len(c))
	for name := range c {
		lower := strings.ToLower(name)
		if folded[lower] {
			return nil, refuse("claims")
		}
		folded[lower] = true
	}
	return c, nil
}

// text is the value of a claim that is a text.
func (c claims) text(name string) (string, bool) {
	raw, ok := c[name]
	if !ok || raw.Kind() != '"' {
		return "", false
	}
	var s string
	err := jsonv2.Unmarshal(raw, &s)
	return s, err == nil
}

// any is the first of several claims that is a text and not empty.
func (c claims) any(names ...string) string {
	for _, name := range names {
		if s, ok := c.text(name); ok && s != "" {
			return s
		}
	}
	return ""
}

// texts is the value of a claim that is a text, or several.
func (c claims) texts(name string) ([]string, bool) {
	if s, ok := c.text(name); ok {
		return []string{s}, true
	}
	raw, ok := c[name]
	if !ok || raw.Kind() != '[' {
		return nil, false
	}
	var each []jsontext.Value
	if jsonv2.Unmarshal(raw, &each) != nil {
		return nil, false
	}
	all := make([]string, 0, len(each))
	for _, v := range each {
		s, ok := claims{"": v}.text("")
		if !ok {
			return nil, false
		}
		all = append(all, s)
	}
	return all, true
}

// uuid is the value of a claim that is a UUID, in the one form that it has.
func (c claims) uuid(name string) (string, bool) {
	s, ok := c.text(name)
	if !ok {
		return "", false
	}
	id, err := tidemark.ParseSessionID(s)
	return s, err == nil && string(id) == s
}

// time is the value of a claim that is a time; has reports whether it is
// present.
func (c claims) time(name string) (at time.Time, has, ok bool) {
	raw, has := c[name]
	if !has {
		return at, false, true
	}
	var seconds float64
	if raw.Kind() != '0' || jsonv2.Unmarshal(raw, &seconds) != nil || math.IsNaN(seconds) || seconds < 0 || seconds > 1<<37 {
		return at, true, false
	}
	return time.Unix(int64(seconds), 0), true, true
}

// checkTimes refuses a token that is not valid now.
func (c claims) checkTimes(now time.Time) error {
	exp, has, ok := c.time("exp")
	switch {
	case !has || !ok:
		return refuse("exp")
	case !now.Before(exp.Add(clockLeeway)):
		return refuse("expired")
	case exp.Sub(now) > maxTokenLife:
		return refuse("exp")
	}
	for _, name := range []string{"nbf", "iat"} {
		if at, has, ok := c.time(name); !ok || has && at.After(now.Add(clockLeeway)) {
			return refuse(name)
		}
	}
	return nil
}

// issuerKeys are the keys of an issuer, fetched when needed, but no more
// often than is reasonable for an issuer.
type issuerKeys struct {
	remote  *oidc.RemoteKeySet
	under   http.RoundTripper
	pace    *rate.Limiter
	fetches atomic.Int64 // number of fetches begun
}

// silentKey is the context key for recording that an issuer does not
// answer: the library passes on the text of an error, and not the error.
type silentKey struct{}

func newIssuerKeys(client http.Client, address string) *issuerKeys {
	k := &issuerKeys{under: client.Transport, pace: rate.NewLimiter(rate.Every(keyFetchEvery), keyFetches)}
	if k.under == nil {
		k.under = http.DefaultTransport
	}
	client.Transport = k
	k.remote = oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), &client), address)
	return k
}

// VerifySignature implements oidc.KeySet. Keys that do not match may have
// been fetched before the issuer had the right one: only those requested
// after the token came count. Without such keys nobody is refused: the issuer
// has not answered.
func (k *issuerKeys) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	came, until := k.fetches.Load(), time.Now().Add(issuerTimeout)
	for {
		fresh := k.fetches.Load() > came
		payload, err = k.remote.VerifySignature(ctx, token)
		if err == nil || fresh || ctx.Err() != nil {
			return payload, err
		}
		var lost *url.Error
		if errors.As(err, &lost) || time.Now().After(until) {
			if silent, ok := ctx.Value(silentKey{}).(*bool); ok {
				*silent = true
			}
			return payload, err
		}
		// A fetch that has ended is forgotten within a moment, longer where the
		// machine is busy.
		time.Sleep(time.Millisecond)
	}
}

// RoundTrip fetches keys when allowed. All waiters share one fetch.
func (k *issuerKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := k.pace.Wait(r.Context()); err != nil {
		return nil, err
	}
	k.fetches.Add(1)
	answer, err := k.under.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	// Without its keys nobody can be refused: such an issuer does not answer.
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, errors.New("its keys: " + answer.Status)
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxIssuerBytes)
	return answer, nil
}
