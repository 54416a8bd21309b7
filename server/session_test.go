package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	absent = "00000000-0000-4000-8000-000000000000"
	wA     = "writer-a"
)

// newSession makes a session with one turn for each text, and returns its path.
func newSession(t *testing.T, s *testServer, who, title string, texts ...string) string {
	t.Helper()
	body := api.NewSession{Title: title, Agent: "ada", Model: "tide-1", Project: "/p"}
	for _, text := range texts {
		body.Entries = append(body.Entries, api.NewEntry{Role: tidemark.User, Content: text},
			api.NewEntry{Role: tidemark.Assistant, Content: "re " + text, Usage: &tidemark.Usage{InputTokens: 3, OutputTokens: 2}})
	}
	var i api.SessionInfo
	s.call(t, who, "POST", request.SessionsPath, body).want(t, 201).into(t, &i)
	return request.SessionsPath + "/" + string(i.ID)
}

func texts(items []api.LogEntry) (out []string) {
	for _, e := range items {
		out = append(out, fmt.Sprintf("%d %s", e.Seq, e.Text()))
	}
	return out
}

func (s *testServer) entries(t *testing.T, path string) api.EntryList {
	t.Helper()
	var l api.EntryList
	s.call(t, "reader-a", "GET", path, nil).want(t, 200).into(t, &l)
	return l
}

func TestASessionIsMadeReadChangedRemovedAndRestored(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "hello", "more")
	var i api.SessionInfo
	a := s.call(t, "reader-a", "GET", path, nil).want(t, 200)
	a.into(t, &i)
	if i.Title != "tides" || i.Status != "active" || i.ModelName != "tide-1" || *i.TurnCount != 2 || i.Messages != 4 || i.Entries != 4 {
		t.Errorf("%+v", i)
	}
	tag := a.Header.Get("ETag")
	if a := s.call(t, "reader-a", "GET", path, nil, "If-None-Match: "+tag).want(t, 304); len(a.Body) != 0 || a.Header.Get("ETag") != tag {
		t.Errorf("304 with %q and tag %q", a.Body, a.Header.Get("ETag"))
	}
	// Growth does not stand in the way of a change, another change does.
	s.call(t, wA, "POST", path+"/entries", `{"entries":[{"role":"user","content":"x"}]}`).want(t, 201)
	s.call(t, wA, "PATCH", path, `{"title":"ebb","tags":["moon","sea"],"pinned":true}`, "If-Match: "+tag).want(t, 200).into(t, &i)
	if i.Title != "ebb" || !i.Pinned || !cmp.Equal(i.Tags, []string{"moon", "sea"}) {
		t.Errorf("changed: %+v", i)
	}
	s.call(t, wA, "PATCH", path, `{"title":"flood"}`, "If-Match: "+tag).want(t, 412).problem(t)
	i = api.SessionInfo{}
	s.call(t, wA, "PATCH", path, `{"tags":[],"hold":true}`).want(t, 200).into(t, &i)
	if len(i.Tags) != 0 || i.Title != "ebb" || !i.OnHold {
		t.Errorf("changed again: %+v", i)
	}
	s.call(t, wA, "DELETE", path, nil).want(t, 403).problem(t)
	s.call(t, wA, "PATCH", path, `{"hold":false}`).want(t, 200)
	s.call(t, wA, "DELETE", path, nil).want(t, 200)
	s.call(t, "reader-a", "GET", path, nil).want(t, 200).into(t, &i)
	if i.Status != "archived" {
		t.Errorf("removed: %+v", i)
	}
	s.call(t, wA, "POST", path+"/entries", `{"entries":[{"role":"user","content":"x"}]}`).want(t, 404).problem(t)
	s.call(t, wA, "POST", path+"/restore", nil).want(t, 200)
	s.call(t, wA, "DELETE", path+"?purge=true", nil).want(t, 200)
	s.call(t, "reader-a", "GET", path, nil).want(t, 404).problem(t)
	s.call(t, wA, "DELETE", path, nil).want(t, 404).problem(t)
}

func TestAnEmptySessionCanBeMadeAndGrows(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "empty")
	if l := s.entries(t, path+"/entries"); len(l.Items) != 0 || l.Head != 0 {
		t.Errorf("%+v", l)
	}
	var turns api.TurnList
	s.call(t, wA, "GET", path+"/turns", nil).want(t, 200).into(t, &turns)
	s.call(t, wA, "GET", path+"/tree", nil).want(t, 200)
	s.call(t, wA, "POST", path+"/verify", nil).want(t, 200)
	s.call(t, wA, "POST", path+"/entries", `{"entries":[{"role":"user","content":"first"}]}`).want(t, 201)
	if got := texts(s.entries(t, path+"/entries").Items); !cmp.Equal(got, []string{"1 first"}) {
		t.Errorf("%v", got)
	}
}

func TestSessionsAreListedByOffsetAndByCursor(t *testing.T) {
	s := newTestServer(t)
	for i := range 7 {
		newSession(t, s, wA, fmt.Sprintf("Tide %d", i), "hello")
	}
	newSession(t, s, wA, "moon", "hello")
	byCursor, byOffset := []string{}, []string{}
	next := ""
	for {
		var l api.SessionList
		s.call(t, wA, "GET", request.SessionsPath+"?search=tide&limit=3&cursor="+next, nil).want(t, 200).into(t, &l)
		for _, i := range l.Items {
			byCursor = append(byCursor, i.Title)
		}
		if next = l.Next; next == "" {
			break
		}
	}
	for offset := 0; ; offset += 3 {
		var l api.SessionList
		s.call(t, wA, "GET", fmt.Sprintf("%s?search=TIDE&limit=3&offset=%d", request.SessionsPath, offset), nil).want(t, 200).into(t, &l)
		if *l.Total != 7 || l.Limit != 3 || l.Offset != int64(offset) {
			t.Errorf("page %+v", l)
		}
		for _, i := range l.Items {
			byOffset = append(byOffset, i.Title)
		}
		if !l.HasMore {
			break
		}
	}
	want := []string{"Tide 6", "Tide 5", "Tide 4", "Tide 3", "Tide 2", "Tide 1", "Tide 0"}
	if !cmp.Equal(byCursor, want) || !cmp.Equal(byOffset, want) {
		t.Errorf("by cursor %v, by offset %v", byCursor, byOffset)
	}
	for query, want := range map[string]int{"": 8, "?status=archived": 0, "?trash=true": 0, "?agent=ada": 8, "?agent=x": 0, "?project=/p": 8, "?label=x": 0, "?since=2999-01-01": 0} {
		var l api.SessionList
		if s.call(t, wA, "GET", request.SessionsPath+query, nil).want(t, 200).into(t, &l); len(l.Items) != want {
			t.Errorf("%s: %d sessions, want %d", query, len(l.Items), want)
		}
	}
	s.call(t, wA, "GET", request.SessionsPath+"?status=lost", nil).want(t, 422).problem(t)
	s.call(t, wA, "GET", request.SessionsPath+"?since=soon", nil).want(t, 400).problem(t)
}

func TestForgedAndBorrowedCursorsAreRefused(t *testing.T) {
	s := newTestServer(t)
	for range 3 {
		newSession(t, s, wA, "tide", "hello", "more", "and more")
		newSession(t, s, "writer-b", "tide", "hello")
	}
	path := newSession(t, s, wA, "long", "one", "two", "three")
	var l api.SessionList
	s.call(t, wA, "GET", request.SessionsPath+"?limit=1", nil).want(t, 200).into(t, &l)
	flipped := []byte(l.Next)
	flipped[len(flipped)-3] ^= 1
	for who, urls := range map[string][]string{
		wA: {request.SessionsPath + "?limit=1&search=x&cursor=" + l.Next, request.SessionsPath + "?cursor=" + string(flipped), request.SessionsPath + "?cursor=e30",
			path + "/turns?cursor=" + l.Next, path + "/entries?cursor=e30", request.SessionsPath + "?offset=1&cursor=" + l.Next},
		"writer-b": {request.SessionsPath + "?limit=1&cursor=" + l.Next},
	} {
		for _, url := range urls {
			s.call(t, who, "GET", url, nil).want(t, 400).problem(t)
		}
	}
	var e api.EntryList
	s.call(t, wA, "GET", path+"/entries?limit=2", nil).want(t, 200).into(t, &e)
	other := newSession(t, s, wA, "other", "one", "two")
	s.call(t, wA, "GET", other+"/entries?cursor="+e.Next, nil).want(t, 400).problem(t)
	s.call(t, wA, "GET", path+"/entries?limit=2&cursor="+e.Next, nil).want(t, 200).into(t, &e)
	if got := texts(e.Items); !cmp.Equal(got, []string{"3 two", "4 re two"}) {
		t.Errorf("page two: %v", got)
	}
}

func TestForeignAbsentAndInvalidIDsAnswerAlike(t *testing.T) {
	s := newTestServer(t)
	foreign := strings.TrimPrefix(newSession(t, s, "writer-b", "secret", "hello"), request.SessionsPath+"/")
	for route, item := range s.api.OpenAPI().Paths {
		if !strings.HasPrefix(route, request.SessionsPath+"/{id}") {
			continue
		}
		for method, o := range map[string]any{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete} {
			if fmt.Sprint(o) == "<nil>" {
				continue
			}
			var bodies []string
			for _, id := range []string{foreign, absent, "nonsense", strings.ToUpper(absent)} {
				url := strings.NewReplacer("{id}", id, "{name}", "memory%2Fa").Replace(route)
				a := s.call(t, wA, method, url, validBody(method, route), "Lease-Token: 1-x")
				p := a.want(t, 404).problem(t)
				p.Instance = ""
				bodies = append(bodies, strings.ReplaceAll(fmt.Sprintf("%+v", p), strings.ToLower(id), "ID"))
			}
			for _, b := range bodies[1:] {
				if b != bodies[0] {
					t.Errorf("%s %s: %s and %s", method, route, bodies[0], b)
				}
			}
		}
	}
}

// validBody is a body that a route takes.
func validBody(method, route string) any {
	switch method + " " + strings.TrimPrefix(route, request.SessionsPath+"/{id}") {
	case "PATCH ", "POST /fork", "PUT /checkpoint", "POST /lease", "POST /lease/hand-over":
		return "{}"
	case "POST /entries":
		return `{"entries":[{"role":"user","content":"x"}]}`
	case "POST /branch":
		return `{"at":"n0"}`
	case "POST /labels":
		return `{"text":"x"}`
	case "PUT /lease":
		return `{"token":"1-x"}`
	case "PUT /share":
		return `{"with":"tenant"}`
	case "PUT /files/{name}":
		return "content"
	}
	return nil
}

func TestBadBodiesAreRefusedAndNothingChanges(t *testing.T) {
	s := newTestServer(t, func(o *Options) { o.Limits.Body, o.Limits.Import = 64<<10, 128<<10 })
	path := newSession(t, s, wA, "tides", "hello")
	deep := strings.Repeat(`{"type":"tool_result","blocks":[`, 12_000) + strings.Repeat("]}", 12_000)
	for name, c := range map[string]struct {
		method, path, body, kind string
		want                     int
	}{
		"not JSON":          {"POST", "/entries", `{"entries":`, "application/json", 400},
		"a list":            {"POST", "/entries", `[]`, "application/json", 422},
		"no entries":        {"POST", "/entries", `{"entries":[]}`, "application/json", 422},
		"unknown field":     {"POST", "/entries", `{"entries":[{"role":"user","content":"x"}],"sudo":true}`, "application/json", 422},
		"unknown in entry":  {"POST", "/entries", `{"entries":[{"role":"user","content":"x","seq":9}]}`, "application/json", 422},
		"no role":           {"POST", "/entries", `{"entries":[{"content":"x"}]}`, "application/json", 400},
		"a bad role":        {"POST", "/entries", `{"entries":[{"role":"god","content":"x"}]}`, "application/json", 400},
		"a gap":             {"POST", "/entries", `{"entries":[{"kind":"gap"}]}`, "application/json", 400},
		"a parent too far":  {"POST", "/entries", `{"entries":[{"role":"user","content":"x","parent":99}]}`, "application/json", 400},
		"one key twice":     {"POST", "/entries", `{"entries":[{"role":"user","content":"x","key":"k"},{"role":"user","content":"y","key":"k"}]}`, "application/json", 400},
		"a bad worker":      {"POST", "/entries", `{"entries":[{"role":"user","content":"x"}],"worker":"../x"}`, "application/json", 400},
		"XML":               {"POST", "/entries", `<entries/>`, "application/xml", 415},
		"a form":            {"POST", "/entries", `entries=1`, "application/x-www-form-urlencoded", 415},
		"nesting":           {"POST", "/entries", `{"entries":[{"role":"user","blocks":[` + deep + `]}]}`, "application/json", 413},
		"too large":         {"POST", "/entries", `{"entries":[{"role":"user","content":"` + strings.Repeat("x", 70<<10) + `"}]}`, "application/json", 413},
		"a long title":      {"PATCH", "", `{"title":"` + strings.Repeat("x", 1001) + `"}`, "application/json", 422},
		"a long wide title": {"PATCH", "", `{"title":"` + strings.Repeat("é", 900) + `"}`, "application/json", 400},
		"an empty title":    {"PATCH", "", `{"title":" "}`, "application/json", 400},
		"no point":          {"POST", "/branch", `{}`, "application/json", 422},
		"a lost point":      {"POST", "/branch", `{"at":"n99"}`, "application/json", 404},
		"a lost label":      {"POST", "/fork", `{"at":"nowhere"}`, "application/json", 404},
		"a bad token":       {"PUT", "/lease", `{"token":"x"}`, "application/json", 400},
		"a large file":      {"PUT", "/files/a", strings.Repeat("x", 140<<10), "application/octet-stream", 413},
		"a bad file":        {"PUT", "/files/..%2Fa", "x", "application/octet-stream", 400},
	} {
		t.Run(name, func(t *testing.T) {
			s.call(t, wA, c.method, path+c.path, c.body, "Content-Type: "+c.kind).want(t, c.want).problem(t)
		})
	}
	// Without a length the size is found out on the way.
	r, err := http.NewRequest("PUT", s.URL+path+"/files/a", io.MultiReader(strings.NewReader(strings.Repeat("x", 140<<10))))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+wA)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("a large file without a length: %d", res.StatusCode)
	}
	if l := s.entries(t, path+"/entries?all=true"); len(l.Items) != 2 {
		t.Errorf("something was kept: %v", texts(l.Items))
	}
	s.call(t, "reader-a", "POST", path+"/entries", `{"entries":[{"role":"user","content":"x"}]}`).want(t, 403).problem(t)
}

func TestNestingIsBounded(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "hello")
	deep := strings.Repeat(`{"type":"tool_result","blocks":[`, 12_000) + strings.Repeat("]}", 12_000)
	a := s.call(t, wA, "POST", path+"/entries", `{"entries":[{"role":"user","blocks":[`+deep+`]}]}`)
	if a.problem(t); a.Status < 400 || a.Status >= 500 || len(a.Body) > 10_000 {
		t.Errorf("status %d with %d bytes", a.Status, len(a.Body))
	}
}

func TestTurnsAreWhatWasAskedAndAnswered(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one", "two", "three")
	s.call(t, wA, "POST", path+"/branch", `{"at":"n0"}`).want(t, 201)
	s.call(t, wA, "POST", path+"/entries", `{"entries":[{"role":"user","content":"other"},{"role":"assistant","blocks":[{"type":"tool_use","id":"1","name":"ls"}]},{"role":"assistant","content":"done","model":"m"}]}`).want(t, 201)
	var l api.TurnList
	s.call(t, wA, "GET", path+"/turns?limit=1", nil).want(t, 200).into(t, &l)
	if l.Total != 2 || !l.HasMore || l.Items[0].UserMessage != "one" || l.Items[0].AssistantMessage != "re one" || l.Items[0].TokensOut != 2 {
		t.Errorf("%+v", l)
	}
	s.call(t, wA, "GET", path+"/turns?limit=1&cursor="+l.Next, nil).want(t, 200).into(t, &l)
	if got := l.Items[0]; got.UserMessage != "other" || got.ToolCalls != 1 || got.AssistantMessage != "done" || got.TurnIndex != 1 || got.ModelName != "m" {
		t.Errorf("%+v", got)
	}
	s.call(t, wA, "GET", path+"/turns?offset=1&limit=5&at=n2", nil).want(t, 200).into(t, &l)
	if len(l.Items) != 2 || l.Items[1].UserMessage != "three" || l.HasMore {
		t.Errorf("%+v", l)
	}
	var i api.SessionInfo
	s.call(t, wA, "GET", path, nil).want(t, 200).into(t, &i)
	if *i.TurnCount != 2 {
		t.Errorf("turn count %d", *i.TurnCount)
	}
}

func TestStateCountsWhatAttachedSessionsHold(t *testing.T) {
	s := newTestServer(t)
	path := newSession(t, s, wA, "tides", "one", "two")
	newSession(t, s, wA, "nobody's", "one")
	var l api.AttachedList
	s.call(t, wA, "GET", request.SessionsPath+"/state", nil).want(t, 200).into(t, &l)
	if !l.OK || len(l.Sessions) != 0 {
		t.Errorf("%+v", l)
	}
	s.call(t, wA, "PUT", path+"/checkpoint", `{"core_memory":{"human":"Ada"},"document_paths":["/a","/b"]}`).want(t, 200)
	s.call(t, wA, "PUT", path+"/files/artifacts%2Freport.md", "hi").want(t, 200)
	s.call(t, wA, "PUT", path+"/files/memory/notes.md", "hi").want(t, 200)
	s.call(t, wA, "POST", path+"/lease", `{"holder":"editor"}`).want(t, 201)
	s.call(t, "reader-a", "GET", request.SessionsPath+"/state", nil).want(t, 200).into(t, &l)
	if len(l.Sessions) != 1 {
		t.Fatalf("%+v", l)
	}
	got := l.Sessions[0]
	if got.HistoryTurns != 2 || got.DocumentCount != 2 || got.MemoryCount != 2 || got.ArtifactCount != 1 || got.LogCount != 4 || got.HeldBy != "editor of writer-a" {
		t.Errorf("%+v", got)
	}
	s.call(t, "writer-b", "GET", request.SessionsPath+"/state", nil).want(t, 200).into(t, &l)
	if len(l.Sessions) != 0 {
		t.Errorf("another tenant sees %+v", l)
	}
}

// sharing is a store that can share, as PostgreSQL does.
type sharing struct {
	tidemark.Backend
	owner, reader string
	scope         *tidemark.Scope
}

func (b *sharing) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	r, err := b.Backend.Get(ctx, key)
	if b.reader != b.owner {
		r.Owner = b.owner
	}
	return r, err
}

func (b *sharing) Share(_ context.Context, _ tidemark.SessionID, with tidemark.Scope) error {
	*b.scope = with
	return nil
}

func (b *sharing) Shared(context.Context, tidemark.SessionID) (tidemark.Scope, string, error) {
	return *b.scope, b.owner, nil
}

func (b *sharing) Audience() (string, []string) { return b.reader, nil }

func (b *sharing) Of(string) (tidemark.Backend, error) { return b, nil }

func TestOnlyItsOwnerChangesWhatIsShared(t *testing.T) {
	work := tidemark.IDOf("workspace", "a", "lab")
	scope := &tidemark.Scope{With: tidemark.Private}
	s := newTestServer(t, func(o *Options) {
		open := o.Open
		o.Open = func(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
			st, err := open(ctx, tidemark.Principal{Tenant: "x", User: "y"}) // one store for everybody
			if err != nil {
				return nil, err
			}
			return store.New(&sharing{st.Records().Backend(), tidemark.TenantOf("a", "jo").User, p.User, scope}, nil), nil
		}
		people := people()
		jo := people[wA]
		jo.Workspaces = []string{work}
		people[wA] = jo
		o.Auth = people
	})
	path := newSession(t, s, wA, "tides", "hello")
	var got routes.ShareBody
	s.call(t, wA, "PUT", path+"/share", `{"with":"workspace"}`).want(t, 200).into(t, &got)
	if got.With != "workspace" || got.Workspace != work {
		t.Errorf("%+v", got)
	}
	s.call(t, wA, "PUT", path+"/share", `{"with":"workspace","workspace":"`+absent+`"}`).want(t, 403).problem(t)
	s.call(t, wA, "PUT", path+"/share", `{"with":"world"}`).want(t, 422).problem(t)
	s.call(t, wA, "PUT", path+"/share", `{"with":"tenant"}`).want(t, 200)
	s.call(t, "other-a", "GET", path, nil).want(t, 200)
	for _, c := range [][3]string{{"PATCH", "", `{"title":"mine"}`}, {"DELETE", "", ""}, {"POST", "/entries", `{"entries":[{"role":"user","content":"x"}]}`},
		{"POST", "/lease", "{}"}, {"PUT", "/share", `{"with":"private"}`}, {"POST", "/labels", `{"text":"x"}`}, {"POST", "/fork", "{}"}} {
		s.call(t, "other-a", c[0], path+c[1], c[2]).want(t, 403).problem(t)
	}
	plain := newTestServer(t)
	path = newSession(t, plain, wA, "tides", "hello")
	plain.call(t, wA, "PUT", path+"/share", `{"with":"tenant"}`).want(t, 501).problem(t)
}

func TestAListLeavesOutWhatOtherToolsKeepWithASession(t *testing.T) {
	s, inner := pagesServer(t)
	w := inner.Create(tidemark.Session{Title: "tide", Tool: "codex", ForeignID: "0199", Extra: json.RawMessage(`{"codex":"` + strings.Repeat("x", 100_000) + `"}`)}, tidemark.Holder{Program: "test"})
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.System, "Be brief."), tidemark.Entry{Kind: "call", Extra: json.RawMessage(`{}`)}, tidemark.Say(tidemark.User, "hello")); err != nil {
		t.Fatal(err)
	}
	list := s.call(t, wA, "GET", request.SessionsPath+"?tool=codex", nil).want(t, 200)
	var l api.SessionList
	if list.into(t, &l); len(l.Items) != 1 || l.Items[0].Extra != nil || l.Items[0].Tool != "codex" || len(list.Body) > 2000 {
		t.Errorf("%d sessions in %d bytes", len(l.Items), len(list.Body))
	}
	if s.call(t, wA, "GET", request.SessionsPath+"?tool=tidemark", nil).want(t, 200).into(t, &l); len(l.Items) != 0 {
		t.Errorf("%d sessions were begun here", len(l.Items))
	}
	var i api.SessionInfo
	if s.call(t, wA, "GET", request.SessionsPath+"/"+string(w.ID()), nil).want(t, 200).into(t, &i); len(i.Extra) < 100_000 {
		t.Errorf("the session itself has %d bytes of it", len(i.Extra))
	}
	page := s.read(t, wA, "/sessions/"+string(w.ID()), 200)
	has(t, page, `<details class="context"><summary>Context <span class="hint"><bdi>Be brief.</bdi></span></summary>`, `<span id="e2"></span>`, "hello")
	if strings.Contains(page, `id="h2"`) {
		t.Error("the page shows an entry in which there is nothing")
	}
	var f api.SessionInfo
	if s.call(t, wA, "POST", request.SessionsPath+"/"+string(w.ID())+"/fork", map[string]any{}).want(t, 201).into(t, &f); f.Title != "tide (fork)" {
		t.Errorf("the fork is called %q", f.Title)
	}
}
