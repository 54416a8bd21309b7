package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// One user takes all that they can get: requests under way, streams, memory for
// bodies. Whatever another user of the tenant does goes on.
func TestAFloodOfOneUserKeepsNobodyElseFromTheirWork(t *testing.T) {
	work, over := make(chan struct{}, 100), make(chan struct{})
	s := newTestServer(t, func(o *Options) {
		o.Limits = request.Limits{Concurrent: 8, Streams: 8, Memory: 64 << 20}
		o.Formats = []string{"text"}
		o.Export = func(ctx context.Context, _ *store.Store, _ store.Point, _ string) (string, func(io.Writer) error, error) {
			return "text/plain", func(w io.Writer) error {
				if request.CallerOf(ctx).Name == people()["writer-a"].Name {
					work <- struct{}{}
					<-over
				}
				_, err := io.WriteString(w, "all of it")
				return err
			}, nil
		}
		o.Import = func(_ context.Context, _ *store.Store, _ string, content io.Reader) ([]Imported, error) {
			_, err := io.Copy(io.Discard, content)
			return nil, err
		}
	})
	flood, calm := newSession(t, s, "writer-a", "flood", "tides"), newSession(t, s, "other-a", "calm", "tides")

	body, sending := io.Pipe() // never arrives whole, and is weighed as it comes
	t.Cleanup(func() { sending.Close(); close(over) })
	go func() {
		r := streamRequest(t, "POST", s.URL+"/api/v1/import?name=a.jsonl", "writer-a", "")
		r.Body, r.ContentLength = body, -1
		if res, err := http.DefaultTransport.RoundTrip(r); err == nil {
			res.Body.Close()
		}
	}()
	for range 15 { // of the 16 MB that half of the budget is, at two bytes each
		if _, err := sending.Write([]byte(strings.Repeat("x", 1<<20))); err != nil {
			t.Fatal(err)
		}
	}
	full := func(path string) bool {
		r := streamRequest(t, "GET", s.URL+path, "writer-a", "")
		answered := make(chan int, 1)
		go func() {
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				return
			}
			answered <- res.StatusCode
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}()
		select {
		case status := <-answered:
			return status == http.StatusTooManyRequests
		case <-work:
			return false
		}
	}
	for _, path := range []string{flood + "/export?format=text", flood + "/entries/stream"} {
		n := 0
		for ; !full(path); n++ {
			if n > 100 {
				t.Fatalf("%s has no bound", path)
			}
		}
	}
	for range 2 {
		for _, c := range []struct {
			method, path, body string
			want               int
		}{
			{"GET", request.SessionsPath, "", 200}, {"GET", calm + "/entries", "", 200}, {"GET", "/api/v1/search?q=tides", "", 200}, {"GET", calm + "/export?format=text", "", 200},
			{"POST", calm + "/entries", `{"entries":[{"role":"user","content":"` + strings.Repeat("x", 2<<20) + `"}]}`, 201},
			{"POST", "/api/v1/import?name=a.jsonl", strings.Repeat("x", 4<<20), 200},
		} {
			if a := s.call(t, "other-a", c.method, c.path, c.body); a.Status != c.want {
				t.Errorf("%s %s: %d %.200s", c.method, c.path, a.Status, a.Body)
			}
		}
		f := s.follow(t, "other-a", calm+"/entries/stream", "")
		if got := f.next(t); !strings.HasPrefix(got, "1 ") {
			t.Errorf("followed: %q", got)
		}
		f.close()
	}
}

// There are no passwords and no names to guess them for: whoever guesses tokens
// is slowed down by where they come from, and nobody else is.
func TestWhoGuessesTokensLocksOutNobodyElsewhere(t *testing.T) {
	local := auth.Local("0123456789abcdef", tidemark.TenantOf("a", "jo"))
	form := func(from, token string) int {
		r := httptest.NewRequest("POST", "/signin", strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		local.ServeSignIn(w, r, showSignIn)
		return w.Code
	}
	for range 50 {
		form("192.0.2.1:1", "guess")
	}
	if got := form("192.0.2.1:2", "0123456789abcdef"); got != http.StatusTooManyRequests {
		t.Errorf("who guessed, then: %d, want 429", got)
	}
	for _, from := range []string{"192.0.2.2:1", "[2001:db8::1]:1", "127.0.0.1:1"} {
		if got := form(from, "0123456789abcdef"); got != http.StatusSeeOther {
			t.Errorf("from %s: %d, want to be let in", from, got)
		}
	}
}
