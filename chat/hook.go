package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/tool"
)

// HookEvent is a moment of a conversation at which hooks run. The names are
// those that people's files already have.
type HookEvent string

// The moments: before the first message since a conversation was opened, before a
// message of the user is kept, before a call is asked for, after it ran, before a
// turn ends, before one of a worker does, before the conversation is summarised,
// and before a person is asked about a call.
const (
	HookStart      HookEvent = "SessionStart"
	HookPrompt     HookEvent = "UserPromptSubmit"
	HookBefore     HookEvent = "PreToolUse"
	HookAfter      HookEvent = "PostToolUse"
	HookStop       HookEvent = "Stop"
	HookWorkerStop HookEvent = "SubagentStop"
	HookCompact    HookEvent = "PreCompact"
	HookAsks       HookEvent = "Notification"
)

// HookEvents are all moments.
var HookEvents = []HookEvent{HookStart, HookPrompt, HookBefore, HookAfter, HookStop, HookWorkerStop, HookCompact, HookAsks}

// Moment is what happens when hooks run.
type Moment struct {
	Event   HookEvent
	Session tidemark.SessionID
	Prompt  string // HookPrompt: what the user says; HookAsks: what a person is asked
	// Kind tells moments of one event apart: how a conversation was opened (startup,
	// resume), the worker, why it is summarised (auto, manual), what a person is
	// asked (permission_prompt).
	Kind string
	// CallID, Tool and Input are those of a call; Result is what it returned,
	// for HookAfter.
	CallID, Tool string
	Input        json.RawMessage
	Result       tool.Result
	// Again means that a hook already kept this turn from ending.
	Again      bool
	Permission Permission
}

// HookAnswer is what a hook says. The zero value lets things go their way. There
// is nothing that allows a call: only the person does.
type HookAnswer struct {
	// Veto is why it must not happen: the message is not sent, the call does not
	// run, the turn does not end. After a call, it is what is wrong with it.
	Veto string
	// Ask is why a person has to decide about a call, whatever was approved.
	Ask string
	// Halt is why the turn ends here.
	Halt string
	// Context is told to the model: with the message, or with the result.
	Context string
}

// Hook is something that runs at a moment.
type Hook struct {
	Name string // for people, in one line
	// Run runs it, and ends when ctx does. What goes wrong it reports to people,
	// and it then has nothing to say.
	Run func(ctx context.Context) HookAnswer
}

// Hooks are programs of the person and of the project that have a say in what
// happens.
type Hooks interface {
	// Due returns what runs at a moment, in its order: what is meant for it and
	// may start, about which a person may be asked.
	Due(context.Context, *Chat, Moment) []Hook
}

// Hooks returns Options.Hooks.
func (c *Chat) Hooks() Hooks { return c.o.Hooks }

// kindHook is the entry written when hooks are about to run: they are programs,
// and none of them is run again for what an earlier process began.
const kindHook = "hook"

// hookMark is the content of such an entry.
type hookMark struct {
	Event HookEvent `json:"event"`
	Call  string    `json:"call,omitempty"` // the id of the call
	Runs  []string  `json:"runs"`
}

// maxHookText bounds what a hook tells the model.
const maxHookText = 16 << 10

// hooks runs the hooks of a moment one after the other, until one has a veto. An
// error is one of storage.
func (t *thread) hooks(ctx context.Context, m Moment) (all HookAnswer, err error) {
	if t.c.o.Hooks == nil || ctx.Err() != nil {
		return all, nil
	}
	m.Session, m.Permission = t.c.ID(), t.c.Permission()
	due := t.c.o.Hooks.Due(ctx, t.c, m)
	if len(due) == 0 {
		return all, nil
	}
	began := hookEntry(m, due)
	if m.Event == HookPrompt || m.Event == HookStart {
		t.prompted = append(t.prompted, began) // kept with the message, if that is
	} else if _, err := t.append(context.WithoutCancel(ctx), began); err != nil {
		return all, err
	}
	var added []string
	for _, h := range due {
		a := h.Run(ctx)
		if a.Context != "" {
			added = append(added, a.Context)
		}
		if all.Ask == "" {
			all.Ask = a.Ask
		}
		if all.Veto, all.Halt = bound(a.Veto, maxHookText), bound(a.Halt, maxHookText); all.Veto != "" || all.Halt != "" {
			break
		}
	}
	all.Context = bound(strings.Join(added, "\n"), maxHookText)
	return all, nil
}

func hookEntry(m Moment, due []Hook) tidemark.Entry {
	said := hookMark{Event: m.Event, Call: m.CallID}
	for _, h := range due {
		said.Runs = append(said.Runs, h.Name)
	}
	return tidemark.Entry{Kind: kindHook, Extra: mark(said)}
}

// ErrPromptRefused is a message that a hook did not let through. Nothing of it
// was kept or sent.
var ErrPromptRefused = tidemark.Deniedf("the message was not sent")

// submitted runs the hooks for a message of the user, and returns the message
// with what they add. ErrPromptRefused.
func (t *thread) submitted(ctx context.Context, blocks []tidemark.Block) ([]tidemark.Block, error) {
	t.prompted = nil
	if t.worker != "" {
		return blocks, nil // its messages come from the agent, and the user's come first
	}
	if err := t.opened(ctx); err != nil {
		return nil, err
	}
	a, err := t.hooks(ctx, Moment{Event: HookPrompt, Prompt: tidemark.Entry{Blocks: blocks}.Text()})
	a.Context = strings.TrimSpace(t.greeting + "\n" + a.Context)
	switch {
	case err != nil:
		return nil, err
	case a.Veto != "" || a.Halt != "":
		return nil, fmt.Errorf("%w: a hook refused it: %s", ErrPromptRefused, a.Veto+a.Halt)
	case ctx.Err() != nil && t.prompted != nil:
		return nil, fmt.Errorf("%w: it was cancelled before its hooks had ended", ErrPromptRefused)
	case a.Context != "":
		added := asData(tidemark.Block{Text: a.Context}).Text
		blocks = append(blocks[:len(blocks):len(blocks)], tidemark.Text("A hook adds to this message, and is not the user:\n"+added))
	}
	t.greeting = ""
	return blocks, nil
}

// opened runs the hooks for the first message since the conversation was opened,
// once. They have no veto.
func (t *thread) opened(ctx context.Context) error {
	if t.greeted || ctx.Err() != nil {
		return nil
	}
	t.greeted = true
	kind := "startup"
	if t.c.Exists() {
		kind = "resume"
	}
	a, err := t.hooks(ctx, Moment{Event: HookStart, Kind: kind})
	t.overruled(HookStart, a)
	t.greeting = a.Context
	return err
}

// overruled tells the person what hooks object to where they have no say.
func (t *thread) overruled(event HookEvent, a HookAnswer) {
	if a.Veto+a.Halt != "" {
		t.notice("A hook at %s objects, which changes nothing: %s", event, render.Phrase(a.Veto+a.Halt))
	}
}

// beforeCompacting runs the hooks before the conversation is summarised. What they
// say changes nothing: it has to become shorter.
func (t *thread) beforeCompacting(ctx context.Context, kind string) error {
	a, err := t.hooks(ctx, Moment{Event: HookCompact, Kind: kind})
	t.overruled(HookCompact, a)
	return err
}

// asks starts the hooks that tell the person that they are asked, beside the
// question: it does not wait for them.
func (t *thread) asks(ctx context.Context, text string) error {
	if t.c.o.Hooks == nil {
		return nil
	}
	m := Moment{Event: HookAsks, Kind: "permission_prompt", Prompt: text, Session: t.c.ID(), Permission: t.c.Permission()}
	due := t.c.o.Hooks.Due(ctx, t.c, m)
	if len(due) == 0 {
		return nil
	}
	if _, err := t.append(context.WithoutCancel(ctx), hookEntry(m, due)); err != nil {
		return err
	}
	go func() {
		for _, h := range due {
			h.Run(ctx)
		}
	}()
	return nil
}

// checked runs the hooks before a call: why it must not run, or why a person has
// to be asked.
func (t *thread) checked(ctx context.Context, call tidemark.Block) (veto, ask string, err error) {
	a, err := t.hooks(ctx, Moment{Event: HookBefore, CallID: call.ID, Tool: call.Name, Input: call.Input})
	if a.Halt != "" {
		t.halt, a.Veto = a.Halt, a.Halt
	}
	return a.Veto, a.Ask, err
}

// reviewed runs the hooks after a call, and returns its result with what they
// say.
func (t *thread) reviewed(ctx context.Context, call tidemark.Block, r tool.Result) (tool.Result, error) {
	a, err := t.hooks(ctx, Moment{Event: HookAfter, CallID: call.ID, Tool: call.Name, Input: call.Input, Result: r})
	for _, said := range []struct{ intro, text string }{{"A hook objects to this", a.Veto}, {"A hook ends the turn", a.Halt}, {"A hook adds", a.Context}} {
		if said.text != "" {
			r.Text = strings.TrimSpace(r.Text + "\n\n" + said.intro + ":\n" + said.text)
		}
	}
	if a.Halt != "" {
		t.halt = a.Halt
	}
	return r, err
}

// maxGoOns is how often hooks may keep a turn from ending: one that always does
// would cost an answer of the model each time.
const maxGoOns = 8

// goesOn runs the hooks before a turn ends, and reports whether it goes on
// instead: then the model was told why. times is how often that happened before
// in this turn.
func (t *thread) goesOn(ctx context.Context, times int) (bool, error) {
	m := Moment{Event: HookStop, Again: times > 0}
	if t.worker != "" {
		m.Event, m.Kind = HookWorkerStop, t.worker
	}
	a, err := t.hooks(ctx, m)
	switch {
	case err != nil || a.Veto == "" || a.Halt != "" || ctx.Err() != nil:
		return false, err
	case times >= maxGoOns:
		t.notice("A hook would have this turn go on, and did so %d times: it ends here.", times)
		return false, nil
	}
	_, err = t.append(context.WithoutCancel(ctx), tidemark.Say(tidemark.User, "A hook, which is not the user, says that this is not done:\n"+asData(tidemark.Block{Text: a.Veto}).Text))
	return err == nil, err
}
