package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func restoreDrillCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "restore-drill ARCHIVE",
		Short: "Try whether a backup can be restored",
		Long: `Restores an archive into a store that is thrown away, reads every entry of every
session there, and says whether all of it is whole. Nothing that is kept is
touched. For the archive of an encrypted store its key is needed; without it
only checksums and counts are compared, and the exit code is 12.

A backup that was never restored is a hope. Run this after each backup.`,
		Example: "  tidemark export --all -o backup.tidemark\n  tidemark restore-drill backup.tidemark",
		Args:    usage(cobra.ExactArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.restoreDrill(cmd, args[0]) },
	}
}

func (a *app) restoreDrill(cmd *cobra.Command, path string) error {
	result, err := transfer.Drill(cmd.Context(), path, transfer.DrillOptions{Open: a.openOptions(open.Create),
		Progress: func(size int64) func(archive.Progress) { return a.archiveProgress("Restored", size) },
		Read:     func(sessions int) { a.progress("%d sessions read", sessions) }})
	a.progressDone()
	if err != nil {
		return err
	}
	return errors.Join(a.print(result, func(w io.Writer) error { return printDrill(w, result) }), verified{Damage: result.Damage}.err(), result.KeyMissing)
}

func printDrill(w io.Writer, d transfer.DrillResult) error {
	what := "every entry was read"
	if !d.Opened {
		what = "its key is not here: checksums and counts were compared, no entry was read"
	}
	_, err := fmt.Fprintf(w, "%s (made %s) can be restored: %d records, %d entries, %d sessions; %s; %.1f s\n",
		d.Archive, d.MadeAt.Format(time.RFC3339), d.Records, d.Lines, d.Sessions, what, d.Seconds)
	return err
}
