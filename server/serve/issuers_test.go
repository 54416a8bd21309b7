package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/auth/authtest"
)

// issuersOf keeps the issuers of a file that a test writes.
type issuersOf struct {
	*issuerKeeper
	t    *testing.T
	key  authtest.Signer
	one  *authtest.Issuer
	two  *authtest.Issuer
	left int // how often it was forgotten who was admitted
}

func newIssuersOf(t *testing.T, file func(*issuersOf) string) *issuersOf {
	t.Helper()
	x := &issuersOf{t: t, key: authtest.NewEC(t, "k")}
	x.one, x.two = authtest.NewIssuer(t, x.key), authtest.NewIssuer(t, x.key)
	x.issuerKeeper = &issuerKeeper{Config: Config{Store: "memory:", Auth: AuthOIDC, OIDC: OIDC{File: filepath.Join(t.TempDir(), "issuers.yaml"), Role: tenant.RoleReader}},
		Program: &Program{Say: t.Logf, Complain: func(err error) { t.Error(err) }}, issuers: auth.NewIssuers(), changed: func() { x.left++ }}
	x.write(file(x))
	all, err := x.read()
	if err != nil {
		t.Fatal(err)
	}
	found, err := x.find(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	x.issuers.Replace(found)
	x.now = all
	users := tenant.NewDirectory(records.New(memory.New(), records.Options{}))
	for _, name := range []string{"legal", "lab"} {
		if _, err := users.CreateTenant(t.Context(), tenant.Tenant{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.begin(t.Context(), users); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *issuersOf) write(text string) {
	x.t.Helper()
	if err := os.WriteFile(x.OIDC.File, []byte(text), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// comes returns the tenant and role that a token of an issuer leads to, "" when
// nobody is let in.
func (x *issuersOf) comes(by *authtest.Issuer, claims authtest.Claims) string {
	x.t.Helper()
	c, err := x.issuers.Authenticate(authtest.Bringing("Bearer " + x.key.Token(by.Claims(claims))))
	if errors.Is(err, tidemark.ErrDenied) {
		return ""
	}
	if err != nil {
		x.t.Fatal(err)
	}
	in, err := x.users.Tenant(x.t.Context(), c.Tenant)
	if err != nil {
		x.t.Fatal(err)
	}
	return in.Name + " " + string(c.Role)
}

func one(x *issuersOf) string {
	return "issuers:\n- issuer: " + x.one.URL + "\n  audience: tidemark-api\n  rules:\n  - {claim: department, value: legal, tenant: legal}\n"
}

func TestIssuersAndTheirRulesChangeWithTheirFile(t *testing.T) {
	x := newIssuersOf(t, one)
	law, bench := authtest.Claims{"department": "legal"}, authtest.Claims{"groups": []string{"lab"}}
	want := func(by *authtest.Issuer, claims authtest.Claims, want string) {
		t.Helper()
		if got := x.comes(by, claims); got != want {
			t.Errorf("%v: %q, want %q", claims, got, want)
		}
	}
	want(x.one, law, "legal reader")
	want(x.one, bench, "")
	want(x.two, law, "")
	x.write(one(x) + "  - {claim: groups, value: lab, tenant: lab, role: writer, workspaces: [bench]}\n- issuer: " + x.two.URL + "\n  audience: tidemark-api\n  default_role: admin\n  rules: [{tenant: lab}]\n")
	kept := x.issuers.All()[0]
	if err := x.again(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(x.one, law, "legal reader")
	want(x.one, bench, "lab writer")
	want(x.two, law, "lab admin")
	if x.left != 1 || x.issuers.All()[0] != kept {
		t.Errorf("forgotten %d times; the issuer that stayed is the same: %v", x.left, x.issuers.All()[0] == kept)
	}
	changed, err := x.users.RulesChanged(t.Context(), x.one.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.again(t.Context()); err != nil || x.left != 1 {
		t.Errorf("nothing changed: %v, forgotten %d times", err, x.left)
	}
	if again, err := x.users.RulesChanged(t.Context(), x.one.URL); err != nil || !again.Equal(changed) {
		t.Errorf("who was signed in has to do it again: %v, %v", again, err)
	}
	x.write(one(x))
	if err := x.again(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(x.two, law, "")
	want(x.one, bench, "")
}

func TestAWrongFileOfIssuersChangesNothing(t *testing.T) {
	x := newIssuersOf(t, one)
	for name, c := range map[string]struct{ text, says string }{
		"not YAML":             {"issuers: [", "issuers.yaml:"},
		"an unknown key":       {one(x) + "  rulez: []\n", "rulez"},
		"an unknown tenant":    {one(x) + "  - {claim: a, value: b, tenant: nobody}\n", "nobody"},
		"an unknown role":      {one(x) + "  - {claim: a, value: b, tenant: lab, role: root}\n", "root"},
		"no issuer":            {"issuers: []\n", "none"},
		"an issuer twice":      {one(x) + strings.TrimPrefix(one(x), "issuers:\n"), "twice"},
		"an issuer without it": {"issuers: [{audience: x}]\n", "URL"},
		"no TLS":               {"issuers: [{issuer: 'http://id.example', audience: x}]\n", "https"},
		"no audience":          {"issuers: [{issuer: '" + x.two.URL + "'}]\n", "whom"},
		"another's issuer":     {"issuers: [{issuer: '" + x.two.URL + "/organizations/v2.0', audience: x}]\n", "issuer"},
		"a secret not there":   {"issuers: [{issuer: '" + x.two.URL + "', audience: x, client_id: p, client_secret_file: none}]\n", "none"},
		"rules of all Entra":   {"issuers: [{entra: true, audience: x, rules: [{tenant: lab}]}]\n", "organisation"},
	} {
		x.write(c.text)
		if err := x.again(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if got := x.comes(x.one, authtest.Claims{"department": "legal"}); got != "legal reader" {
			t.Errorf("after %s: %q", name, got)
		}
		if rules, err := x.users.Rules(t.Context(), x.one.URL); err != nil || len(rules) != 1 {
			t.Errorf("after %s the rules are %v, %v", name, rules, err)
		}
	}
	if err := os.Remove(x.OIDC.File); err != nil {
		t.Fatal(err)
	}
	if err := x.again(t.Context()); err == nil || x.left != 0 {
		t.Errorf("a file that is gone: %v", err)
	}
}

func TestTheSecretOfAnIssuerIsInAFileBesideTheOthers(t *testing.T) {
	x := newIssuersOf(t, one)
	if err := os.WriteFile(filepath.Join(filepath.Dir(x.OIDC.File), "hush"), []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.write(one(x) + "- {issuer: '" + x.two.URL + "', audience: x, client_id: pages, client_secret_file: hush}\n")
	all, err := x.read()
	if err != nil || len(all) != 2 || all[1].secret != "hush" {
		t.Errorf("%+v, %v", all, err)
	}
}
