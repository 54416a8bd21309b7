package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

func folderCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "folder SESSION [NAME]",
		Short: "The durable folders of a session",
		Long: `Lists the files that the agent of a session wrote to be there after a restart:
those in memory/, artifacts/, buffers/ and meta/. With a name, prints that file.`,
		Example: `  tidemark folder last
  tidemark folder last artifacts/report.md > report.md`,
		Args:              usage(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: completeSession(a),
		RunE: a.onSession(open.Read, func(cmd *cobra.Command, s *store.Store, p store.Point, args []string) error {
			if len(args) == 2 {
				_, err := s.CopyFile(cmd.Context(), p.ID, args[1], a.out)
				return hint.With(err, "see what is there with: tidemark folder %.8s", p.ID)
			}
			rows, err := s.Files(cmd.Context(), p.ID)
			if err != nil {
				return err
			}
			return printTable(a, rows, []string{"NAME", "BYTES", "CHANGED"}, func(f store.File) []string {
				return []string{f.Name, fmt.Sprint(f.Size), a.when(f.ModifiedAt)}
			})
		}),
	}
}
