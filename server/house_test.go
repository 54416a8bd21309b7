package server

import (
	"testing"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
	"golang.org/x/time/rate"
)

// house is a server's doors with everything behind them.
type house struct {
	issuer *issuer
	users  *store.Store
	plain  *OIDCAuth
	entra  *OIDCAuth
	rsa    signer
	ec     signer
	ed     signer
	pss    signer
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{rsa: signer{"rsa", "RS256", issuerRSA()[0]}, ec: newEC(t, "ec"), ed: newEd(t, "ed"), pss: signer{"pss", "PS256", issuerRSA()[1]}, users: store.New(memory.New(), nil)}
	h.issuer = newIssuer(t, h.rsa, h.ec, h.ed, h.pss)
	var err error
	if h.plain, err = OIDC(t.Context(), OIDCOptions{Issuer: h.issuer.URL, Audience: ourAudience, Users: h.users}); err != nil {
		t.Fatal(err)
	}
	if h.entra, err = OIDC(t.Context(), OIDCOptions{Issuer: h.issuer.URL + "/organizations/v2.0", Entra: true, Audience: ourAudience, Users: h.users}); err != nil {
		t.Fatal(err)
	}
	// Made-up keys are asked for without end here; the pace has its own test.
	h.plain.keys.pace, h.entra.keys.pace = rate.NewLimiter(rate.Inf, 0), rate.NewLimiter(rate.Inf, 0)
	for name, of := range map[string][2]string{"plain": {h.issuer.URL, ""}, "acme": {h.issuer.URL + "/" + ourTID + "/v2.0", ourTID}, "other": {h.issuer.URL + "/" + otherTID + "/v2.0", otherTID}} {
		if _, err := h.users.CreateTenant(t.Context(), store.Tenant{Name: name, Issuer: of[0], Foreign: of[1]}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}
