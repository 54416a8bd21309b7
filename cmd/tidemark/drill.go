package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// drilled is what a restore drill answers.
type drilled struct {
	Archive  string    `json:"archive"`
	MadeAt   time.Time `json:"made_at"`
	Sealed   bool      `json:"sealed"`
	Records  int64     `json:"records"`
	Lines    int64     `json:"lines"`
	Sessions int       `json:"sessions"`
	Opened   bool      `json:"opened"` // the key was at hand, and every entry was read
	Damage   []finding `json:"damage"`
	Seconds  float64   `json:"seconds"`
}

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
	begun := time.Now()
	f, err := os.Open(path)
	if err != nil {
		return tidemark.NotFoundf("%w", err)
	}
	defer f.Close()
	var begin [16]byte
	n, _ := io.ReadFull(f, begin[:])
	is, sealed := archive.Sniff(begin[:n])
	if !is {
		return withHint(tidemark.Invalidf("%s: not an archive of Tidemark", path), "tidemark export --all -o %s", path)
	}
	info, err := f.Stat()
	if err != nil {
		return tidemark.Storagef("%w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return tidemark.Storagef("%w", err)
	}
	scratch, err := durable.NewScratch("tidemark")
	if err != nil {
		return tidemark.Storagef("%w", err)
	}
	defer scratch.Close()
	how := a.opening(creates)
	how.Plain = !sealed
	done, err := transfer.Restore(cmd.Context(), f, sealed, transfer.RestoreOptions{URL: "sqlite:" + filepath.Join(scratch.Dir(), "drill.db"), Open: how, Progress: a.stages("Restored", info.Size())})
	a.progressDone()
	if done.Opened != nil {
		defer done.Opened.Close()
	}
	if err != nil {
		return fmt.Errorf("%s cannot be restored: %w", path, err)
	}
	m := done.Manifest
	result := drilled{Archive: path, MadeAt: m.MadeAt, Sealed: m.Sealed, Records: m.Records, Lines: m.Lines, Damage: []finding{}}
	if done.Opened != nil {
		if err := a.readAll(cmd.Context(), done.Opened.Store, &result); err != nil {
			return err
		}
	}
	result.Seconds = time.Since(begun).Round(time.Millisecond).Seconds()
	if m.Damaged > 0 {
		result.Damage = append(result.Damage, finding{What: fmt.Sprintf("%d thing(s) could not be read when the archive was made", m.Damaged)})
	}
	return errors.Join(a.print(result, result.print), verified{Damage: result.Damage}.err(), done.KeyMissing)
}

// readAll reads everything in the trial store, as a restore would be used.
func (a *app) readAll(ctx context.Context, s *store.Store, result *drilled) error {
	for err := range s.VerifyAll(ctx, func(store.Info) {
		result.Sessions++
		a.progress("%d sessions read", result.Sessions)
	}) {
		var d *tidemark.Damage
		if !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if errors.As(err, &d) {
			result.Damage = append(result.Damage, finding{d.Key.Kind, d.Key.ID, d.Seq, d.Place, d.What})
		} else {
			result.Damage = append(result.Damage, finding{What: err.Error()})
		}
	}
	a.progressDone()
	result.Opened = true
	return nil
}

func (d drilled) print(w io.Writer) error {
	what := "every entry was read"
	if !d.Opened {
		what = "its key is not here: checksums and counts were compared, no entry was read"
	}
	_, err := fmt.Fprintf(w, "%s (made %s) can be restored: %d records, %d entries, %d sessions; %s; %.1f s\n",
		d.Archive, d.MadeAt.Format(time.RFC3339), d.Records, d.Lines, d.Sessions, what, d.Seconds)
	return err
}
