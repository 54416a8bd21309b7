package store

import (
	"context"
	"maps"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// tail is what an append needs to know about the end of a log.
type tail struct {
	log    tidemark.Key
	offset int64         // an entry's seq is its line's plus this
	newest tidemark.Line // with the entry's Seq; only Seq, Kind, Position and Sum are set

	// What noteJumps needs.
	appended int64  // the first entry that was appended since the tail was loaded
	noted    int64  // the newest entry when jumps were last noted
	jumps    []jump // of what was appended

	named   bool  // the record of a worker exists, with or without lines
	settled bool  // there is no draft of it, or it was looked at
	draft   int64 // the version of the draft that the next append replaces, 0: none
}

func newTail(log tidemark.Key, offset int64) *tail {
	return &tail{log: log, offset: offset, newest: tidemark.Line{Seq: offset}, appended: offset + 1, noted: offset}
}

// length is the number of lines in the log.
func (t *tail) length() int64 { return t.newest.Seq - t.offset }

// load reads the last line of the log.
func (t *tail) load(ctx context.Context, s *Store) error {
	t.newest = tidemark.Line{Seq: t.offset}
	for l, err := range s.backend.Lines(ctx, t.log, tidemark.Span{Newest: 1}) {
		if err != nil {
			return err
		}
		t.newest = tidemark.Line{Seq: l.Seq + t.offset, Kind: l.Kind, Position: l.Position, Sum: l.Sum}
	}
	t.appended, t.noted, t.jumps = t.newest.Seq+1, t.newest.Seq, nil
	return nil
}

// plan is what an append is going to write.
type plan struct {
	lines   []tidemark.Line
	newest  tidemark.Line // the end of the log afterwards
	jumps   []jump        // that they make
	secrets vault.Values  // the values that were masked in the lines
}

// plan returns the lines to append for entries. An entry without a time gets the
// time now.
func (w *Writer) plan(ctx context.Context, t *tail, entries []tidemark.Entry, now time.Time) (plan, error) {
	newest := t.newest
	var p plan
	planned := make([]tidemark.Line, 0, len(entries)) // with the entry's Seq
	for i := range entries {
		e := entries[i]
		if e.Kind == "" {
			e.Kind = tidemark.KindMessage
		}
		e.Seq = newest.Seq + 1
		if e.At.IsZero() {
			e.At = now
		}
		e.At = records.Keepable(e.At)
		e, secrets := w.s.vault.RedactEntry(string(w.id), e)
		if p.secrets == nil {
			p.secrets = secrets
		} else {
			maps.Copy(p.secrets, secrets)
		}
		parent, err := w.parentOf(ctx, t, &e, newest, planned)
		if err != nil {
			return p, err
		}
		e.Position = placeAfter(&e, &parent, &newest)
		l, err := e.Line()
		if err != nil {
			return p, tidemark.Invalidf("entry %d of %d: %w", i+1, len(entries), err)
		}
		if j, ok := jumpOf(&l, &parent); ok {
			p.jumps = append(p.jumps, j)
		}
		planned = append(planned, l)
		newest = tidemark.Line{Seq: l.Seq, Kind: l.Kind, Position: l.Position}
	}
	for i := range planned {
		planned[i].Seq -= t.offset
		planned[i].Sum = planned[i].Checksum(t.log)
	}
	if n := len(planned); n > 0 {
		newest.Sum = planned[n-1].Sum
	}
	p.lines, p.newest = planned, newest
	return p, nil
}

// parentOf returns the line that e follows; its Seq is 0 when e is a root.
func (w *Writer) parentOf(ctx context.Context, t *tail, e *tidemark.Entry, newest tidemark.Line, planned []tidemark.Line) (tidemark.Line, error) {
	switch p := e.Parent; {
	case p == Root:
		return tidemark.Line{}, nil
	case p == 0 || p == newest.Seq:
		return newest, nil
	case p < 0 || p > newest.Seq:
		return newest, tidemark.Invalidf("session %s: entry %d cannot follow entry %d: there is no such entry", w.id, e.Seq, p)
	case p > t.newest.Seq:
		return planned[p-t.newest.Seq-1], nil
	case p <= t.offset:
		return w.shared.onPath(ctx, p)
	default:
		return w.lineAt(ctx, t, p)
	}
}

// lineAt reads the line of an entry of a log.
func (w *Writer) lineAt(ctx context.Context, t *tail, seq int64) (tidemark.Line, error) {
	for l, err := range w.s.backend.Lines(ctx, t.log, tidemark.Span{From: seq - t.offset, To: seq - t.offset}) {
		l.Seq += t.offset
		return l, err
	}
	return tidemark.Line{}, tidemark.NotFoundf("session %s: entry %d: not found", w.id, seq)
}

// placeAfter returns the position of e when it follows parent and newest is the
// end of the log.
//
// A node is a run of entries without a gap. One begins with each message of the
// user, with the first message that is not the system's, and wherever an entry
// does not follow the newest one. So the number of a node is the count of nodes
// before it, and its first and last entry can be found by bisection.
func placeAfter(e *tidemark.Entry, parent, newest *tidemark.Line) tidemark.Position {
	p := tidemark.Position{Parent: parent.Seq, Depth: parent.Position.Depth, Nodes: newest.Position.Nodes, Turn: parent.Position.Turn}
	if e.Kind == tidemark.KindBranch {
		p.Turn = turnEnd(parent)
		return p
	}
	message := e.Kind == tidemark.KindMessage
	if message {
		p.Depth++
	}
	jumps := parent.Seq != newest.Seq || newest.Kind == tidemark.KindBranch
	if jumps || message && (e.Role == tidemark.User || p.Nodes == 0 && e.Role != tidemark.System) {
		p.Nodes++
		p.Turn = turnEnd(parent)
	}
	return p
}

// turnEnd returns the Turn of an entry that begins a node after parent: the seq of
// parent, or 0 when parent is in no node. For a branch marker it is that of the
// entry that the marker points at.
func turnEnd(parent *tidemark.Line) int64 {
	switch {
	case parent.Kind == tidemark.KindBranch:
		return parent.Position.Turn
	case parent.Position.Nodes == 0:
		return 0
	}
	return parent.Seq
}
