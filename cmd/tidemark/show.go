package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// readFlags are the flags of show and tail.
type readFlags struct {
	n       int
	before  int64
	follow  bool
	worker  string
	raw     bool
	heading bool
	all     bool
}

func showCommand(a *app) *cobra.Command {
	r := readFlags{heading: true}
	cmd := &cobra.Command{
		Use:   "show [SESSION[@NODE]]",
		Short: "Show a session, or the path to one of its nodes",
		Long: `Shows a session. Without one, on a terminal, it offers them to pick from: type to
filter by title and content, ? shows the keys.

What a tool told the model, such as a system prompt, is one line, and entries
in which there is nothing to read are left out; --all shows everything. What
another tool may still change is marked as a draft.`,
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
	cmd.Flags().BoolVar(&r.all, "all", false, "also what tools told the model, and entries without text")
	return cmd
}

func tailCommand(a *app) *cobra.Command {
	r := readFlags{}
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
	cmd.Flags().BoolVar(&r.all, "all", false, "also what tools told the model, and entries without text")
	return cmd
}

func (a *app) show(cmd *cobra.Command, ref string, r readFlags) error {
	if r.n < 0 || r.before < 0 {
		return tidemark.Invalidf("a negative number of entries")
	}
	ctx := cmd.Context()
	_, p, err := a.resolve(ctx, open.Read, ref)
	if err != nil {
		return err
	}
	if r.follow && (p.Seq != 0 || r.before != 0) {
		return tidemark.Invalidf("--follow goes with the head of a session, not with a point in it")
	}
	v, err := transfer.SessionOrWorker(cmd.Context(), p, r.worker)
	if err == nil && p.Seq == 0 {
		v, err = v.WithDraft(ctx)
	}
	if err != nil {
		return err
	}
	entries := r.entries(ctx, v, p.Seq)
	if r.raw || a.wantsJSON() {
		if r.raw && !a.wantsJSON() || r.follow {
			return a.printNDJSON(r.andFollow(ctx, v, entries), r.follow)
		}
		return a.jsonArray(entries)
	}
	w := bufio.NewWriter(a.out)
	if r.heading {
		if err := a.heading(ctx, w, v, r.worker); err != nil {
			return err
		}
	}
	o := &render.Options{Color: a.color, Full: !a.terminal || a.verbose, All: r.all, Width: a.columns}
	if a.terminal {
		o.Relative = render.SinceNow
	}
	folded, err := render.Entries(w, r.andFollow(ctx, v, entries), o, r.follow)
	if err := w.Flush(); err != nil {
		return err
	}
	if folded > 0 && a.terminal {
		a.say("%d entries of context are folded; show them with --all.", folded)
	}
	return err
}

// entries returns the entries that exist now.
func (r readFlags) entries(ctx context.Context, v *store.View, seq int64) iter.Seq2[tidemark.Entry, error] {
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

// andFollow adds what is written from now on, if follow is set; also what others
// write on another branch.
func (r readFlags) andFollow(ctx context.Context, v *store.View, entries iter.Seq2[tidemark.Entry, error]) iter.Seq2[tidemark.Entry, error] {
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
	all, damage, err := collectReadable(a, entries)
	if err != nil {
		return err
	}
	return errors.Join(a.print(all, nil), damage)
}

// heading prints which session this is, and its workers.
func (a *app) heading(ctx context.Context, w io.Writer, v *store.View, worker string) error {
	title := v.Title
	if title == "" {
		title = "(no title)"
	}
	fmt.Fprintf(w, "%s\n", render.CleanLine(title))
	between := "  "
	if a.terminal {
		between = "\n" // all of it is wider than most terminals
	}
	fmt.Fprintf(w, "%s%s%s  %d messages  %s  updated %s\n", v.ID, between, render.OrDash(v.Model), v.Messages, v.Mode, a.when(v.UpdatedAt))
	if v.ForeignID != "" {
		fmt.Fprintf(w, "from %s, where it is %s\n", render.OrDash(v.Tool), render.CleanLine(v.ForeignID))
	}
	if v.Base != nil {
		fmt.Fprintf(w, "forked from %.8s@%d\n", v.Base.Session, v.Base.Seq)
	}
	if v.State != store.Live {
		fmt.Fprintf(w, "in the %s\n", v.State)
	}
	if worker != "" {
		fmt.Fprintf(w, "worker %s\n", worker)
	}
	if err := a.workers(ctx, w, v, worker); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// workers prints the workers of a session, and how to read one.
func (a *app) workers(ctx context.Context, w io.Writer, v *store.View, worker string) error {
	if worker != "" {
		return nil
	}
	all, err := v.WorkerInfos(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	fmt.Fprintf(w, "%d worker(s); read one with: tidemark show %.8s --worker NAME\n", len(all), v.ID)
	for _, worker := range all {
		fmt.Fprintf(w, "  %s  %d entries\n", worker.Name, worker.Entries)
	}
	return nil
}
