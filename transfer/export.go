package transfer

import (
	"context"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// ExportOptions say which part of a session is exported, and how.
type ExportOptions struct {
	// Format is md, html, json or ndjson; ToolExport writes the formats
	// of tools.
	Format string
	// Redact masks secrets.
	Redact bool
	// Framed makes an html for a frame of another page.
	Framed bool
	// AllBranches exports the whole log, in the order it was written; OnlyNode
	// only the entries of the named node, and not those that lead to it.
	AllBranches, OnlyNode bool
	// Worker means that the view is that of a worker with this name.
	Worker string
	// Node is the name of the exported node; "": the head.
	Node string
}

// documents are the formats of a single file, with their media types.
var documents = map[string]string{"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8", "json": "application/json", "ndjson": "application/x-ndjson"}

// IsDocument reports whether a format is a single file, and not that of a tool.
func IsDocument(format string) bool { return documents[format] != "" }

// Formats are all formats that a session can be written in.
func Formats() []string {
	all := []string{"md", "html", "json", "ndjson"}
	for _, t := range Tools() {
		if CanExport(t) {
			all = append(all, t.Name)
		}
	}
	return all
}

// FormatFor returns the format of a file: the one that is named, else that of its
// extension, else md. ErrInvalid: the one that is named is none of a single file.
func FormatFor(named, file string) (string, error) {
	format := named
	if format == "" {
		format = strings.TrimPrefix(filepath.Ext(file), ".")
		switch {
		case format == "htm":
			format = "html"
		case !IsDocument(format):
			format = "md"
		}
	}
	if !IsDocument(format) {
		return "", tidemark.Invalidf("format %q: want one of %s", named, strings.Join(Formats(), ", "))
	}
	return format, nil
}

// Export is the export of a session as one file.
type Export struct {
	ExportOptions
	s       *store.Store
	at      store.Point // its description of the session may be masked
	labels  map[int64]string
	entries iter.Seq2[tidemark.Entry, error]
}

// NewExport prepares the export of the path to a point of a session. It reads
// only what was requested. ErrInvalid: the options exclude each other.
func NewExport(ctx context.Context, s *store.Store, at store.Point, o ExportOptions) (*Export, error) {
	x := &Export{ExportOptions: o, s: s}
	if !IsDocument(o.Format) {
		return nil, tidemark.Invalidf("format %q: want one of %s", o.Format, strings.Join(Formats(), ", "))
	}
	at, err := withDraft(ctx, at)
	if err != nil {
		return nil, err
	}
	if x.entries, err = x.choose(ctx, at.View, at.Seq); err != nil {
		return nil, err
	}
	about := *at.View
	if x.labels, err = at.View.Labels(ctx); err != nil {
		return nil, err
	}
	if o.Redact {
		x.entries = masked(s, x.entries)
		about.Session = s.MaskSession(at.Session)
		for seq, label := range x.labels {
			x.labels[seq] = s.MaskText(label)
		}
	}
	x.at = store.Point{View: &about, Seq: at.Seq}
	return x, nil
}

// withDraft is a point in a session with what another tool may still change, where
// all of the session is meant.
func withDraft(ctx context.Context, at store.Point) (store.Point, error) {
	if at.Seq != 0 {
		return at, nil
	}
	v, err := at.View.WithDraft(ctx)
	return store.Point{View: v}, err
}

// choose returns the requested entries.
func (x *Export) choose(ctx context.Context, v *store.View, seq int64) (iter.Seq2[tidemark.Entry, error], error) {
	switch {
	case x.AllBranches && (x.OnlyNode || seq != 0):
		return nil, tidemark.Invalidf("--all-branches goes with a whole session")
	case x.AllBranches:
		return v.Log(ctx), nil
	case x.OnlyNode:
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

// state adds the session's state, when the whole session is exported.
func (x *Export) state(ctx context.Context, f *sessionFile) error {
	if x.Worker != "" || x.OnlyNode {
		return nil
	}
	var err error
	if f.Checkpoint, f.Files, err = stateOfSession(ctx, x.s, f.Session.ID); err != nil || !x.Redact {
		return err
	}
	f.Checkpoint = maskedJSON(x.s, f.Checkpoint)
	for name, content := range f.Files {
		f.Files[name] = []byte(x.s.MaskText(string(content)))
	}
	return nil
}

// Write writes the session. ErrCorrupt: some of it is damaged, and everything
// readable was written.
func (x *Export) Write(ctx context.Context, w io.Writer) error {
	switch x.Format {
	case "md", "html":
		d, err := x.document(ctx)
		if err != nil {
			return err
		}
		if x.Format == "html" {
			return render.HTML(w, d, x.entries)
		}
		return render.Markdown(w, d, x.entries)
	case "json":
		f := sessionFile{Session: x.at.Session, Labels: x.labels}
		if err := x.state(ctx, &f); err != nil {
			return err
		}
		return exportJSON(w, f, x.entries)
	}
	return eachLine(w, x.entries, func(e tidemark.Entry) ([]byte, error) {
		b, err := convert.Encode(e)
		return append(b, '\n'), err
	})
}

// document is what the readable formats say about a session.
func (x *Export) document(ctx context.Context) (render.Document, error) {
	v := x.at.View
	d := render.Document{Session: v.Session, UpdatedAt: v.UpdatedAt, Messages: v.Messages, ExportedAt: time.Now(), Framed: x.Framed}
	if v.State != store.Live {
		d.State = v.State
	}
	d.Node, d.Labels = x.Node, x.labels
	nodes, err := v.Tree(ctx)
	told := x.told(nodes)
	for _, n := range nodes {
		if n.Label != "" {
			n.Label = x.labels[n.Last]
		}
		switch {
		case !told(n):
			n.Text = "" // the first words of what is not exported are not shown either
		case x.Redact:
			n.Text = x.s.MaskText(n.Text)
		}
		if len(nodes) > 1 { // otherwise there is nothing to choose from
			d.Tree = append(d.Tree, slash.Node(n))
		}
	}
	if err == nil && x.Worker == "" {
		d.Workers, err = x.workers(ctx)
	}
	return d, err
}

// told returns a function that reports whether a node is exported.
func (x *Export) told(nodes []store.Node) func(store.Node) bool {
	seq := x.at.Seq
	parents, tip := make(map[int64]int64, len(nodes)), int64(-1)
	for _, n := range nodes {
		parents[n.Number] = n.Parent
		if seq == 0 && n.Current || n.First <= seq && seq <= n.Last {
			tip = n.Number
		}
	}
	way := make(map[int64]bool)
	for n := tip; n >= 0 && !way[n]; {
		if way[n] = true; x.OnlyNode {
			break
		}
		n = parents[n]
	}
	return func(n store.Node) bool { return x.AllBranches || way[n.Number] }
}

// workers are those whose transcripts belong to the export: all of a whole
// session, for a part those started in it.
func (x *Export) workers(ctx context.Context) ([]render.Worker, error) {
	names, err := x.at.Workers(ctx)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	part := x.at.Seq != 0 || x.OnlyNode
	calls := make(map[string]bool)
	for e := range x.entries {
		if !part {
			break
		}
		for _, b := range e.Blocks {
			calls[b.ID] = calls[b.ID] || b.Type == tidemark.BlockToolUse
		}
	}
	var all []render.Worker
	for _, name := range names {
		v, err := x.at.Worker(ctx, name)
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
		if v, err = v.WithDraft(ctx); err != nil {
			return nil, err
		}
		log := v.Path(ctx, 0)
		if x.Redact {
			log = masked(x.s, log)
		}
		all = append(all, render.Worker{Name: name, Call: from.Call, Entries: log})
	}
	return all, nil
}

// eachLine writes entries as they come. Damaged ones are left out, and the
// first damage is returned at the end.
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

// exportJSON writes a sessionFile without holding the entries in memory.
func exportJSON(w io.Writer, f sessionFile, entries iter.Seq2[tidemark.Entry, error]) error {
	f.Format, f.Version, f.Entries = sessionFormat, sessionVersion, []tidemark.Entry{}
	head, err := convert.Encode(f)
	if err != nil {
		return err
	}
	if _, err := w.Write(head[:len(head)-len("]}")]); err != nil {
		return err
	}
	between := "\n"
	err = eachLine(w, entries, func(e tidemark.Entry) ([]byte, error) {
		b, err := convert.Encode(e)
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
