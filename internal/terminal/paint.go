package terminal

import (
	"fmt"
	"time"
)

const (
	// frameTime is how long what is drawn stays at least: a stream of single
	// words is drawn as often as a person could notice, not more.
	frameTime = 8 * time.Millisecond
	// maxPending bounds the output that waits for the terminal.
	maxPending = 256 << 10
)

// The sequences that are used, all of them.
const (
	beginFrame = "\x1b[?2026h" // hold the picture, where that is known
	endFrame   = "\x1b[?2026l"
	pasteOn    = "\x1b[?2004h" // tell pastes from keys
	pasteOff   = "\x1b[?2004l"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
	plainStyle = "\x1b[m"
	eraseRow   = "\x1b[K"
	// eraseBelow erases the row and all below it. It never erases from the
	// first row on, which tmux takes for a screen to be put into its history.
	eraseBelow = eraseRow + "\x1b7\x1b[B\x1b[J\x1b8"
	eraseAll   = "\x1b[H\x1b[2J"
)

// screen is what the terminal shows, as far as it is known.
type screen struct {
	out     output
	pending []byte // written, not drawn
	err     error  // of the terminal; it stays

	columns, rows int
	shown         block
	up            int  // rows from where the output goes on down to the cursor
	entered       bool // the prompt is there, and pastes are told
	clear         bool

	asked, drawn int // count what is to be drawn, and what has been
}

// lost forgets where on the screen things are.
func (s *screen) lost() {
	s.up, s.entered = 0, false
	s.out.fresh()
	s.shown = block{}
}

// touch says that there is something to draw.
func (c *Console) touch() {
	c.screen.asked++
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// flush waits until what is to be drawn now has been.
func (c *Console) flush() {
	for asked := c.screen.asked; c.screen.drawn < asked && c.screen.err == nil; {
		c.drawn.Wait()
	}
}

// paint draws. It alone writes to the terminal, and holds no lock meanwhile:
// a terminal that takes nothing must not stop the keys.
func (c *Console) paint() {
	defer close(c.done)
	for range c.wake {
		c.mu.Lock()
		asked, closed := c.screen.asked, c.closed
		frame, err := c.frame(), c.screen.err
		c.mu.Unlock()
		if len(frame) > 0 && err == nil {
			_, err = c.o.Out.Write(frame)
		}
		c.mu.Lock()
		if err != nil && c.screen.err == nil {
			c.screen.err = fmt.Errorf("console: %w", err)
		}
		c.screen.drawn = asked
		c.drawn.Broadcast()
		c.mu.Unlock()
		if closed {
			return
		}
		time.Sleep(frameTime)
	}
}

// frame returns what makes the screen look as it should.
func (c *Console) frame() []byte {
	s := &c.screen
	away := c.lent || c.closed
	if away && !s.entered && (c.lent || len(s.pending) == 0) {
		return nil
	}
	resized := c.resized()
	b := c.view(s.columns, s.rows)
	if !away && !resized && s.entered && !s.clear && len(s.pending) == 0 && b.same(&s.shown) {
		return nil
	}
	f := append([]byte(nil), beginFrame...)
	f = s.erase(f)
	f = s.out.again(f)
	if resized && s.out.col > 0 && s.out.col < s.columns {
		f = append(f, eraseRow...)
	}
	f = s.out.write(f, s.pending)
	s.pending = s.pending[:0]
	s.clear = false
	if c.color {
		f = append(f, plainStyle...)
	}
	if s.out.partial() {
		f = append(f, '\r', '\n')
	}
	if away {
		s.lost()
		c.midLine = false
		f = append(f, pasteOff...)
		return append(f, endFrame...)
	}
	if !s.entered {
		f = append(f, pasteOn...)
		s.entered = true
	}
	f = b.draw(f)
	s.shown = b
	s.up = b.cursor
	if s.out.partial() {
		s.up++
	}
	return append(f, endFrame...)
}

// erase takes the block away and goes to the start of the last row of the
// output. That row is written over, not erased: tmux would forget that the row
// before it goes on there, and no longer wrap the two as one line.
func (s *screen) erase(f []byte) []byte {
	f = append(f, '\r')
	switch {
	case s.clear:
		return append(f, eraseAll...)
	case s.out.partial():
		f = append(up(f, s.up-1), eraseBelow...)
		return up(f, 1)
	}
	return append(up(f, s.up), eraseBelow...)
}

// draw appends the rows, and leaves the cursor where it belongs. It gets there
// by writing what stands before it once more: so the terminal decides how wide
// that is, and the cursor is right even where the two differ.
func (b *block) draw(f []byte) []byte {
	f = append(f, wrapOff...)
	for i, r := range b.rows {
		if i > 0 {
			f = append(f, '\r', '\n')
		}
		f = append(f, r.text...)
	}
	f = append(f, '\r')
	f = up(f, len(b.rows)-1-b.cursor)
	f = append(f, b.left...)
	return append(f, wrapOn...)
}

// resized looks whether the size changed. Terminals wrap their rows anew when
// they become narrower, so that the cursor is further below where the output
// goes on than before.
func (c *Console) resized() bool {
	s := &c.screen
	columns, rows := c.size()
	if columns == s.columns && rows == s.rows {
		return false
	}
	narrower := columns < s.columns
	if columns != s.columns {
		s.out.resize(columns)
	}
	s.columns, s.rows = columns, rows
	if narrower && s.entered {
		s.up = s.shown.column / columns
		for _, r := range s.shown.rows[:s.shown.cursor] {
			s.up += max(r.width+columns-1, columns) / columns
		}
		if s.out.partial() {
			s.up++
		}
	}
	return true
}

func up(f []byte, n int) []byte {
	if n > 0 {
		f = fmt.Appendf(f, "\x1b[%dA", n)
	}
	return f
}
