package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// exporting is what an export was asked for.
type exporting struct {
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

// formats are the ways to write one session.
var formats = []string{"md", "html", "json", "ndjson"}

func exportCommand(a *app) *cobra.Command {
	var x exporting
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
that tool has no place for: ` + known(canExport) + `.`,
		Example: `  tidemark export last > session.md
  tidemark export 7f3a@n2 --format html -o session.html
  tidemark export last --all-branches --format json --redact
  tidemark export --all -o backup.tidemark
  tidemark export --all --since backup.tidemark -o today.tidemark
  tidemark export --all --format herdctl -o fleet`,
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			if x.tenants || len(x.tenant) > 0 {
				if !x.all || len(args) > 0 || x.format != "" || x.since != "" {
					return withHint(tidemark.Invalidf("--tenants and --tenant go with --all and -o DIR only"), "tidemark export --all --tenants -o DIR")
				}
				return a.exportTenants(cmd, x.tenant, x.output)
			}
			switch {
			case x.all && len(args) > 0:
				return tidemark.Invalidf("--all and a session exclude each other")
			case x.all && x.format != "":
				tool, err := toolNamed(x.format)
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
				return withHint(tidemark.Invalidf("which session?"), "tidemark export last, or tidemark export --all -o FILE")
			case x.since != "":
				return tidemark.Invalidf("--since goes with --all")
			}
			if tool, err := toolNamed(x.format); err == nil {
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

// exportFormats are all formats that a session can be written in.
func exportFormats() []string {
	all := slices.Clone(formats)
	for _, t := range tools() {
		if canExport(t) {
			all = append(all, t.Name)
		}
	}
	return all
}

// formatOf chooses by flag, then by the name of the file.
func (x exporting) formatOf() (string, error) {
	format := x.format
	if format == "" {
		format = strings.TrimPrefix(filepath.Ext(x.output), ".")
		switch {
		case format == "htm":
			format = "html"
		case !slices.Contains(formats, format):
			format = "md"
		}
	}
	if !slices.Contains(formats, format) {
		return "", tidemark.Invalidf("format %q: want one of %s", x.format, strings.Join(exportFormats(), ", "))
	}
	return format, nil
}

func (a *app) exportOne(cmd *cobra.Command, ref string, x exporting) error {
	format, err := x.formatOf()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	s, p, err := a.resolve(ctx, reads, ref)
	if err != nil {
		return err
	}
	v, err := a.side(cmd, p, x.worker)
	if err != nil {
		return err
	}
	entries, err := x.entries(ctx, v, p.Seq)
	if err != nil {
		return err
	}
	about := *v // what is said of the session, which may have to be masked
	labels, err := v.Labels(ctx)
	if err != nil {
		return err
	}
	if x.redact {
		entries = masked(s, entries)
		about.Session = s.MaskSession(v.Session)
		for seq, label := range labels {
			labels[seq] = s.MaskText(label)
		}
	}
	var damage error
	err = a.toFile(x.output, func(w io.Writer) error {
		err := x.write(ctx, s, w, format, store.Point{View: &about, Seq: p.Seq}, labels, ref, entries)
		if errors.Is(err, tidemark.ErrCorrupt) {
			damage, err = err, nil // what can be read is written
		}
		return err
	})
	return errors.Join(err, damage)
}

// entries are what was asked for of a session.
func (x exporting) entries(ctx context.Context, v *store.View, seq int64) (iter.Seq2[tidemark.Entry, error], error) {
	switch {
	case x.branches && (x.only || seq != 0):
		return nil, tidemark.Invalidf("--all-branches goes with a whole session")
	case x.branches:
		return v.Log(ctx), nil
	case x.only:
		if seq == 0 {
			var err error
			if seq, err = v.Head(ctx); err != nil {
				return nil, err
			}
		}
		place, err := v.Position(ctx, seq)
		if err != nil {
			return nil, err
		}
		return func(yield func(tidemark.Entry, error) bool) {
			for e, err := range v.Path(ctx, seq) {
				if e.Seq > place.Turn && !yield(e, err) {
					return
				}
			}
		}, nil
	}
	return v.Path(ctx, seq), nil
}

// masked masks the secrets of entries on their way.
func masked(s *store.Store, entries iter.Seq2[tidemark.Entry, error]) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		for e, err := range entries {
			if !yield(s.Mask(e), err) {
				return
			}
		}
	}
}

// state adds what is kept beside the conversation, when all of it goes out.
func (x exporting) state(ctx context.Context, s *store.Store, f *sessionFile) error {
	if x.worker != "" || x.only {
		return nil
	}
	var err error
	if f.Checkpoint, f.Files, err = stateOfSession(ctx, s, f.Session.ID); err != nil || !x.redact {
		return err
	}
	f.Checkpoint = maskedJSON(s, f.Checkpoint)
	for name, content := range f.Files {
		f.Files[name] = []byte(s.MaskText(string(content)))
	}
	return nil
}

func (x exporting) write(ctx context.Context, s *store.Store, w io.Writer, format string, p store.Point, labels map[int64]string, ref string, entries iter.Seq2[tidemark.Entry, error]) error {
	switch format {
	case "md", "html":
		d, err := x.document(ctx, s, p, labels, ref, entries)
		if err != nil {
			return err
		}
		if format == "html" {
			return render.HTML(w, d, entries)
		}
		return render.Markdown(w, d, entries)
	case "json":
		f := sessionFile{Session: p.Session, Labels: labels}
		if err := x.state(ctx, s, &f); err != nil {
			return err
		}
		return exportJSON(w, f, entries)
	}
	return eachLine(w, entries, func(e tidemark.Entry) ([]byte, error) {
		b, err := marshal(e)
		return append(b, '\n'), err
	})
}

// document is what the readable formats say of a session.
func (x exporting) document(ctx context.Context, s *store.Store, p store.Point, labels map[int64]string, ref string, entries iter.Seq2[tidemark.Entry, error]) (render.Document, error) {
	v := p.View
	d := render.Document{Session: v.Session, UpdatedAt: v.UpdatedAt, Messages: v.Messages, ExportedAt: time.Now()}
	if v.State != store.Live {
		d.State = v.State
	}
	if _, node, ok := strings.Cut(ref, "@"); ok {
		d.Node = node
	}
	d.Labels = labels
	nodes, err := v.Tree(ctx)
	told := x.told(nodes, p.Seq)
	for _, n := range nodes {
		if n.Label != "" {
			n.Label = labels[n.Last]
		}
		switch {
		case !told(n):
			n.Text = "" // what is not exported is not told by its first words either
		case x.redact:
			n.Text = s.MaskText(n.Text)
		}
		if len(nodes) > 1 { // else there is nothing to choose from
			d.Tree = append(d.Tree, slash.Node(n))
		}
	}
	if err == nil && x.worker == "" {
		d.Workers, err = x.workers(ctx, s, p, entries)
	}
	return d, err
}

// told returns a function that reports whether a node is among what is exported:
// on the way to seq, 0 for the head.
func (x exporting) told(nodes []store.Node, seq int64) func(store.Node) bool {
	parents, tip := make(map[int64]int64, len(nodes)), int64(-1)
	for _, n := range nodes {
		parents[n.Number] = n.Parent
		if seq == 0 && n.Current || n.First <= seq && seq <= n.Last {
			tip = n.Number
		}
	}
	way := make(map[int64]bool)
	for n := tip; n >= 0 && !way[n]; {
		if way[n] = true; x.only {
			break
		}
		n = parents[n]
	}
	return func(n store.Node) bool { return x.branches || way[n.Number] }
}

// workers are those whose transcripts belong to what is exported: all of a whole
// session, those that were started in it of a part.
func (x exporting) workers(ctx context.Context, s *store.Store, p store.Point, entries iter.Seq2[tidemark.Entry, error]) ([]render.Worker, error) {
	names, err := p.Workers(ctx)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	part := p.Seq != 0 || x.only
	calls := make(map[string]bool)
	for e := range entries {
		if !part {
			break
		}
		for _, b := range e.Blocks {
			calls[b.ID] = calls[b.ID] || b.Type == tidemark.BlockToolUse
		}
	}
	var all []render.Worker
	for _, name := range names {
		v, err := p.Worker(ctx, name)
		if err != nil {
			return nil, err
		}
		from, err := workerOriginOf(ctx, v, name)
		if err != nil {
			return nil, err
		}
		if part && !calls[from.Call] {
			continue
		}
		log := v.Path(ctx, 0)
		if x.redact {
			log = masked(s, log)
		}
		all = append(all, render.Worker{Name: name, Call: from.Call, Entries: log})
	}
	return all, nil
}

// eachLine writes entries as they come. Damaged ones are left out, and the
// first damage is the error in the end.
func eachLine(w io.Writer, entries iter.Seq2[tidemark.Entry, error], encode func(tidemark.Entry) ([]byte, error)) error {
	var damage error
	for e, err := range entries {
		if errors.Is(err, tidemark.ErrCorrupt) {
			if damage == nil {
				damage = err
			}
			continue
		}
		if err != nil {
			return err
		}
		b, err := encode(e)
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return damage
}

// sessionFile is how one session is exported as JSON, and imported again.
type sessionFile struct {
	Format  string           `json:"format"`
	Version int              `json:"version"`
	Session tidemark.Session `json:"session"`
	Labels  map[int64]string `json:"labels,omitempty"`
	// Checkpoint and Files are what a restart needs beyond the messages.
	Checkpoint json.RawMessage   `json:"checkpoint,omitempty"`
	Files      map[string][]byte `json:"files,omitempty"`
	Entries    []tidemark.Entry  `json:"entries"`
}

// The format of a sessionFile.
const (
	sessionFormat  = "tidemark-session"
	sessionVersion = 1
)

// exportJSON writes a sessionFile without holding the entries in memory.
func exportJSON(w io.Writer, f sessionFile, entries iter.Seq2[tidemark.Entry, error]) error {
	f.Format, f.Version, f.Entries = sessionFormat, sessionVersion, []tidemark.Entry{}
	head, err := marshal(f)
	if err != nil {
		return err
	}
	if _, err := w.Write(head[:len(head)-len("]}")]); err != nil {
		return err
	}
	between := "\n"
	err = eachLine(w, entries, func(e tidemark.Entry) ([]byte, error) {
		b, err := marshal(e)
		b = append([]byte(between), b...)
		between = ",\n"
		return b, err
	})
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return err
	}
	_, endErr := io.WriteString(w, "\n]}\n")
	return errors.Join(err, endErr)
}

// toFile gives write a file that takes its name only when it is whole, or
// stdout.
func (a *app) toFile(name string, write func(io.Writer) error) error {
	if name == "-" {
		w := bufio.NewWriterSize(a.out, 1<<16)
		if err := write(w); err != nil {
			w.Flush() // what there is; the error is the first one
			return err
		}
		return w.Flush()
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return tidemark.Invalidf("%s: %w", name, err)
	}
	i, err := os.Stat(full)
	if err == nil && !i.Mode().IsRegular() {
		return tidemark.Invalidf("%s: is not a file", name)
	}
	if err := a.notTheStore(full, i); err != nil {
		return err
	}
	dir, err := durable.OpenDir(filepath.Dir(full))
	if err != nil {
		return tidemark.Storagef("%s: %w", name, err)
	}
	defer dir.Close()
	base := filepath.Base(full)
	var failed error // keeps what it is, beside what is storage's
	var disk *diskWriter
	err = durable.Stream(dir, fmt.Sprintf(".%s.%d.tmp", base, os.Getpid()), base, func(w io.Writer) error {
		disk = &diskWriter{w: w}
		failed = write(disk)
		return failed
	})
	if err != nil && (failed == nil || disk.err != nil) {
		return tidemark.Storagef("%s: %w", name, err)
	}
	return failed
}

// notTheStore refuses to write over the store itself.
func (a *app) notTheStore(file string, is os.FileInfo) error {
	url, _, err := a.location()
	if err != nil {
		return err
	}
	scheme, at, _ := strings.Cut(url, ":")
	at, err = filepath.Abs(at)
	if err != nil {
		return err
	}
	inside := scheme == "files" && strings.HasPrefix(file, at+string(filepath.Separator))
	for _, end := range []string{"", "-wal", "-shm", "-journal", ".lock"} {
		if store, err := os.Stat(at + end); err == nil && scheme == "sqlite" && is != nil && os.SameFile(store, is) {
			inside = true
		}
	}
	if inside {
		return tidemark.Invalidf("%s: is a part of the store itself", file)
	}
	return nil
}

// diskWriter tells errors of the disk from those of what is written.
type diskWriter struct {
	w   io.Writer
	err error
}

func (d *diskWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	if err != nil {
		d.err = err
	}
	return n, err
}
