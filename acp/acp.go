// Package acp is the chat agent for editors: it speaks the Agent Client
// Protocol, in which an editor opens sessions, sends prompts, receives
// what happens and answers requests for approval. Its sessions are those
// of tidemark chat, and whatever is shown as done is kept.
//
// It prints nothing but the protocol, and reads no environment: models, keys
// and folders come from Options. It uses neither the files nor the terminals
// that an editor offers, since the agent's tools have their own, and no MCP
// servers.
//
//	err := acp.Serve(ctx, os.Stdin, os.Stdout, acp.Options{Store: s, Chat: …})
package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/store"
)

// Options are what the agent works with. Store and Chat are required.
type Options struct {
	Store   *store.Store
	Version string
	// Chat returns the options of a conversation, without Show and Approve.
	Chat func(context.Context, Opening) (chat.Options, error)
	// Model returns a model by its name, NAME or PROVIDER/NAME, for a chat that
	// switches to it. Nil: it cannot be changed. Models are the ones that the
	// editor offers, as PROVIDER/NAME.
	Model  func(c *chat.Chat, name string) (agent.Model, error)
	Models []string
	// Commands returns what a prompt that begins with a slash may name in a
	// conversation of a folder. The chat is nil while somebody else writes. nil:
	// there are none.
	Commands func(c *chat.Chat, folder string) []Command
	// Project returns the project of a folder, for the list of sessions;
	// nil: the folder itself. Folder is used for a session that has none.
	Project func(folder string) string
	Folder  string
	// Left is called after a conversation was closed, in the background.
	Left func(*chat.Chat)
	// Log receives one line at a time. Hint returns the way out of an error.
	Log  func(format string, args ...any)
	Hint func(error) string
}

// Opening is a session that an editor opens.
type Opening struct {
	Session tidemark.SessionID // "": a new one
	Folder  string             // where the agent works
	Client  string             // the editor's name for itself
}

// Command is something that can be done in a session besides talking.
type Command struct {
	Name, Input, Help string // without the slash; what follows it, "" for nothing
	Run               func(ctx context.Context, c *chat.Chat, folder, input string, out io.Writer) error
}

// connection is our side of the connection with an editor.
type connection struct {
	o       Options
	conn    *sdk.Connection
	wire    *wire
	methods map[string]method
	leaving sync.WaitGroup // calls of Left in progress
	// handling are the requests that are being answered.
	handling sync.WaitGroup

	mu       sync.Mutex
	client   string
	closing  bool
	sessions map[tidemark.SessionID]*session
}

// Serve serves one editor until it closes in, or ctx ends, and then closes
// all open sessions. The error is ctx's.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Hint == nil {
		o.Hint = func(error) string { return "" }
	}
	if o.Project == nil {
		o.Project = func(folder string) string { return folder }
	}
	if o.Left == nil {
		o.Left = func(*chat.Chat) {}
	}
	a := &connection{o: o, wire: newWire(in, out), sessions: make(map[tidemark.SessionID]*session)}
	a.methods = a.table()
	a.conn = sdk.NewConnection(a.handle, a.wire, a.wire)
	a.conn.SetLogger(slog.New(diagnostics{o.Log}))
	close(a.wire.ready)
	select {
	case <-a.conn.Done():
	case <-a.wire.broken:
	case <-ctx.Done():
	}
	over := make(chan struct{})
	go func() {
		a.closeAll()
		a.leaving.Wait()
		a.handling.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(endTimeout):
		o.Log("The end takes too long, perhaps because the editor reads nothing; what was kept is kept.")
	}
	a.wire.end()
	return ctx.Err()
}

// endTimeout bounds the shutdown: closing the sessions, and the calls of Left.
const endTimeout = 30 * time.Second

type method func(context.Context, json.RawMessage) (any, error)

// table has the methods of the protocol. It replaces that of the SDK, which
// does not know session/delete yet, and lets a second prompt end the first.
func (a *connection) table() map[string]method {
	return map[string]method{
		sdk.AgentMethodInitialize:             on(a.initialize),
		sdk.AgentMethodSessionNew:             on(a.newSession),
		sdk.AgentMethodSessionLoad:            on(a.load),
		sdk.AgentMethodSessionResume:          on(a.resume),
		sdk.AgentMethodSessionFork:            on(a.fork),
		sdk.AgentMethodSessionList:            on(a.list),
		sdk.AgentMethodSessionPrompt:          on(a.prompt),
		sdk.AgentMethodSessionCancel:          on(a.cancel),
		sdk.AgentMethodSessionClose:           on(a.close),
		"session/delete":                      on(a.remove),
		sdk.AgentMethodSessionSetConfigOption: on(a.setConfig),
		sdk.AgentMethodSessionSetModel:        on(a.setModel),
	}
}

// on turns a function with typed parameters into a method.
func on[P, R any](do func(context.Context, P) (R, error)) method {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		var p P
		if len(params) == 0 {
			params = json.RawMessage("{}")
		}
		err := json.Unmarshal(params, &p)
		if v, ok := any(&p).(interface{ Validate() error }); ok && err == nil {
			err = v.Validate()
		}
		if err != nil {
			return nil, tidemark.Invalidf("%w", err)
		}
		return do(ctx, p)
	}
}

func (a *connection) handle(ctx context.Context, name string, params json.RawMessage) (any, *sdk.RequestError) {
	do := a.methods[name]
	if do == nil {
		return nil, sdk.NewMethodNotFound(name)
	}
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		return nil, a.refusal(tidemark.Conflictf("the agent is about to end"))
	}
	a.handling.Add(1)
	a.mu.Unlock()
	defer a.handling.Done()
	r, err := do(ctx, params)
	if err != nil {
		return nil, a.refusal(err)
	}
	return r, nil
}

// codeNotFound is the protocol's code for a missing resource.
const codeNotFound = -32002

// refusal is an error as an editor shows it: many show only the message, so it
// contains everything.
func (a *connection) refusal(err error) *sdk.RequestError {
	r := sdk.NewInternalError(nil)
	switch {
	case errors.Is(err, tidemark.ErrNotFound):
		r.Code = codeNotFound
	case errors.Is(err, tidemark.ErrInvalid), errors.Is(err, tidemark.ErrUnsupported):
		r.Code = sdk.NewInvalidParams(nil).Code
	case errors.Is(err, tidemark.ErrHeld), errors.Is(err, tidemark.ErrConflict), errors.Is(err, tidemark.ErrDenied):
		r.Code = sdk.NewInvalidRequest(nil).Code
	}
	data := map[string]any{"code": tidemark.CodeOf(err).Name, "error": err.Error()}
	r.Message = err.Error()
	if hint := a.hint(err); hint != "" {
		data["hint"] = hint
		r.Message += "\nhint: " + hint
	}
	r.Data = data
	return r
}

// hint is the way out of an error, one that works inside an editor where
// possible.
func (a *connection) hint(err error) string {
	var holder *store.HeldError
	if errors.As(err, &holder) {
		return fmt.Sprintf("what is written there is shown here; to write here, close it there, or send /%s, or run: tidemark lock %.8s --hand-over", takeOver, holder.Lease.Session())
	}
	return a.o.Hint(err)
}

// greeting is the answer to initialize. The SDK's own type has no
// field for session/delete.
type greeting struct {
	ProtocolVersion   int                 `json:"protocolVersion"`
	AgentInfo         *sdk.Implementation `json:"agentInfo"`
	AuthMethods       []sdk.AuthMethod    `json:"authMethods"`
	AgentCapabilities struct {
		LoadSession         bool                   `json:"loadSession"`
		PromptCapabilities  sdk.PromptCapabilities `json:"promptCapabilities"`
		McpCapabilities     sdk.McpCapabilities    `json:"mcpCapabilities"`
		SessionCapabilities map[string]struct{}    `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
}

// initialize states what this agent can do. It speaks one version of the
// protocol: an editor that wants another one decides whether that will do.
func (a *connection) initialize(_ context.Context, p sdk.InitializeRequest) (g greeting, err error) {
	if p.ClientInfo != nil {
		a.mu.Lock()
		a.client = p.ClientInfo.Name
		a.mu.Unlock()
	}
	g.ProtocolVersion = sdk.ProtocolVersionNumber
	g.AgentInfo = &sdk.Implementation{Name: "tidemark", Title: sdk.Ptr("Tidemark"), Version: a.o.Version}
	g.AuthMethods = []sdk.AuthMethod{}
	can := &g.AgentCapabilities
	can.LoadSession = true
	can.PromptCapabilities = sdk.PromptCapabilities{Image: true, EmbeddedContext: true}
	can.SessionCapabilities = make(map[string]struct{})
	for _, name := range []string{"list", "resume", "close", "delete", "fork"} {
		can.SessionCapabilities[name] = struct{}{}
	}
	return g, nil
}

// find returns a session that is open.
func (a *connection) find(id sdk.SessionId) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[tidemark.SessionID(id)]
	if s == nil {
		return nil, tidemark.NotFoundf("session %.80q is not open here; load it first", id)
	}
	return s, nil
}

// enter returns the session with an id, which need not be open yet.
func (a *connection) enter(id tidemark.SessionID, folder string) (*session, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		return nil, tidemark.Conflictf("the agent is about to end")
	}
	s := a.sessions[id]
	if s == nil {
		s = newSession(a, id, folder)
		a.sessions[id] = s
	}
	return s, nil
}

// forget removes a session from the open ones.
func (a *connection) forget(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sessions[s.id] == s {
		delete(a.sessions, s.id)
	}
}

// closeAll closes all sessions, each as if it were closed alone.
func (a *connection) closeAll() {
	a.mu.Lock()
	a.closing = true
	var all []*session
	for _, s := range a.sessions {
		all = append(all, s)
	}
	a.mu.Unlock()
	var each sync.WaitGroup
	for _, s := range all {
		each.Go(func() {
			if err := s.close(); err != nil {
				a.o.Log("session %s: %s", s.id, err)
			}
		})
	}
	each.Wait()
}

// diagnostics passes on the SDK's messages without their content, which is
// foreign and may be secret.
type diagnostics struct{ log func(string, ...any) }

func (diagnostics) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (d diagnostics) WithAttrs([]slog.Attr) slog.Handler         { return d }
func (d diagnostics) WithGroup(string) slog.Handler              { return d }

func (d diagnostics) Handle(_ context.Context, r slog.Record) error {
	why := ""
	r.Attrs(func(at slog.Attr) bool {
		if at.Key == "err" || at.Key == "cause" || at.Key == "method" {
			why += " " + at.Value.String()
		}
		return true
	})
	switch {
	case strings.Contains(why, "peer connection closed"): // the usual end
	case strings.Contains(why, bufio.ErrTooLong.Error()):
		d.log("The editor sent a message of more than 10 MB, which is more than can be taken in; the connection ends.")
	default:
		d.log("%s:%s", r.Message, why)
	}
	return nil
}
