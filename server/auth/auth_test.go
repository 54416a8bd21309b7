package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth/authtest"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// rotations is how often keys are changed: a few here, a thousand in make soak.
func rotations(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_ROTATIONS")); err == nil && n > 0 {
		return n
	}
	return 8
}

func TestKeysChangeUnderLoadAndNoGoodTokenIsRefused(t *testing.T) {
	first := authtest.NewEC(t, "key 0")
	i := authtest.NewIssuer(t, first)
	h := newHouse(t)
	if _, err := h.users.CreateTenant(t.Context(), tenant.Tenant{Name: "rotating", Issuer: i.URL}); err != nil {
		t.Fatal(err)
	}
	auth, err := OIDC(t.Context(), OIDCOptions{Issuer: i.URL, Audience: authtest.OurAudience, Users: h.users})
	if err != nil {
		t.Fatal(err)
	}
	auth.found.found.Load().keys.pace = rate.NewLimiter(200, 5)
	var now atomic.Pointer[authtest.Signer]
	now.Store(&first)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var done [4]atomic.Int64
	for w := range done {
		workers.Go(func() {
			for ctx.Err() == nil {
				k := now.Load()
				if _, err := auth.Authenticate(authtest.Bringing("Bearer " + k.Token(i.Claims()))); err != nil {
					t.Errorf("a good token of %s: %v", k.Kid, err)
				}
				done[w].Add(1)
			}
		})
	}
	eve := authtest.NewEC(t, "")
	workers.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			bad := eve.Token(i.Claims(), map[string]any{"kid": fmt.Sprint("made up ", n)})
			if _, err := auth.Authenticate(authtest.Bringing("Bearer " + bad).WithContext(ctx)); err == nil {
				t.Error("a made-up key was taken")
			}
		}
	})
	keys := []authtest.Signer{first}
	for n := range rotations(t) {
		k := authtest.NewEC(t, fmt.Sprint("key ", n+1))
		keys = append([]authtest.Signer{k}, keys...)
		// An issuer keeps a key for as long as its tokens live.
		keys = keys[:min(len(keys), 3)]
		i.Publish(keys...)
		now.Store(&k)
		for w := range done {
			for seen := done[w].Load(); done[w].Load() < seen+3 && !t.Failed(); {
				time.Sleep(time.Millisecond)
			}
		}
	}
	stop()
	workers.Wait()
}

func TestMadeUpKeysDoNotFloodTheIssuer(t *testing.T) {
	h := newHouse(t)
	h.plain.found.found.Load().keys.pace = rate.NewLimiter(rate.Every(time.Hour), keyFetches)
	good := "Bearer " + h.rsa.Token(h.issuer.Claims())
	if _, err := h.plain.Authenticate(authtest.Bringing(good)); err != nil {
		t.Fatal(err)
	}
	eve := authtest.NewEC(t, "")
	for n := range 3 * keyFetches {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if n < keyFetches-1 {
			stop()
			ctx, stop = context.WithCancel(t.Context())
		}
		bad := eve.Token(h.issuer.Claims(), map[string]any{"kid": fmt.Sprint(n)})
		if _, err := h.plain.Authenticate(authtest.Bringing("Bearer " + bad).WithContext(ctx)); err == nil {
			t.Error("a made-up key was taken")
		}
		stop()
		if _, err := h.plain.Authenticate(authtest.Bringing(good)); err != nil {
			t.Errorf("a known key meanwhile: %v", err)
		}
	}
	if n := h.issuer.Fetches.Load(); n > keyFetches {
		t.Errorf("the issuer was asked %d times, want at most %d", n, keyFetches)
	}
}

func TestAnIssuerThatIsAwayIsNotTheCallersFault(t *testing.T) {
	k := authtest.NewEC(t, "k")
	i := authtest.NewIssuer(t, k)
	h := newHouse(t)
	for name, wire := range map[string]http.RoundTripper{
		"cut": cutAfter(1, func(*http.Request) (*http.Response, error) { return nil, errors.New("the wire is cut") }),
		"ill": cutAfter(1, func(r *http.Request) (*http.Response, error) {
			answer := httptest.NewRecorder()
			answer.WriteHeader(http.StatusBadGateway)
			return answer.Result(), nil
		}),
	} {
		auth, err := OIDC(t.Context(), OIDCOptions{Issuer: i.URL, Audience: authtest.OurAudience, Users: h.users, HTTP: &http.Client{Transport: wire}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = auth.Authenticate(authtest.Bringing("Bearer " + k.Token(i.Claims())))
		if p := request.Problem(request.Refused(err)); p.Status != http.StatusServiceUnavailable || p.RetryAfter == 0 {
			t.Errorf("%s: %+v, want 503 with a time to come back", name, p)
		}
	}
}

// cutAfter is a wire that answers otherwise after so many requests.
func cutAfter(n int32, otherwise roundTrip) http.RoundTripper {
	var seen atomic.Int32
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if seen.Add(1) > n {
			return otherwise(r)
		}
		return http.DefaultTransport.RoundTrip(r)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnIssuerThatCannotBeMeantIsRefusedAtTheStart(t *testing.T) {
	h := newHouse(t)
	for name, o := range map[string]OIDCOptions{
		"no audience":      {Issuer: h.issuer.URL, Users: h.users},
		"no TLS":           {Issuer: "http://issuer.example", Audience: "x", Users: h.users},
		"no URL":           {Issuer: "issuer", Audience: "x", Users: h.users},
		"another's issuer": {Issuer: h.issuer.URL + "/organizations/v2.0", Audience: "x", Users: h.users},
		"an odd role":      {Issuer: h.issuer.URL, Audience: "x", Users: h.users, Role: "root"},
		"an odd mapping":   {Issuer: h.issuer.URL, Audience: "x", Users: h.users, Roles: map[string]request.Role{"x": "root"}},
	} {
		if _, err := OIDC(t.Context(), o); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUsersAreMadeAtFirstSightOnceAndKeptApart(t *testing.T) {
	h := newHouse(t)
	ids := make(map[string]string)
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			who, auth, token := fmt.Sprint("plain ", n%2), h.plain, h.rsa.Token(h.issuer.Claims(authtest.Claims{"sub": fmt.Sprint("user ", n%2)}))
			if n%4 >= 2 {
				tid := []string{authtest.OurTID, authtest.OtherTID}[n%2]
				who, auth, token = tid, h.entra, h.rsa.Token(h.issuer.Entra(authtest.Claims{"tid": tid, "iss": h.issuer.URL + "/" + tid + "/v2.0"}))
			}
			c, err := auth.Authenticate(authtest.Bringing("Bearer " + token))
			if err != nil || c.Role != request.Reader || c.Operator {
				t.Errorf("%+v, %v", c, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if ids[who] != "" && ids[who] != c.User {
				t.Errorf("%s is two", who)
			}
			ids[who] = c.User
		})
	}
	all.Wait()
	users := make(map[string]bool)
	for _, id := range ids {
		users[id] = true
	}
	if len(users) != 4 {
		t.Errorf("%d users of 4: %v", len(users), ids)
	}
	kept := 0
	for _, tenant := range []string{"plain", "acme", "other"} {
		for u, err := range h.users.Users(t.Context(), tidemark.TenantOf(tenant, "").Tenant, "") {
			if err != nil || !users[u.ID] {
				t.Errorf("%+v, %v", u, err)
			}
			kept++
		}
	}
	if kept != 4 {
		t.Errorf("%d users are kept", kept)
	}
}

func TestSuspendedTenantsAndUsersAreRefused(t *testing.T) {
	h := newHouse(t)
	token := "Bearer " + h.rsa.Token(h.issuer.Claims())
	c, err := h.plain.Authenticate(authtest.Bringing(token))
	if err != nil {
		t.Fatal(err)
	}
	set := func(state string) {
		if _, err := h.users.ChangeUser(t.Context(), c.Tenant, c.User, func(u *tenant.User) error { u.State = state; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	gate := Any(h.plain)
	gate.Refused = AuditRefusals(h.users)
	set(tenant.Suspended)
	for range 3 {
		if _, err := gate.Authenticate(authtest.Bringing(token)); !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("a suspended user: %v", err)
		}
	}
	set(tenant.Active)
	if _, err := h.users.SetTenantState(t.Context(), c.Tenant, tenant.Suspended); err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Authenticate(authtest.Bringing(token)); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("a user of a suspended tenant: %v", err)
	}
	if _, err := h.users.SetTenantState(t.Context(), c.Tenant, tenant.Active); err != nil {
		t.Fatal(err)
	}
	if _, err := gate.Authenticate(authtest.Bringing(token)); err != nil {
		t.Errorf("after both: %v", err)
	}
	var told []string
	for l, err := range h.users.AuditLines(t.Context(), c.Tenant, tidemark.Span{}) {
		if err != nil || l.Who != c.User || l.Outcome != tenant.AuditRefused {
			t.Errorf("%+v, %v", l, err)
		}
		told = append(told, l.Thing)
	}
	if strings.Join(told, ", ") != "suspended user, suspended tenant" {
		t.Errorf("written down: %q", told)
	}
}

func TestRolesComeFromTheIssuerWhenItIsAsked(t *testing.T) {
	h := newHouse(t)
	o := OIDCOptions{Issuer: h.issuer.URL, Audience: authtest.OurAudience, Users: h.users, RoleClaim: "roles", Roles: map[string]request.Role{"Tide.Admin": request.Admin, "Tide.Write": request.Writer}, Clients: []string{"cli"}}
	auth, err := OIDC(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		roles any
		want  request.Role
	}{{[]string{"Tide.Write", "Tide.Admin"}, request.Admin}, {"Tide.Write", request.Writer}, {[]string{"admin"}, request.Reader}, {nil, request.Reader}, {[]string{}, request.Reader}} {
		got, err := auth.Authenticate(authtest.Bringing("Bearer " + h.rsa.Token(h.issuer.Claims(authtest.Claims{"roles": c.roles, "azp": "cli"}))))
		if err != nil || got.Role != c.want {
			t.Errorf("roles %v: %s, %v, want %s", c.roles, got.Role, err, c.want)
		}
	}
	for name, said := range map[string]authtest.Claims{"roles of numbers": {"roles": []int{1}, "azp": "cli"}, "roles of an object": {"roles": authtest.Claims{}, "azp": "cli"}, "another client": {"azp": "eve"}, "no client": {}} {
		if _, err := auth.Authenticate(authtest.Bringing("Bearer " + h.rsa.Token(h.issuer.Claims(said)))); !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAScopedTokenIsForItsPartOfTheServer(t *testing.T) {
	h := newHouse(t)
	_, text, err := h.users.CreateToken(t.Context(), tenant.Token{Tenant: tidemark.TenantOf("plain", "").Tenant, Name: "ci", Role: tenant.RoleAdmin, Scopes: []string{"sessions"}})
	if err != nil {
		t.Fatal(err)
	}
	auth := Any(ServiceTokens(h.users))
	for path, in := range map[string]bool{"/api/v1/sessions": true, "/api/v1/sessions/": true, "/api/v1/sessions/x/entries": true, "/api/v1/tokens": false, "/api/v1/sessions/../tokens": false, "/api/v1/sessions//../tokens": false,
		"/api/v1/sessionsx": false, "/api/v1/": false, "/metrics": false, "//api/v1/sessions": false, "/api/v1/backend/commit": false} {
		r := authtest.Bringing("Bearer " + text)
		r.URL.Path = path
		_, err := auth.Authenticate(r)
		var p *api.Problem
		if in && err != nil || !in && (!errors.As(request.Refused(err), &p) || p.Status != http.StatusForbidden) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestATokenMayDoNoMoreThanItsUserMayNow(t *testing.T) {
	h := newHouse(t)
	c, err := h.plain.Authenticate(authtest.Bringing("Bearer " + h.rsa.Token(h.issuer.Claims())))
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := h.users.CreateToken(t.Context(), tenant.Token{Tenant: c.Tenant, User: c.User, Name: "mine", Role: tenant.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ServiceTokens(h.users).Authenticate(authtest.Bringing("Bearer " + text))
	if err != nil || got.Role != request.Reader || got.User != c.User {
		t.Errorf("%+v, %v: want a reader, as its user is", got, err)
	}
}

func TestWhoFailsTooOftenWaitsAndWhoIsGoodDoesNot(t *testing.T) {
	gate := Any(Local("0123456789abcdef", tidemark.Principal{Tenant: "t"}))
	good := authtest.Bringing("Bearer 0123456789abcdef")
	if _, err := gate.Authenticate(good); err != nil {
		t.Fatal(err)
	}
	for range failuresAtOnce + 5 {
		gate.Authenticate(authtest.Bringing("Bearer guess"))
	}
	_, err := gate.Authenticate(authtest.Bringing("Bearer guess"))
	if p := request.Problem(request.Refused(err)); p.Status != http.StatusTooManyRequests || p.RetryAfter == 0 {
		t.Errorf("%+v, want 429", p)
	}
	if _, err := gate.Authenticate(good); err != nil {
		t.Errorf("who was good before, from the same address: %v", err)
	}
	elsewhere := authtest.Bringing("Bearer guess")
	elsewhere.RemoteAddr = "[2001:db8::1]:5"
	if _, err := gate.Authenticate(elsewhere); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("from elsewhere: %v", err)
	}
}

func TestEachTokenGoesToTheOneWhoKnowsItsKind(t *testing.T) {
	h := newHouse(t)
	org := tidemark.TenantOf("plain", "").Tenant
	_, service, err := h.users.CreateToken(t.Context(), tenant.Token{Tenant: org, Name: "ci", Role: tenant.RoleReader})
	if err != nil {
		t.Fatal(err)
	}
	gate := Any(ServiceTokens(h.users), h.plain, Local("0123456789abcdef", tidemark.TenantOf("default", "")))
	for token, name := range map[string]string{service: "ci", h.rsa.Token(h.issuer.Claims()): "Ada", "0123456789abcdef": "local"} {
		if c, err := gate.Authenticate(authtest.Bringing("Bearer " + token)); err != nil || c.Name != name {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if _, err := gate.Authenticate(authtest.Bringing()); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := Any(Local("short", tidemark.Principal{})).Authenticate(authtest.Bringing("Bearer short")); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("a token too short to be a secret: %v", err)
	}
}

// signIn follows a link and returns what came back.
func signIn(a *LocalAuthenticator, code string, secure bool) *http.Response {
	r := httptest.NewRequest("GET", "/signin?code="+code, nil)
	if secure {
		r.TLS = &tls.ConnectionState{}
	}
	w := httptest.NewRecorder()
	a.ServeSignIn(w, r, func(w http.ResponseWriter, status int, _ SignInView) { w.WriteHeader(status) })
	return w.Result()
}

func TestASignInLinkWorksOnceAndForTwoMinutes(t *testing.T) {
	a := Local("0123456789abcdef", tidemark.TenantOf("default", ""))
	now := time.Now()
	a.now = func() time.Time { return now }
	code := a.NewCode()
	got := signIn(a, code, false)
	if got.StatusCode != http.StatusOK || len(got.Cookies()) != 1 {
		t.Fatalf("%d, %v", got.StatusCode, got.Cookies())
	}
	c := got.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" || c.Domain != "" {
		t.Errorf("the cookie %+v", c)
	}
	if c := signIn(a, a.NewCode(), true).Cookies()[0]; !c.Secure || c.Name != "__Host-tidemark" {
		t.Errorf("over TLS: %+v", c)
	}
	late := a.NewCode()
	now = now.Add(CodeLife)
	for name, code := range map[string]string{"used": code, "late": late, "none": "", "made up": "ABCDEFGH"} {
		if got := signIn(a, code, false); got.StatusCode != http.StatusUnauthorized || len(got.Cookies()) != 0 {
			t.Errorf("%s: %d, %v", name, got.StatusCode, got.Cookies())
		}
	}
}

func TestACookieCountsOnlyForOurOwnPages(t *testing.T) {
	a := Local("0123456789abcdef", tidemark.TenantOf("default", ""))
	now := time.Now()
	a.now = func() time.Time { return now }
	cookie := signIn(a, a.NewCode(), false).Cookies()[0]
	ask := func(method string, headers ...string) error {
		r := httptest.NewRequest(method, "http://localhost:8080/api/v1/sessions", nil)
		r.AddCookie(cookie)
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		_, err := Any(a).Authenticate(r)
		return err
	}
	for _, c := range []struct {
		name, method string
		headers      []string
		in           bool
	}{
		{"our page reads", "GET", []string{"Sec-Fetch-Site: same-origin"}, true},
		{"our page writes", "POST", []string{"Sec-Fetch-Site: same-origin", "Origin: http://localhost:8080"}, true},
		{"our page in a browser of old writes", "POST", []string{"Origin: http://localhost:8080"}, true},
		{"somebody typed the address", "GET", []string{"Sec-Fetch-Site: none"}, true},
		{"our page opens a socket", "GET", []string{"Upgrade: websocket", "Origin: http://localhost:8080", "Sec-Fetch-Site: same-origin"}, true},
		{"another site reads", "GET", []string{"Sec-Fetch-Site: cross-site"}, false},
		{"another port reads", "GET", []string{"Sec-Fetch-Site: same-site"}, false},
		{"another site writes", "POST", []string{"Sec-Fetch-Site: cross-site", "Origin: https://eve.example"}, false},
		{"another port writes", "POST", []string{"Sec-Fetch-Site: same-site", "Origin: http://localhost:3000"}, false},
		{"another site in a browser of old", "POST", []string{"Origin: https://eve.example"}, false},
		{"an origin of null", "POST", []string{"Origin: null"}, false},
		{"somebody writes and does not say from where", "POST", nil, false},
		{"a form that was typed", "POST", []string{"Sec-Fetch-Site: none"}, false},
		{"another port opens a socket", "GET", []string{"Upgrade: websocket", "Origin: http://localhost:3000"}, false},
		{"a socket from nowhere", "GET", []string{"Upgrade: websocket"}, false},
		{"a lie about the site", "POST", []string{"Sec-Fetch-Site: same-origin", "Origin: https://eve.example"}, false},
	} {
		if err := ask(c.method, c.headers...); (err == nil) != c.in {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	value := cookie.Value
	for name, wrong := range map[string]string{"cut": value[:len(value)-2], "changed": "A" + value[1:], "empty": "", "another's": Local("fedcba9876543210", tidemark.Principal{}).newCookie()} {
		if cookie.Value = wrong; wrong == value {
			continue
		}
		if err := ask("GET", "Sec-Fetch-Site: same-origin"); !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("a cookie that is %s: %v", name, err)
		}
	}
	cookie.Value = value
	now = now.Add(cookieLife)
	if err := ask("GET", "Sec-Fetch-Site: same-origin"); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("a cookie that ended: %v", err)
	}
}

func TestRulesSayWhoBelongsWhere(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"legal", "research", "rest"} {
		if _, err := h.users.CreateTenant(t.Context(), tenant.Tenant{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	auth, err := OIDC(t.Context(), OIDCOptions{Issuer: h.issuer.URL, Audience: authtest.OurAudience, Users: h.users, Role: request.Writer})
	if err != nil {
		t.Fatal(err)
	}
	set := func(rules ...tenant.Rule) {
		t.Helper()
		if _, err := h.users.ChangeRules(t.Context(), h.issuer.URL, func([]tenant.Rule) ([]tenant.Rule, error) { return rules, nil }); err != nil {
			t.Fatal(err)
		}
	}
	come := func(said authtest.Claims) (request.Caller, error) {
		return auth.Authenticate(authtest.Bringing("Bearer " + h.rsa.Token(h.issuer.Claims(said))))
	}
	id := func(name string) string { return tidemark.TenantOf(name, "").Tenant }
	law := tenant.Rule{Claim: "department", Value: "legal", Tenant: "legal"}
	lab := tenant.Rule{Claim: "groups", Value: "lab", Tenant: "research", Role: tenant.RoleAdmin, Workspaces: []string{"bench", "attic"}}
	set(law, lab)
	for _, c := range []struct {
		said authtest.Claims
		want string // "": nowhere
	}{
		{authtest.Claims{"department": "legal"}, "legal"},
		{authtest.Claims{"department": "legal", "groups": []string{"lab"}}, "legal"}, // the first that fits
		{authtest.Claims{"groups": []string{"x", "lab"}}, "research"},
		{authtest.Claims{"department": "Legal"}, ""},
		{authtest.Claims{"department": []int{1}}, ""},
		{authtest.Claims{"department": "sales"}, ""}, // also not in the tenant that is bound to the issuer
		{authtest.Claims{}, ""},
	} {
		got, err := come(c.said)
		if c.want == "" && !errors.Is(err, tidemark.ErrDenied) || c.want != "" && (err != nil || got.Tenant != id(c.want)) {
			t.Errorf("%v: %+v, %v; want %q", c.said, got, err, c.want)
		}
	}
	got, err := come(authtest.Claims{"groups": []string{"lab"}})
	if err != nil || got.Role != request.Admin || len(got.Workspaces) != 2 {
		t.Errorf("the rule gives a role and workspaces: %+v, %v", got, err)
	}
	if got.Operator {
		t.Error("an admin by a rule is an operator")
	}
	lab.Operator = true
	set(law, lab)
	if got, err = come(authtest.Claims{"groups": []string{"lab"}}); err != nil || !got.Operator || !got.Ruled || got.OwnsServer() {
		t.Errorf("an operator by a rule: %+v, %v", got, err)
	}
	lab.Operator = false
	set(law, lab)
	if got, err = come(authtest.Claims{"groups": []string{"lab"}}); err != nil || got.Operator {
		t.Errorf("who is an operator no more: %+v, %v", got, err)
	}
	// Changes count at once, in both directions.
	lab.Role, lab.Workspaces = tenant.RoleReader, []string{"bench"}
	set(lab, tenant.Rule{Claim: "department", Value: tenant.AnyValue, Tenant: "rest"})
	if got, err = come(authtest.Claims{"groups": []string{"lab"}}); err != nil || got.Role != request.Reader || len(got.Workspaces) != 1 {
		t.Errorf("after the change: %+v, %v", got, err)
	}
	if got, err = come(authtest.Claims{"department": "sales"}); err != nil || got.Tenant != id("rest") {
		t.Errorf("any value: %+v, %v", got, err)
	}
	for name, rules := range map[string][]tenant.Rule{
		"an unknown tenant":        {{Claim: "a", Value: "b", Tenant: "nowhere"}},
		"a rule that is twice":     {law, law},
		"an operator who is none":  {{Claim: "a", Value: "b", Tenant: "legal", Role: tenant.RoleWriter, Operator: true}},
		"an unknown role":          {{Claim: "a", Value: "b", Tenant: "legal", Role: "king"}},
		"a value of no claim":      {{Value: "b", Tenant: "legal"}},
		"a claim without a value":  {{Claim: "b", Tenant: "legal"}},
		"the name of no workspace": {{Tenant: "legal", Workspaces: []string{"No such"}}},
	} {
		if _, err := h.users.ChangeRules(t.Context(), h.issuer.URL, func([]tenant.Rule) ([]tenant.Rule, error) { return rules, nil }); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if kept, err := h.users.Rules(t.Context(), h.issuer.URL); err != nil || len(kept) != 2 {
		t.Errorf("refused rules changed those that are kept: %v, %v", kept, err)
	}
}
