//go:build !windows

package terminal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"golang.org/x/term"
)

// shelf is a Source in memory. Content is what Search looks through, by id.
type shelf struct {
	mu      sync.Mutex
	items   []Item // newest first
	content map[string]string
	fails   error         // of whatever is asked next
	hold    chan struct{} // if set, writes wait until it is closed
}

func (s *shelf) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fails
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *shelf) has(it Item, sc Scope) bool {
	return (it.State == "trash") == sc.Trash && (sc.Project == "" || it.Project == sc.Project) && (sc.Agent == "" || it.Agent == sc.Agent)
}

func (s *shelf) Sessions(ctx context.Context, sc Scope, cursor string, n int) (Page, error) {
	if err := cmp.Or(ctx.Err(), s.err()); err != nil {
		return Page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var p Page
	at, _ := strconv.Atoi(cursor)
	for ; at < len(s.items); at++ {
		if len(p.Items) == n {
			p.Next = strconv.Itoa(at)
			break
		}
		if s.has(s.items[at], sc) {
			p.Items = append(p.Items, s.items[at])
		}
	}
	return p, nil
}

func (s *shelf) Search(ctx context.Context, sc Scope, text string) ([]Item, error) {
	if err := cmp.Or(ctx.Err(), s.err()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Item
	for _, it := range s.items {
		if said := s.content[it.ID]; s.has(it, sc) && strings.Contains(said, text) {
			it.Snippet = said
			found = append(found, it)
		}
	}
	return found, nil
}

func (s *shelf) Preview(ctx context.Context, it Item) ([]PreviewLine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []PreviewLine{{Text: "user", Head: true}, {Text: s.content[it.ID]}, {Text: "end of " + it.ID}}, nil
}

func (s *shelf) change(ctx context.Context, it Item, f func(*Item)) error {
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
		}
	}
	if err := s.err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.items, func(have Item) bool { return have.ID == it.ID })
	f(&s.items[i])
	return nil
}

func (s *shelf) Rename(ctx context.Context, it Item, title string) error {
	return s.change(ctx, it, func(it *Item) { it.Title = title })
}

func (s *shelf) Trash(ctx context.Context, it Item) error {
	return s.change(ctx, it, func(it *Item) { it.State = "trash" })
}

func (s *shelf) Restore(ctx context.Context, it Item) error {
	return s.change(ctx, it, func(it *Item) { it.State = "live" })
}

// item returns the session with an id as the shelf has it now.
func (s *shelf) item(id string) Item {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[slices.IndexFunc(s.items, func(it Item) bool { return it.ID == id })]
}

func harbour() *shelf {
	return &shelf{items: []Item{
		{ID: "s1", Title: "Why does the lease expire?", Agent: "demo", Project: "/src/harbour", Messages: 12},
		{ID: "s2", Title: "Release notes", Agent: "codex", Project: "/src/pier", Messages: 140},
		{ID: "s3", Title: "Shorter notes", Agent: "codex", Project: "/src/pier", Messages: 4, ForkOf: Fork{ID: "s2", Title: "Release notes"}},
		{ID: "s4", Title: "Picnic", Agent: "demo", Project: "/src/harbour"},
	}, content: map[string]string{"s1": "the heartbeat was late", "s4": "bring the barnacle scraper"}}
}

// pickTerminal is a picker on a real pseudo-terminal, and an emulator that shows
// what a person would see.
type pickTerminal struct {
	t       testing.TB
	tty     *os.File // the side of the person
	slave   *os.File // the side of the program
	before  *term.State
	changed chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	screen vt10x.Terminal
	raw    []byte

	item Item
	ok   bool
	err  error
}

// pickOn returns the options of a picker on a terminal.
func pickOn(tty *os.File) *PickOptions {
	o := ofFiles(tty, tty)
	return &PickOptions{In: o.In, Out: o.Out, Raw: o.Raw, Size: o.Size, Text: o.Text}
}

func openPick(t testing.TB, ctx context.Context, src Source, cols, rows int, o PickOptions) *pickTerminal {
	t.Helper()
	tty, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	term := &pickTerminal{t: t, tty: tty, slave: slave, before: before, changed: make(chan struct{}, 1), done: make(chan struct{}),
		screen: vt10x.New(vt10x.WithSize(cols, rows))}
	if err := pty.Setsize(tty, &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}); err != nil {
		t.Fatal(err)
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	device := pickOn(slave)
	o.In, o.Out, o.Raw, o.Size, o.Text, o.Resized = device.In, device.Out, device.Raw, device.Size, device.Text, resized
	ctx, cancel := context.WithCancel(ctx)
	read := make(chan struct{})
	go term.read(read)
	go func() {
		term.item, term.ok, term.err = Pick(ctx, src, &o)
		io.WriteString(slave, finis)
	}()
	t.Cleanup(func() {
		signal.Stop(resized)
		cancel()
		<-term.done
		slave.Close()
		tty.Close()
		<-read
	})
	return term
}

// read feeds the emulator.
func (term *pickTerminal) read(done chan struct{}) {
	defer close(done)
	chunk := make([]byte, 1<<16)
	for {
		n, err := term.tty.Read(chunk)
		if err != nil {
			return
		}
		shown, _, ended := bytes.Cut(chunk[:n], []byte(finis))
		term.mu.Lock()
		term.raw = append(term.raw, shown...)
		term.screen.Write(shown)
		term.mu.Unlock()
		if ended {
			close(term.done)
			io.Copy(io.Discard, term.tty) // echoes of keys that nobody took
			return
		}
		select {
		case term.changed <- struct{}{}:
		default:
		}
	}
}

func (term *pickTerminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

func (term *pickTerminal) bytes() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return string(term.raw)
}

func (term *pickTerminal) press(keys string) { fmt.Fprint(term.tty, keys) }

// until waits for a screen, looking at each one that the program draws.
func (term *pickTerminal) until(what string, seen func(screen string) bool) {
	term.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !seen(term.text()) {
		select {
		case <-term.changed:
		case <-term.done:
			if !seen(term.text()) {
				term.t.Fatalf("the picker ended (%v, %v) before %s:\n%s", term.ok, term.err, what, term.text())
			}
			return
		case <-late.C:
			term.t.Fatalf("no %s:\n%s", what, term.text())
		}
	}
}

// sees waits until all of some texts are on the screen, and none of those that
// begin with a !.
func (term *pickTerminal) sees(texts ...string) {
	term.t.Helper()
	term.until(fmt.Sprintf("screen with %q", texts), func(screen string) bool {
		for _, s := range texts {
			if want, no := strings.CutPrefix(s, "!"); no == strings.Contains(screen, want) {
				return false
			}
		}
		return true
	})
}

// ends waits for the end of the picker.
func (term *pickTerminal) ends() (Item, bool, error) {
	term.t.Helper()
	select {
	case <-term.done:
	case <-time.After(patience):
		term.t.Fatalf("the picker does not end:\n%s", term.text())
	}
	return term.item, term.ok, term.err
}

var errBroken = errors.New("the disk is gone")
