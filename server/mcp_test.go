package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/mcp"
	routes "github.com/tidemark-sessions/tidemark/server/api"
)

// withMCP serves other agents as cmd does.
func withMCP(o *Options) {
	o.MCP = func(c routes.MCP) http.Handler {
		return mcp.Handler(mcp.Options{Write: c.Write, Open: c.Open, Fleet: c.Fleet, Holder: c.Holder, Doing: c.Doing, Wrote: c.Wrote, Tell: c.Tell,
			Since: func(s string) (time.Time, error) { return time.Parse(time.DateOnly, s) }})
	}
}

// bearing is a client that says who it is.
type bearing string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (s *testServer) agent(t *testing.T, who string) *sdk.ClientSession {
	t.Helper()
	c, err := sdk.NewClient(&sdk.Implementation{Name: who, Version: "1"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: s.URL + "/mcp", HTTPClient: &http.Client{Transport: bearing(who)}, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func tellAgent(t *testing.T, c *sdk.ClientSession, tool string, args map[string]any) (string, bool) {
	t.Helper()
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return err.Error(), false
	}
	return res.Content[0].(*sdk.TextContent).Text, !res.IsError
}

func TestAgentsSeeWhatTheirCallerMaySeeAndNothingElse(t *testing.T) {
	s := newTestServer(t, withMCP)
	ids := map[string]string{}
	for _, who := range []string{"writer-a", "writer-b", "other-a"} {
		ids[who] = path.Base(newSession(t, s, who, "Lamp of "+who, "the lighthouse of "+who+" is dark"))
	}
	seesOnly := func(who, text string) {
		t.Helper()
		if !strings.Contains(text, ids[who]) || strings.Count(text, "Lamp of ") != strings.Count(text, "Lamp of "+who) {
			t.Errorf("%s sees\n%s", who, text)
		}
	}
	var all sync.WaitGroup
	for who := range ids {
		all.Go(func() {
			c := s.agent(t, who)
			for range 20 {
				text, _ := tellAgent(t, c, "search_sessions", map[string]any{"query": "lighthouse"})
				seesOnly(who, text)
				text, _ = tellAgent(t, c, "list_sessions", nil)
				seesOnly(who, text)
			}
			for other, foreign := range ids {
				if other == who {
					continue
				}
				for tool, args := range map[string]map[string]any{"read_session": {"session": foreign}, "hand_over": {"session": foreign, "note": "mine"}} {
					absent := strings.Repeat("0", 8) + foreign[8:]
					said, ok := tellAgent(t, c, tool, args)
					if ok {
						t.Errorf("%s: %s of %s: %s", who, tool, other, said)
					}
					args["session"] = absent
					if like, _ := tellAgent(t, c, tool, args); strings.ReplaceAll(like, absent, foreign) != said {
						t.Errorf("%s: what is another's says %q, what is not there %q", who, said, like)
					}
				}
			}
		})
	}
	all.Wait()
}

func TestAReaderHasNoToolsThatWrite(t *testing.T) {
	s := newTestServer(t, withMCP)
	names := func(who string) (all []string) {
		res, err := s.agent(t, who).ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range res.Tools {
			all = append(all, tool.Name)
		}
		return all
	}
	if got := names("reader-a"); len(got) != 6 || slices.Contains(got, "write_memory") {
		t.Errorf("a reader has %v", got)
	}
	if got := names("writer-a"); len(got) != 10 {
		t.Errorf("a writer has %v", got)
	}
	if said, ok := tellAgent(t, s.agent(t, "reader-a"), "write_memory", map[string]any{"text": "x"}); ok || !strings.Contains(said, "not allowed") {
		t.Errorf("a reader writes: %s", said)
	}
}

func TestWhatAgentsChangeIsInTheAuditLogAndWhatTheyReadIsNot(t *testing.T) {
	s := newTestServer(t, withMCP)
	c := s.agent(t, "writer-a")
	if said, ok := tellAgent(t, c, "write_memory", map[string]any{"text": "Lamps come from Oslo."}); !ok {
		t.Fatal(said)
	}
	tellAgent(t, c, "remove_memory", map[string]any{"id": "none"})
	tellAgent(t, c, "list_memory", nil)
	if err := s.stores.FlushAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var page struct{ Items []tenant.Audited }
	got := s.call(t, "admin-a", "GET", "/api/v1/audit", nil).want(t, http.StatusOK)
	got.into(t, &page)
	var did []string
	for _, a := range page.Items {
		did = append(did, fmt.Sprint(a.Action, " ", a.Outcome))
	}
	slices.Sort(did)
	if want := []string{"GET /api/v1/audit begun", "MCP remove_memory failed", "MCP write_memory done"}; !slices.Equal(did, want) {
		t.Errorf("the audit log says %q, want %q", did, want)
	}
	if strings.Contains(string(got.Body), "Oslo") {
		t.Error("the audit log holds content")
	}
}

func TestOnlyWhoIsKnownAndMeansThisServerReachesMCP(t *testing.T) {
	s := newTestServer(t, withMCP, func(o *Options) { o.Hosts = []string{} })
	ask := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	accept := "Accept: application/json, text/event-stream"
	if got := s.call(t, "", "POST", "/mcp", ask, accept).want(t, http.StatusUnauthorized); got.Header.Get("WWW-Authenticate") == "" {
		t.Error("nothing says that a token is wanted")
	}
	s.call(t, "nobody", "POST", "/mcp", ask, accept).want(t, http.StatusUnauthorized)
	s.call(t, "writer-a", "POST", "/mcp", ask, accept, "Origin: https://evil.example").want(t, http.StatusForbidden)
	s.call(t, "writer-a", "GET", "/mcp", nil, "Accept: text/event-stream").want(t, http.StatusMethodNotAllowed)
	s.call(t, "writer-a", "POST", "/mcp", ask).want(t, http.StatusBadRequest)
	s.call(t, "writer-a", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("x", 2<<20)+`"}`, accept).want(t, http.StatusRequestEntityTooLarge)
	r, err := http.NewRequest("POST", s.URL+"/mcp", strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example"
	r.Header.Set("Authorization", "Bearer writer-a")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("under another name: status %d", res.StatusCode)
	}
	var listed struct {
		Result struct{ Tools []json.RawMessage }
	}
	s.call(t, "writer-a", "POST", "/mcp", ask, accept).want(t, http.StatusOK).into(t, &listed)
	if len(listed.Result.Tools) != 10 {
		t.Errorf("%d tools", len(listed.Result.Tools))
	}
	newTestServer(t).call(t, "writer-a", "POST", "/mcp", ask, accept).want(t, http.StatusNotFound).problem(t)
}

// Agents ask with tools what programs ask with calls: whatever they name, they
// get what their caller sees, and what is another's stays as it is.
func TestNobodySeesWhatIsAnothersOverMCP(t *testing.T) {
	for name, newIn := range map[string]func(*testing.T) *world{
		"memory": func(t *testing.T) *world { return newWorld(t, nil) },
		"PostgreSQL": func(t *testing.T) *world {
			db := newDatabase(t)
			w := newWorld(t, connectTo(t, db, nil))
			w.db = db
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newIn(t)
			s := serverOf(t, w, withMCP)
			before := w.digest(t)
			seen, asked := map[string]bool{}, 0
			ask := func(who somebody, method string, params any) {
				body := must[[]byte](t)(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
				r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				r.Header.Set("Authorization", "Bearer "+who.token)
				got := httptest.NewRecorder()
				s.ServeHTTP(got, r)
				asked++
				for _, m := range aMarker.FindAllStringSubmatch(got.Body.String(), -1) {
					if seen[m[0]] = true; !who.sees(m[1], m[2], m[3]) && !strings.Contains(string(body), m[0]) {
						t.Errorf("%s sees %s with %s %s:\n%s", who.name, m[0], method, body, got.Body)
					}
				}
				if !who.known && got.Code != http.StatusUnauthorized && got.Code != http.StatusForbidden {
					t.Errorf("%s is let in: %d", who.name, got.Code)
				}
			}
			for _, who := range w.callers {
				tool := func(name string, args map[string]any) {
					ask(who, "tools/call", map[string]any{"name": name, "arguments": args})
				}
				tool("list_sessions", map[string]any{"everywhere": true, "n": 100})
				tool("list_memory", map[string]any{"everywhere": true})
				tool("search_sessions", map[string]any{"query": "tides", "n": 100})
				tool("search_sessions", map[string]any{"query": "^zq", "n": 100})
				tool("write_memory", map[string]any{"text": "I was here, says " + who.name})
				tool("hand_over", map[string]any{"session": "last", "note": "x", "agent": "agent-bravo"})
				ask(who, "resources/list", nil)
				ask(who, "prompts/get", map[string]any{"name": "resume_session"})
				for _, th := range w.things {
					switch th.kind {
					case "session":
						tool("read_session", map[string]any{"session": th.id})
						tool("read_session", map[string]any{"session": th.id, "worker": "helper"})
						tool("hand_over", map[string]any{"session": th.id, "note": "mine now"})
						tool("write_memory", map[string]any{"text": "about one", "session": th.id})
						tool("search_sessions", map[string]any{"query": "tides", "session": th.id})
						ask(who, "resources/read", map[string]any{"uri": "tidemark://session/" + th.id})
					case "memory":
						tool("read_memory", map[string]any{"id": th.id})
						if !who.sees(th.tenant, th.owner, th.scope) {
							tool("write_memory", map[string]any{"id": th.id, "text": "mine now"})
							tool("remove_memory", map[string]any{"id": th.id})
						}
					}
				}
			}
			if after := w.digest(t); after != before {
				t.Error("something that is another's changed")
			}
			if want := marker("alpha", "jo", inPrivate); !seen[want] {
				t.Errorf("nobody saw %s: this test is blind", want)
			}
			t.Logf("%d requests, %d markers seen", asked, len(seen))
		})
	}
}
