package main

import (
	"bufio"
	"errors"
	"iter"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
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
		RunE: a.onSession(open.Read, func(cmd *cobra.Command, _ *store.Store, p store.Point, args []string) error {
			v, err := transfer.SessionOrWorker(cmd.Context(), p, worker)
			if err != nil {
				return err
			}
			if draft && p.Seq != 0 {
				return tidemark.Invalidf("--draft goes with a whole session, not with a point in it")
			}
			entries, err := transfer.Kept(cmd.Context(), v, p.Seq, all, draft)
			if err != nil {
				return err
			}
			if reveal {
				entries = transfer.Revealed(cmd.Context(), v, entries)
			}
			return a.printNDJSON(entries, false)
		}),
	}
	cmd.Flags().StringVar(&worker, "worker", "", "the log of this worker of the session")
	cmd.Flags().BoolVar(&all, "all", false, "the whole log with all branches, in the order it was written")
	cmd.Flags().BoolVar(&draft, "draft", false, "also what another tool may still change, marked as a draft")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "what the vault has in place of masks")
	return cmd
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
