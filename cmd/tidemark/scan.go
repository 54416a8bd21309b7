package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

func scanCommand(a *app) *cobra.Command {
	var mask bool
	cmd := &cobra.Command{
		Use:   "scan [SESSION]",
		Short: "Find secrets in what is kept",
		Long: `Looks for keys, tokens and passwords in a session, or in all of them. What it
finds is named by its kind and a fingerprint, never shown. With --mask a mark is
added to the session's notes: every reader and export shows a mask in place of
the secret from then on. Nothing is rewritten; purge destroys.

The exit code is 1 when secrets were found that are not masked.`,
		Example:           "  tidemark scan\n  tidemark scan last --mask",
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			how := open.Read
			if mask {
				how = open.Write
			}
			f := &upkeep.Scan{Mask: mask, Progress: a.progress, Found: []upkeep.Leak{}}
			if len(args) == 1 {
				s, p, err := a.resolve(cmd.Context(), how, args[0])
				if err != nil {
					return err
				}
				if err := f.Session(cmd.Context(), s, p.ID); err != nil {
					return err
				}
			} else {
				s, err := a.open(cmd.Context(), how)
				if err != nil {
					return err
				}
				if err := f.All(cmd.Context(), s); err != nil {
					return err
				}
			}
			a.progressDone()
			return errors.Join(a.printLeaks(f.Found), leaksError(f))
		},
	}
	cmd.Flags().BoolVar(&mask, "mask", false, "mask what is found, for every reader")
	return cmd
}

func (a *app) printLeaks(found []upkeep.Leak) error {
	return printTable(a, found, []string{"REF", "RULE", "FINGERPRINT", "WORKER"}, func(l upkeep.Leak) []string {
		ref := a.shortID(l.Session)
		if l.Seq > 0 {
			ref = fmt.Sprintf("%s@%d", ref, l.Seq)
		}
		return []string{ref, l.Rule, l.Fingerprint, l.Worker}
	})
}

// leaksError returns an error if secrets were found that are not masked.
func leaksError(f *upkeep.Scan) error {
	if f.Damage != nil {
		return f.Damage
	}
	open := 0
	for _, l := range f.Found {
		if !l.Masked {
			open++
		}
	}
	switch {
	case open == 0:
		return nil
	case f.Mask:
		return hint.With(fmt.Errorf("%d secret(s) are in what is said of sessions, where nothing is masked", open), "change them: tidemark tag SESSION -x, tidemark label SESSION@N TEXT")
	}
	return hint.With(fmt.Errorf("%d secret(s) found", open), "mask them for every reader with: tidemark scan --mask")
}
