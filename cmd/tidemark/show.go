package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// reading is how show and tail read a session.
type reading struct {
	n       int
	before  int64
	follow  bool
	worker  string
	raw     bool
	heading bool
}

func showCommand(a *app) *cobra.Command {
	r := reading{heading: true}
	cmd := &cobra.Command{
		Use:   "show [SESSION[@NODE]]",
		Short: "Show a session, or the path to one of its nodes",
		Long: `Shows a session. Without one, on a terminal, it offers them to pick from: type to
filter by title and content, ? shows the keys.`,
		Example: `  tidemark show
  tidemark show last
  tidemark show 7f3a@n2 -n 20
  tidemark show last --before 120 -n 50
  tidemark show last --worker scout --follow`,
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				id, err := a.pick(cmd.Context(), cmd, "Show")
				if id == "" || err != nil {
					return err
				}
				args = []string{id}
			}
			return a.show(cmd, args[0], r)
		},
	}
	cmd.Flags().IntVarP(&r.n, "lines", "n", 0, "only the newest `N` entries; 0 for all")
	cmd.Flags().Int64Var(&r.before, "before", 0, "only what leads up to entry `SEQ`")
	cmd.Flags().BoolVarP(&r.follow, "follow", "f", false, "go on with what is written from now on")
	cmd.Flags().StringVar(&r.worker, "worker", "", "the log of this worker of the session")
	cmd.Flags().BoolVar(&r.raw, "raw", false, "entries as JSON, one a line")
	return cmd
}

func tailCommand(a *app) *cobra.Command {
	r := reading{}
	cmd := &cobra.Command{
		Use:               "tail SESSION",
		Short:             "Show the newest entries of a session, and follow it",
		Example:           "  tidemark tail last\n  tidemark tail -f 7f3a",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.show(cmd, args[0], r) },
	}
	cmd.Flags().IntVarP(&r.n, "lines", "n", 50, "the newest `N` entries")
	cmd.Flags().BoolVarP(&r.follow, "follow", "f", false, "go on with what is written from now on")
	cmd.Flags().StringVar(&r.worker, "worker", "", "the log of this worker of the session")
	return cmd
}

func (a *app) show(cmd *cobra.Command, ref string, r reading) error {
	if r.n < 0 || r.before < 0 {
		return tidemark.Invalidf("a negative number of entries")
	}
	ctx := cmd.Context()
	_, p, err := a.resolve(ctx, reads, ref)
	if err != nil {
		return err
	}
	if r.follow && (p.Seq != 0 || r.before != 0) {
		return tidemark.Invalidf("--follow goes with the head of a session, not with a point in it")
	}
	v, err := a.side(cmd, p, r.worker)
	if err != nil {
		return err
	}
	entries := r.entries(ctx, v, p.Seq)
	if r.raw || a.wantsJSON() {
		if r.raw && !a.wantsJSON() || r.follow {
			return a.ndjson(r.andFollow(ctx, v, entries), r.follow)
		}
		return a.jsonArray(entries)
	}
	w := bufio.NewWriter(a.out)
	if r.heading {
		a.heading(w, v)
	}
	err = a.entries(w, r.andFollow(ctx, v, entries), r.follow)
	return errors.Join(err, w.Flush())
}

// entries returns what is there now.
func (r reading) entries(ctx context.Context, v *store.View, seq int64) iter.Seq2[tidemark.Entry, error] {
	n := r.n
	if n == 0 {
		n = int(v.Entries)
	}
	switch {
	case r.before > 0:
		return v.Before(ctx, r.before, n)
	case r.n == 0:
		return v.Path(ctx, seq)
	}
	return v.Tail(ctx, seq, r.n)
}

// andFollow adds what is written from now on. What others write on another
// branch is shown, too: it is what happens.
func (r reading) andFollow(ctx context.Context, v *store.View, entries iter.Seq2[tidemark.Entry, error]) iter.Seq2[tidemark.Entry, error] {
	if !r.follow {
		return entries
	}
	return func(yield func(tidemark.Entry, error) bool) {
		seen := v.Entries
		for e, err := range entries {
			if seen = max(seen, e.Seq); !yield(e, err) {
				return
			}
		}
		for e, err := range v.Follow(ctx, seen) {
			if e.Kind == tidemark.KindBranch {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (a *app) jsonArray(entries iter.Seq2[tidemark.Entry, error]) error {
	all := []tidemark.Entry{}
	var damage error
	for e, err := range entries {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			damage = err
			a.say("tidemark: %s: skipped", err)
		case err != nil:
			return err
		default:
			all = append(all, e)
		}
	}
	return errors.Join(a.print(all, nil), damage)
}

// heading says which session this is.
func (a *app) heading(w io.Writer, v *store.View) {
	title := v.Title
	if title == "" {
		title = "(no title)"
	}
	fmt.Fprintf(w, "%s\n", render.CleanLine(title))
	fmt.Fprintf(w, "%s  %s  %d messages  %s  updated %s\n", v.ID, orDash(v.Model), v.Messages, v.Mode, a.when(v.UpdatedAt))
	if v.Base != nil {
		fmt.Fprintf(w, "forked from %.8s@%d\n", v.Base.Session, v.Base.Seq)
	}
	if v.State != store.Live {
		fmt.Fprintf(w, "in the %s\n", v.State)
	}
	fmt.Fprintln(w)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return render.CleanLine(s)
}

// entries prints entries for people, live ones as they come. Damage is shown in its place, the rest is
// printed, and the damage is the error in the end.
func (a *app) entries(w *bufio.Writer, entries iter.Seq2[tidemark.Entry, error], live bool) error {
	o := &render.Options{Color: a.color, Full: !a.terminal || a.verbose, Width: a.columns}
	if a.terminal {
		o.Relative = func(t time.Time) string { return ago(t, time.Now()) }
	}
	var damage error
	for e, err := range entries {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			damage = err
			fmt.Fprintf(w, "%d [damaged: %s]\n\n", e.Seq, render.CleanLine(err.Error()))
		case err != nil:
			return err
		default:
			if err := render.Entry(w, e, o); err != nil {
				return err
			}
			fmt.Fprintln(w)
		}
		if live {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return damage
}
