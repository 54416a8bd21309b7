package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Kind is what a person did.
type Kind int

const (
	Line         Kind = iota // sent a line; Text is never blank
	Interrupt                // pressed Ctrl-C
	EOF                      // pressed Ctrl-D with nothing typed, or the lines of a pipe ended
	NextView                 // Ctrl-] or Alt-Right
	PreviousView             // Ctrl-\ or Alt-Left
	LeaveView                // Esc
	Older                    // PageUp: show what was before
	Unfold                   // Ctrl-O: show the whole of something that was shown in short
	NextMode                 // Shift-Tab
	Hangup                   // the terminal went away
)

func (k Kind) String() string {
	names := [...]string{"line", "interrupt", "eof", "next view", "previous view", "leave view", "older", "unfold", "next mode", "hangup"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("kind %d", int(k))
	}
	return names[k]
}

// Input is one thing that a person did.
type Input struct {
	Kind Kind
	// Text is the line. It is valid UTF-8, and newlines and tabs are its only
	// controls.
	Text string
	// Again is for Interrupt: the last key before it was Ctrl-C, too.
	Again bool
}

// event is an Input, and how it is shown above the prompt once it is read.
type event struct {
	Input
	echo string
}

// Read returns what the person did, one thing at a time and in order. What
// they type while nobody reads is kept. A line is shown above the prompt when
// it is returned. At the end of the input every Read returns EOF, or Hangup
// for a terminal whose keys are read.
//
// A cancelled ctx is returned as its cause, and loses nothing. After Close,
// the error is fs.ErrClosed; an input that broke is an error, too.
func (c *Console) Read(ctx context.Context) (Input, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return Input{}, fs.ErrClosed
		case c.ready() >= 0:
			return c.take(c.ready()), nil
		case errors.Is(c.ended, io.EOF) && c.editing:
			return Input{Kind: Hangup}, nil
		case errors.Is(c.ended, io.EOF):
			return Input{Kind: EOF}, nil
		case c.ended != nil:
			return Input{}, fmt.Errorf("terminal: %w", c.ended)
		case ctx.Err() != nil:
			return Input{}, context.Cause(ctx)
		}
		c.wantLine()
		c.await(ctx)
	}
}

// await waits until something arrives or ctx ends, without the lock.
func (c *Console) await(ctx context.Context) {
	c.waiting++
	c.mu.Unlock()
	select {
	case <-c.arrived:
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.waiting--
}

func (c *Console) arrive() {
	select {
	case c.arrived <- struct{}{}:
	default:
	}
}

// ready returns the first event that is not held, -1 when there is none.
func (c *Console) ready() int {
	return slices.IndexFunc(c.events, func(e event) bool { return c.hold == nil || !c.hold(e.Input) })
}

func (c *Console) take(i int) Input {
	e := c.events[i]
	c.events = slices.Delete(c.events, i, i+1)
	if e.echo != "" {
		c.say(e.echo)
	}
	if c.editing {
		c.paint.touch()
	}
	return e.Input
}

func (c *Console) event(e event) {
	c.events = append(c.events, e)
	c.arrive()
}

// Interrupt does what Ctrl-C does. It is for a SIGINT, which replaces the key
// in a pipe and on a plain terminal.
func (c *Console) Interrupt() {
	c.mu.Lock()
	in, call := c.interrupt()
	c.mu.Unlock()
	if call {
		c.o.Interrupt(in)
	}
}

// interrupt passes an interruption to a waiting Read or Ask. If there is none,
// it returns true, and the caller has to call Options.Interrupt. A Read that
// already has something to return does not count as waiting: its caller will
// be busy with that.
func (c *Console) interrupt() (in Input, call bool) {
	in = Input{Kind: Interrupt, Again: c.interrupted}
	c.interrupted = true
	c.settle()
	if c.question != nil {
		c.question.end(0, ErrInterrupted)
		c.question = nil
		return in, false
	}
	if c.o.Idle != nil && c.o.Idle() {
		c.line.set("")
	}
	if c.o.Interrupt != nil && (c.waiting == 0 || c.ready() >= 0) {
		return in, true
	}
	c.event(event{Input: in})
	return in, false
}

// enter sends the line.
func (c *Console) enter() {
	if c.line.continued() {
		c.line.replace(c.line.at-1, c.line.at, c.text.cells("\n"))
		return
	}
	s := c.line.String()
	if strings.TrimSpace(s) == "" {
		c.line.set("")
		return
	}
	c.event(event{Input{Kind: Line, Text: s}, c.echo()})
	c.history.add(s)
	c.line.set("")
}

// echo returns the prompt and the line as they remain above.
func (c *Console) echo() string {
	var b strings.Builder
	b.WriteString("\x1b[m" + c.styled("1", c.prompt))
	for _, cl := range c.line.cells {
		b.WriteString(cl.show)
		if cl.newline() {
			b.WriteString("\n" + strings.Repeat(" ", c.text.Width(c.prompt)))
		}
	}
	b.WriteString("\n")
	return b.String()
}
