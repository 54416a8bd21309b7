// Package mcpclient gives a conversation the tools, resources and prompts of
// servers that speak the Model Context Protocol: programs that it starts, and
// addresses. They are named in the .mcp.json of the project, in a file of the
// person's own, and by the person.
//
// A project's file is written by anybody: nothing that it names is started or
// reached before the person approved its exact content for this project. All
// programs run in the sandbox of the conversation. What a server says is data:
// its descriptions, results and prompts are bounded, its hints about what is
// harmless are ignored, and each of its tools is asked for like any other.
//
//	servers, err := mcpclient.Files{Own: file, Project: dir}.Read()
//	options.More = mcpclient.New(mcpclient.Options{Servers: servers, Project: dir, …})
package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/tool"
)

// Options are the settings of a conversation's servers.
type Options struct {
	Servers []Server
	// Problem is what could not be read of their files; people are told once.
	Problem error
	// Project is the folder that programs start in, and whose grants count.
	Project string
	// Environ is the environment of programs, and Variables is where ${NAME} in
	// a definition comes from.
	Environ, Variables []string
	// Sandbox confines programs, nil: nothing does. Unfenced is why they should
	// be confined and cannot be: then only what the person exempted starts.
	Sandbox  *tool.Sandbox
	Unfenced string
	// Version is the version of this program, which servers are told.
	Version string
}

// Gate decides about servers of a project, and tells people what happens. A
// *chat.Chat is one.
type Gate interface {
	MayStart(context.Context, chat.StartRequest) error
	AskForm(context.Context, chat.Form) (map[string]any, error)
	Notify(text string)
}

const (
	// startTimeout is how long a server may take to answer first, and firstWait
	// how long a turn waits for that. A later server's tools come with a later
	// answer.
	startTimeout = 60 * time.Second
	firstWait    = 10 * time.Second
	// callTimeout bounds a call, as the longest of other tools.
	callTimeout = tool.DefaultMostTimeout
	// maxAttempts is how often a server that never answered is started by
	// itself.
	maxAttempts = 3
)

// Clients are the servers of a conversation. It is a chat.ToolSource.
type Clients struct {
	o   Options
	all []*client
	// closing ends when the conversation does.
	closing context.Context
	close   context.CancelFunc
	told    sync.Once // Options.Problem was reported

	mu   sync.Mutex
	gate Gate
}

// New returns the servers of a conversation. Nothing is started: that happens
// when a turn first needs the tools, or a person asks.
func New(o Options) *Clients {
	s := &Clients{o: o}
	s.closing, s.close = context.WithCancel(context.Background())
	for _, server := range o.Servers {
		s.all = append(s.all, &client{of: s, server: server})
	}
	return s
}

// Guard sets who decides and is told; Ready does it for a conversation.
func (s *Clients) Guard(g Gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = g
}

// notify tells people something.
func (s *Clients) notify(format string, args ...any) {
	s.mu.Lock()
	g := s.gate
	s.mu.Unlock()
	if g != nil && s.closing.Err() == nil {
		g.Notify(fmt.Sprintf(format, args...))
	}
}

// mayStart asks about a server of the project. The person's own need no answer.
func (s *Clients) mayStart(ctx context.Context, server Server) error {
	s.mu.Lock()
	g := s.gate
	s.mu.Unlock()
	if server.Own && !server.Remote() {
		return nil
	}
	if g == nil {
		return tidemark.Deniedf("the MCP server %s was not approved", server.Name)
	}
	r := server.Request(s.o.Project)
	r.Own = server.Own
	return g.MayStart(ctx, r)
}

// Ready starts the servers whose tools are not known yet, and waits a while for
// them. Those whose tools the model was offered in an earlier run start with
// their first call.
func (s *Clients) Ready(ctx context.Context, c *chat.Chat, offered []model.Tool) {
	s.Guard(c)
	s.told.Do(func() {
		if s.o.Problem != nil {
			s.notify("MCP: %s", s.o.Problem)
		}
	})
	var starting []*client
	for _, k := range s.all {
		if k.server.Disabled || k.adopt(offered) || !k.mayTry() {
			continue
		}
		if err := s.mayStart(ctx, k.server); err != nil {
			if ctx.Err() == nil {
				k.giveUp(err)
				s.notify("MCP: %s", err)
			}
			continue
		}
		starting = append(starting, k)
	}
	if len(starting) == 0 {
		return
	}
	done := make(chan *client, len(starting))
	for _, k := range starting {
		go func() {
			if _, err := k.running(s.closing); err != nil {
				s.notify("MCP server %s: %s", k.server.Name, withHint(err))
			}
			done <- k
		}()
	}
	late := time.NewTimer(firstWait)
	defer late.Stop()
	for range starting {
		select {
		case k := <-done:
			starting = slices.DeleteFunc(starting, func(o *client) bool { return o == k })
		case <-late.C:
			for _, k := range starting {
				s.notify("MCP server %s is not ready yet; its tools come when it is.", k.server.Name)
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

// withHint is an error with its way out, for a line that has no other place for it.
func withHint(err error) string {
	if way := hint.Of(err); way != "" {
		return err.Error() + ". " + way
	}
	return err.Error()
}

// Tools returns the tools that are known, by the names of servers and tools.
func (s *Clients) Tools() []tool.Tool {
	var all []tool.Tool
	for _, k := range s.all {
		all = append(all, k.tools()...)
	}
	return all
}

// Close ends all servers.
func (s *Clients) Close() error {
	s.close()
	var ending sync.WaitGroup
	for _, k := range s.all {
		ending.Go(k.stop)
	}
	ending.Wait()
	return nil
}

// find returns the server of a name, or ErrNotFound.
func (s *Clients) find(name string) (*client, error) {
	for _, k := range s.all {
		if k.server.Name == name {
			return k, nil
		}
	}
	return nil, tidemark.NotFoundf("there is no MCP server %.60q", name)
}

// Restart ends a server and starts it again.
func (s *Clients) Restart(ctx context.Context, name string) error {
	k, err := s.find(name)
	if err != nil {
		return err
	}
	k.stop()
	k.mu.Lock()
	k.attempts, k.failure = 0, nil
	k.mu.Unlock()
	if err := s.mayStart(ctx, k.server); err != nil {
		return err
	}
	_, err = k.running(ctx)
	return err
}

// The states of a server.
const (
	StateOff      = "off"     // disabled in its file
	StateIdle     = "idle"    // not needed yet
	StateRunning  = "running" // answers
	StateFailed   = "failed"
	StateStarting = "starting"
)

// Status is a server as people see it.
type Status struct {
	Name      string   `json:"name"`
	What      string   `json:"what"`
	File      string   `json:"file"`
	State     string   `json:"state"`
	Problem   string   `json:"problem,omitempty"`
	Tools     []string `json:"tools,omitempty"`
	Prompts   []string `json:"prompts,omitempty"`
	Resources []string `json:"resources,omitempty"`
}

// Offers lists what the server offers, a line each: what it is, and its name.
func (s Status) Offers() (lines []string) {
	for _, part := range []struct {
		what string
		all  []string
	}{{"tool", s.Tools}, {"prompt", s.Prompts}, {"resource", s.Resources}} {
		for _, name := range part.all {
			lines = append(lines, fmt.Sprintf("%-9s %s", part.what, name))
		}
	}
	return lines
}

// Status returns the state of all servers.
func (s *Clients) Status() []Status {
	var all []Status
	for _, k := range s.all {
		all = append(all, k.status())
	}
	return all
}

// client is one server of a conversation.
type client struct {
	of     *Clients
	server Server

	mu       sync.Mutex
	starting chan struct{} // closed when an attempt is over; nil when there is none
	attempts int
	failure  error // of the last attempt, or why it may not start
	session  *sdk.ClientSession
	conn     connection
	known    *offer // what the server offers, or offered in an earlier run; nil: unknown
}

// mayTry reports whether the server has to be started to know its tools.
func (k *client) mayTry() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known == nil && k.starting == nil && k.attempts < maxAttempts
}

// giveUp notes that the server may not be started.
func (k *client) giveUp(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failure, k.attempts = why, maxAttempts
}

// running returns the session with the server, which is started if it is not
// there. The start goes on when ctx ends: the next call needs the server, too.
func (k *client) running(ctx context.Context) (*sdk.ClientSession, error) {
	k.mu.Lock()
	switch {
	case k.session != nil:
		defer k.mu.Unlock()
		return k.session, nil
	case k.of.closing.Err() != nil:
		k.mu.Unlock()
		return nil, errors.New("the conversation is over")
	case k.starting == nil:
		k.starting = make(chan struct{})
		k.attempts++
		go k.start(k.starting)
	}
	over := k.starting
	k.mu.Unlock()
	select {
	case <-over:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.session == nil && k.failure == nil {
		return nil, errors.New("it ended at once")
	}
	return k.session, k.failure
}

// start makes one attempt, and closes over when that has ended.
func (k *client) start(over chan struct{}) {
	ctx, stop := context.WithTimeout(k.of.closing, startTimeout)
	defer stop()
	session, conn, offered, err := k.connect(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(over)
	k.starting = nil
	if k.failure = err; err != nil {
		return
	}
	k.session, k.conn, k.known, k.attempts = session, conn, offered, 0
	go func() {
		session.Wait()
		k.lost(session)
	}()
}

func (k *client) connect(ctx context.Context) (*sdk.ClientSession, connection, *offer, error) {
	conn, err := k.of.o.connect(k.server)
	if err != nil {
		return nil, conn, nil, err
	}
	session, err := k.of.o.session(ctx, conn, &sdk.ClientOptions{ElicitationHandler: k.elicit, ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { go k.relist() }})
	var offered *offer
	if err == nil {
		if offered, err = k.list(ctx, session); err != nil {
			session.Close()
		}
	}
	if err == nil {
		return session, conn, offered, nil
	}
	conn.end()
	if ctx.Err() != nil && k.of.closing.Err() == nil {
		err = fmt.Errorf("no answer within %s", startTimeout)
	}
	if said := conn.said(); said != "" {
		err = fmt.Errorf("%w; it says: %s", err, said)
	}
	return nil, conn, nil, k.fenced(err)
}

// fenced adds to the failure of a program in the sandbox how to let it out: what
// it lacks there it can often not tell.
func (k *client) fenced(err error) error {
	switch {
	case k.of.o.Sandbox == nil || k.server.URL != "" || k.server.Own && k.server.Sandbox != nil && k.server.Sandbox.Off:
		return err
	case !k.server.Own:
		return hint.With(err, "it runs in the sandbox of the project; in your own file it may have more: tidemark mcp add --help")
	}
	return hint.With(err, "it runs in the sandbox of the project: add it with --allow-host HOST and --allow-write FOLDER for what it needs, or with --no-sandbox")
}

// relist reads what the server offers now, after it said that this changed.
func (k *client) relist() {
	k.mu.Lock()
	session := k.session
	k.mu.Unlock()
	if session == nil {
		return
	}
	ctx, stop := context.WithTimeout(k.of.closing, startTimeout)
	defer stop()
	offered, err := k.list(ctx, session)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.session == session {
		k.known = offered
	}
}

// lost ends a session that does not answer any more. Unless that was done
// before, people are told; the next call starts the server again.
func (k *client) lost(session *sdk.ClientSession) {
	k.mu.Lock()
	if k.session != session {
		k.mu.Unlock()
		return
	}
	conn := k.conn
	k.session, k.conn = nil, connection{}
	k.mu.Unlock()
	conn.end()
	why := ""
	if said := conn.said(); said != "" {
		why = ", saying: " + said
	}
	k.of.notify("The MCP server %s ended%s. It is started again when it is needed.", k.server.Name, why)
}

// stop ends the server. A start that is in progress is awaited; it is short
// when the conversation ends.
func (k *client) stop() {
	k.mu.Lock()
	if over := k.starting; over != nil {
		k.mu.Unlock()
		<-over
		k.mu.Lock()
	}
	session, end := k.session, k.conn.end
	k.session, k.conn = nil, connection{}
	k.mu.Unlock()
	if session == nil {
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		session.Close()
	}()
	select { // a server that does not answer is ended all the same
	case <-closed:
	case <-time.After(grace):
	}
	end()
}

func (k *client) status() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := Status{Name: k.server.Name, What: k.server.What(), File: k.server.File, State: StateIdle}
	switch {
	case k.server.Disabled:
		s.State = StateOff
	case k.session != nil:
		s.State = StateRunning
	case k.starting != nil:
		s.State = StateStarting
	case k.failure != nil:
		s.State, s.Problem = StateFailed, strings.TrimSpace(k.failure.Error())
	}
	if k.known != nil {
		s.Tools, s.Prompts, s.Resources = k.known.toolNames(), k.known.promptNames(), k.known.resourceNames()
	}
	return s
}
