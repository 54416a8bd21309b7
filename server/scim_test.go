package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/auth/authtest"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// provisioned is a server with a tenant whose people an identity provider provisions.
type provisioned struct {
	*testServer
	t      *testing.T
	users  *tenant.Directory
	acme   tenant.Tenant
	issuer *authtest.Issuer
	key    authtest.Signer
	token  string // of the provider
}

// chosenLater is an Authenticator of the store that the server opens itself.
type chosenLater struct{ request.Authenticator }

func newProvisioned(t *testing.T) *provisioned {
	t.Helper()
	by := &chosenLater{}
	x := &provisioned{t: t, key: authtest.NewEC(t, "ec"), testServer: newTestServer(t, func(o *Options) { o.Auth = by })}
	x.issuer = authtest.NewIssuer(t, x.key)
	var err error
	if x.users, err = x.stores.Operators(t.Context()); err != nil {
		t.Fatal(err)
	}
	known, err := auth.OIDC(t.Context(), auth.OIDCOptions{Issuer: x.issuer.URL, Audience: authtest.OurAudience, Users: x.users})
	if err != nil {
		t.Fatal(err)
	}
	by.Authenticator = auth.Any(auth.ServiceTokens(x.users), known)
	x.acme = must[tenant.Tenant](t)(x.users.CreateTenant(t.Context(), tenant.Tenant{Name: "acme", Issuer: x.issuer.URL}))
	x.token = x.tokenOf(x.acme, tenant.Token{Role: tenant.RoleAdmin, Scopes: []string{"scim"}})
	return x
}

func (x *provisioned) tokenOf(in tenant.Tenant, token tenant.Token) string {
	x.t.Helper()
	token.Tenant, token.Name = in.ID, "of a test"
	_, text, err := x.users.CreateToken(x.t.Context(), token)
	if err != nil {
		x.t.Fatal(err)
	}
	return text
}

// signedIn is a token of the issuer for somebody.
func (x *provisioned) signedIn(subject string) string {
	return x.key.Token(x.issuer.Claims(authtest.Claims{"sub": subject}))
}

// scim makes a call of the provider, and decodes what it gets.
func (x *provisioned) scim(method, path, body string, want int, headers ...string) map[string]any {
	x.t.Helper()
	var in any
	if body != "" {
		in = body
		headers = append(headers, "Content-Type: application/scim+json")
	}
	got := x.call(x.t, x.token, method, routes.SCIMPath+path, in, headers...)
	if got.Status != want {
		x.t.Fatalf("%s %s: %d %s, want %d", method, path, got.Status, got.Body, want)
	}
	if len(got.Body) == 0 {
		return nil
	}
	if kind := got.Header.Get("Content-Type"); kind != "application/scim+json" {
		x.t.Errorf("%s %s: the answer is %q", method, path, kind)
	}
	var r map[string]any
	got.into(x.t, &r)
	return r
}

// found is how many resources a filter finds, and the first.
func (x *provisioned) found(kind, filter, more string) (int, map[string]any) {
	x.t.Helper()
	r := x.scim("GET", "/"+kind+"?filter="+url.QueryEscape(filter)+more, "", 200)
	all := r["Resources"].([]any)
	if len(all) == 0 {
		return int(r["totalResults"].(float64)), nil
	}
	return int(r["totalResults"].(float64)), all[0].(map[string]any)
}

// person is the body of a user, with an id of the provider.
func person(name string) string {
	return fmt.Sprintf(`{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":"%[1]s@example.org","externalId":"00u-%[1]s","name":{"givenName":"%[1]s","familyName":"Tide"},
		"emails":[{"value":"%[1]s@example.org","type":"work","primary":true}],"displayName":"%[1]s Tide","locale":"en-US","groups":[],"password":"ignored","active":true}`, name)
}

func TestAProviderThatReplacesWholeUsersIsServed(t *testing.T) {
	x := newProvisioned(t)
	if n, _ := x.found("Users", `userName eq "ada@example.org"`, "&startIndex=1&count=100"); n != 0 {
		t.Fatalf("%d users before the first", n)
	}
	ada := x.scim("POST", "/Users", person("ada"), 201)
	id := ada["id"].(string)
	if name := ada["name"].(map[string]any); ada["active"] != true || name["givenName"] != "ada" || ada["externalId"] != "00u-ada" || id != tenant.UserID("acme", x.issuer.URL, "00u-ada") {
		t.Errorf("made %v", ada)
	}
	if got := x.call(t, x.token, "POST", routes.SCIMPath+"/Users", person("bob")); got.Header.Get("Location") == "" || got.Status != 201 {
		t.Errorf("%d, at %q", got.Status, got.Header.Get("Location"))
	}
	for _, again := range []string{person("ada"), strings.Replace(person("ada"), "00u-ada", "00u-other", 1), strings.Replace(person("cyd"), "cyd@", "ADA@", 1)} {
		if r := x.scim("POST", "/Users", again, 409); r["scimType"] != "uniqueness" {
			t.Errorf("%v", r)
		}
	}
	if n, one := x.found("Users", `userName eq "ADA@example.org"`, ""); n != 1 || one["id"] != id {
		t.Errorf("%d found: %v", n, one)
	}
	// Whoever is named comes in as that user, and nobody else does.
	var me routes.Me
	if x.call(t, x.signedIn("00u-ada"), "GET", "/api/v1/me", nil).want(t, 200).into(t, &me); me.User != id {
		t.Errorf("signed in as %+v", me)
	}
	x.call(t, x.signedIn("00u-stranger"), "GET", "/api/v1/me", nil).want(t, 401)

	got := x.call(t, x.token, "GET", routes.SCIMPath+"/Users/"+id, nil).want(t, 200)
	etag := got.Header.Get("ETag")
	x.call(t, x.token, "GET", routes.SCIMPath+"/Users/"+id, nil, "If-None-Match: "+etag).want(t, 304)
	changed := strings.Replace(person("ada"), `"familyName":"Tide"`, `"familyName":"Ebb"`, 1)
	x.scim("PUT", "/Users/"+id, changed, 412, `If-Match: W/"0000000000000000"`)
	if r := x.scim("PUT", "/Users/"+id, changed, 200, "If-Match: "+etag); r["name"].(map[string]any)["familyName"] != "Ebb" {
		t.Errorf("%v", r)
	}

	mine := x.tokenOf(x.acme, tenant.Token{User: id, Role: tenant.RoleReader})
	x.call(t, mine, "GET", "/api/v1/me", nil).want(t, 200)
	told := x.access.Wait()
	x.scim("PATCH", "/Users/"+id, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","value":{"active":false}}]}`, 200)
	select {
	case <-told: // what is open asks again
	case <-t.Context().Done():
		t.Error("open answers were not told")
	}
	for _, token := range []string{mine, x.signedIn("00u-ada")} {
		x.call(t, token, "GET", "/api/v1/me", nil).want(t, 401)
	}
	if r := x.scim("PUT", "/Users/"+id, changed, 200); r["active"] != true {
		t.Errorf("%v", r)
	}
	x.call(t, mine, "GET", "/api/v1/me", nil).want(t, 200)

	x.scim("DELETE", "/Users/"+id, "", 204)
	x.scim("GET", "/Users/"+id, "", 404)
	x.scim("DELETE", "/Users/"+id, "", 404)
	if n, _ := x.found("Users", `userName eq "ada@example.org"`, ""); n != 0 {
		t.Errorf("%d found of who is deleted", n)
	}
	for _, token := range []string{mine, x.signedIn("00u-ada")} {
		x.call(t, token, "GET", "/api/v1/me", nil).want(t, 401)
	}
	if r := x.scim("POST", "/Users", person("ada"), 201); r["id"] != id || r["active"] != true {
		t.Errorf("who comes back is %v", r)
	}
	x.call(t, mine, "GET", "/api/v1/me", nil).want(t, 401) // the token stays revoked
}

func TestAProviderThatChangesPartsIsServed(t *testing.T) {
	x := newProvisioned(t)
	ctx := t.Context()
	must[tenant.Workspace](t)(x.users.CreateWorkspace(ctx, x.acme.ID, "harbour-crew"))
	must[tenant.Workspace](t)(x.users.CreateWorkspace(ctx, x.acme.ID, "by-hand"))
	if _, err := x.users.ChangeRules(ctx, x.issuer.URL, func([]tenant.Rule) ([]tenant.Rule, error) {
		return []tenant.Rule{{Claim: "groups", Value: "Engineering", Tenant: "acme", Role: tenant.RoleWriter, Workspaces: []string{"eng"}}, {Tenant: "acme"}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	id := x.scim("POST", "/Users", strings.Replace(person("kim"), `"active":true`, `"active":"True"`, 1), 201)["id"].(string)
	patch := func(path, operations string, want int) map[string]any {
		t.Helper()
		return x.scim("PATCH", path, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[`+operations+`]}`, want)
	}
	r := patch("/Users/"+id, `{"op":"Replace","path":"emails[type eq \"work\"].value","value":"kim@new.example"},{"op":"Add","path":"name.familyName","value":"Flood"},
		{"op":"Replace","path":"displayName","value":"Kim Flood"},{"op":"Add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department","value":"legal"},
		{"op":"Replace","path":"urn:ietf:params:scim:schemas:core:2.0:User:userName","value":"kim@new.example"}`, 200)
	if mail := r["emails"].([]any)[0].(map[string]any)["value"]; mail != "kim@new.example" || r["userName"] != "kim@new.example" || r["name"].(map[string]any)["familyName"] != "Flood" || r["displayName"] != "Kim Flood" {
		t.Errorf("%v", r)
	}
	if r := patch("/Users/"+id, `{"op":"Replace","path":"active","value":"False"}`, 200); r["active"] != false {
		t.Errorf("%v", r)
	}
	patch("/Users/"+id, `{"op":"Replace","value":{"active":"True","name.givenName":"Kimberly"}}`, 200)

	group := x.scim("POST", "/Groups", `{"schemas":["urn:ietf:params:scim:schemas:core:2.0:Group"],"displayName":"Engineering","externalId":"8aa1","meta":{"resourceType":"Group"}}`, 201)["id"].(string)
	crew := x.scim("POST", "/Groups", `{"displayName":"Harbour Crew","members":[{"value":"`+id+`"}]}`, 201)["id"].(string)
	x.scim("POST", "/Groups", `{"displayName":"engineering"}`, 409)
	if n, one := x.found("Groups", `displayName eq "Engineering"`, "&excludedAttributes=members"); n != 1 || one["members"] != nil || one["id"] != group {
		t.Errorf("%d groups: %v", n, one)
	}
	if n, _ := x.found("Groups", `externalId eq "8aa1"`, ""); n != 1 {
		t.Errorf("%d groups by the provider's id", n)
	}
	// An admin adds one workspace by hand, which groups neither give nor take.
	workspace := func(name string) string { return tidemark.IDOf("workspace", "acme", name) }
	must[tenant.User](t)(x.users.Join(ctx, x.acme.ID, workspace("by-hand"), id, true))
	is := func(role string, names ...string) {
		t.Helper()
		var want []string
		for _, name := range names {
			want = append(want, workspace(name))
		}
		slices.Sort(want)
		var me routes.Me
		x.call(t, x.signedIn("00u-kim"), "GET", "/api/v1/me", nil).want(t, 200).into(t, &me)
		if string(me.Role) != role || !slices.Equal(me.Workspaces, want) {
			t.Errorf("a %s in %v, want a %s in %v", me.Role, me.Workspaces, role, names)
		}
	}
	is("reader", "by-hand", "harbour-crew")
	patch("/Groups/"+group, `{"op":"Add","path":"members","value":[{"value":"`+id+`"}]}`, 200)
	patch("/Groups/"+group, `{"op":"Add","path":"members","value":[{"value":"`+id+`"}]}`, 200)
	is("writer", "by-hand", "harbour-crew", "eng")
	if u := x.scim("GET", "/Users/"+id, "", 200); len(u["groups"].([]any)) != 2 {
		t.Errorf("the user is in %v", u["groups"])
	}
	if n, _ := x.found("Groups", `members[value eq "`+id+`"].value pr`, ""); n != 2 {
		t.Errorf("%d groups of the user", n)
	}
	patch("/Groups/"+group, `{"op":"Remove","path":"members","value":[{"value":"`+id+`"}]}`, 200)
	is("reader", "by-hand", "harbour-crew")
	patch("/Groups/"+group, `{"op":"replace","path":"members","value":[{"value":"`+id+`"}]}`, 200)
	patch("/Groups/"+group, `{"op":"remove","path":"members[value eq \"`+id+`\"]"}`, 200)
	patch("/Groups/"+group, `{"op":"replace","value":{"id":"`+group+`","displayName":"Builders"}}`, 200)
	patch("/Groups/"+group, `{"op":"add","path":"members","value":[{"value":"`+id+`"}]}`, 200)
	is("reader", "by-hand", "harbour-crew") // no rule is about Builders
	if r := x.scim("PUT", "/Groups/"+group, `{"displayName":"Engineering","members":[{"value":"`+id+`"}]}`, 200); len(r["members"].([]any)) != 1 {
		t.Errorf("%v", r)
	}
	is("writer", "by-hand", "harbour-crew", "eng")
	if r := patch("/Groups/"+group, `{"op":"add","path":"members","value":[{"value":"nobody"}]}`, 400); r["scimType"] != "invalidValue" {
		t.Errorf("%v", r)
	}
	x.scim("DELETE", "/Groups/"+crew, "", 204)
	is("writer", "by-hand", "eng")
	x.scim("DELETE", "/Users/"+id, "", 204)
	if r := x.scim("GET", "/Groups/"+group, "", 200); len(r["members"].([]any)) != 0 {
		t.Errorf("who is deleted is still a member: %v", r)
	}
}

func TestAProviderIsToldWhatTheServerCan(t *testing.T) {
	x := newProvisioned(t)
	if r := x.scim("GET", "/ServiceProviderConfig", "", 200); r["patch"].(map[string]any)["supported"] != true || r["bulk"].(map[string]any)["supported"] != false {
		t.Errorf("%v", r)
	}
	for _, path := range []string{"/Schemas", "/ResourceTypes"} {
		all := x.scim("GET", path, "", 200)
		if all["totalResults"] != 2.0 {
			t.Errorf("%s: %v", path, all)
		}
		for _, r := range all["Resources"].([]any) {
			one := r.(map[string]any)
			if got := x.scim("GET", path+"/"+one["id"].(string), "", 200); got["name"] != one["name"] {
				t.Errorf("%s: %v", path, got)
			}
		}
		x.scim("GET", path+"/nowhere", "", 404)
	}
	for i := range 5 {
		x.scim("POST", "/Users", person(fmt.Sprint("user-", i)), 201)
	}
	seen := make(map[any]bool)
	for start := 1; start <= 5; start += 2 {
		page := x.scim("GET", fmt.Sprintf("/Users?startIndex=%d&count=2", start), "", 200)
		if page["totalResults"] != 5.0 || page["startIndex"] != float64(start) {
			t.Errorf("%v", page)
		}
		for _, r := range page["Resources"].([]any) {
			seen[r.(map[string]any)["id"]] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d users on all pages", len(seen))
	}
	if page := x.scim("GET", "/Users?count=0", "", 200); page["totalResults"] != 5.0 || len(page["Resources"].([]any)) != 0 {
		t.Errorf("%v", page)
	}
	for filter, want := range map[string]int{`userName sw "user-" and active eq true`: 5, `userName eq "user-1@example.org" or externalId eq "00u-user-2"`: 2, `emails[type eq "work"].value eq "user-3@example.org"`: 1,
		`externalId eq "00U-USER-2"`: 0, `active eq false`: 0, `name.familyName co "id"`: 5, `userName ne "user-1@example.org"`: 4, `title pr`: 0} {
		if n, _ := x.found("Users", filter, ""); n != want {
			t.Errorf("%s: %d, want %d", filter, n, want)
		}
	}
}

func TestAProviderIsToldWhatIsWrong(t *testing.T) {
	x := newProvisioned(t)
	id := x.scim("POST", "/Users", person("ada"), 201)["id"].(string)
	const op = `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[%s]}`
	for _, c := range []struct{ method, path, body, word string }{
		{"POST", "/Users", `{`, "invalidSyntax"}, {"POST", "/Users", `[]`, "invalidSyntax"}, {"POST", "/Users", `{"displayName":"x"}`, "invalidValue"},
		{"POST", "/Users", `{"userName":7}`, "invalidValue"}, {"POST", "/Users", `{"userName":"x","active":"perhaps"}`, "invalidValue"}, {"POST", "/Users", `{"userName":"` + strings.Repeat("x", 300) + `"}`, "invalidValue"},
		{"POST", "/Groups", `{}`, "invalidValue"}, {"POST", "/Groups", `{"displayName":"x","members":[{"value":"../../b"}]}`, "invalidValue"},
		{"GET", "/Users?filter=" + url.QueryEscape(`userName gt "a"`), "", "invalidFilter"}, {"GET", "/Users?filter=userName", "", "invalidFilter"}, {"GET", "/Users?filter=" + url.QueryEscape(`userName eq ada`), "", "invalidFilter"},
		{"GET", "/Users?filter=" + url.QueryEscape(`emails[type eq "work"`), "", "invalidFilter"}, {"GET", "/Users?count=x", "", "invalidValue"},
		{"PATCH", "/Users/" + id, `{"Operations":[]}`, "invalidSyntax"}, {"PATCH", "/Users/" + id, fmt.Sprintf(op, `{"op":"move","path":"active"}`), "invalidSyntax"},
		{"PATCH", "/Users/" + id, fmt.Sprintf(op, `{"op":"remove"}`), "noTarget"}, {"PATCH", "/Users/" + id, fmt.Sprintf(op, `{"op":"replace","path":"a b","value":1}`), "invalidPath"},
		{"PATCH", "/Users/" + id, fmt.Sprintf(op, `{"op":"remove","path":"userName"}`), "invalidValue"}, {"PATCH", "/Users/" + id, fmt.Sprintf(op, `{"op":"replace","path":"emails[type co \"h\"]","value":{"value":"x"}}`), "noTarget"},
	} {
		r := x.scim(c.method, c.path, c.body, http.StatusBadRequest)
		if r["scimType"] != c.word || r["status"] != "400" || r["detail"] == "" {
			t.Errorf("%s %s %s: %v, want %s", c.method, c.path, c.body, r, c.word)
		}
	}
	for _, path := range []string{"/Users/nobody", "/Groups/nobody", "/Users/" + strings.Repeat("a", 300)} {
		x.scim("GET", path, "", 404)
	}
	if r := x.scim("GET", "/Users/"+id, "", 200); r["userName"] != "ada@example.org" {
		t.Errorf("a refused change did something: %v", r)
	}
}

func TestAProviderSeesItsOwnTenantAlone(t *testing.T) {
	x := newProvisioned(t)
	id := x.scim("POST", "/Users", person("ada"), 201)["id"].(string)
	group := x.scim("POST", "/Groups", `{"displayName":"secret-group","members":[{"value":"`+id+`"}]}`, 201)["id"].(string)
	other := must[tenant.Tenant](t)(x.users.CreateTenant(t.Context(), tenant.Tenant{Name: "other"}))
	theirs := x.tokenOf(other, tenant.Token{Role: tenant.RoleAdmin, Scopes: []string{"scim"}})
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/Users/" + id, ""}, {"PUT", "/Users/" + id, person("ada")}, {"DELETE", "/Users/" + id, ""}, {"GET", "/Groups/" + group, ""}, {"PUT", "/Groups/" + group, `{"displayName":"x"}`}, {"DELETE", "/Groups/" + group, ""},
		{"PATCH", "/Users/" + id, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","value":{"active":false}}]}`},
	} {
		var body any
		if c.body != "" {
			body = c.body
		}
		foreign := x.call(t, theirs, c.method, routes.SCIMPath+c.path, body).want(t, 404)
		absent := x.call(t, theirs, c.method, routes.SCIMPath+strings.Replace(strings.Replace(c.path, id, twinOf(id), 1), group, twinOf(group), 1), body).want(t, 404)
		if a, b := strings.ReplaceAll(strings.ReplaceAll(string(foreign.Body), id, "ID"), group, "ID"), strings.ReplaceAll(strings.ReplaceAll(string(absent.Body), twinOf(id), "ID"), twinOf(group), "ID"); a != b {
			t.Errorf("%s %s: %s, and for one that there is not %s", c.method, c.path, a, b)
		}
	}
	for _, path := range []string{"/Users", "/Groups"} {
		if body := string(x.call(t, theirs, "GET", routes.SCIMPath+path, nil).want(t, 200).Body); strings.Contains(body, id) || strings.Contains(body, "secret-group") || !strings.Contains(body, `"totalResults":0`) {
			t.Errorf("%s tells another tenant %s", path, body)
		}
	}
	for what, token := range map[string]string{"a writer": x.tokenOf(x.acme, tenant.Token{Role: tenant.RoleWriter, Scopes: []string{"scim"}}), "another scope": x.tokenOf(x.acme, tenant.Token{Role: tenant.RoleAdmin, Scopes: []string{"sessions"}})} {
		for _, c := range []string{"GET /Users", "POST /Users", "DELETE /Users/" + id, "GET /ServiceProviderConfig"} {
			method, path, _ := strings.Cut(c, " ")
			if got := x.call(t, token, method, routes.SCIMPath+path, nil); got.Status != 403 {
				t.Errorf("%s, %s: %d %s", what, c, got.Status, got.Body)
			}
		}
	}
	x.call(t, "", "GET", routes.SCIMPath+"/Users", nil).want(t, 401)
	// The token of a provider is for nothing else.
	for _, path := range []string{"/api/v1/users", "/api/v1/sessions", "/api/v1/audit", "/api/v1/tokens"} {
		x.call(t, x.token, "GET", path, nil).want(t, 403)
	}
	if got := x.auditedIn(x.acme); !slices.Contains(got, "scim.user.create") || !slices.Contains(got, "scim.group.create") {
		t.Errorf("the audit log has %v", got)
	}
	x.scim("DELETE", "/Users/"+id, "", 204)
	if got := x.auditedIn(x.acme); !slices.Contains(got, "scim.user.delete") {
		t.Errorf("the audit log has %v", got)
	}
	if got := x.auditedIn(other); slices.ContainsFunc(got, func(a string) bool { return strings.HasPrefix(a, "scim.") }) {
		t.Errorf("the audit log of the other tenant has %v", got)
	}
}

// auditedIn is what was done in a tenant; nothing of it tells names of people.
func (x *provisioned) auditedIn(in tenant.Tenant) (done []string) {
	x.t.Helper()
	for l, err := range x.users.AuditLines(context.WithoutCancel(x.t.Context()), in.ID, tidemark.Span{}) {
		if err != nil {
			x.t.Fatal(err)
		}
		if text, _ := json.Marshal(l); strings.Contains(string(text), "example.org") || strings.Contains(string(text), "secret-group") {
			x.t.Errorf("the audit log tells %s", text)
		}
		if l.Outcome == tenant.AuditDone {
			done = append(done, l.Action)
		}
	}
	return done
}
