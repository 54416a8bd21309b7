package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// exportFlags are the flags of export.
type exportFlags struct {
	format   string
	output   string
	redact   bool
	branches bool
	only     bool
	worker   string
	all      bool
	since    string
	tenants  bool
	tenant   []string
}

func exportCommand(a *app) *cobra.Command {
	var x exportFlags
	cmd := &cobra.Command{
		Use:   "export SESSION[@NODE]",
		Short: "Write a session, or the whole store, to a file",
		Long: `Writes the branch that a session is on, or the path to a node, as Markdown, as a
web page in one file, as JSON or as NDJSON. Sessions in the trash can be
exported, too.

With --all, everything that the store holds goes into one archive, which import
brings back as it was. The archive of an encrypted store is encrypted as the
store is, and opens with the same keys.

--format TOOL writes a session, or with --all every one of them and the agents
and jobs of a fleet, as another tool would have, into a folder, and says what
that tool has no place for: ` + transfer.ToolNames(transfer.CanExport) + `.

Into the home of Claude Code, Codex, opencode, Kilo CLI, pi, Qwen Code, Kimi Code
or Gemini CLI a session is handed over: it gets an id of its own there, replaces
no file, and what is said in it there comes back with the next import, as the
same session.`,
		Example: `  tidemark export last > session.md
  tidemark export 7f3a@n2 --format html -o session.html
  tidemark export last --all-branches --format json --redact
  tidemark export --all -o backup.tidemark
  tidemark export --all --since backup.tidemark -o today.tidemark
  tidemark export --all --format herdctl -o fleet
  tidemark export last --format codex -o ~/.codex`,
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if x.tenants || len(x.tenant) > 0 {
				if !x.all || len(args) > 0 || x.format != "" || x.since != "" {
					return hint.With(tidemark.Invalidf("--tenants and --tenant go with --all and -o DIR only"), "tidemark export --all --tenants -o DIR")
				}
				return a.exportTenants(cmd, x.tenant, x.output)
			}
			switch {
			case x.all && len(args) > 0:
				return tidemark.Invalidf("--all and a session exclude each other")
			case x.all && x.format != "":
				tool, err := transfer.ToolNamed(x.format)
				if err != nil {
					return err
				}
				if x.since != "" {
					return tidemark.Invalidf("--since goes with an archive")
				}
				return a.exportTo(cmd, "", tool, x)
			case x.all:
				return a.exportAll(cmd, x)
			case len(args) == 0:
				return hint.With(tidemark.Invalidf("which session?"), "tidemark export last, or tidemark export --all -o FILE")
			case x.since != "":
				return tidemark.Invalidf("--since goes with --all")
			}
			if tool, err := transfer.ToolNamed(x.format); err == nil {
				return a.exportTo(cmd, args[0], tool, x)
			}
			return a.exportOne(cmd, args[0], x)
		},
	}
	f := cmd.Flags()
	f.StringVar(&x.format, "format", "", "`FORMAT`: md, html, json, ndjson or a tool (default: by the name of the file, else md)")
	f.StringVarP(&x.output, "output", "o", "-", "`FILE` to write, - for stdout")
	f.BoolVar(&x.redact, "redact", false, "mask secrets")
	f.BoolVar(&x.branches, "all-branches", false, "all branches, in the order they were written")
	f.BoolVar(&x.only, "only-node", false, "only the entries of the node, not what leads to it")
	f.StringVar(&x.worker, "worker", "", "the log of this worker of the session")
	f.BoolVar(&x.all, "all", false, "everything, as one archive; with a tool's format, every session")
	f.BoolVar(&x.tenants, "tenants", false, "with --all, of a database: an archive for each tenant and user, into the folder -o")
	f.StringSliceVar(&x.tenant, "tenant", nil, "with --all, of a database: only this tenant, by `NAME`; several times")
	f.StringVar(&x.since, "since", "", "with --all: only what changed since an earlier archive in `FILE`")
	return cmd
}

func (a *app) exportOne(cmd *cobra.Command, ref string, x exportFlags) error {
	format, err := transfer.FormatFor(x.format, x.output)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	s, p, err := a.resolve(ctx, open.Read, ref)
	if err != nil {
		return err
	}
	v, err := transfer.SessionOrWorker(cmd.Context(), p, x.worker)
	if err != nil {
		return err
	}
	o := transfer.ExportOptions{Format: format, Redact: x.redact, AllBranches: x.branches, OnlyNode: x.only, Worker: x.worker}
	_, o.Node, _ = strings.Cut(ref, "@")
	session, err := transfer.NewExport(ctx, s, store.Point{View: v, Seq: p.Seq}, o)
	if err != nil {
		return err
	}
	var damage error
	err = a.toFile(x.output, func(w io.Writer) error {
		err := session.Write(ctx, w)
		if errors.Is(err, tidemark.ErrCorrupt) {
			damage, err = err, nil // keep the file, which has everything that can be read
		}
		return err
	})
	return errors.Join(err, damage)
}

// exportTo writes a session, or with --all all sessions and the fleet, into a
// folder in the format of another tool.
func (a *app) exportTo(cmd *cobra.Command, ref string, tool convert.Tool, x exportFlags) error {
	switch {
	case tool.Export == nil && tool.ExportFleet == nil:
		return tidemark.Unsupportedf("format %q: sessions of %s only come in", tool.Name, tool.Title)
	case tool.Export == nil && !x.all:
		return hint.With(tidemark.Unsupportedf("format %q: %s keeps no conversations", tool.Name, tool.Title), "its agents and jobs go out with: tidemark export --all --format %s -o DIR", tool.Name)
	case x.output == "-":
		return hint.With(tidemark.Invalidf("%s keeps sessions in a folder", tool.Title), "name one: -o DIR")
	}
	e := &transfer.ToolExport{Tool: tool, Redact: x.redact, Holder: a.holder(cmd), Progress: func(n, of int) { a.progress("%d of %d sessions", n, of) }}
	var at store.Point
	var err error
	access := open.Read
	if e.HandOver = transfer.IsHome(cmd.Context(), tool, x.output); e.HandOver {
		access = open.Write
	}
	if x.all {
		e.Store, err = a.open(cmd.Context(), access)
	} else {
		e.Store, at, err = a.resolve(cmd.Context(), access, ref)
	}
	if err != nil {
		return err
	}
	if e.Folder, err = transfer.OpenFolder(x.output, os.Environ()); err != nil {
		return err
	}
	if x.all {
		err = e.All(cmd.Context())
	} else {
		err = e.Session(cmd.Context(), at)
	}
	if err = errors.Join(err, e.Folder.Close()); err != nil {
		return err
	}
	a.progressDone()
	for _, l := range e.Lost {
		a.say("not in the %s format: %s", tool.Title, l)
	}
	for _, h := range e.Handed {
		for _, line := range h.Lines(tool, a.shortID(h.Session), x.output) {
			a.say("%s", line)
		}
	}
	result := map[string]any{"format": tool.Name, "folder": x.output, "sessions": e.Sessions, "lost": e.Lost}
	if len(e.Handed) > 0 {
		result["handed"] = e.Handed
	}
	if !x.all {
		result["session"] = e.Sessions[0]
	}
	return a.printf(result, "%s\n", x.output)
}

// toFile calls write with stdout, or with a file that gets its name only when it is
// complete.
func (a *app) toFile(name string, write func(io.Writer) error) error {
	if name == "-" {
		w := bufio.NewWriterSize(a.out, 1<<16)
		if err := write(w); err != nil {
			w.Flush() // print what was written; the first error counts
			return err
		}
		return w.Flush()
	}
	url, _, err := a.location()
	if err != nil {
		return err
	}
	return transfer.ToFile(name, url, write)
}

// exportTenants writes an archive for each tenant and user, and one for the
// operator, into a folder. It needs no keys: what is encrypted stays encrypted.
func (a *app) exportTenants(cmd *cobra.Command, only []string, dir string) error {
	if dir == "-" {
		return hint.With(tidemark.Invalidf("several archives go into a folder"), "name it: -o DIR")
	}
	place, err := a.databaseURL()
	if err != nil {
		return err
	}
	users, err := a.directory(cmd.Context(), open.Read)
	if err != nil {
		return err
	}
	e := &transfer.TenantExport{URL: place, Users: users, Dir: dir, Program: "tidemark " + version, Archives: []transfer.TenantArchive{},
		Progress: func() func(archive.Progress) { return a.archiveProgress("Written", 0) }, Damaged: func(err error) { a.say("tidemark: %s: left out", err) }}
	e.Places, _ = open.ColdPlaces(a.openOptions(open.Read))
	defer e.Places.Close()
	if err := e.Run(cmd.Context(), only...); err != nil {
		return err
	}
	a.progressDone()
	return errors.Join(printTable(a, e.Archives, []string{"FILE", "RECORDS", "ENTRIES"}, func(r transfer.TenantArchive) []string {
		return []string{r.File, fmt.Sprint(r.Records), fmt.Sprint(r.Lines)}
	}), e.Faults())
}
