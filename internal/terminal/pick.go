package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Item is one session as the list shows it. Its texts may contain anything.
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
	ForkOf    Fork   // what it was forked from, if anything
	Snippet   string // what Search found in it
}

// Fork names the session that another one was forked from.
type Fork struct{ ID, Title string }

// Scope is the set of sessions to show. An empty string stands for all.
type Scope struct {
	Project string
	Agent   string
	Trash   bool // only those in the trash
}

// Page is a part of the list. Next is the cursor of the next page, "" at the
// end of the list.
type Page struct {
	Items []Item
	Next  string
}

// PreviewLine is one line of a preview. Head says that it names who speaks.
type PreviewLine struct {
	Text string
	Head bool
}

// Source is where sessions come from. Its methods are called from several
// goroutines at once, and have to return soon after ctx ends.
type Source interface {
	// Sessions returns at most n sessions of a scope, newest first, from a
	// cursor on; "" is the start. The first page decides how soon something is
	// visible, so its cost must depend only on its size.
	Sessions(ctx context.Context, s Scope, cursor string, n int) (Page, error)
	// Search returns the sessions of a scope whose content contains the
	// text, best first, each with a Snippet. The source limits their number.
	Search(ctx context.Context, s Scope, text string) ([]Item, error)
	// Preview returns the end of a session's conversation. The picker cleans,
	// wraps and cuts the lines.
	Preview(ctx context.Context, it Item) ([]PreviewLine, error)
	Rename(ctx context.Context, it Item, title string) error
	Trash(ctx context.Context, it Item) error
	Restore(ctx context.Context, it Item) error
}

// PickOptions are how the list starts and looks. In, Out, Raw, Size and Text are
// required, and mean the same as in Options.
type PickOptions struct {
	In   io.Reader
	Out  io.Writer
	Raw  func() (restore func() error, err error)
	Size func() (columns, rows int, err error)
	// Resized reports that the size may have changed, as SIGWINCH does.
	// Without it, a change is noticed within sizePause.
	Resized <-chan os.Signal

	Text    Text
	Heading string           // what picking does, as in "Resume"; "" is "Open"
	Scope   Scope            // what is listed first
	Project string           // the project that ^A switches to; "" leaves only all
	Filter  string           // already typed
	Plain   bool             // no colour and no other attribute
	Now     func() time.Time // nil: time.Now
}

// Pick lets a person choose one session on a terminal: it lists the newest
// first, narrows by title as they type, searches content in the background,
// previews, renames and moves to the trash. It returns the session that was
// picked; ok is false when the person left without picking.
//
// A key never waits for a store. The first page is drawn when it arrives, the
// rest of the list follows, and searches and previews are cancelled as soon as
// another key makes them useless. Nothing from a Source reaches the terminal
// without Text.Clean.
//
// An error of the first page is returned as it is, since then there is nothing
// to pick from; later ones are shown. The terminal is put back as it was in
// every case. A rename or a move to the trash that was confirmed is finished
// before Pick returns.
//
// A terminal that goes away is an error that wraps io.ErrUnexpectedEOF. Signals
// are up to the caller: the end of ctx ends the picker, and its cause is the
// error.
func Pick(ctx context.Context, src Source, o *PickOptions) (picked Item, ok bool, err error) {
	if o == nil {
		o = &PickOptions{}
	}
	switch {
	case o.Text.Clean == nil || o.Text.Width == nil:
		return Item{}, false, fmt.Errorf("terminal: no Text: titles would reach the terminal as they are: %w", tidemark.ErrInvalid)
	case o.In == nil || o.Out == nil || o.Raw == nil || o.Size == nil:
		return Item{}, false, fmt.Errorf("terminal: no In, Out, Raw or Size: %w", tidemark.ErrInvalid)
	}
	reads, stop := context.WithCancel(ctx)
	m := newPicker(ctx, reads, src, *o)
	defer m.calls.close()
	defer stop()
	err = newPickScreen(m).run(ctx)
	switch {
	case ctx.Err() != nil:
		return Item{}, false, context.Cause(ctx)
	case err != nil:
		return Item{}, false, errors.Join(err, m.err)
	case m.err != nil:
		return Item{}, false, m.err
	}
	return m.picked, m.ok, nil
}
