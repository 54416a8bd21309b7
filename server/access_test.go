package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// changingPeople is a table whose people are changed while they are at work.
type changingPeople struct {
	mu sync.Mutex
	table
	forgot int
}

func (c *changingPeople) Authenticate(r *http.Request) (request.Caller, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Authenticate(r)
}

func (c *changingPeople) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgot++
}

func (c *changingPeople) change(who string, f func(*request.Caller)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	caller := c.table[who]
	f(&caller)
	c.table[who] = caller
}

// streams are the answers that stay open, and what stands at the end of each
// when its caller may not go on, or may do other things.
var streams = map[string]struct {
	open            func(t *testing.T, s *testServer, who, session string) *http.Request
	denied, changed string
}{
	"followed entries": {func(t *testing.T, s *testServer, who, session string) *http.Request {
		return streamRequest(t, "GET", s.URL+session+"/entries/stream", who, "")
	}, `"status":401`, "event: bye"},
	"a long poll": {func(t *testing.T, s *testServer, who, session string) *http.Request {
		r := streamRequest(t, "POST", s.URL+"/api/v1/backend/wait", who, `{"kind":"session","id":"`+strings.TrimPrefix(session, request.SessionsPath+"/")+`","after":1000}`)
		r.Header.Set("Content-Type", api.MediaJSON)
		return r
	}, `"status":401`, `"status":503`},
	"the page of a session": {func(t *testing.T, s *testServer, who, session string) *http.Request {
		return streamRequest(t, "GET", s.URL+strings.TrimPrefix(session, "/api/v1")+"/live", who, "")
	}, `"status":401`, "event: bye"},
}

func streamRequest(t *testing.T, method, url, who, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+who)
	return r
}

// Nothing is looked at in between here: what ends the streams is the change.
func TestWhoLosesWhatTheyMayLosesTheirStreamsWithTheChange(t *testing.T) {
	for name, c := range streams {
		for what, f := range map[string]func(*request.Caller){
			"another user":              func(c *request.Caller) { c.User = "x" },
			"no role any more":          func(c *request.Caller) { c.Role = "" },
			"out of a workspace":        func(c *request.Caller) { c.Workspaces = []string{"w2"} },
			"a writer who only reads":   func(c *request.Caller) { c.Role = request.Reader },
			"in a workspace more, only": func(c *request.Caller) { c.Workspaces = []string{"w1", "w2", "w3"} },
		} {
			auth := &changingPeople{table: people()}
			auth.change(wA, func(c *request.Caller) { c.Workspaces = []string{"w1", "w2"} })
			s := newTestServer(t, func(o *Options) {
				o.Auth, o.Limits.Recheck = auth, time.Hour
				o.SignIn = noDoor{}
				open := o.Open
				o.Backend = func(ctx context.Context, p tidemark.Principal) (tidemark.Backend, error) {
					st, err := open(ctx, p)
					if err != nil {
						return nil, err
					}
					return st.Records().Backend(), nil
				}
			})
			session := newSession(t, s, wA, "tides", "hello")
			answer, begun := make(chan string, 1), make(chan struct{})
			ctx, stop := context.WithCancel(t.Context())
			r := c.open(t, s, wA, session).WithContext(ctx)
			go func() {
				res, err := http.DefaultClient.Do(r)
				close(begun)
				if err != nil {
					answer <- err.Error()
					return
				}
				defer res.Body.Close()
				b, _ := io.ReadAll(res.Body)
				answer <- string(b)
			}()
			eventually(t, "it waits", s.access.Waiting)
			if c.changed == "event: bye" {
				<-begun // before, it would be told as an error
			}
			auth.change(wA, f)
			s.access.Changed()
			want := c.changed
			switch what {
			case "another user", "no role any more":
				want = c.denied
			case "in a workspace more, only":
				stop() // it goes on until its reader goes
				if got := <-answer; strings.Contains(got, "bye") || strings.Contains(got, "problem") || strings.Contains(got, "status") {
					t.Errorf("%s, %s: %q", name, what, got)
				}
				continue
			}
			if got := <-answer; !strings.Contains(got, want) {
				t.Errorf("%s, %s: %q, want %s", name, what, got, want)
			}
			stop()
		}
	}
}

func TestACallThatChangesWhoMayDoWhatIsFeltAtOnce(t *testing.T) {
	auth := &changingPeople{table: people()}
	s := newTestServer(t, func(o *Options) { o.Auth, o.Limits.Recheck = auth, time.Hour })
	f := s.follow(t, wA, newSession(t, s, wA, "tides", "hello")+"/entries/stream", "")
	defer f.close()
	eventually(t, "it waits", s.access.Waiting)
	auth.change(wA, func(c *request.Caller) { c.Role = "" })
	s.call(t, "op", "POST", "/api/v1/tenants", `{"name":"new"}`).want(t, 201)
	for {
		name, data := f.event()
		if name == "problem" {
			break
		}
		if data == "" {
			t.Fatal("the stream ended without a word")
		}
	}
	if auth.forgot == 0 {
		t.Error("who somebody was is still remembered")
	}
}
