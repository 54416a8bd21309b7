package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// branched is what branch prints.
type branched struct {
	Session  tidemark.SessionID `json:"session"`
	Node     int64              `json:"node"`
	Seq      int64              `json:"seq"`
	Messages int64              `json:"messages"`
	Label    string             `json:"label,omitempty"`
}

func branchCommand(a *app) *cobra.Command {
	var label string
	cmd := &cobra.Command{
		Use:   "branch SESSION@NODE",
		Short: "Go on from an earlier node; nothing is lost",
		Long: `Moves the head of a session to an earlier node: what is appended next follows
it. The entries after that node stay as a branch of their own; go back to them
with another branch.`,
		Example: `  tidemark branch last@n1
  tidemark branch 7f3a@n1 --label "before the refactoring"
  tidemark branch last~2`,
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: a.onSession(open.Write, func(cmd *cobra.Command, s *store.Store, p store.Point, args []string) error {
			if p.Seq == 0 {
				return hint.With(tidemark.Invalidf("%q names no node to branch from", args[0]), "see them with: tidemark tree %s", args[0])
			}
			place, err := p.Position(cmd.Context(), p.Seq)
			if err != nil {
				return err
			}
			err = a.withWriter(cmd, s, p.ID, func(w *store.Writer) error { return w.Branch(cmd.Context(), p.Seq) })
			if err == nil && label != "" {
				err = s.Label(cmd.Context(), p.ID, p.Seq, label)
			}
			if err != nil {
				return err
			}
			b := branched{p.ID, max(place.Nodes-1, 0), p.Seq, place.Depth, label}
			return a.printf(b, "Branched from n%d (%d messages)\n", b.Node, b.Messages)
		}),
	}
	cmd.Flags().StringVar(&label, "label", "", "label the node with `TEXT`")
	return cmd
}

func labelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "label SESSION[@NODE] TEXT",
		Short:             "Name a node, also while the session is open elsewhere",
		Example:           `  tidemark label last@n2 "refactor approach"`,
		Args:              usage(cobra.ExactArgs(2)),
		ValidArgsFunction: completeSession(a),
		RunE: a.onSession(open.Write, func(cmd *cobra.Command, s *store.Store, p store.Point, args []string) error {
			seq, err := p.Seq, error(nil)
			if seq == 0 {
				seq, err = p.Head(cmd.Context())
			}
			if err != nil {
				return err
			}
			if err := s.Label(cmd.Context(), p.ID, seq, args[1]); err != nil {
				return err
			}
			place, err := p.Position(cmd.Context(), seq)
			if err != nil {
				return err
			}
			b := branched{p.ID, max(place.Nodes-1, 0), seq, place.Depth, args[1]}
			return a.printf(b, "Labeled n%d.\n", b.Node)
		}),
	}
}

func forkCommand(a *app) *cobra.Command {
	var title, worktree string
	cmd := &cobra.Command{
		Use:   "fork SESSION[@NODE]",
		Short: "Make a new session that shares another one's past",
		Long: `Makes a new session that shares another one's past by reference.

With --worktree it gets a work tree of git of its own: the last commit of the
session's project, with the files that the tools of the session changed as they
were at that node. Go on there with: tidemark chat --resume ID.`,
		Example: `  tidemark fork last@n2 --name "second try"
  tidemark fork last@n2 --worktree ../second-try`,
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: a.onSession(open.Write, func(cmd *cobra.Command, s *store.Store, p store.Point, args []string) error {
			if worktree != "" {
				w, err := agent.ForkWorktree(cmd.Context(), p.View, p.Seq, tidemark.Session{Title: title}, worktree, os.Environ())
				if err != nil {
					return err
				}
				a.say("Forked from %.8s into %s; %d file(s) are as the session had them", p.ID, w.Dir, w.Files)
				for _, l := range w.Left {
					a.say("%s is not: %s", l.Path, l.Why)
				}
				return a.printf(w, "%s\n", w.Fork.ID)
			}
			i, err := s.Fork(cmd.Context(), p.ID, p.Seq, title)
			if err != nil {
				return err
			}
			a.say("Forked from %.8s (%d messages)", p.ID, i.Messages)
			return a.printf(i, "%s\n", i.ID)
		}),
	}
	cmd.Flags().StringVar(&title, "name", "", "the `TITLE` of the new session")
	cmd.Flags().StringVar(&worktree, "worktree", "", "make a work tree of git for it in `DIR`, with the files of that node")
	return cmd
}
