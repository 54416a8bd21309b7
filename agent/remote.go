package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// Remote is a conversation with a client over the network. Questions go to the
// client, and nothing of the conversation is left after Close. Its methods may
// be called concurrently; turns wait for each other.
type Remote struct {
	c    *chat.Chat
	s    *store.Store
	stop func() // ends watch, and waits for it
	lost chan error

	turning sync.Mutex // held during a turn

	mu      sync.Mutex
	emit    func(any) error               // the current listener
	waiting map[string]chan chat.Decision // calls that wait for an answer
}

// leaseInterval is how often a conversation checks whether it still holds its
// session.
const leaseInterval = 2 * time.Second

// OpenRemote opens a conversation for a client: a new session, or the one that
// Options names. emit receives what happens between turns; each value is a
// RemoteEvent. Approve and Show of the Options are not used.
func (s *Setup) OpenRemote(ctx context.Context, o Options, emit func(any) error) (*Remote, error) {
	v := &Remote{s: o.Store, lost: make(chan error, 1), emit: emit, waiting: make(map[string]chan chat.Decision)}
	o.Approve, o.Show = v.approve, v.show
	a, err := s.Assemble(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.Session == "" {
		v.c, err = chat.New(a.Chat)
	} else {
		v.c, err = chat.Resume(ctx, a.Chat, o.Session)
	}
	if err != nil {
		return nil, err
	}
	v.watch()
	if text := Withheld(v.c); text != "" {
		v.tell(RemoteEvent{Event: Event{Type: "system", Subtype: "notice", Text: text}})
	}
	return v, nil
}

// Withheld says in one line what a session proposes and does not get, because
// nobody is asked; "" when there is nothing.
func Withheld(c *chat.Chat) string {
	n := 0
	for _, p := range c.Proposals() {
		if !p.Declined {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d thing(s) that this session brings were not granted on this machine and are left off; grant them in: tidemark chat --resume %.8s", n, c.ID())
}

// FolderFor returns the folder that a conversation works in from a page: the
// project of the session, if that is a work tree of this person on this machine, or
// else here. What a session says of its project may have come from elsewhere.
func (s *Setup) FolderFor(of tidemark.Session, here string) string {
	if home, err := s.Home(); err == nil && filepath.IsAbs(of.Project) && project.IsWorkTree(of.Project, home) {
		return of.Project
	}
	return here
}

// ID is the id of the session, also before it exists.
func (v *Remote) ID() tidemark.SessionID { return v.c.ID() }

// Gone receives an error once somebody else has the session.
func (v *Remote) Gone() <-chan error { return v.lost }

// Chat is the conversation itself, for what is done in a Turn.
func (v *Remote) Chat() *chat.Chat { return v.c }

// Send adds a message of the user, and emits what happens until the turn is
// over.
func (v *Remote) Send(ctx context.Context, text string, emit func(any) error) error {
	return v.Turn(emit, func() error { return v.Say(ctx, tidemark.Text(text)) })
}

// Turn does something while no other turn is in progress, and emits what happens
// meanwhile.
func (v *Remote) Turn(emit func(any) error, work func() error) error {
	v.turning.Lock()
	defer v.turning.Unlock()
	between := v.listen(emit)
	defer func() { v.listen(between) }()
	return work()
}

// Say adds a message of the user within a Turn.
func (v *Remote) Say(ctx context.Context, blocks ...tidemark.Block) error {
	turn, err := v.c.Send(ctx, blocks...)
	if err == nil && turn.Stop != chat.StopCancelled {
		v.tell(RemoteEvent{Event: Event{Type: "result", Subtype: turn.Stop, Text: turn.Text}, Usage: &turn.Usage})
	}
	return err
}

// Tell emits something else that happens within a Turn.
func (v *Remote) Tell(e Event) { v.tell(RemoteEvent{Event: e}) }

// listen sets the listener, and returns the previous one.
func (v *Remote) listen(emit func(any) error) func(any) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.emit
	v.emit = emit
	return before
}

// tell emits an event. When the client is gone, the conversation ends by
// itself.
func (v *Remote) tell(e RemoteEvent) {
	v.mu.Lock()
	emit := v.emit
	v.mu.Unlock()
	if emit != nil {
		emit(e)
	}
}

// RemoteEvent is what a client receives: the events of stream-json, and
// what is needed to answer a question.
type RemoteEvent struct {
	Event
	Call   string          `json:"call,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	Scope  string          `json:"scope,omitempty"`
	Effect tool.Effect     `json:"effect,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	// Lines are what a person decides about, the same as everywhere else.
	Lines []render.ApprovalLine `json:"lines,omitempty"`
	// Always says what chat.Always would allow; "": only this call can be allowed.
	Always string          `json:"always,omitempty"`
	Usage  *tidemark.Usage `json:"usage,omitempty"`
}

func (v *Remote) show(e chat.Event) {
	out := RemoteEvent{Event: Event{Worker: e.Worker}}
	switch {
	case e.Call != nil:
		out.Type, out.Call, out.Tool, out.Scope, out.Input = "call", e.Call.ID, e.Call.Tool, e.Call.Scope, e.Call.Input
	case e.Output != "":
		out.Type, out.Text = "output", e.Output
	default:
		var ok bool
		if out.Event, ok = EventOf(e); !ok {
			return
		}
	}
	v.tell(out)
}

// approve asks the client, and waits for its answer or for the end of the turn.
func (v *Remote) approve(ctx context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
	if err := a.Readable(); err != nil {
		return chat.Deny, err
	}
	answer := make(chan chat.Decision, 1)
	v.mu.Lock()
	v.waiting[a.ID] = answer
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		delete(v.waiting, a.ID)
		v.mu.Unlock()
	}()
	v.tell(RemoteEvent{Event: Event{Type: "question", Worker: a.Worker}, Call: a.ID, Tool: a.Tool, Scope: a.Scope, Effect: a.Effect, Input: a.Input, Lines: a.Lines, Always: a.AlwaysText()})
	select {
	case d := <-answer:
		return d, nil
	case <-ctx.Done():
		return chat.Deny, ctx.Err()
	}
}

// Answer answers an emitted question. It returns ErrNotFound when no such call
// waits.
func (v *Remote) Answer(call string, d chat.Decision) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	answer := v.waiting[call]
	if answer == nil {
		return tidemark.NotFoundf("no call %.80q waits for an answer", call)
	}
	delete(v.waiting, call)
	answer <- d
	return nil
}

// watch notices when somebody else has the session, or asks for it: then it
// is handed over as soon as no turn is in progress.
func (v *Remote) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	v.stop = func() { cancel(); <-done }
	go func() {
		defer close(done)
		look := time.NewTicker(leaseInterval)
		defer look.Stop()
		var since time.Time // when our lease began
		for {
			if err := v.ours(ctx, &since); err != nil {
				v.lost <- err
				return
			}
			select {
			case <-ctx.Done():
				return
			case a := <-v.c.Handed():
				v.handOver(ctx, a)
				return
			case <-look.C:
			}
		}
	}()
}

// ours returns ErrConflict when we no longer hold the lease that began at
// since. Storage that fails for a while ends nothing.
func (v *Remote) ours(ctx context.Context, since *time.Time) error {
	if !v.c.Exists() {
		return nil
	}
	l, err := v.s.Lease(ctx, v.c.ID())
	switch {
	case err != nil:
	case since.IsZero() && l.Held:
		*since = l.Since
	case !since.IsZero() && !l.Held:
		return tidemark.Conflictf("session %s: the lease was released", v.c.ID())
	case !since.IsZero() && !l.Since.Equal(*since):
		return tidemark.Conflictf("session %s: the lease was lost to %s", v.c.ID(), l.Holder)
	}
	return nil
}

// handOver waits for the end of the turn.
func (v *Remote) handOver(ctx context.Context, a store.HandoverRequest) {
	v.tell(RemoteEvent{Event: Event{Type: "system", Subtype: "notice", Text: fmt.Sprintf("%s asks for this session; it is handed over when this turn is done.", a.From)}})
	idle := make(chan struct{})
	go func() {
		v.turning.Lock()
		defer v.turning.Unlock()
		close(idle)
	}()
	select {
	case <-idle:
		v.lost <- tidemark.Conflictf("session %s was handed over to %s", v.c.ID(), a.From)
	case <-ctx.Done():
	}
}

// Close releases the session. Only what was kept remains.
func (v *Remote) Close(ctx context.Context) error {
	v.stop()
	err := v.c.Close(ctx)
	v.listen(nil)
	if errors.Is(err, tidemark.ErrConflict) {
		return nil // we no longer held it
	}
	return err
}
