package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/serve"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// everybody is ada.
type everybody struct{}

func (everybody) Authenticate(*http.Request) (request.Caller, error) {
	return request.Caller{Principal: tidemark.TenantOf("acme", "ada"), Name: "ada", Role: request.Writer}, nil
}

// soon waits for something that has to come.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within minutes", what)
		}
	}
}

// measured is the value of a metric, of all its labels that contain some text.
func measured(stores *serve.Opener, name, labels string) (sum float64) {
	for _, m := range stores.Measure() {
		for _, v := range m.Values {
			if m.Name == name && strings.Contains(v.Labels, labels) {
				sum += v.Value
			}
		}
	}
	return sum
}

// replicatedNodes are two servers on a primary with two replicas.
type replicatedNodes struct {
	t        *testing.T
	made     *pgtest.Database
	replicas []*pgtest.Cluster
	stores   []*serve.Opener
	nodes    []*httptest.Server
}

func newReplicatedNodes(t *testing.T) *replicatedNodes {
	t.Helper()
	primary := pgtest.New(t, pgtest.Options{Durable: true})
	c := &replicatedNodes{t: t, made: primary.Database(t)}
	if err := postgres.Migrate(t.Context(), c.made.Owner, c.made.Role); err != nil {
		t.Fatal(err)
	}
	var urls []string
	for range 2 {
		standby := pgtest.NewStandby(t, primary, false)
		c.replicas, urls = append(c.replicas, standby), append(urls, c.made.At(standby).Server)
	}
	for range 2 {
		stores, err := serve.OpenStores(t.Context(), c.made.Server, false, func(open.Access) *open.Options { return &open.Options{} }, &postgres.Options{Replicas: urls})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stores.Close() })
		h, err := server.New(server.Options{Open: stores.Store, Backend: stores.Backend, Reading: stores.Reading, Acts: stores.Acts, Together: true, Auth: everybody{}, Holder: process.Self("test")})
		if err != nil {
			t.Fatal(err)
		}
		node := httptest.NewServer(h)
		t.Cleanup(node.Close)
		c.stores, c.nodes = append(c.stores, stores), append(c.nodes, node)
		soon(t, "both replicas are ready", func() bool { return measured(stores, "tidemark_replica_state", `"ready"`) == 2 })
	}
	return c
}

// ask makes a request as a program or a browser does, and returns the position of its answer.
func (c *replicatedNodes) ask(client *http.Client, node int, method, path, at, body string, into any) string {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.nodes[node].URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if client == nil {
		client = http.DefaultClient
		r.Header.Set("Authorization", "Bearer any")
	}
	if at != "" {
		r.Header.Set(api.PositionHeader, at)
	}
	res, err := client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 || json.Unmarshal(text, into) != nil {
		c.t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, text, err)
	}
	return res.Header.Get(api.PositionHeader)
}

// readsOwn makes a session at one server, and looks for it in the list of the other.
func (c *replicatedNodes) readsOwn(client *http.Client, when string) {
	c.t.Helper()
	var made struct{ ID string }
	at := c.ask(client, 0, "POST", "/api/v1/sessions", "", `{"title":"low water"}`, &made)
	if _, err := tidemark.ParseCommitPosition(at); err != nil {
		c.t.Errorf("%s: a write is answered with position %q", when, at)
	}
	if client != nil {
		at = "" // its cookie says it
	}
	var list struct{ Items []struct{ ID string } }
	seen := c.ask(client, 1, "GET", "/api/v1/sessions?limit=1", at, "", &list)
	if len(list.Items) != 1 || list.Items[0].ID != made.ID || seen == "" {
		c.t.Errorf("%s: the newest session is %v at %q, want %s of %q", when, list.Items, seen, made.ID, at)
	}
}

func (c *replicatedNodes) answered() float64 {
	return measured(c.stores[0], "tidemark_replica_reads_total", "") + measured(c.stores[1], "tidemark_replica_reads_total", "")
}

func TestServersReadFromReplicasWhatTheirCallersWroteElsewhere(t *testing.T) {
	t.Parallel()
	c := newReplicatedNodes(t)
	soon(t, "replicas answer programs", func() bool {
		c.readsOwn(nil, "a program")
		return c.answered() > 30
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	// Both servers are on one host, and a cookie does not mind the port.
	browser, before := &http.Client{Jar: jar}, c.answered()
	soon(t, "replicas answer browsers", func() bool {
		c.readsOwn(browser, "a browser")
		return c.answered() > before+30
	})
	before = c.answered()
	var list struct{ Items []struct{ ID string } }
	if at := c.ask(nil, 1, "GET", "/api/v1/sessions?limit=1", "", "", &list); at == "" || c.answered() != before {
		t.Errorf("without a position: answered with %q, by a replica %v", at, c.answered() != before)
	}
	for _, wrong := range []string{"nonsense", "9-FFFFFFFF/FFFFFFFF", "1-FFFFFFFF/0"} {
		if at := c.ask(nil, 1, "GET", "/api/v1/sessions?limit=1", wrong, "", &list); at == "" || at == wrong || c.answered() != before {
			t.Errorf("with position %s: answered with %q, by a replica %v", wrong, at, c.answered() != before)
		}
	}
	soon(t, "a replica answers who takes anything", func() bool {
		c.ask(nil, 1, "GET", "/api/v1/sessions?limit=1", api.AnyPosition, "", &list)
		return c.answered() > before
	})
	t.Run("a client of both servers", c.goClient)

	if err := errors.Join(c.replicas[0].HoldReplay(), c.replicas[1].Suspend()); err != nil {
		t.Fatal(err)
	}
	defer c.replicas[1].Resume()
	for range 10 {
		c.readsOwn(nil, "with a replica that lags and one that hangs")
		c.readsOwn(browser, "with a replica that lags and one that hangs")
	}
	for _, state := range []string{"behind", "away"} {
		soon(t, "a replica is "+state, func() bool {
			c.readsOwn(nil, "until it is "+state)
			return measured(c.stores[1], "tidemark_replica_state", `"`+state+`"`) == 1
		})
	}
	if lag := measured(c.stores[1], "tidemark_replica_lag_seconds", ""); lag <= 5 {
		t.Errorf("a replica is behind by %v s", lag)
	}
}

// goClient has the client of Go programs write and read by way of a proxy that asks one server after
// the other.
func (c *replicatedNodes) goClient(t *testing.T) {
	var turn atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		to, err := url.Parse(c.nodes[turn.Add(1)%2].URL)
		if err != nil {
			t.Error(err)
		}
		p.SetURL(to)
	}})
	defer proxy.Close()
	b, err := remote.Open(t.Context(), proxy.URL, &remote.Options{Token: func(context.Context) (string, error) { return "any", nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	st, before := store.New(b, nil), c.answered()
	w := st.Create(tidemark.Session{}, process.Self("test"))
	n := int64(0)
	soon(t, "replicas answer the client", func() bool {
		n++
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "count the gulls")); err != nil {
			t.Fatal(err)
		}
		if r, err := b.Get(t.Context(), tidemark.Key{Kind: "session", ID: string(w.ID())}); err != nil || r.Head.Length != n {
			t.Errorf("%d entries are read of %d: %v", r.Head.Length, n, err)
		}
		return c.answered() > before+20
	})
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestReplicasAreSetWithThePasswordOfTheStore(t *testing.T) {
	t.Parallel()
	dir := written(t, map[string]string{"serve.yaml": "store: postgres://server@db1/tides\nreplica: [\"postgres://server@db2,db3/tides\", \"postgres://server@db4/tides\"]\ndatabase_password_file: secret\n", "secret": "low water\n",
		"wrong.yaml": "store: postgres://server@db1/tides\nreplica:\n  - postgres://server:secret@db2/tides\n", "plain.yaml": "replica: [\"postgres://server@db2/tides\"]\n", "other.yaml": "store: postgres://server@db1/tides\nreplica: sqlite:x\n"})
	c := serve.Default()
	from := serve.Sources{File: filepath.Join(dir, "serve.yaml"), Store: "memory:", StoreOrigin: "test", Flag: noFlags}
	if err := c.Complete(from); err != nil {
		t.Fatal(err)
	}
	if want := []string{"postgres://server:low%20water@db2,db3/tides", "postgres://server:low%20water@db4/tides"}; len(c.Replicas) != 2 || c.Replicas[0] != want[0] || c.Replicas[1] != want[1] {
		t.Errorf("replicas are %q, want %q", c.Replicas, want)
	}
	if shown := setting(t, c, "replica").Shown(); strings.Contains(shown, "water") || !strings.Contains(shown, "db3") {
		t.Errorf("shown as %q", shown)
	}
	for name, want := range map[string]string{"wrong.yaml": "password does not belong", "plain.yaml": "the store is no database", "other.yaml": "want postgres://"} {
		from.File = filepath.Join(dir, name)
		if err := serve.Default().Complete(from); !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestACheckSaysWhatIsAReplica(t *testing.T) {
	t.Parallel()
	primary := pgtest.New(t, pgtest.Options{Durable: true})
	made := primary.Database(t)
	if err := postgres.Migrate(t.Context(), made.Owner, made.Role); err != nil {
		t.Fatal(err)
	}
	there := made.At(pgtest.NewStandby(t, primary, false))
	is, err := serve.CheckDatabase(t.Context(), made.Server, there.Server)
	if err != nil || len(is.Replicas) != 1 || is.Replicas[0].Place != there.Server || !strings.Contains(is.String(), "is a replica of it") {
		t.Errorf("CheckDatabase with a replica = %+v, %v", is, err)
	}
	for wrong, want := range map[string]error{made.Server: tidemark.ErrInvalid, there.Super: tidemark.ErrDenied, "postgres://nobody@127.0.0.1:1/none?connect_timeout=1": postgres.ErrUnavailable} {
		if _, err := serve.CheckDatabase(t.Context(), made.Server, wrong); !errors.Is(err, want) {
			t.Errorf("CheckDatabase with %s = %v, want %v", wrong, err, want)
		}
	}
}
