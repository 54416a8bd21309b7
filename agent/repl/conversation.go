// Package repl is a conversation with a person: on a terminal, where they type
// while the agent works and every way out saves, in a pipe, where each line is a
// message, and as one turn of a script.
//
// It catches no signal, reads no environment and never ends the process: its
// caller owns the terminal, passes in the keyboard and the screen, and reports
// signals to a Control. Text from the model and its tools is foreign, and
// reaches the screen only through package render.
//
//	err := repl.Run(ctx, repl.Options{Setup: setup, Agent: options, Display: display}, repl.TerminalOptions{In: os.Stdin, …})
package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/chat"
)

// Options are what every conversation here needs.
type Options struct {
	Setup *agent.Setup
	// Agent is what the conversation is assembled with. Approve and Show are
	// set here.
	Agent agent.Options
	// Session is the session to resume, "" for a new one; From is the entry in
	// it to branch from, 0 for none.
	Session   tidemark.SessionID
	From      int64
	TakeOver  bool // the holder of the session is asked to hand it over
	Encrypted bool // the store is encrypted; mentioned when the session is saved
	// Permission is how much needs no question at first; "": what chat.New says.
	Permission chat.Permission
	Display
}

// Display is where the conversation is shown, and how.
type Display struct {
	Out, Err io.Writer
	Terminal bool // Out is one
	Color    bool
	Quiet    bool
	// Say prints a message beside the conversation.
	Say func(format string, args ...any)
}

// TerminalOptions are what a conversation needs from its terminal, and from the
// program around it.
type TerminalOptions struct {
	In io.Reader
	// Person means that a person sits at In and Out, and can be asked;
	// ErrIsTerminal that Err is their screen, too; Plain that the terminal can
	// show only lines. NoInput means that nobody is to be asked.
	Person, ErrIsTerminal, Plain, NoInput bool
	// Raw, Size and Suspend are those of terminal.Options.
	Raw     func() (restore func() error, err error)
	Size    func() (columns, rows int, err error)
	Suspend func()
	// Edit lets the person change a text in their editor; nil: there is none.
	Edit func(text string) (string, error)

	// Listen is called once, before anything else happens: from then on signals
	// are reported to the Control.
	Listen func(Control)
	// Exit ends the process at once, because the person asked twice to leave. The
	// error is what Run would have returned.
	Exit func(error)
	// Pick lets the person pick a session, "" for none; Export writes a session
	// to a file; Hint returns the way out of an error.
	Pick   func(ctx context.Context, heading string) (string, error)
	Export func(ctx context.Context, id tidemark.SessionID, format, file string) error
	Hint   func(error) string

	Branch           string  // the person's name for Options.From
	NoLoops          bool    // the loops of the session stay off
	HibernateMinutes float64 // idle time after which it saves and leaves; 0: never
}

// conversation is a conversation in progress.
type conversation struct {
	slash.Conversation
	o        Options
	fence    agent.Fence               // what confines its programs
	attached atomic.Pointer[chat.Chat] // Chat, for callers that cannot wait
	screen   *screen
}

func newConversation(o Options) *conversation {
	return &conversation{o: o, Conversation: slash.Conversation{Store: o.Agent.Store, Setup: o.Setup, Options: o.Agent, Encrypted: o.Encrypted, People: o.Terminal, Color: o.Color}}
}

// attach starts a conversation, or resumes one.
func (t *conversation) attach(ctx context.Context, id tidemark.SessionID, from int64) error {
	t.Options.Session = id
	set, err := t.Setup.Assemble(ctx, t.Options)
	t.Model, t.fence = set.Model, set.Fence
	if err == nil {
		r := &agent.Resume{Session: id, From: from}
		if t.o.TakeOver {
			r.Asking = func(held error) { t.o.Say("Asking for the session: %s", held) }
		}
		t.Chat, err = set.Begin(ctx, r)
	}
	if err == nil && t.o.Permission != "" {
		if err = t.Chat.SetPermission(t.o.Permission); err != nil {
			err = errors.Join(err, t.Chat.Close(context.WithoutCancel(ctx)))
		}
	}
	t.attached.Store(t.Chat)
	return err
}

// saved says how to find the session again.
func (t *conversation) saved() {
	t.screen.note("Session saved: %s (%s)", t.Chat.ID(), t.EncryptionText())
	t.screen.note("Resume: tidemark chat --resume %s", t.Chat.ID())
}

// print shows text that is ours or was made harmless.
func (r *repl) print(format string, args ...any) {
	r.screen.pause()
	fmt.Fprintf(r.console, format+"\n", args...)
}
