package terminal

import (
	"context"
	"slices"
)

// menu is several completions to choose from with Tab. The chosen one is in
// the line, ending at the cursor.
type menu struct {
	candidates []string
	from       int
	chosen     int // -1: none yet
}

func (c *Console) stopCompleting() {
	if c.forget != nil {
		c.forget()
		c.forget = nil
	}
}

// complete looks up completions in the background: they may come from a disk.
func (c *Console) complete() {
	if c.o.Complete == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.forget = cancel
	text, pos := c.line.String(), len(textOf(c.line.cells[:c.line.at]))
	go func() {
		defer cancel()
		from, candidates := c.o.Complete(ctx, text, pos)
		c.mu.Lock()
		defer c.mu.Unlock()
		if ctx.Err() == nil && !c.closed { // no key came in between
			c.offer(from, candidates)
			c.paint.touch()
		}
	}()
}

// offer completes the line as far as all candidates agree, and lists them if
// there are several.
func (c *Console) offer(from int, candidates []string) {
	at, ok := c.cellAt(from)
	if !ok || len(candidates) == 0 {
		return
	}
	common := c.text.cells(printable(candidates[0]))
	for _, s := range candidates[1:] {
		other := c.text.cells(printable(s))
		n := 0
		for n < min(len(common), len(other)) && common[n] == other[n] {
			n++
		}
		common = common[:n]
	}
	typed := c.line.cells[at:c.line.at]
	if len(candidates) == 1 || len(common) > len(typed) && slices.Equal(common[:len(typed)], typed) {
		c.line.replace(at, c.line.at, common)
	}
	if len(candidates) > 1 {
		c.menu = &menu{candidates: candidates, from: at, chosen: -1}
	}
}

// cellAt returns the cell before the cursor that starts at a byte position.
func (c *Console) cellAt(pos int) (int, bool) {
	bytes := 0
	for i, cl := range c.line.cells[:c.line.at] {
		if bytes == pos {
			return i, true
		}
		bytes += len(cl.text)
	}
	return c.line.at, bytes == pos
}

// menuKey steps through the candidates; every other key closes the list.
func (c *Console) menuKey(k key) bool {
	m := c.menu
	switch n := len(m.candidates); k.name {
	case "tab":
		m.chosen = (m.chosen + 1) % n
	case "shift+tab":
		m.chosen = (max(m.chosen, 0) + n - 1) % n
	default:
		c.menu = nil
		return k.name == "esc"
	}
	c.line.replace(m.from, c.line.at, c.text.cells(printable(m.candidates[m.chosen])))
	return true
}
