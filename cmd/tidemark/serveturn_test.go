//go:build !windows

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/config"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/demo"
	"github.com/tidemark-sessions/tidemark/server"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// overheard is the demo model, and what it was sent.
type overheard struct {
	*demo.Client
	mu   sync.Mutex
	sent bytes.Buffer
}

func (m *overheard) Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	parts, err := m.Parts(r)
	m.mu.Lock()
	for _, p := range parts {
		m.sent.Write(p)
	}
	m.mu.Unlock()
	if err != nil {
		return func(yield func(model.Event, error) bool) { yield(model.Event{}, err) }
	}
	return m.Client.Stream(ctx, r)
}

// heard is what was sent since the last time that it was asked for.
func (m *overheard) heard() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.sent.Reset()
	return m.sent.String()
}

// anybody lets everybody in as one user.
type anybody struct{}

func (anybody) Authenticate(*http.Request) (request.Caller, error) {
	return request.Caller{Principal: tidemark.TenantOf("a", "jo"), Name: "jo", Role: request.Writer}, nil
}

// speaker is a client of a served chat.
type speaker struct {
	*websocket.Conn
	t *testing.T
}

func (c *speaker) say(m api.SocketRequest) {
	c.t.Helper()
	b, err := json.Marshal(m)
	if err == nil {
		err = c.Write(c.t.Context(), websocket.MessageText, b)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// until hears messages up to one of a type, allows what is asked, and returns
// all that was told.
func (c *speaker) until(kind string) (api.SocketReply, string) {
	c.t.Helper()
	var said strings.Builder
	for {
		var m api.SocketReply
		_, b, err := c.Read(c.t.Context())
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		if err != nil || m.Problem != nil {
			c.t.Fatalf("%v, %s after %s", err, b, said.String())
		}
		said.Write(b)
		said.WriteByte('\n')
		var e agent.RemoteEvent
		if m.Type == api.SocketEvent && json.Unmarshal(m.Data, &e) == nil && e.Type == "question" {
			c.say(api.SocketRequest{Type: api.SocketAnswer, Call: e.Call, Allow: true})
		}
		if m.Type == kind {
			return m, said.String()
		}
	}
}

func (c *speaker) turn(text string) string {
	c.t.Helper()
	c.say(api.SocketRequest{Type: api.SocketSend, Text: text})
	_, said := c.until(api.SocketEnded)
	return said
}

func (c *speaker) attach(m api.SocketRequest) tidemark.SessionID {
	c.t.Helper()
	m.Type = api.SocketAttach
	c.say(m)
	got, _ := c.until(api.SocketAttached)
	return tidemark.SessionID(got.Session)
}

// serveChat serves chats with the demo model over a store.
func serveChat(t *testing.T, b tidemark.Backend, m *overheard) (*store.Store, *server.Server, func() *speaker) {
	t.Helper()
	t.Chdir(t.TempDir())
	a, st := newApp(), store.New(b, nil)
	s, err := server.New(server.Options{Auth: anybody{}, Holder: process.Self("test"),
		Open: func(context.Context, tidemark.Principal) (*store.Store, error) { return st, nil },
		Chat: func(ctx context.Context, s *store.Store, o routes.ChatOptions) (routes.Conversation, error) {
			return a.conversation(ctx, s, o, &agent.Model{Provider: "demo", Name: "demo", Client: m})
		}})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Drain()
		s.Wait(context.Background())
		h.Close()
		st.Close()
	})
	return st, s, func() *speaker {
		c, _, err := websocket.Dial(t.Context(), h.URL+"/api/v1/ws", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadLimit(1 << 20)
		t.Cleanup(func() { c.CloseNow() })
		return &speaker{c, t}
	}
}

func backends(t *testing.T) map[string]tidemark.Backend {
	disk, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), &sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]tidemark.Backend{"memory": memory.New(), "sqlite": disk}
}

func TestNothingOfOneServedSessionReachesTheNext(t *testing.T) {
	t.Setenv(config.SandboxVariable, agent.SandboxOff) // in a sandbox a shell does not know its number out here
	for name, b := range backends(t) {
		t.Run(name, func(t *testing.T) {
			m := &overheard{Client: demo.New(demo.Options{Delay: -1})}
			st, _, dial := serveChat(t, b, m)
			c := dial()
			first := c.attach(api.SocketRequest{New: true})
			c.turn(`call remember {"key":"scratchpad","text":"swordfish"}`)
			c.turn(`call write {"path":"session:doc.md","content":"swordfish"}`)
			said := c.turn(`call bash {"command":"export WORD=swordfish; echo shell=$$ word=$WORD"}`)
			if !strings.Contains(said, `"question"`) || !strings.Contains(said, "word=swordfish") {
				t.Fatalf("the shell of the first session: %s", said)
			}
			pid, err := strconv.Atoi(regexp.MustCompile(`shell=(\d+)`).FindStringSubmatch(said)[1])
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(m.heard(), "swordfish") {
				t.Fatal("the model never heard the word")
			}

			second := c.attach(api.SocketRequest{New: true})
			if l, err := st.Lease(t.Context(), first); err != nil || l.Held {
				t.Errorf("the first session is held: %+v, %v", l, err)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the shell of the first session is there: %v", err)
			}
			said = c.turn("What have I said so far?")
			said += c.turn(`call bash {"command":"echo word=$WORD."}`)
			said += c.turn(`call read {"path":"session:doc.md"}`)
			if !strings.Contains(said, "word=.") {
				t.Errorf("the shell of the second session: %s", said)
			}
			if sent := m.heard(); strings.Contains(sent, "swordfish") || strings.Contains(said, "swordfish") || strings.Contains(sent, string(first)) {
				t.Errorf("the second session knows of the first:\n%s\n%s", sent, said)
			}
			state, err := st.Checkpoint(t.Context(), second, "")
			if err != nil || state.CoreMemory["scratchpad"] != "" || len(state.Approvals) != 0 {
				t.Errorf("the state of the second session: %+v, %v", state, err)
			}

			// Back again, everything of the first one is there, but for a shell that
			// was not wanted.
			if id := c.attach(api.SocketRequest{Session: string(first), ForceNewSession: true}); id != first {
				t.Errorf("attached to %s, want %s", id, first)
			}
			said = c.turn(`call bash {"command":"echo word=$WORD."}`)
			if !strings.Contains(said, "word=.") || !strings.Contains(m.heard(), "swordfish") {
				t.Errorf("the first session again: %s", said)
			}
			if l, err := st.Lease(t.Context(), second); err != nil || l.Held {
				t.Errorf("the second session is held: %+v, %v", l, err)
			}
		})
	}
}

func TestAServedChatThatIsCutOffKeepsWhatWasSaidAndLetsGo(t *testing.T) {
	for name, b := range backends(t) {
		t.Run(name, func(t *testing.T) {
			m := &overheard{Client: demo.New(demo.Options{Delay: 20 * time.Millisecond})}
			st, s, dial := serveChat(t, b, m)
			c := dial()
			id := c.attach(api.SocketRequest{New: true})
			c.say(api.SocketRequest{Type: api.SocketSend, Text: "tell me of " + strings.Repeat("ebb and flood ", 200)})
			for told := ""; !strings.Contains(told, `"delta"`); {
				_, told = c.until(api.SocketEvent)
			}
			c.CloseNow()
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
			defer stop()
			if err := s.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if l, err := st.Lease(t.Context(), id); err != nil || l.Held {
				t.Errorf("the session is held: %+v, %v", l, err)
			}
			again := dial()
			again.attach(api.SocketRequest{Session: string(id)})
			m.heard()
			again.turn("What have I said so far?")
			if sent := m.heard(); !strings.Contains(sent, "ebb and flood") {
				t.Errorf("after it was cut off the model was sent %s", sent)
			}
		})
	}
}

func TestAServedChatIsHandedOverToWhoAsks(t *testing.T) {
	m := &overheard{Client: demo.New(demo.Options{Delay: -1})}
	st, _, dial := serveChat(t, memory.New(), m)
	c := dial()
	id := c.attach(api.SocketRequest{New: true})
	c.turn("hello")
	// A wish from before the holder's first look is not heard, so it is wished
	// again and again.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			st.RequestHandover(ctx, id, tidemark.Holder{Program: "somebody", PID: 1, Host: "there"})
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
	}()
	var told api.SocketReply
	for told.Type != api.SocketDetached {
		_, b, err := c.Read(t.Context())
		if err == nil {
			err = json.Unmarshal(b, &told)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(told.Reason, "somebody") {
		t.Errorf("told %+v", told)
	}
	if l, err := st.Lease(t.Context(), id); err != nil || l.Held {
		t.Errorf("the session is held: %+v, %v", l, err)
	}
}
