package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// call runs one tool call and keeps its outcome. An error is always one of
// storage; a failure of the tool is its result.
func (t *thread) call(ctx context.Context, call tidemark.Block, broken string) error {
	keeping := context.WithoutCancel(ctx)
	answer := func(r tool.Result) error {
		kept, err := t.append(keeping, resultEntry(call.ID, r))
		if err == nil {
			t.c.emit(Event{Worker: t.worker, Result: &kept[0].Blocks[0]})
		}
		return err
	}
	refuse := func(format string, args ...any) error {
		return answer(tool.Result{Text: fmt.Sprintf(format, args...), IsError: true})
	}
	if ctx.Err() != nil {
		return refuse(cancelled)
	}
	found := t.find(call.Name)
	switch {
	case found == nil:
		return refuse("there is no tool %q; there are: %s", call.Name, strings.Join(t.names(), ", "))
	case broken != "":
		return refuse("not run: the arguments are not a JSON object: %.200s", broken)
	}
	if t.c.onlyPlans(*found) {
		return refuse(planOnly)
	}
	scope, ask := found.Asks(call.Input)
	if err := t.c.mayReach(*found); err != nil {
		return refuse("not run: %s", err)
	}
	if t.halt != "" {
		return refuse("not run: a hook ended the turn.")
	}
	veto, why, err := t.checked(ctx, call)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return refuse(cancelled)
	case veto != "":
		t.notice("A hook refused %s: %s", call.Name, render.Phrase(veto))
		return refuse("not run: a hook refused it: %s", veto)
	}
	m := callMark{ID: call.ID, Tool: call.Name, Scope: scope, Effect: found.Effect}
	about := Call{ID: call.ID, Tool: call.Name, Scope: scope, Input: call.Input}
	seen := tool.Seen{Scope: scope}
	if ask || why != "" {
		question := ApprovalRequest{Worker: t.worker, Call: about, Effect: found.Effect, fenced: found.Widens != nil}
		if found.Widens != nil {
			question.Widens = found.Widens(call.Input)
		}
		if found.EachTime != nil {
			question.EachTime = found.EachTime(call.Input)
		}
		if why != "" {
			question.EachTime = "a hook wants a person to decide: " + why
		}
		seen.Widens = question.Widens
		if t.c.asksPerson(question) {
			if err := t.asks(ctx, "The agent asks whether it may use "+call.Name+"."); err != nil {
				return err
			}
		}
		d, err := t.c.approve(ctx, question, func(a *ApprovalRequest) { seen.Change = a.fill(ctx, *found) })
		switch {
		case ctx.Err() != nil:
			return refuse(cancelled)
		case lost(err):
			return errors.Join(err, refuse("not run: the approval could not be kept."))
		case err != nil:
			return refuse("not run: %s", err)
		case d != Once && d != Always:
			return refuse("not run: the user denied it.")
		}
		m.By = d
	}
	if _, err := t.append(keeping, tidemark.Entry{Kind: kindCall, Extra: mark(m)}); err != nil {
		return err
	}
	if found.Change != nil {
		if c, err := found.Change(ctx, call.Input); err == nil {
			about.Change = shownChange(c)
		}
	}
	t.c.emit(Event{Worker: t.worker, Call: &about})
	r, err := found.Run(withCaller(tool.WithSeen(ctx, seen), caller{call.ID, t.worker}), call.Input)
	if err != nil {
		r.IsError = true
		why := "interrupted: " + err.Error()
		if ctx.Err() != nil {
			why = "interrupted: the user cancelled it while it ran."
		}
		if lost(err) {
			return errors.Join(err, answer(tool.Result{Text: why, IsError: true}))
		}
		r.Text = strings.TrimSpace(r.Text + "\n" + why)
	}
	r.Text = bound(r.Text, t.c.limits().OutputBytes)
	if r, err = t.reviewed(ctx, call, r); err != nil {
		return errors.Join(err, answer(r))
	}
	if r.Refused != "" {
		t.notice("%s: %s.", call.Name, r.Refused)
	}
	return answer(r)
}

const cancelled = "not run: the user cancelled the turn."

// lost reports whether an error means that nothing can be kept any more, as
// opposed to an error that the model can react to.
func lost(err error) bool {
	return errors.Is(err, tidemark.ErrStorage) || errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrUnknown)
}

// boundSlack is what a tool may add to its bounded output.
const boundSlack = 4 << 10

// bound cuts a result that is longer than the session allows, between
// characters. Most tools bound themselves, but the session's limit may
// differ from theirs.
func bound(text string, most int) string {
	if len(text) <= most+boundSlack {
		return text
	}
	return fmt.Sprintf("%s\n[%d bytes in all; the rest is left out]", strings.ToValidUTF8(text[:most], ""), len(text))
}

// mayReach refuses tools that contact other machines in a session that is
// local-only.
func (c *Chat) mayReach(t tool.Tool) error {
	if t.Effect == tool.Network && !c.mayReachOut() {
		return tidemark.Errorf(tidemark.ErrLocalOnly, "this session is local-only; the user can allow it with --remote")
	}
	return nil
}

// approve asks a person, unless the call is already approved for the whole
// session. An approval for the session is kept before anything runs. A caller
// that waits for an earlier question to be answered stops waiting when ctx
// ends.
//
// fill adds the details that the person decides by; it reads files.
func (c *Chat) approve(ctx context.Context, a ApprovalRequest, fill func(*ApprovalRequest)) (Decision, error) {
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return Deny, ctx.Err()
	}
	defer func() { <-c.asking }()
	c.refresh()
	given := approval(a)
	special := a.EachTime != "" || !a.Widens.Empty()
	switch {
	case special && c.o.Unattended:
		err := a.unattended()
		c.notice(fmt.Sprintf("Denied %s: %s.", a.Tool, err))
		return Deny, err
	case !special && !c.o.AskAlways && c.approved(a):
		return Always, nil
	case !special && !c.o.AskAlways && c.permits(a):
		return Once, nil
	}
	fill(&a)
	a.Whole = a.Whole && a.EachTime == ""
	d, err := c.o.Approve(ctx, a)
	if err == nil && d == Always && (!a.Whole || !a.Widens.Empty() && c.o.Grants == nil) {
		d = Once
	}
	if err != nil || d != Always {
		return d, err
	}
	if !a.Widens.Empty() {
		return d, c.o.Grants.Widen(context.WithoutCancel(ctx), a.Widens)
	}
	return d, c.Change(context.WithoutCancel(ctx), func(s *checkpoint) error {
		for _, form := range tool.Forms(given.Scope) {
			s.Approvals = append(s.Approvals, store.Approval{Tool: given.Tool, Scope: tool.FormScope(form)})
		}
		if len(tool.Forms(given.Scope)) == 0 {
			s.Approvals = append(s.Approvals, given)
		}
		return nil
	})
}

// asksPerson reports whether a person would be asked about a call now.
func (c *Chat) asksPerson(a ApprovalRequest) bool {
	special := a.EachTime != "" || !a.Widens.Empty()
	return !c.o.Unattended && (special || c.o.AskAlways || !c.approved(a) && !c.permits(a))
}

// unattended says why only a person can allow a call.
func (a ApprovalRequest) unattended() error {
	if a.EachTime != "" {
		return fmt.Errorf("%s, and nobody is there to ask", a.EachTime)
	}
	return fmt.Errorf("it would widen the sandbox to %s, and nobody is there to ask", a.Widens)
}

// fill adds the lines that say what a call would do, and returns the hash
// of the change among them.
func (a *ApprovalRequest) fill(ctx context.Context, t tool.Tool) (hash string) {
	a.Whole = true
	defer func() {
		if !a.Widens.Empty() {
			a.Lines = append(a.Lines, render.ApprovalLines("this widens the sandbox, to:", json.RawMessage(a.Widens.String()), nil)...)
		}
		if a.EachTime != "" {
			a.Lines = append(a.Lines, render.ApprovalLine{Kind: render.MarkerLine, Text: "asked each time: " + render.CleanLine(a.EachTime)})
		}
	}()
	if t.Change == nil {
		a.Lines = render.ApprovalLines(a.Tool, a.Input, nil)
		if t.Command != "" {
			a.Lines = append(a.Lines, render.ApprovalLines("it runs:", json.RawMessage(t.Command), nil)...)
		}
		return ""
	}
	c, err := t.Change(ctx, a.Input)
	if err != nil {
		a.Whole = false
		a.Lines = append(render.ApprovalLines(a.Tool, a.Input, nil), render.ApprovalLine{Kind: render.MarkerLine, Text: "what it replaces cannot be shown: " + render.CleanLine(err.Error())})
		return ""
	}
	a.Lines = render.ApprovalLines(a.Tool, a.Input, shownChange(c))
	return c.Hash()
}

// shownChange is a change in the form in which people see it.
func shownChange(c tool.Change) *render.Change {
	return &render.Change{Path: c.Path, Old: string(c.Old), New: string(c.New), Made: c.Made}
}

// rawObject decodes input as an object, for the tools of this package.
func rawObject[T any](input json.RawMessage) (T, *tool.Result) {
	var v T
	if err := json.Unmarshal(input, &v); err != nil {
		return v, &tool.Result{IsError: true, Text: "the arguments do not fit: " + err.Error()}
	}
	return v, nil
}
