package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// end handles the end of the input.
func (c *Console) end(err error) {
	c.ended = err
	if c.question != nil {
		c.question.end(0, err)
	}
	c.arrive()
}

// obey handles keys.
func (c *Console) obey(keys []key) {
	for _, k := range keys {
		if k.name != "ctrl+c" {
			c.press(k)
		} else if in, call := c.interrupt(); call {
			// Interrupt may close the console, and Close waits for the
			// goroutine that reads the keys: this one.
			go c.o.Interrupt(in)
		}
	}
	if len(keys) > 0 {
		c.paint.touch()
	}
}

// settle cancels whatever waits for more keys.
func (c *Console) settle() {
	c.search, c.menu = nil, nil
	c.stopCompleting()
}

func (c *Console) press(k key) {
	c.interrupted = false
	c.stopCompleting()
	if c.question != nil && k.name == "ctrl+d" && len(c.line.cells) == 0 {
		c.question.end(0, io.EOF) // nobody is left to answer it
		c.question = nil
	}
	if c.question != nil && (c.question.typed && c.question.write(c, k) || !c.question.typed && c.question.answer(k, c.calm())) {
		if c.question.answered() {
			c.question = nil
		}
		return
	}
	c.lastKey = time.Now()
	if k.name != "up" && k.name != "ctrl+p" {
		c.history.steps = 0
	}
	c.notice = ""
	switch {
	case c.menu != nil && c.menuKey(k):
	case c.search != nil && c.searchKey(k):
	case c.command(k):
	case c.compose(k):
	default:
		c.line.edit(k.name)
	}
	switch k.name {
	case "", "paste", "backspace", "alt+backspace", "ctrl+w":
		c.completeEagerly()
	default:
		if c.menu != nil && c.menu.outdated {
			c.menu = nil
		}
	}
}

// command handles the keys that do not edit the line.
func (c *Console) command(k key) bool {
	switch k.name {
	case "ctrl+z":
		if c.o.Suspend != nil {
			go c.Lend(func() error { c.o.Suspend(); return nil })
		}
	case "ctrl+l":
		c.screen.clear = true
	case "ctrl+]", "alt+right":
		c.event(event{Input: Input{Kind: NextView}})
	case `ctrl+\`, "alt+left":
		c.event(event{Input: Input{Kind: PreviousView}})
	case "esc":
		c.event(event{Input: Input{Kind: LeaveView}})
	case "pgup":
		c.event(event{Input: Input{Kind: Older}})
	case "ctrl+o":
		c.event(event{Input: Input{Kind: Unfold}})
	case "shift+tab":
		c.event(event{Input: Input{Kind: NextMode}})
	case "ctrl+g":
		if c.o.Edit != nil {
			go c.editElsewhere()
		}
	case "ctrl+d":
		if len(c.line.cells) > 0 {
			return false
		}
		c.event(event{Input: Input{Kind: EOF}})
	default:
		return false
	}
	return true
}

// compose handles the keys that put text into the line.
func (c *Console) compose(k key) bool {
	took := true
	switch k.name {
	case "":
		took = c.line.insert(k.text)
	case "paste", "paste+cut":
		took = c.pasted(k)
	case "ctrl+v":
		if c.o.PasteImage != nil {
			var signs []string
			if signs, c.notice = c.o.PasteImage(); len(signs) > 0 {
				took = c.line.pasteSigns(signs)
			}
		}
	case "enter":
		c.enter()
	case "newline", "alt+enter", "alt+newline", "shift+enter", "ctrl+enter":
		took = c.line.insert("\n")
	case "tab":
		c.complete(true)
	case "ctrl+r":
		c.search = &search{at: len(c.history.sent), before: c.line.String()}
		c.loadEarlier()
	case "up", "ctrl+p":
		if !c.line.up() && !c.unsend() {
			c.older()
		}
	case "down", "ctrl+n":
		if !c.line.down() {
			c.recall(1)
		}
	default:
		return false
	}
	if !took {
		c.notice = fmt.Sprintf("the line is full at %d characters: paste longer text, or put it into a file", maxCells)
	}
	return true
}

// pasted puts a paste into the line, and returns false when the line is full.
func (c *Console) pasted(k key) bool {
	if k.name == "paste+cut" {
		c.notice = fmt.Sprintf("the paste was cut off after %d MiB", maxPaste>>20)
	} else if c.o.Paste != nil {
		var signs []string
		if signs, c.notice = c.o.Paste(k.text); len(signs) > 0 {
			return c.line.pasteSigns(signs)
		}
	}
	return c.line.paste(k.text)
}

// unsend takes the newest line that waits back into the empty line, and reports
// whether there was one.
func (c *Console) unsend() bool {
	if len(c.line.cells) > 0 {
		return false
	}
	for i := len(c.events) - 1; i >= 0; i-- {
		if c.events[i].Kind == Line {
			c.line.set(c.events[i].Text)
			c.events = slices.Delete(c.events, i, i+1)
			return true
		}
	}
	return false
}

// editElsewhere lets the person change the line in another program.
func (c *Console) editElsewhere() {
	c.mu.Lock()
	text := c.line.String()
	c.mu.Unlock()
	err := c.Lend(func() (err error) {
		text, err = c.o.Edit(text)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	if err != nil {
		c.notice = err.Error()
	} else {
		c.line.set(strings.TrimRight(printable(text), "\n"))
	}
	c.paint.touch()
}

func (c *Console) recall(by int) {
	if s, ok := c.history.step(by, c.line.String()); ok {
		c.line.set(s)
	}
}
