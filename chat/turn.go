package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/model"
)

// kindError is the entry that says why the model gave no answer.
const kindError = "error"

// Send adds a message of the user and lets the agent work until it is done,
// gives up, or ctx ends. The first message of a new session creates it.
//
// An error is one of storage or of the model; what was kept before it stays. A
// message without content is ErrInvalid, and one that a hook refused
// ErrPromptRefused.
// When ctx ends, the Turn says StopCancelled and the error is nil.
func (c *Chat) Send(ctx context.Context, blocks ...tidemark.Block) (Turn, error) {
	said := tidemark.Entry{Blocks: blocks}
	if len(withoutEmptyText(said).Blocks) == 0 {
		return Turn{}, tidemark.Invalidf("a message without words")
	}
	text := said.Text()
	if strings.TrimSpace(text) != "" {
		c.mu.Lock()
		c.steered = append(c.steered, text)
		c.mu.Unlock()
	}
	turn, err := c.mainTurn(ctx, blocks)
	if errors.Is(err, ErrPromptRefused) {
		c.mu.Lock()
		c.steered = slices.DeleteFunc(c.steered, func(said string) bool { return said == text })
		c.mu.Unlock()
	}
	return turn, err
}

// mainTurn runs a turn of the conversation itself, and keeps the resulting state.
func (c *Chat) mainTurn(ctx context.Context, blocks []tidemark.Block) (Turn, error) {
	turn, err := c.main.turn(ctx, blocks)
	if saveErr := c.save(context.WithoutCancel(ctx)); err == nil {
		err = saveErr
	}
	return turn, err
}

// nameAfter gives a session that does not exist yet a title made from its
// first message.
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
	t.c.refresh()
	t.c.extend()
	turn, err := t.run(ctx, blocks)
	if err != nil {
		turn.Stop = StopError
	}
	t.c.emit(Event{Worker: t.worker, Ended: &turn})
	return turn, err
}

func (t *thread) run(ctx context.Context, blocks []tidemark.Block) (Turn, error) {
	var turn Turn
	// The user's message is kept whatever happens next, also if ctx ends, unless
	// a hook has a veto.
	keeping := context.WithoutCancel(ctx)
	if err := t.ready(keeping); err != nil {
		return turn, err
	}
	said := tidemark.Entry{Blocks: blocks}.Text()
	blocks, err := t.submitted(ctx, blocks)
	if err != nil {
		return turn, err
	}
	if t.halt = ""; t.worker == "" {
		t.c.nameAfter(said)
	}
	if err := t.keepMessage(keeping, tidemark.Entry{Role: tidemark.User, Blocks: blocks}); err != nil {
		return turn, err
	}
	if t.worker == "" && t.c.o.More != nil {
		t.c.o.More.Ready(ctx, t.c, t.told())
		if err := t.retool(keeping); err != nil {
			return turn, err
		}
	}
	rounds := t.c.limits().ToolRounds
	if t.c.o.Rounds > 0 {
		rounds = min(rounds, t.c.o.Rounds)
	}
	for goneOn := 0; turn.Rounds < rounds; {
		answer, err := t.askCompacting(ctx)
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
			if why := model.StopText(turn.Stop); why != "" {
				t.notice("%s", why)
				return turn, nil
			}
			more, err := t.goesOn(ctx, goneOn)
			if err != nil || !more {
				return turn, err
			}
			goneOn++
			continue
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
		if t.halt != "" {
			turn.Stop = StopHook
			t.notice("A hook ended the turn: %s", t.halt)
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

// keepMessage keeps a message of the user, after what the model is told before it.
func (t *thread) keepMessage(ctx context.Context, message tidemark.Entry) error {
	opening, told := t.opening()
	if told != "" {
		t.notice("%s", told)
	}
	opening, t.prompted = append(opening, t.prompted...), nil
	_, err := t.append(ctx, append(opening, message)...)
	return err
}

// ready completes what an earlier turn left behind because storage failed.
func (t *thread) ready(ctx context.Context) error {
	if t.stale {
		if err := t.load(ctx); err != nil {
			return err
		}
	}
	return t.mend(ctx, false)
}

// askCompacting asks the model, after a compaction if the context is too long.
func (t *thread) askCompacting(ctx context.Context) (*model.Answer, error) {
	if err := t.compactIfOver(ctx); err != nil {
		return nil, err
	}
	answer, err := t.ask(ctx)
	if !errors.Is(err, model.ErrTooLong) {
		return answer, err
	}
	// The provider counts differently than we do: try once more with less.
	if err := t.beforeCompacting(ctx, "auto"); err != nil {
		return nil, err
	}
	switch compactErr := t.compact(ctx, t.c.o.Compact); {
	case errors.Is(compactErr, compact.ErrNoGain):
		return nil, err
	case compactErr != nil:
		return nil, compactErr
	}
	return t.ask(ctx)
}

// add counts the cost of an answer.
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

func (t *thread) toolsEntry() tidemark.Entry {
	return tidemark.Entry{Kind: kindTools, Extra: mark(t.offered())}
}

// offered returns the tools that the model is offered.
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

// retool offers the model a tool that was defined, or became known, in this
// turn.
func (t *thread) retool(ctx context.Context) error {
	if !t.hasNewTool() {
		return nil
	}
	_, err := t.append(ctx, t.toolsEntry())
	return err
}

// hasNewTool reports whether there is a tool that was defined or became known
// since, and that the model does not know, or knows in another form.
func (t *thread) hasNewTool() bool {
	names := make(map[string]bool)
	for _, d := range t.box().Defined() {
		names[d.Name] = true
	}
	for _, o := range t.later() {
		names[o.Name] = true
	}
	for _, o := range t.c.skillTool() {
		names[o.Name] = true
	}
	if len(names) == 0 {
		return false
	}
	told := make(map[string]string)
	for _, o := range t.told() {
		told[o.Name] = string(mark(o))
	}
	return slices.ContainsFunc(t.offered(), func(o model.Tool) bool { return names[o.Name] && told[o.Name] != string(mark(o)) })
}

// told returns the tools that the model was offered last.
func (t *thread) told() []model.Tool {
	if t.tools == nil {
		return nil
	}
	return markOf[[]model.Tool](*t.tools)
}

// request is the next request to the model.
func (t *thread) request(name string) model.Request {
	r := model.Request{Model: name, Entries: input(t.context, name), Thinking: t.c.Thinking()}
	if t.c.TextOnly() {
		r.Entries = withoutImages(r.Entries)
	}
	if t.system != nil {
		r.System = t.system.Text()
	}
	r.Tools = t.told()
	return r
}

// ask asks the model and keeps its answer. An answer cut short by ctx is kept
// as far as it came.
func (t *thread) ask(ctx context.Context) (*model.Answer, error) {
	who := t.answering()
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
				return t.keepPartial(ctx, text.String(), now)
			}
			return nil, err
		}
		switch {
		case e.Text != "":
			text.WriteString(e.Text)
			t.c.emit(Event{Worker: t.worker, Text: e.Text})
		case e.Thinking != "":
			t.c.emit(Event{Worker: t.worker, Thinking: e.Thinking})
		case e.Wait != nil:
			text.Reset()
			t.c.emit(Event{Worker: t.worker, Wait: e.Wait})
		case e.Done != nil:
			answer = e.Done
		}
	}
	switch {
	case answer == nil && ctx.Err() != nil:
		return t.keepPartial(ctx, text.String(), now)
	case answer == nil:
		return nil, endedEarly(who)
	}
	e := answer.Entry
	if len(callsOf(e)) == 0 {
		t.c.emit(Event{Worker: t.worker, Answered: true})
	}
	m := answerMark{Sent: now}
	if model.StopText(answer.Stop) != "" {
		m.Stop = answer.Stop
	}
	e.Extra = mark(m)
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

func endedEarly(who answerer) error {
	return &model.Error{Provider: who.provider, Message: "the answer ended before its end"}
}

// keepPartial keeps the part of an answer that came before the user interrupted it.
func (t *thread) keepPartial(ctx context.Context, text string, now *sent) (*model.Answer, error) {
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

// check compares the next request with the previous one, and returns
// what the next answer has to remember.
func (t *thread) check(who answerer, r model.Request) (*sent, error) {
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

// failed keeps the reason for a missing answer, for later readers of the
// session.
func (t *thread) failed(ctx context.Context, err error) error {
	if errors.Is(err, tidemark.ErrStorage) {
		return err
	}
	_, keepErr := t.append(ctx, tidemark.Entry{Kind: kindError, Blocks: []tidemark.Block{tidemark.Text(err.Error())}})
	if t.hasImages() {
		err = aboutImages(err)
	}
	return errors.Join(err, keepErr)
}
