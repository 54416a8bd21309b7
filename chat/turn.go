package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/tool"
)

// kindError is the entry that says why the model did not answer.
const kindError = "error"

// Send says something and lets the agent work until it is done, it gave up, or
// ctx ends. The first message of a new session creates it.
//
// An error is one of storage or of the model; what was kept before it stays. A
// message without content is ErrInvalid.
// When ctx ends, the Turn says StopCancelled and the error is nil.
func (c *Chat) Send(ctx context.Context, blocks ...tidemark.Block) (Turn, error) {
	said := tidemark.Entry{Blocks: blocks}
	if len(spoken(said).Blocks) == 0 {
		return Turn{}, tidemark.Invalidf("a message without words")
	}
	text := said.Text()
	if strings.TrimSpace(text) != "" {
		c.mu.Lock()
		c.steered = append(c.steered, text)
		c.mu.Unlock()
	}
	return c.say(ctx, blocks)
}

// say is a turn of the conversation itself, and keeps the state that it left.
func (c *Chat) say(ctx context.Context, blocks []tidemark.Block) (Turn, error) {
	turn, err := c.main.turn(ctx, blocks)
	if saveErr := c.save(context.WithoutCancel(ctx)); err == nil {
		err = saveErr
	}
	return turn, err
}

// nameAfter gives a session that does not exist yet the title that its first
// message makes.
func (c *Chat) nameAfter(text string) {
	if c.o.Title == nil || c.Exists() {
		return
	}
	title := c.o.Title(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.Title == "" && title != "" {
		c.session.Title = title
		c.w = c.o.Store.Create(c.session, c.o.Holder)
	}
}

// turn is one Send in a thread.
func (t *thread) turn(ctx context.Context, blocks []tidemark.Block) (Turn, error) {
	t.turning.Lock()
	defer t.turning.Unlock()
	if t.worker == "" {
		t.c.nameAfter(tidemark.Entry{Blocks: blocks}.Text())
	}
	turn, err := t.run(ctx, blocks)
	if err != nil {
		turn.Stop = StopError
	}
	t.c.tell(Event{Worker: t.worker, Ended: &turn})
	return turn, err
}

func (t *thread) run(ctx context.Context, blocks []tidemark.Block) (Turn, error) {
	var turn Turn
	// What the user said is kept whatever happens next, also to ctx.
	keeping := context.WithoutCancel(ctx)
	if err := t.ready(keeping); err != nil {
		return turn, err
	}
	entries := append(t.opening(), tidemark.Entry{Role: tidemark.User, Blocks: blocks})
	if _, err := t.append(keeping, entries...); err != nil {
		return turn, err
	}
	limits := t.c.limits()
	for turn.Rounds < limits.ToolRounds {
		answer, err := t.askShortly(ctx)
		if err != nil && ctx.Err() != nil && !lost(err) {
			turn.Stop = StopCancelled
			return turn, nil
		}
		if err != nil {
			return turn, t.failed(keeping, err)
		}
		turn.Rounds++
		turn.add(answer.Entry.Usage)
		turn.Text, turn.Stop = answer.Entry.Text(), answer.Stop
		if turn.Stop == StopCancelled {
			return turn, nil
		}
		calls := callsOf(answer.Entry)
		if len(calls) == 0 {
			return turn, nil
		}
		for _, call := range calls {
			if err := t.call(ctx, call, answer.Broken[call.ID]); err != nil {
				return turn, err
			}
		}
		if ctx.Err() != nil {
			turn.Stop = StopCancelled
			return turn, nil
		}
		if err := t.retool(keeping); err != nil {
			return turn, err
		}
	}
	turn.Stop = StopRounds
	t.notice("Stopped after %d rounds of tools; say something to go on.", turn.Rounds)
	return turn, nil
}

// ready puts right what an earlier turn left behind because storage failed.
func (t *thread) ready(ctx context.Context) error {
	if t.stale {
		if err := t.load(ctx); err != nil {
			return err
		}
	}
	return t.mend(ctx, false)
}

// askShortly asks, with a context that was made shorter when it had to be.
func (t *thread) askShortly(ctx context.Context) (*model.Answer, error) {
	if err := t.compactIfOver(ctx); err != nil {
		return nil, err
	}
	answer, err := t.ask(ctx)
	if !errors.Is(err, model.ErrTooLong) {
		return answer, err
	}
	// The provider counts otherwise than we do: once more with less.
	switch compactErr := t.compact(ctx, t.c.o.Compact); {
	case errors.Is(compactErr, compact.ErrNoGain):
		return nil, err
	case compactErr != nil:
		return nil, compactErr
	}
	return t.ask(ctx)
}

// add counts what an answer cost.
func (t *Turn) add(u *tidemark.Usage) {
	if u == nil {
		return
	}
	t.Usage.InputTokens += u.InputTokens
	t.Usage.OutputTokens += u.OutputTokens
	t.Usage.CacheReadTokens += u.CacheReadTokens
	t.Usage.CacheWriteTokens += u.CacheWriteTokens
	t.Usage.CostUSD += u.CostUSD
}

// opening is what a thread keeps before its first message: its system prompt,
// and the tools that the model is told of.
func (t *thread) opening() []tidemark.Entry {
	var entries []tidemark.Entry
	if t.tools == nil || t.untold() {
		entries = append(entries, t.toolsEntry())
	}
	if t.system == nil {
		var parts []string
		for _, p := range []string{t.c.o.System, t.prompt, dataRule} {
			if p != "" {
				parts = append(parts, p)
			}
		}
		entries = append(entries, t.systemEntry(strings.Join(parts, "\n\n")))
	}
	return entries
}

// systemMark is what the entry of a system prompt says beside it.
type systemMark struct {
	Memory int `json:"memory,omitempty"` // bytes of core memory at its end
}

// systemEntry is a system prompt with core memory at its end.
func (t *thread) systemEntry(text string) tidemark.Entry {
	memory := t.c.memory()
	e := tidemark.Say(tidemark.System, text+memory)
	e.Extra = mark(systemMark{Memory: len(memory)})
	return e
}

// renewed returns the system prompt with core memory as it is now, and whether
// that is another one. It is told anew only where the provider's cache is lost
// anyway.
func (t *thread) renewed() (tidemark.Entry, bool) {
	if t.system == nil {
		return tidemark.Entry{}, false
	}
	text := t.system.Text()
	if n := markOf[systemMark](*t.system).Memory; 0 < n && n <= len(text) {
		text = text[:len(text)-n]
	}
	e := t.systemEntry(text)
	return e, e.Text() != t.system.Text()
}

func (t *thread) toolsEntry() tidemark.Entry {
	return tidemark.Entry{Kind: kindTools, Extra: mark(t.offered())}
}

// offered are the tools that the model is told of.
func (t *thread) offered() []model.Tool {
	var all []model.Tool
	for _, o := range t.available() {
		all = append(all, model.Tool{Name: o.Name, Description: o.Description, Schema: o.Schema})
	}
	if most := t.c.limits().ToolsInContext; len(all) > most {
		all = all[:most]
	}
	return all
}

// retool tells the model of a tool that was defined in this turn.
func (t *thread) retool(ctx context.Context) error {
	if !t.untold() {
		return nil
	}
	_, err := t.append(ctx, t.toolsEntry())
	return err
}

// untold reports whether there is a defined tool that the model does not know,
// or knows otherwise.
func (t *thread) untold() bool {
	defined := t.box().Defined()
	if len(defined) == 0 {
		return false
	}
	told := make(map[string]string)
	for _, o := range markOf[[]model.Tool](*t.tools) {
		told[o.Name] = string(mark(o))
	}
	for _, o := range t.offered() {
		isDefined := slices.ContainsFunc(defined, func(d tool.Definition) bool { return d.Name == o.Name })
		if isDefined && told[o.Name] != string(mark(o)) {
			return true
		}
	}
	return false
}

// request is what is sent now.
func (t *thread) request(name string) model.Request {
	r := model.Request{Model: name, Entries: input(t.context), Thinking: t.c.o.Thinking}
	if t.system != nil {
		r.System = t.system.Text()
	}
	if t.tools != nil {
		r.Tools = markOf[[]model.Tool](*t.tools)
	}
	return r
}

// ask asks the model and keeps its answer. An answer that was cut short by ctx
// is kept as far as it came.
func (t *thread) ask(ctx context.Context) (*model.Answer, error) {
	who := t.c.asked()
	r := t.request(who.name)
	now, err := t.check(who, r)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	var answer *model.Answer
	for e, err := range who.model.Stream(ctx, r) {
		if err != nil {
			if ctx.Err() != nil {
				return t.cut(ctx, text.String(), now)
			}
			return nil, err
		}
		switch {
		case e.Text != "":
			text.WriteString(e.Text)
			t.c.tell(Event{Worker: t.worker, Text: e.Text})
		case e.Thinking != "":
			t.c.tell(Event{Worker: t.worker, Thinking: e.Thinking})
		case e.Wait != nil:
			text.Reset()
			t.c.tell(Event{Worker: t.worker, Wait: e.Wait})
		case e.Done != nil:
			answer = e.Done
		}
	}
	switch {
	case answer == nil && ctx.Err() != nil:
		return t.cut(ctx, text.String(), now)
	case answer == nil:
		return nil, endedEarly(who)
	}
	e := answer.Entry
	e.Extra = mark(answerMark{Sent: now})
	if e.Model == "" {
		e.Model = r.Model
	}
	if len(e.Blocks) == 0 {
		e.Blocks = []tidemark.Block{tidemark.Text("")}
	}
	kept, err := t.append(context.WithoutCancel(ctx), e)
	if err != nil {
		return nil, err
	}
	answer.Entry = kept[0]
	return answer, nil
}

func endedEarly(who with) error {
	return &model.Error{Provider: who.provider, Message: "the answer ended before its end"}
}

// cut keeps what there is of an answer that the user did not wait for.
func (t *thread) cut(ctx context.Context, text string, now *sent) (*model.Answer, error) {
	a := &model.Answer{Stop: StopCancelled}
	if text == "" {
		return a, nil
	}
	a.Entry = tidemark.Say(tidemark.Assistant, text)
	a.Entry.Model, a.Entry.Extra = now.Model, mark(answerMark{Sent: now, Interrupted: "cancelled"})
	kept, err := t.append(context.WithoutCancel(ctx), a.Entry)
	if err == nil {
		a.Entry = kept[0]
	}
	return a, err
}

// check compares what is about to be sent with what was sent before, and
// returns what the next answer has to remember.
func (t *thread) check(who with, r model.Request) (*sent, error) {
	parts, err := who.model.Parts(r)
	if err != nil {
		return nil, err
	}
	was := t.sent
	if was != nil && was.Provider == who.provider && was.Model == r.Model && (was.Parts > len(parts) || was.Hash != hashOf(parts[:was.Parts])) {
		t.notice("What is sent differs from what was sent before; the provider's cache will not help this once.")
	}
	return &sent{Provider: who.provider, Model: r.Model, Parts: len(parts), Hash: hashOf(parts)}, nil
}

func hashOf(parts [][]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// failed keeps why there is no answer, for whoever reads the session later.
func (t *thread) failed(ctx context.Context, err error) error {
	if errors.Is(err, tidemark.ErrStorage) {
		return err
	}
	_, keepErr := t.append(ctx, tidemark.Entry{Kind: kindError, Blocks: []tidemark.Block{tidemark.Text(err.Error())}})
	return errors.Join(err, keepErr)
}

// compactIfOver makes the context shorter when it is too long.
func (t *thread) compactIfOver(ctx context.Context) error {
	o := t.compaction(t.c.o.Compact)
	if !compact.Over(t.context, o) {
		return nil
	}
	err := t.compact(ctx, o)
	if errors.Is(err, compact.ErrNoGain) {
		return nil
	}
	return err
}

func (t *thread) compaction(o compact.Options) compact.Options {
	if t.system != nil {
		o.System = t.system.Text()
	}
	o.Summarize = t.summarize
	return o
}

// compact keeps a summary that stands for all but the newest messages.
// Nothing is destroyed: the entries stay where they are.
func (t *thread) compact(ctx context.Context, o compact.Options) error {
	r, err := compact.Compact(ctx, t.context, t.compaction(o))
	if err != nil {
		return err
	}
	m := summaryMark{Strategy: r.Strategy, Before: r.Before, After: r.After}
	if r.From < len(t.context) {
		m.From = t.context[r.From].Seq
	} else {
		m.From = t.context[len(t.context)-1].Seq + 1
	}
	if t.system != nil {
		m.System = t.system.Seq
	}
	if t.tools != nil {
		m.Tools = t.tools.Seq
	}
	e := r.Summary
	e.Extra = mark(m)
	entries := []tidemark.Entry{e}
	if system, isNew := t.renewed(); isNew {
		entries = []tidemark.Entry{system, e}
	}
	if _, err := t.append(context.WithoutCancel(ctx), entries...); err != nil {
		return err
	}
	if r.Fallback != nil {
		t.notice("The model did not summarise: %s", r.Fallback)
	}
	t.notice("%s", r)
	return nil
}

// summarize asks the model for a summary.
func (t *thread) summarize(ctx context.Context, text string) (string, error) {
	return t.c.answer(ctx, compact.Ask, text)
}

// answer asks the model something beside the conversation.
func (c *Chat) answer(ctx context.Context, system, text string) (string, error) {
	who := c.asked()
	r := model.Request{Model: who.name, System: system, Entries: []tidemark.Entry{tidemark.Say(tidemark.User, text)}}
	for e, err := range who.model.Stream(ctx, r) {
		if err != nil {
			return "", err
		}
		if e.Done != nil {
			return strings.TrimSpace(e.Done.Entry.Text()), nil
		}
	}
	return "", endedEarly(who)
}

// Compact makes the context shorter now, by a strategy or by the usual one.
func (c *Chat) Compact(ctx context.Context, strategy string) error {
	o := c.o.Compact
	if strategy != "" {
		o.Strategy = strategy
	}
	c.main.turning.Lock()
	defer c.main.turning.Unlock()
	if err := c.main.ready(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return c.main.compact(ctx, o)
}

// call runs one tool call and keeps its outcome. The error is one of storage;
// what goes wrong in the tool is its result.
func (t *thread) call(ctx context.Context, call tidemark.Block, broken string) error {
	keeping := context.WithoutCancel(ctx)
	answer := func(r tool.Result) error {
		kept, err := t.append(keeping, resultEntry(call.ID, r))
		if err == nil {
			t.c.tell(Event{Worker: t.worker, Result: &kept[0].Blocks[0]})
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
	scope, ask := found.Asks(call.Input)
	if err := t.c.mayReach(*found); err != nil {
		return refuse("not run: %s", err)
	}
	m := callMark{ID: call.ID, Tool: call.Name, Scope: scope}
	about := Call{ID: call.ID, Tool: call.Name, Scope: scope, Input: call.Input}
	if ask {
		d, err := t.c.approve(ctx, Ask{Worker: t.worker, Call: about, Effect: found.Effect})
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
	t.c.tell(Event{Worker: t.worker, Call: &about})
	r, err := found.Run(ctx, call.Input)
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
	return answer(r)
}

const cancelled = "not run: the user cancelled the turn."

// lost reports whether an error means that nothing can be kept any more, as
// opposed to one that the model can do something about.
func lost(err error) bool {
	return errors.Is(err, tidemark.ErrStorage) || errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrUnknown)
}

// boundSlack is what a tool may say beside its bounded output.
const boundSlack = 4 << 10

// bound cuts a result that is longer than the session allows, between
// characters. Most tools bound themselves; the session's own limit may be
// another one than theirs.
func bound(text string, most int) string {
	if len(text) <= most+boundSlack {
		return text
	}
	return fmt.Sprintf("%s\n[%d bytes in all; the rest is left out]", strings.ToValidUTF8(text[:most], ""), len(text))
}

// mayReach refuses tools that talk to other machines to a session that is
// local-only.
func (c *Chat) mayReach(t tool.Tool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Effect == tool.Network && c.session.Mode == tidemark.ModeLocal && !c.o.Allow {
		return tidemark.Invalidf("this session is local-only; the user can allow it with --remote")
	}
	return nil
}

// approve asks a person, unless this was approved for the whole session. What
// is approved for the session is kept before anything runs. Whoever waits for
// another question to be answered stops waiting when ctx ends.
func (c *Chat) approve(ctx context.Context, a Ask) (Decision, error) {
	select {
	case c.asking <- struct{}{}:
	case <-ctx.Done():
		return Deny, ctx.Err()
	}
	defer func() { <-c.asking }()
	given := approval(a)
	if c.approved(given) {
		return Always, nil
	}
	d, err := c.o.Approve(ctx, a)
	if err != nil || d != Always {
		return d, err
	}
	return d, c.Change(context.WithoutCancel(ctx), func(s *checkpoint) error {
		s.Approvals = append(s.Approvals, given)
		return nil
	})
}

// rawObject returns input as an object, for tools of this room.
func rawObject[T any](input json.RawMessage) (T, *tool.Result) {
	var v T
	if err := json.Unmarshal(input, &v); err != nil {
		return v, &tool.Result{IsError: true, Text: "the arguments do not fit: " + err.Error()}
	}
	return v, nil
}
