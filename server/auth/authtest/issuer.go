// Package authtest is an issuer of tokens for tests: it listens, has keys, and
// signs the claims that a test asks for. It does not know how a server checks
// them.
//
//	key := authtest.NewEC(t, "k")
//	issuer := authtest.NewIssuer(t, key)
//	token := key.Token(issuer.Claims())
package authtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
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
)

// The audience of tokens, and organisations and a user of Entra.
const (
	OurAudience = "tidemark-api"
	OurTID      = "11111111-2222-4333-8444-555555555555"
	OtherTID    = "99999999-2222-4333-8444-555555555555"
	StrangeTID  = "77777777-2222-4333-8444-555555555555"
	SomeOID     = "aaaaaaaa-2222-4333-8444-555555555555"
)

// Base64 is the encoding of the parts of a token.
var Base64 = base64.RawURLEncoding

// Signer is a key of an issuer.
type Signer struct {
	Kid, Alg string
	Key      crypto.Signer
}

// NewRSA makes a key for an algorithm with RSA.
func NewRSA(t testing.TB, kid, alg string) Signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return Signer{kid, alg, key}
}

// IssuerRSA are the issuer's RSA keys: slow to make, so the same in every test.
var IssuerRSA = sync.OnceValue(func() [2]*rsa.PrivateKey {
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			panic(err)
		}
	}
	return keys
})

// NewEC makes a key for ES256.
func NewEC(t testing.TB, kid string) Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Signer{kid, "ES256", key}
}

// NewEd makes a key for EdDSA.
func NewEd(t testing.TB, kid string) Signer {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Signer{kid, "EdDSA", key}
}

// JWK is the public key as an issuer publishes it.
func (s Signer) JWK() map[string]any {
	k := map[string]any{"kid": s.Kid, "use": "sig", "alg": s.Alg}
	switch pub := s.Key.Public().(type) {
	case *rsa.PublicKey:
		k["kty"], k["n"], k["e"] = "RSA", Base64.EncodeToString(pub.N.Bytes()), Base64.EncodeToString(big.NewInt(int64(pub.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := pub.Bytes()
		if err != nil {
			panic(err)
		}
		k["kty"], k["crv"], k["x"], k["y"] = "EC", "P-256", Base64.EncodeToString(point[1:33]), Base64.EncodeToString(point[33:])
	case ed25519.PublicKey:
		k["kty"], k["crv"], k["x"] = "OKP", "Ed25519", Base64.EncodeToString(pub)
	}
	return k
}

// Sign makes the signature of a text, as s.Alg says.
func (s Signer) Sign(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	var sig []byte
	var err error
	switch {
	case s.Alg == "EdDSA":
		sig, err = s.Key.Sign(rand.Reader, []byte(text), crypto.Hash(0))
	case s.Alg == "ES256":
		r, ss, e := ecdsa.Sign(rand.Reader, s.Key.(*ecdsa.PrivateKey), sum[:])
		sig, err = append(r.FillBytes(make([]byte, 32)), ss.FillBytes(make([]byte, 32))...), e
	case s.Alg == "PS256":
		sig, err = s.Key.Sign(rand.Reader, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	default:
		sig, err = s.Key.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
	if err != nil {
		panic(err)
	}
	return sig
}

// Token signs a payload; header replaces fields of the usual one, nil removes.
func (s Signer) Token(payload any, header ...map[string]any) string {
	h := map[string]any{"alg": s.Alg, "kid": s.Kid, "typ": "JWT"}
	for _, change := range header {
		for name, value := range change {
			if h[name] = value; value == nil {
				delete(h, name)
			}
		}
	}
	text := Base64.EncodeToString(JSON(h)) + "." + Base64.EncodeToString(JSON(payload))
	return text + "." + Base64.EncodeToString(s.Sign(text))
}

// JSON encodes a value, and returns text unchanged.
func JSON(v any) []byte {
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

// Issuer is an issuer that listens: as itself, and below
// /organizations/v2.0 like Entra.
type Issuer struct {
	URL     string
	Fetches atomic.Int32
	Asked   atomic.Int32 // at addresses that a token named
	Away    atomic.Bool  // it does not answer
	Missed  atomic.Int32 // how often it was asked while it was away
	mu      sync.Mutex
	keys    []Signer
	Redeem  http.HandlerFunc // answers at the token endpoint, when it is set
}

// NewIssuer starts an issuer with these keys.
func NewIssuer(t testing.TB, keys ...Signer) *Issuer {
	i := &Issuer{keys: keys}
	mux := http.NewServeMux()
	describe := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write(JSON(map[string]any{"issuer": i.URL + name, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/a", "token_endpoint": i.URL + "/t",
				"id_token_signing_alg_values_supported": []string{"none", "HS256", "RS256"}}))
		}
	}
	mux.HandleFunc("/.well-known/openid-configuration", describe(""))
	mux.HandleFunc("/organizations/v2.0/.well-known/openid-configuration", describe("/{tenantid}/v2.0"))
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.Fetches.Add(1)
		i.mu.Lock()
		var all []map[string]any
		for _, k := range i.keys {
			all = append(all, k.JWK())
		}
		i.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.Write(JSON(map[string]any{"keys": all}))
	})
	mux.HandleFunc("POST /t", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		redeem := i.Redeem
		i.mu.Unlock()
		if redeem == nil {
			w.WriteHeader(404)
			return
		}
		redeem(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { i.Asked.Add(1); w.WriteHeader(404) })
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.Away.Load() {
			i.Missed.Add(1)
			panic(http.ErrAbortHandler) // the connection is cut
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	i.URL = h.URL
	return i
}

// Publish replaces the keys.
func (i *Issuer) Publish(keys ...Signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Claims sets, or removes with nil, claims of a good token.
type Claims map[string]any

// Claims are those of a good token, changed.
func (i *Issuer) Claims(changes ...Claims) map[string]any {
	now := time.Now().Unix()
	return changed(map[string]any{"iss": i.URL, "sub": "ada", "aud": OurAudience, "exp": now + 600, "iat": now, "name": "Ada", "email": "ada@example.org"}, changes)
}

// Entra is Claims as Entra makes them.
func (i *Issuer) Entra(changes ...Claims) map[string]any {
	now := time.Now().Unix()
	return changed(map[string]any{"iss": i.URL + "/" + OurTID + "/v2.0", "tid": OurTID, "oid": SomeOID, "sub": "pairwise", "aud": OurAudience, "exp": now + 600, "nbf": now, "iat": now}, changes)
}

func changed(c map[string]any, changes []Claims) map[string]any {
	for _, change := range changes {
		for name, value := range change {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
	return c
}

// Bringing is a request with these Authorization headers.
func Bringing(headers ...string) *http.Request {
	r := httptest.NewRequest("GET", "/api/v1/sessions", strings.NewReader(""))
	r.Header["Authorization"] = headers
	return r
}

// Cookie is a cookie as a server with this key makes it for a user of an
// issuer: a signature of the name and the content, and the content.
func Cookie(key []byte, name string, says any) string {
	body := JSON(says)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(name + "\x00"))
	mac.Write(body)
	return Base64.EncodeToString(append(mac.Sum(nil), body...))
}
