//go:build !windows

package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"
)

// patience bounds how long a test waits for a screen; no test takes it.
const patience = 2 * time.Minute

// finis is written behind what the console writes: whoever has read it has
// seen everything.
const finis = "\x00"

// terminal is a console on a real pseudo-terminal, and an emulator that shows
// what a person would see.
type terminal struct {
	t       testing.TB
	c       *Console
	tty     *os.File // the side of the person
	slave   *os.File // the side of the program
	before  *term.State
	changed chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	screen vt10x.Terminal
	raw    []byte
}

func open(t testing.TB, cols, rows int, change func(*Options)) *terminal {
	t.Helper()
	tty, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, tty: tty, slave: slave, before: before, changed: make(chan struct{}, 1), done: make(chan struct{}),
		screen: vt10x.New(vt10x.WithSize(cols, rows))}
	if err := pty.Setsize(tty, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}); err != nil {
		t.Fatal(err)
	}
	o := ofFiles(slave, slave)
	if change != nil {
		change(&o)
	}
	go term.read()
	if term.c, err = Open(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		term.close()
		slave.Close()
		tty.Close()
	})
	return term
}

// close closes the console, and waits until the emulator has all it wrote.
func (term *terminal) close() {
	term.t.Helper()
	if err := term.c.Close(); err != nil && !errors.Is(err, syscall.EIO) { // the person may have left before
		term.t.Errorf("Close: %v", err)
	}
	select {
	case <-term.done:
	default:
		io.WriteString(term.slave, finis)
		<-term.done
	}
}

// read feeds the emulator.
func (term *terminal) read() {
	chunk := make([]byte, 1<<16)
	for {
		n, err := term.tty.Read(chunk)
		if err != nil {
			close(term.done)
			return
		}
		shown, _, ended := bytes.Cut(chunk[:n], []byte(finis))
		term.mu.Lock()
		term.raw = append(term.raw, shown...)
		term.screen.Write(shown)
		term.mu.Unlock()
		if ended {
			close(term.done)
			return
		}
		select {
		case term.changed <- struct{}{}:
		default:
		}
	}
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

// lines returns what is on the screen without empty lines at its end.
func (term *terminal) lines() []string {
	var lines []string
	for l := range strings.SplitSeq(strings.TrimRight(term.text(), " \n"), "\n") {
		lines = append(lines, strings.TrimRight(l, " "))
	}
	return lines
}

func (term *terminal) bytes() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return string(term.raw)
}

func (term *terminal) press(keys string) {
	term.t.Helper()
	if _, err := io.WriteString(term.tty, keys); err != nil {
		term.t.Fatal(err)
	}
}

func (term *terminal) resize(cols, rows int) {
	term.mu.Lock()
	term.screen.Resize(cols, rows)
	term.mu.Unlock()
	if err := pty.Setsize(term.tty, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}); err != nil {
		term.t.Fatal(err)
	}
	term.c.Resize()
}

// shows waits until the screen has some lines and no others.
func (term *terminal) shows(want ...string) {
	term.t.Helper()
	term.until(fmt.Sprintf("screen\n%s", strings.Join(want, "\n")), func() bool { return slices.Equal(term.lines(), want) })
}

// sees waits until a text is somewhere on the screen.
func (term *terminal) sees(s string) {
	term.t.Helper()
	term.until(s, func() bool { return strings.Contains(term.text(), s) })
}

func (term *terminal) until(what string, seen func() bool) {
	term.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !seen() {
		select {
		case <-term.changed:
		case <-term.done:
			if !seen() {
				term.t.Fatalf("the end came before %s\n\nbut\n%s", what, strings.Join(term.lines(), "\n"))
			}
			return
		case <-late.C:
			term.t.Fatalf("no %s\n\nbut\n%s", what, strings.Join(term.lines(), "\n"))
		}
	}
}

// reads returns the next input.
func (term *terminal) reads() Input {
	term.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	in, err := term.c.Read(ctx)
	if err != nil {
		term.t.Fatalf("Read: %v\n%s", err, term.text())
	}
	return in
}

// wantLine reads, and wants a line.
func (term *terminal) wantLine(text string) {
	term.t.Helper()
	if got := term.reads(); got != (Input{Kind: Line, Text: text}) {
		term.t.Errorf("Read = %v %.100q, want the line %.100q", got.Kind, got.Text, text)
	}
}

// cursor returns where the cursor is.
func (term *terminal) cursor() (x, y int) {
	term.mu.Lock()
	defer term.mu.Unlock()
	at := term.screen.Cursor()
	return at.X, at.Y
}
