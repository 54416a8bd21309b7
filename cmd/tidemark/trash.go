package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

func rmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "rm SESSION…",
		Short:             "Move sessions to the trash",
		Example:           "  tidemark rm 7f3a\n  tidemark ls --trash\n  tidemark restore 7f3a",
		Args:              usage(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.forEachSession(cmd, args, "moved to the trash", (*store.Store).Trash)
		},
	}
}

func restoreCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "restore SESSION…",
		Short:   "Take sessions out of the trash",
		Example: "  tidemark restore 7f3a",
		Args:    usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.forEachSession(cmd, args, "restored", (*store.Store).Restore)
		},
	}
}

func purgeCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge SESSION… --yes",
		Short: "Destroy sessions for good",
		Long: `Destroys sessions: entries, notes, workers, checkpoints. Forks of them first get
their own copy of the past that they share. This cannot be undone. In an
encrypted store the key of the session is destroyed with it. What the disk, the
database or a backup may still hold is said.`,
		Example: "  tidemark purge 7f3a --yes",
		Args:    usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return hint.With(tidemark.Invalidf("purge destroys for good and needs --yes"), "to be able to go back: tidemark rm %s", args[0])
			}
			err := a.forEachSession(cmd, args, destroyed, func(s *store.Store, ctx context.Context, id tidemark.SessionID) error {
				return s.Destroy(ctx, id, a.holder(cmd))
			})
			if err = errors.Join(err, a.clearPurgedWords(cmd.Context())); err == nil {
				a.say("%s", a.remains())
				err = a.opened.ColdLeft(cmd.Context())
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "really destroy them")
	return cmd
}

// clearPurgedWords removes the words of purged sessions: the search index keeps
// them until it is rewritten and, in a plain store, compacted. In an encrypted store
// that is not needed: what is left was encrypted with a key that is gone, or hashed
// with one of the store.
func (a *app) clearPurgedWords(ctx context.Context) error {
	if a.opened == nil {
		return nil
	}
	a.progress("clearing the search index")
	defer a.progressDone()
	if err := a.opened.Store.RewriteIndex(ctx); err != nil || a.opened.Sealed() != nil {
		return err
	}
	_, err := a.opened.Store.Compact(ctx)
	return a.ignoreUncompacted(err)
}

// destroyed is what purge says it did.
const destroyed = "destroyed"

// doneView is a session to which something was done.
type doneView struct {
	ID   tidemark.SessionID `json:"id"`
	Done string             `json:"done"`

	Remains string `json:"remains,omitempty"` // of a session that was destroyed: what may still hold it
}

// printDone prints one session to which something was done.
func (a *app) printDone(id tidemark.SessionID, done string) error {
	v := doneView{ID: id, Done: done}
	if done == destroyed {
		v.Remains = a.remains()
	}
	return a.printf(v, "%s\n", id)
}

// forEachSession calls change for several sessions, and continues after those that
// fail. done says what was done, for people.
func (a *app) forEachSession(cmd *cobra.Command, refs []string, done string, change func(*store.Store, context.Context, tidemark.SessionID) error) error {
	var failed []error
	for _, ref := range refs {
		s, p, err := a.resolve(cmd.Context(), open.Write, ref)
		if err == nil && p.Seq != 0 {
			err = tidemark.Invalidf("%q names a point in a session, not a session", ref)
		}
		if err == nil {
			err = change(s, cmd.Context(), p.ID)
		}
		switch {
		case errors.Is(err, context.Canceled) || errors.Is(err, tidemark.ErrNoStore):
			return err
		case err != nil && len(refs) == 1:
			return err
		case err != nil:
			failed = append(failed, err)
			a.complain(err)
		default:
			a.say("%.8s %s", p.ID, done)
			if err := a.printDone(p.ID, done); err != nil {
				return err
			}
		}
	}
	switch {
	case len(failed) == len(refs):
		return failed[0]
	case len(failed) > 0:
		return &partly{len(failed)}
	}
	return nil
}
