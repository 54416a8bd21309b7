package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestServersOfOneHostDoNotSignEachOtherOut(t *testing.T) {
	type server struct {
		*LocalAuthenticator
		host string
	}
	who := tidemark.TenantOf("default", "")
	here, there := server{Local("0123456789abcdef", who), "localhost:7433"}, server{Local("fedcba9876543210", who), "localhost:7434"}
	jar := make(map[string]*http.Cookie) // of a browser, which has one for all ports of a host
	ask := func(s server, path string) (*http.Request, *httptest.ResponseRecorder) {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = s.host
		for _, c := range jar {
			r.AddCookie(c)
		}
		return r, httptest.NewRecorder()
	}
	take := func(w *httptest.ResponseRecorder) {
		for _, c := range w.Result().Cookies() {
			if jar[c.Name] = c; c.MaxAge < 0 {
				delete(jar, c.Name)
			}
		}
	}
	enter := func(s server) {
		r, w := ask(s, "/signin?code="+s.NewCode())
		s.ServeSignIn(w, r, func(w http.ResponseWriter, status int, _ SignInView) { w.WriteHeader(status) })
		take(w)
	}
	leave := func(s server) {
		r, w := ask(s, "/")
		if err := s.SignOut(w, r); err != nil {
			t.Fatal(err)
		}
		take(w)
	}
	in := func(s server) bool {
		r, _ := ask(s, "/sessions")
		_, err := s.Authenticate(r)
		return err == nil
	}
	expect := func(when string, mine, theirs bool) {
		t.Helper()
		if in(here) != mine || in(there) != theirs {
			t.Errorf("%s: signed in here %v, there %v, want %v, %v", when, in(here), in(there), mine, theirs)
		}
	}
	// Whoever signed in before cookies had a port is still signed in, and can sign out.
	jar["tidemark"] = &http.Cookie{Name: "tidemark", Value: here.newCookie()}
	expect("by a cookie without a port", true, false)
	leave(there)
	expect("after signing out there", true, false)
	enter(there)
	expect("after signing in there, too", true, true)
	enter(here)
	leave(here)
	expect("after signing out here", false, true)
	enter(here)
	expect("after both", true, true)
	leave(there)
	expect("after signing out there again", true, false)
}
