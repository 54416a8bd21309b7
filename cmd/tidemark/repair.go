package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func repairCommand(a *app) *cobra.Command {
	var tool, out string
	dry, drop := false, false
	cmd := &cobra.Command{
		Use:   "repair SESSION[@NODE]|FILE --for TOOL",
		Short: "Mend a session that its tool refuses",
		Long: `Says what makes a tool, or the model behind it, refuse a session: calls without a
result, results without a call, calls that are there twice, thinking with a dead
signature, images that are too large, lines that cannot be read, a summary that
lost its place. Writes a copy without that, under an id of its own, into a folder
like the home of the tool.
The original is not touched.

Only its provider can tell whether a signature that looks right is valid: if the
model refuses one in a copy, --drop-thinking leaves out all signed thinking.

There are writers for ` + transfer.ToolNames(transfer.CanRepair) + `.`,
		Example: "  tidemark repair ~/.claude/projects/-home-me-tea/7f3a….jsonl --for claude-code --dry-run\n  tidemark repair last --for codex -o ~/.codex",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tool == "" || out == "" && !dry {
				return hint.With(tidemark.Invalidf("for which tool, and where to?"), "tidemark repair %s --for claude-code -o ~/.claude", args[0])
			}
			if dry {
				out = ""
			}
			r, err := transfer.OpenRepair(tool, out, os.Environ())
			if err != nil {
				return err
			}
			defer r.Close()
			r.DropThinking = drop
			if err := r.Named(cmd.Context(), args[0], func() (*store.Store, store.Point, error) { return a.resolve(cmd.Context(), open.Read, args[0]) }); err != nil {
				return err
			}
			said := render.Clean(strings.Join(r.Lines(), "\n"))
			return a.print(r.Result(), func(w io.Writer) error { _, err := fmt.Fprintln(w, said); return err })
		},
	}
	cmd.Flags().StringVar(&tool, "for", "", "the `TOOL` that is to go on with it")
	cmd.Flags().StringVarP(&out, "output", "o", "", "`FOLDER` to write the copy into")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what is wrong")
	cmd.Flags().BoolVar(&drop, "drop-thinking", false, "leave out all signed thinking")
	return cmd
}
