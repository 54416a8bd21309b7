package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/acp"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

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
	if e.f.choice.Provider != "" {
		if err = agent.CheckProvider(e.f.choice.Provider); err != nil {
			return err
		}
	}
	if e.s, err = e.open(ctx, open.Create); err != nil {
		return err
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		e.say("This is for an editor, which talks to it over stdin and stdout. To talk to the agent yourself: tidemark chat")
	}
	// When the terminal or the editor is gone, sessions are saved as at any other
	// end. SIGPIPE is caught so that a failed write does not kill the process first.
	e.notifyUnlessIgnored(syscall.SIGHUP)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	o := acp.Options{Store: e.s, Version: version, Project: projectAt, Folder: e.project(), Log: e.say, Hint: e.hint}
	by := acp.Agent{Setup: e.setup(e.config), Options: e.agentOptions, Holder: e.holderIn, Encrypted: e.opened.Sealed() != nil, People: e.terminal}
	if e.verbose { // editors show stderr as errors
		by.Note = e.say
	}
	err = acp.Serve(ctx, e.in, e.out, o.With(ctx, by))
	var end *stopped
	if errors.As(context.Cause(ctx), &end) {
		return &stopped{signal: end.signal, quiet: true} // what was saved is printed already
	}
	return err
}

// holderIn returns this process as the holder of a lease, with the name of the
// editor that runs it.
func (e *editorAgent) holderIn(editor string) tidemark.Holder {
	if editor == "" {
		return e.holder(e.cmd)
	}
	return process.Self(e.cmd.CommandPath() + ", in " + editor)
}

// agentOptions returns the options of conversations in a folder of the editor.
func (e *editorAgent) agentOptions(folder string) agent.Options {
	if folder == "" {
		return e.f.options(e.app, e.s, e.project(), currentFolder())
	}
	return e.f.options(e.app, e.s, projectAt(folder), project.Real(folder))
}

func (e *editorAgent) hint(err error) string {
	if errors.Is(err, tidemark.ErrLocalOnly) {
		return "allow it in the settings of the editor: tidemark acp --remote"
	}
	return agent.Hint(err)
}
