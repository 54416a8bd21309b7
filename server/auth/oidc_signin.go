package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

const (
	// userCookieLife is how long somebody stays signed in: a working day.
	// Their identity and rights are checked throughout.
	userCookieLife = 12 * time.Hour
	// flowLife is how long signing in at the issuer may take.
	flowLife = 10 * time.Minute
	// The cookies of people signed in through an issuer, and of those who are
	// signing in.
	userCookie = "tidemark-user"
	flowCookie = "tidemark-flow"
	// hostPrefix binds a cookie to this host; browsers enforce it over TLS.
	hostPrefix = "__Host-"
)

// OIDCSignInOptions say how browsers sign in through issuers.
type OIDCSignInOptions struct {
	// Issuers are those that people sign in through: all that have a ClientID.
	// Required.
	Issuers *Issuers
	Users   *tenant.Directory // the operator's store; required
	// Key signs cookies; servers that share it accept each other's. Required.
	Key []byte
	// URL is the public address of this server, https://tides.example.com; "":
	// taken from the request, which is wrong behind a proxy that terminates
	// TLS.
	URL string
	// Fresh is how long an answer of the store is cached. The default is to
	// ask each time.
	Fresh time.Duration
	Now   func() time.Time
}

// OIDCSignIn lets browsers sign in through an issuer, with the authorization
// code flow and PKCE, and recognises them by a cookie afterwards.
type OIDCSignIn struct {
	o    OIDCSignInOptions
	seen recent[request.Caller]
}

// SignInWith returns the SignIn of issuers, which is also the Authenticator
// of its cookies.
func SignInWith(o OIDCSignInOptions) (*OIDCSignIn, error) {
	switch {
	case len(o.Key) < 32:
		return nil, tidemark.Invalidf("oidc: no key for cookies")
	case o.URL != "" && !strings.HasPrefix(o.URL, "https://") && !strings.HasPrefix(o.URL, "http://"):
		return nil, tidemark.Invalidf("%q: want the URL of this server, such as https://tides.example.com", o.URL)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	return &OIDCSignIn{o: o}, nil
}

// secure reports whether the browser uses TLS, with us or with a proxy.
func (a *OIDCSignIn) secure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(a.o.URL, "https://")
}

// callback is where the issuer sends people back to.
func (a *OIDCSignIn) callback(r *http.Request) string {
	base := a.o.URL
	if base == "" {
		base = "http://" + r.Host
		if r.TLS != nil {
			base = "https://" + r.Host
		}
	}
	return base + "/signin/callback"
}

// ServeSignIn serves the paths below /signin.
func (a *OIDCSignIn) ServeSignIn(w http.ResponseWriter, r *http.Request, show ShowSignIn) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path {
	case "/signin":
		a.page(w, show, http.StatusOK, "")
	case "/signin/start":
		a.start(w, r, show)
	case "/signin/callback":
		a.finish(w, r, show)
	default:
		a.page(w, show, http.StatusNotFound, "")
	}
}

func (a *OIDCSignIn) page(w http.ResponseWriter, show ShowSignIn, status int, wrong string) {
	v := SignInView{Wrong: wrong}
	for _, by := range a.o.Issuers.signIn() {
		v.Issuers = append(v.Issuers, SignInIssuer{Name: by.name(), Start: "/signin/start?" + url.Values{"issuer": {by.o.Issuer}}.Encode()})
	}
	show(w, status, v)
}

// flow is what a browser brings back from the issuer: proof that it started
// here, and what proves it to the issuer.
type flow struct {
	Issuer   string    `json:"issuer"`
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Until    time.Time `json:"until"`
}

// through returns the issuer that somebody signs in through, by its URL; "" is the
// first. nil when there is none.
func (a *OIDCSignIn) through(issuer string) *OIDCAuthenticator {
	for _, by := range a.o.Issuers.signIn() {
		if issuer == "" || by.o.Issuer == issuer {
			return by
		}
	}
	return nil
}

// start sends a browser to the issuer.
func (a *OIDCSignIn) start(w http.ResponseWriter, r *http.Request, show ShowSignIn) {
	by := a.through(r.URL.Query().Get("issuer"))
	if by == nil {
		a.page(w, show, http.StatusNotFound, "issuer")
		return
	}
	at, err := by.found.get(r.Context())
	if err != nil {
		a.page(w, show, http.StatusServiceUnavailable, "away")
		return
	}
	f := flow{Issuer: by.o.Issuer, State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), Until: a.o.Now().Add(flowLife)}
	challenge := sha256.Sum256([]byte(f.Verifier))
	door, err := url.Parse(at.doors.Authorize)
	if err != nil {
		a.page(w, show, http.StatusBadGateway, "issuer")
		return
	}
	q := door.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": by.o.ClientID, "redirect_uri": a.callback(r), "scope": "openid profile email",
		"state": f.State, "nonce": f.Nonce, "code_challenge": base64.RawURLEncoding.EncodeToString(challenge[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	door.RawQuery = q.Encode()
	// Lax: the browser comes back from another site, and has to send it.
	a.setCookie(w, r, flowCookie, a.signed(flowCookie, f), int(flowLife.Seconds()), http.SameSiteLaxMode)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, door.String(), http.StatusSeeOther)
}

// finish handles a browser that comes back from the issuer.
func (a *OIDCSignIn) finish(w http.ResponseWriter, r *http.Request, show ShowSignIn) {
	q := r.URL.Query()
	var f flow
	known := a.unsigned(flowCookie, a.cookie(r, flowCookie), &f) && a.o.Now().Before(f.Until)
	a.setCookie(w, r, flowCookie, "", -1, http.SameSiteLaxMode)
	if !known || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(f.State)) != 1 {
		a.page(w, show, http.StatusUnauthorized, "state")
		return
	}
	by := a.through(f.Issuer)
	if by == nil || f.Issuer == "" || q.Get("error") != "" || q.Get("code") == "" {
		request.Note(r.Context(), "refused", "issuer: "+q.Get("error"))
		a.page(w, show, http.StatusUnauthorized, "issuer")
		return
	}
	caller, err := by.exchange(r.Context(), q, a.callback(r), f)
	switch {
	case err == nil:
	case request.Problem(err).Status >= http.StatusInternalServerError:
		request.Note(r.Context(), "error", err.Error())
		a.page(w, show, http.StatusServiceUnavailable, "away")
		return
	case errors.Is(err, errDeniedHere):
		a.page(w, show, http.StatusForbidden, "denied")
		return
	default:
		request.Note(r.Context(), "refused", err.Error())
		a.page(w, show, http.StatusUnauthorized, "issuer")
		return
	}
	value := a.signed(userCookie, signedInUser{Tenant: caller.Tenant, User: caller.User, Until: a.o.Now().Add(userCookieLife), Nonce: rand.Text()})
	a.setCookie(w, r, userCookie, value, int(userCookieLife.Seconds()), http.SameSiteStrictMode)
	show(w, http.StatusOK, SignInView{Done: true})
}

// errDeniedHere is for somebody whom the issuer knows and we do not admit.
var errDeniedHere = errors.New("the issuer vouches for somebody who may not come in")

// exchange exchanges the code that a browser brought for the user that it stands
// for.
func (a *OIDCAuthenticator) exchange(ctx context.Context, q url.Values, callback string, f flow) (request.Caller, error) {
	at, err := a.found.get(ctx)
	if err != nil {
		return request.Caller{}, err
	}
	if from := q.Get("iss"); from != "" && !a.o.Entra && from != at.issuer {
		return request.Caller{}, refuse("issuer")
	}
	token, err := a.redeem(ctx, at.doors, q.Get("code"), callback, f.Verifier)
	if err != nil {
		return request.Caller{}, err
	}
	ids := a.forSignIn()
	c, err := ids.verify(ctx, token)
	if err != nil {
		return request.Caller{}, err
	}
	if nonce, _ := c.text("nonce"); subtle.ConstantTimeCompare([]byte(nonce), []byte(f.Nonce)) != 1 {
		return request.Caller{}, refuse("nonce")
	}
	caller, err := ids.caller(ctx, c)
	if errors.Is(err, tidemark.ErrDenied) {
		return caller, errors.Join(errDeniedHere, err)
	}
	return caller, err
}

// redeem asks the issuer for the token of a code.
func (a *OIDCAuthenticator) redeem(ctx context.Context, doors issuerDoors, code, callback, verifier string) (string, error) {
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier}, "client_id": {a.o.ClientID}}
	inForm := len(doors.Methods) > 0 && !slices.Contains(doors.Methods, "client_secret_basic")
	if a.o.ClientSecret != "" && inForm {
		form.Set("client_secret", a.o.ClientSecret)
	}
	ctx, stop := context.WithTimeout(ctx, issuerTimeout)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, doors.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	if a.o.ClientSecret != "" && !inForm {
		r.SetBasicAuth(url.QueryEscape(a.o.ClientID), url.QueryEscape(a.o.ClientSecret))
	}
	client := *a.o.HTTP
	// The request contains a secret, which must not be sent elsewhere.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(r)
	if err != nil {
		request.Note(ctx, "error", "the issuer does not answer: "+err.Error())
		return "", request.Unavailable("the issuer does not answer")
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxIssuerBytes))
	if err != nil || res.StatusCode >= 500 {
		return "", request.Unavailable("the issuer does not answer")
	}
	var said struct {
		IDToken string `json:"id_token"`
	}
	if res.StatusCode != http.StatusOK || json.Unmarshal(body, &said) != nil || said.IDToken == "" || len(said.IDToken) > maxBearer {
		return "", refuse("code")
	}
	return said.IDToken, nil
}

// SignOut removes the cookie from the browser, and makes it void at every
// server.
func (a *OIDCSignIn) SignOut(w http.ResponseWriter, r *http.Request) error {
	value := a.cookie(r, userCookie)
	var who signedInUser
	if a.unsigned(userCookie, value, &who) {
		if err := a.o.Users.SignOut(r.Context(), value, who.Until); err != nil {
			return err
		}
	}
	a.setCookie(w, r, userCookie, "", -1, http.SameSiteStrictMode)
	return nil
}

func (a *OIDCSignIn) setCookie(w http.ResponseWriter, r *http.Request, name, value string, seconds int, site http.SameSite) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, SameSite: site}
	if a.secure(r) {
		c.Name, c.Secure = hostPrefix+name, true
	}
	http.SetCookie(w, c)
}

// cookie is the value of one of our cookies, "" when there is none or more than
// one.
func (a *OIDCSignIn) cookie(r *http.Request, name string) string {
	if a.secure(r) {
		name = hostPrefix + name
	}
	found := r.CookiesNamed(name)
	if len(found) != 1 {
		return ""
	}
	return found[0].Value
}

// signed encodes a value with proof that we did. Its purpose is part of the
// proof, so that no cookie passes for another.
func (a *OIDCSignIn) signed(what string, v any) string {
	body, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(a.proof(what, body), body...))
}

func (a *OIDCSignIn) unsigned(what, text string, into any) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= sha256.Size || !hmac.Equal(b[:sha256.Size], a.proof(what, b[sha256.Size:])) {
		return false
	}
	return json.Unmarshal(b[sha256.Size:], into) == nil
}

func (a *OIDCSignIn) proof(what string, body []byte) []byte {
	m := hmac.New(sha256.New, a.o.Key)
	m.Write([]byte(what + "\x00"))
	m.Write(body)
	return m.Sum(nil)
}
