package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model/demo"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

func FuzzCursor(f *testing.F) {
	f.Add(cursorOf(store.Info{Session: tidemark.Session{ID: tidemark.NewSessionID()}, UpdatedAt: time.Unix(1, 2)}))
	f.Add("e30")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		i, err := parseCursor(text)
		if err != nil {
			return
		}
		again, err := parseCursor(cursorOf(i))
		if err != nil || again.ID != i.ID || !again.UpdatedAt.Equal(i.UpdatedAt) {
			t.Errorf("%+v comes back as %+v, %v", i, again, err)
		}
	})
}

// FuzzPrompt: whatever an editor sends is refused, or is a message that can be
// kept and shown again.
func FuzzPrompt(f *testing.F) {
	for _, seed := range []string{
		`[{"type":"text","text":"hello"}]`,
		`[{"type":"image","data":"AAAA","mimeType":"image/png","uri":"file:///a"}]`,
		`[{"type":"resource_link","name":"a","uri":"file:///C:/a%20b"},{"type":"audio","data":"","mimeType":""}]`,
		`[{"type":"resource","resource":{"uri":"file:///a","text":"x"}},{"type":"resource","resource":{"uri":"zed:///a","blob":"AAAA","mimeType":"application/pdf"}}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var prompt []sdk.ContentBlock
		if json.Unmarshal(raw, &prompt) != nil {
			return
		}
		blocks, _, err := blocksOf(prompt)
		if err != nil {
			return
		}
		e := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.User, Blocks: blocks, Seq: 1}
		if _, err := e.Line(); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		newScreen("/p", marshals(t)).entry(e)
	})
}

// marshals wants updates that can be sent.
func marshals(t *testing.T) func(sdk.SessionUpdate) {
	return func(u sdk.SessionUpdate) {
		if _, err := json.Marshal(u); err != nil {
			t.Errorf("%+v: %v", u, err)
		}
	}
}

// FuzzCall: whatever a model wants to call is shown, in one clean line and
// without leaving the folder for what is relative.
func FuzzCall(f *testing.F) {
	f.Add("bash", []byte(`{"command":"ls\n-l"}`), "w")
	f.Add("edit", []byte(`{"path":"a.go","old_string":"x","new_string":"y","offset":3}`), "")
	f.Add("write", []byte(`{"path":"../../etc/passwd","content":"x"}`), "")
	f.Add("task", []byte(`{"action":"add","text":"\u001b[2J"}`), "")
	f.Add("x", []byte(`nonsense`), "")
	folder, err := filepath.Abs(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, input []byte, worker string) {
		c := newCall(folder, worker, "id", name, input)
		if title := c.title(); !utf8.ValidString(title) || strings.ContainsAny(title, "\n\r\x1b") || len(title) > 4*maxTitle+8 {
			t.Errorf("title %q", title)
		}
		if p := c.path(); p != "" && !filepath.IsAbs(p) {
			t.Errorf("path %q", p)
		}
		show := marshals(t)
		show(c.begun(false))
		show(ended(worker, tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: "id", Text: string(input)}, c.diff(false)))
		if _, err := json.Marshal(c.asked("text")); err != nil {
			t.Error(err)
		}
	})
}

// FuzzServe: whatever comes over the wire, what goes out is the protocol, and
// the end comes.
func FuzzServe(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}` + "\n" + `{"jsonrpc":"2.0","id":"2","method":"session/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"00000000-0000-4000-8000-000000000000","cwd":"/","mcpServers":null}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"x","prompt":[{"type":"text","text":"a"}]}}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}` + "\n[]\nnull\n{}\n\n",
		`{"jsonrpc":"2.0","id":1,"method":"session/set_config_option","params":{"sessionId":"x","configId":"model","value":"y"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/delete"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"session/fork","params":[]}`,
		`{"jsonrpc":"2.0","id":{},"result":{}}` + "\n" + `{"method":"$/cancel_request","params":{"requestId":1}}`,
	} {
		f.Add([]byte(seed))
	}
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, in []byte) {
		s := store.New(memory.New(), nil)
		defer s.Close()
		out := &checked{}
		err := Serve(t.Context(), bytes.NewReader(in), out, Options{Store: s, Chat: func(context.Context, Opening) (chat.Options, error) {
			return chat.Options{Store: s, Model: demo.New(demo.Options{Delay: -1}), Name: "demo", Provider: "demo", Without: []string{"*"},
				Box: func(st tool.State, files tool.Files, _ store.Limits, _ func(string, []byte)) (*tool.Box, error) {
					return tool.New(tool.Options{Root: root, State: st, Files: files})
				}}, nil
		}, Commands: func(*chat.Chat, string) []Command {
			return []Command{{Name: "a", Run: func(context.Context, *chat.Chat, string, string, io.Writer) error { return nil }}}
		}})
		out.mu.Lock()
		defer out.mu.Unlock()
		if err != nil || out.bad != "" {
			t.Fatalf("%v, and this went out: %s", err, out.bad)
		}
	})
}

// checked notes a message that is none of the protocol.
type checked struct {
	mu  sync.Mutex
	bad string
}

func (c *checked) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var m struct{ JSONRPC string }
	if json.Unmarshal(b, &m) != nil || m.JSONRPC != "2.0" || !bytes.HasSuffix(b, []byte("\n")) {
		c.bad = string(b)
	}
	return len(b), nil
}
