package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

func pinCommand(a *app) *cobra.Command {
	return a.keepCommand(&cobra.Command{
		Use:   "pin SESSION…",
		Short: "Keep sessions out of retention",
		Long: `Keeps sessions out of retention: gc never moves them to the trash, however old
they are. rm still does. A pin can be set while a session is open elsewhere.`,
		Example: "  tidemark pin last\n  tidemark pin 7f3a 81c0",
	}, "pinned", (*store.Store).Pin, true)
}

func unpinCommand(a *app) *cobra.Command {
	return a.keepCommand(&cobra.Command{
		Use:     "unpin SESSION…",
		Short:   "Let retention have sessions again",
		Example: "  tidemark unpin last",
	}, "unpinned", (*store.Store).Pin, false)
}

func holdCommand(a *app) *cobra.Command {
	return a.keepCommand(&cobra.Command{
		Use:   "hold SESSION…",
		Short: "Let nobody remove sessions",
		Long: `Lets nobody remove sessions: rm, purge and gc refuse them until unhold. Writing to
them goes on as before.`,
		Example: "  tidemark hold 7f3a",
	}, "on hold", (*store.Store).Hold, true)
}

func unholdCommand(a *app) *cobra.Command {
	return a.keepCommand(&cobra.Command{
		Use:     "unhold SESSION…",
		Short:   "Allow sessions to be removed again",
		Example: "  tidemark unhold 7f3a",
	}, "not on hold any more", (*store.Store).Hold, false)
}

// keepCommand makes a command that sets or clears one mark on sessions.
func (a *app) keepCommand(cmd *cobra.Command, done string, mark func(*store.Store, context.Context, tidemark.SessionID, bool) error, on bool) *cobra.Command {
	cmd.Args = usage(cobra.MinimumNArgs(1))
	cmd.ValidArgsFunction = completeSession(a)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.forEachSession(cmd, args, done, func(s *store.Store, ctx context.Context, id tidemark.SessionID) error {
			return mark(s, ctx, id, on)
		})
	}
	return cmd
}
