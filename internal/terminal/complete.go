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
	chosen     int  // -1: none yet
	outdated   bool // the word has changed, and newer ones are on their way
}

func (c *Console) stopCompleting() {
	if c.forget != nil {
		c.forget()
		c.forget = nil
	}
}

// completeEagerly looks up completions of a word that is completed as it is
// typed.
func (c *Console) completeEagerly() {
	if c.o.Eager == nil || c.search != nil || c.question != nil {
		return
	}
	if c.menu != nil && !c.menu.outdated {
		return // somebody is choosing
	}
	from := c.line.back(isInk)
	if c.line.at > 0 && !isInk(c.line.cells[c.line.at-1]) {
		from = c.line.at
	}
	word, first := textOf(c.line.cells[from:c.line.at]), ""
	for i := 0; i < from && isInk(c.line.cells[i]); i++ {
		first += c.line.cells[i].text
	}
	if word != "" && c.o.Eager(word, first) {
		c.complete(false)
	} else {
		c.menu = nil
	}
}

// Offer replaces what was typed, and offers what it can go on with.
func (c *Console) Offer(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	c.line.set(line)
	if c.editing {
		c.complete(false)
	}
	c.paint.touch()
}

// complete looks up completions in the background: they may come from a disk.
// fill means that the line is completed as far as all of them agree.
func (c *Console) complete(fill bool) {
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
			c.menu = nil
			c.offer(from, candidates, fill)
			c.paint.touch()
		}
	}()
}

// offer completes the line as far as all candidates agree, and lists them if
// there are several.
func (c *Console) offer(from int, candidates []string, fill bool) {
	at, ok := c.cellAt(from)
	if !ok || len(candidates) == 0 {
		return
	}
	if !fill {
		c.menu = &menu{candidates: candidates, from: at, chosen: -1, outdated: true}
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
	switch n := len(m.candidates); {
	case k.name == "tab":
		m.chosen = (m.chosen + 1) % n
	case k.name == "shift+tab" && m.chosen >= 0:
		m.chosen = (m.chosen + n - 1) % n
	case m.outdated && k.name != "esc" && k.name != "enter":
		return false // shown until newer ones come
	default:
		c.menu = nil
		return k.name == "esc"
	}
	m.outdated = false
	c.line.replace(m.from, c.line.at, c.text.cells(printable(m.candidates[m.chosen])))
	return true
}
