package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/transfer"
)

func importCommand(a *app) *cobra.Command {
	var dryRun, all, again bool
	var from string
	cmd := &cobra.Command{
		Use:   "import PATH…",
		Short: "Bring in archives, and sessions of other tools",
		Long: `Brings in what export wrote: an archive of a whole store, a session as JSON, or
entries as NDJSON; and the sessions that other tools keep. The format is
detected; - is stdin. Files of other tools are only read, and credentials are
not opened.

Known tools: ` + transfer.ToolNames(transfer.CanImport) + `.

A second import adds only what is new: a session that grew gets the rest, and an
entry that was changed becomes a branch beside what it was. Files that did not
change since the last import are not read again, unless you say --again.
Sessions that are in the trash here, and those that were purged, are passed
over; --again with a PATH brings back what was purged. What cannot be taken is
named and left out; the exit code is then 3.

An archive is restored as it was: into a store that is not there yet, or into
one that holds the beginning of it. It can be interrupted and run again. A
session that is there already gets only what is new; one that differs from it
is refused.`,
		Example: `  tidemark import --all --dry-run
  tidemark import ~/.claude
  tidemark import --again ~/.claude
  tidemark import chatgpt-export.zip
  tidemark import backup.tidemark
  tidemark import session.json --dry-run
  tidemark --store files:restored import backup.tidemark`,
		Args: usage(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return hint.With(tidemark.Invalidf("import what?"), "tidemark import PATH…, or tidemark import --all")
			}
			if from != "" {
				if _, err := transfer.ToolNamed(from); err != nil {
					return err
				}
			}
			i, err := a.importer(cmd)
			if err != nil {
				return err
			}
			i.Tool, i.DryRun, i.Again = from, dryRun, again
			defer transfer.CollectMore(os.Environ())()
			defer func() { a.opened = i.Opened }()
			if all {
				err = a.importHomes(cmd.Context(), i)
			}
			if err == nil {
				err = i.Paths(cmd.Context(), args...)
			}
			if err == nil {
				err = i.Index(cmd.Context())
			}
			a.progressDone()
			if cmd.Context().Err() != nil && !dryRun {
				a.say("%d session(s) are here, each of them whole. The same command goes on with the rest.", len(i.Results)+i.Unchanged)
			}
			if err != nil {
				return err
			}
			return a.printImport(i, all)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would come in, and change nothing")
	cmd.Flags().StringVar(&from, "from", "", "the `TOOL` that wrote it, instead of finding out")
	cmd.Flags().BoolVar(&again, "again", false, "read everything, also files that did not change since the last import; with a PATH, also sessions that were purged here")
	cmd.Flags().BoolVar(&all, "all", false, "the stores of every known tool in this home folder, or where its variables say")
	return cmd
}

// importer returns an import into the store that prints what it does.
func (a *app) importer(cmd *cobra.Command) (*transfer.Importer, error) {
	url, _, err := a.location()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	i := &transfer.Importer{
		Opened: a.opened, URL: url, Open: a.openOptions(open.Create), Holder: a.holder(cmd), Project: a.project(), Stdin: a.in,
		Source: func(tool convert.Tool, path string) { a.say("%s: %s", tool.Title, path) },
		Skip:   func(err error) { a.say("tidemark: %s: skipped", err) },
		Refuse: a.complain,
		Lost:   func(from, what string) { a.say("%s: %s", from, what) },
		Kept: func(r transfer.Result) {
			for _, lost := range r.Lost {
				if a.verbose {
					a.say("%s: %s", r.ForeignID, lost)
				}
			}
		},
		Reading: func(size int64) func(archive.Progress) { return a.archiveProgress("Read", size) },
		Archive: a.printRestored,
		Results: []transfer.Result{},
	}
	i.Progress = func(n int, what string) {
		if !a.progressIsDue() {
			return // it is called for each of thousands of sessions that did not change
		}
		of := i.Expected
		if what != "sessions" {
			of = 0
		}
		a.progress("%s", render.Progress(time.Since(begun), n, of, what))
	}
	return i, nil
}

// importHomes imports what every known tool left in the home folder.
func (a *app) importHomes(ctx context.Context, i *transfer.Importer) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return tidemark.Invalidf("no home folder: %w", err)
	}
	found, err := i.Homes(ctx, home)
	if err == nil && !found {
		a.say("No known tool has left sessions in %s.", home)
	}
	return err
}

// printRestored prints what was restored from an archive, or with --dry-run what
// the archive holds.
func (a *app) printRestored(r transfer.Restored) error {
	a.progressDone()
	verb := "restored"
	switch {
	case r.Opened != nil:
	case r.KeyMissing != nil:
		a.say("The store is restored. Its key is not here: put it in place, then index it with: tidemark doctor --fix")
	default:
		verb = "holds"
	}
	return a.print(r.Manifest, func(w io.Writer) error { return printManifest(w, verb, r.Manifest) })
}

// printImport prints the results of an import.
func (a *app) printImport(i *transfer.Importer, always bool) error {
	lossy, growing := 0, 0
	for _, r := range i.Results {
		if len(r.Lost) > 0 {
			lossy++
		}
		if r.Drafts > 0 {
			growing++
		}
	}
	if growing > 0 {
		a.say("%d session(s) may still be written to: what they end with was not complete.", growing)
	}
	if lossy > 0 && !a.verbose {
		a.say("Of %d session(s) something has no place here; see what with -v or --json.", lossy)
	}
	if i.Unchanged > 0 {
		a.say("%d session(s) did not change since the last import, and were not read again.", i.Unchanged)
	}
	if i.Waiting > 0 {
		a.say("%d session(s) are open here: what their tools added comes with the next import.", i.Waiting)
	}
	if n := i.Trashed + i.Purged; n > 0 {
		a.say("%d session(s) were passed over: %d in the trash, %d purged here. What was purged comes back with: tidemark import --again PATH", n, i.Trashed, i.Purged)
	}
	if len(i.Results) > 0 || i.Skipped > 0 || i.Unchanged > 0 || always {
		if err := a.print(i.Results, func(w io.Writer) error { return a.printResults(w, i.Results) }); err != nil {
			return err
		}
	}
	if i.Skipped > 0 {
		return &partly{i.Skipped}
	}
	return nil
}

// printResults prints a row for each imported thing, with its id here and its
// foreign id.
func (a *app) printResults(w io.Writer, results []transfer.Result) error {
	if a.terminal {
		printSources(w, results)
	}
	t := a.table("STATE", "SESSION", "ENTRIES", "TOOL", "FOREIGN ID", "TITLE")
	if !a.terminal {
		t = a.table("STATE", "SESSION", "ENTRIES", "FROM", "TOOL", "FOREIGN ID", "TITLE")
	}
	for _, r := range results {
		id := ""
		if r.Session != "" {
			id = a.shortID(r.Session)
		} else if r.Kind != "" {
			id = r.Kind
		}
		if a.terminal {
			t.Row(r.State, id, fmt.Sprint(r.Entries), r.Tool, render.Truncate(r.ForeignID, foreignColumns), r.Title)
		} else {
			t.Row(r.State, id, fmt.Sprint(r.Entries), r.From, r.Tool, r.ForeignID, r.Title)
		}
	}
	return t.Print(w)
}

// foreignColumns is how much of a foreign id a terminal shows: enough to tell
// it from others, and to type.
const foreignColumns = 14

// printSources prints the places that the results came from, each once.
func printSources(w io.Writer, results []transfer.Result) {
	last := ""
	for _, r := range results {
		if r.From != last {
			fmt.Fprintf(w, "from %s\n", render.CleanLine(abbreviateHome(r.From)))
		}
		last = r.From
	}
}
