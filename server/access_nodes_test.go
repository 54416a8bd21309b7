package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/auth/authtest"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// Two servers stand on one database: a change is made at one of them, and felt
// by what is open at the other, which is not told.

// node is one of the servers, as tidemark serve makes it but for its clocks.
type node struct {
	*testServer
	users  *tenant.Directory
	issuer string
	in     *auth.OIDCSignIn
	ahead  atomic.Int64  // how far its clock goes ahead, for what expires
	busy   chan struct{} // gets something when an export or a tool began
}

func newNode(t *testing.T, db *postgres.Database, issuer string) *node {
	t.Helper()
	n := &node{issuer: issuer, busy: make(chan struct{}, 10)}
	now := func() time.Time { return time.Now().Add(time.Duration(n.ahead.Load())) }
	operator := store.New(db.For(tidemark.Operator()), &store.Options{Now: now})
	n.users = tenant.NewDirectory(operator.Records())
	const soon = 20 * time.Millisecond // of the seconds that it is in a server
	tokens := auth.ServiceTokens(n.users)
	tokens.Fresh = soon
	known, err := auth.OIDC(t.Context(), auth.OIDCOptions{Issuer: issuer, Audience: authtest.OurAudience, ClientID: "pages", ClientSecret: "hush", Users: n.users, Fresh: soon, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if n.in, err = auth.SignInWith(auth.OIDCSignInOptions{Issuers: auth.NewIssuers(known), Users: n.users, Key: cookieKey, Fresh: soon, Now: now}); err != nil {
		t.Fatal(err)
	}
	h := &parrots{}
	n.testServer = newTestServer(t, func(o *Options) {
		o.Auth, o.SignIn, o.Chat, o.Limits.Recheck = auth.Any(tokens, n.in), n.in, h.chat, soon
		o.Open = func(_ context.Context, p tidemark.Principal) (*store.Store, error) {
			if p.Tenant == tidemark.Operator().Tenant {
				return operator, nil
			}
			return store.New(db.For(p), nil), nil
		}
		o.Backend = func(_ context.Context, p tidemark.Principal) (tidemark.Backend, error) { return db.For(p), nil }
		o.Formats = []string{"slow"}
		o.Export = func(ctx context.Context, _ *store.Store, _ store.Point, _ string) (string, func(io.Writer) error, error) {
			return "text/plain", func(io.Writer) error {
				n.busy <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}, nil
		}
		o.MCP = func(routes.MCP) http.Handler {
			return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				n.busy <- struct{}{}
				<-r.Context().Done()
			})
		}
	})
	return n
}

// pair is the two servers with a tenant: ada shares a session with a workspace
// that bob is in, and bob has one of his own.
type pair struct {
	here, there          *node
	org, room, ada, bob  string
	shared, own          string // sessions, as links have them
	adminToken, adaToken string
	bobToken, bobTokenID string
	bobCookie            string
}

func newPair(t *testing.T, db *postgres.Database, here, there *node, name string) *pair {
	t.Helper()
	ctx, users := t.Context(), here.users
	p := &pair{here: here, there: there}
	org := must[tenant.Tenant](t)(users.CreateTenant(ctx, tenant.Tenant{Name: name}))
	room := must[tenant.Workspace](t)(users.CreateWorkspace(ctx, org.ID, "room"))
	p.org, p.room = org.ID, room.ID
	token := func(user, role string) (id, text string) {
		k, text, err := users.CreateToken(ctx, tenant.Token{Tenant: p.org, User: user, Name: "t", Role: role, ExpiresAt: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return k.ID, text
	}
	for who, id := range map[string]*string{"ada": &p.ada, "bob": &p.bob} {
		u, _, err := users.UpsertUser(ctx, tenant.Claims{Tenant: org, Issuer: here.issuer, Subject: who, Name: who, Role: tenant.RoleWriter})
		if err != nil {
			t.Fatal(err)
		}
		*id = u.ID
		must[tenant.User](t)(users.Join(ctx, p.org, p.room, u.ID, true))
		st := store.New(db.For(tidemark.Principal{Tenant: p.org, User: u.ID}), nil)
		w := st.Create(tidemark.Session{Title: "of " + who}, process.Self(who))
		must[[]int64](t)(w.Append(ctx, sayMarked("user", "before the change")))
		if err := w.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if p.own = string(w.ID()); who == "ada" {
			p.shared = tidemark.SessionName(p.ada, w.ID())
		}
	}
	for i, err := range store.New(db.For(tidemark.Principal{Tenant: p.org, User: p.bob}), nil).Sessions(ctx, store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		p.own = string(i.ID)
	}
	_, p.adminToken = token("", tenant.RoleAdmin)
	_, p.adaToken = token(p.ada, tenant.RoleWriter)
	p.bobTokenID, p.bobToken = token(p.bob, tenant.RoleWriter)
	p.bobCookie = authtest.Cookie(cookieKey, "tidemark-user", map[string]any{"tenant": p.org, "user": p.bob, "until": time.Now().Add(time.Hour), "nonce": name})
	p.share(t, `{"with":"workspace","workspace":"`+p.room+`"}`)
	return p
}

func (p *pair) share(t *testing.T, with string) {
	t.Helper()
	_, id := tidemark.CutOwner(p.shared)
	p.here.call(t, p.adaToken, "PUT", request.SessionsPath+"/"+id+"/share", with).want(t, 200)
}

// openAnswers are the answers that stay open, as bob asks for them.
var openAnswers = map[string]func(*testing.T, *pair) *http.Request{
	"followed entries": func(t *testing.T, p *pair) *http.Request {
		return streamRequest(t, "GET", p.there.URL+request.SessionsPath+"/"+p.shared+"/entries/stream", p.bobToken, "")
	},
	"the page of a session": func(t *testing.T, p *pair) *http.Request {
		r := streamRequest(t, "GET", p.there.URL+"/sessions/"+p.shared+"/live", "", "")
		r.Header.Del("Authorization")
		r.AddCookie(&http.Cookie{Name: "tidemark-user", Value: p.bobCookie})
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		return r
	},
	"a long poll": func(t *testing.T, p *pair) *http.Request {
		owner, id := tidemark.CutOwner(p.shared)
		r := streamRequest(t, "POST", p.there.URL+"/api/v1/backend/wait?owner="+owner, p.bobToken, `{"kind":"session","id":"`+id+`","after":1}`)
		r.Header.Set("Content-Type", api.MediaJSON)
		return r
	},
	"a tool of MCP": func(t *testing.T, p *pair) *http.Request {
		return streamRequest(t, "POST", p.there.URL+request.MCPPath, p.bobToken, "{}")
	},
	"a long export": func(t *testing.T, p *pair) *http.Request {
		return streamRequest(t, "GET", p.there.URL+request.SessionsPath+"/"+p.shared+"/export?format=slow", p.bobToken, "")
	},
}

// accessEnds are why bob may not go on, each done at the other server.
var accessEnds = map[string]func(*testing.T, *pair){
	"out of the workspace": func(t *testing.T, p *pair) {
		p.here.call(t, p.adminToken, "DELETE", "/api/v1/workspaces/"+p.room+"/members/"+p.bob, nil).want(t, 200)
	},
	"user suspended": func(t *testing.T, p *pair) {
		p.here.call(t, p.adminToken, "PATCH", "/api/v1/users/"+p.bob, `{"state":"suspended"}`).want(t, 200)
	},
	"tenant suspended": func(t *testing.T, p *pair) {
		must[tenant.Tenant](t)(p.here.users.SetTenantState(t.Context(), p.org, tenant.Suspended))
	},
	"role lowered": func(t *testing.T, p *pair) {
		p.here.call(t, p.adminToken, "PATCH", "/api/v1/users/"+p.bob, `{"role":"reader"}`).want(t, 200)
	},
	"token revoked": func(t *testing.T, p *pair) {
		p.here.call(t, p.adminToken, "DELETE", "/api/v1/tokens/"+p.bobTokenID, nil).want(t, 200)
	},
	"token expired": func(_ *testing.T, p *pair) { p.there.ahead.Store(int64(2 * time.Hour)) },
	"signed out": func(t *testing.T, p *pair) {
		r := streamRequest(t, "POST", p.here.URL+"/signout", "", "")
		r.Header.Del("Authorization")
		r.AddCookie(&http.Cookie{Name: "tidemark-user", Value: p.bobCookie})
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || res.StatusCode != http.StatusSeeOther {
			t.Fatalf("signing out: %v, %v", res, err)
		}
		res.Body.Close()
	},
	"session unshared": func(t *testing.T, p *pair) { p.share(t, `{"with":"private"}`) },
	"session trashed": func(t *testing.T, p *pair) {
		_, id := tidemark.CutOwner(p.shared)
		p.here.call(t, p.adaToken, "DELETE", request.SessionsPath+"/"+id, nil).want(t, 200)
	},
}

// concerns reports whether a cause ends an answer: whoever has a cookie needs
// no token, and what is not about a session does not end with it.
func concerns(cause, stream string) bool {
	cookie := stream == "the page of a session"
	switch cause {
	case "token revoked":
		return !cookie
	case "signed out":
		return cookie
	case "session unshared", "session trashed":
		return stream == "followed entries" || cookie
	}
	return true
}

func TestWhoMayNotGoOnLosesWhatIsOpenAtEveryServer(t *testing.T) {
	made, house := newDatabase(t), authtest.NewIssuer(t)
	here, there := connectTo(t, made, nil), connectTo(t, made, nil)
	one := newNode(t, here, house.URL)
	n := 0
	for cause, change := range accessEnds {
		for stream, open := range openAnswers {
			if !concerns(cause, stream) {
				continue
			}
			n++
			t.Run(cause+", "+stream, func(t *testing.T) {
				p := newPair(t, here, one, newNode(t, there, house.URL), fmt.Sprint("tenant-", n))
				ended := make(chan string, 1)
				begun := make(chan struct{})
				go func() {
					res, err := http.DefaultTransport.RoundTrip(open(t, p))
					close(begun)
					if err != nil {
						ended <- err.Error()
						return
					}
					defer res.Body.Close()
					text, _ := io.ReadAll(res.Body)
					ended <- fmt.Sprint(res.StatusCode, " ", string(text))
				}()
				switch stream {
				case "a long poll": // it answers at its end
					eventually(t, "it waits", func() bool {
						return p.there.access.Waiting()
					})
				case "a long export", "a tool of MCP":
					<-p.there.busy
				default:
					<-begun
				}
				select {
				case early := <-ended:
					t.Fatalf("it ended before the change: %s", early)
				default:
				}
				change(t, p)
				got := <-ended
				if strings.HasPrefix(got, "404") || strings.Contains(got, `"longer":true`) {
					t.Errorf("it was no stream, or told something: %s", got)
				}
			})
		}
	}
}

func TestAConversationEndsAtEveryServerWithTheRightToHaveIt(t *testing.T) {
	made, house := newDatabase(t), authtest.NewIssuer(t)
	here, there := connectTo(t, made, nil), connectTo(t, made, nil)
	one := newNode(t, here, house.URL)
	for i, cause := range []string{"out of the workspace", "user suspended", "tenant suspended", "role lowered", "token revoked", "token expired"} {
		p := newPair(t, here, one, newNode(t, there, house.URL), fmt.Sprint("tenant-", i))
		c := connect(t, p.there.testServer, p.bobToken)
		c.say(api.SocketRequest{Type: api.SocketAttach, Session: p.own})
		c.until(api.SocketAttached)
		accessEnds[cause](t, p)
		if got := c.code(); got != websocket.StatusPolicyViolation && got != websocket.StatusServiceRestart {
			t.Errorf("%s: the connection ended with %v", cause, got)
		}
	}
}
