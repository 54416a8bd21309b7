package transfer

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

// DrillResult is the outcome of testing a backup.
type DrillResult struct {
	Archive  string           `json:"archive"`
	MadeAt   time.Time        `json:"made_at"`
	Sealed   bool             `json:"sealed"`
	Records  int64            `json:"records"`
	Lines    int64            `json:"lines"`
	Sessions int              `json:"sessions"`
	Opened   bool             `json:"opened"` // the key was available, and every entry was read
	Damage   []upkeep.Finding `json:"damage"`
	Seconds  float64          `json:"seconds"`

	// KeyMissing says which key is missing when Opened is false.
	KeyMissing error `json:"-"`
}

// DrillOptions say how a backup is tested.
type DrillOptions struct {
	Open     *open.Options // how the temporary store is opened
	Progress func(size int64) func(archive.Progress)
	Read     func(sessions int) // called for each session that was read
}

// Drill restores the archive in a file into a temporary store, and reads every
// entry there. Damage is no error; a failed restore is one.
func Drill(ctx context.Context, path string, o DrillOptions) (DrillResult, error) {
	begun := time.Now()
	f, err := os.Open(path)
	if err != nil {
		return DrillResult{}, tidemark.NotFoundf("%w", err)
	}
	defer f.Close()
	var begin [16]byte
	n, _ := io.ReadFull(f, begin[:])
	is, sealed := archive.Sniff(begin[:n])
	if !is {
		return DrillResult{}, hint.With(tidemark.Invalidf("%s: not an archive of Tidemark", path), "tidemark export --all -o %s", path)
	}
	info, err := f.Stat()
	if err != nil {
		return DrillResult{}, tidemark.Storagef("%w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return DrillResult{}, tidemark.Storagef("%w", err)
	}
	scratch, err := durable.NewScratch("tidemark")
	if err != nil {
		return DrillResult{}, tidemark.Storagef("%w", err)
	}
	defer scratch.Close()
	o.Open.Plain = !sealed
	done, err := Restore(ctx, f, sealed, RestoreOptions{URL: "sqlite:" + filepath.Join(scratch.Dir(), "drill.db"), Open: o.Open, Progress: o.Progress(info.Size())})
	if done.Opened != nil {
		defer done.Opened.Close()
	}
	if err != nil {
		return DrillResult{}, fmt.Errorf("%s cannot be restored: %w", path, err)
	}
	m := done.Manifest
	result := DrillResult{Archive: path, MadeAt: m.MadeAt, Sealed: m.Sealed, Records: m.Records, Lines: m.Lines, Damage: []upkeep.Finding{}, KeyMissing: done.KeyMissing}
	if done.Opened != nil {
		result.Opened = true
		result.Damage, err = upkeep.Findings(done.Opened.Store.VerifyAll(ctx, func(store.Info) {
			result.Sessions++
			o.Read(result.Sessions)
		}))
		if err != nil {
			return result, err
		}
	}
	result.Seconds = time.Since(begun).Round(time.Millisecond).Seconds()
	if m.Damaged > 0 {
		result.Damage = append(result.Damage, upkeep.Finding{What: fmt.Sprintf("%d thing(s) could not be read when the archive was made", m.Damaged)})
	}
	return result, nil
}
