package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/wire"
)

// The matrix: every route of the description, every call of a Backend and
// every page, with every kind of id, by everybody, with bodies that are good,
// empty or name what is others'. What is judged is in judge.

// route is one thing that can be asked for.
type route struct {
	method, path string
	need         request.Role // "": its handler decides
	body         *huma.Schema
	raw          bool // the body is no JSON
	query        []*huma.Param
	call         string // of a Backend
}

func (r route) String() string { return r.method + " " + r.path }

// operations are what a path of the description has, by method.
func operations(i *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{"GET": i.Get, "PUT": i.Put, "POST": i.Post, "DELETE": i.Delete, "PATCH": i.Patch, "HEAD": i.Head, "OPTIONS": i.Options, "TRACE": i.Trace}
	maps.DeleteFunc(all, func(_ string, o *huma.Operation) bool { return o == nil })
	return all
}

// routesOf are all that a server answers to programs.
func routesOf(t testing.TB, s *Server) (all []route) {
	t.Helper()
	for path, item := range s.api.OpenAPI().Paths {
		for method, o := range operations(item) {
			need, _ := o.Extensions["x-tidemark-role"].(string)
			r := route{method: method, path: path, need: request.Role(need), query: o.Parameters}
			if o.RequestBody != nil {
				if m := o.RequestBody.Content["application/json"]; m != nil {
					r.body = m.Schema
				} else {
					r.raw = true
				}
			}
			all = append(all, r)
		}
	}
	for _, call := range wire.Names() {
		for _, space := range []string{"", "/tenant"} {
			all = append(all, route{method: "POST", path: space + api.BackendPath + call, call: call})
		}
	}
	all = append(all, route{method: "GET", path: "/metrics"}, route{method: "GET", path: "/openapi.json"}, route{method: "GET", path: api.BackendPath})
	slices.SortFunc(all, func(a, b route) int { return strings.Compare(a.String(), b.String()) })
	return all
}

var (
	aPage      = regexp.MustCompile(`s\.(page|act)\("([^"]+)"(\+name)?, request\.(\w+),`)
	aPlainPage = regexp.MustCompile(`s\.pages\.HandleFunc\("(GET|POST) ([^"]+)"`)
	anAction   = regexp.MustCompile(`"(\w+)": s\.\w+Act\b`)
)

// pagesOf reads the source: a ServeMux does not tell what is in it. There is no
// matrix without pages, so it fails when it finds few.
func pagesOf(t testing.TB) (all []route) {
	t.Helper()
	files, err := filepath.Glob("pages/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range aPage.FindAllStringSubmatch(string(text), -1) {
			r := route{method: "GET", path: m[2], need: map[string]request.Role{"Reader": request.Reader, "Writer": request.Writer, "Admin": request.Admin}[m[4]]}
			if r.need == "" {
				t.Errorf("%s: who may see %s?", name, r.path)
			}
			if m[1] == "act" {
				r.method, r.raw = "POST", true
			}
			if m[3] == "" {
				all = append(all, r)
				if m[1] == "page" && !strings.HasSuffix(m[2], "}") {
					r.path += ".json"
					all = append(all, r)
				}
				continue
			}
			for _, n := range anAction.FindAllStringSubmatch(string(text), -1) {
				one := r
				one.path += n[1]
				all = append(all, one)
			}
		}
		for _, m := range aPlainPage.FindAllStringSubmatch(string(text), -1) {
			if m[2] != "/{$}" {
				all = append(all, route{method: m[1], path: m[2], raw: m[1] == "POST"})
			}
		}
	}
	if len(all) < 45 {
		t.Fatalf("%d pages were found", len(all))
	}
	return all
}

// The kinds of ids that a path can have.
const (
	ownID       = "own"
	sharedID    = "shared"
	hiddenID    = "hidden"  // of the tenant, and not for the caller
	foreignID   = "foreign" // of another tenant
	absentID    = "absent"
	malformedID = "malformed"
	trickID     = "trick"
	longID      = "long"
	otherID     = "other kind"
)

var idClasses = []string{ownID, sharedID, hiddenID, foreignID, absentID, malformedID, trickID, longID, otherID}

var badIDs = map[string][]string{
	malformedID: {"x", "%00", "%ff%fe", "'%20or%201=1--", "00000000-0000-0000-0000-000000000000", "%7B%7D", "*", "~1", "@-1", "%0d%0aX-Evil:%201", "%E2%80%AE", "-", "1e9", "..."},
	trickID:     {"%2e%2e", "%2E%2E%2F%2e%2e", "..%2f..%2fbravo", "%2f", ".", "..", "%2e", "%5c..%5c", "a%2Fb", "a%2ffiles%2fb", "a%252fb", "%3f", "%23", "%3Btenant=bravo"},
	longID:      {strings.Repeat("a", 300), strings.Repeat("0123abcd-", 1000), strings.Repeat("%41", 3000)},
}

var bodyClasses = []string{"good", "empty", "foreign", "garbage"}

// probe is one request, and its twin: the same with ids that there are not in
// place of those that the caller must not know. nil: it names none.
type probe struct {
	route
	who         somebody
	class, with string
	target      string
	body        []byte
	media       string
	header      map[string]string
	swap        []string // pairs: an id, and its twin
	wrongMethod bool
	twin        bool
}

func (p probe) String() string {
	return fmt.Sprintf("%s: %s %.200s (%s id, %s body) %.200s %v", p.who.name, p.method, p.target, p.class, p.with, p.body, p.header)
}

func (p probe) asTwin() probe {
	swap := strings.NewReplacer(p.swap...)
	p.target, p.body, p.twin = swap.Replace(p.target), []byte(swap.Replace(string(p.body))), true
	p.header = maps.Clone(p.header)
	for k, v := range p.header {
		p.header[k] = swap.Replace(v)
		if k == "Idempotency-Key" {
			p.header[k] += "-twin"
		}
	}
	return p
}

// twinOf is an id of the same shape that there is not.
func twinOf(id string) string {
	b := []byte(id)
	seed := tidemark.IDOf("twin", id)
	for i := max(0, len(b)-8); i < len(b); i++ {
		c := seed[i%8]
		switch {
		case b[i] >= '0' && b[i] <= '9':
			b[i] = '0' + c%10
		case b[i] >= 'a' && b[i] <= 'f':
			b[i] = 'a' + c%6
		case b[i] >= 'g' && b[i] <= 'z':
			b[i] = 'g' + c%20
		}
	}
	return string(b)
}

// prober makes requests.
type prober struct {
	*rand.Rand
	w *world
	s *Server
}

// pick returns an id of a kind and of a class as the caller sees it.
func (g *prober) pick(p *probe, kind, class string) string {
	if bad := badIDs[class]; bad != nil {
		return bad[g.IntN(len(bad))]
	}
	var fit, near []thing
	for _, th := range g.w.things {
		is := map[bool]string{true: sharedID, false: hiddenID}[p.who.sees(th.tenant, th.owner, th.scope)]
		switch {
		case th.tenant != p.who.tenant:
			is = foreignID
		case th.owner == p.who.owner:
			is = ownID
		}
		if (class == otherID) == (th.kind != kind) && (class == otherID && (is == ownID || is == sharedID) || class == is) {
			fit = append(fit, th)
		} else if class == ownID && is == sharedID && th.kind == kind {
			near = append(near, th)
		}
	}
	if len(fit) == 0 {
		fit = near // the fleet is nobody's own
	}
	if len(fit) == 0 || class == absentID {
		if kind == "session" || class != absentID {
			return tidemark.IDOf("session", "absent", fmt.Sprint(g.IntN(5)))
		}
		return "absent-" + fmt.Sprint(g.IntN(5))
	}
	th := fit[g.IntN(len(fit))]
	if class == foreignID || class == hiddenID {
		p.swap = append(p.swap, th.id, twinOf(th.id))
	}
	if kind == "session" && g.IntN(2) == 0 {
		return tidemark.SessionName(g.w.userOf(th), tidemark.SessionID(th.id))
	}
	return th.id
}

// userOf is the id of whoever has a thing, "" when that is nobody.
func (w *world) userOf(th thing) string {
	for _, other := range w.things {
		if other.kind == "user" && other.tenant == th.tenant && other.owner == th.owner {
			return other.id
		}
	}
	return ""
}

// kindIn says what kind of thing a parameter of a path names.
func kindIn(path, param string) string {
	parts := strings.Split(path, "/")
	before := parts[max(0, slices.Index(parts, "{"+param+"}")-1)]
	kinds := map[string]string{"sessions": "session", "jobs": "job", "agents": "agent", "schedules": "agent", "files": "file", "tokens": "token", "users": "user",
		"members": "user", "workspaces": "workspace", "tenants": "tenant", "memory": "memory", "results": routes.ResultKind.Kind, "reviews": "call", "{agent}": "schedule", "s": "session"}
	for _, k := range routes.ItemKinds() {
		kinds[k.Path] = k.Kind
	}
	return kinds[before]
}

var aParam = regexp.MustCompile(`\{(\w+)(\.\.\.)?\}`)

// probe makes one request of a route.
func (g *prober) probe(r route, class, with string, who somebody) probe {
	p := probe{route: r, who: who, class: class, with: with, header: map[string]string{}}
	first := true
	p.target = aParam.ReplaceAllStringFunc(r.path, func(m string) string {
		param := strings.Trim(m, "{}.")
		kind, class := kindIn(r.path, param), class
		switch kind {
		case "file":
			return []string{"memory%2Fnote.md", "memory/note.md", "absent.md", "..%2f..%2fnote.md", "%2e%2e/note.md"}[g.IntN(5)]
		case "schedule":
			return []string{"nightly", "nightly", "absent", "%2e%2e"}[g.IntN(4)]
		case "call":
			return []string{"call-alpha", "call-bravo", "search", "export"}[g.IntN(4)]
		}
		if !first {
			class = []string{ownID, sharedID, foreignID, absentID}[g.IntN(4)]
		}
		first = false
		return g.pick(&p, kind, class)
	})
	p.target += g.queryOf(&p)
	g.fill(&p)
	if g.IntN(12) == 0 {
		p.wrongMethod = true
		p.method = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE", "BREW"}[g.IntN(10)]
	}
	if g.IntN(20) == 0 {
		p.header["X-HTTP-Method-Override"] = "DELETE"
		p.header["X-Forwarded-User"], p.header["X-Tenant"] = "lee", "bravo"
	}
	if r.need != request.Reader && len(p.swap) == 0 && g.IntN(3) == 0 {
		p.header["Idempotency-Key"] = fmt.Sprintf("key-%d", g.IntN(40))
	}
	return p
}

// queryOf are parameters as the description has them.
func (g *prober) queryOf(p *probe) string {
	q := url.Values{}
	for _, param := range p.query {
		if g.IntN(3) > 0 || (param.In == "header" || p.class == ownID) && g.IntN(3) > 0 {
			continue
		}
		value := g.value(p, param.Name, param.Schema)
		switch {
		case param.In == "header":
			p.header[param.Name] = fmt.Sprint(value)
		case param.In != "query":
		case param.Name == "cursor":
			q.Set("cursor", g.cursor())
		case param.Name == "purge" && g.IntN(4) > 0:
		case param.Name == "q":
			q.Set("q", []string{marker("bravo", "jo", inPrivate), marker("alpha", "lee", inPrivate), "^zq", "tides", "zqalpha | zqbravo", "!tides"}[g.IntN(6)])
		case param.Name == "ref" || param.Name == "at":
			q.Set(param.Name, []string{g.pick(p, "session", foreignID), g.pick(p, "session", hiddenID), g.pick(p, "session", ownID), "last", "@-1", "about " + marker("bravo", "jo", inPrivate), "n1", "1"}[g.IntN(8)])
		default:
			q.Set(param.Name, fmt.Sprint(value))
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// cursor is one that this server gave to somebody, or that nobody did.
func (g *prober) cursor() string {
	them := request.Caller{Principal: g.w.lee[g.IntN(len(g.w.lee))]}
	id := g.w.things[g.IntN(len(g.w.things))].id
	return []string{g.s.api.Cursor(them, id), g.s.api.Cursor(them, map[string]any{"session": id, "from": 1, "all": true}), g.s.api.Cursor(them, map[string]any{"id": id, "at": time.Now()}),
		"AAAA", strings.Repeat("A", 2000), "%%%"}[g.IntN(6)]
}

// value makes one value of a schema. What can name something does.
func (g *prober) value(p *probe, name string, s *huma.Schema) any {
	if s == nil {
		return "x"
	}
	if s.Ref != "" {
		s = g.s.api.OpenAPI().Components.Schemas.SchemaFromRef(s.Ref)
	}
	if len(s.Enum) > 0 {
		return s.Enum[g.IntN(len(s.Enum))]
	}
	kinds := map[string]string{"session": "session", "parent": "optimization-run", "resume": "session", "fork": "session", "tenant": "tenant", "workspace": "workspace", "user": "user", "token": "token", "id": "dataset", "owner": "user", "agent": "agent"}
	switch {
	case s.Type == "string" && kinds[name] != "":
		class := []string{ownID, sharedID, absentID}[g.IntN(3)]
		if p.with == "foreign" || p.route.method == "GET" && g.IntN(2) == 0 {
			class = []string{foreignID, foreignID, hiddenID}[g.IntN(3)]
		}
		if name == "tenant" && p.with == "foreign" && g.IntN(2) == 0 {
			p.swap = append(p.swap, "bravo", twinOf("bravo"))
			return "bravo"
		}
		return g.pick(p, kinds[name], class)
	case s.Type == "string" && s.Format == "date-time":
		return "2026-01-02T03:04:05Z"
	case s.Type == "string" && name == "role":
		return "user"
	case s.Type == "string" && (name == "kind" || name == "lease"):
		return ""
	case s.Type == "string":
		return fmt.Sprintf("word %d", g.IntN(9))
	case s.Type == "integer" || s.Type == "number":
		return g.IntN(4)
	case s.Type == "boolean":
		return g.IntN(2) == 0
	case s.Type == "array":
		var all []any
		for range 1 + g.IntN(2) {
			all = append(all, g.value(p, name, s.Items))
		}
		return all
	case s.Type == "object" || len(s.Properties) > 0:
		all := map[string]any{}
		for _, prop := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, prop) || g.IntN(4) == 0 {
				all[prop] = g.value(p, prop, s.Properties[prop])
			}
		}
		return all
	}
	return map[string]any{"any": 1}
}

// fill makes the body.
func (g *prober) fill(p *probe) {
	p.media = "application/json"
	switch {
	case p.call != "":
		g.fillCall(p)
		return
	case p.raw:
		p.media = "application/octet-stream"
		p.body = []byte("some bytes")
		return
	case p.route.body == nil && p.with != "garbage":
		p.media = ""
		return
	}
	switch p.with {
	case "empty":
	case "garbage":
		p.body = []byte([]string{"{", "[]", `"x"`, "null", `{"a":1,"a":2}`, "\xff\xfe", "{}{}", `{"title":` + strings.Repeat("[", 500)}[g.IntN(8)])
	default:
		text, err := json.Marshal(g.value(p, "", p.route.body))
		if err != nil {
			panic(err)
		}
		p.body = text
	}
}

// fillCall makes the body of a call of a Backend.
func (g *prober) fillCall(p *probe) {
	kinds := []string{"session", "notes", "past", "worker", "checkpoint", "file", "name", "fork", "lease", "item", "memory", "job", "agent", "schedule", "review", "tenant", "user", "token", "workspace", "audit", "request", "share", tidemark.KindIndex, tidemark.KindSegment, tidemark.KindUnindexed}
	kind := kinds[g.IntN(len(kinds))]
	of := kind
	if slices.Contains(kinds[:9], kind) {
		of = "session"
	}
	key := tidemark.Key{Kind: kind, ID: g.pick(p, of, p.class)}
	if strings.Contains(key.ID, "%") || len(key.ID) > 200 {
		key.ID = "x"
	}
	var v any
	switch p.call {
	case "get", "wait":
		v = api.KeyQuestion{Key: key}
	case "list":
		v = api.ListQuestion{Kind: kind, Limit: g.IntN(3)}
	case "lines":
		v = api.LinesQuestion{Key: key, Spans: []api.Span{{From: 1}, {Newest: 5}}}
	case "walk":
		v = api.WalkQuestion{}
	case "shared":
		v = api.ShareQuestion{Session: g.pick(p, "session", p.class)}
	case "share":
		v = api.ShareQuestion{Session: g.pick(p, "session", []string{foreignID, hiddenID, sharedID}[g.IntN(3)]), With: &tidemark.Scope{With: tidemark.InTenant}}
	case "commit":
		b := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Deletes: []tidemark.Precondition{{Key: key, Version: 1}}}
		if g.IntN(2) == 0 {
			b.Deletes, b.Drops = nil, []tidemark.Key{key}
		}
		p.body, _ = api.EncodeBatch(b)
		p.media = api.MediaLines
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	p.body = text
}

// waitedInVain stands for no answer: the client went away first.
const waitedInVain = 299

// ending is an answer that ends a little after its beginning when it would
// go on.
type ending struct {
	*httptest.ResponseRecorder
	cancel context.CancelFunc
}

func (e ending) Flush() { time.AfterFunc(20*time.Millisecond, e.cancel) }

// probed makes a request, without a network.
func probed(s http.Handler, p probe) (a answer, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.call == "wait" {
		time.AfterFunc(20*time.Millisecond, cancel)
	}
	r, err := http.NewRequestWithContext(ctx, p.method, "http://localhost"+p.target, bytes.NewReader(p.body))
	if err != nil {
		return a, err
	}
	r.RequestURI = p.target
	r.Header.Set("X-Request-Id", "one")
	if p.media != "" {
		r.Header.Set("Content-Type", p.media)
	}
	if p.who.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.who.token)
	}
	for k, v := range p.header {
		r.Header.Set(k, v)
	}
	out := ending{httptest.NewRecorder(), cancel}
	func() {
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				panic(fmt.Sprintf("%s: %v", p, v))
			}
		}()
		s.ServeHTTP(out, r)
	}()
	if p.call == "wait" && ctx.Err() != nil {
		return answer{Status: waitedInVain}, nil
	}
	return answer{out.Code, out.Header(), out.Body.Bytes()}, nil
}
