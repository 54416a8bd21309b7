package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/muesli/cancelreader"
)

// escapeWait is how long an Esc may be the start of a sequence. Terminals send
// a sequence at once; a slow network tears it apart by less than this.
const escapeWait = 100 * time.Millisecond

// ear listens to the keyboard until it is stopped. A keyboard that is no file
// cannot be left while it is waited for; its ear listens for ever.
type ear struct {
	io.Reader
	file cancelreader.CancelReader // nil: no file
	done chan struct{}
}

// listen begins to take keys in.
func (c *Console) listen() {
	if c.ear != nil && c.ear.file == nil {
		return
	}
	e := &ear{Reader: c.o.In, done: make(chan struct{})}
	if _, ok := c.o.In.(cancelreader.File); ok {
		r, err := cancelreader.NewReader(c.o.In)
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.end(fmt.Errorf("keyboard: %w", err))
			return
		}
		e.Reader, e.file = r, r
	}
	c.ear = e
	go c.hear(e)
}

// stop leaves the keyboard to others. Keys that were not taken yet stay there.
func (e *ear) stop() {
	if e != nil && e.file != nil && e.file.Cancel() {
		<-e.done
		e.file.Close()
	}
}

func (c *Console) hear(e *ear) {
	defer close(e.done)
	p := make([]byte, 64<<10)
	for {
		n, err := e.Read(p)
		if n > 0 {
			c.typed(p[:n])
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, cancelreader.ErrCanceled) {
			if errors.Is(err, syscall.EIO) {
				err = io.EOF // the terminal went away
			}
			c.mu.Lock()
			c.end(err)
			c.mu.Unlock()
		}
		return
	}
}

// end is the end of the input.
func (c *Console) end(err error) {
	c.ended = err
	if c.question != nil {
		c.question.end(0, err)
	}
	c.arrive()
}

// typed takes bytes of the keyboard in.
func (c *Console) typed(p []byte) {
	c.mu.Lock()
	c.fed++
	if n := min(c.ahead, len(p)); n > 0 {
		// The terminal was not raw yet, and had turned Enter into a newline.
		copy(p, bytes.ReplaceAll(p[:n], []byte("\n"), []byte("\r")))
		c.ahead -= n
	}
	calls := c.obey(c.keys.feed(p))
	if fed := c.fed; c.keys.waits() {
		time.AfterFunc(escapeWait, func() { c.stale(fed) })
	}
	c.mu.Unlock()
	for range calls {
		// Whoever is told may close the console, which waits for the goroutine
		// that hears the keys: this one.
		go c.o.Interrupt()
	}
}

// stale takes an Esc for the key, when nothing followed it.
func (c *Console) stale(fed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fed == fed {
		c.obey(c.keys.flush())
	}
}

// obey does what keys say, and returns how often the caller is to be told of
// an interruption.
func (c *Console) obey(keys []key) (calls int) {
	for _, k := range keys {
		if k.name == "ctrl+c" {
			if c.interrupt() {
				calls++
			}
			continue
		}
		c.press(k)
	}
	if len(keys) > 0 {
		c.touch()
	}
	return calls
}

// settle gives up what a key began that asks for more keys.
func (c *Console) settle() {
	c.search, c.menu = nil, nil
	c.stopCompleting()
}

func (c *Console) press(k key) {
	c.stopCompleting()
	if c.question != nil && k.name == "ctrl+d" && len(c.line.cells) == 0 {
		c.question.end(0, io.EOF) // nobody stays to answer it
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

// command obeys the keys that are not about the line.
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

// compose obeys the keys that put text into the line.
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
