package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

func treeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "tree SESSION",
		Short: "Show the branches of a session",
		Long: `Shows the nodes of a session: a node is the end of a turn, with its label, the
number of messages on the path to it, when the turn began and its first words.
Turns that follow each other stand in one column; a branch moves to the right.
Any node can be branched from.`,
		Example:           "  tidemark tree last\n  tidemark branch last@n1",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: a.onSession(open.Read, func(cmd *cobra.Command, _ *store.Store, p store.Point, args []string) error {
			nodes, err := p.Tree(cmd.Context())
			if err != nil {
				return err
			}
			if nodes == nil {
				nodes = []store.Node{}
			}
			return a.print(nodes, func(w io.Writer) error {
				return a.drawTree(w, nodes)
			})
		}),
	}
}

// drawTree draws a tree: cut to the width of a terminal, whole in a pipe.
func (a *app) drawTree(w io.Writer, nodes []store.Node) error {
	all := make([]render.Node, len(nodes))
	for i, n := range nodes {
		all[i] = slash.Node(n)
		all[i].Current = n.Current && a.terminal
	}
	if !a.terminal {
		return render.Tree(w, all, nil)
	}
	return render.Tree(w, all, &render.TreeOptions{Width: a.columns, Relative: render.SinceNow})
}
