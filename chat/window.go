package chat

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/model"
)

// Window is how many tokens the model that answers can be sent, its answer
// included: what its server told, or else what is known of its family.
func (c *Chat) Window() int {
	c.mu.Lock()
	who, told := c.answers, c.window
	c.mu.Unlock()
	if told > 0 {
		return told
	}
	return model.Window(who.provider, who.name)
}

// windowTimeout is how long a server has to tell the window of a model. Without
// an answer what is known of its family counts.
const windowTimeout = 2 * time.Second

// askWindow asks the server of the model that answers how much it takes, before
// the first request, and again as long as the server does not know yet. It
// returns true when it has just become known.
func (c *Chat) askWindow(ctx context.Context) bool {
	c.mu.Lock()
	who, told := c.answers, c.windowTold
	c.mu.Unlock()
	asked, ok := who.model.(model.Describer)
	if !ok || told {
		return false
	}
	limited, stop := context.WithTimeout(ctx, windowTimeout)
	defer stop()
	described, err := asked.Describe(limited, who.name)
	if ctx.Err() != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.answers; now.provider != who.provider || now.name != who.name {
		return false
	}
	tokens := described.Window
	c.window, c.windowTold, c.textOnly = max(tokens, 0), tokens > 0 || err != nil, described.TextOnly
	return tokens > 0
}

// knowWindow asks for the window, and says so when not even the instructions and
// the tools fit into it: some servers cut off what is too long without a word.
func (t *thread) knowWindow(ctx context.Context) {
	if !t.c.askWindow(ctx) {
		return
	}
	_, name := t.c.ModelName()
	r := t.request(name)
	fixed := compact.Tokens(r.System)
	for _, o := range r.Tools {
		fixed += compact.Tokens(o.Name + o.Description + string(o.Schema))
	}
	if window := t.c.Window(); fixed > window/4*3 {
		t.notice("%s takes %d tokens here, and the instructions and tools alone have about %d: raise the context that its server is set to, or it will not see all of them.", name, window, fixed)
	}
}

// Models asks the server of the model that answers which models it has. The
// errors are those of model.Lister; a model without a server is the only one.
func (c *Chat) Models(ctx context.Context) ([]model.Listed, error) {
	who := c.answering()
	asked, ok := who.model.(model.Lister)
	if !ok {
		return []model.Listed{{Name: who.name}}, nil
	}
	return asked.Models(ctx)
}

// AfterSwitch says what the model that answers now is not sent, or not as
// before, after another provider's model answered; nothing when all is kept. It
// waits for the end of a turn.
func (c *Chat) AfterSwitch() []string {
	all := 0
	for _, p := range c.Context() {
		all += p.Tokens
	}
	provider, name := c.ModelName()
	var notes []string
	if c.hasThoughtsOfOthers(provider) {
		notes = append(notes, "What the models before it thought stays in the session and is not sent: only their provider can read it.")
	}
	if above := c.CompactAbove(); all > above {
		notes = append(notes, fmt.Sprintf("The conversation has about %d tokens and %s takes %d: it is made shorter with your next message.", all, name, c.Window()))
	}
	return notes
}

// hasThoughtsOfOthers reports whether the context has thinking that another
// provider signed.
func (c *Chat) hasThoughtsOfOthers(provider string) bool {
	c.main.turning.Lock()
	defer c.main.turning.Unlock()
	for _, e := range c.main.context {
		for _, b := range e.Blocks {
			if b.Type == tidemark.BlockThinking && b.Provider != "" && b.Provider != provider {
				return true
			}
		}
	}
	return false
}
