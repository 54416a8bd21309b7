package chat

import (
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/compact"
)

// ContextPart is a part of what the model is sent.
type ContextPart struct {
	Name   string
	Tokens int // estimated
}

// Context returns what the next request would send, by what it is. It waits for
// the end of a turn.
func (c *Chat) Context() []ContextPart {
	t := c.main
	t.turning.Lock()
	defer t.turning.Unlock()
	_, name := c.ModelName()
	r := t.request(name)
	parts := []ContextPart{{Name: "instructions"}, {Name: "tools"}, {Name: "you"}, {Name: "the model"}, {Name: "tool results"}}
	parts[0].Tokens = compact.Tokens(r.System)
	for _, o := range r.Tools {
		parts[1].Tokens += compact.Tokens(o.Name + o.Description + string(o.Schema))
	}
	for _, e := range r.Entries {
		at := 2
		switch e.Role {
		case tidemark.Assistant:
			at = 3
		case tidemark.Tool:
			at = 4
		}
		parts[at].Tokens += compact.EntryTokens(e)
	}
	return parts
}

// LastUsage is what the newest answer in the context used, nil when it did not
// say. It waits for the end of a turn.
func (c *Chat) LastUsage() *tidemark.Usage {
	c.main.turning.Lock()
	defer c.main.turning.Unlock()
	for _, e := range slices.Backward(c.main.context) {
		if e.Role == tidemark.Assistant {
			return e.Usage
		}
	}
	return nil
}

// CompactAbove is how many tokens a request may have before it is made shorter.
func (c *Chat) CompactAbove() int {
	if n := c.o.Compact.MaxTokens; n > 0 {
		return n
	}
	return c.Window() / 4 * 3
}

// Thinking is how many tokens the model may spend on thinking.
func (c *Chat) Thinking() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.thinking
}

// SetThinking changes it, from the next request on.
func (c *Chat) SetThinking(tokens int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.thinking = max(tokens, 0)
}
