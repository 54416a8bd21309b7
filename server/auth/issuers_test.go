package auth

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth/authtest"
	"github.com/tidemark-sessions/tidemark/server/request"
)

func TestAnIssuerThatIsDownIsFoundWhenItIsBack(t *testing.T) {
	h := newHouse(t)
	k := authtest.NewEC(t, "k")
	i := authtest.NewIssuer(t, k)
	i.Away.Store(true)
	if _, err := h.users.CreateTenant(t.Context(), tenant.Tenant{Name: "late", Issuer: i.URL}); err != nil {
		t.Fatal(err)
	}
	late, err := OIDC(t.Context(), OIDCOptions{Issuer: i.URL, Audience: authtest.OurAudience, Users: h.users})
	if err != nil || late.Away() == nil {
		t.Fatalf("an issuer that is down: %v, away %v", err, late.Away())
	}
	_, service, err := h.users.CreateToken(t.Context(), tenant.Token{Tenant: tidemark.TenantOf("late", "").Tenant, Name: "ci", Role: tenant.RoleReader})
	if err != nil {
		t.Fatal(err)
	}
	gate := Any(ServiceTokens(h.users), NewIssuers(h.plain, late))
	token := "Bearer " + k.Token(i.Claims())
	for range 20 {
		_, err := gate.Authenticate(authtest.Bringing(token))
		if p := request.Problem(request.Refused(err)); p.Status != http.StatusServiceUnavailable || p.RetryAfter == 0 {
			t.Fatalf("%+v, want 503 with a time to come back", p)
		}
		for name, other := range map[string]string{"a service token": service, "a token of another issuer": h.rsa.Token(h.issuer.Claims())} {
			if _, err := gate.Authenticate(authtest.Bringing("Bearer " + other)); err != nil {
				t.Fatalf("%s meanwhile: %v", name, err)
			}
		}
	}
	if n := i.Missed.Load(); n > 4 { // the client may send a request again that broke off
		t.Errorf("it was asked %d times while it was down", n)
	}
	i.Away.Store(false)
	late.found.mu.Lock()
	late.found.next = time.Time{} // the pause is over
	late.found.mu.Unlock()
	c, err := gate.Authenticate(authtest.Bringing(token))
	if err != nil || c.Tenant != tidemark.TenantOf("late", "").Tenant || late.Away() != nil {
		t.Errorf("when it is back: %+v, %v, away %v", c, err, late.Away())
	}
}

func TestAnIssuerThatTurnsOutToBeAnotherLetsNobodyIn(t *testing.T) {
	h := newHouse(t)
	k := authtest.NewEC(t, "k")
	i := authtest.NewIssuer(t, k)
	i.Away.Store(true)
	// What it says about itself, once it answers, is the issuer without the path.
	odd, err := OIDC(t.Context(), OIDCOptions{Issuer: i.URL + "/organizations/v2.0", Audience: authtest.OurAudience, Users: h.users})
	if err != nil {
		t.Fatal(err)
	}
	i.Away.Store(false)
	odd.found.next = time.Time{}
	_, err = odd.Authenticate(authtest.Bringing("Bearer " + k.Token(i.Claims())))
	if p := request.Problem(request.Refused(err)); p.Status != http.StatusServiceUnavailable || !errors.Is(odd.Away(), tidemark.ErrInvalid) {
		t.Errorf("%+v, away %v", p, odd.Away())
	}
}

func TestEachTokenIsCheckedByItsOwnIssuer(t *testing.T) {
	h := newHouse(t)
	k := authtest.NewEC(t, "rsa") // the name of another issuer's key
	i := authtest.NewIssuer(t, k)
	for name, issuer := range map[string]string{"second": i.URL} {
		if _, err := h.users.CreateTenant(t.Context(), tenant.Tenant{Name: name, Issuer: issuer}); err != nil {
			t.Fatal(err)
		}
	}
	second, err := OIDC(t.Context(), OIDCOptions{Issuer: i.URL, Audience: "second-api", Users: h.users})
	if err != nil {
		t.Fatal(err)
	}
	all := NewIssuers(h.plain, h.entra, second)
	for want, token := range map[string]string{
		"plain": h.rsa.Token(h.issuer.Claims()), "acme": h.rsa.Token(h.issuer.Entra()), "second": k.Token(i.Claims(authtest.Claims{"aud": "second-api"})),
	} {
		c, err := all.Authenticate(authtest.Bringing("Bearer " + token))
		if err != nil || c.Tenant != tidemark.TenantOf(want, "").Tenant {
			t.Errorf("a token of %s: %+v, %v", want, c, err)
		}
	}
	for name, token := range map[string]string{
		"signed by another issuer's key":        k.Token(h.issuer.Claims()),
		"for another issuer's audience":         k.Token(i.Claims()),
		"of an organisation that is unknown":    h.rsa.Token(h.issuer.Entra(authtest.Claims{"tid": authtest.StrangeTID, "iss": h.issuer.URL + "/" + authtest.StrangeTID + "/v2.0"})),
		"of another organisation than it says":  h.rsa.Token(h.issuer.Entra(authtest.Claims{"tid": authtest.OtherTID})),
		"of an issuer that is unknown":          k.Token(i.Claims(authtest.Claims{"iss": "https://elsewhere.example", "aud": "second-api"})),
		"of no issuer":                          k.Token(i.Claims(authtest.Claims{"iss": nil})),
		"of two issuers":                        k.Token(`{"iss":"` + i.URL + `","iss":"` + h.issuer.URL + `","sub":"ada","aud":"second-api","exp":9999999999}`),
		"of the template of many organisations": h.rsa.Token(h.issuer.Entra(authtest.Claims{"iss": h.issuer.URL + "/" + entraTenant + "/v2.0"})),
	} {
		if c, err := all.Authenticate(authtest.Bringing("Bearer " + token)); !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("a token %s: %+v, %v", name, c, err)
		}
	}
	all.Replace([]*OIDCAuthenticator{h.plain})
	if _, err := all.Authenticate(authtest.Bringing("Bearer " + k.Token(i.Claims(authtest.Claims{"aud": "second-api"})))); !errors.Is(err, tidemark.ErrDenied) {
		t.Errorf("a token of an issuer that is gone: %v", err)
	}
}

func TestAnOrganisationOfEntraMayHaveAnEntryOfItsOwn(t *testing.T) {
	many := &OIDCAuthenticator{o: OIDCOptions{Issuer: EntraIssuer, Entra: true}}
	one := &OIDCAuthenticator{o: OIDCOptions{Issuer: tenant.EntraIssuer(authtest.OurTID), Entra: true}}
	all := NewIssuers(many, one)
	for iss, want := range map[string]*OIDCAuthenticator{
		tenant.EntraIssuer(authtest.OurTID): one, tenant.EntraIssuer(authtest.OtherTID): many, EntraIssuer: many,
		"https://login.microsoftonline.com/" + authtest.OtherTID: nil, "https://elsewhere.example/" + authtest.OtherTID + "/v2.0": nil, "": nil,
	} {
		if got := all.of(iss); got != want {
			t.Errorf("%q is another's", iss)
		}
	}
	if NewIssuers(one).of(tenant.EntraIssuer(authtest.OtherTID)) != nil {
		t.Error("one organisation speaks for another")
	}
}
