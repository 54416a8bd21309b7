package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
)

// grants returns the book of what this user granted on this machine. If there is
// no folder for it, it is empty and cannot be written.
func (a *app) grants() *grant.Book {
	dir, err := stateDir()
	if err != nil {
		dir = "" // a book in no folder can be neither read nor written
	}
	return grant.Open(dir, userID())
}

// userID returns the system's id of this user, which does not change with the name.
func userID() string {
	if uid := os.Geteuid(); uid >= 0 {
		return strconv.Itoa(uid)
	}
	if u, err := user.Current(); err == nil {
		return u.Uid
	}
	return ""
}

func grantsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "What you granted to sessions on this machine",
		Long: `What a session may do without asking is granted by you, on this machine, for one
project: approvals, loops, wakes, defined tools, variables of its shell, paths
outside the project, limits; and, for all sessions of the project, what their
programs may have beyond the sandbox, and what files of the project may start. It is kept in a file of this machine, outside every
store. What a session brings from elsewhere is a proposal: you are asked once, when
you go on with it in chat or in an editor.`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	cmd.AddCommand(grantsList(a), grantsRevoke(a))
	return cmd
}

// grantFilter are the flags that select grants.
type grantFilter struct {
	session, project string
	all              bool
}

func (c *grantFilter) flags(cmd *cobra.Command, a *app) {
	cmd.Flags().StringVarP(&c.session, "session", "s", "", "of this `SESSION`")
	cmd.Flags().StringVar(&c.project, "project", "", "in the project of this `FOLDER`")
	if err := cmd.RegisterFlagCompletionFunc("session", completeSession(a)); err != nil {
		panic(err)
	}
}

// matches returns a function that reports whether a grant is selected.
func (c *grantFilter) matches(ctx context.Context, a *app) (func(grant.Grant) bool, error) {
	id, project := tidemark.SessionID(c.session), ""
	if c.project != "" {
		project = projectAt(c.project)
	}
	if _, err := tidemark.ParseSessionID(c.session); c.session != "" && err != nil {
		_, p, err := a.resolve(ctx, open.Read, c.session)
		if err != nil {
			return nil, err
		}
		id = p.ID
	}
	return func(g grant.Grant) bool {
		return (id == "" || g.Session == id) && (project == "" || g.Project == project)
	}, nil
}

func grantsList(a *app) *cobra.Command {
	var which grantFilter
	var proposed bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List what is granted",
		Long: `Lists what you granted, with the session and the project it is for. What exactly it
is stands in the session: where that is in the store, it is shown. With --proposed,
lists what sessions of this project, or a session, would have, and you did not
grant.`,
		Example: "  tidemark grants ls\n  tidemark grants ls --session 7f3a\n  tidemark grants ls --proposed --json=kind,text,state",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			matches, err := which.matches(cmd.Context(), a)
			if err != nil {
				return err
			}
			s, _ := a.open(cmd.Context(), open.Read) // without a store only hashes are shown
			rows, err := agent.GrantRows(cmd.Context(), a.grants(), s, matches)
			if err == nil && proposed {
				rows, err = a.proposedRows(cmd.Context(), &which)
			}
			if err != nil {
				return err
			}
			return printTable(a, rows, []string{"SESSION", "STATE", "KIND", "PROJECT", "WHAT"}, func(r agent.GrantRow) []string {
				return []string{cmp.Or(fmt.Sprintf("%.8s", r.Session), "all"), r.State, string(r.Kind), r.Project, render.Phrase(cmp.Or(r.Text, "sha256:"+r.Hash))}
			})
		},
	}
	which.flags(cmd, a)
	cmd.Flags().BoolVar(&proposed, "proposed", false, "what is not granted, instead")
	return cmd
}

// proposedRows returns the proposals of one session, or of all sessions of a
// project.
func (a *app) proposedRows(ctx context.Context, which *grantFilter) ([]agent.GrantRow, error) {
	s, err := a.open(ctx, open.Read)
	if err != nil {
		return nil, err
	}
	var ids []tidemark.SessionID
	if which.session != "" {
		_, p, err := a.resolve(ctx, open.Read, which.session)
		if err != nil {
			return nil, err
		}
		ids = append(ids, p.ID)
	}
	return agent.ProposedRows(ctx, a.grants(), s, projectAt(cmp.Or(which.project, a.project())), ids...)
}

func grantsRevoke(a *app) *cobra.Command {
	var which grantFilter
	cmd := &cobra.Command{
		Use: "revoke [SHA256]", Short: "Take back what was granted",
		Long: `Takes back grants: those of a session, of a project, both, one by its hash, or with
--all every one. A chat that is open stops using them with its next step. What you
declined is forgotten, too: you are asked again.`,
		Example: "  tidemark grants revoke --session 7f3a\n  tidemark grants revoke --project .\n  tidemark grants revoke --all",
		Args:    usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			hash := ""
			if len(args) == 1 {
				hash = strings.TrimPrefix(args[0], "sha256:")
			}
			if hash == "" && which.session == "" && which.project == "" && !which.all {
				return hint.With(tidemark.Invalidf("which grants?"), "name a --session or a --project, or say --all")
			}
			if hash != "" && len(hash) < 8 {
				return tidemark.Invalidf("%q: want at least 8 digits of the hash", args[0])
			}
			matches, err := which.matches(cmd.Context(), a)
			if err != nil {
				return err
			}
			gone, err := a.grants().Revoke(cmd.Context(), func(g grant.Grant) bool { return matches(g) && strings.HasPrefix(g.Hash, hash) })
			if err != nil {
				return err
			}
			return a.printf(map[string]int{"revoked": len(gone)}, "%d grant(s) revoked\n", len(gone))
		},
	}
	which.flags(cmd, a)
	cmd.Flags().BoolVar(&which.all, "all", false, "all of them")
	return cmd
}
