package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Options are the settings of a console. In, Out and Text are required; Raw
// and Size too on a terminal that is not plain.
type Options struct {
	In  io.Reader
	Out io.Writer

	// Terminal means that a person sits at both In and Out. Otherwise there
	// is no prompt, and lines are read as they come.
	Terminal bool
	// Plain means that no escape sequence may be written, as when TERM is
	// dumb. Then the terminal itself edits the line.
	Plain bool
	// Color allows colours. Without it, those in the output are dropped.
	Color bool

	// Raw switches the terminal to single keys without echo and signals, and
	// returns a function that restores it.
	Raw func() (restore func() error, err error)
	// Size returns columns and rows. It is called before every frame, and
	// has to be fast.
	Size func() (columns, rows int, err error)
	// Suspend stops the process and returns when it continues. Meanwhile the
	// terminal is as it was at the start. nil: Ctrl-Z does nothing.
	Suspend func()
	// Interrupt is called for Ctrl-C while nobody waits in Read or Ask. It
	// runs in a goroutine of its own, so it may call everything, including
	// Close. nil: the next Read returns the interrupt.
	Interrupt func(Input)
	// Idle reports whether Ctrl-C has nothing to stop, and drops what was typed.
	// It is called with a lock held, and must not call the console. nil: what was
	// typed stays.
	Idle func() bool

	Text   Text
	Prompt string
	// Earlier returns what was sent before, in other sessions too, oldest first.
	// It is called once, in the background, when the person first looks for
	// it. nil: there is nothing.
	Earlier func(ctx context.Context) []string
	// Complete returns candidates to replace line[from:pos]; the cursor is at
	// pos. A candidate that ends a word includes the space after it. It runs
	// in the background, and ctx ends when another key makes it useless. nil:
	// Tab does nothing.
	Complete func(ctx context.Context, line string, pos int) (from int, candidates []string)
	// Eager reports whether the word before the cursor is completed as it is
	// typed; first is the first word of the line, "" when it is this one. nil: only
	// Tab completes.
	Eager func(word, first string) bool
	// Paste returns what stands in the line for something that was pasted, each
	// stepped over and removed as one sign; none: the text itself. notice is shown
	// below the line until the next key. It runs with the keyboard waiting, and
	// must not call the console. nil: all pastes are text.
	Paste func(text string) (signs []string, notice string)
	// PasteImage is Paste for what the desktop has in its clipboard and a terminal
	// cannot paste. nil: Ctrl-V does nothing.
	PasteImage func() (signs []string, notice string)
	// Edit lets the person change a text in another program, which has the
	// terminal meanwhile. nil: Ctrl-G does nothing.
	Edit func(text string) (string, error)
}

// Console is an open console. Its methods may be called from several
// goroutines; Read by one at a time.
type Console struct {
	o       Options
	text    Text
	color   bool
	editing bool // false: plain lines

	lending sync.Mutex // held while the terminal changes hands
	restore func() error
	back    time.Time // when the terminal last came back

	mu      sync.Mutex
	paint   *painter
	keys    listener
	arrived chan struct{} // signals that there is something to read
	asking  chan struct{} // held during a question

	lastKey time.Time
	// interrupted means that the last key was Ctrl-C.
	interrupted bool
	line        line
	history     history
	search      *search
	menu        *menu
	forget      context.CancelFunc // cancels the completion in progress
	question    *question
	prompt      string
	status      []string
	progress    []string
	notice      string

	events  []event
	hold    func(Input) bool // input that stays where it is; nil: none does
	waiting int              // number of callers waiting in Read
	ended   error            // why nothing more comes from the keyboard

	screen screen

	writing sync.Mutex    // plain: held while something is written
	lines   *bufio.Reader // plain: where lines come from
	reading bool          // plain: somebody reads one
	midLine bool          // the last thing written did not end its line
	lent    bool
	closed  bool
}

// Open takes the terminal. The caller has to Close it, or the terminal stays
// in a state that people do not know how to leave.
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
		line: line{text: o.Text}, lastKey: time.Now()}
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
	c.screen.out = output{text: o.Text, color: o.Color}
	c.screen.columns, c.screen.rows = c.size()
	c.screen.out.columns = c.screen.columns
	c.paint.touch()
	go c.paint.run()
	c.keys.listen()
	return c, nil
}

// closeWait bounds how long Close waits for a terminal that accepts nothing.
const closeWait = 2 * time.Second

// Close writes the remaining output, removes the prompt, and restores the
// terminal. Closing twice is no error.
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

// abandonWait bounds how long Abandon waits for a terminal that accepts
// nothing.
const abandonWait = 100 * time.Millisecond

// Abandon is Close for a process that ends now: it waits neither for a borrower
// of the terminal, nor for the keyboard, nor for more than a moment until the
// last words are drawn.
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
// It returns f's error.
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

// takeBack takes the terminal back. Its state at the start is known; the
// borrower may have left any other.
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

// Resize reports that the size of the terminal may have changed, as
// SIGWINCH does. Without it, a change is noticed at the next frame.
func (c *Console) Resize() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paint.touch()
}

// sameStop is how soon after a suspension of its own the console takes
// Continue to be about that one.
const sameStop = time.Second

// Continue reports that the process continues after somebody else stopped it,
// as SIGCONT does: the shell had the terminal meanwhile, so it is made raw
// again and the prompt redrawn.
func (c *Console) Continue() {
	if !c.editing || !c.lending.TryLock() {
		return // it is lent, and taken back afterwards
	}
	defer c.lending.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || time.Since(c.back) < sameStop {
		return
	}
	// If it cannot be made raw now, the next key will show it.
	_, _ = takeTerminal(c.o.Raw, c.o.Out)
	c.screen.lost()
	c.paint.touch()
}

// SetPrompt changes the text in front of the line.
func (c *Console) SetPrompt(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prompt = c.text.Clean(s)
	c.paint.touch()
}

// Notice shows one line below what is typed, until the next key. On a plain
// terminal it is said, and the prompt comes again. It is not shown in a pipe.
func (c *Console) Notice(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.editing:
		c.notice = s
		c.paint.touch()
	case c.o.Terminal && s != "":
		c.say("\n" + c.text.Clean(s) + "\n")
		if c.reading {
			c.say(c.prompt)
			c.midLine = false
		}
	}
}

// Status shows one line below the prompt; without parts there is none. The
// parts come in the order of their importance: those that do not fit are left
// off, from the last. It is not shown in a pipe or on a plain terminal.
func (c *Console) Status(parts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	parts = slices.DeleteFunc(slices.Clone(parts), func(s string) bool { return s == "" })
	if !slices.Equal(parts, c.status) {
		c.status = parts
		c.paint.touch()
	}
}

// Progress shows what happens now in rows above the prompt, until it is called
// again. Nothing of them remains. They are not shown in a pipe or on a plain
// terminal.
func (c *Console) Progress(rows ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(rows, c.progress) {
		c.progress = slices.Clone(rows)
		c.paint.touch()
	}
}

// Hold leaves input for which held returns true where it is: no Read returns
// it, it is shown as waiting, and the person can take the newest line of it
// back with Up. nil holds nothing. held is called with a lock held, and must
// not call the console.
func (c *Console) Hold(held func(Input) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = held
	c.arrive()
	c.paint.touch()
}

// TakeLines returns the lines that were sent, are not read yet and that held
// returns true for, and no Read returns them any more. show means that they are
// shown above the prompt, as those that are read.
func (c *Console) TakeLines(held func(Input) bool, show bool) (lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = slices.DeleteFunc(c.events, func(e event) bool {
		if e.Kind != Line || !held(e.Input) {
			return false
		}
		if show && e.echo != "" {
			c.say(e.echo)
		}
		lines = append(lines, e.Text)
		return true
	})
	if c.editing {
		c.paint.touch()
	}
	return lines
}

// Idle returns how long nobody has pressed a key.
func (c *Console) Idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.lastKey)
}

// Columns returns the current width of the terminal, 80 when it is unknown.
func (c *Console) Columns() int {
	columns, _ := c.size()
	return columns
}

// Rows returns the current height of the terminal, 24 when it is unknown.
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
// unless much is pending. After an error of the terminal every Write returns
// that error.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	if !c.editing {
		c.midLine = !endsLine(p, !c.midLine)
		c.mu.Unlock() // a terminal that accepts nothing must not block an interruption
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

// Flush returns when the terminal has everything written before.
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

// say puts lines of the console's own above the prompt, after what is there.
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

// endsLine reports whether output that ends in p ends at the start of a
// line; before says whether it was there before p.
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
