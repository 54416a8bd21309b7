// Package picker lets a person choose one session on a terminal: it lists the
// newest first, narrows by title as they type, finds by content in the
// background, previews, renames and puts into the trash.
//
// A key never waits for a store. The first page is drawn when it is there, the
// rest of the list follows behind it, and searches and previews are given up
// as soon as another key makes them useless.
//
// The package knows no store, reads no environment and starts no session: it
// asks a Source, and returns what was picked. Nothing that a Source returns
// reaches the terminal unless it went through Text.Clean.
//
//	item, ok, err := picker.Run(ctx, os.Stdin, os.Stdout, source, &picker.Options{Text: text})
package picker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/tidemark-sessions/tidemark"
)

// Item is one session as the list shows it. Its texts may hold anything.
type Item struct {
	ID        string
	Title     string
	Agent     string
	Model     string
	Project   string
	State     string
	Tags      []string
	Messages  int64
	UpdatedAt time.Time
	Live      bool   // somebody is writing to it
	ForkOf    Fork   // what it was forked from, if it was
	Snippet   string // what Search found in it
}

// Fork names the session that another one was forked from.
type Fork struct{ ID, Title string }

// Scope is which sessions are looked at. An empty word stands for all.
type Scope struct {
	Project string
	Agent   string
	Trash   bool // those in the trash, and only those
}

// Page is a part of the list. Next is the cursor of the page after it, "" at
// the end of the list.
type Page struct {
	Items []Item
	Next  string
}

// Line is one line of a preview. Head says that it names who speaks.
type Line struct {
	Text string
	Head bool
}

// Source is where sessions come from. Its methods are called from several
// goroutines at once, and have to return soon after ctx ends.
type Source interface {
	// Sessions returns at most n sessions of a scope, newest first, from a
	// cursor on; "" is the start. The first page decides how soon something is
	// seen, so it must not cost more than what is in it.
	Sessions(ctx context.Context, s Scope, cursor string, n int) (Page, error)
	// Search returns the sessions of a scope whose content holds the text,
	// best first, each with a Snippet. The source bounds how many there are.
	Search(ctx context.Context, s Scope, text string) ([]Item, error)
	// Preview returns the end of a session's conversation. The picker cleans,
	// wraps and cuts the lines.
	Preview(ctx context.Context, it Item) ([]Line, error)
	Rename(ctx context.Context, it Item, title string) error
	Trash(ctx context.Context, it Item) error
	Restore(ctx context.Context, it Item) error
}

// Text makes foreign text fit for a terminal. All three functions are needed.
type Text struct {
	Clean    func(string) string      // one line that does nothing but appear
	Width    func(string) int         // how many columns clean text takes
	Truncate func(string, int) string // clean text cut to so many columns, with … if it was
}

// Options are how the picker starts and looks. Text has no default, because
// without it a title could act on the terminal.
type Options struct {
	Text    Text
	Heading string           // what picking does, as in "Resume"; "" is "Open"
	Scope   Scope            // what is listed first
	Project string           // the project that ^A turns to; "" leaves only all
	Filter  string           // already typed
	Plain   bool             // no colour and no other attribute
	Environ []string         // of the terminal, as os.Environ returns it; TERM says what it can do
	Now     func() time.Time // nil: time.Now
}

// Run shows the list on out, which has to be a terminal, reads keys from in,
// and returns the session that was picked. ok is false when the person left
// without picking. An error of the first page is returned as it is, since then
// there is nothing to pick from; later ones are shown. The terminal is put
// back as it was in every case. A rename or a move to the trash that was
// confirmed is finished before Run returns.
//
// A terminal that goes away is an error that wraps io.ErrUnexpectedEOF.
// Signals are the caller's: whoever ends ctx ends the picker, and gets the
// cause of that end as the error.
func Run(ctx context.Context, in io.Reader, out io.Writer, src Source, o *Options) (picked Item, ok bool, err error) {
	if o == nil {
		o = &Options{}
	}
	if o.Text.Clean == nil || o.Text.Width == nil || o.Text.Truncate == nil {
		return Item{}, false, fmt.Errorf("picker: no Text: titles would reach the terminal as they are: %w", tidemark.ErrInvalid)
	}
	reads, stop := context.WithCancel(ctx)
	m := newModel(ctx, reads, src, *o)
	defer m.calls.close()
	defer stop()

	// The profile is given because finding it out runs a program under tmux.
	profile := colorprofile.ANSI
	if o.Plain {
		profile = colorprofile.ASCII
	}
	environ := o.Environ
	if environ == nil {
		environ = []string{} // nil would make the library read the process's own
	}
	var p *tea.Program
	in = watch(in, func() { go p.Send(lostMsg{}) })
	p = tea.NewProgram(m, tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(environ),
		tea.WithColorProfile(profile), tea.WithFPS(framesPerSecond), tea.WithoutSignalHandler())
	// Asked to quit, the library waits until nobody reads the keyboard any
	// more. Given a context that ends, it would not.
	defer context.AfterFunc(ctx, p.Quit)()
	_, err = p.Run()
	switch {
	case ctx.Err() != nil:
		return Item{}, false, context.Cause(ctx)
	case err != nil:
		return Item{}, false, fmt.Errorf("picker: %w", errors.Join(err, m.err))
	case m.err != nil:
		return Item{}, false, m.err
	}
	return m.picked, m.ok, nil
}

// framesPerSecond bounds how long a key waits for its frame: 8 ms, half of
// what a person could notice on a screen that refreshes 60 times a second.
const framesPerSecond = 120
