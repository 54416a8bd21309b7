package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/chat"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// parrot is a conversation that holds a real lease, and says what it is told.
type parrot struct {
	h    *parrots
	w    *store.Writer
	id   tidemark.SessionID
	gone chan error

	mu     sync.Mutex
	answer chan bool
}

// parrots are all conversations of a test.
type parrots struct {
	open    atomic.Int64 // how many there are now
	most    atomic.Int64 // how many there were at once
	mu      sync.Mutex
	all     []*parrot
	options []routes.ChatOptions
	callers []request.Caller
}

func (h *parrots) chat(ctx context.Context, s *store.Store, o routes.ChatOptions) (routes.Conversation, error) {
	p := &parrot{h: h, gone: make(chan error, 1)}
	who := tidemark.Holder{Program: "parrot", PID: 1, Host: "here"}
	if o.Session == "" {
		p.w = s.Create(tidemark.Session{}, who)
	} else {
		var err error
		if p.w, err = s.Attach(ctx, o.Session, who); err != nil {
			return nil, err
		}
	}
	p.id = p.w.ID()
	if n := h.open.Add(1); n > h.most.Load() {
		h.most.Store(n)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all, h.options, h.callers = append(h.all, p), append(h.options, o), append(h.callers, request.CallerOf(ctx))
	return p, nil
}

func (p *parrot) ID() tidemark.SessionID { return p.id }
func (p *parrot) Gone() <-chan error     { return p.gone }

func (p *parrot) Send(ctx context.Context, text string, emit func(any) error) error {
	if _, err := p.w.Append(ctx, tidemark.Say(tidemark.User, text)); err != nil {
		return err
	}
	switch text {
	case "wait":
		emit(map[string]string{"type": "waiting"})
		<-ctx.Done()
		emit(map[string]string{"type": "last words"})
		return nil
	case "ask":
		answer := make(chan bool, 1)
		p.mu.Lock()
		p.answer = answer
		p.mu.Unlock()
		emit(map[string]string{"type": "question", "call": "c1"})
		select {
		case allow := <-answer:
			return emit(map[string]any{"type": "answered", "allow": allow})
		case <-ctx.Done():
			return nil
		}
	case "flood":
		for ctx.Err() == nil {
			if err := emit(strings.Repeat("x", 64<<10)); err != nil {
				return err
			}
		}
		return nil
	}
	return emit(map[string]string{"type": "said", "text": text})
}

func (p *parrot) Answer(call string, d chat.Decision) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer == nil || call != "c1" {
		return tidemark.NotFoundf("nobody asked")
	}
	p.answer <- d == chat.Once
	return nil
}

func (p *parrot) Close(ctx context.Context) error {
	p.h.open.Add(-1)
	return p.w.Close(ctx)
}

// talker is a client of a WebSocket.
type talker struct {
	*websocket.Conn
	t *testing.T
}

func dial(t *testing.T, s *testServer, who string, change ...func(*websocket.DialOptions)) (*talker, *http.Response, error) {
	t.Helper()
	o := &websocket.DialOptions{HTTPHeader: http.Header{}}
	if who != "" {
		o.HTTPHeader.Set("Authorization", "Bearer "+who)
	}
	for _, c := range change {
		c(o)
	}
	c, res, err := websocket.Dial(t.Context(), s.URL+"/api/v1/ws", o)
	if err != nil {
		return nil, res, err
	}
	c.SetReadLimit(1 << 20)
	t.Cleanup(func() { c.CloseNow() })
	return &talker{c, t}, res, nil
}

func connect(t *testing.T, s *testServer, who string) *talker {
	t.Helper()
	c, _, err := dial(t, s, who)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *talker) say(m api.SocketRequest) {
	c.t.Helper()
	b, err := json.Marshal(m)
	if err == nil {
		err = c.Write(c.t.Context(), websocket.MessageText, b)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *talker) hear() (api.SocketReply, error) {
	var m api.SocketReply
	_, b, err := c.Read(c.t.Context())
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	return m, err
}

// until hears messages up to one of a type.
func (c *talker) until(kind string) (api.SocketReply, string) {
	c.t.Helper()
	said := ""
	for {
		m, err := c.hear()
		if err != nil {
			c.t.Fatalf("%v while waiting for %s, after %s", err, kind, said)
		}
		said += fmt.Sprintf("%s %s %s\n", m.Type, m.Session, m.Data)
		if m.Type == kind {
			return m, said
		}
		if m.Type == api.SocketProblem {
			c.t.Fatalf("problem %+v while waiting for %s", m.Problem, kind)
		}
	}
}

// code hears until the connection is closed, and returns how.
func (c *talker) code() websocket.StatusCode {
	for {
		if _, err := c.hear(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func newSocketServer(t *testing.T, change ...func(*Options)) (*testServer, *parrots) {
	h := &parrots{}
	s := newTestServer(t, append(change, func(o *Options) { o.Chat = h.chat })...)
	return s, h
}

// free fails unless nobody holds the lease of a session.
func free(t *testing.T, s *testServer, user string, id string) {
	t.Helper()
	st, err := s.stores.Of(t.Context(), tidemark.TenantOf("a", user))
	if err != nil {
		t.Fatal(err)
	}
	l, err := st.Lease(t.Context(), tidemark.SessionID(id))
	if err != nil || l.Held {
		t.Errorf("session %s is held by %s, %v", id, l.Holder, err)
	}
}

func TestSwitchingSessionsReplacesEverything(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s, h := newSocketServer(t, change)
		c := connect(t, s, "writer-a")
		c.say(api.SocketRequest{Type: api.SocketSend, Text: "too early"})
		if m, err := c.hear(); err != nil || m.Problem == nil || m.Problem.Status != 409 {
			t.Fatalf("%+v, %v", m, err)
		}
		c.say(api.SocketRequest{Type: api.SocketAttach, ID: "1", New: true})
		a, _ := c.until(api.SocketAttached)
		c.say(api.SocketRequest{Type: api.SocketSend, ID: "2", Text: "hello"})
		if end, said := c.until(api.SocketEnded); end.ID != "2" || end.Session != a.Session || !strings.Contains(said, `"hello"`) {
			t.Errorf("%+v after %s", end, said)
		}
		// A turn that is under way ends before the next conversation begins.
		c.say(api.SocketRequest{Type: api.SocketSend, Text: "wait"})
		c.until(api.SocketEvent)
		c.say(api.SocketRequest{Type: api.SocketSend, ID: "busy", Text: "more"})
		if m, err := c.hear(); err != nil || m.ID != "busy" || m.Problem == nil || m.Problem.Status != 409 {
			t.Fatalf("%+v, %v", m, err)
		}
		c.say(api.SocketRequest{Type: api.SocketAttach, ID: "3", New: true, ForceNewSession: true, Model: "m"})
		b, said := c.until(api.SocketAttached)
		if b.Session == a.Session || !strings.Contains(said, "last words") || !strings.Contains(said, "ended "+a.Session) {
			t.Errorf("attached to %s from %s after\n%s", b.Session, a.Session, said)
		}
		free(t, s, "jo", a.Session)
		if h.most.Load() != 1 {
			t.Errorf("%d conversations at once", h.most.Load())
		}
		if o := h.options[1]; !o.ForceNew || o.Model != "m" {
			t.Errorf("options %+v", o)
		}
		// What is left of the first one cannot speak any more.
		if err := h.options[0].Emit("a ghost"); err == nil {
			t.Error("a conversation that was closed spoke")
		}
		c.say(api.SocketRequest{Type: api.SocketAttach, Session: a.Session})
		if again, _ := c.until(api.SocketAttached); again.Session != a.Session {
			t.Errorf("attached to %s, want %s", again.Session, a.Session)
		}
		c.say(api.SocketRequest{Type: api.SocketDetach})
		c.until(api.SocketDetached)
		free(t, s, "jo", a.Session)
		c.say(api.SocketRequest{Type: api.SocketPing, ID: "p"})
		if m, _ := c.until(api.SocketPong); m.ID != "p" {
			t.Errorf("%+v", m)
		}
	})
}

func TestASessionThatCannotBeOpenedLeavesNone(t *testing.T) {
	s, h := newSocketServer(t)
	c := connect(t, s, "writer-a")
	c.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	c.until(api.SocketAttached)
	for _, m := range []api.SocketRequest{{Session: string(tidemark.NewSessionID())}, {Session: "nonsense"}, {}, {New: true, Session: "x"}} {
		m.Type = api.SocketAttach
		c.say(m)
		if got, err := c.hear(); err != nil || got.Problem == nil {
			t.Errorf("%+v: %+v, %v", m, got, err)
		}
	}
	if h.open.Load() != 0 {
		t.Error("the conversation before stayed open")
	}
	c.say(api.SocketRequest{Type: "dance"})
	if got, err := c.hear(); err != nil || got.Problem == nil || got.Problem.Status != 400 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestASessionOfSomebodyElseIsNotFound(t *testing.T) {
	s, _ := newSocketServer(t)
	mine := connect(t, s, "writer-a")
	mine.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	a, _ := mine.until(api.SocketAttached)
	mine.say(api.SocketRequest{Type: api.SocketSend, Text: "secret"})
	mine.until(api.SocketEnded)
	for _, who := range []string{"other-a", "writer-b"} {
		c := connect(t, s, who)
		c.say(api.SocketRequest{Type: api.SocketAttach, Session: a.Session})
		if got, err := c.hear(); err != nil || got.Problem == nil || got.Problem.Status != 404 {
			t.Errorf("%s: %+v, %v", who, got, err)
		}
	}
	// Another connection of the same user is told who holds it.
	c := connect(t, s, "writer-a")
	c.say(api.SocketRequest{Type: api.SocketAttach, Session: a.Session})
	if got, err := c.hear(); err != nil || got.Problem == nil || got.Problem.Status != 423 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAQuestionIsAnswered(t *testing.T) {
	s, _ := newSocketServer(t)
	c := connect(t, s, "writer-a")
	c.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	c.until(api.SocketAttached)
	c.say(api.SocketRequest{Type: api.SocketSend, Text: "ask"})
	c.until(api.SocketEvent)
	c.say(api.SocketRequest{Type: api.SocketAnswer, Call: "c2", Allow: true})
	if got, err := c.hear(); err != nil || got.Problem == nil || got.Problem.Status != 404 {
		t.Errorf("%+v, %v", got, err)
	}
	c.say(api.SocketRequest{Type: api.SocketAnswer, Call: "c1", Allow: true})
	if _, said := c.until(api.SocketEnded); !strings.Contains(said, `"allow":true`) {
		t.Errorf("said %s", said)
	}
	c.say(api.SocketRequest{Type: api.SocketSend, ID: "w", Text: "wait"})
	c.until(api.SocketEvent)
	c.say(api.SocketRequest{Type: api.SocketCancel})
	if end, _ := c.until(api.SocketEnded); end.ID != "w" {
		t.Errorf("%+v", end)
	}
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 2000 {
		if is() {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("never: %s", what)
}

func TestAConnectionThatIsCutLosesNothingThatWasKept(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s, h := newSocketServer(t, change)
		c := connect(t, s, "writer-a")
		c.say(api.SocketRequest{Type: api.SocketAttach, New: true})
		a, _ := c.until(api.SocketAttached)
		c.say(api.SocketRequest{Type: api.SocketSend, Text: "wait"})
		c.until(api.SocketEvent)
		c.CloseNow()
		eventually(t, "the conversation is closed", func() bool { return h.open.Load() == 0 })
		if err := s.waitSockets(t); err != nil {
			t.Fatal(err)
		}
		free(t, s, "jo", a.Session)
		st, err := s.stores.Of(t.Context(), tidemark.TenantOf("a", "jo"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := st.View(t.Context(), tidemark.SessionID(a.Session))
		if err != nil || v.Entries != 1 {
			t.Errorf("%d entries, %v", v.Entries, err)
		}
	})
}

func (s *testServer) waitSockets(t *testing.T) error {
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	return s.Wait(ctx)
}

func TestAClientThatDoesNotReadHoldsNobodyElseUp(t *testing.T) {
	s, h := newSocketServer(t)
	c := connect(t, s, "writer-a")
	c.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	c.until(api.SocketAttached)
	c.say(api.SocketRequest{Type: api.SocketSend, Text: "flood"})
	c.until(api.SocketEvent)
	other := connect(t, s, "writer-a") // while the first one reads nothing
	other.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	other.until(api.SocketAttached)
	c.CloseNow()
	other.Close(websocket.StatusNormalClosure, "")
	eventually(t, "both are closed", func() bool { return h.open.Load() == 0 })
}

func TestWhoMayNotTalkIsNotConnected(t *testing.T) {
	s, _ := newSocketServer(t)
	refusedWith := func(want int, who string, change ...func(*websocket.DialOptions)) {
		t.Helper()
		_, res, err := dial(t, s, who, change...)
		if err == nil || res == nil || res.StatusCode != want {
			t.Errorf("%q: %v, %v; want %d", who, res, err, want)
		}
	}
	refusedWith(401, "")
	refusedWith(401, "nobody")
	refusedWith(403, "reader-a")
	refusedWith(403, "writer-a", func(o *websocket.DialOptions) { o.HTTPHeader.Set("Origin", "https://evil.example") })
	refusedWith(401, "", func(o *websocket.DialOptions) { o.Subprotocols = []string{"tidemark", "bearer.nobody"} })
	without := newTestServer(t)
	if _, res, err := dial(t, without, "writer-a"); err == nil || res.StatusCode != 501 {
		t.Errorf("%v, %v; want 501", res, err)
	}
}

func TestABrowserSendsItsTokenAsAProtocol(t *testing.T) {
	s, h := newSocketServer(t)
	c, res, err := dial(t, s, "", func(o *websocket.DialOptions) {
		o.Subprotocols = []string{"tidemark", "bearer.writer-a"}
		o.HTTPHeader.Set("Origin", s.URL)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("Sec-WebSocket-Protocol"); got != "tidemark" || c.Subprotocol() != "tidemark" {
		t.Errorf("protocol %q: the token was echoed, or none was chosen", got)
	}
	c.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	c.until(api.SocketAttached)
	if h.callers[0].Name != "writer-a" {
		t.Errorf("the caller is %+v", h.callers[0])
	}
}

// changing is an Authenticator whose people change.
type changing struct {
	mu sync.Mutex
	table
}

func (c *changing) Authenticate(r *http.Request) (request.Caller, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.Authenticate(r)
}

func TestATokenThatExpiresEndsTheConnection(t *testing.T) {
	auth := &changing{table: people()}
	s, h := newSocketServer(t, func(o *Options) { o.Auth, o.Limits.Recheck = auth, 20*time.Millisecond })
	c := connect(t, s, "writer-a")
	c.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	c.until(api.SocketAttached)
	auth.mu.Lock()
	delete(auth.table, "writer-a")
	auth.mu.Unlock()
	if code := c.code(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d, want 1008", code)
	}
	eventually(t, "the conversation is closed", func() bool { return h.open.Load() == 0 })
}

func TestAnotherTokenOfTheSameUserIsTakenAndThatOfAnotherIsNot(t *testing.T) {
	auth := &changing{table: people()}
	auth.table["fresh"] = auth.table["writer-a"]
	s, h := newSocketServer(t, func(o *Options) { o.Auth, o.Limits.Recheck = auth, 20*time.Millisecond })
	c := connect(t, s, "writer-a")
	c.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	c.until(api.SocketAttached)
	c.say(api.SocketRequest{Type: api.SocketAuth, Token: "fresh"})
	c.until(api.SocketDone)
	auth.mu.Lock()
	delete(auth.table, "writer-a")
	auth.mu.Unlock()
	c.say(api.SocketRequest{Type: api.SocketSend, Text: "still here"})
	c.until(api.SocketEnded)
	c.say(api.SocketRequest{Type: api.SocketAuth, Token: "other-a"})
	if code := c.code(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d, want 1008", code)
	}
	eventually(t, "the conversation is closed", func() bool { return h.open.Load() == 0 })
	if len(h.all) != 1 {
		t.Errorf("%d conversations were opened", len(h.all))
	}
}

func TestALostLeaseIsTold(t *testing.T) {
	s, h := newSocketServer(t)
	c := connect(t, s, "writer-a")
	c.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	a, _ := c.until(api.SocketAttached)
	h.all[0].gone <- tidemark.Conflictf("the lease was lost to somebody")
	if m, _ := c.until(api.SocketDetached); m.Session != a.Session || !strings.Contains(m.Reason, "somebody") {
		t.Errorf("%+v", m)
	}
	c.say(api.SocketRequest{Type: api.SocketSend, Text: "hello?"})
	if got, err := c.hear(); err != nil || got.Problem == nil || got.Problem.Status != 409 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestADrainingServerClosesConversationsAndSaysSo(t *testing.T) {
	s, h := newSocketServer(t)
	c := connect(t, s, "writer-a")
	c.say(api.SocketRequest{Type: api.SocketAttach, New: true})
	c.until(api.SocketAttached)
	c.say(api.SocketRequest{Type: api.SocketSend, Text: "wait"})
	c.until(api.SocketEvent)
	s.Drain()
	if code := c.code(); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d, want 1001", code)
	}
	if err := s.waitSockets(t); err != nil || h.open.Load() != 0 {
		t.Errorf("%v, %d conversations are open", err, h.open.Load())
	}
	if _, res, err := dial(t, s, "writer-a"); err == nil || res.StatusCode != 503 {
		t.Errorf("%v, %v; want 503", res, err)
	}
}

func TestMessagesThatAreTooBigOrNotJSONEndTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		kind websocket.MessageType
		body string
		want websocket.StatusCode
	}{
		"too big":  {websocket.MessageText, `{"type":"ping","id":"` + strings.Repeat("x", 2<<20) + `"}`, websocket.StatusMessageTooBig},
		"not JSON": {websocket.MessageText, `{"type":`, websocket.StatusUnsupportedData},
		"binary":   {websocket.MessageBinary, `{"type":"ping"}`, websocket.StatusUnsupportedData},
	} {
		t.Run(name, func(t *testing.T) {
			s, h := newSocketServer(t)
			w := connect(t, s, "writer-a")
			w.say(api.SocketRequest{Type: api.SocketAttach, New: true})
			w.until(api.SocketAttached)
			if err := w.Write(t.Context(), c.kind, []byte(c.body)); err != nil && !errors.Is(err, context.Canceled) {
				t.Log(err)
			}
			if code := w.code(); code != c.want {
				t.Errorf("closed with %d, want %d", code, c.want)
			}
			eventually(t, "the conversation is closed", func() bool { return h.open.Load() == 0 })
		})
	}
}
