package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// machine is an empty home in which the real program is run.
type machine struct {
	*testing.T
	bin, home string
	store     string
}

func newMachine(t *testing.T, store string) *machine {
	m := &machine{T: t, bin: filepath.Join(commandDir(t), "tidemark"), home: t.TempDir()}
	m.store = strings.ReplaceAll(store, "HOME", m.home)
	m.run(`{"role":"user","content":"Why is the lighthouse dark?"}`+"\n"+`{"role":"assistant","content":"The lamp is broken."}`, "append", "new", "--session-meta", `{"title":"Lamp"}`)
	return m
}

func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.Command(m.bin, args...)
	cmd.Dir = m.home
	cmd.Env = append(os.Environ(), "HOME="+m.home, "XDG_DATA_HOME="+m.home+"/data", "XDG_CONFIG_HOME="+m.home+"/config", "TIDEMARK_STORE="+m.store)
	return cmd
}

func (m *machine) run(stdin string, args ...string) string {
	m.Helper()
	cmd := m.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		m.Fatalf("%v: %v", args, err)
	}
	return string(out)
}

// agent starts tidemark mcp as an agent would.
func (m *machine) agent(args ...string) (*sdk.ClientSession, *exec.Cmd) {
	m.Helper()
	cmd := m.command(append([]string{"mcp"}, args...)...)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil).Connect(m.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		m.Fatal(err)
	}
	return c, cmd
}

func (m *machine) ask(c *sdk.ClientSession, tool string, args map[string]any) string {
	m.Helper()
	res, err := c.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		m.Fatalf("%s: %v", tool, err)
	}
	text := res.Content[0].(*sdk.TextContent).Text
	if res.IsError {
		m.Fatalf("%s: %s", tool, text)
	}
	return text
}

func TestAnAgentStartsTheServerAndEndsItByItsStdin(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{"sqlite": "sqlite:HOME/s.db", "files": "files:HOME/s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, store)
			c, cmd := m.agent()
			if got := m.ask(c, "search_sessions", map[string]any{"query": "lamp broken"}); !strings.Contains(got, "The lamp is broken.") {
				t.Errorf("search: %s", got)
			}
			// What others write while it runs is found as well.
			m.run(`{"role":"user","content":"Order another bulb."}`, "append", "last")
			if got := m.ask(c, "search_sessions", map[string]any{"query": "bulb", "project": "."}); !strings.Contains(got, "Order another bulb.") {
				t.Errorf("search: %s", got)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestTwoServersOnOneStoreKeepWhatBothWrite(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "sqlite:HOME/s.db")
	var both sync.WaitGroup
	for n := range 2 {
		c, _ := m.agent("--allow-write")
		defer c.Close()
		both.Go(func() {
			for i := range 15 {
				m.ask(c, "write_memory", map[string]any{"text": fmt.Sprintf("fact %d of server %d", i, n)})
			}
		})
	}
	both.Wait()
	if got := strings.Count(m.run("", "memory", "ls"), "\n"); got != 30 {
		t.Errorf("%d of 30 are kept", got)
	}
}

func TestASignalEndsTheServer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signal of another process can be caught here")
	}
	m := newMachine(t, "sqlite:HOME/s.db")
	c, cmd := m.agent()
	m.ask(c, "list_sessions", nil)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		c.Close()
	}
	c.Close()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("it ended as %v", cmd.ProcessState)
	}
}

// overHTTP starts tidemark mcp --http and returns where it is, and its token.
func (m *machine) overHTTP(args ...string) (url, token string) {
	m.Helper()
	cmd := m.command(append([]string{"mcp", "--http", "127.0.0.1:0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		m.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil && runtime.GOOS != "windows" {
			m.Errorf("it ended with %v", err)
		}
	})
	lines := bufio.NewScanner(stderr)
	for url == "" && lines.Scan() {
		if found := regexp.MustCompile(`^Serving at (\S+)$`).FindStringSubmatch(lines.Text()); found != nil {
			url = found[1] + "/mcp"
		}
	}
	go func() {
		for lines.Scan() { // so that it never waits for us
		}
	}()
	b, err := os.ReadFile(filepath.Join(m.home, "data/tidemark/mcp.token"))
	if err != nil || url == "" {
		m.Fatalf("url %q: %v", url, err)
	}
	return url, strings.TrimSpace(string(b))
}

// withToken sends a token with each request.
type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

func TestAnAgentReachesTheServerOverHTTPWithTheToken(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "sqlite:HOME/s.db")
	url, token := m.overHTTP("--allow-write")
	c, err := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(),
		&sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: withToken(token)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := m.ask(c, "read_session", map[string]any{"session": "Lamp@2"}); !strings.Contains(got, "The lamp is broken.") {
		t.Errorf("read: %s", got)
	}
	m.ask(c, "hand_over", map[string]any{"session": "last", "note": "Order a lamp."})
	if got := m.run("", "memory", "ls"); !strings.Contains(got, "Order a lamp.") {
		t.Errorf("memory: %s", got)
	}
	for name, change := range map[string]func(*http.Request) int{
		"without a token":      func(r *http.Request) int { r.Header.Del("Authorization"); return 401 },
		"with another token":   func(r *http.Request) int { r.Header.Set("Authorization", "Bearer x"); return 401 },
		"from another page":    func(r *http.Request) int { r.Header.Set("Origin", "https://evil.example"); return 403 },
		"under another name":   func(r *http.Request) int { r.Host = "evil.example"; return 421 },
		"for another path":     func(r *http.Request) int { r.URL.Path = "/api/v1/sessions"; return 404 },
		"for the path of none": func(r *http.Request) int { r.URL.Path = "/healthz"; return 404 },
	} {
		r, err := http.NewRequest("POST", url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		want := change(r)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", name, res.StatusCode, want)
		}
	}
}

// TestTheExampleServersOfMCPAreUsed has a conversation call the servers that show
// what the protocol can do, in the sandbox and over HTTP. MCP_NODE_MODULES is a
// folder below which npm install has put them.
func TestTheExampleServersOfMCPAreUsed(t *testing.T) {
	t.Parallel()
	project := os.Getenv("MCP_NODE_MODULES")
	if project == "" {
		t.Skip("MCP_NODE_MODULES does not say where the example servers are installed")
	}
	project, err := filepath.EvalSymlinks(project)
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, "sqlite:HOME/s.db")
	run := func(args ...string) string {
		cmd := m.command(args...)
		cmd.Dir = project
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	program := func(name string) string {
		return filepath.Join(project, "node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	}
	made := filepath.Join(project, "made.txt")
	graph := filepath.Join(project, "graph.jsonl")
	defer os.Remove(made)
	defer os.Remove(graph)
	run("mcp", "add", "everything", "--", "node", program("everything"))
	run("mcp", "add", "filesystem", "--", "node", program("filesystem"), project)
	run("mcp", "add", "memory", "--env", "MEMORY_FILE_PATH="+graph, "--", "node", program("memory"))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().(*net.TCPAddr)
	free.Close()
	remote := exec.CommandContext(t.Context(), "node", program("everything"), "streamableHttp")
	remote.Env = append(os.Environ(), fmt.Sprint("PORT=", address.Port))
	if err := remote.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { remote.Process.Kill(); remote.Wait() }()
	run("mcp", "add", "far", "http://"+address.String()+"/mcp")
	for _, c := range []struct{ call, want string }{
		{`everything__echo {"message":"the tide"}`, "Echo: the tide"},
		{`everything__get-sum {"a":3,"b":4}`, "The sum of 3 and 4 is 7."},
		{`everything__get-tiny-image {}`, "[image, image/png,"},
		{`everything__get-structured-content {"location":"New York"}`, `"temperature":`},
		{`everything__read_resource {"uri":"demo://resource/static/document/features.md"}`, "Everything Server"},
		{`everything__get-roots-list {}`, "file://" + filepath.ToSlash(project)},
		{`everything__trigger-long-running-operation {"duration":1,"steps":3}`, "Long running operation completed"},
		{`everything__trigger-elicitation-request {}`, "User declined"},
		{`filesystem__write_file {"path":"` + filepath.ToSlash(made) + `","content":"high water"}`, "Successfully wrote"},
		{`filesystem__read_text_file {"path":"` + filepath.ToSlash(made) + `"}`, "high water"},
		{`filesystem__read_text_file {"path":"/etc/passwd"}`, "Access denied"},
		{`memory__create_entities {"entities":[{"name":"moon","entityType":"body","observations":["pulls"]}]}`, "moon"},
		{`memory__read_graph {}`, "pulls"},
		{`far__echo {"message":"over HTTP"}`, "Echo: over HTTP"},
	} {
		if said := run("chat", "--provider", "demo", "--yes", "-q", "-p", "call mcp__"+c.call); !strings.Contains(said, c.want) {
			t.Errorf("%s: %q is not in %s", c.call, c.want, said)
		}
	}
	prompts := m.command("chat", "--provider", "demo", "--name", "prompted")
	prompts.Dir, prompts.Stdin = project, strings.NewReader("/mcp__everything__args-prompt Bremen\n")
	if out, err := prompts.CombinedOutput(); err != nil {
		t.Errorf("%v %s", err, out)
	}
	if said := run("show", "prompted"); !strings.Contains(said, "Bremen") {
		t.Errorf("the prompt was not sent: %s", said)
	}
}

// TestTheTypeScriptClientTalksToTheServer runs the official client of another
// language. MCP_NODE_MODULES is the folder in which npm install
// @modelcontextprotocol/sdk was run.
func TestTheTypeScriptClientTalksToTheServer(t *testing.T) {
	t.Parallel()
	if os.Getenv("MCP_NODE_MODULES") == "" {
		t.Skip("MCP_NODE_MODULES does not say where @modelcontextprotocol/sdk is installed")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, "sqlite:HOME/s.db")
	url, token := m.overHTTP()
	for name, args := range map[string][]string{"stdio": {"stdio", m.bin, "mcp"}, "http": {"http", url, token}} {
		t.Run(name, func(t *testing.T) {
			script, err := filepath.Abs("testdata/mcpclient/client.mjs")
			if err != nil {
				t.Fatal(err)
			}
			cmd := m.command()
			cmd.Path, cmd.Args = node, append([]string{node, script}, args...)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{
				`{"step":"server","value":"tidemark"}`,
				`{"step":"tools","value":["list_memory","list_reviews","list_sessions","read_memory","read_session","search_sessions"]}`,
				`{"step":"hits","value":1}`,
				`Why is the lighthouse dark?\n\n#2 assistant`,
				`{"step":"missing","value":true}`,
				`write_memory is not allowed`,
				`{"step":"resources","value":2}`,
				`{"step":"page","value":"# Lamp"}`,
				`{"step":"prompt","value":1}`,
			} {
				if !strings.Contains(string(out), want) {
					t.Errorf("%s is not in\n%s", want, out)
				}
			}
		})
	}
}
