package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Options are what a console is made of. In, Out and Text are needed; Raw and
// Size too on a terminal that is not plain.
type Options struct {
	In  io.Reader
	Out io.Writer

	// Terminal says that a person sits at both In and Out. Otherwise there is
	// no prompt, and lines are read as they come.
	Terminal bool
	// Plain says that no escape sequence may be written, as when TERM is dumb.
	// Then the terminal itself edits the line.
	Plain bool
	// Color allows colours. Without it, those in the output are dropped.
	Color bool

	// Raw switches the terminal to single keys without echo and signals, and
	// returns what puts it back as it was.
	Raw func() (restore func() error, err error)
	// Size returns columns and rows. It is asked before everything is drawn,
	// and has to be fast.
	Size func() (columns, rows int, err error)
	// Suspend stops the process and returns when it goes on. The terminal is
	// as it was at the start meanwhile. nil: Ctrl-Z does nothing.
	Suspend func()
	// Interrupt is called for Ctrl-C while nobody waits in Read or Ask. It is
	// called by a goroutine of its own, so that it may do everything, also
	// Close. nil: the next Read returns it.
	Interrupt func()

	Text    Text
	Prompt  string
	History []string // what was sent before, oldest first
	// Complete returns what could stand in the place of line[from:pos]; the
	// cursor is at pos. A candidate that ends a word brings its space along.
	// It runs beside the keys, and ctx ends when another key makes it useless.
	// nil: Tab does nothing.
	Complete func(ctx context.Context, line string, pos int) (from int, candidates []string)
}

// Console is an open one. Its methods may be called from several goroutines;
// Read by one at a time.
type Console struct {
	o       Options
	text    Text
	color   bool
	editing bool // false: plain lines

	lending sync.Mutex // held while the terminal changes hands
	restore func() error
	back    time.Time // when the terminal came back last

	mu      sync.Mutex
	paint   *painter
	keys    listener
	arrived chan struct{} // there is something to read
	asking  chan struct{} // held by the one who asks

	lastKey  time.Time
	line     line
	history  history
	search   *search
	menu     *menu
	forget   context.CancelFunc // ends the completion that is under way
	question *question
	prompt   string
	status   string
	notice   string

	events  []event
	waiting int   // how many wait in Read
	ended   error // why nothing more comes from the keyboard

	screen screen

	writing sync.Mutex    // plain: held while something is written
	lines   *bufio.Reader // plain: where lines come from
	reading bool          // plain: somebody reads one
	midLine bool          // the last thing written did not end its line
	lent    bool
	closed  bool
}

// Open takes the terminal. Whoever opened it has to Close it, or the terminal
// stays in a state that people do not know how to leave.
func Open(o Options) (*Console, error) {
	editing := o.Terminal && !o.Plain
	switch {
	case o.In == nil || o.Out == nil:
		return nil, fmt.Errorf("terminal: no In or no Out: %w", tidemark.ErrInvalid)
	case o.Text.Clean == nil || o.Text.Width == nil:
		return nil, fmt.Errorf("terminal: no Text: what is typed would reach the terminal as it is: %w", tidemark.ErrInvalid)
	case editing && (o.Raw == nil || o.Size == nil):
		return nil, fmt.Errorf("terminal: a terminal without Raw or Size: %w", tidemark.ErrInvalid)
	}
	c := &Console{o: o, text: o.Text, color: o.Color, editing: editing,
		arrived: make(chan struct{}, 1), asking: make(chan struct{}, 1),
		line: line{text: o.Text}, history: newHistory(o.History), lastKey: time.Now()}
	c.paint = newPainter(o.Out, &c.mu, c.frame)
	c.keys = listener{in: o.In, mu: &c.mu, obey: c.obey, end: c.end}
	c.prompt = o.Text.Clean(o.Prompt)
	if !editing {
		c.lines = bufio.NewReader(o.In)
		return c, nil
	}
	restore, err := takeTerminal(o.Raw, o.Out)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	c.restore = restore
	if f, ok := o.In.(interface{ Fd() uintptr }); ok {
		c.keys.ahead = typedAhead(f.Fd())
	}
	c.screen.out = output{text: o.Text, color: o.Color}
	c.screen.columns, c.screen.rows = c.size()
	c.screen.out.columns = c.screen.columns
	c.paint.touch()
	go c.paint.run()
	c.keys.listen()
	return c, nil
}

// closeWait bounds how long Close waits for a terminal that takes nothing.
const closeWait = 2 * time.Second

// Close writes what is still to be written, takes the prompt away, and puts
// the terminal back as it was. Closing twice is closing once.
func (c *Console) Close() error {
	c.lending.Lock()
	defer c.lending.Unlock()
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.stopCompleting()
	if c.question != nil {
		c.question.end(0, fs.ErrClosed)
	}
	c.paint.touch()
	c.paint.drawn.Broadcast()
	c.mu.Unlock()
	c.arrive()
	if again || !c.editing {
		return nil
	}
	c.keys.stop()
	c.paint.wait(closeWait)
	if err := c.restore(); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

// abandonWait bounds how long Abandon waits for a terminal that takes nothing.
const abandonWait = 100 * time.Millisecond

// Abandon is Close for a process that ends now: it waits neither for who has
// the terminal, nor for the keyboard, nor for more than a moment until the last
// words are drawn.
func (c *Console) Abandon(words string) {
	if !c.editing {
		c.o.Out.Write([]byte(words))
		return
	}
	c.mu.Lock()
	if !c.closed && !c.lent {
		c.say(words)
	}
	c.closed = true
	c.paint.touch()
	c.mu.Unlock()
	c.paint.wait(abandonWait)
	_ = c.restore() // there is nobody left to tell
}

// Lend gives the terminal to another program or part of the program, like an
// editor or a picker, and takes it back when f returns. Output waits meanwhile.
// It returns what f returns.
func (c *Console) Lend(f func() error) error {
	if !c.editing {
		return f()
	}
	c.lending.Lock()
	defer c.lending.Unlock()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return fs.ErrClosed
	}
	c.lent = true
	c.paint.touch()
	c.paint.flush()
	c.mu.Unlock()
	c.keys.stop()
	err := c.restore()
	if err == nil {
		err = f()
	}
	if lost := c.takeBack(); lost != nil {
		return errors.Join(err, fmt.Errorf("terminal: %w", lost))
	}
	return err
}

// takeBack takes the terminal back. What it was at the start is known; what
// the other one left may be anything.
func (c *Console) takeBack() error {
	_, err := takeTerminal(c.o.Raw, c.o.Out)
	c.mu.Lock()
	c.lent = false
	c.back = time.Now()
	c.paint.touch()
	c.mu.Unlock()
	c.keys.listen()
	return err
}

// Resize tells that the size of the terminal may have changed, as SIGWINCH
// does. Without it, the size is noticed when something is drawn next.
func (c *Console) Resize() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paint.touch()
}

// sameStop is how soon after a suspension that the console knows of Continue
// is about that one.
const sameStop = time.Second

// Continue tells that the process goes on after somebody else stopped it, as
// SIGCONT does: the shell had the terminal meanwhile, so it is made raw again
// and the prompt drawn anew.
func (c *Console) Continue() {
	if !c.editing || !c.lending.TryLock() {
		return // somebody else has it, and it is taken back after them
	}
	defer c.lending.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || time.Since(c.back) < sameStop {
		return
	}
	// If it cannot be made raw now, the next key tells.
	_, _ = takeTerminal(c.o.Raw, c.o.Out)
	c.screen.lost()
	c.paint.touch()
}

// SetPrompt changes what stands in front of the line.
func (c *Console) SetPrompt(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prompt = c.text.Clean(s)
	c.paint.touch()
}

// SetLine puts text into the line, in the place of what was typed.
func (c *Console) SetLine(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	c.line.set(s)
	c.paint.touch()
}

// Status shows one line below the prompt; "" takes it away. It is not shown in
// a pipe nor on a plain terminal.
func (c *Console) Status(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s != c.status {
		c.status = s
		c.paint.touch()
	}
}

// Idle returns how long nobody has pressed a key.
func (c *Console) Idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.lastKey)
}

// Columns returns how wide the terminal is now, 80 when it does not say.
func (c *Console) Columns() int {
	columns, _ := c.size()
	return columns
}

// Rows returns how high the terminal is now, 24 when it does not say.
func (c *Console) Rows() int {
	_, rows := c.size()
	return rows
}

// size asks how large the terminal is.
func (c *Console) size() (columns, rows int) {
	if c.o.Size != nil {
		columns, rows, err := c.o.Size()
		if err == nil && columns > 0 && rows > 0 {
			return max(columns, minColumns), rows
		}
	}
	return 80, 24
}

// Write puts output above the prompt. It returns before the terminal has it,
// unless there is a lot to be written. An error of the terminal is returned by
// every Write after it.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	if !c.editing {
		c.midLine = !endsLine(p, !c.midLine)
		c.mu.Unlock() // whoever takes nothing must not stop an interruption
		return c.writePlain(p)
	}
	defer c.mu.Unlock()
	for len(c.screen.pending) > maxPending && !c.closed && !c.lent && c.paint.err == nil {
		c.paint.drawn.Wait()
	}
	if c.paint.err != nil {
		return 0, c.paint.err
	}
	if c.closed {
		return 0, fs.ErrClosed
	}
	c.put(p)
	return len(p), nil
}

// Flush returns when the terminal has all that was written before.
func (c *Console) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.editing && !c.lent {
		c.paint.flush()
	}
	return c.paint.err
}

// put takes output in.
func (c *Console) put(p []byte) {
	if len(p) == 0 {
		return
	}
	c.screen.pending = append(c.screen.pending, p...)
	c.midLine = !endsLine(p, !c.midLine)
	c.paint.touch()
}

// say puts lines of the console's own above the prompt, behind what is there.
func (c *Console) say(s string) {
	if c.midLine {
		s = "\n" + s
	}
	if c.editing {
		c.put([]byte(s))
		return
	}
	c.midLine = !endsLine([]byte(s), !c.midLine)
	c.writePlain([]byte(s))
}

// endsLine says whether output that ends in p stands at the start of a line;
// before says whether it stood there before p.
func endsLine(p []byte, before bool) bool {
	s := string(p[max(0, len(p)-64):])
	for strings.HasSuffix(s, "m") {
		esc := strings.LastIndex(s, "\x1b[")
		if esc < 0 || strings.Trim(s[esc+2:len(s)-1], "0123456789;:") != "" {
			break
		}
		s = s[:esc]
	}
	if s == "" {
		return before
	}
	return strings.HasSuffix(s, "\n")
}
