package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/config"
	"github.com/tidemark-sessions/tidemark/agent/tour"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
)

func tourCommand(a *app) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "tour",
		Short: "A walk through all of it, on a throw-away store",
		Long: `Shows what this program does, in two minutes: it chats with the demo model, kills
the chat with SIGKILL, goes on, branches, searches, exports, imports, runs a
fleet and a server. Each step prints the commands that it runs, so that you can
type them yourself, and checks what came of them.

It needs no network, no account and no configuration, and touches nothing of
yours: everything is in a temporary folder, which is removed at the end and at
Ctrl-C. On a terminal it waits for a key between the steps and ends in a chat;
in a pipe, or with --no-input, it runs through.`,
		Example: `  tidemark tour
  tidemark tour --keep
  tidemark tour --json=name,ok,seen`,
		Args: usage(cobra.NoArgs),
		// This replaces app.prepare: the tour works without the user's
		// configuration, and even if that is broken.
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.color = a.terminal && !a.noColor && wantsColor(config.Config{})
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.storeURL != "" || a.keyFile != "" || a.configFile != "" || a.noEncrypt {
				return hint.With(tidemark.Invalidf("the tour has a store and a key of its own"), "tidemark tour")
			}
			return a.tour(cmd.Context(), keep)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the temporary folder there, and say where it is")
	return cmd
}

// tour runs the tour on this terminal. The first signal ends it in an orderly way;
// further ones are ignored, so that they cannot interrupt the short cleanup.
func (a *app) tour(ctx context.Context, keep bool) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := tour.Options{Program: exe, Name: os.Args[0], Environ: os.Environ(), In: a.in, Out: a.out, Err: a.err,
		Keep: keep, Terminal: a.terminal, Color: a.color, Columns: a.columns, Talking: new(atomic.Bool),
		Asks:      a.terminal && !a.noInput && !a.wantsJSON() && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())),
		ReadToken: open.ReadToken,
	}
	if os.Getenv("TERM") != "dumb" {
		o.Raw = rawTerminal
	}
	if a.wantsJSON() {
		o.Report = func(r tour.StepResult) error { return a.print(r, nil) }
	}
	handle := func(s os.Signal) {
		// The next write notices that a reader is gone, and a chat that has the
		// terminal handles Ctrl-C itself.
		if s == syscall.SIGPIPE || s == os.Interrupt && o.Talking.Load() {
			return
		}
		cancel(&stopped{signal: s})
	}
	a.onSignal.Store(&handle)
	signal.Notify(a.signals, syscall.SIGPIPE)
	a.notifyUnlessIgnored(syscall.SIGHUP)
	err = tour.Run(ctx, o)
	if errors.Is(err, tour.ErrInterrupted) {
		return &stopped{signal: os.Interrupt, quiet: true}
	}
	return err
}
