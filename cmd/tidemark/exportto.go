package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/store"
)

// exportTo writes a session as another tool would have, into a folder.
func (a *app) exportTo(cmd *cobra.Command, ref string, tool convert.Tool, x exporting) error {
	if tool.Export == nil {
		return tidemark.Unsupportedf("format %q: sessions of %s only come in", tool.Name, tool.Title)
	}
	if x.output == "-" {
		return withHint(tidemark.Invalidf("%s keeps a session in several files", tool.Title), "name a folder for them: -o DIR")
	}
	s, p, err := a.resolve(cmd.Context(), reads, ref)
	if err != nil {
		return err
	}
	f, err := outgoing(cmd.Context(), s, p, tool)
	if err != nil {
		return err
	}
	if x.redact {
		f.Session, f.Entries = s.MaskSession(f.Session), maskedForeign(s, f.Entries)
		for i := range f.Workers {
			f.Workers[i].Entries = maskedForeign(s, f.Workers[i].Entries)
		}
		for id, label := range f.Labels {
			f.Labels[id] = s.MaskText(label)
		}
	}
	out, err := openOut(x.output)
	if err != nil {
		return err
	}
	lost, err := tool.Export(cmd.Context(), out, f)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	for _, l := range lost {
		a.say("not in the %s format: %s", tool.Title, l)
	}
	return a.print(map[string]any{"format": tool.Name, "folder": x.output, "session": p.ID, "lost": lost}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, x.output)
		return err
	})
}

func maskedForeign(s *store.Store, entries iter.Seq2[convert.Entry, error]) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		for e, err := range entries {
			e.Entry = s.Mask(e.Entry)
			if !yield(e, err) {
				return
			}
		}
	}
}

// outgoing is a session as converters see it. A point in it means the path to
// it alone.
func outgoing(ctx context.Context, s *store.Store, p store.Point, tool convert.Tool) (*convert.Session, error) {
	f := &convert.Session{Session: p.Session, UpdatedAt: p.UpdatedAt}
	from := originOf(p.Session)
	if from.Tool == tool.Name {
		f.Extra, f.Copied = from.Extra, from.Copied
	} else {
		f.ForeignID = ""
	}
	f.Base = nil
	all := p.Log(ctx)
	if p.Seq != 0 {
		all = p.Path(ctx, p.Seq)
	}
	names := &outgoingNames{prefix: tool.Name + ":", ids: make(map[int64]string)}
	f.Entries = names.entries(all)
	workers, err := p.Workers(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range workers {
		w, err := p.Worker(ctx, name)
		if err != nil {
			return nil, err
		}
		own := &outgoingNames{prefix: names.prefix, ids: make(map[int64]string)}
		worker := convert.Worker{Name: name, Entries: own.entries(w.Log(ctx))}
		for e, err := range w.Log(ctx) {
			var from workerOrigin
			if err == nil && e.Kind == kindWorker && json.Unmarshal(e.Extra, &from) == nil {
				worker.Name, worker.Call = from.Name, from.Call
			}
			break
		}
		f.Workers = append(f.Workers, worker)
	}
	if err := names.points(ctx, p, f); err != nil {
		return nil, err
	}
	checkpoint, err := s.Checkpoint(ctx, p.ID, "")
	if err == nil {
		f.Checkpoint, err = json.Marshal(checkpoint)
	}
	if errors.Is(err, tidemark.ErrNotFound) {
		err = nil
	}
	return f, err
}

// outgoingNames gives entries the ids that their tool knew them by, or their
// numbers.
type outgoingNames struct {
	prefix string
	ids    map[int64]string // by seq; of a marker, that of the entry it points at
}

// idOf is what an entry is called outside.
func (n *outgoingNames) idOf(e tidemark.Entry) string {
	if id, ok := strings.CutPrefix(e.Key, n.prefix); ok {
		return id
	}
	return strconv.FormatInt(e.Seq, 10)
}

// points finds the entries that have a label, and the one that the session is
// at when it is not the newest.
func (n *outgoingNames) points(ctx context.Context, p store.Point, f *convert.Session) error {
	labels, err := p.Labels(ctx)
	if err != nil {
		return err
	}
	head := p.Seq
	if head == 0 {
		if head, err = p.Head(ctx); err != nil {
			return err
		}
	}
	f.Labels = make(map[string]string)
	if len(labels) == 0 && head == p.Entries {
		return nil
	}
	for e, err := range p.Log(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if label, ok := labels[e.Seq]; ok {
			f.Labels[n.idOf(e)] = label
		}
		if e.Seq == head && head != p.Entries {
			f.Head = n.idOf(e)
		}
	}
	return nil
}

func (n *outgoingNames) entries(all iter.Seq2[tidemark.Entry, error]) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		for e, err := range all {
			if errors.Is(err, tidemark.ErrCorrupt) {
				if !yield(convert.Entry{}, &convert.Skip{What: fmt.Sprintf("entry %d", e.Seq), Why: err}) {
					return
				}
				continue
			}
			if err != nil {
				yield(convert.Entry{}, err)
				return
			}
			parent, known := n.ids[e.Parent]
			if !known || e.Parent == 0 {
				parent = convert.Root
			}
			if e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap || e.Kind == kindWorker {
				n.ids[e.Seq] = parent
				continue
			}
			id := n.idOf(e)
			n.ids[e.Seq] = id
			if !yield(convert.Entry{Entry: e, ID: id, Parent: parent}, nil) {
				return
			}
		}
	}
}
