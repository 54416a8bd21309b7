package main

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

// verified is what verify prints.
type verified struct {
	Sessions int              `json:"sessions"`
	Damage   []upkeep.Finding `json:"damage"`
}

func verifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify [SESSION]",
		Short: "Read everything and report damage",
		Long: `Reads a session, or the whole store, and checks every line against its checksum
and its place in the tree. Nothing is changed. The exit code is 13 when damage
was found.`,
		Example:           "  tidemark verify\n  tidemark verify last --json",
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			var result verified
			var found iter.Seq[error]
			if len(args) == 1 {
				s, p, err := a.resolve(cmd.Context(), open.Read, args[0])
				if err != nil {
					return err
				}
				result.Sessions = 1
				found = s.Verify(cmd.Context(), p.ID)
			} else {
				s, err := a.open(cmd.Context(), open.Read)
				if err != nil {
					return err
				}
				found = s.VerifyAll(cmd.Context(), func(i store.Info) {
					result.Sessions++
					a.progress("%d sessions verified", result.Sessions)
				})
			}
			var err error
			if result.Damage, err = upkeep.Findings(found); err != nil {
				return err
			}
			a.progressDone()
			return errors.Join(a.print(result, result.print), result.err())
		},
	}
}

func (v verified) print(w io.Writer) error {
	for _, f := range v.Damage {
		fmt.Fprintln(w, render.CleanLine(f.String()))
	}
	_, err := fmt.Fprintf(w, "%d session(s) verified, %d damage(s) found\n", v.Sessions, len(v.Damage))
	return err
}

func (v verified) err() error {
	if len(v.Damage) == 0 {
		return nil
	}
	return hint.With(fmt.Errorf("%d damage(s) found: %w", len(v.Damage), tidemark.ErrCorrupt), "everything else can still be read; keep a copy of the store before you change it")
}
