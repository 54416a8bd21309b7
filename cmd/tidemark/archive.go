package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
)

// archiveProgress returns a function that shows progress: a line on a terminal,
// with a bar if the size of the archive is known, and JSON lines with --json.
func (a *app) archiveProgress(verb string, size int64) func(archive.Progress) {
	begun := time.Now()
	var printed time.Time
	return func(p archive.Progress) {
		if !a.wantsJSON() {
			took := time.Since(begun)
			rate := float64(p.Bytes) / 1e6 / max(took.Seconds(), 0.001)
			bar := ""
			if size > 0 && p.Packed > 0 {
				done := min(float64(p.Packed)/float64(size), 1)
				left := time.Duration(float64(took) * (1 - done) / done).Round(time.Second)
				bar = fmt.Sprintf(" [%-20s] %3.0f %%, %s left", strings.Repeat("#", int(20*done)), 100*done, left)
			}
			a.progress("%s%s: %d records, %d entries, %.0f MB (%.0f MB/s)", verb, bar, p.Records, p.Lines, float64(p.Bytes)/1e6, rate)
			return
		}
		if time.Since(printed) < time.Second {
			return
		}
		printed = time.Now()
		a.print(map[string]any{"event": "progress", "records": p.Records, "lines": p.Lines, "bytes": p.Bytes}, nil)
	}
}

// exportAll writes everything in the store, as it is kept: archiving an encrypted
// store needs no key, and the archive is encrypted like the store.
func (a *app) exportAll(cmd *cobra.Command, x exportFlags) error {
	if x.format != "" || x.redact || x.branches || x.only || x.worker != "" {
		return tidemark.Invalidf("--all writes an archive of everything as it is; it goes with -o and --since only")
	}
	if x.output == "-" && a.terminal {
		return hint.With(tidemark.Invalidf("an archive is not for a terminal"), "tidemark export --all -o backup.tidemark")
	}
	o := &archive.WriteOptions{Describe: map[string]string{"program": "tidemark " + version}}
	if a.wantsJSON() && x.output == "-" {
		return tidemark.Invalidf("--json goes with -o FILE here: stdout has the archive")
	}
	o.Progress = a.archiveProgress("Written", 0)
	o.Damaged = func(err error) { a.say("tidemark: %s: left out", err) }
	if x.since != "" {
		base, err := inspect(cmd.Context(), x.since)
		if err != nil {
			return fmt.Errorf("--since %s: %w", x.since, err)
		}
		o.Since = &base
	}
	url, _, err := a.location()
	if err != nil {
		return err
	}
	inner, err := open.Backend(cmd.Context(), url, a.openOptions(open.Read))
	if err != nil {
		return err
	}
	defer inner.Close()
	var m archive.Manifest
	err = a.toFile(x.output, func(w io.Writer) error {
		m, err = archive.Write(cmd.Context(), w, inner, o)
		return err
	})
	a.progressDone()
	if err != nil {
		return err
	}
	if x.output == "-" {
		return nil
	}
	err = a.printf(m, "%s: %d records, %d entries\n", x.output, m.Records, m.Lines)
	if m.Damaged > 0 && err == nil {
		err = hint.With(fmt.Errorf("%d thing(s) could not be read and are not in the archive: %w", m.Damaged, tidemark.ErrCorrupt), "tidemark verify")
	}
	return err
}

// inspect verifies an archive and returns its manifest.
func inspect(ctx context.Context, path string) (archive.Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return archive.Manifest{}, tidemark.NotFoundf("%w", errors.Unwrap(err))
	}
	defer f.Close()
	return archive.Inspect(ctx, f)
}

func printManifest(w io.Writer, verb string, m archive.Manifest) error {
	kind := "plain"
	if m.Sealed {
		kind = "encrypted"
	}
	_, err := fmt.Fprintf(w, "%s: %d records, %d entries (%s, made %s)\n", verb, m.Records, m.Lines, kind, m.MadeAt.Format(time.RFC3339))
	return err
}
