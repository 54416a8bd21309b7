package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth/authtest"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// door is a way in, with who must not come through it.
type door struct {
	auth    request.Authenticator
	hostile map[string]string // by what is wrong with it: the token
}

func add(rows map[string]string, name, token string) {
	if _, there := rows[name]; there {
		panic("two rows are called " + name)
	}
	rows[name] = token
}

func TestHostileTokensAreRefused(t *testing.T) {
	h := newHouse(t)
	doors := []door{{h.plain, map[string]string{}}, {h.entra, entraRows(h)}}
	for _, rows := range []map[string]string{algorithmRows(h), keyRows(t, h), timeRows(h), issuerRows(h), audienceRows(h), subjectRows(h), shapeRows(h), jsonRows(h)} {
		for name, token := range rows {
			add(doors[0].hostile, name, token)
		}
	}
	tokens, rows := tokenRows(t, h)
	doors = append(doors, door{tokens, rows}, door{Local("0123456789abcdef0123456789abcdef", tidemark.TenantOf("default", "")), localRows()})
	total := 0
	for _, d := range doors {
		told := 0
		gate := Any(d.auth)
		gate.Refused = func(context.Context, Refusal) { told++ }
		for _, name := range slices.Sorted(maps.Keys(d.hostile)) {
			gate.Address = func(*http.Request) string { return name }
			caller, err := gate.Authenticate(authtest.Bringing("Bearer " + d.hostile[name]))
			if err == nil {
				t.Errorf("%s: let in as %+v", name, caller)
			} else if !errors.Is(err, tidemark.ErrDenied) {
				t.Errorf("%s: %v, want ErrDenied", name, err)
			}
			if caller.Tenant != "" || caller.Role != "" {
				t.Errorf("%s: refused, and yet somebody: %+v", name, caller)
			}
			if p := request.Problem(request.Refused(err)); p.Status != http.StatusUnauthorized || p.Detail != "no valid token was sent" {
				t.Errorf("%s: tells %+v", name, p)
			}
		}
		if told != len(d.hostile) {
			t.Errorf("%d of %d refusals were told", told, len(d.hostile))
		}
		total += len(d.hostile)
	}
	if n := h.issuer.Asked.Load(); n > 0 {
		t.Errorf("%d requests to addresses that a token named", n)
	}
	if total < 250 {
		t.Errorf("%d hostile tokens, want at least 250", total)
	}
	t.Logf("%d hostile tokens refused", total)
	for name, token := range controls(h) {
		if _, err := h.plain.Authenticate(authtest.Bringing("Bearer " + token)); err != nil {
			t.Errorf("control %s: %v", name, err)
		}
	}
	if c, err := h.entra.Authenticate(authtest.Bringing("Bearer " + h.rsa.Token(h.issuer.Entra()))); err != nil || c.Tenant != tidemark.TenantOf("acme", "").Tenant {
		t.Errorf("control of Entra: %+v, %v", c, err)
	}
}

// controls are tokens that must be let in: a test that refuses everybody
// proves nothing.
func controls(h *house) map[string]string {
	now := time.Now().Unix()
	return map[string]string{
		"RS256":                h.rsa.Token(h.issuer.Claims()),
		"ES256":                h.ec.Token(h.issuer.Claims()),
		"EdDSA":                h.ed.Token(h.issuer.Claims()),
		"PS256":                h.pss.Token(h.issuer.Claims()),
		"no kid":               h.rsa.Token(h.issuer.Claims(), map[string]any{"kid": nil}),
		"no typ":               h.rsa.Token(h.issuer.Claims(), map[string]any{"typ": nil}),
		"an access token":      h.rsa.Token(h.issuer.Claims(), map[string]any{"typ": "at+jwt"}),
		"a list of one":        h.rsa.Token(h.issuer.Claims(authtest.Claims{"aud": []string{authtest.OurAudience}})),
		"a list and azp":       h.rsa.Token(h.issuer.Claims(authtest.Claims{"aud": []string{"x", authtest.OurAudience}, "azp": authtest.OurAudience})),
		"azp that is ours":     h.rsa.Token(h.issuer.Claims(authtest.Claims{"azp": authtest.OurAudience, "client_id": authtest.OurAudience})),
		"within the leeway":    h.rsa.Token(h.issuer.Claims(authtest.Claims{"exp": now - 30, "nbf": now + 30, "iat": now + 30})),
		"fractions of seconds": h.rsa.Token(h.issuer.Claims(authtest.Claims{"exp": float64(now) + 600.5})),
		"no iat":               h.rsa.Token(h.issuer.Claims(authtest.Claims{"iat": nil})),
		"an unknown claim":     h.rsa.Token(h.issuer.Claims(authtest.Claims{"https://x.example/y": map[string]any{"sub": "eve"}})),
		"a jku of its own key": h.rsa.Token(h.issuer.Claims(), map[string]any{"jku": "https://elsewhere.example/keys"}),
		"a name that is none":  h.rsa.Token(h.issuer.Claims(authtest.Claims{"name": 7, "email": nil})),
	}
}

// algorithmRows saying to be signed in a way that they are not, or in one that
// is never taken.
func algorithmRows(h *house) map[string]string {
	rows := map[string]string{}
	public, err := x509.MarshalPKIXPublicKey(h.rsa.Key.Public())
	if err != nil {
		panic(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	secrets := map[string][]byte{"PEM": text, "DER": public, "JWK": authtest.JSON(h.rsa.JWK()), "modulus": h.rsa.Key.Public().(*rsa.PublicKey).N.Bytes(), "nothing": {}}
	for _, alg := range []any{"none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "RS1", "RSA-OAEP", "dir", "A128KW", "ES256K", "RS256 ", " RS256", "rs256", 7, true, []string{"RS256"}, map[string]any{"alg": "RS256"}, "RS256\x00", "ＲS256"} {
		head := map[string]any{"alg": alg}
		signed := h.rsa.Token(h.issuer.Claims(), head)
		unsigned := signed[:strings.LastIndex(signed, ".")]
		add(rows, fmt.Sprintf("alg %#v, signed", alg), signed)
		add(rows, fmt.Sprintf("alg %#v, not signed", alg), unsigned+".")
	}
	for _, alg := range []string{"HS256", "RS256", "none"} {
		signed := h.rsa.Token(h.issuer.Claims(), map[string]any{"alg": alg})
		unsigned := signed[:strings.LastIndex(signed, ".")]
		for name, secret := range secrets {
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(unsigned))
			add(rows, "HMAC with the public key as "+name+", alg "+alg, unsigned+"."+authtest.Base64.EncodeToString(mac.Sum(nil)))
		}
	}
	add(rows, "no alg", h.rsa.Token(h.issuer.Claims(), map[string]any{"alg": nil}))
	for _, alg := range []string{"RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"} {
		add(rows, "RS256 that says "+alg, h.rsa.Token(h.issuer.Claims(), map[string]any{"alg": alg}))
	}
	return rows
}

// keyRows are signed by somebody else, and say where the key is.
func keyRows(t *testing.T, h *house) map[string]string {
	rows := map[string]string{}
	eve, eveEC := authtest.NewRSA(t, "rsa", "RS256"), authtest.NewEC(t, "ec")
	for _, kid := range []any{"rsa", "ec", nil, "", " rsa", "RSA", "../../../dev/null", "/dev/null", "..\\..\\nul", "' OR 1=1 --", "' UNION SELECT 'x", "http://eve.example/key", "file:///etc/passwd",
		"\x00", "rsa\x00", "rsa\nX: y", "%2e%2e%2f", "${jndi:ldap://eve.example}", "$(id)", "| id", "{{7*7}}", "ｒsa", "\u202easr", strings.Repeat("k", 300), strings.Repeat("k", 9000), 0, 1.5, true, []string{"rsa"}, map[string]any{"kid": "rsa"}} {
		name := fmt.Sprintf("%#v", kid)
		add(rows, fmt.Sprintf("another's key called %.40s, %d letters", name, len(name)), eve.Token(h.issuer.Claims(), map[string]any{"kid": kid}))
	}
	add(rows, "another's key on the curve", eveEC.Token(h.issuer.Claims()))
	at := h.issuer.URL + "/eve.json"
	der, err := x509.MarshalPKIXPublicKey(eve.Key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, head := range map[string]map[string]any{
		"jku": {"jku": at}, "jku and a new kid": {"jku": at, "kid": "eve"}, "jwk": {"jwk": eve.JWK()}, "jwk, no kid": {"jwk": eve.JWK(), "kid": nil}, "jwk of a secret": {"jwk": map[string]any{"kty": "oct", "k": "AAAA"}},
		"x5u": {"x5u": at}, "x5c": {"x5c": []string{base64.StdEncoding.EncodeToString(der)}}, "x5t": {"x5t": "AAAA"}, "jku by http": {"jku": "http://169.254.169.254/latest"}, "jku by file": {"jku": "file:///etc/passwd"},
		"all of them": {"jku": at, "x5u": at, "jwk": eve.JWK(), "kid": "eve"}, "an issuer in the header": {"iss": h.issuer.URL, "kid": "eve"},
	} {
		add(rows, "another's key by "+name, eve.Token(h.issuer.Claims(), head))
	}
	for name, head := range map[string]map[string]any{
		"crit": {"crit": []string{"exp"}}, "crit of nothing": {"crit": []string{}}, "crit b64": {"crit": []string{"b64"}, "b64": false}, "crit that is no list": {"crit": "exp"},
		"a logout token": {"typ": "logout+jwt"}, "an event": {"typ": "secevent+jwt"}, "JOSE+JSON": {"typ": "JOSE+JSON"}, "a typ that is none": {"typ": 1}, "an empty typ": {"typ": ""}, "a proof of possession": {"typ": "dpop+jwt"},
	} {
		add(rows, "our key, but "+name, h.rsa.Token(h.issuer.Claims(), head))
	}
	return rows
}

func timeRows(h *house) map[string]string {
	rows := map[string]string{}
	now := time.Now().Unix()
	for name, exp := range map[string]any{"missing": nil, "a minute ago": now - 61, "a day ago": now - 86400, "the beginning of time": 0, "before it": -1, "a text": fmt.Sprint(now + 600), "a date": "2099-01-01T00:00:00Z",
		"true": true, "a list": []int64{now + 600}, "an object": map[string]any{"$gt": 0}, "in two years": now + 2*366*86400, "in ten thousand years": now + 10_000*366*86400, "milliseconds": now * 1000, "huge": 1e300, "just huge": 1 << 62} {
		add(rows, "exp "+name, h.rsa.Token(h.issuer.Claims(authtest.Claims{"exp": exp})))
	}
	for _, which := range []string{"nbf", "iat"} {
		for name, at := range map[string]any{"in two minutes": now + 120, "tomorrow": now + 86400, "in a thousand years": now + 1000*366*86400, "a text": fmt.Sprint(now), "true": true, "a list": []int64{now}, "before time": -5, "huge": 1e300, "an object": authtest.Claims{}} {
			add(rows, which+" "+name, h.rsa.Token(h.issuer.Claims(authtest.Claims{which: at})))
		}
		raw := strings.Replace(string(authtest.JSON(h.issuer.Claims(authtest.Claims{which: "X"}))), `"`+which+`":"X"`, `"`+which+`":null`, 1)
		add(rows, which+" null", h.rsa.Token(raw))
	}
	raw := strings.Replace(string(authtest.JSON(h.issuer.Claims(authtest.Claims{"exp": "X"}))), `"X"`, "null", 1)
	add(rows, "exp null", h.rsa.Token(raw))
	add(rows, "exp with an exponent beyond all", h.rsa.Token(strings.Replace(raw, "null", "9e99999", 1)))
	return rows
}

func issuerRows(h *house) map[string]string {
	rows := map[string]string{}
	for name, iss := range map[string]any{"missing": nil, "empty": "", "a number": 1, "a list": []string{h.issuer.URL}, "an object": authtest.Claims{"iss": h.issuer.URL}, "true": true, "another": "https://eve.example", "with a slash": h.issuer.URL + "/",
		"in capitals": strings.ToUpper(h.issuer.URL), "by https": strings.Replace(h.issuer.URL, "http:", "https:", 1), "with a user": strings.Replace(h.issuer.URL, "://", "://eve@", 1), "with a path": h.issuer.URL + "/x",
		"with a query": h.issuer.URL + "?x", "with a fragment": h.issuer.URL + "#x", "and more": h.issuer.URL + ".eve.example", "less": h.issuer.URL[:len(h.issuer.URL)-1], "with a space": h.issuer.URL + " ", "with a space first": " " + h.issuer.URL,
		"with a line": h.issuer.URL + "\n", "with a null": h.issuer.URL + "\x00", "in letters that look alike": strings.Replace(h.issuer.URL, "p", "р", 1), "of Entra": h.issuer.URL + "/" + authtest.OurTID + "/v2.0", "accounts.google.com": "accounts.google.com", "without a scheme": strings.TrimPrefix(h.issuer.URL, "http://")} {
		add(rows, "iss "+name, h.rsa.Token(h.issuer.Claims(authtest.Claims{"iss": iss})))
	}
	return rows
}

func audienceRows(h *house) map[string]string {
	rows := map[string]string{}
	for name, aud := range map[string]any{"missing": nil, "empty": "", "a number": 5, "true": true, "an empty list": []string{}, "another": "another", "others": []string{"a", "b"}, "numbers": []any{1, 2}, "ours and a number": []any{authtest.OurAudience, 1},
		"a list in a list": []any{[]string{authtest.OurAudience}}, "an object": authtest.Claims{authtest.OurAudience: true}, "with a space": authtest.OurAudience + " ", "in capitals": strings.ToUpper(authtest.OurAudience), "and more": authtest.OurAudience + "2", "less": authtest.OurAudience[1:], "with a comma": authtest.OurAudience + ",x",
		"a star": "*", "two without azp": []string{authtest.OurAudience, "x"}, "ours twice without azp": []string{authtest.OurAudience, authtest.OurAudience}, "the issuer": h.issuer.URL} {
		add(rows, "aud "+name, h.rsa.Token(h.issuer.Claims(authtest.Claims{"aud": aud})))
	}
	for name, azp := range map[string]any{"a number": 1, "a list": []string{"c"}, "an object": authtest.Claims{}, "empty": ""} {
		add(rows, "two audiences, azp "+name, h.rsa.Token(h.issuer.Claims(authtest.Claims{"aud": []string{authtest.OurAudience, "x"}, "azp": azp})))
	}
	for name, said := range map[string]authtest.Claims{"azp": {"azp": "eve"}, "client_id": {"client_id": "eve"}, "azp, for two": {"aud": []string{authtest.OurAudience, "eve"}, "azp": "eve"},
		"client_id beside a right azp": {"azp": authtest.OurAudience, "client_id": "eve"}, "only client_id, for two": {"aud": []string{authtest.OurAudience, "eve"}, "client_id": authtest.OurAudience}} {
		add(rows, "another program's by "+name, h.rsa.Token(h.issuer.Claims(said)))
	}
	return rows
}

func subjectRows(h *house) map[string]string {
	rows := map[string]string{}
	for name, sub := range map[string]any{"missing": nil, "empty": "", "a number": 7, "a list": []string{"ada"}, "an object": authtest.Claims{"$ne": ""}, "true": true, "long": strings.Repeat("s", 513), "very long": strings.Repeat("s", 9000)} {
		add(rows, "sub "+name, h.rsa.Token(h.issuer.Claims(authtest.Claims{"sub": sub})))
	}
	return rows
}

// shapeRows are good tokens that somebody cut, glued or bent.
func shapeRows(h *house) map[string]string {
	rows := map[string]string{}
	good, other := h.rsa.Token(h.issuer.Claims()), h.rsa.Token(h.issuer.Claims(authtest.Claims{"sub": "eve"}))
	p, q := strings.Split(good, "."), strings.Split(other, ".")
	for _, cut := range []int{0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233} {
		add(rows, fmt.Sprintf("cut by %d", cut+1), good[:len(good)-cut-1])
	}
	for at := range 12 {
		sig, err := authtest.Base64.DecodeString(p[2])
		if err != nil {
			panic(err)
		}
		sig[at*len(sig)/12] ^= 1 << (at % 8)
		add(rows, fmt.Sprintf("a bit of the signature: %d", at), p[0]+"."+p[1]+"."+authtest.Base64.EncodeToString(sig))
	}
	ecSig := func(sig []byte) string {
		t := h.ec.Token(h.issuer.Claims())
		return t[:strings.LastIndex(t, ".")+1] + authtest.Base64.EncodeToString(sig)
	}
	unsigned := h.ec.Token(h.issuer.Claims())
	unsigned = unsigned[:strings.LastIndex(unsigned, ".")]
	sum := sha256.Sum256([]byte(unsigned))
	der, err := ecdsa.SignASN1(rand.Reader, h.ec.Key.(*ecdsa.PrivateKey), sum[:])
	if err != nil {
		panic(err)
	}
	for name, token := range map[string]string{
		"one part": p[0], "two parts": p[0] + "." + p[1], "no signature": p[0] + "." + p[1] + ".", "no payload": p[0] + ".." + p[2], "no header": "." + p[1] + "." + p[2], "dots alone": "..", "a fourth part": good + ".x",
		"an empty fourth part": good + ".", "five parts": good + "." + p[0] + "." + p[1], "a dot first": "." + good, "another's payload": p[0] + "." + q[1] + "." + p[2], "another's signature": p[0] + "." + p[1] + "." + q[2],
		"parts in another order": p[1] + "." + p[0] + "." + p[2], "padding": p[0] + "." + p[1] + "." + p[2] + "==", "padding inside": p[0] + "=." + p[1] + "." + p[2], "a plus for a minus": p[0] + "." + p[1] + "." + strings.NewReplacer("-", "+", "_", "/").Replace(p[2]) + "+",
		"a space inside": p[0] + ". " + p[1] + "." + p[2], "a space behind": good + " ", "a space before": " " + good, "a line inside": p[0] + "\n." + p[1] + "." + p[2], "a null behind": good + "\x00", "a tab behind": good + "\t", "letters of elsewhere": good + "ä",
		"two tokens": good + "," + good, "two tokens with a space": good + " " + good, "Bearer twice": "Bearer " + good, "quotes": `"` + good + `"`, "JSON": `{"payload":"` + p[1] + `","protected":"` + p[0] + `","signature":"` + p[2] + `"}`,
		"JSON of several": `{"payload":"` + p[1] + `","signatures":[{"protected":"` + p[0] + `","signature":"` + p[2] + `"}]}`, "too long": good + strings.Repeat("A", maxBearer), "much too long": strings.Repeat("A.", 1<<19), "as long as may be": strings.Repeat("A", maxBearer),
		"dots as many as may be": strings.Repeat(".", maxBearer), "a long header": strings.Repeat("A", 8000) + "." + p[1] + "." + p[2], "percent": strings.ReplaceAll(good, ".", "%2e"), "a header that is no JSON": authtest.Base64.EncodeToString([]byte("no")) + "." + p[1] + "." + p[2],
		"a header of null": authtest.Base64.EncodeToString([]byte("null")) + "." + p[1] + "." + p[2], "a header of a list": authtest.Base64.EncodeToString([]byte(`["RS256"]`)) + "." + p[1] + "." + p[2], "zeros on the curve": ecSig(make([]byte, 64)), "nothing on the curve": ecSig(nil), "DER on the curve": unsigned + "." + authtest.Base64.EncodeToString(der),
		"zeros of RSA": p[0] + "." + p[1] + "." + authtest.Base64.EncodeToString(make([]byte, 256)), "ones of RSA": p[0] + "." + p[1] + "." + authtest.Base64.EncodeToString(slices.Repeat([]byte{0xff}, 256)), "a signature twice": good + p[2],
	} {
		add(rows, name, token)
	}
	add(rows, "bits that count for nothing", good[:len(good)-1]+nextLetter(good[len(good)-1]))
	return rows
}

// nextLetter changes the bits of a last letter that no byte is made of.
func nextLetter(c byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[strings.IndexByte(letters, c)^1])
}

// jsonRows are signed by the issuer, and can be read in more than one way.
func jsonRows(h *house) map[string]string {
	rows := map[string]string{}
	good := string(authtest.JSON(h.issuer.Claims()))
	with := func(more string) string { return good[:len(good)-1] + "," + more + "}" }
	for name, payload := range map[string]string{
		"iss twice": with(`"iss":"` + h.issuer.URL + `"`), "sub twice": with(`"sub":"eve"`), "aud twice": with(`"aud":"` + authtest.OurAudience + `"`), "exp twice": with(`"exp":9999999999`), "an unknown claim twice": with(`"x":1,"x":2`), "a claim twice inside": with(`"x":{"a":1,"a":2}`),
		"Sub and sub": with(`"Sub":"eve"`), "SUB and sub": with(`"SUB":"eve"`), "ISS and iss": with(`"ISS":"x"`), "Aud and aud": with(`"Aud":"x"`), "EXP and exp": with(`"EXP":1`), "an escaped sub": with(`"s\u0075b":"eve"`), "sub with a long s": with(`"ſub":"eve"`),
		"a list": "[" + good + "]", "a text": `"` + authtest.OurAudience + `"`, "a number": "7", "null": "null", "true": "true", "nothing": " ", "an empty object": "{}", "more behind": good + "x", "an object behind": good + good, "a comma behind": good + ",", "a BOM": "\ufeff" + good, "a comment": good + "//", "single quotes": strings.ReplaceAll(good, `"`, "'"),
		"bytes that are no text": with("\"x\":\"\xff\xfe\""), "half a character": with(`"x":"\ud800"`), "half a character in sub": strings.Replace(good, `"ada"`, `"\ud800"`, 1), "a name of bytes": with("\"\xff\":1"), "deep": with(`"x":` + strings.Repeat("[", 11000) + strings.Repeat("]", 11000)), "not closed": good[:len(good)-1], "a null inside": strings.Replace(good, ",", ",\x00", 1),
		"Sub alone": strings.Replace(good, `"sub"`, `"Sub"`, 1), "ISS alone": strings.Replace(good, `"iss"`, `"ISS"`, 1), "AUD alone": strings.Replace(good, `"aud"`, `"AUD"`, 1), "Exp alone": strings.Replace(good, `"exp"`, `"Exp"`, 1),
	} {
		add(rows, "claims: "+name, h.rsa.Token(payload))
	}
	for name, head := range map[string]string{"alg twice": `{"alg":"none","alg":"RS256","kid":"rsa"}`, "Alg and alg": `{"alg":"RS256","Alg":"none","kid":"rsa"}`, "kid twice": `{"alg":"RS256","kid":"rsa","kid":"ec"}`, "more behind": `{"alg":"RS256","kid":"rsa"}{}`, "null alg": `{"alg":null,"kid":"rsa"}`} {
		text := authtest.Base64.EncodeToString([]byte(head)) + "." + authtest.Base64.EncodeToString([]byte(good))
		add(rows, "header: "+name, text+"."+authtest.Base64.EncodeToString(h.rsa.Sign(text)))
	}
	return rows
}

// entraRows mix up organisations.
func entraRows(h *house) map[string]string {
	rows := map[string]string{}
	i := h.issuer
	for name, c := range map[string]authtest.Claims{
		"no tid": {"tid": nil}, "an empty tid": {"tid": ""}, "a tid that is a number": {"tid": 1}, "a tid that is a list": {"tid": []string{authtest.OurTID}}, "a tid in capitals": {"tid": "AAAAAAAA-2222-4333-8444-555555555555", "iss": i.URL + "/AAAAAAAA-2222-4333-8444-555555555555/v2.0"},
		"a tid that is no UUID": {"tid": "acme", "iss": i.URL + "/acme/v2.0"}, "a tid in braces": {"tid": "{" + authtest.OurTID + "}", "iss": i.URL + "/{" + authtest.OurTID + "}/v2.0"}, "a tid with a path": {"tid": authtest.OurTID + "/../" + authtest.OtherTID, "iss": i.URL + "/" + authtest.OurTID + "/../" + authtest.OtherTID + "/v2.0"}, "the place of a tid": {"tid": "{tenantid}", "iss": i.URL + "/{tenantid}/v2.0"},
		"another's tid with our issuer": {"tid": authtest.OtherTID}, "our tid with another's issuer": {"iss": i.URL + "/" + authtest.OtherTID + "/v2.0"}, "an unknown organisation": {"tid": authtest.StrangeTID, "iss": i.URL + "/" + authtest.StrangeTID + "/v2.0"}, "the issuer with no tid in it": {"iss": i.URL + "/{tenantid}/v2.0"},
		"organizations": {"tid": "organizations", "iss": i.URL + "/organizations/v2.0"}, "common": {"iss": i.URL + "/common/v2.0"}, "consumers": {"iss": i.URL + "/consumers/v2.0"}, "version 1": {"iss": "https://sts.windows.net/" + authtest.OurTID + "/"}, "version 3": {"iss": i.URL + "/" + authtest.OurTID + "/v3.0"}, "no version": {"iss": i.URL + "/" + authtest.OurTID}, "a slash behind": {"iss": i.URL + "/" + authtest.OurTID + "/v2.0/"},
		"the real one": {"iss": "https://login.microsoftonline.com/" + authtest.OurTID + "/v2.0"}, "the plain issuer": {"iss": i.URL}, "no oid": {"oid": nil}, "an empty oid": {"oid": ""}, "an oid that is a number": {"oid": 1}, "an oid that is a name": {"oid": "ada"}, "an oid in capitals": {"oid": strings.ToUpper(authtest.SomeOID)}, "an oid with a space": {"oid": authtest.SomeOID + " "}, "an oid that is a list": {"oid": []string{authtest.SomeOID}},
		"another audience": {"aud": "00000003-0000-0000-c000-000000000000"}, "expired": {"exp": time.Now().Unix() - 100}, "not yet": {"nbf": time.Now().Unix() + 100},
	} {
		add(rows, "Entra: "+name, h.rsa.Token(i.Entra(c)))
	}
	add(rows, "Entra: tid twice", h.rsa.Token(strings.Replace(string(authtest.JSON(i.Entra())), "{", `{"tid":"`+authtest.OtherTID+`",`, 1)))
	add(rows, "Entra: Tid and tid", h.rsa.Token(strings.Replace(string(authtest.JSON(i.Entra())), "{", `{"Tid":"`+authtest.OtherTID+`",`, 1)))
	add(rows, "Entra: OID and oid", h.rsa.Token(strings.Replace(string(authtest.JSON(i.Entra())), "{", `{"OID":"`+authtest.OtherTID+`",`, 1)))
	return rows
}

// tokenRows are service tokens that are not good, or not any more.
func tokenRows(t *testing.T, h *house) (*TokenAuthenticator, map[string]string) {
	t.Helper()
	rows := map[string]string{}
	ctx := t.Context()
	clock := time.Now()
	users := tenant.NewDirectory(records.New(h.users.Backend(), records.Options{Now: func() time.Time { return clock }}))
	make := func(org, user string, ends time.Time) (tenant.Token, string) {
		token, text, err := users.CreateToken(ctx, tenant.Token{Tenant: tidemark.TenantOf(org, "").Tenant, User: user, Name: "x", Role: tenant.RoleWriter, ExpiresAt: ends})
		if err != nil {
			t.Fatal(err)
		}
		return token, text
	}
	good, text := make("plain", "", time.Time{})
	_, second := make("plain", "", time.Time{})
	revoked, text2 := make("plain", "", time.Time{})
	if _, err := users.RevokeToken(ctx, "", revoked.ID); err != nil {
		t.Fatal(err)
	}
	add(rows, "token: revoked", text2)
	_, text3 := make("plain", "", clock.Add(time.Hour))
	clock = clock.Add(time.Hour)
	add(rows, "token: expired", text3)
	gone, err := users.CreateTenant(ctx, tenant.Tenant{Name: "gone"})
	if err != nil {
		t.Fatal(err)
	}
	_, text4 := make("gone", "", time.Time{})
	if _, err := users.SetTenantState(ctx, gone.ID, tenant.Suspended); err != nil {
		t.Fatal(err)
	}
	add(rows, "token: of a suspended tenant", text4)
	plain, err := users.TenantNamed(ctx, "plain")
	if err != nil {
		t.Fatal(err)
	}
	u, _, err := users.UpsertUser(ctx, tenant.Claims{Tenant: plain, Issuer: "i", Subject: "fired", Role: tenant.RoleWriter})
	if err != nil {
		t.Fatal(err)
	}
	_, text5 := make("plain", u.ID, time.Time{})
	if _, err := users.ChangeUser(ctx, plain.ID, u.ID, func(u *tenant.User) error { u.State = tenant.Suspended; return nil }); err != nil {
		t.Fatal(err)
	}
	add(rows, "token: of a suspended user", text5)
	id, secret, _ := tenant.ParseToken(text)
	_, other, _ := tenant.ParseToken(second)
	for name, wrong := range map[string]string{
		"cut": text[:len(text)-1], "longer": text + "a", "in capitals": strings.ToUpper(text), "the secret in capitals": "tmk_" + id + "_" + strings.ToUpper(secret), "another's secret": "tmk_" + id + "_" + other, "no secret": "tmk_" + id + "_", "no id": "tmk__" + secret, "the id alone": "tmk_" + id,
		"an unknown id": "tmk_" + strings.Repeat("a", 16) + "_" + secret, "secret and id changed over": "tmk_" + secret + "_" + id, "another beginning": "tmx_" + id + "_" + secret, "a dash": "tmk-" + id + "-" + secret, "an id with a path": "tmk_../../../../../x_" + secret, "the beginning alone": "tmk_", "twice": text + text,
		"the hash for the secret": "tmk_" + id + "_" + strings.Repeat("0", 52), "a dot": text + ".x.y", "a percent sign": strings.ReplaceAll(text, "_", "%5f"), "a star": "tmk_" + id + "_" + strings.Repeat("*", 52), "zeros": "tmk_" + strings.Repeat("2", 16) + "_" + strings.Repeat("2", 52), "an id that is a beginning": "tmk_" + id[:8] + "_" + secret,
	} {
		add(rows, "token: "+name, wrong)
	}
	for at := range 6 {
		b := []byte(text)
		at = len("tmk_") + at*13
		b[at] = 'a' + (b[at]-'a'+1)%5
		if string(b) != text {
			add(rows, fmt.Sprintf("token: letter %d", at), string(b))
		}
	}
	auth := ServiceTokens(users)
	if c, err := auth.Authenticate(authtest.Bringing("Bearer " + text)); err != nil || c.Token != good.ID || c.Role != request.Writer || c.Operator {
		t.Errorf("a good token: %+v, %v", c, err)
	}
	return auth, rows
}

func localRows() map[string]string {
	token := "0123456789abcdef0123456789abcdef"
	return map[string]string{"local: empty": "", "local: cut": token[1:], "local: longer": token + "0", "local: in capitals": strings.ToUpper(token), "local: another": strings.Repeat("0", 32), "local: twice": token + token,
		"local: a service token": "tmk_" + strings.Repeat("a", 16) + "_" + strings.Repeat("b", 52), "local: with a space": token + " ", "local: a star": "*", "local: null": "null", "local: undefined": "undefined"}
}

func TestHeadersThatAreNotOneBearerAreRefused(t *testing.T) {
	h := newHouse(t)
	good := h.rsa.Token(h.issuer.Claims())
	for name, headers := range map[string][]string{"two headers": {"Bearer " + good, "Bearer " + good}, "a good and a bad one": {"Bearer " + good, "Basic eA=="}, "another scheme": {"Token " + good}, "Basic": {"Basic " + good}, "no scheme": {good}, "no token": {"Bearer"}, "an empty token": {"Bearer "}, "two spaces": {"Bearer  " + good}, "nothing": {""}} {
		if c, err := Any(h.plain).Authenticate(authtest.Bringing(headers...)); !errors.Is(err, tidemark.ErrDenied) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if _, err := Any(h.plain).Authenticate(authtest.Bringing("bearer " + good)); err != nil {
		t.Errorf("the scheme in small letters: %v", err)
	}
}

func FuzzToken(f *testing.F) {
	h := newHouse(f)
	good := h.rsa.Token(h.issuer.Claims())
	f.Add("Bearer " + good)
	f.Add("Bearer " + good[:len(good)-4])
	f.Add("Bearer tmk_aaaaaaaaaaaaaaaa_" + strings.Repeat("b", 52))
	f.Add("Bearer eyJhbGciOiJub25lIn0.e30.")
	f.Add("Bearer " + h.ec.Token("[]"))
	gate := Any(ServiceTokens(h.users), h.plain, Local("0123456789abcdef", tidemark.Principal{}))
	n := 0
	gate.Address = func(*http.Request) string { n++; return fmt.Sprint(n) }
	f.Fuzz(func(t *testing.T, header string) {
		c, err := gate.Authenticate(authtest.Bringing(header))
		if known := header == "Bearer "+good || strings.EqualFold(header, "bearer 0123456789abcdef"); err == nil && !known && !strings.HasSuffix(header, " "+good) {
			t.Errorf("%q was let in as %+v", header, c)
		}
	})
}
