package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// lsDefault is how many sessions ls shows without -n.
const lsDefault = 50

func lsCommand(a *app) *cobra.Command {
	var f store.Filter
	var everywhere, trash, workers bool
	var since, state string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"history"},
		Short:   "List sessions, the one that changed last first",
		Long: `Lists the sessions of this project, the one that changed last first; where the
project has none, or with -A, those of all projects.

The mode is shown where it is not the usual one: local-only for a session that
was begun here, remote for one that came from another tool. The machine is shown
where that is another one: of a session that a remote brought, the one that it was
last written on.`,
		Example: `  tidemark ls
  tidemark ls -A --since 7d
  tidemark ls --tool claude-code
  tidemark ls -A --gone
  tidemark ls --workers
  tidemark ls --json=id,title --jq '.[].title'`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = store.ParseSince(since, time.Now()); err != nil {
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
			s, err := a.open(cmd.Context(), open.Read)
			if err != nil {
				return err
			}
			if workers {
				return a.listWorkers(cmd, s, f, scoped)
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
			m, err := s.Machines(cmd.Context())
			if err == nil {
				err = s.SetMachines(cmd.Context(), rows)
			}
			if err != nil {
				return err
			}
			return errors.Join(a.print(rows, func(w io.Writer) error { return a.list(w, rows, m, f.Limit) }), damage)
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all", "A", false, "sessions of all projects")
	cmd.Flags().StringVar(&f.Project, "project", "", "sessions of the project in `DIR`")
	cmd.Flags().StringVar(&f.Agent, "agent", "", "sessions of this agent")
	cmd.Flags().StringVar(&f.Tool, "tool", "", "sessions that came from this `TOOL`; tidemark: that were begun here")
	cmd.Flags().BoolVar(&f.Gone, "gone", false, "only sessions that the tool they came from does not have any more")
	cmd.Flags().BoolVar(&workers, "workers", false, "the workers of the sessions instead")
	cmd.Flags().StringVar(&state, "state", "", "live or trash")
	cmd.Flags().StringVar(&f.Tag, "label", "", "sessions with this tag, or with this label somewhere")
	cmd.Flags().StringVar(&since, "since", "", "changed since `TIME`: a date, RFC 3339, or an age like 36h or 7d")
	cmd.Flags().IntVarP(&f.Limit, "limit", "n", lsDefault, "at most `N`; 0 for all")
	cmd.Flags().BoolVar(&trash, "trash", false, "what is in the trash")
	return cmd
}

// sessions collects the sessions that a filter selects. It reports those that
// cannot be read on stderr, and returns the last such damage with the rest.
func (a *app) sessions(cmd *cobra.Command, s *store.Store, f store.Filter) (rows []store.Info, damage, err error) {
	rows = []store.Info{} // an empty list is [] in JSON, not null
	f.Each = true
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

func (a *app) list(w io.Writer, rows []store.Info, m store.Machines, limit int) error {
	t := a.table("ID", "MODEL", "MESSAGES", "MODE", "UPDATED", "TOOL", "TITLE")
	if slices.ContainsFunc(rows, func(i store.Info) bool { return i.Machine != "" }) {
		t.Head = append(t.Head, "MACHINE")
	}
	if a.terminal {
		t = a.table("ID", "TOOL", "MODEL", "MSGS", "UPDATED", "TITLE")
	}
	for _, i := range rows {
		tool, mode, messages := cmp.Or(i.Tool, store.Native), i.UnusualMode(), fmt.Sprint(i.Messages)
		if !a.terminal {
			t.Row(i.Name(), i.Model, messages, mode, a.when(i.UpdatedAt), tool, i.Title, i.Machine)
			continue
		}
		title := i.Title
		if mode != "" {
			title = "(" + mode + ") " + title
		}
		if !i.Gone.IsZero() {
			title = "(kept here alone) " + title
		}
		if i.Machine != "" {
			title = "(on " + i.Machine + ") " + title
		}
		t.Row(a.shortID(i.ID), tool, render.Truncate(i.Model, a.modelColumns()), messages, a.when(i.UpdatedAt), title)
	}
	if err := t.Print(w); err != nil || !a.terminal {
		return err
	}
	fmt.Fprintf(w, "%d session(s) found.\n", len(rows))
	if limit > 0 && len(rows) == limit {
		fmt.Fprintf(w, "There may be more: -n 0 shows all.\n")
	}
	for _, r := range m.Meetings() {
		fmt.Fprintf(w, "Remote %s was last met %s.\n", r.Remote, a.when(r.MetAt))
	}
	return nil
}

// modelColumns is how much of a model's name a terminal shows: the title needs
// the room more.
func (a *app) modelColumns() int { return max(12, a.columns/5-4) }

// workerColumns is how much of a worker's name a terminal shows. It is enough to
// type the beginning of a name.
const workerColumns = 24

// listWorkers lists the workers of sessions, the one that wrote last first.
func (a *app) listWorkers(cmd *cobra.Command, s *store.Store, f store.Filter, scoped bool) error {
	rows := []store.WorkerInfo{}
	for w, err := range s.Workers(cmd.Context(), f) {
		if err != nil {
			return err
		}
		rows = append(rows, w)
	}
	if scoped && f.Project != "" && len(rows) == 0 {
		f.Project = ""
		return a.listWorkers(cmd, s, f, false)
	}
	return a.print(rows, func(w io.Writer) error {
		t := a.table("SESSION", "WORKER", "ENTRIES", "UPDATED", "TITLE")
		titles := make(map[tidemark.SessionID]string)
		for _, r := range rows {
			if _, ok := titles[r.Session]; !ok {
				i, err := s.Session(cmd.Context(), r.Session)
				if err != nil {
					return err
				}
				titles[r.Session] = i.Title
			}
			name := r.Name
			if a.terminal {
				name = render.Truncate(name, workerColumns)
			}
			t.Row(a.shortID(r.Session), name, fmt.Sprint(r.Entries), a.when(r.UpdatedAt), titles[r.Session])
		}
		if err := t.Print(w); err != nil || !a.terminal {
			return err
		}
		_, err := fmt.Fprintf(w, "%d worker(s) found; read one with: tidemark show SESSION --worker WORKER\n", len(rows))
		return err
	})
}

// shortID returns enough of an id to type it, on a terminal; elsewhere all of it.
func (a *app) shortID(id tidemark.SessionID) string {
	if a.terminal {
		return string(id[:8])
	}
	return string(id)
}

// oneLine returns a text shortened to fit on a line beside other things.
func oneLine(s string) string {
	return render.Truncate(render.CleanLine(strings.TrimSpace(s)), 60)
}
