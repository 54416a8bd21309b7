package server

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

const (
	ourAudience = "tidemark-api"
	ourTID      = "11111111-2222-4333-8444-555555555555"
	otherTID    = "99999999-2222-4333-8444-555555555555"
	strangeTID  = "77777777-2222-4333-8444-555555555555"
	someOID     = "aaaaaaaa-2222-4333-8444-555555555555"
)

var b64 = base64.RawURLEncoding

// signer is a key of an issuer.
type signer struct {
	kid, alg string
	key      crypto.Signer
}

func newRSA(t testing.TB, kid, alg string) signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return signer{kid, alg, key}
}

// The keys of the issuer are slow to make, and the same in every test.
var issuerRSA = sync.OnceValue(func() [2]*rsa.PrivateKey {
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			panic(err)
		}
	}
	return keys
})

func newEC(t testing.TB, kid string) signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{kid, "ES256", key}
}

func newEd(t testing.TB, kid string) signer {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{kid, "EdDSA", key}
}

// jwk is the public key as an issuer publishes it.
func (s signer) jwk() map[string]any {
	k := map[string]any{"kid": s.kid, "use": "sig", "alg": s.alg}
	switch pub := s.key.Public().(type) {
	case *rsa.PublicKey:
		k["kty"], k["n"], k["e"] = "RSA", b64.EncodeToString(pub.N.Bytes()), b64.EncodeToString(big.NewInt(int64(pub.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := pub.Bytes()
		if err != nil {
			panic(err)
		}
		k["kty"], k["crv"], k["x"], k["y"] = "EC", "P-256", b64.EncodeToString(point[1:33]), b64.EncodeToString(point[33:])
	case ed25519.PublicKey:
		k["kty"], k["crv"], k["x"] = "OKP", "Ed25519", b64.EncodeToString(pub)
	}
	return k
}

// sign makes the signature of a text, as s.alg says.
func (s signer) sign(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	var sig []byte
	var err error
	switch {
	case s.alg == "EdDSA":
		sig, err = s.key.Sign(rand.Reader, []byte(text), crypto.Hash(0))
	case s.alg == "ES256":
		r, ss, e := ecdsa.Sign(rand.Reader, s.key.(*ecdsa.PrivateKey), sum[:])
		sig, err = append(r.FillBytes(make([]byte, 32)), ss.FillBytes(make([]byte, 32))...), e
	case s.alg == "PS256":
		sig, err = s.key.Sign(rand.Reader, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	default:
		sig, err = s.key.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	if err != nil {
		panic(err)
	}
	return sig
}

// token signs a payload; header replaces fields of the usual one, nil removes.
func (s signer) token(payload any, header ...map[string]any) string {
	h := map[string]any{"alg": s.alg, "kid": s.kid, "typ": "JWT"}
	for _, change := range header {
		for name, value := range change {
			if h[name] = value; value == nil {
				delete(h, name)
			}
		}
	}
	text := b64.EncodeToString(asJSON(h)) + "." + b64.EncodeToString(asJSON(payload))
	return text + "." + b64.EncodeToString(s.sign(text))
}

func asJSON(v any) []byte {
	switch v := v.(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// issuer is one that listens: as itself, and below /organizations/v2.0 as
// Entra does.
type issuer struct {
	URL     string
	fetches atomic.Int32
	asked   atomic.Int32 // at addresses that a token named
	mu      sync.Mutex
	keys    []signer
	redeem  http.HandlerFunc // answers at the token endpoint, when it is set
}

func newIssuer(t testing.TB, keys ...signer) *issuer {
	i := &issuer{keys: keys}
	mux := http.NewServeMux()
	describe := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(asJSON(map[string]any{"issuer": i.URL + name, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/a", "token_endpoint": i.URL + "/t",
				"id_token_signing_alg_values_supported": []string{"none", "HS256", "RS256"}}))
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", describe(""))
	mux.HandleFunc("/organizations/v2.0/.well-known/openid-configuration", describe("/{tenantid}/v2.0"))
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		i.mu.Lock()
		var all []map[string]any
		for _, k := range i.keys {
			all = append(all, k.jwk())
		}
		i.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.Write(asJSON(map[string]any{"keys": all}))
	})
	mux.HandleFunc("POST /t", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		redeem := i.redeem
		i.mu.Unlock()
		if redeem == nil {
			w.WriteHeader(404)
			return
		}
		redeem(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { i.asked.Add(1); w.WriteHeader(404) })
	h := httptest.NewServer(mux)
	t.Cleanup(h.Close)
	i.URL = h.URL
	return i
}

func (i *issuer) publish(keys ...signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// saying sets, or removes with nil, claims of a good token.
type saying map[string]any

func (i *issuer) claims(changes ...saying) map[string]any {
	now := time.Now().Unix()
	return changed(map[string]any{"iss": i.URL, "sub": "ada", "aud": ourAudience, "exp": now + 600, "iat": now, "name": "Ada", "email": "ada@example.org"}, changes)
}

func (i *issuer) entra(changes ...saying) map[string]any {
	now := time.Now().Unix()
	return changed(map[string]any{"iss": i.URL + "/" + ourTID + "/v2.0", "tid": ourTID, "oid": someOID, "sub": "pairwise", "aud": ourAudience, "exp": now + 600, "nbf": now, "iat": now}, changes)
}

func changed(c map[string]any, changes []saying) map[string]any {
	for _, change := range changes {
		for name, value := range change {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
	return c
}

// house is a server's doors with everything behind them.
type house struct {
	issuer *issuer
	users  *tenant.Directory
	plain  *OIDCAuth
	entra  *OIDCAuth
	rsa    signer
	ec     signer
	ed     signer
	pss    signer
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{rsa: signer{"rsa", "RS256", issuerRSA()[0]}, ec: newEC(t, "ec"), ed: newEd(t, "ed"), pss: signer{"pss", "PS256", issuerRSA()[1]}, users: tenant.NewDirectory(records.New(memory.New(), records.Options{}))}
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
		if _, err := h.users.CreateTenant(t.Context(), tenant.Tenant{Name: name, Issuer: of[0], Foreign: of[1]}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// bringing is a request with these Authorization headers.
func bringing(headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "/api/v1/sessions", strings.NewReader(""))
	r.Header["Authorization"] = headers
	return r
}
