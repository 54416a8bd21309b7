// Package chat is a conversation with an agent: ask a model, run tools, get
// approval, and keep each step before the next one begins. Whoever kills it
// anywhere can go on from what was kept.
//
// It prints nothing and reads no terminal: what happens is told to
// Options.Show, and what needs a person is asked of Options.Approve.
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
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// Model asks a language model.
type Model interface {
	Stream(ctx context.Context, r model.Request) iter.Seq2[model.Event, error]
	// Parts is what Stream sends, in the order in which a cache reads it.
	Parts(r model.Request) ([][]byte, error)
}

// Options are what a conversation needs. Store, Model and Box are required.
type Options struct {
	Store  *store.Store
	Holder tidemark.Holder

	Model    Model
	Name     string // of the model
	Provider string
	Remote   bool // the model is not on this machine
	Thinking int  // tokens that it may think

	// System is the system prompt of a new session, and what a resumed one
	// that has none gets.
	System string
	// Session is what a new session says of itself; without a title it gets
	// the one that Title makes of the first message.
	Session tidemark.Session
	Title   func(first string) string
	// Box makes the tools of a session. It is called again after a switch.
	// The limits are those of the session.
	Box func(tool.State, tool.Files, store.Limits, func(name string, chunk []byte)) (*tool.Box, error)
	// Tools are what the agent may use besides those of the Box; workers may
	// not.
	Tools []tool.Tool
	// Without are the names of tools that neither the agent nor its workers
	// have, in any case of letters; "*" is all of them.
	Without []string
	// Allow lets a session that is local-only use remote models and tools.
	Allow bool
	// Root is the folder that the tools work in: paths outside of it need a
	// grant. "": all of them do.
	Root string
	// Grants are what the person at this machine granted in this project. Nil:
	// nothing is, and what is approved or made holds until the conversation is
	// closed; so it is wherever nobody sits at this machine's terminal or
	// editor.
	Grants *grant.Scope
	// FreshInterpreter is why no shell or interpreter of an earlier run is
	// restored; "": they are.
	FreshInterpreter string

	// Approve decides about a call that has effects. It is called by one
	// goroutine at a time. Nil denies.
	Approve func(context.Context, ApprovalRequest) (Decision, error)
	// Unattended says that nobody is there who sees what is asked: Approve
	// answers by rule. What a person has to decide about each time is refused
	// then, and so is what would widen the sandbox.
	Unattended bool
	// AskAlways asks also for what was approved for the session: whoever answers
	// for a fleet decides about each call.
	AskAlways bool
	// Wake is told when the agent asks to be woken, once that is kept. Nil:
	// nobody is.
	Wake func(context.Context, tidemark.SessionID, time.Time) error
	// Show is told what happens, in order, by one goroutine at a time.
	Show func(Event)

	Compact compact.Options
	Limits  store.Limits // of a new session
	Workers int          // at most at a time; 0: DefaultWorkers
	Now     func() time.Time
}

// The defaults of the agent's loop.
const (
	DefaultRounds  = 50
	DefaultTools   = 128
	DefaultWorkers = 12
)

// Event is something to show: exactly one of the fields below Worker is set.
type Event struct {
	Worker   string // whose it is, "" for the conversation itself
	Text     string // more of an answer
	Thinking string
	Call     *Call
	Output   string // of the tool that runs
	Result   *tidemark.Block
	Wait     *model.Wait
	Notice   string          // for people, one line
	Kept     *tidemark.Entry // an entry that is durable now
	Created  tidemark.SessionID
	Answered bool  // the model has ended its last answer, which is now kept
	Ended    *Turn // a turn is over
}

// Call is a tool call that is about to run.
type Call struct {
	ID, Tool, Scope string
	Input           json.RawMessage
}

// ApprovalRequest asks a person: may this run?
type ApprovalRequest struct {
	Worker string
	Call
	Effect tool.Effect
	// Lines are everything that would run, be sent or be written: what the
	// person decides by, wherever they are asked. Whole says that nothing is
	// missing; without it no answer holds for more than this call.
	Lines []render.ApprovalLine
	Whole bool
	// Widens is what the call would have beyond the sandbox. Always is for the
	// project then, and for that alone: not for the call.
	Widens sandbox.Widening
	// EachTime is why no answer holds for more than this call; "": one may.
	EachTime string
}

// Readable returns why nobody can be asked about a call: it is longer than a
// person reads. Whoever would ask refuses it with that.
func (a ApprovalRequest) Readable() error {
	n := 0
	for _, l := range a.Lines {
		n += len(l.Sign()) + len(l.Text) + 2
	}
	if n > store.MaxReviewShown {
		return fmt.Errorf("it is %d bytes long, more than a person can be shown (%d); do it in smaller steps", n, store.MaxReviewShown)
	}
	return nil
}

// Decision is the answer to an ApprovalRequest.
type Decision string

// What a person may say to a call: this once, all like it in this session, no.
const (
	Once   Decision = "once"
	Always Decision = "always"
	Deny   Decision = "deny"
)

// Turn is what came of one Send.
type Turn struct {
	Text   string // of the last answer
	Stop   string // one of model's Stop constants, or one of these below
	Rounds int    // answers of the model
	Usage  tidemark.Usage
}

// Why a turn ended that the model did not end.
const (
	StopRounds    = "max_turns"
	StopCancelled = "cancelled"
	StopError     = "error"
)

// Chat is one conversation. Its methods may be called concurrently; turns wait
// for each other. Show and Approve may call all of them but Change and those
// that change the state, and none that waits for a turn.
type Chat struct {
	o      Options
	id     tidemark.SessionID
	box    *tool.Box
	main   *thread
	handed chan store.HandoverRequest

	show   sync.Mutex    // one goroutine tells at a time
	asking chan struct{} // holds a token while a question is asked
	saving sync.Mutex    // one change of the state at a time; taken before mu
	kept   []byte        // state as it was last kept; guarded by saving
	// recorded are the things of the state that are written down as granted;
	// cap are the limits that need no grant. Both are guarded by saving.
	recorded map[grant.Thing]bool
	cap      store.Limits

	mu      sync.Mutex // guards what follows, and is never held during I/O
	with    with
	w       *store.Writer
	created bool // the session is there
	closed  bool
	session tidemark.Session
	state   store.Checkpoint // what is in force
	// proposed is what the session would have beside that.
	proposed []claim
	changed  bool // state was changed before the session was there
	warned   bool // that state cannot be kept
	workers  map[string]*worker
	steered  []string // what the user said since the session was opened
	alive    func()   // stops the renewal of the lease, and waits for its end
}

// with is who answers. It is taken once for each request, so that a change
// never meets half of one.
type with struct {
	model          Model
	provider, name string
}

// New returns a conversation that does not exist yet: the first message makes
// it.
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
	c := &Chat{o: o, with: with{o.Model, o.Provider, o.Name}, workers: make(map[string]*worker),
		handed: make(chan store.HandoverRequest, 1), asking: make(chan struct{}, 1)}
	c.main = &thread{c: c}
	return c
}

// Resume goes on with a session: ErrHeld when somebody else writes to it. What
// its last run left half done is put right first.
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
	if err := c.open(c.weigh(was)); err != nil {
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

// kindInterpreter is the entry that says why the interpreter is a fresh one.
const kindInterpreter = "interpreter"

func (c *Chat) recordFresh(ctx context.Context, why string) error {
	_, err := c.main.append(ctx, tidemark.Entry{Kind: kindInterpreter, Blocks: []tidemark.Block{tidemark.Text(why)}})
	return err
}

// ID is that of the session, also before it exists.
func (c *Chat) ID() tidemark.SessionID { return c.id }

// writer appends to the session.
func (c *Chat) writer() *store.Writer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.w
}

// asked is who answers now.
func (c *Chat) asked() with {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.with
}

// Exists reports whether something was said.
func (c *Chat) Exists() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.created
}

// Session is what the session says of itself.
func (c *Chat) Session() tidemark.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// View reads the session: ErrNotFound while nothing was said.
func (c *Chat) View(ctx context.Context) (*store.View, error) { return c.o.Store.View(ctx, c.ID()) }

// SetModel makes another model answer from the next request on. A remote one
// in a session that is local-only is ErrInvalid.
func (c *Chat) SetModel(m Model, provider, name string, remote bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if remote && c.session.Mode == tidemark.ModeLocal && !c.o.Allow {
		return tidemark.Errorf(tidemark.ErrLocalOnly, "this session is local-only, and the model %s is not on this machine", name)
	}
	c.with = with{m, provider, name}
	return nil
}

// ModelName is the provider and the model that answers.
func (c *Chat) ModelName() (provider, name string) {
	now := c.asked()
	return now.provider, now.name
}

// Handed is told when somebody asks for the session.
func (c *Chat) Handed() <-chan store.HandoverRequest { return c.handed }

// keepAlive renews the lease while the conversation is open. Storage that
// fails for a while does not end it: only who lost the lease gives up.
func (c *Chat) keepAlive() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.mu.Lock()
	w := c.w
	c.alive = func() { stop(); <-done }
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

// Close lets go of the session: its workers are stopped, its tools end, its
// state is kept. A turn that is under way has to be ended first, through its
// ctx. Closing twice is no error.
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
	alive, w := c.alive, c.w
	c.mu.Unlock()
	if alive != nil {
		alive()
	}
	return errors.Join(err, c.box.Close(), w.Close(ctx))
}

// tell shows something.
func (c *Chat) tell(e Event) {
	c.show.Lock()
	defer c.show.Unlock()
	c.o.Show(e)
}

func (c *Chat) notice(text string) { c.tell(Event{Notice: text}) }
