package mcpclient_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/mcpclient"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/tool"
)

func TestToolsOfAServerAreOfferedAskedForAndCalled(t *testing.T) {
	r := newRig(t)
	r.own(r.program())
	c := r.open("")
	if len(r.did()[0]) != 0 {
		t.Fatal("it was started before anybody said a word")
	}
	r.send(c, use("1", "mcp__test__say", `{"text":"hello"}`), use("2", "mcp__test__read_resource", `{"uri":"mem://notes"}`))
	names := r.offered()
	if len(names) != 5 || !slices.Contains(names, "mcp__test__say") || !slices.Contains(names, "mcp__test__read_resource") {
		t.Errorf("offered: %q", names)
	}
	if diff := cmp.Diff([]string{"mcp__test__say", "mcp__test__read_resource"}, r.asked()); diff != "" {
		t.Error(diff)
	}
	if got := r.result("1"); !strings.Contains(got.Text, "you said hello") || got.IsError {
		t.Errorf("say: %+v", got)
	}
	if got := r.result("2"); !strings.Contains(got.Text, "the notes") {
		t.Errorf("read: %+v", got)
	}
	picture := names[slices.IndexFunc(names, func(n string) bool { return strings.Contains(n, "picture") })]
	r.send(c, use("3", picture, `{}`))
	if got := r.result("3"); len(got.Blocks) != 2 || got.Blocks[1].MediaType != "image/png" {
		t.Errorf("%s: %+v", picture, got)
	}
	if diff := cmp.Diff([]string{"start", "say hello"}, r.did()); diff != "" {
		t.Error(diff)
	}
}

// TestNothingOfAProjectStartsUnapproved goes through what may change in a
// repository after somebody approved what it had.
func TestNothingOfAProjectStartsUnapproved(t *testing.T) {
	r := newRig(t)
	script := filepath.Join(r.dir, "serve.sh")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write := func(more string) {
		t.Helper()
		if err := os.WriteFile(script, []byte("#!/bin/sh\n"+more+"\nexec "+self+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	def := map[string]any{"command": "sh", "args": []string{"serve.sh"}, "env": map[string]string{asServer: r.journal}}
	r.project(def)
	starts := func() int { return len(slices.DeleteFunc(r.did(), func(s string) bool { return s != "start" })) }
	once := func(d chat.Decision) {
		t.Helper()
		r.decide = func(a chat.ApprovalRequest) chat.Decision { return d }
		c := r.open("")
		r.send(c)
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	r.o.Unattended = true
	once(chat.Always)
	if starts() != 0 || len(r.asked()) != 0 || !r.noticed("nobody is there to ask") {
		t.Fatalf("nobody is there: %d starts, %q", starts(), r.notices)
	}
	r.o.Unattended = false

	once(chat.Once)
	if a := r.asks; len(a) != 1 || a[0].Tool != "start" || !a[0].Whole {
		t.Fatalf("asked: %+v", a)
	}
	var shown []string
	for _, l := range r.asks[0].Lines {
		shown = append(shown, l.Text)
	}
	for _, part := range []string{mcpclient.ProjectFile, "serve.sh", "sh", asServer} {
		if !strings.Contains(strings.Join(shown, "\n"), part) {
			t.Errorf("%q is not shown: %q", part, shown)
		}
	}
	once(chat.Always)
	once(chat.Deny) // it is not asked any more
	if starts() != 3 || len(r.asked()) != 2 {
		t.Fatalf("approved: %d starts", starts())
	}

	write("# another line")
	once(chat.Deny)
	if starts() != 3 || len(r.asked()) != 1 {
		t.Errorf("its script changed: %d starts", starts())
	}
	once(chat.Always)
	if starts() != 3 || len(r.asked()) != 0 || !r.noticed("you declined it") {
		t.Errorf("declined: %d starts, %q", starts(), r.notices)
	}
	write("")
	def["args"] = []string{"serve.sh", "more"}
	r.project(def)
	once(chat.Deny)
	if starts() != 3 || len(r.asked()) != 1 {
		t.Errorf("its definition changed: %d starts", starts())
	}
	// In another project the same content is another thing.
	r.o.Grants = r.grants.For(t.TempDir())
	def["args"] = []string{"serve.sh"}
	r.project(def)
	once(chat.Deny)
	if starts() != 3 || len(r.asked()) != 1 {
		t.Errorf("in another project: %d starts", starts())
	}
	// What was approved can be revoked.
	r.o.Grants = r.grants.For(r.dir)
	if _, err := r.grants.Revoke(t.Context(), func(grantOf) bool { return true }); err != nil {
		t.Fatal(err)
	}
	once(chat.Deny)
	if starts() != 3 || len(r.asked()) != 1 {
		t.Errorf("revoked: %d starts", starts())
	}
}

func TestACallIsNotRepeatedWhenItsServerEnds(t *testing.T) {
	r := newRig(t)
	r.own(r.program())
	c := r.open("")
	r.send(c, use("1", "mcp__test__die", `{}`), use("2", "mcp__test__say", `{"text":"again"}`))
	if got := r.result("1"); !got.IsError || !strings.Contains(got.Text, "was not run again") {
		t.Errorf("the call that killed it: %+v", got)
	}
	if got := r.result("2"); !strings.Contains(got.Text, "you said again") {
		t.Errorf("the next call: %+v", got)
	}
	if diff := cmp.Diff([]string{"start", "die", "start", "say again"}, r.did()); diff != "" {
		t.Error(diff)
	}
	if !r.noticed("The MCP server test ended, saying: I die") {
		t.Errorf("people were told: %q", r.notices)
	}
}

func TestAResumedSessionStartsAServerWithItsFirstCall(t *testing.T) {
	r := newRig(t)
	r.own(r.program())
	c := r.open("")
	r.send(c)
	before := r.offered()
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = r.open(c.ID())
	r.send(c)
	if diff := cmp.Diff(before, r.offered()); diff != "" || len(before) == 0 {
		t.Errorf("offered after the resume: %s", diff)
	}
	if diff := cmp.Diff([]string{"start"}, r.did()); diff != "" {
		t.Error(diff)
	}
	r.send(c, use("1", "mcp__test__say", `{"text":"late"}`))
	if got := r.result("1"); !strings.Contains(got.Text, "you said late") {
		t.Errorf("say: %+v", got)
	}
	if diff := cmp.Diff([]string{"start", "start", "say late"}, r.did()); diff != "" {
		t.Error(diff)
	}
}

func TestAnApprovalOfAToolEndsWithTheDefinitionOfItsServer(t *testing.T) {
	r := newRig(t)
	r.own(r.program())
	r.decide = func(chat.ApprovalRequest) chat.Decision { return chat.Always }
	c := r.open("")
	r.send(c, use("1", "mcp__test__say", `{"text":"a"}`), use("2", "mcp__test__say", `{"text":"b"}`))
	if n := len(r.asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	def := r.program()
	def["args"] = []string{"-test.run=none"}
	r.own(def)
	c = r.open(c.ID())
	r.send(c, use("3", "mcp__test__say", `{"text":"c"}`))
	if n := len(r.asked()); n != 1 {
		t.Errorf("asked %d times after it was defined anew", n)
	}
}

func TestProgramsAreHeldInTheSandbox(t *testing.T) {
	r := newRig(t)
	def := r.program()
	def["sandbox"] = map[string]any{"allow_hosts": []string{"example.org"}}
	r.own(def)
	var held []sandbox.Policy
	r.sandbox = &tool.Sandbox{Policy: func() sandbox.Policy { return sandbox.Policy{Root: r.dir, Home: "/home/ada"} },
		Confine: func(p sandbox.Policy, _ *exec.Cmd) (*sandbox.Fence, error) {
			held = append(held, p)
			return nil, errors.New("no further")
		}}
	r.send(r.open(""))
	if len(held) == 0 || held[0].Root != r.dir || !slices.Equal(held[0].Hosts, []string{"example.org"}) {
		t.Errorf("held by %+v", held)
	}
	if r.did()[0] != "" || !r.noticed("no further") {
		t.Errorf("it ran, or nobody was told: %q, %q", r.did(), r.notices)
	}
	// A project does not widen the sandbox it is held by, nor leave it.
	for _, more := range []map[string]any{{"allow_hosts": []string{"example.org"}}, {"off": true}} {
		held, r.files = nil, mcpclient.Files{}
		def["sandbox"] = more
		r.project(def)
		r.send(r.open(""))
		if len(held) == 0 || len(held[0].Hosts) != 0 || r.did()[0] != "" {
			t.Errorf("with %v a project's server is held by %+v", more, held)
		}
	}
}

// overHTTP is a server with an address.
func (r *rig) overHTTP(wrap func(http.Handler) http.Handler) string {
	all := server(r.journal)
	h := http.Handler(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return all }, nil))
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	r.t.Cleanup(s.Close)
	return s.URL
}

func TestAServerIsReachedByItsAddress(t *testing.T) {
	t.Setenv("TEST_TOKEN", "s3cret")
	r := newRig(t)
	wrong := 0
	address := r.overHTTP(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Header.Get("Authorization") != "Bearer s3cret" {
				wrong++
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, q)
		})
	})
	r.own(map[string]any{"type": "http", "url": address, "headers": map[string]string{"Authorization": "Bearer ${TEST_TOKEN}"}})
	c := r.open("")
	r.send(c, use("1", "mcp__test__say", `{"text":"over there"}`))
	if got := r.result("1"); !strings.Contains(got.Text, "you said over there") || wrong != 0 {
		t.Errorf("say: %+v, %d without the token", got, wrong)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.own(map[string]any{"type": "http", "url": address})
	r.send(r.open(""))
	if !r.noticed("put its token into the headers") {
		t.Errorf("without a token: %q", r.notices)
	}
}

func TestATokenIsNotSentWhereARedirectLeads(t *testing.T) {
	r := newRig(t)
	reached := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { reached = true }))
	t.Cleanup(elsewhere.Close)
	address := r.overHTTP(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, elsewhere.URL, http.StatusTemporaryRedirect)
		})
	})
	r.own(map[string]any{"url": address, "headers": map[string]string{"Authorization": "Bearer x"}})
	r.send(r.open(""))
	if reached || !r.noticed("redirect") {
		t.Errorf("reached: %v, told: %q", reached, r.notices)
	}
}

func TestALocalOnlySessionReachesNoServerElsewhere(t *testing.T) {
	r := newRig(t)
	r.own(map[string]any{"url": "https://mcp.example.org/mcp"})
	r.send(r.open(""))
	if len(r.offered()) != 0 || !r.noticed("local-only") {
		t.Errorf("offered: %q, told: %q", r.offered(), r.notices)
	}
}

func TestAPromptOfAServerIsAMessage(t *testing.T) {
	r := newRig(t)
	r.own(r.program())
	c := r.open("")
	r.send(c)
	s := c.Source().(*mcpclient.Clients)
	all := s.Prompts()
	if len(all) != 1 || all[0].Name != "greet" || all[0].Required != 1 {
		t.Fatalf("prompts: %+v", all)
	}
	blocks, err := s.Message(t.Context(), all[0], "Ada  very politely")
	if err != nil || len(blocks) != 1 || blocks[0].Text != "Greet Adavery politely" {
		t.Errorf("%+v, %v", blocks, err)
	}
	if _, err := s.Message(t.Context(), all[0], " "); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("without an argument: %v", err)
	}
}

func TestCloseEndsTheProgram(t *testing.T) {
	r := newRig(t)
	r.own(r.program())
	c := r.open("")
	r.send(c)
	s := c.Source().(*mcpclient.Clients)
	if got := s.Status()[0].State; got != mcpclient.StateRunning {
		t.Fatalf("state %s", got)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := s.Status()[0].State; got != mcpclient.StateIdle {
		t.Errorf("state %s after the end", got)
	}
	if err := s.Restart(t.Context(), "test"); err == nil {
		t.Error("it starts after the end")
	}
}
