package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark/acp"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// editorCommands are the commands of a conversation that make sense in an
// editor, which has a list of sessions, a history and a way to leave of its own.
var editorCommands = []string{"/tree", "/branch", "/rewind", "/label", "/checkpoint", "/compact", "/search", "/sessions", "/name", "/model", "/tools",
	"/approvals", "/memory", "/task", "/workers", "/status", "/doctor"}

func acpCommand(a *app) *cobra.Command {
	f := chatFlags{format: "text"}
	cmd := &cobra.Command{
		Use:   "acp",
		Short: "Be the agent of an editor, over the Agent Client Protocol",
		Long: `Is the agent of tidemark chat for editors that speak the Agent Client Protocol:
Zed, JetBrains, Neovim and others. The editor starts it, talks to it over stdin
and stdout, and asks you before the agent changes something. Messages for people
go to stderr.

Sessions are those of tidemark chat: list, load and delete them in the editor, or
go on with tidemark chat --resume. A session that is open elsewhere is read along
until it is free; /take-over asks for it. When the editor closes stdin, every
session is saved and let go.

The model is chosen as for tidemark chat; an editor may choose another one for a
session. Most editors start the agent without your shell's environment: name the
key or the provider in their settings.`,
		Example: `  tidemark acp
  tidemark acp --provider anthropic --model claude-sonnet-5-5
  tidemark acp --provider demo`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return (&editorAgent{app: a, cmd: cmd, f: f}).run(cmd.Context())
		},
	}
	f.agentFlags(cmd)
	return cmd
}

// editorAgent is the agent of one editor.
type editorAgent struct {
	*app
	cmd *cobra.Command
	f   chatFlags
	s   *store.Store
}

func (e *editorAgent) run(ctx context.Context) error {
	e.noInput = true // stdin is the editor's
	var err error
	if e.f.provider != "" {
		if _, err = makerOf(e.f.provider); err != nil {
			return err
		}
	}
	if e.s, err = e.open(ctx, creates); err != nil {
		return err
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		e.say("This is for an editor, which talks to it over stdin and stdout. To talk to the agent yourself: tidemark chat")
	}
	// A terminal that goes, or an editor that is gone, is a way out like others:
	// it saves. What is written to nobody must not end the process before that.
	e.hearUnlessIgnored(syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	o := acp.Options{
		Store: e.s, Version: version, Chat: e.options, Models: e.models(), Commands: e.commands(),
		Project: projectAt, Folder: e.project(), Log: e.say, Hint: e.hint,
		Model: func(c *chat.Chat, name string) (acp.Model, error) {
			p, err := e.talk(c, "").another(name)
			return acp.Model{Client: p.client, Provider: p.name, Name: p.model, Remote: p.remote}, err
		},
		Left: func(c *chat.Chat) {
			if !c.Exists() {
				return
			}
			notes := io.Discard // an editor shows stderr as trouble
			if e.verbose {
				notes = e.err
			}
			r, done := e.repl(c, "", notes)
			defer done()
			r.learn(context.WithoutCancel(ctx), newWaysOut())
		},
	}
	err = acp.Serve(ctx, e.in, e.out, o)
	var by *stopped
	if errors.As(context.Cause(ctx), &by) {
		return &stopped{signal: by.signal, quiet: true} // it was said what is saved
	}
	return err
}

// talk is a chat of the editor, as the rest of this package knows them.
func (e *editorAgent) talk(c *chat.Chat, folder string) *talk {
	t := &talk{app: e.app, cmd: e.cmd, f: e.f, folder: folder, person: true, s: e.s, c: c, screen: &chatScreen{app: e.app, side: e.err}}
	if c != nil {
		t.provider.name, t.provider.model = c.ModelName()
	}
	return t
}

// options are those of a conversation that the editor opens.
func (e *editorAgent) options(ctx context.Context, o acp.Opening) (chat.Options, error) {
	var last modelChoice
	if o.Session != "" {
		if c, err := e.s.Checkpoint(ctx, o.Session, ""); err == nil {
			last.provider, last.model = chat.ModelOf(c)
		}
	}
	t := e.talk(nil, o.Folder)
	var err error
	if t.provider, err = e.model(e.f.modelChoice, last); err != nil {
		return chat.Options{}, err
	}
	set, err := t.chatOptions(ctx)
	if t.fence.says != "" {
		e.say("%s", t.fence.says)
	}
	if name := render.Truncate(render.CleanLine(o.Client), 40); name != "" {
		set.Holder = e.holderNamed(e.cmd.CommandPath() + ", in " + name)
	}
	return set, err
}

// models are what an editor may choose from without typing: those that there is
// a key for.
func (e *editorAgent) models() (names []string) {
	for _, m := range makers() {
		if firstEnv(m.keyVars) != "" {
			names = append(names, m.name+"/"+m.model)
		}
	}
	return names
}

// repl is the conversation as its commands know it, with another place to write
// to than a terminal.
func (e *editorAgent) repl(c *chat.Chat, folder string, out io.Writer) (*repl, func()) {
	r := &repl{talk: e.talk(c, folder)}
	// A console without a terminal has nothing that could go wrong.
	r.console, _ = terminal.Open(terminal.Options{In: strings.NewReader(""), Out: out, Text: terminal.Text{Clean: render.CleanLine, Width: render.Width}})
	r.screen.side, r.screen.body = r.console, r.console
	return r, func() { r.console.Close() }
}

func (e *editorAgent) commands() (all []acp.Command) {
	for _, s := range slashes() {
		if !slices.Contains(editorCommands, s.name) {
			continue
		}
		all = append(all, acp.Command{Name: strings.TrimPrefix(s.name, "/"), Input: s.args, Help: s.help,
			Run: func(ctx context.Context, c *chat.Chat, folder, input string, out io.Writer) error {
				r, done := e.repl(c, folder, out)
				defer done()
				if s.name == "/compact" {
					return c.Compact(ctx, input) // the prompt is its turn
				}
				return s.run(r, ctx, input)
			}})
	}
	return all
}

func (e *editorAgent) hint(err error) string {
	if strings.Contains(err.Error(), "local-only") {
		return "allow it in the settings of the editor: tidemark acp --remote"
	}
	return hintFor(err)
}
