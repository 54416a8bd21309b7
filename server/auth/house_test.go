package auth

import (
	"testing"

	"golang.org/x/time/rate"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth/authtest"
)

// house is a server's doors with everything behind them.
type house struct {
	issuer *authtest.Issuer
	users  *tenant.Directory
	plain  *OIDCAuthenticator
	entra  *OIDCAuthenticator
	rsa    authtest.Signer
	ec     authtest.Signer
	ed     authtest.Signer
	pss    authtest.Signer
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{rsa: authtest.Signer{Kid: "rsa", Alg: "RS256", Key: authtest.IssuerRSA()[0]}, ec: authtest.NewEC(t, "ec"), ed: authtest.NewEd(t, "ed"), pss: authtest.Signer{Kid: "pss", Alg: "PS256", Key: authtest.IssuerRSA()[1]}, users: tenant.NewDirectory(records.New(memory.New(), records.Options{}))}
	h.issuer = authtest.NewIssuer(t, h.rsa, h.ec, h.ed, h.pss)
	var err error
	if h.plain, err = OIDC(t.Context(), OIDCOptions{Issuer: h.issuer.URL, Audience: authtest.OurAudience, Users: h.users}); err != nil {
		t.Fatal(err)
	}
	if h.entra, err = OIDC(t.Context(), OIDCOptions{Issuer: h.issuer.URL + "/organizations/v2.0", Entra: true, Audience: authtest.OurAudience, Users: h.users}); err != nil {
		t.Fatal(err)
	}
	// Made-up keys are asked for without end here; the pace has its own test.
	h.plain.found.found.Load().keys.pace, h.entra.found.found.Load().keys.pace = rate.NewLimiter(rate.Inf, 0), rate.NewLimiter(rate.Inf, 0)
	for name, of := range map[string][2]string{"plain": {h.issuer.URL, ""}, "acme": {h.issuer.URL + "/" + authtest.OurTID + "/v2.0", authtest.OurTID}, "other": {h.issuer.URL + "/" + authtest.OtherTID + "/v2.0", authtest.OtherTID}} {
		if _, err := h.users.CreateTenant(t.Context(), tenant.Tenant{Name: name, Issuer: of[0], Foreign: of[1]}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}
