package chat

import (
	"context"
	"errors"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/model"
)

// compactIfOver makes the context shorter when it is too long.
func (t *thread) compactIfOver(ctx context.Context) error {
	t.knowWindow(ctx)
	t.sayWithoutImages()
	o := t.compaction(t.c.o.Compact)
	if !compact.Over(t.context, o) {
		return nil
	}
	if enough, err := t.clear(ctx, o); err != nil || enough {
		return err
	}
	if err := t.beforeCompacting(ctx, "auto"); err != nil {
		return err
	}
	err := t.compact(ctx, o)
	if errors.Is(err, compact.ErrNoGain) {
		return nil
	}
	return err
}

// defaultMessages is how many messages are sent at most by default. It is
// well below loadMost, the number of entries that a resume reads, so that a
// resumed session sends what it sent before.
const defaultMessages = 250

// compaction returns the options of a compaction. Limits that are not set come
// from the model: its context less its answer and the tools.
func (t *thread) compaction(o compact.Options) compact.Options {
	if o.MaxMessages == 0 {
		o.MaxMessages = defaultMessages
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = -1
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = t.c.CompactAbove()
	}
	if t.system != nil {
		o.System = t.system.Text()
	}
	o.Summarize = t.summarize
	return o
}

// compact keeps a summary that replaces all but the newest messages in
// the context. Nothing is destroyed: the entries stay where they are.
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
	return t.c.answer(ctx, compact.SummaryPrompt, text)
}

// answer asks the model something outside the conversation.
func (c *Chat) answer(ctx context.Context, system, text string) (string, error) {
	who := c.answering()
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

// Compact makes the context shorter now, by the named strategy, or by the
// default one.
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
	if err := c.main.beforeCompacting(ctx, "manual"); err != nil {
		return err
	}
	return c.main.compact(ctx, o)
}
