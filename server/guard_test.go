package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestNobodyUnknownGetsIn(t *testing.T) {
	s := newTestServer(t)
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer x", "Basic d3JpdGVyLWE6", "bearer writer-a extra"} {
		a := s.call(t, "", "GET", "/api/v1/sessions", nil, "Authorization: "+header)
		if p := a.want(t, 401).problem(t); strings.Contains(p.Detail, "x") && strings.Contains(p.Detail, "writer") {
			t.Errorf("%q: the answer repeats the token: %s", header, a.Body)
		}
		if a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: no WWW-Authenticate", header)
		}
	}
	s.call(t, "", "GET", "/healthz", nil).want(t, 200)
	s.call(t, "", "GET", "/openapi.json", nil).want(t, 200)
	s.call(t, "", "GET", "/metrics", nil).want(t, 401)
	s.call(t, "admin-a", "GET", "/metrics", nil).want(t, 403)
}

func TestTheOperatorSeesWhatIsCounted(t *testing.T) {
	s := newTestServer(t, func(o *Options) {
		o.Limits.User.Burst, o.Limits.User.Rate = 2, 0.001
		o.Measure = func() []Measure {
			return []Measure{{Name: "tidemark_sea", Kind: "gauge", Help: "How it is.", Values: []Value{{`{state="calm"}`, 7}}}}
		}
	})
	for range 3 {
		s.call(t, "reader-a", "GET", "/api/v1/nothing", nil).problem(t)
	}
	a := s.call(t, "op", "GET", "/metrics", nil).want(t, 200)
	if !strings.Contains(string(a.Body), `tidemark_http_requests_total{method="GET",route="/api/",status="404"} 2`) {
		t.Errorf("not counted:\n%s", a.Body)
	}
	for _, want := range []string{`tidemark_limited_total{limit="requests"} 1`, `tidemark_limited_total{limit="streams"} 0`, `tidemark_sea{state="calm"} 7`,
		"# TYPE go_goroutines gauge", "\ngo_memstats_heap_alloc_bytes ", "\nprocess_start_time_seconds "} {
		if !strings.Contains(string(a.Body), want) {
			t.Errorf("%s is not in\n%s", want, a.Body)
		}
	}
}

func TestAnotherNameAndAnotherOriginAreRefused(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.Hosts = []string{"tides.example"} })
	for host, want := range map[string]int{"evil.example": 421, "127.0.0.1.evil.example": 421, "tides.example": 404, "localhost:1": 404, "[::1]:80": 404} {
		r, _ := http.NewRequest("GET", s.URL+"/api/v1/nothing", nil)
		r.Host = host
		r.Header.Set("Authorization", "Bearer writer-a")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("host %s: status %d, want %d", host, res.StatusCode, want)
		}
	}
	for _, header := range []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"} {
		a := s.call(t, "writer-a", "POST", "/api/v1/sessions", "{}", header)
		a.want(t, 403).problem(t)
	}
}

func TestATenantHasItsLimitsAndTheOthersGoOn(t *testing.T) {
	s := newTestServer(t, func(o *Options) {
		o.Limits = request.Limits{Rate: 0.001, Burst: 3, Body: 1000}
		o.Limits.User.Burst = 3
	})
	for left := range 3 {
		h := s.call(t, "writer-a", "GET", "/api/v1/nothing", nil).want(t, 404).Header
		if h.Get("RateLimit-Limit") != "3" || h.Get("RateLimit-Remaining") != strconv.Itoa(2-left) {
			t.Errorf("%s of %s are left, want %d of 3", h.Get("RateLimit-Remaining"), h.Get("RateLimit-Limit"), 2-left)
		}
	}
	a := s.call(t, "reader-a", "GET", "/api/v1/nothing", nil).want(t, 429)
	if a.problem(t); a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	s.call(t, "writer-b", "GET", "/api/v1/nothing", nil).want(t, 404)
	large := strings.Repeat("x", 5000)
	s.call(t, "writer-b", "POST", "/api/v1/sessions", `{"title":"`+large+`"}`).want(t, 413).problem(t)
	unsized := io.MultiReader(strings.NewReader(`{"title":"`), strings.NewReader(large)) // sent in chunks
	s.call(t, "writer-b", "POST", "/api/v1/sessions", unsized).want(t, 413).problem(t)
}

func TestTheLogHasTheCallerAndNothingOfTheContent(t *testing.T) {
	var buf bytes.Buffer
	s := newTestServer(t, func(o *Options) { o.Log = slog.New(slog.NewJSONHandler(&buf, nil)) })
	s.call(t, "writer-a", "POST", "/api/v1/sessions?secret=mango", `{"title":"papaya"}`, "X-Request-Id: my-id-1")
	s.HTTP.Close() // waits for the request to be over
	if strings.Contains(buf.String(), "mango") || strings.Contains(buf.String(), "papaya") {
		t.Errorf("content in the log: %s", &buf)
	}
	var line struct{ ID, Tenant, Method string }
	if err := json.Unmarshal(buf.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line.ID != "my-id-1" || line.Tenant != people()["writer-a"].Tenant || line.Method != "POST" {
		t.Errorf("log line %s", &buf)
	}
}

func TestReadinessFollowsTheStoreAndADrainEndsIt(t *testing.T) {
	var trouble error
	s := newTestServer(t, func(o *Options) { o.Ready = func(context.Context) error { return trouble } })
	s.call(t, "", "GET", "/readyz", nil).want(t, 200)
	trouble = errors.New("no route to 10.0.0.7")
	a := s.call(t, "", "GET", "/readyz", nil).want(t, 503)
	if strings.Contains(string(a.Body), "10.0.0.7") {
		t.Errorf("tells of the inside: %s", a.Body)
	}
	trouble = nil
	s.Drain()
	s.Drain()
	s.call(t, "", "GET", "/readyz", nil).want(t, 503)
	s.call(t, "", "GET", "/healthz", nil).want(t, 200)
}

func TestAStoreThatIsAwayIsNobodysFault(t *testing.T) {
	s := newTestServer(t, func(o *Options) {
		o.Open = func(context.Context, tidemark.Principal) (*store.Store, error) {
			return nil, tidemark.Storagef("dial 10.0.0.7: refused")
		}
	})
	a := s.call(t, "reader-a", "GET", "/api/v1/sessions", nil)
	if a.Status < 500 || strings.Contains(string(a.Body), "10.0.0.7") {
		t.Errorf("status %d: %s", a.Status, a.Body)
	}
	a.problem(t)
}

func TestARoleMayWhatTheRolesBeforeItMay(t *testing.T) {
	for i, r := range request.Roles {
		for j, want := range request.Roles {
			if r.May(want) != (i >= j) {
				t.Errorf("%s may %s: %v", r, want, r.May(want))
			}
		}
	}
	if request.Role("").May(request.Reader) || request.Role("x").May("y") || request.Admin.May("x") {
		t.Error("a role that is none may something")
	}
}
