package main

import (
	"bufio"
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

func catCommand(a *app) *cobra.Command {
	var worker string
	var all, reveal, draft bool
	cmd := &cobra.Command{
		Use:   "cat SESSION[@NODE]",
		Short: "Print a branch as NDJSON, one entry a line, as kept",
		Example: `  tidemark cat last | jq -r '.blocks[].text'
  tidemark cat last@n2
  tidemark cat 7f3a --all | tidemark append new
  tidemark cat last --draft`,
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, p, err := a.resolve(cmd.Context(), open.Read, args[0])
			if err != nil {
				return err
			}
			v, err := a.sessionOrWorker(cmd, p, worker)
			if err != nil {
				return err
			}
			if draft && p.Seq != 0 {
				return tidemark.Invalidf("--draft goes with a whole session, not with a point in it")
			}
			entries, err := kept(cmd.Context(), v, p.Seq, all, draft)
			if err != nil {
				return err
			}
			if reveal {
				entries = revealEntries(cmd.Context(), v, entries)
			}
			return a.printNDJSON(entries, false)
		},
	}
	cmd.Flags().StringVar(&worker, "worker", "", "the log of this worker of the session")
	cmd.Flags().BoolVar(&all, "all", false, "the whole log with all branches, in the order it was written")
	cmd.Flags().BoolVar(&draft, "draft", false, "also what another tool may still change, marked as a draft")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "what the vault has in place of masks")
	return cmd
}

// kept returns what cat prints: the branch that the session is at, or all of it,
// with or without what may still change.
func kept(ctx context.Context, v *store.View, seq int64, all, draft bool) (iter.Seq2[tidemark.Entry, error], error) {
	with, err := v.WithDraft(ctx)
	switch {
	case err != nil:
		return nil, err
	case all && draft:
		return with.Log(ctx), nil
	case all:
		return v.Log(ctx), nil
	case seq != 0:
		return v.Path(ctx, seq), nil
	case draft:
		return with.Path(ctx, 0), nil
	}
	return func(yield func(tidemark.Entry, error) bool) {
		for e, err := range with.Path(ctx, 0) {
			if !e.Draft && !yield(e, err) {
				return
			}
		}
	}, nil
}

// revealEntries replaces masks by the secrets that they stand for, where the vault
// has them.
func revealEntries(ctx context.Context, v *store.View, entries iter.Seq2[tidemark.Entry, error]) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				e, err = v.Reveal(ctx, e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// sessionOrWorker returns the view of a session or, if worker is not empty, of
// its worker of that name, which may be abbreviated.
func (a *app) sessionOrWorker(cmd *cobra.Command, p store.Point, worker string) (*store.View, error) {
	if worker == "" {
		return p.View, nil
	}
	if p.Seq != 0 {
		return nil, tidemark.Invalidf("--worker and a point in the session exclude each other")
	}
	v, err := p.Worker(cmd.Context(), worker)
	if !errors.Is(err, tidemark.ErrNotFound) {
		return v, err
	}
	names, listErr := p.Workers(cmd.Context())
	if listErr != nil {
		return nil, listErr
	}
	var begin []string
	for _, name := range names {
		if strings.HasPrefix(name, worker) {
			begin = append(begin, name)
		}
	}
	switch {
	case len(begin) == 1:
		return p.Worker(cmd.Context(), begin[0])
	case len(begin) > 1:
		return nil, tidemark.Invalidf("worker %q means several: %s", worker, strings.Join(begin, ", "))
	case len(names) > 0:
		err = hint.With(err, "its workers are: %s", strings.Join(names, ", "))
	}
	return nil, err
}

// printNDJSON prints entries, one a line; with live it flushes after each. It
// reports damaged entries on stderr, prints the rest, and returns the last damage.
func (a *app) printNDJSON(entries iter.Seq2[tidemark.Entry, error], live bool) error {
	w := bufio.NewWriterSize(a.out, 1<<16)
	var damage error
	for e, err := range entries {
		if err == nil {
			err = a.format().Print(w, e)
			if live && err == nil {
				err = w.Flush()
			}
		}
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			damage = err
			a.say("tidemark: %s: skipped", err)
		case err != nil:
			w.Flush()
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return damage
}
