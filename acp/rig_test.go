package acp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/acp"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/demo"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// slow is the demo model, which says a word and waits for its end when it is
// asked to hang, and ends its answer as it is told by "stop: REASON".
type slow struct{ *demo.Client }

func (m slow) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	if n := len(r.Entries); n > 0 && strings.HasPrefix(r.Entries[n-1].Text(), "stop: ") {
		return func(yield func(model.Event, error) bool) {
			yield(model.Event{Done: &model.Answer{Entry: tidemark.Say(tidemark.Assistant, "as far as this"), Stop: r.Entries[n-1].Text()[len("stop: "):]}}, nil)
		}
	}
	if n := len(r.Entries); n == 0 || !strings.Contains(r.Entries[n-1].Text(), "hang") {
		return m.Client.Stream(ctx, r)
	}
	return func(yield func(model.Event, error) bool) {
		yield(model.Event{Text: "well "}, nil)
		<-ctx.Done()
		yield(model.Event{}, ctx.Err())
	}
}

// rig is a store and a project that editors work with.
type rig struct {
	t     testing.TB
	store *store.Store
	dir   string
	o     acp.Options
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.store = store.New(memory.New(), &store.Options{Dead: func(tidemark.Holder) bool { return false }})
	book := grant.Open(t.TempDir(), "ada")
	talk := func(_ context.Context, o acp.Opening) (chat.Options, error) {
		return chat.Options{
			Store: r.store, Holder: tidemark.Holder{Program: "editor " + o.Client, PID: 1, Host: "here"}, Model: slow{demo.New(demo.Options{Delay: -1})},
			Name: "demo", Provider: "demo", System: "Be brief.", Session: tidemark.Session{Agent: "tidemark", Project: o.Folder},
			Title: func(first string) string { return strings.TrimSpace(first) }, Root: o.Folder, Grants: book.For(o.Folder),
			Box: func(s tool.State, f tool.Files, _ store.Limits, out func(string, []byte)) (*tool.Box, error) {
				return tool.New(tool.Options{Root: o.Folder, Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}, State: s, Files: f, Output: out})
			},
		}, nil
	}
	r.o = acp.Options{Store: r.store, Version: "test", Chat: talk, Folder: r.dir, Models: []string{"demo/other"},
		Model: func(_ *chat.Chat, name string) (agent.Model, error) {
			provider, name, ok := strings.Cut(name, "/")
			if !ok || provider != "demo" {
				return agent.Model{}, tidemark.Invalidf("no model %s", name)
			}
			return agent.Model{Client: demo.New(demo.Options{Delay: -1}), Provider: provider, Name: name}, nil
		},
		Commands: func(*chat.Chat, string) []acp.Command {
			return []acp.Command{{Name: "count", Input: "WORD", Help: "counts", Run: func(ctx context.Context, c *chat.Chat, folder, input string, out io.Writer) error {
				if input == "" {
					return tidemark.Invalidf("count what?")
				}
				n, err := c.Messages(ctx)
				fmt.Fprintf(out, "%s: %d\nin %s\n", input, n, folder)
				return err
			}}}
		},
		Hint: func(error) string { return "" },
	}
	return r
}

// editor is the other side, made of the SDK's connection.
type editor struct {
	t     testing.TB
	conn  *sdk.Connection
	in    *io.PipeWriter
	ended chan error
	stop  context.CancelFunc

	mu      sync.Mutex
	updates []sdk.SessionNotification
	asked   []sdk.RequestPermissionRequest
	answer  func(sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome
	news    chan struct{} // has an element when something came
}

// editor connects one, which says hello and allows once whatever is asked.
func (r *rig) editor() *editor {
	r.t.Helper()
	toAgent, in := io.Pipe()
	out, fromAgent := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	e := &editor{t: r.t, in: in, ended: make(chan error, 1), stop: stop, news: make(chan struct{}, 1)}
	e.answer = func(sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome {
		return sdk.NewRequestPermissionOutcomeSelected("allow-once")
	}
	go func() {
		err := acp.Serve(ctx, toAgent, fromAgent, r.o)
		fromAgent.Close()
		toAgent.Close()
		e.ended <- err
	}()
	e.conn = sdk.NewConnection(e.handle, in, out)
	e.conn.SetLogger(slog.New(slog.DiscardHandler))
	r.t.Cleanup(e.leave)
	call[struct{}](e, sdk.AgentMethodInitialize, sdk.InitializeRequest{ProtocolVersion: 1, ClientInfo: &sdk.Implementation{Name: "Test", Version: "1"}})
	return e
}

// leave closes the editor and waits for the agent's end.
func (e *editor) leave() {
	e.in.Close()
	select {
	case err := <-e.ended:
		e.ended <- err
	case <-time.After(time.Minute):
		e.t.Error("the agent does not end")
	}
}

func (e *editor) handle(_ context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() {
		select {
		case e.news <- struct{}{}:
		default:
		}
	}()
	switch method {
	case sdk.ClientMethodSessionUpdate:
		var n sdk.SessionNotification
		if err := json.Unmarshal(params, &n); err != nil {
			e.t.Errorf("an update that is none: %v: %s", err, params)
		}
		e.updates = append(e.updates, n)
		return nil, nil
	case sdk.ClientMethodSessionRequestPermission:
		var p sdk.RequestPermissionRequest
		if err := json.Unmarshal(params, &p); err != nil || p.Validate() != nil {
			e.t.Errorf("a question that is none: %v: %s", err, params)
		}
		e.asked = append(e.asked, p)
		return sdk.RequestPermissionResponse{Outcome: e.answer(p)}, nil
	}
	return nil, sdk.NewMethodNotFound(method)
}

func (e *editor) answers(answer func(sdk.RequestPermissionRequest) sdk.RequestPermissionOutcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *editor) questions() []sdk.RequestPermissionRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.asked)
}

func try[T any](e *editor, method string, params any) (T, error) {
	return sdk.SendRequest[T](e.conn, context.Background(), method, params)
}

func call[T any](e *editor, method string, params any) T {
	e.t.Helper()
	r, err := try[T](e, method, params)
	if err != nil {
		e.t.Fatalf("%s: %v", method, err)
	}
	return r
}

// refused wants an error with these words.
func refused(t testing.TB, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%v, want an error with %q", err, w)
		}
	}
}

func (e *editor) open(dir string) sdk.SessionId {
	e.t.Helper()
	return call[sdk.NewSessionResponse](e, sdk.AgentMethodSessionNew, sdk.NewSessionRequest{Cwd: dir, McpServers: []sdk.McpServer{}}).SessionId
}

func (e *editor) load(id sdk.SessionId, dir string) sdk.LoadSessionResponse {
	e.t.Helper()
	return call[sdk.LoadSessionResponse](e, sdk.AgentMethodSessionLoad, sdk.LoadSessionRequest{SessionId: id, Cwd: dir, McpServers: []sdk.McpServer{}})
}

func promptOf(id sdk.SessionId, text string) sdk.PromptRequest {
	return sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(text)}}
}

func (e *editor) say(id sdk.SessionId, text string) sdk.StopReason {
	e.t.Helper()
	return call[sdk.PromptResponse](e, sdk.AgentMethodSessionPrompt, promptOf(id, text)).StopReason
}

// shown is what the editor was told of a session, one line an update, with
// chunks of one message joined.
func (e *editor) shown(id sdk.SessionId) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var lines []string
	last := ""
	chunk := func(kind string, c sdk.ContentBlock, message *string) {
		text := "[no text]"
		if c.Text != nil {
			text = c.Text.Text
		}
		if name := kind + *message; name == last {
			lines[len(lines)-1] += text
		} else {
			lines = append(lines, kind+": "+text)
			last = name
		}
	}
	for _, n := range e.updates {
		if n.SessionId != id {
			continue
		}
		switch u := n.Update; {
		case u.UserMessageChunk != nil:
			chunk("user", u.UserMessageChunk.Content, u.UserMessageChunk.MessageId)
			continue
		case u.AgentMessageChunk != nil:
			chunk("agent", u.AgentMessageChunk.Content, u.AgentMessageChunk.MessageId)
			continue
		case u.AgentThoughtChunk != nil:
			chunk("thought", u.AgentThoughtChunk.Content, u.AgentThoughtChunk.MessageId)
			continue
		case u.ToolCall != nil:
			lines = append(lines, fmt.Sprintf("call: %s %s %s", u.ToolCall.Kind, u.ToolCall.Status, u.ToolCall.Title))
		case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
			lines = append(lines, fmt.Sprintf("call: %s", *u.ToolCallUpdate.Status))
		case u.Plan != nil:
			line := "plan:"
			for _, p := range u.Plan.Entries {
				line += fmt.Sprintf(" %s(%s)", p.Content, p.Status)
			}
			lines = append(lines, line)
		default:
			continue // it is about the session, and may come at any time
		}
		last = ""
	}
	return lines
}

func (e *editor) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updates, e.asked = nil, nil
}

// until waits for an update with these words in it.
func (e *editor) until(id sdk.SessionId, words string) {
	e.t.Helper()
	late := time.After(time.Minute)
	for {
		if slices.ContainsFunc(e.shown(id), func(line string) bool { return strings.Contains(line, words) }) {
			return
		}
		select {
		case <-e.news:
		case <-late:
			e.t.Fatalf("%q does not come; there is\n%s", words, strings.Join(e.shown(id), "\n"))
		}
	}
}

func (e *editor) list(p sdk.ListSessionsRequest) sdk.ListSessionsResponse {
	e.t.Helper()
	return call[sdk.ListSessionsResponse](e, sdk.AgentMethodSessionList, p)
}

// writer takes a session as another process would.
func (r *rig) writer(id sdk.SessionId) *store.Writer {
	r.t.Helper()
	w, err := r.store.Attach(context.Background(), tidemark.SessionID(id), tidemark.Holder{Program: "tidemark chat", PID: 2, Host: "ada"})
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}
