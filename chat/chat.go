// Package chat is a conversation with an agent: ask a model, run tools, get
// approval, and keep each step before the next one begins. Killed at any
// point, it can be resumed from what was kept.
//
// It prints nothing and reads no terminal: it reports what happens to
// Options.Show, and asks Options.Approve for what needs a person.
//
//	c := chat.New(chat.Options{Store: s, Model: m, …})
//	turn, err := c.Send(ctx, tidemark.Text("hello"))
package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/instructions"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// Model asks a language model.
type Model interface {
	Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error]
	// Parts is what Stream sends, in the order in which a provider's cache
	// reads it.
	Parts(r model.Request) ([][]byte, error)
}

// Options are the parts and settings of a conversation. Store, Model and Box
// are required.
type Options struct {
	Store  *store.Store
	Holder tidemark.Holder

	Model    Model
	Name     string // name of the model
	Provider string
	Remote   bool // the model is not on this machine
	Thinking int  // most tokens of thinking

	// System is the system prompt of a new session, and of a resumed one
	// that has none.
	System string
	// Instructions reads what the project and the person tell agents in files.
	// They are part of the system prompt, which is kept: a resumed session is sent
	// the same bytes, and the new ones once the files have changed. It is called
	// before each turn; nil: there are none.
	Instructions func() instructions.Set
	// Extensions reads what files add to the agent. It is called before each
	// turn; nil: there is nothing.
	Extensions func() Extensions
	// Session describes a new session; without a title it gets the one that
	// Title makes from the first message.
	Session tidemark.Session
	Title   func(first string) string
	// Box makes the tools of a session. It is called again after a switch.
	// The limits are those of the session.
	Box func(tool.State, tool.Files, store.Limits, func(name string, chunk []byte)) (*tool.Box, error)
	// Tools are additional to those of the Box, for the agent and not for
	// its workers.
	Tools []tool.Tool
	// More has tools that become known later, for the agent and not for its
	// workers. It is closed with the conversation. It may be nil.
	More ToolSource
	// Hooks have a say in what happens. They may be nil.
	Hooks Hooks
	// Without names tools that neither the agent nor its workers get, in
	// any case of letters; "*" is all of them.
	Without []string
	// Allow lets a session that is local-only use remote models and tools.
	Allow bool
	// Root is the folder that the tools work in; paths outside of it need a
	// grant. If it is "", every path does.
	Root string
	// Grants are what the person at this machine granted in this project. Nil
	// grants nothing, and what is approved or made then holds until the
	// conversation is closed; that is the case wherever nobody sits at this
	// machine's terminal, editor or browser.
	Grants *grant.Scope
	// FreshInterpreter says why shells and interpreters of earlier runs
	// are not restored; "" restores them.
	FreshInterpreter string

	// Approve decides about a call that has effects. It is called by one
	// goroutine at a time. Nil denies.
	Approve func(context.Context, ApprovalRequest) (Decision, error)
	// AskForm asks the person what somebody else wants to know; ErrDenied: they do
	// not want to say it. It is called by one goroutine at a time, and not while
	// Approve is. Nil: there is no way to ask.
	AskForm func(context.Context, Form) (map[string]any, error)
	// Fenced means that the programs of the Box run in a sandbox.
	Fenced bool
	// Unattended means that no person sees the questions: Approve answers by
	// rule. Calls that a person has to decide about each time are then
	// refused, and so is anything that would widen the sandbox.
	Unattended bool
	// AskAlways also asks about calls that were approved for the session: in a
	// fleet each call is decided on its own.
	AskAlways bool
	// Wake is called when the agent asks to be woken, after that is kept.
	// It may be nil.
	Wake func(context.Context, tidemark.SessionID, time.Time) error
	// Show receives what happens, in order, from one goroutine at a time.
	Show func(Event)

	// Rounds bounds how often the model is asked in one turn, if that is fewer
	// than the limit of the session; 0 leaves it to that.
	Rounds int

	// SnapshotFile and SnapshotSession are the most bytes that are kept of one
	// file, and of all files of the session, before tools change them; 0: the
	// defaults of package store.
	SnapshotFile, SnapshotSession int64

	Compact compact.Options
	Limits  store.Limits // of a new session
	Workers int          // most that run at a time; 0: DefaultWorkers
	Now     func() time.Time
}

// Defaults of the agent's loop.
const (
	DefaultRounds  = 50
	DefaultTools   = 128
	DefaultWorkers = 12
)

// Event is something to show: exactly one of the fields below Worker is set.
type Event struct {
	Worker   string // name of the worker, "" for the conversation itself
	Text     string // the next piece of an answer
	Thinking string
	Call     *Call
	Output   string // output of the running tool
	Result   *tidemark.Block
	Wait     *model.Wait
	Notice   string          // one line for people
	Kept     *tidemark.Entry // an entry that is now durable
	Created  tidemark.SessionID
	Answered bool  // the model has completed its last answer, which is now kept
	Ended    *Turn // a turn is over
}

// Call is a tool call that is about to run.
type Call struct {
	ID, Tool, Scope string
	Input           json.RawMessage
	// Change is what the call does to a file, as far as that is known when it
	// begins; nil for calls that change none.
	Change *render.Change
}

// ApprovalRequest asks a person whether a call may run.
type ApprovalRequest struct {
	Worker string
	Call
	Effect tool.Effect
	// Lines are everything that would run, be sent or be written: the basis
	// of the person's decision, wherever they are asked. Whole means that
	// nothing is missing; without it no answer holds for more than this
	// call.
	Lines []render.ApprovalLine
	Whole bool
	// Widens is what the call needs beyond the sandbox. Always then allows
	// that widening for the project, and does not approve the call itself.
	Widens sandbox.Widening
	// EachTime says why no answer holds for more than this call; "" if one may.
	EachTime string

	fenced bool // what it starts runs in the sandbox, if there is one
}

// Readable returns an error if a call is longer than a person can be
// expected to read. Callers refuse such a call with that error instead of
// asking.
func (a ApprovalRequest) Readable() error {
	n := 0
	for _, l := range a.Lines {
		n += len(l.Sign()) + len(l.Text) + 2
	}
	if n > tidemark.MaxApprovalBytes {
		return fmt.Errorf("it is %d bytes long, more than a person can be shown (%d); do it in smaller steps", n, tidemark.MaxApprovalBytes)
	}
	return nil
}

// AlwaysText says what Always would allow; "" when no answer can hold for more
// than this call.
func (a ApprovalRequest) AlwaysText() string {
	switch {
	case !a.Whole:
		return ""
	case !a.Widens.Empty():
		return "in this project: " + render.Phrase(a.Widens.String())
	case a.Scope == ".": // the folder of a file that is in none
		return "always (in this folder)"
	case a.Scope != "":
		return "always (" + render.Phrase(a.Scope) + ")"
	}
	return "always"
}

// Decision is the answer to an ApprovalRequest.
type Decision string

// The answers of a person to a call: this once, all like it in this session,
// no.
const (
	Once   Decision = "once"
	Always Decision = "always"
	Deny   Decision = "deny"
)

// Turn is the outcome of one Send.
type Turn struct {
	Text   string // text of the last answer
	Stop   string // one of model's Stop constants, or one of those below
	Rounds int    // number of answers of the model
	Usage  tidemark.Usage
}

// Reasons for the end of a turn that the model did not end.
const (
	StopRounds    = "max_turns"
	StopCancelled = "cancelled"
	StopError     = "error"
	StopHook      = "hook" // a hook ended it
)

// Chat is one conversation. Its methods may be called concurrently; turns wait
// for each other. Show and Approve may call all of them except Change, methods
// that change the state, and methods that wait for a turn.
type Chat struct {
	o      Options
	id     tidemark.SessionID
	box    *tool.Box
	main   *thread
	handed chan store.HandoverRequest

	show   sync.Mutex    // held while Show is called
	asking chan struct{} // holds a token while a person is asked
	// started is what the person said about programs of the project in this
	// conversation; guarded by asking.
	started map[grant.Thing]bool
	saving  sync.Mutex // held during a change of the state; taken before mu
	kept    []byte     // state as it was last kept; guarded by saving
	// recorded are the parts of the state whose grant is written; cap are
	// the limits that need no grant. Both are guarded by saving.
	recorded map[grant.Thing]bool
	cap      store.Limits

	mu      sync.Mutex // guards what follows; never held during I/O
	answers answerer
	w       *store.Writer
	created bool // the session exists
	closed  bool
	system  *tidemark.Entry // the system prompt of the conversation itself, nil before its first message
	session tidemark.Session
	state   store.Checkpoint // what is in force
	// proposed is what the session asks for and does not have.
	proposed   []claim
	changed    bool // state was changed before the session existed
	warned     bool // that state cannot be kept was reported
	workers    map[string]*worker
	permission Permission
	extensions Extensions
	thinking   int
	// window is what the server told about the model that answers, 0 before; told
	// means that it is not asked again.
	window      int
	windowTold  bool
	textOnly    bool     // its server says that it takes no images
	steered     []string // what the user said since the session was opened
	stopRenewal func()   // stops renewing the lease, and waits until that has ended
}

// answerer is the model that answers. It is read once for each request, so
// that a switch never affects half of one.
type answerer struct {
	model          Model
	provider, name string
}

// New returns a conversation that does not exist yet: the first message
// creates its session.
func New(o Options) (*Chat, error) {
	c := prepare(o)
	sess := o.Session
	if sess.Mode == "" {
		sess.Mode = tidemark.ModeLocal
		if o.Remote {
			sess.Mode = tidemark.ModeRemote
		}
	}
	sess.ID, sess.Model = tidemark.NewSessionID(), o.Name
	c.id, c.session, c.state = sess.ID, sess, store.Checkpoint{Limits: o.Limits}
	if err := c.allowed(); err != nil {
		return nil, err
	}
	c.w = o.Store.Create(sess, o.Holder)
	if err := c.open(tool.State{}); err != nil {
		return nil, err
	}
	return c, nil
}

func prepare(o Options) *Chat {
	if o.Show == nil {
		o.Show = func(Event) {}
	}
	if o.Approve == nil {
		o.Approve = func(context.Context, ApprovalRequest) (Decision, error) { return Deny, nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	c := &Chat{o: o, answers: answerer{o.Model, o.Provider, o.Name}, workers: make(map[string]*worker), permission: PermissionAsk, thinking: o.Thinking,
		handed: make(chan store.HandoverRequest, 1), asking: make(chan struct{}, 1), started: make(map[grant.Thing]bool)}
	c.main = &thread{c: c}
	return c
}

// Resume continues a session; ErrHeld means that somebody else writes to it.
// It first completes what the last run left half done.
func Resume(ctx context.Context, o Options, id tidemark.SessionID) (*Chat, error) {
	c := prepare(o)
	var err error
	if c.w, err = o.Store.Attach(ctx, id, o.Holder); err != nil {
		return nil, err
	}
	if err := c.resume(ctx, id); err != nil {
		if c.box != nil {
			err = errors.Join(err, c.box.Close())
		}
		return nil, errors.Join(err, c.w.Close(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (c *Chat) resume(ctx context.Context, id tidemark.SessionID) error {
	i, err := c.o.Store.Session(ctx, id)
	if err != nil {
		return err
	}
	c.id, c.session, c.created = id, i.Session, true
	if err := c.allowed(); err != nil {
		return err
	}
	damaged := ""
	c.state, err = c.o.Store.Checkpoint(ctx, id, "")
	switch {
	case errors.Is(err, tidemark.ErrNotFound):
		c.state = store.Checkpoint{Limits: c.o.Limits}
	case errors.Is(err, tidemark.ErrCorrupt):
		c.notice("The checkpoint of this session is damaged; approvals, loops and memory begin anew. The conversation is whole.")
		c.state, damaged = store.Checkpoint{Limits: c.o.Limits}, "the checkpoint of the session is damaged"
	case err != nil:
		return err
	}
	if c.state, err = c.o.Store.RevealCheckpoint(ctx, id, c.state); err != nil {
		return err
	}
	if c.kept, err = json.Marshal(timeless(c.state)); err != nil {
		return err
	}
	was, fresh := c.shell()
	if err := c.open(c.splitByGrant(was)); err != nil {
		return err
	}
	if err := c.main.load(ctx); err != nil {
		return err
	}
	if err := c.main.mend(ctx, false); err != nil {
		return err
	}
	if why := cmp.Or(fresh, damaged); why != "" {
		if err := c.recordFresh(ctx, why); err != nil {
			return err
		}
	}
	c.keepAlive()
	return nil
}

// allowed refuses a remote model to a session that is local-only.
func (c *Chat) allowed() error {
	if c.o.Remote && c.session.Mode == tidemark.ModeLocal && !c.o.Allow {
		return tidemark.Errorf(tidemark.ErrLocalOnly, "session %.8s is local-only, and the model %s is not on this machine", c.session.ID, c.o.Name)
	}
	return nil
}

// kindInterpreter is the entry that says why the interpreter is fresh.
const kindInterpreter = "interpreter"

func (c *Chat) recordFresh(ctx context.Context, why string) error {
	_, err := c.main.append(ctx, tidemark.Entry{Kind: kindInterpreter, Blocks: []tidemark.Block{tidemark.Text(why)}})
	return err
}

// ID is the id of the session, also before it exists.
func (c *Chat) ID() tidemark.SessionID { return c.id }

// writer returns the writer of the session.
func (c *Chat) writer() *store.Writer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.w
}

// answering returns the model that answers now.
func (c *Chat) answering() answerer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers
}

// Exists reports whether the session exists, which is from the first message
// on.
func (c *Chat) Exists() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.created
}

// Session returns the description of the session.
func (c *Chat) Session() tidemark.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// View reads the session. It returns ErrNotFound before the first message.
func (c *Chat) View(ctx context.Context) (*store.View, error) { return c.o.Store.View(ctx, c.ID()) }

// SetModel switches to another model from the next request on. A remote
// model in a local-only session is ErrInvalid.
func (c *Chat) SetModel(m Model, provider, name string, remote bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if remote && c.session.Mode == tidemark.ModeLocal && !c.o.Allow {
		return tidemark.Errorf(tidemark.ErrLocalOnly, "this session is local-only, and the model %s is not on this machine", name)
	}
	c.answers = answerer{m, provider, name}
	c.window, c.windowTold, c.textOnly = 0, false, false
	return nil
}

// ModelName returns the provider and the model that answer.
func (c *Chat) ModelName() (provider, name string) {
	now := c.answering()
	return now.provider, now.name
}

// Handed receives a value when somebody asks for the session.
func (c *Chat) Handed() <-chan store.HandoverRequest { return c.handed }

// keepAlive renews the lease while the conversation is open. Storage that
// fails for a while does not end it; only the loss of the lease does.
func (c *Chat) keepAlive() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.mu.Lock()
	w := c.w
	c.stopRenewal = func() { stop(); <-done }
	c.mu.Unlock()
	asked := func(a store.HandoverRequest) {
		select {
		case c.handed <- a:
		default:
		}
	}
	go func() {
		defer close(done)
		for told := false; ; told = true {
			err := w.KeepAlive(ctx, asked)
			switch {
			case err == nil || ctx.Err() != nil:
				return
			case errors.Is(err, tidemark.ErrConflict):
				c.notice("This session is no longer ours: " + err.Error())
				return
			case !told:
				c.notice("That this session is open could not be written down, and is tried again: " + err.Error())
			}
		}
	}()
}

// Close releases the session: it stops the workers, ends the tools and keeps
// the state. A turn in progress has to be ended first, through its ctx.
// Closing twice is no error.
func (c *Chat) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	err := c.stopWorkers()
	err = errors.Join(err, c.save(ctx))
	c.mu.Lock()
	stopRenewal, w := c.stopRenewal, c.w
	c.mu.Unlock()
	if stopRenewal != nil {
		stopRenewal()
	}
	if c.o.More != nil {
		err = errors.Join(err, c.o.More.Close())
	}
	return errors.Join(err, c.box.Close(), w.Close(ctx))
}

// emit hands an event to Show.
func (c *Chat) emit(e Event) {
	c.show.Lock()
	defer c.show.Unlock()
	c.o.Show(e)
}

func (c *Chat) notice(text string) { c.emit(Event{Notice: text}) }
