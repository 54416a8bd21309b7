package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

const (
	// CodeLife is how long a sign-in link works: long enough to click it.
	CodeLife = 2 * time.Minute
	// maxCodes bounds the links that were not clicked yet.
	maxCodes = 100
	// cookieLife is how long a browser stays signed in.
	cookieLife = 7 * 24 * time.Hour
	// minLocalToken is below what this program generates, and above what a
	// person would make up.
	minLocalToken = 16
)

// What the cookie's name begins with. That over TLS binds it to this host; browsers enforce it.
const (
	cookieName       = "tidemark"
	secureCookieName = "__Host-tidemark"
)

// LocalAuthenticator knows the one user of a server on their own machine, by a token
// or, in a browser, by a cookie that a sign-in link set. The token is needed also on
// loopback: other users and every web page can reach that, too.
type LocalAuthenticator struct {
	token  [32]byte // its hash, which has a fixed length for comparisons
	usable bool
	key    []byte // signs cookies; derived from the token, so that a new token makes all of them void
	caller request.Caller
	now    func() time.Time
	tries  failures          // failed attempts to type a token into the page
	users  *tenant.Directory // knows which cookies were signed out; nil: none

	mu    sync.Mutex
	codes map[[32]byte]time.Time
}

// Local returns the Authenticator of a server for one user. A token that is
// too short to be a secret admits nobody.
func Local(token string, p tidemark.Principal) *LocalAuthenticator {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("tidemark cookie"))
	return &LocalAuthenticator{token: sha256.Sum256([]byte(token)), usable: len(token) >= minLocalToken, key: mac.Sum(nil), now: time.Now,
		caller: request.Caller{Principal: p, Name: "local", Role: request.Admin, Operator: true}, codes: make(map[[32]byte]time.Time)}
}

// SetUsers sets the store that records signed-out browsers, before the first
// request. Without it a copy of a cookie works until it expires.
func (a *LocalAuthenticator) SetUsers(users *tenant.Directory) { a.users = users }

func (a *LocalAuthenticator) takes(token string, r *http.Request) bool {
	return token != "" || cookieOf(r) != ""
}

// Authenticate admits the user.
func (a *LocalAuthenticator) Authenticate(r *http.Request) (request.Caller, error) {
	token, sent, err := bearer(r)
	if err != nil {
		return request.Caller{}, err
	}
	if sent {
		sum := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(sum[:], a.token[:]) != 1 || !a.usable {
			return request.Caller{}, refuse("unknown token")
		}
		return a.caller, nil
	}
	if !a.usable || !a.cookieHolds(cookieOf(r)) {
		return request.Caller{}, refuse("no token")
	}
	if !fromOurPage(r) {
		return request.Caller{}, refuse("cookie from another page")
	}
	if a.users != nil {
		if err := stillSignedIn(r.Context(), a.users, cookieOf(r)); err != nil {
			return request.Caller{}, err
		}
	}
	return a.caller, nil
}

// fromOurPage reports whether a request that a browser authenticated by its
// cookie came from a page of this server. SameSite=Strict does not exclude
// pages of the same site on another port; the browser's Sec-Fetch headers do.
func fromOurPage(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	sameOrigin := false
	if u, err := url.Parse(origin); err == nil && origin != "" {
		sameOrigin = u.Host != "" && strings.EqualFold(u.Host, r.Host)
	}
	if origin != "" && !sameOrigin {
		return false
	}
	safe := (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Upgrade") == ""
	switch site {
	case "same-origin":
		return true
	case "none": // typed, or a bookmark
		return safe
	case "": // an old browser, or none
		return safe || sameOrigin
	}
	return false
}

// NewCode returns a code that signs a browser in, once, within two minutes:
// /signin?code=CODE.
func (a *LocalAuthenticator) NewCode() string {
	code := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	for sum, until := range a.codes {
		if !a.now().Before(until) || len(a.codes) >= maxCodes {
			delete(a.codes, sum)
		}
	}
	a.codes[sha256.Sum256([]byte(code))] = a.now().Add(CodeLife)
	return code
}

// redeem reports whether a code was issued and not used yet.
func (a *LocalAuthenticator) redeem(code string) bool {
	sum := sha256.Sum256([]byte(code))
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.codes[sum]
	delete(a.codes, sum)
	return ok && a.now().Before(until)
}

// newCookie makes the value of a cookie: its expiry, and proof that we made
// it.
func (a *LocalAuthenticator) newCookie() string {
	b := make([]byte, 24, 24+sha256.Size)
	rand.Read(b[:16])
	binary.BigEndian.PutUint64(b[16:], uint64(a.now().Add(cookieLife).Unix()))
	return base64.RawURLEncoding.EncodeToString(append(b, a.sign(b)...))
}

func (a *LocalAuthenticator) sign(b []byte) []byte {
	mac := hmac.New(sha256.New, a.key)
	mac.Write(b)
	return mac.Sum(nil)
}

func (a *LocalAuthenticator) cookieHolds(value string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil || len(b) != 24+sha256.Size || !hmac.Equal(b[24:], a.sign(b[:24])) {
		return false
	}
	return a.now().Unix() < int64(binary.BigEndian.Uint64(b[16:24]))
}

// cookieNames are what our cookie may be called: by the port that the browser named, since
// it keeps one jar for all ports of a host, and as releases called it that knew no port.
func cookieNames(r *http.Request) []string {
	name := cookieName
	if r.TLS != nil {
		name = secureCookieName
	}
	_, port, _ := net.SplitHostPort(r.Host)
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		return []string{name + "-" + strconv.FormatUint(n, 10), name}
	}
	return []string{name}
}

// cookieOf is the value of our cookie, "" when there is none or more than one of a name.
func cookieOf(r *http.Request) string {
	for _, name := range cookieNames(r) {
		switch found := r.CookiesNamed(name); len(found) {
		case 0:
		case 1:
			return found[0].Value
		default:
			return ""
		}
	}
	return ""
}

// cookieFor is a cookie of ours as a browser keeps it.
func cookieFor(r *http.Request, name, value string, seconds int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
}

// ServeSignIn serves /signin: a page that explains it, /signin?code=CODE, and
// a token typed into its form.
func (a *LocalAuthenticator) ServeSignIn(w http.ResponseWriter, r *http.Request, show ShowSignIn) {
	switch {
	case r.URL.Path != "/signin":
		show(w, http.StatusNotFound, SignInView{Token: true})
	case r.Method == http.MethodPost:
		a.takeToken(w, r, show)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
	case !r.URL.Query().Has("code"):
		show(w, http.StatusOK, SignInView{Token: true})
	case !a.usable || !a.redeem(r.URL.Query().Get("code")):
		show(w, http.StatusUnauthorized, SignInView{Token: true, Wrong: "link"})
	default:
		a.letIn(w, r)
		show(w, http.StatusOK, SignInView{Done: true})
	}
}

// takeToken admits somebody who typed the token. A page of another origin
// cannot submit it: it would choose who its visitors are here.
func (a *LocalAuthenticator) takeToken(w http.ResponseWriter, r *http.Request, show ShowSignIn) {
	if http.NewCrossOriginProtection().Check(r) != nil {
		show(w, http.StatusForbidden, SignInView{Token: true, Wrong: "origin"})
		return
	}
	address := addressOf(r)
	if a.tries.tooMany(address) {
		w.Header().Set("Retry-After", "5")
		show(w, http.StatusTooManyRequests, SignInView{Token: true, Wrong: "often"})
		return
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(r.PostFormValue("token"))))
	if subtle.ConstantTimeCompare(sum[:], a.token[:]) != 1 || !a.usable {
		a.tries.add(address)
		show(w, http.StatusUnauthorized, SignInView{Token: true, Wrong: "token"})
		return
	}
	a.letIn(w, r)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// letIn gives a browser the cookie of the user.
func (a *LocalAuthenticator) letIn(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, cookieFor(r, cookieNames(r)[0], a.newCookie(), int(cookieLife.Seconds())))
}

// SignOut removes our cookies from the browser, and makes them void if SetUsers was
// called. One of an earlier release is left if it is another server's.
func (a *LocalAuthenticator) SignOut(w http.ResponseWriter, r *http.Request) error {
	for i, name := range cookieNames(r) {
		ours := i == 0
		for _, c := range r.CookiesNamed(name) {
			if !a.cookieHolds(c.Value) {
				continue
			}
			ours = true
			if a.users == nil {
				continue
			}
			if err := a.users.SignOut(r.Context(), c.Value, a.now().Add(cookieLife)); err != nil {
				return err
			}
		}
		if ours {
			http.SetCookie(w, cookieFor(r, name, "", -1))
		}
	}
	return nil
}
