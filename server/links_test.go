package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/link"
)

// stranger asks for a path without a token.
func (s *testServer) stranger(t *testing.T, path string) answer {
	t.Helper()
	res, err := http.Get(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return answer{res.StatusCode, res.Header, must[[]byte](t)(io.ReadAll(res.Body))}
}

func TestAServerKeepsLinksThatItCannotRead(t *testing.T) {
	s := newTestServer(t)
	jo := tidemark.TenantOf("a", "jo")
	st := must[*store.Store](t)(s.o.Open(t.Context(), jo))
	// The sessions are in a store that the server does not have.
	mine := must[*store.Store](t)(newTestServer(t).o.Open(t.Context(), jo))
	out := mine.Create(tidemark.Session{Title: "canary title"}, process.Self("talk"))
	must[[]int64](t)(out.Append(t.Context(), tidemark.Say(tidemark.User, "the canary sings")))
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := link.At(s.URL, func(context.Context) (string, error) { return "writer-a", nil })
	made := must[link.Made](t)(at.Make(t.Context(), store.Point{View: must[*store.View](t)(mine.View(t.Context(), out.ID()))}, link.Options{}))
	path, key, _ := strings.Cut(strings.TrimPrefix(made.URL, s.URL), "#")

	// Nothing plain is in what the server keeps, and the key is not either.
	operator := must[*store.Store](t)(s.o.Open(t.Context(), tidemark.Operator()))
	for _, kept := range []*store.Store{operator, st} {
		b := kept.Records().Backend()
		for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
			if err != nil {
				t.Fatal(err)
			}
			r := must[tidemark.Record](t)(b.Get(t.Context(), k))
			for _, secret := range []string{"canary", key} {
				if bytes.Contains(r.Body, []byte(secret)) {
					t.Errorf("%s has %q", k, secret)
				}
			}
		}
	}

	// A stranger gets a page that is the same for every link, and the copy.
	page := s.stranger(t, path)
	if page.Status != 200 || !bytes.Equal(page.Body, link.Page()) || !strings.Contains(page.Header.Get("X-Robots-Tag"), "noindex") || !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the page: %d %v", page.Status, page.Header)
	}
	sealed := s.stranger(t, path+"/sealed")
	if sealed.Status != 200 || sealed.Header.Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("the copy: %d %v", sealed.Status, sealed.Header)
	}
	if text := opened(t, sealed.Body, key); !strings.Contains(text, "the canary sings") {
		t.Errorf("the copy is %.200q", text)
	}
	for _, p := range []string{"/shared/", "/shared", "/shared/" + link.NewName(), "/shared/" + link.NewName() + "/sealed", path + "/", path + "/other"} {
		if got := s.stranger(t, p); got.Status == 200 {
			t.Errorf("%s answers a stranger with %d", p, got.Status)
		}
	}
	if got := s.stranger(t, "/api/v1/links"); got.Status != 401 {
		t.Errorf("a stranger lists links: %d", got.Status)
	}

	// Only its owner lists and revokes it, and readers make none.
	name := strings.TrimPrefix(path, "/shared/")
	for _, who := range []string{"other-a", "writer-b"} {
		if body := string(s.call(t, who, "GET", "/api/v1/links", nil).want(t, 200).Body); strings.Contains(body, name) {
			t.Errorf("%s sees %s", who, body)
		}
		s.call(t, who, "DELETE", "/api/v1/links/"+name, nil).want(t, 404)
	}
	expires := "?expires_at=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	s.call(t, "reader-a", "PUT", "/api/v1/links/"+link.NewName()+expires, sealed.Body).want(t, 403)
	s.call(t, "writer-a", "PUT", "/api/v1/links/"+link.NewName()+expires, bytes.Repeat([]byte{1}, tenant.MaxLinkBytes+1)).want(t, 413)
	s.call(t, "writer-a", "PUT", "/api/v1/links/"+link.NewName(), sealed.Body).want(t, 422)
	if list := must[[]link.Made](t)(at.List(t.Context())); len(list) != 1 || list[0].Session != out.ID() || list[0].URL != s.URL+path {
		t.Errorf("the list is %+v", list)
	}
	if _, err := at.Revoke(t.Context(), "https://elsewhere.example"+path); err == nil {
		t.Error("a link of another server was revoked here")
	}
	must[link.Made](t)(at.Revoke(t.Context(), made.URL))
	for _, p := range []string{path, path + "/sealed"} {
		if got := s.stranger(t, p); got.Status != 410 || !bytes.Contains(got.Body, []byte("was revoked")) {
			t.Errorf("after that %s answers %d %s", p, got.Status, got.Body)
		}
	}
}

// opened decrypts a copy as docs/formats/link.md says.
func opened(t *testing.T, sealed []byte, key string) string {
	t.Helper()
	block := must[cipher.Block](t)(aes.NewCipher(must[[]byte](t)(base64.RawURLEncoding.DecodeString(key))))
	packed := must[[]byte](t)(must[cipher.AEAD](t)(cipher.NewGCM(block)).Open(nil, sealed[1:13], sealed[13:], []byte("tidemark link 1")))
	return string(must[[]byte](t)(io.ReadAll(must[*gzip.Reader](t)(gzip.NewReader(bytes.NewReader(packed))))))
}

func TestALinkOfWhoIsSuspendedLeadsNowhere(t *testing.T) {
	s := newTestServer(t)
	users := must[*tenant.Directory](t)(s.stores.Operators(t.Context()))
	acme := must[tenant.Tenant](t)(users.CreateTenant(t.Context(), tenant.Tenant{Name: "acme"}))
	l := must[tenant.Link](t)(users.PutLink(t.Context(), tenant.Link{Name: link.NewName(), Tenant: acme.ID, User: "ada", ExpiresAt: time.Now().Add(time.Hour)}, []byte("sealed")))
	if got := s.stranger(t, "/shared/"+l.Name); got.Status != 200 {
		t.Fatalf("before: %d", got.Status)
	}
	must[tenant.Tenant](t)(users.SetTenantState(t.Context(), acme.ID, tenant.Suspended))
	for _, p := range []string{"", "/sealed"} {
		if got := s.stranger(t, "/shared/"+l.Name+p); got.Status != 404 {
			t.Errorf("%s: %d", p, got.Status)
		}
	}
}

func TestAStrangerWhoOpensTooManyLinksWaits(t *testing.T) {
	s := newTestServer(t)
	from := &http.Request{RemoteAddr: "127.0.0.1:1"}
	for range 1000 {
		for s.visitors.Enter(from) { // others have used up what this address may do
		}
		if got := s.stranger(t, "/shared/"+link.NewName()); got.Status == 429 {
			if got.Header.Get("Retry-After") == "" {
				t.Error("it is not said when to come back")
			}
			return
		}
	}
	t.Error("nobody stops a stranger")
}

func TestAnAdminSeesToTheLinksOfTheTenant(t *testing.T) {
	by := &withTokens{table: people()}
	s := administered(t, withPages, seeingOff, func(o *Options) { o.Auth = by })
	users, a, ids := leavers(t, s)
	by.tokens = auth.ServiceTokens(users)
	put := func(of, user string) string {
		t.Helper()
		return must[tenant.Link](t)(users.PutLink(t.Context(), tenant.Link{Name: link.NewName(), Tenant: of, User: user, ExpiresAt: time.Now().Add(time.Hour)}, []byte("sealed"))).Name
	}
	kim, jo := tidemark.TenantOf("a", "kim"), tidemark.TenantOf("b", "jo")
	adas, kims, bobs, others := put(a.ID, ids[0]), put(a.ID, kim.User), put(a.ID, ids[1]), put(jo.Tenant, jo.User)
	const path = "/api/v1/users/links"
	_, op, err := users.CreateToken(t.Context(), tenant.Token{Tenant: a.ID, Name: "op", Role: tenant.RoleAdmin, Scopes: []string{"operator"}})
	if err != nil {
		t.Fatal(err)
	}
	names := func(who, query string) (all []string) {
		t.Helper()
		for next := "?limit=2" + query; next != ""; {
			var page struct {
				Items []struct{ Name, User, Owner string }
				Next  string
			}
			s.call(t, who, "GET", path+next, nil).want(t, 200).into(t, &page)
			for _, l := range page.Items {
				if all = append(all, l.Name); l.User == ids[0] && l.Owner != "ada" {
					t.Errorf("the link of ada is %+v", l)
				}
			}
			if next = ""; page.Next != "" {
				next = "?limit=2" + query + "&cursor=" + page.Next
			}
		}
		slices.Sort(all)
		return all
	}
	inA := slices.Sorted(slices.Values([]string{adas, kims, bobs}))
	for _, c := range []struct {
		who, query string
		want       []string
	}{{"admin-a", "", inA}, {"admin-b", "", []string{others}}, {op, "&tenant=b", []string{others}}, {"op", "&tenant=a", inA}} {
		if got := names(c.who, c.query); !slices.Equal(got, c.want) {
			t.Errorf("%s%s sees %v, want %v", c.who, c.query, got, c.want)
		}
	}
	// Members see their own alone, and a foreign link is answered as one that is not there.
	for _, who := range []string{"reader-a", "writer-a", "other-a"} {
		s.call(t, who, "GET", path, nil).want(t, 403)
		s.call(t, who, "DELETE", path+"/"+adas, nil).want(t, 403)
		s.call(t, who, "GET", "/store/links", nil).want(t, 403)
		s.form(t, who, "/store/links/"+adas+"/revoke").want(t, 403)
	}
	without := func(name string, a answer) string {
		p := a.problem(t)
		p.Instance = ""
		return strings.ReplaceAll(fmt.Sprintf("%+v", p), name, "NAME")
	}
	missing := link.NewName()
	for _, query := range []string{"", "?tenant=a"} {
		foreign, none := s.call(t, "admin-b", "DELETE", path+"/"+adas+query, nil).want(t, 404), s.call(t, "admin-b", "DELETE", path+"/"+missing+query, nil).want(t, 404)
		if f, n := without(adas, foreign), without(missing, none); f != n {
			t.Errorf("a foreign link is answered with %s, a missing one with %s", f, n)
		}
		s.form(t, "admin-b", "/store/links/"+adas+"/revoke", "tenant", "a").want(t, 404)
	}
	s.call(t, "admin-b", "GET", path+"?tenant=a", nil).want(t, 404)
	if got := s.stranger(t, "/shared/"+adas); got.Status != 200 {
		t.Fatalf("after all that the link of ada answers %d", got.Status)
	}

	// By HTTP, by a page, and by an operator's token, which reads nothing.
	s.call(t, "admin-a", "DELETE", path+"/"+adas, nil).want(t, 200)
	if body := string(s.call(t, "admin-a", "GET", "/store/links", nil).want(t, 200).Body); !strings.Contains(body, "ada") || !strings.Contains(body, `action="/store/links/`+kims+`/revoke"`) || strings.Contains(body, others) {
		t.Errorf("the page is %s", body)
	}
	s.form(t, "admin-a", "/store/links/"+kims+"/revoke").want(t, 200)
	s.call(t, op, "DELETE", path+"/"+others+"?tenant=b", nil).want(t, 200)
	s.call(t, op, "GET", "/api/v1/links", nil).want(t, 403)
	s.call(t, op, "PUT", "/api/v1/links/"+link.NewName()+"?expires_at="+time.Now().Add(time.Hour).UTC().Format(time.RFC3339), []byte("sealed")).want(t, 403)
	for name, user := range map[string]string{adas: ids[0], kims: kim.User, others: jo.User} {
		if got := s.stranger(t, "/shared/"+name); got.Status != 410 {
			t.Errorf("%s: %d", name, got.Status)
		}
		if l := must[tenant.Link](t)(users.Link(t.Context(), name)); l.State != tenant.Revoked || l.User != user || l.RevokedBy == "" {
			t.Errorf("%+v", l)
		}
	}
	// The log of the tenant says who did it, and whose link it was.
	for of, want := range map[string][]string{a.ID: {adas + " of " + ids[0], kims + " of " + kim.User}, jo.Tenant: {others + " of " + jo.User}} {
		var done []string
		for l, err := range users.AuditLines(t.Context(), of, tidemark.Span{}) {
			if err != nil {
				t.Fatal(err)
			}
			if l.Action == "link.revoke" && l.Outcome == tenant.AuditDone && l.Who != "" {
				done = append(done, l.Thing)
			}
		}
		if !slices.Equal(done, want) {
			t.Errorf("the log has %q, want %q", done, want)
		}
	}
}
