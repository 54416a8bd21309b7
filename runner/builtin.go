package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/render"
)

// Builtin runs the built-in agent. options returns what its conversation needs:
// a store, a model, tools. Its Approve and Show are set here. In autonomous
// mode Ask decides as well: it is then the policy, and no person is asked.
func Builtin(options func(context.Context, Task) (chat.Options, error)) Runner {
	return &builtin{options}
}

type builtin struct {
	options func(context.Context, Task) (chat.Options, error)
}

func (b *builtin) Run(ctx context.Context, t Task) (Outcome, error) {
	t = t.bound()
	out := Outcome{ExitReason: tidemark.ExitError, ExitCode: -1}
	if t.Container != nil {
		return out, tidemark.Unsupportedf("the built-in agent does not run in a container: its tools would work outside of it")
	}
	o, err := b.options(ctx, t)
	if err != nil {
		return out, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s := newSink(t, fail)
	o.Show = func(e chat.Event) { show(s, &out, e) }
	o.Approve, o.AskAlways = approval(t), true
	c, err := b.open(ctx, t, o)
	if err != nil {
		return out, err
	}
	out.Session = string(c.ID())
	if t.Running != nil {
		if err := t.Running(Process{Job: t.Job, Mark: t.Mark, Session: out.Session}); err != nil {
			return out, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}
	turn, err := c.Send(ctx, tidemark.Text(t.Prompt))
	if closeErr := c.Close(context.WithoutCancel(ctx)); err == nil {
		err = closeErr
	}
	out.Summary, out.Turns, out.LeftOut = turn.Text, int64(turn.Rounds), s.close()
	switch {
	case ctx.Err() != nil:
		cause := context.Cause(ctx)
		out.ExitReason = reasonOf(cause)
		return out, cause
	case err != nil:
		return out, err
	}
	if out.ExitReason, err = exitOf(turn.Stop); err == nil {
		out.ExitCode = 0
	}
	return out, err
}

// exitOf returns the exit reason for the end of a turn, or why the run failed.
func exitOf(stop string) (reason string, failure error) {
	switch stop {
	case model.StopSequence:
		return tidemark.ExitStopSequence, nil
	case model.StopMaxTokens:
		return tidemark.ExitMaxTokens, nil
	case chat.StopRounds:
		return tidemark.ExitMaxTurns, nil
	case model.StopRefusal, model.StopPause, model.StopUnknown:
		return tidemark.ExitError, errors.New(model.StopText(stop))
	}
	return tidemark.ExitEndTurn, nil
}

// open starts a conversation, resumes one, or resumes a copy of one.
func (b *builtin) open(ctx context.Context, t Task, o chat.Options) (*chat.Chat, error) {
	if t.MaxTurns > 0 {
		o.Limits.ToolRounds = t.MaxTurns
	}
	if t.Session == "" {
		return chat.New(o)
	}
	id, err := tidemark.ParseSessionID(t.Session)
	if err != nil {
		return nil, lost(t, err)
	}
	if t.Fork {
		forked, err := o.Store.Fork(ctx, id, t.Entry, "")
		if err != nil {
			return nil, lost(t, err)
		}
		id, t.Entry = forked.ID, 0
	}
	c, err := chat.Resume(ctx, o, id)
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil, lost(t, err)
	}
	if err == nil && t.Entry != 0 {
		if err = c.Branch(ctx, t.Entry); err != nil {
			return nil, errors.Join(lost(t, err), c.Close(context.WithoutCancel(ctx)))
		}
	}
	return c, err
}

// lost is the error for a task whose session cannot be resumed.
func lost(t Task, err error) error {
	return fmt.Errorf("agent %s: session %s: %w: %w", t.Agent, t.Session, ErrSession, err)
}

// approval asks whoever answers for the task.
func approval(t Task) func(context.Context, chat.ApprovalRequest) (chat.Decision, error) {
	return func(ctx context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
		if t.Ask == nil {
			return chat.Deny, nil
		}
		answer, err := t.Ask(ctx, Question{ID: a.ID, Tool: a.Tool, Title: a.Scope, Input: a.Input, Text: render.ApprovalText(a.Lines)})
		switch {
		case err != nil:
			return chat.Deny, err
		case !answer.Allow && answer.Reason != "":
			return chat.Deny, errors.New(answer.Reason)
		case !answer.Allow:
			return chat.Deny, nil
		case answer.Always:
			return chat.Always, nil
		}
		return chat.Once, nil
	}
}

// show turns chat events into run events: entries only once they are kept, so
// that the output of a job never says more than its session.
func show(s *sink, out *Outcome, e chat.Event) {
	switch {
	case e.Notice != "":
		s.emit(tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeNotice, Content: e.Notice})
	case e.Wait != nil:
		s.emit(tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeNotice, Content: e.Wait.Why.Error()})
	case e.Created != "":
		s.emit(tidemark.Event{Type: tidemark.EventSystem, Subtype: "init", Content: string(e.Created)})
	case e.Kept != nil && e.Kept.Kind == tidemark.KindMessage:
		if e.Kept.Usage != nil {
			out.use(e.Kept.Model, *e.Kept.Usage)
		}
		for _, event := range eventsOf(*e.Kept) {
			s.emit(event)
		}
	}
}

// eventsOf returns the events of a message.
func eventsOf(e tidemark.Entry) []tidemark.Event {
	var all []tidemark.Event
	for _, b := range e.Blocks {
		switch {
		case b.Type == tidemark.BlockText && e.Role == tidemark.Assistant && b.Text != "":
			all = append(all, tidemark.Event{Type: tidemark.EventAssistant, Content: b.Text, Usage: e.Usage})
		case b.Type == tidemark.BlockThinking:
			all = append(all, tidemark.Event{Type: tidemark.EventAssistant, Subtype: subtypeThink, Content: b.Text})
		case b.Type == tidemark.BlockToolUse:
			all = append(all, tidemark.Event{Type: tidemark.EventToolUse, ToolName: b.Name, ToolUseID: b.ID, Input: b.Input})
		case b.Type == tidemark.BlockToolResult:
			all = append(all, resultEvent(b))
		}
	}
	return all
}

func resultEvent(b tidemark.Block) tidemark.Event {
	text := b.Text
	for _, inner := range b.Blocks {
		if inner.Type == tidemark.BlockText {
			text += inner.Text
		}
	}
	success := !b.IsError
	e := tidemark.Event{Type: tidemark.EventToolResult, ToolUseID: b.ToolUseID, Success: &success}
	if raw, err := json.Marshal(text); err == nil {
		e.Result = raw
	}
	if b.IsError {
		e.Error = text
	}
	return e
}
