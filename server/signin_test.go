package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/auth/authtest"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// browser is a client that keeps cookies and goes where it is sent, but not to
// other servers.
type browser struct {
	*http.Client
	t   *testing.T
	url string
}

func newBrowser(t *testing.T, url string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, t, url}
}

func (b *browser) do(method, path, form string, headers ...string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := b.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res, string(body)
}

// want makes a request that has to be answered with a status.
func (b *browser) want(status int, method, path, form string, headers ...string) (*http.Response, string) {
	b.t.Helper()
	res, body := b.do(method, path, form, headers...)
	if res.StatusCode != status {
		b.t.Fatalf("%s %s: %d, want %d: %s", method, path, res.StatusCode, status, body)
	}
	return res, body
}

func TestTheLocalPageLetsInWhoHasTheToken(t *testing.T) {
	local := auth.Local("0123456789abcdef", tidemark.TenantOf("a", "jo"))
	s := newTestServer(t, func(o *Options) { o.SignIn, o.Auth = local, auth.Any(local) })
	b := newBrowser(t, s.URL)
	_, page := b.want(401, "GET", "/sessions", "")
	has(t, page, "<title>Sign in · Tidemark</title>", `href="/signin?next=%2Fsessions"`, "tidemark open")
	res, page := b.want(200, "GET", "/signin", "")
	has(t, page, "tidemark open", `name="token"`)
	if policy := res.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self'") {
		t.Errorf("policy %q", policy)
	}
	_, page = b.want(401, "POST", "/signin", "token=wrong")
	has(t, page, "This is not the token")
	b.want(403, "POST", "/signin", "token=0123456789abcdef", "Sec-Fetch-Site: cross-site")
	b.want(401, "GET", "/sessions", "")
	b.want(303, "POST", "/signin", "token=+0123456789abcdef%0A")
	b.want(200, "GET", "/sessions", "")
	b.want(303, "POST", "/signout", "")
	b.want(401, "GET", "/sessions", "")
	b.want(405, "DELETE", "/signin", "")
}

func TestWhoSignsInGetsToThePageTheyCameForAndToNoOtherSite(t *testing.T) {
	local := auth.Local("0123456789abcdef", tidemark.TenantOf("a", "jo"))
	s := newTestServer(t, func(o *Options) { o.SignIn, o.Auth = local, auth.Any(local) })
	for next, want := range map[string]string{
		"/usage?by=model":      "/usage?by=model",
		"/sessions/7f3a#e12":   "/sessions/7f3a#e12", // a browser that runs scripts names the place, too
		"//evil.example/":      "",
		`/\evil.example`:       "",
		`\/\/evil.example`:     "",
		"https://evil.example": "",
		"javascript:alert(1)":  "",
		"/\t/evil.example":     "",
		"%2f%2fevil.example":   "",
	} {
		b := newBrowser(t, s.URL)
		b.want(200, "GET", "/signin?next="+url.QueryEscape(next), "")
		b.want(303, "POST", "/signin", "token=0123456789abcdef")
		status := 303
		if want == "" {
			status = 200
		}
		if res, _ := b.want(status, "GET", "/", ""); res.Header.Get("Location") != want {
			t.Errorf("next=%q leads to %q, want %q", next, res.Header.Get("Location"), want)
		}
		b.want(200, "GET", "/", "") // once
	}
}

func TestWhoGuessesTheTokenHasToWait(t *testing.T) {
	local := auth.Local("0123456789abcdef", tidemark.TenantOf("a", "jo"))
	s := newTestServer(t, func(o *Options) { o.SignIn, o.Auth = local, auth.Any(local) })
	b := newBrowser(t, s.URL)
	for range 50 {
		b.do("POST", "/signin", "token=wrong")
	}
	for range 3 { // some of the tries are given back meanwhile
		if res, _ := b.do("POST", "/signin", "token=wrong"); res.StatusCode == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("nobody was told to wait")
}

func TestAProgramGetsALinkThatSignsInOnce(t *testing.T) {
	local := auth.Local("0123456789abcdef", tidemark.TenantOf("a", "jo"))
	s := newTestServer(t, func(o *Options) { o.SignIn, o.Auth = local, auth.Any(local) })
	var link struct {
		Path string
		Till time.Time
	}
	s.call(t, "0123456789abcdef", "POST", "/api/v1/signin-code", nil).want(t, 201).into(t, &link)
	b := newBrowser(t, s.URL)
	res, page := b.want(200, "GET", link.Path, "", "Sec-Fetch-Site: none")
	if res.Header.Get("Refresh") != "0;url=/" {
		t.Errorf("refresh %q", res.Header.Get("Refresh"))
	}
	has(t, page, "You are signed in")
	b.want(200, "GET", "/sessions", "")
	newBrowser(t, s.URL).want(401, "GET", link.Path, "")
	if !link.Till.After(time.Now()) {
		t.Errorf("till %s", link.Till)
	}
	others, _ := pagesServer(t)
	others.call(t, "admin-a", "POST", "/api/v1/signin-code", nil).want(t, 403)
	others.call(t, "op", "POST", "/api/v1/signin-code", nil).want(t, 201)
}

// team is a server that people sign in to through an issuer.
type team struct {
	*testServer
	issuer *authtest.Issuer
	key    authtest.Signer // of the issuer
	users  *tenant.Directory
	in     *auth.OIDCSignIn
	now    time.Time
	tokens func(asked url.Values) map[string]any // what the issuer says of who signs in
	asked  []url.Values
}

func newTeam(t *testing.T) *team {
	t.Helper()
	x := &team{key: authtest.NewEC(t, "ec"), users: tenant.NewDirectory(records.New(memory.New(), records.Options{})), now: time.Now()}
	x.issuer = authtest.NewIssuer(t, x.key)
	if _, err := x.users.CreateTenant(t.Context(), tenant.Tenant{Name: "plain", Issuer: x.issuer.URL}); err != nil {
		t.Fatal(err)
	}
	var known *auth.OIDCAuthenticator
	known, x.in = x.door(t, 0)
	x.issuer.Redeem = func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		id, secret, _ := r.BasicAuth()
		r.PostForm.Set("basic", id+":"+secret)
		x.asked = append(x.asked, r.PostForm)
		said := x.tokens(r.PostForm)
		if said == nil {
			w.WriteHeader(400)
			w.Write([]byte(`{"error":"invalid_grant"}`))
			return
		}
		json.NewEncoder(w).Encode(map[string]string{"id_token": x.key.Token(said), "token_type": "Bearer", "access_token": "none of ours"})
	}
	x.testServer = newTestServer(t, func(o *Options) { o.SignIn, o.Auth = x.in, auth.Any(auth.ServiceTokens(x.users), known, x.in) })
	return x
}

// cookieKey signs the cookies of a team.
var cookieKey = []byte(strings.Repeat("k", 32))

// door is how people come in, at one of several servers.
func (x *team) door(t *testing.T, fresh time.Duration) (*auth.OIDCAuthenticator, *auth.OIDCSignIn) {
	t.Helper()
	known, err := auth.OIDC(t.Context(), auth.OIDCOptions{Issuer: x.issuer.URL, Audience: authtest.OurAudience, ClientID: "pages", ClientSecret: "hush", Users: x.users, Fresh: fresh, Now: func() time.Time { return x.now }})
	if err != nil {
		t.Fatal(err)
	}
	in, err := auth.SignInWith(auth.OIDCSignInOptions{Issuers: auth.NewIssuers(known), Users: x.users, Key: cookieKey, Fresh: fresh, Now: func() time.Time { return x.now }})
	if err != nil {
		t.Fatal(err)
	}
	return known, in
}

// start begins to sign in, and returns what the issuer is asked.
func (x *team) start(b *browser) url.Values {
	b.t.Helper()
	res, _ := b.want(303, "GET", "/signin/start", "")
	u, err := url.Parse(res.Header.Get("Location"))
	if err != nil || !strings.HasPrefix(u.String(), x.issuer.URL+"/a?") {
		b.t.Fatalf("sent to %s, %v", res.Header.Get("Location"), err)
	}
	return u.Query()
}

func TestPeopleSignInThroughTheIssuer(t *testing.T) {
	x := newTeam(t)
	b := newBrowser(t, x.URL)
	_, page := b.want(200, "GET", "/signin", "")
	has(t, page, "/signin/start")
	lacks(t, page, `name="token"`)
	asked := x.start(b)
	if asked.Get("response_type") != "code" || asked.Get("client_id") != "pages" || asked.Get("code_challenge_method") != "S256" || asked.Get("redirect_uri") != x.URL+"/signin/callback" ||
		!strings.Contains(asked.Get("scope"), "openid") {
		t.Errorf("the issuer is asked %v", asked)
	}
	x.tokens = func(form url.Values) map[string]any {
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if form.Get("code") != "good" || form.Get("redirect_uri") != x.URL+"/signin/callback" || form.Get("basic") != "pages:hush" ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") {
			return nil
		}
		return x.issuer.Claims(authtest.Claims{"aud": "pages", "nonce": asked.Get("nonce")})
	}
	res, _ := b.want(200, "GET", "/signin/callback?code=good&state="+asked.Get("state"), "", "Sec-Fetch-Site: cross-site")
	var user *http.Cookie
	for _, c := range res.Cookies() {
		if c.Name == "tidemark-user" {
			user = c
		}
	}
	if user == nil || !user.HttpOnly || user.SameSite != http.SameSiteStrictMode || user.MaxAge != int((12*time.Hour).Seconds()) {
		t.Fatalf("the cookie %+v", user)
	}
	_, page = b.want(200, "GET", "/sessions", "")
	has(t, page, "Ada")
	b.want(401, "GET", "/sessions", "", "Sec-Fetch-Site: cross-site")
	// The code and the state are good for one time.
	b.want(401, "GET", "/signin/callback?code=good&state="+asked.Get("state"), "")

	// What somebody may do is looked up all the while.
	org, err := x.users.TenantOfIssuer(t.Context(), x.issuer.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	id := tenant.UserID(org.Name, x.issuer.URL, "ada")
	change := func(f func(*tenant.User)) {
		t.Helper()
		if _, err := x.users.ChangeUser(t.Context(), org.ID, id, func(u *tenant.User) error { f(u); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	change(func(u *tenant.User) { u.State = tenant.Suspended })
	b.want(401, "GET", "/sessions", "")
	change(func(u *tenant.User) { u.State, u.Role = tenant.Active, tenant.RoleAdmin })
	b.want(200, "GET", "/sessions", "")
	x.now = x.now.Add(12 * time.Hour)
	b.want(401, "GET", "/sessions", "")
	x.now = x.now.Add(-time.Hour)
	b.want(200, "GET", "/sessions", "")
	b.want(303, "POST", "/signout", "")
	b.want(401, "GET", "/sessions", "")
}

func TestNobodySignsInWithWhatTheIssuerDidNotSayToThisBrowser(t *testing.T) {
	x := newTeam(t)
	var asked url.Values
	good := func(change authtest.Claims) func(url.Values) map[string]any {
		return func(url.Values) map[string]any {
			return x.issuer.Claims(authtest.Claims{"aud": "pages", "nonce": asked.Get("nonce")}, change)
		}
	}
	for name, c := range map[string]struct {
		tokens func(url.Values) map[string]any
		query  func() string
		status int
	}{
		"another state":     {good(nil), func() string { return "code=good&state=other" }, 401},
		"no state":          {good(nil), func() string { return "code=good" }, 401},
		"an error":          {good(nil), func() string { return "error=access_denied&state=" + asked.Get("state") }, 401},
		"another issuer":    {good(nil), func() string { return "code=good&iss=https://eve.example&state=" + asked.Get("state") }, 401},
		"a bad code":        {func(url.Values) map[string]any { return nil }, nil, 401},
		"another nonce":     {good(authtest.Claims{"nonce": "other"}), nil, 401},
		"no nonce":          {good(authtest.Claims{"nonce": nil}), nil, 401},
		"for the API":       {good(authtest.Claims{"aud": authtest.OurAudience}), nil, 401},
		"for another":       {good(authtest.Claims{"aud": "eve"}), nil, 401},
		"by another azp":    {good(authtest.Claims{"azp": "eve"}), nil, 401},
		"by the API's azp":  {good(authtest.Claims{"azp": authtest.OurAudience}), nil, 401},
		"of another issuer": {good(authtest.Claims{"iss": "https://eve.example"}), nil, 401},
		"old":               {good(authtest.Claims{"exp": 1000}), nil, 401},
		"nobody":            {good(authtest.Claims{"sub": ""}), nil, 403},
	} {
		b := newBrowser(t, x.URL)
		asked = x.start(b)
		x.tokens = c.tokens
		query := "code=good&state=" + asked.Get("state")
		if c.query != nil {
			query = c.query()
		}
		if res, page := b.do("GET", "/signin/callback?"+query, ""); res.StatusCode != c.status || !strings.Contains(page, `role="alert"`) {
			t.Errorf("%s: %d, want %d: %s", name, res.StatusCode, c.status, page)
		}
		b.want(401, "GET", "/sessions", "")
	}
	// The flow of one browser is no use in another, nor is it one after a while.
	asked = x.start(newBrowser(t, x.URL))
	x.tokens = good(nil)
	newBrowser(t, x.URL).want(401, "GET", "/signin/callback?code=good&state="+asked.Get("state"), "")
	late := newBrowser(t, x.URL)
	asked = x.start(late)
	x.now = x.now.Add(10 * time.Minute)
	late.want(401, "GET", "/signin/callback?code=good&state="+asked.Get("state"), "")
}

func TestPeopleChooseTheirIssuerAndLeaveWithIt(t *testing.T) {
	x := newTeam(t)
	second := authtest.NewIssuer(t, x.key)
	if _, err := x.users.CreateTenant(t.Context(), tenant.Tenant{Name: "second", Issuer: second.URL}); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return x.now }
	var known []*auth.OIDCAuthenticator
	for name, issuer := range map[string]string{"Our house": x.issuer.URL, "<b>Theirs": second.URL} {
		by, err := auth.OIDC(t.Context(), auth.OIDCOptions{Issuer: issuer, Name: name, Audience: authtest.OurAudience, ClientID: "pages", ClientSecret: "hush", Users: x.users, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, by)
	}
	issuers := auth.NewIssuers(known...)
	in, err := auth.SignInWith(auth.OIDCSignInOptions{Issuers: issuers, Users: x.users, Key: cookieKey, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	s := newTestServer(t, func(o *Options) { o.SignIn, o.Auth = in, auth.Any(issuers, in) })
	b := newBrowser(t, s.URL)
	_, page := b.want(200, "GET", "/signin", "")
	has(t, page, "Sign in with Our house")
	has(t, page, "Sign in with &lt;b&gt;Theirs")
	b.want(404, "GET", "/signin/start?issuer=https://eve.example", "")
	begin := func(issuer string) url.Values {
		t.Helper()
		res, _ := b.want(303, "GET", "/signin/start?issuer="+url.QueryEscape(issuer), "")
		u, err := url.Parse(res.Header.Get("Location"))
		if err != nil || !strings.HasPrefix(u.String(), issuer+"/a?") {
			t.Fatalf("sent to %s, %v", res.Header.Get("Location"), err)
		}
		return u.Query()
	}
	// Somebody who began with one issuer does not come back from the other.
	asked := begin(second.URL)
	b.want(401, "GET", "/signin/callback?code=good&iss="+url.QueryEscape(x.issuer.URL)+"&state="+asked.Get("state"), "")
	asked = begin(second.URL)
	second.Redeem = func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"id_token": x.key.Token(second.Claims(authtest.Claims{"aud": "pages", "nonce": asked.Get("nonce")}))})
	}
	b.want(200, "GET", "/signin/callback?code=good&iss="+url.QueryEscape(second.URL)+"&state="+asked.Get("state"), "")
	b.want(200, "GET", "/sessions", "")
	// An issuer that is down keeps nobody out who is signed in, and one that is gone does.
	second.Away.Store(true)
	b.want(200, "GET", "/sessions", "")
	issuers.Replace(slices.DeleteFunc(known, func(by *auth.OIDCAuthenticator) bool { return by.Issuer() == second.URL }))
	b.want(401, "GET", "/sessions", "")
}

func TestACookieOfOneKindIsNoneOfAnother(t *testing.T) {
	x := newTeam(t)
	claims := map[string]any{"tenant": "t", "user": "u", "until": x.now.Add(time.Hour)}
	forged, other := authtest.Cookie(cookieKey, "tidemark-flow", claims), authtest.Cookie([]byte(strings.Repeat("x", 32)), "tidemark-user", claims)
	for name, value := range map[string]string{"the flow": forged, "another key": other, "nothing": "", "junk": "AAAA"} {
		if res, _ := newBrowser(t, x.URL).do("GET", "/sessions", "", "Cookie: tidemark-user="+value); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("a cookie of %s: %d", name, res.StatusCode)
		}
	}
}

func TestACopyOfACookieIsVoidAfterSigningOut(t *testing.T) {
	x := newTeam(t)
	local := auth.Local("0123456789abcdef", tidemark.TenantOf("a", "jo"))
	local.SetUsers(x.users)
	again := auth.Local("0123456789abcdef", tidemark.TenantOf("a", "jo"))
	again.SetUsers(x.users)
	org, err := x.users.TenantOfIssuer(t.Context(), x.issuer.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.users.UpsertUser(t.Context(), tenant.Claims{Tenant: org, Issuer: x.issuer.URL, Subject: "ada", Role: tenant.RoleReader}); err != nil {
		t.Fatal(err)
	}
	ofUser := func() string {
		return authtest.Cookie(cookieKey, "tidemark-user", map[string]any{"tenant": org.ID, "user": tenant.UserID(org.Name, x.issuer.URL, "ada"), "until": x.now.Add(time.Hour), "nonce": rand.Text()})
	}
	ofLink := func() string {
		w := httptest.NewRecorder()
		local.ServeSignIn(w, httptest.NewRequest("GET", "/signin?code="+local.NewCode(), nil), func(http.ResponseWriter, int, auth.SignInView) {})
		return w.Result().Cookies()[0].Value
	}
	// What is remembered of somebody does not outlive their signing out.
	_, here := x.door(t, time.Hour)
	_, elsewhere := x.door(t, time.Hour)
	for name, c := range map[string]struct {
		cookie string
		make   func() string
		here   auth.SignIn
		others []request.Authenticator // of this server and of another one on the store
	}{
		"local":      {"tidemark", ofLink, local, []request.Authenticator{local, again}},
		"the issuer": {"tidemark-user", ofUser, here, []request.Authenticator{here, elsewhere}},
	} {
		mine, other := c.make(), c.make()
		with := func(value string) *http.Request {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/sessions", nil)
			r.AddCookie(&http.Cookie{Name: c.cookie, Value: value})
			return r
		}
		for _, auth := range c.others {
			if _, err := auth.Authenticate(with(mine)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for range 2 { // also when it is done twice
			if err := c.here.SignOut(httptest.NewRecorder(), with(mine)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for i, auth := range c.others {
			if _, err := auth.Authenticate(with(mine)); !errors.Is(err, tidemark.ErrDenied) {
				t.Errorf("%s, server %d: a copy of the cookie: %v", name, i, err)
			}
			if _, err := auth.Authenticate(with(other)); err != nil {
				t.Errorf("%s, server %d: another browser: %v", name, i, err)
			}
		}
	}
}
