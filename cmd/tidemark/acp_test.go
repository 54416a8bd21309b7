//go:build !windows

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"
)

// editor is a client of the SDK that started the program.
type editor struct {
	*sdk.ClientSideConnection
	t      *testing.T
	cmd    *exec.Cmd
	in     io.Closer
	stderr *bytes.Buffer

	mu      sync.Mutex
	heard   []sdk.SessionUpdate
	asked   int
	news    chan struct{}
	noise   bytes.Buffer // what came on stdout
	exited  chan struct{}
	failure error
}

var _ sdk.Client = (*editor)(nil)

func openEditor(t *testing.T, dir string, args ...string) *editor {
	t.Helper()
	cmd := tidemarkIn(dir, append([]string{"acp", "--provider", "demo"}, args...)...)
	e := &editor{t: t, cmd: cmd, stderr: new(bytes.Buffer), news: make(chan struct{}, 1), exited: make(chan struct{})}
	cmd.Stderr = e.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.in = in
	whole, copied := io.Pipe()
	go func() {
		io.Copy(io.MultiWriter(copied, &e.noise), out)
		copied.Close()
		e.failure = cmd.Wait()
		close(e.exited)
	}()
	e.ClientSideConnection = sdk.NewClientSideConnection(e, in, whole)
	e.SetLogger(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-e.exited
	})
	_, err = e.Initialize(t.Context(), sdk.InitializeRequest{ProtocolVersion: sdk.ProtocolVersionNumber, ClientInfo: &sdk.Implementation{Name: "Ed", Version: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *editor) RequestPermission(context.Context, sdk.RequestPermissionRequest) (r sdk.RequestPermissionResponse, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	r.Outcome = sdk.NewRequestPermissionOutcomeSelected("allow-always")
	return r, nil
}

func (e *editor) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, n.Update)
	select {
	case e.news <- struct{}{}:
	default:
	}
	return nil
}

func (e *editor) ReadTextFile(context.Context, sdk.ReadTextFileRequest) (r sdk.ReadTextFileResponse, err error) {
	return r, sdk.NewMethodNotFound("fs/read_text_file")
}

func (e *editor) WriteTextFile(context.Context, sdk.WriteTextFileRequest) (r sdk.WriteTextFileResponse, err error) {
	return r, sdk.NewMethodNotFound("fs/write_text_file")
}

func (e *editor) CreateTerminal(context.Context, sdk.CreateTerminalRequest) (r sdk.CreateTerminalResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/create")
}

func (e *editor) KillTerminal(context.Context, sdk.KillTerminalRequest) (r sdk.KillTerminalResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/kill")
}

func (e *editor) TerminalOutput(context.Context, sdk.TerminalOutputRequest) (r sdk.TerminalOutputResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/output")
}

func (e *editor) ReleaseTerminal(context.Context, sdk.ReleaseTerminalRequest) (r sdk.ReleaseTerminalResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/release")
}

func (e *editor) WaitForTerminalExit(context.Context, sdk.WaitForTerminalExitRequest) (r sdk.WaitForTerminalExitResponse, err error) {
	return r, sdk.NewMethodNotFound("terminal/wait_for_exit")
}

func (e *editor) open() sdk.SessionId {
	e.t.Helper()
	a, err := e.NewSession(e.t.Context(), sdk.NewSessionRequest{Cwd: e.cmd.Dir, McpServers: []sdk.McpServer{}})
	if err != nil {
		e.t.Fatal(err)
	}
	return a.SessionId
}

func (e *editor) load(id sdk.SessionId) {
	e.t.Helper()
	if _, err := e.LoadSession(e.t.Context(), sdk.LoadSessionRequest{SessionId: id, Cwd: e.cmd.Dir, McpServers: []sdk.McpServer{}}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *editor) say(id sdk.SessionId, text string) string {
	e.t.Helper()
	e.mu.Lock()
	e.heard = nil
	e.mu.Unlock()
	if _, err := e.Prompt(e.t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(text)}}); err != nil {
		e.t.Fatalf("%q: %v", text, err)
	}
	return e.said()
}

// said is all text that was heard.
func (e *editor) said() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var b strings.Builder
	for _, u := range e.heard {
		switch {
		case u.UserMessageChunk != nil:
			b.WriteString("\nuser: " + u.UserMessageChunk.Content.Text.Text + "\n")
		case u.AgentMessageChunk != nil:
			b.WriteString(u.AgentMessageChunk.Content.Text.Text)
		case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
			b.WriteString("\n[" + string(*u.ToolCallUpdate.Status) + "]\n")
		}
	}
	return b.String()
}

func (e *editor) until(words string) {
	e.t.Helper()
	late := time.After(time.Minute)
	for !strings.Contains(e.said(), words) {
		select {
		case <-e.news:
		case <-late:
			e.t.Fatalf("%q does not come; there is\n%s\n%s", words, e.said(), e.stderr)
		}
	}
}

// exit waits for the end of the program, and wants its code and nothing but the
// protocol on its stdout.
func (e *editor) exit(code int) {
	e.t.Helper()
	select {
	case <-e.exited:
	case <-time.After(time.Minute):
		e.t.Fatal("it does not end")
	}
	got := 0
	var failed *exec.ExitError
	if errors.As(e.failure, &failed) {
		got = failed.ExitCode()
	}
	if got != code {
		e.t.Errorf("exit code %d, want %d: %s", got, code, e.stderr)
	}
	for line := range bytes.Lines(e.noise.Bytes()) {
		var m struct{ JSONRPC string }
		if err := json.Unmarshal(line, &m); (err != nil || m.JSONRPC != "2.0") && code >= 0 {
			e.t.Errorf("on stdout: %q", line)
		}
	}
}

func TestAnEditorFindsEverythingAfterItsAgentWasKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openEditor(t, dir)
	id := e.open()
	e.say(id, "run echo one")
	e.say(id, "run echo two")
	if e.asked != 1 {
		t.Errorf("asked %d times", e.asked)
	}
	go e.Prompt(context.Background(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("run echo begun > begun; until [ -e over ]; do sleep 0.1; done")}})
	for thereIsNot := true; thereIsNot; {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		if thereIsNot = err != nil; thereIsNot {
			time.Sleep(10 * time.Millisecond)
		}
	}
	if err := e.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	e.exit(-1)
	defer os.WriteFile(filepath.Join(dir, "over"), nil, 0o600) // what it ran ends

	again := openEditor(t, dir)
	list, err := again.ListSessions(t.Context(), sdk.ListSessionsRequest{Cwd: &dir})
	if err != nil || len(list.Sessions) != 1 || list.Sessions[0].SessionId != id || *list.Sessions[0].Title != "run echo one" {
		t.Fatalf("%+v %v", list, err)
	}
	again.load(id)
	said := again.said()
	for _, want := range []string{"user: run echo one", "[completed]", "user: run echo two", "user: run echo begun", "[failed]"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if again.say(id, "run echo three"); again.asked != 0 {
		t.Error("what was allowed for the session is asked again")
	}
	// The commands of a chat work, and their output is no message.
	if said := again.say(id, "/tree"); !strings.Contains(said, "n0 (5 msgs)") || !strings.Contains(said, "n3 (16 msgs) *") {
		t.Error(said)
	}
	if said := again.say(id, "/branch n0"); !strings.Contains(said, "Branched from n0") {
		t.Error(said)
	}
	if said := again.say(id, "what have I said so far?"); strings.Contains(said, "echo two") || !strings.Contains(said, "1. run echo one") {
		t.Error(said)
	}
	again.in.Close()
	again.exit(0)
	if !strings.Contains(again.stderr.String(), "Session saved: "+string(id)) {
		t.Error(again.stderr)
	}
	out, err := tidemarkIn(dir, "lock", string(id)).Output()
	if err != nil || !strings.Contains(string(out), "held by nobody") {
		t.Errorf("%v %s", err, out)
	}
}

func TestEverySignalSavesTheSessionsOfAnEditor(t *testing.T) {
	t.Parallel()
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e := openEditor(t, dir)
			id := e.open()
			e.say(id, "hello")
			go e.Prompt(context.Background(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("run sleep 60")}})
			e.until("[in_progress]")
			if err := e.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			e.exit(code)
			out, err := tidemarkIn(dir, "lock", string(id)).Output()
			if err != nil || !strings.Contains(string(out), "held by nobody") {
				t.Errorf("%v %s", err, out)
			}
		})
	}
}

// TestAnEditorThatIsGoneIsNoEndWithoutSaving: whoever writes to nobody gets a
// signal that ends most programs.
func TestAnEditorThatIsGoneIsNoEndWithoutSaving(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := tidemarkIn(dir, "acp", "--provider", "demo")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"`+dir+`","mcpServers":[]}}`+"\n")
	var a, commands struct{ Result sdk.NewSessionResponse }
	said := json.NewDecoder(r)
	if err := errors.Join(said.Decode(&a), said.Decode(&commands)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	prompt, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "session/prompt",
		"params": sdk.PromptRequest{SessionId: a.Result.SessionId, Prompt: []sdk.ContentBlock{sdk.TextBlock("hello")}}})
	if err != nil {
		t.Fatal(err)
	}
	in.Write(append(prompt, '\n')) // and stdin stays open
	if err := cmd.Wait(); err != nil || !strings.Contains(stderr.String(), "Session saved: "+string(a.Result.SessionId)) {
		t.Errorf("%v %s", err, &stderr)
	}
}

func TestAnEditorReadsAlongWithAChat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openEditor(t, dir)
	id := e.open()
	e.say(id, "hello")
	if _, err := e.CloseSession(t.Context(), sdk.CloseSessionRequest{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	c := tidemarkIn(dir, "chat", "--provider", "demo", "--resume", string(id))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "from the terminal\n")
	for held := false; !held; {
		out, err := tidemarkIn(dir, "lock", string(id)).Output()
		if err != nil {
			t.Fatal(err)
		}
		held = strings.Contains(string(out), "tidemark chat")
	}
	e.load(id)
	e.until("user: from the terminal")
	_, err = e.Prompt(t.Context(), sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock("from the editor")}})
	if err == nil || !strings.Contains(err.Error(), "is open in tidemark chat") {
		t.Errorf("%v", err)
	}
	if said := e.say(id, "/take-over"); !strings.Contains(said, "written to from here now") {
		t.Error(said)
	}
	in.Close()
	if err := c.Wait(); err != nil {
		t.Errorf("the chat: %v", err)
	}
	if said := e.say(id, "what have I said so far?"); !strings.Contains(said, "2. from the terminal") {
		t.Error(said)
	}
}
