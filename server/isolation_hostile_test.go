package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// raw sends bytes as they are and returns all that comes back until the server
// closes the connection.
func raw(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	var cut *net.OpError
	if err != nil && (!errors.As(err, &cut) || cut.Timeout()) {
		t.Errorf("the connection stays open: %v, after %q", err, got)
	}
	return string(got)
}

func TestABodyThatDoesNotArriveEndsItsConnection(t *testing.T) {
	s := newTestServer(t, func(o *Options) {
		o.Limits.BodyTimeout = 200 * time.Millisecond
		open := o.Open
		o.Backend = func(ctx context.Context, p tidemark.Principal) (tidemark.Backend, error) {
			st, err := open(ctx, p)
			if err != nil {
				return nil, err
			}
			return st.Records().Backend(), nil
		}
	})
	path := newSession(t, s, wA, "tides", "hello")
	for _, c := range []struct{ who, method, path, media, status string }{
		{wA, "POST", "/api/v1/memory", "application/json", "408"},
		{"admin-a", "POST", "/api/v1/tokens", "application/json", "408"},
		{wA, "POST", path + "/entries", "application/json", "408"},
		{wA, "PUT", path + "/files/x", "application/octet-stream", "408"},
		{wA, "POST", "/api/v1/backend/get", "application/json", ""},
		{wA, "POST", "/tenant/api/v1/backend/get", "application/json", ""},
		{"made-up", "POST", "/api/v1/memory", "application/json", "401"},
	} {
		for _, length := range []string{"Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"} {
			got := raw(t, s.URL, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\n%s", c.method, c.path, c.who, c.media, length))
			if !strings.HasPrefix(got, "HTTP/1.1 "+c.status) || !strings.Contains(got, "application/problem+json") {
				t.Errorf("%s %s as %s: %.300s; want %s", c.method, c.path, c.who, got, c.status)
			}
		}
	}
}

// What two who stand in a row could read in two ways is refused.
func TestARequestThatCouldBeTwoIsRefused(t *testing.T) {
	s := newTestServer(t)
	const head = "POST /api/v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer writer-a\r\nContent-Type: application/json\r\n"
	const second = "GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer writer-b\r\nConnection: close\r\n\r\n"
	for name, text := range map[string]string{
		"two lengths":                head + "Content-Length: 2\r\nContent-Length: 200\r\n\r\n{}" + second,
		"a length that is none":      head + "Content-Length: +2\r\n\r\n{}" + second,
		"an encoding that is none":   head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + second,
		"an encoding twice":          head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + second,
		"a chunk that is no number":  head + "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n" + second,
		"a space before the colon":   head + "Content-Length : 2\r\n\r\n{}" + second,
		"a folded header":            head + "X-A: b\r\n Content-Length: 5\r\nContent-Length : 0\r\n\r\n" + second,
		"a host twice":               head + "Host: elsewhere\r\nContent-Length: 2\r\n\r\n{}" + second,
		"a null in a header":         head + "X-A: b\x00c\r\nContent-Length: 2\r\n\r\n{}" + second,
		"a carriage return alone":    head + "X-A: b\rX-B: c\r\nContent-Length: 2\r\n\r\n{}" + second,
		"a method with a line in it": "GE\nT /api/v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n" + second,
	} {
		got := raw(t, s.URL, text)
		if !strings.HasPrefix(got, "HTTP/1.1 400") && !strings.HasPrefix(got, "HTTP/1.1 501") || strings.Count(got, "HTTP/1.1") > 1 || strings.Contains(got, "writer-b") || strings.Contains(got, " 200 OK") {
			t.Errorf("%s: %.300s", name, got)
		}
	}
}

func TestNoNameMakesABodyLarger(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.Limits.Body = 1 << 10 })
	withAgent(t, s)
	large := `{"prompt":"` + strings.Repeat("x", 4<<10) + `"}`
	for _, path := range []string{"/api/v1/agents/files/run", "/api/v1/agents/a%2Ffiles%2Fb/run", "/api/v1/jobs/x/reviews/a%2Ffiles%2Fb", "/api/v1/sessions/a%2Ffiles%2Fb/entries", "/api/v1/memory?x=/files/"} {
		s.call(t, wA, "POST", path, large).want(t, http.StatusRequestEntityTooLarge).problem(t)
		s.call(t, wA, "POST", path, io.MultiReader(strings.NewReader(large))).want(t, http.StatusRequestEntityTooLarge).problem(t) // in chunks
	}
	path := newSession(t, s, wA, "tides", "hello")
	s.call(t, wA, "PUT", path+"/files/large", large).want(t, 200)
}

func TestMadeUpMethodsAreCountedTogether(t *testing.T) {
	s := newTestServer(t)
	for n := range 20 {
		s.call(t, "", fmt.Sprintf("BREW%d", n), "/api/v1/me", nil).want(t, 401)
		s.call(t, wA, fmt.Sprintf("BREW%d", n), "/api/v1/me", nil).problem(t)
		s.call(t, "", "GET", fmt.Sprintf("/api/v1/made-up-%d", n), nil).want(t, 401)
	}
	got := string(s.call(t, "op", "GET", "/metrics", nil).want(t, 200).Body)
	if strings.Contains(got, "BREW") || strings.Contains(got, "made-up") || !strings.Contains(got, `method="other"`) {
		t.Errorf("counted as they came: %s", got)
	}
}

func TestNoNameKeepsAChangeOutOfTheAuditLog(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "hello")
	s.call(t, wA, "PUT", path+"/files/a%2Fexport", "x").want(t, 200)
	s.call(t, wA, "PUT", path+"/files/search", "x").want(t, 200)
	s.call(t, wA, "PUT", "/api/v1/datasets/export", `{}`).want(t, 201)
	if err := s.stores.FlushAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	users, err := s.stores.Operators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var things []string
	for l, err := range users.AuditLines(t.Context(), tidemark.TenantOf("a", "").Tenant, tidemark.Span{From: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		things = append(things, l.Thing)
	}
	for _, want := range []string{path + "/files/a/export", path + "/files/search", "/api/v1/datasets/export"} {
		if !slices.Contains(things, want) {
			t.Errorf("%s is not in the audit log: %q", want, things)
		}
	}
}

// fickle lets in who is on the list now.
type fickle struct {
	mu  sync.Mutex
	out bool
	table
}

func (f *fickle) Authenticate(r *http.Request) (request.Caller, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out {
		return request.Caller{}, tidemark.ErrDenied
	}
	return f.table.Authenticate(r)
}

func TestAStreamEndsWithTheTokenItWasBegunWith(t *testing.T) {
	auth := &fickle{table: people()}
	s := newTestServer(t, func(o *Options) { o.Auth, o.Limits.Recheck = auth, 5*time.Millisecond })
	path := newSession(t, s, wA, "tides", "hello")
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path+"/entries/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+wA)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewScanner(res.Body)
	for in.Scan() && !strings.HasPrefix(in.Text(), "id: 1") {
	}
	auth.mu.Lock()
	auth.out = true
	auth.mu.Unlock()
	var rest []string
	for in.Scan() {
		rest = append(rest, in.Text())
	}
	if !slices.Contains(rest, "event: problem") || !strings.Contains(strings.Join(rest, "\n"), `"status":401`) {
		t.Errorf("ended with %q", rest)
	}
}

// bombs are bodies that are more than they seem.
func bombs() map[string]string {
	return map[string]string{
		"deep arrays":      `{"title":` + strings.Repeat("[", 20_000),
		"deep objects":     strings.Repeat(`{"a":`, 20_000),
		"closed arrays":    `{"extra":` + strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000) + `}`,
		"a huge number":    `{"seq":1` + strings.Repeat("0", 100_000) + `,"parent":1e999999,"entries":[{"parent":1e400}]}`,
		"a long exponent":  `{"seq":1e` + strings.Repeat("9", 1000) + `}`,
		"one key often":    `{` + strings.Repeat(`"title":"x",`, 5_000) + `"title":"y"}`,
		"many keys":        manyKeys(5_000),
		"no UTF-8":         "{\"title\":\"\xff\xfe\xfd\"}",
		"half a surrogate": `{"title":"\ud800"}`,
		"a null":           "{\"title\":\"a\\u0000b\"}",
		"XML":              `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY y SYSTEM "file:///etc/passwd">]><x>&y;</x>`,
		"nothing at all":   "",
		"spaces":           strings.Repeat(" ", 100_000),
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	b.WriteString("{")
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	b.WriteString(`"z":1}`)
	return b.String()
}

func TestBombsAreRefusedByEveryRoute(t *testing.T) {
	w := newWorld(t, nil)
	s := serverOf(t, w)
	g := newMatrix(t, w, s, 9)
	before := w.digest(t)
	who := w.callers[slices.IndexFunc(w.callers, func(c somebody) bool { return c.name == "jo as admin" })]
	for _, r := range g.routes {
		if r.body == nil && (r.call == "" || r.call == "wait") {
			continue
		}
		for name, bomb := range bombs() {
			for _, media := range []string{"application/json", "text/plain", "application/xml", "multipart/form-data; boundary=x", "application/json; charset=utf-16", ""} {
				if media != "application/json" && name != "XML" {
					continue
				}
				p := g.probe(route{method: r.method, path: r.path}, ownID, "empty", who)
				p.method, p.media, p.body, p.header = r.method, media, []byte(bomb), nil
				a, err := probed(s, p)
				if err != nil {
					t.Fatal(err)
				}
				if a.Status >= 500 && a.Status != http.StatusNotImplemented || a.Status >= 400 && a.Header.Get("Content-Type") != "application/problem+json" {
					t.Errorf("%s %s with %s as %q: %d %.300s", r.method, r.path, name, media, a.Status, a.Body)
				}
				if len(a.Body) > 64<<10 {
					t.Errorf("%s %s with %s: an answer of %d bytes", r.method, r.path, name, len(a.Body))
				}
			}
		}
	}
	if w.digest(t) != before {
		t.Error("something of somebody else was changed")
	}
}

func TestPackedBombsDoNotUnfold(t *testing.T) {
	w := newWorld(t, nil)
	s := serverOf(t, w)
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := bytes.Repeat([]byte(" "), 1<<20)
	for range 200 {
		z.Write(zeros)
	}
	z.Close()
	for _, target := range []string{"/api/v1/backend/get", "/api/v1/backend/commit", "/api/v1/sessions", "/api/v1/memory", "/api/v1/datasets"} {
		media := map[bool]string{true: api.MediaLines, false: "application/json"}[strings.HasSuffix(target, "commit")]
		p := probe{route: route{method: "POST"}, who: w.callers[4], target: target, media: media, body: bomb.Bytes(), header: map[string]string{"Content-Encoding": "gzip"}}
		a, err := probed(s, p)
		if err != nil {
			t.Fatal(err)
		}
		if a.Status < 400 || a.Status >= 500 {
			t.Errorf("%s: %d %.200s", target, a.Status, a.Body)
		}
		a.problem(t)
	}
}

func TestTenThousandParametersAreAnsweredOrRefused(t *testing.T) {
	s := newTestServer(t)
	q := url.Values{}
	for n := range 10_000 {
		q.Add("limit", fmt.Sprint(n))
		q.Add(fmt.Sprintf("p%d", n), "x")
	}
	for _, path := range []string{"/api/v1/sessions", "/api/v1/jobs", "/api/v1/search", "/api/v1/audit"} {
		if got := s.call(t, "admin-a", "GET", path+"?"+q.Encode(), nil); got.Status >= 500 || len(got.Body) > 64<<10 {
			t.Errorf("%s: %d, %d bytes", path, got.Status, len(got.Body))
		}
	}
}

func TestNothingThatIsSentBecomesAHeader(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "hello")
	evil := "x%0d%0aSet-Cookie:%20a=b%0d%0a%0d%0a<script>"
	for _, target := range []string{path + "/files/" + evil, "/api/v1/" + evil, "/api/v1/sessions/" + evil, "/api/v1/export?format=" + evil, "/" + evil} {
		for _, method := range []string{"GET", "PUT", "POST"} {
			got := s.call(t, wA, method, target, "x", "X-Request-Id: a b", "X-HTTP-Method-Override: DELETE")
			if got.Header.Get("Set-Cookie") != "" || got.Header.Get("X-Content-Type-Options") != "nosniff" || strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
				t.Errorf("%s %s: %v", method, target, got.Header)
			}
		}
	}
	s.call(t, wA, "GET", path, nil).want(t, 200) // no override deleted it
	for _, name := range []string{`a"; filename="evil.html`, "a\tb", "ä.html"} {
		got := s.call(t, wA, "PUT", path+"/files/"+url.PathEscape(name), "x")
		if got.Status != 200 {
			continue
		}
		if head := s.call(t, wA, "GET", path+"/files/"+url.PathEscape(name), nil).want(t, 200).Header.Get("Content-Disposition"); !strings.HasPrefix(head, "attachment") {
			t.Errorf("%q: %s", name, head)
		}
	}
}

func TestAProblemNamesItsRequest(t *testing.T) {
	s := newTestServer(t)
	for _, c := range [][3]string{{"", "GET", "/api/v1/me"}, {wA, "GET", "/api/v1/sessions/" + absent}, {"reader-a", "POST", "/api/v1/sessions"}, {wA, "GET", "/api/v1/none"}, {wA, "GET", "/api/v1/sessions?limit=x"}, {wA, "POST", "/api/v1/memory"}} {
		if got := s.call(t, c[0], c[1], c[2], nil, "X-Request-Id: mine"); got.problem(t).Instance != "mine" {
			t.Errorf("%v: %s", c, got.Body)
		}
	}
}
