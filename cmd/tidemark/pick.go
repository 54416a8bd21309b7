package main

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/picker"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/open"
)

// pick lets the user pick a session, and returns its id, "" if none was picked.
func (a *app) pick(ctx context.Context, cmd *cobra.Command, heading string) (string, error) {
	if a.noInput || a.wantsJSON() || !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) {
		named := cmd.Name() + " last"
		if cmd.Flags().Lookup("resume") != nil {
			named = cmd.Name() + " --resume last"
		}
		return "", hint.With(tidemark.Invalidf("which session? There is no terminal to pick one on"), "tidemark %s", named)
	}
	s, err := a.open(ctx, open.Write)
	if errors.Is(err, tidemark.ErrStorage) {
		s, err = a.open(ctx, open.Read) // the store cannot be written, but its sessions can be picked
	}
	if err != nil {
		return "", err
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, sigWinch)
	defer signal.Stop(resized)
	id, err := picker.Pick(ctx, s, a.project(), &terminal.PickOptions{In: os.Stdin, Out: os.Stdout, Raw: rawTerminal, Size: terminalSize, Resized: resized,
		Heading: heading, Plain: !a.color})
	return string(id), err
}

// rawTerminal puts the terminal into raw mode, and returns a function that restores
// it.
func rawTerminal() (restore func() error, err error) {
	fd := int(os.Stdin.Fd())
	was, err := term.MakeRaw(fd)
	return func() error { return term.Restore(fd, was) }, err
}

func terminalSize() (columns, rows int, err error) { return term.GetSize(int(os.Stdout.Fd())) }
