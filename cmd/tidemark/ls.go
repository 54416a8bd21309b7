package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// lsDefault is how many sessions ls shows unless it is told.
const lsDefault = 50

func lsCommand(a *app) *cobra.Command {
	var f store.Filter
	var everywhere, trash bool
	var since, state string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"history"},
		Short:   "List sessions, the one that changed last first",
		Long: `Lists the sessions of this project, the one that changed last first; where the
project has none, or with -A, those of all projects.`,
		Example: `  tidemark ls
  tidemark ls -A --since 7d
  tidemark ls --json=id,title --jq '.[].title'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = parseSince(since, time.Now()); err != nil {
				return err
			}
			if f.State = state; trash {
				f.State = store.Trash
			}
			if f.State != "" && f.State != store.Live && f.State != store.Trash {
				return tidemark.Invalidf("--state %q: want live or trash", f.State)
			}
			if f.Limit < 0 {
				return tidemark.Invalidf("-n %d: want a number from 0", f.Limit)
			}
			scoped := f.Project == "" && !everywhere
			if f.Project = projectAt(f.Project); scoped {
				f.Project = a.project()
			}
			s, err := a.open(cmd.Context(), reads)
			if err != nil {
				return err
			}
			rows, damage, err := a.sessions(cmd, s, f)
			if err == nil && scoped && len(rows) == 0 && damage == nil {
				f.Project = ""
				if rows, damage, err = a.sessions(cmd, s, f); len(rows) > 0 {
					a.say("This project has no session; these are from elsewhere.")
				}
			}
			if err != nil {
				return err
			}
			return errors.Join(a.print(rows, func(w io.Writer) error { return a.list(w, rows, f.Limit) }), damage)
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all", "A", false, "sessions of all projects")
	cmd.Flags().StringVar(&f.Project, "project", "", "sessions of the project in `DIR`")
	cmd.Flags().StringVar(&f.Agent, "agent", "", "sessions of this agent")
	cmd.Flags().StringVar(&state, "state", "", "live or trash")
	cmd.Flags().StringVar(&f.Tag, "label", "", "sessions with this tag, or with this label somewhere")
	cmd.Flags().StringVar(&since, "since", "", "changed since `TIME`: a date, RFC 3339, or an age like 36h or 7d")
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", lsDefault, "at most `N`; 0 for all")
	cmd.Flags().BoolVar(&trash, "trash", false, "what is in the trash")
	return cmd
}

// sessions collects what a filter finds. Sessions that cannot be read are
// named on stderr; the last such damage is returned beside the rest.
func (a *app) sessions(cmd *cobra.Command, s *store.Store, f store.Filter) (rows []store.Info, damage, err error) {
	rows = []store.Info{} // an empty list is [] in JSON, not null
	for i, err := range s.Sessions(cmd.Context(), f) {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			damage = err
			a.say("tidemark: %s: skipped", err)
		case err != nil:
			return nil, damage, err
		default:
			rows = append(rows, i)
		}
	}
	return rows, damage, nil
}

func (a *app) list(w io.Writer, rows []store.Info, limit int) error {
	t := a.table("ID", "MODEL", "MESSAGES", "MODE", "UPDATED", "TITLE")
	for _, i := range rows {
		t.row(a.shortID(i.ID), i.Model, fmt.Sprint(i.Messages), i.Mode, a.when(i.UpdatedAt), i.Title)
	}
	if err := t.print(w); err != nil || !a.terminal {
		return err
	}
	fmt.Fprintf(w, "%d session(s) found.\n", len(rows))
	if limit > 0 && len(rows) == limit {
		fmt.Fprintf(w, "There may be more: -n 0 shows all.\n")
	}
	return nil
}

// shortID is enough of an id to type, on a terminal; all of it elsewhere.
func (a *app) shortID(id tidemark.SessionID) string {
	if a.terminal {
		return string(id[:8])
	}
	return string(id)
}

// oneLine makes text fit for a line beside other things.
func oneLine(s string) string {
	return render.Truncate(render.CleanLine(strings.TrimSpace(s)), 60)
}
