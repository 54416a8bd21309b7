package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// shared is what share prints.
type shared struct {
	Session tidemark.SessionID `json:"session"`
	tidemark.Scope
	Owner string `json:"owner"`
}

func shareCommand(a *app) *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "share SESSION [private|workspace|tenant]",
		Short: "Let others of the team read a session",
		Long: `Says who else may read a session: nobody (private), the members of a workspace, or
everybody in the tenant. Only its owner can say so, and only its owner writes to
it. Without a word it tells who may read it. Stores on one machine have one
user, and cannot share.`,
		Example: `  tidemark share last tenant
  tidemark share 7f3a workspace --workspace harbour
  tidemark share 7f3a`,
		Args:              usage(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			how := open.Read
			if len(args) == 2 {
				how = open.Write
			}
			s, p, err := a.resolve(cmd.Context(), how, args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 {
				if err := a.share(cmd.Context(), s, p.ID, args[1], workspace); err != nil {
					return err
				}
			}
			is := shared{Session: p.ID}
			if is.Scope, is.Owner, err = s.Shared(cmd.Context(), p.ID); err != nil {
				return err
			}
			return a.printf(is, "%s\t%s\n", is.Session, cmp.Or(is.With, tidemark.Private))
		},
	}
	cmd.Flags().StringVar(&workspace, "workspace", "", "the `NAME` or id of the workspace")
	return cmd
}

func (a *app) share(ctx context.Context, s *store.Store, id tidemark.SessionID, with, workspace string) error {
	if !slices.Contains([]string{tidemark.Private, tidemark.InWorkspace, tidemark.InTenant}, with) {
		return tidemark.Invalidf("%q: want private, workspace or tenant", with)
	}
	if (with == tidemark.InWorkspace) != (workspace != "") {
		return hint.With(tidemark.Invalidf("which workspace?"), "tidemark share %.8s workspace --workspace NAME", id)
	}
	scope := tidemark.Scope{With: with, Workspace: workspace}
	place, _, err := a.location()
	if err != nil {
		return err
	}
	if workspace != "" && open.IsPostgres(place) {
		if scope.Workspace, err = postgres.WorkspaceIn(place, workspace); err != nil {
			return err
		}
	}
	return s.Share(ctx, id, scope)
}
