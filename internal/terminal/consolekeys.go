package terminal

import (
	"fmt"
	"io"
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
		} else if c.interrupt() {
			// Interrupt may close the console, and Close waits for the
			// goroutine that reads the keys: this one.
			go c.o.Interrupt()
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
	c.stopCompleting()
	if c.question != nil && k.name == "ctrl+d" && len(c.line.cells) == 0 {
		c.question.end(0, io.EOF) // nobody is left to answer it
		c.question = nil
	}
	if c.question != nil && c.question.answer(k, c.calm()) {
		if c.question.answered() {
			c.question = nil
		}
		return
	}
	c.lastKey = time.Now()
	c.notice = ""
	switch {
	case c.menu != nil && c.menuKey(k):
	case c.search != nil && c.searchKey(k):
	case c.command(k):
	case c.compose(k):
	default:
		c.line.edit(k.name)
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
		took = c.line.paste(k.text)
		if k.name == "paste+cut" {
			c.notice = fmt.Sprintf("the paste was cut off after %d MiB", maxPaste>>20)
		}
	case "enter":
		c.enter()
	case "newline", "alt+enter", "alt+newline", "shift+enter", "ctrl+enter":
		took = c.line.insert("\n")
	case "tab":
		c.complete()
	case "ctrl+r":
		c.search = &search{at: len(c.history.sent), before: c.line.String()}
	case "up", "ctrl+p":
		if !c.line.up() {
			c.recall(-1)
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

func (c *Console) recall(by int) {
	if s, ok := c.history.step(by, c.line.String()); ok {
		c.line.set(s)
	}
}
