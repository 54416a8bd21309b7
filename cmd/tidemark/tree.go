package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

func treeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "tree SESSION",
		Short: "Show the branches of a session",
		Long: `Shows the nodes of a session: a node is the end of a turn, with the number of
messages on the path to it. Any node can be branched from.`,
		Example:           "  tidemark tree last\n  tidemark branch last@n1",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, p, err := a.resolve(cmd.Context(), reads, args[0])
			if err != nil {
				return err
			}
			nodes, err := p.Tree(cmd.Context())
			if err != nil {
				return err
			}
			if nodes == nil {
				nodes = []store.Node{}
			}
			return a.print(nodes, func(w io.Writer) error {
				all := make([]render.Node, len(nodes))
				for i, n := range nodes {
					all[i] = drawn(n)
					all[i].Current = n.Current && a.terminal
				}
				return render.Tree(w, all)
			})
		},
	}
}

// drawn is a node as it is drawn.
func drawn(n store.Node) render.Node {
	return render.Node{Number: n.Number, Parent: n.Parent, Messages: n.Messages, Label: n.Label, Current: n.Current, Seq: n.Last}
}
