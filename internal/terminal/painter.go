package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// frameTime is the shortest time between two frames: a stream of single words
// is drawn as often as a person could notice, not more. It is also the longest
// that a key waits to be drawn: half of what a person could notice on a screen
// that refreshes 60 times a second.
const frameTime = 8 * time.Millisecond

// All sequences that are used, except colours and cursor positions.
const (
	beginFrame = "\x1b[?2026h" // hold the picture until the frame ends, where supported
	endFrame   = "\x1b[?2026l"
	pasteOn    = "\x1b[?2004h" // tell pastes from keys
	pasteOff   = "\x1b[?2004l"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
	plainStyle = "\x1b[m"
	eraseRow   = "\x1b[K"
	// eraseBelow erases the row and all rows below. It never erases from the
	// first row on, because tmux would then move the screen into its history.
	eraseBelow = eraseRow + "\x1b7\x1b[B\x1b[J\x1b8"
	eraseAll   = "\x1b[H\x1b[2J"

	// For the list, which has a screen of its own.
	ownScreen   = "\x1b[?1049h"
	mainScreen  = "\x1b[?1049l"
	exactKeys   = "\x1b[>1u" // tell Esc from the start of a sequence, where supported
	plainKeys   = "\x1b[<1u"
	hideCursor  = "\x1b[?25l"
	showCursor  = "\x1b[?25h"
	barCursor   = "\x1b[6 q"
	usualCursor = "\x1b[0 q"
)

// painter writes frames to a terminal. Nothing else writes there, and it holds
// no lock meanwhile: a terminal that accepts nothing must not block the keys.
type painter struct {
	out   io.Writer
	mu    *sync.Mutex                      // the owner's
	frame func() (frame []byte, last bool) // called with mu held

	wake         chan struct{} // there is something to draw
	done         chan struct{} // nothing is drawn any more
	drawn        *sync.Cond    // something reached the terminal
	asked, shown int           // numbers of frames requested and drawn
	err          error         // first error of the terminal
}

func newPainter(out io.Writer, mu *sync.Mutex, frame func() ([]byte, bool)) *painter {
	return &painter{out: out, mu: mu, frame: frame, wake: make(chan struct{}, 1), done: make(chan struct{}), drawn: sync.NewCond(mu)}
}

// touch requests a frame.
func (p *painter) touch() {
	p.asked++
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// flush waits until everything requested so far is drawn.
func (p *painter) flush() {
	for asked := p.asked; p.shown < asked && p.err == nil; {
		p.drawn.Wait()
	}
}

// run draws requested frames, up to the last one.
func (p *painter) run() {
	defer close(p.done)
	for range p.wake {
		p.mu.Lock()
		asked, err := p.asked, p.err
		frame, last := p.frame()
		p.mu.Unlock()
		if len(frame) > 0 && err == nil {
			_, err = p.out.Write(frame)
		}
		p.mu.Lock()
		if err != nil && p.err == nil {
			p.err = fmt.Errorf("terminal: %w", err)
		}
		p.shown = asked
		p.drawn.Broadcast()
		p.mu.Unlock()
		if last {
			return
		}
		time.Sleep(frameTime)
	}
}

// wait waits for the last frame, at most for limit.
func (p *painter) wait(limit time.Duration) {
	select {
	case <-p.done:
	case <-time.After(limit):
	}
}

// takeTerminal makes a terminal raw and enables escape sequences, and returns a
// function that restores it.
func takeTerminal(raw func() (func() error, error), out io.Writer) (restore func() error, err error) {
	keys, err := raw()
	if err != nil {
		return nil, err
	}
	sequences := takeSequences(out)
	return func() error {
		sequences()
		return keys()
	}, nil
}

// moveTo moves from one row to another.
func moveTo(f []byte, from, to int) []byte {
	if to > from {
		return fmt.Appendf(f, "\x1b[%dB", to-from)
	}
	return moveUp(f, from-to)
}

func moveUp(f []byte, n int) []byte {
	if n > 0 {
		f = fmt.Appendf(f, "\x1b[%dA", n)
	}
	return f
}
