package mcpclient_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/mcpclient"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// asServer is the variable that makes this program a server; its value is a
// file that gets a line for each start and each call.
const asServer = "MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	if journal := os.Getenv(asServer); journal != "" {
		note(journal, "start")
		if err := server(journal).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// note adds a line to the journal of a server.
func note(journal, line string) {
	f, err := os.OpenFile(journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, line)
		f.Close()
	}
	if err != nil {
		panic(err)
	}
}

type said struct {
	Text string `json:"text"`
}

// server is a server of the official SDK.
func server(journal string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	reply := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	}
	sdk.AddTool(s, &sdk.Tool{Name: "say", Description: "Says it again."}, func(_ context.Context, _ *sdk.CallToolRequest, in said) (*sdk.CallToolResult, any, error) {
		note(journal, "say "+in.Text)
		return reply("you said " + in.Text), nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "die"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		note(journal, "die")
		fmt.Fprintln(os.Stderr, "I die\x1b[31m")
		os.Exit(3)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "picture.of/it"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{MIMEType: "image/png", Data: []byte("png")}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "ask"}, func(_ context.Context, q *sdk.CallToolRequest, in said) (*sdk.CallToolResult, any, error) {
		if got, ok := q.Params.InputResponses["form"].(*sdk.ElicitResult); ok {
			b, err := json.Marshal(got.Content)
			return reply(got.Action + " " + string(b)), nil, err
		}
		form := &sdk.ElicitParams{Message: "Where to?\x1b[31m", RequestedSchema: json.RawMessage(in.Text)}
		if strings.HasPrefix(in.Text, "https:") {
			form = &sdk.ElicitParams{Mode: "url", Message: "Sign in", URL: in.Text, ElicitationID: "1"}
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"form": form}}, nil, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet", Description: "Greets.", Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}, {Name: "how"}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Greet " + r.Params.Arguments["who"] + r.Params.Arguments["how"]}}}}, nil
		})
	s.AddResource(&sdk.Resource{URI: "mem://notes", Name: "notes"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "mem://notes", Text: "the notes"}}}, nil
	})
	return s
}

// rig is a conversation with servers and a model that does as it is told.
type rig struct {
	t       *testing.T
	dir     string
	journal string
	files   mcpclient.Files
	store   *store.Store
	grants  *grant.Book
	o       chat.Options
	sandbox *tool.Sandbox

	mu       sync.Mutex
	requests []model.Request
	replies  []tidemark.Block // what the model calls, one an answer
	asks     []chat.ApprovalRequest
	notices  []string
	decide   func(chat.ApprovalRequest) chat.Decision
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, dir: t.TempDir(), journal: filepath.Join(t.TempDir(), "journal"), store: store.New(memory.New(), &store.Options{Dead: func(tidemark.Holder) bool { return true }}),
		grants: grant.Open(t.TempDir(), "ada"), decide: func(chat.ApprovalRequest) chat.Decision { return chat.Once }}
	r.o = chat.Options{
		Store: r.store, Holder: tidemark.Holder{Program: "test", PID: 1, Host: "here"}, Model: r, Name: "m", Provider: "scripted", Root: r.dir, Grants: r.grants.For(r.dir),
		Box: func(s tool.State, f tool.Files, _ store.Limits, out func(string, []byte)) (*tool.Box, error) {
			return tool.New(tool.Options{Root: r.dir, Environ: os.Environ(), State: s, Files: f, Output: out})
		},
		Approve: func(_ context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.asks = append(r.asks, a)
			return r.decide(a), nil
		},
		Show: func(e chat.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if e.Notice != "" {
				r.notices = append(r.notices, e.Notice)
			}
		},
	}
	return r
}

// program is a definition that starts this program as a server.
func (r *rig) program() map[string]any {
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	return map[string]any{"command": self, "env": map[string]string{asServer: r.journal}}
}

// define writes a file with one server, named test.
func (r *rig) define(file string, def map[string]any) {
	r.t.Helper()
	b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"test": def}})
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// own has the person define the server, project the project's authors.
func (r *rig) own(def map[string]any) {
	r.files.Own = filepath.Join(r.t.TempDir(), "mcp.json")
	r.define(r.files.Own, def)
}

func (r *rig) project(def map[string]any) {
	r.files.Project = r.dir
	r.define(filepath.Join(r.dir, mcpclient.ProjectFile), def)
}

// open begins a conversation, or resumes one.
func (r *rig) open(id tidemark.SessionID) *chat.Chat {
	r.t.Helper()
	servers, err := r.files.Read()
	o := r.o
	o.More = mcpclient.New(mcpclient.Options{Servers: servers, Problem: err, Project: r.dir, Environ: os.Environ(), Variables: os.Environ(), Sandbox: r.sandbox})
	var c *chat.Chat
	if id == "" {
		c, err = chat.New(o)
	} else {
		c, err = chat.Resume(r.t.Context(), o, id)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// send sends a message, and has the model call these before it ends.
func (r *rig) send(c *chat.Chat, calls ...tidemark.Block) {
	r.t.Helper()
	r.mu.Lock()
	r.replies = calls
	r.mu.Unlock()
	if _, err := c.Send(context.Background(), tidemark.Text("go")); err != nil {
		r.t.Fatal(err)
	}
}

func use(id, name, input string) tidemark.Block {
	return tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: name, Input: json.RawMessage(input)}
}

func (r *rig) Parts(model.Request) ([][]byte, error) { return nil, nil }

func (r *rig) Stream(_ context.Context, q model.Request) iter.Seq2[model.Event, error] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q)
	e := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Blocks: []tidemark.Block{tidemark.Text("ok")}}
	if len(r.replies) > 0 {
		e.Blocks, r.replies = []tidemark.Block{r.replies[0]}, r.replies[1:]
	}
	return func(yield func(model.Event, error) bool) {
		yield(model.Event{Done: &model.Answer{Entry: e, Stop: model.StopEnd}}, nil)
	}
}

// offered returns the names of the server's tools in the last request.
func (r *rig) offered() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.requests[len(r.requests)-1].Tools {
		if strings.HasPrefix(t.Name, "mcp__") {
			names = append(names, t.Name)
		}
	}
	return names
}

// result returns what the model got for a call.
func (r *rig) result(id string) tidemark.Block {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range slices.Backward(r.requests) {
		for _, e := range q.Entries {
			for _, b := range e.Blocks {
				if b.Type == tidemark.BlockToolResult && b.ToolUseID == id {
					return b
				}
			}
		}
	}
	r.t.Fatalf("no result of %s", id)
	return tidemark.Block{}
}

// asked returns the tools that the person was asked about, and forgets them.
func (r *rig) asked() (tools []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.asks {
		tools = append(tools, a.Tool)
	}
	r.asks = nil
	return tools
}

func (r *rig) noticed(part string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.notices, func(n string) bool { return strings.Contains(n, part) })
}

// did returns the lines of the journal.
func (r *rig) did() []string {
	b, err := os.ReadFile(r.journal)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}
