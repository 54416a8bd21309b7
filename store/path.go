package store

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// maxRun is how many lines are asked for at once when a path has many branches.
const maxRun = 1 << 16

// walk yields the lines of the path that ends at seq, at the head when it is 0,
// newest first, markers and all. hint is about how many the caller wants, 0:
// all.
func (v *View) walk(ctx context.Context, segments []segment, seq int64, hint int) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		// A run is read at a time: lines that follow each other in a log, as far
		// as they are on the path.
		w := pathWalk{next: seq}
		for run := hint; ; {
			seg, from := at(segments, w.next), w.next
			if from == 0 {
				seg = segments[len(segments)-1]
			}
			for l, err := range v.backwards(ctx, seg, from, run) {
				if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
					yield(l, err)
					return
				}
				if !w.take(l, err) {
					break
				}
				if !yield(l, err) {
					return
				}
				if w.next <= seg.offset {
					break
				}
			}
			if w.next == from && from > 0 {
				missing := &tidemark.Damage{Key: seg.log, Seq: from - seg.offset, What: "the line is missing"}
				if !yield(tidemark.Line{Seq: from}, missing) {
					return
				}
				w.next--
			}
			if w.next <= 0 {
				return
			}
			if run < maxRun {
				run *= 2
			}
		}
	}
}

// pathWalk is where a walk from the end of a path to its beginning stands.
type pathWalk struct {
	next    int64         // the line that is on the path, 0 before the head is known
	child   tidemark.Line // the last one that could be read
	damaged bool          // the one after child could not be
}

// take goes on to the line before l, and reports false when l is not on the path:
// then next says where the path goes on.
func (w *pathWalk) take(l tidemark.Line, err error) bool {
	if w.next == 0 {
		w.next = l.Seq
	}
	switch {
	case err != nil:
		w.damaged = true
		w.next--
	case l.Seq != w.next:
		return false
	case w.damaged && !follows(l, w.child):
		// The damaged entry came from another branch. The end of the node before
		// is known to be on the path.
		w.damaged = false
		w.next = w.child.Position.Turn
		return false
	default:
		w.child, w.damaged, w.next = l, false, l.Position.Parent
	}
	return true
}

// follows reports whether the path may go on from child to l when everything
// between them is damaged: as many messages apart as there is room for, and in
// the same turn or at the end of the one before, unless that end is damaged
// itself.
func follows(l, child tidemark.Line) bool {
	if child.Seq == 0 {
		return true
	}
	apart := child.Position.Depth - l.Position.Depth
	if apart < 0 || apart > child.Seq-l.Seq {
		return false
	}
	return child.Position.Turn >= l.Seq || child.Position.Turn == l.Position.Turn
}

// Path yields the entries on the path to seq, oldest first; to the head when
// seq is 0. Branch markers are left out.
func (v *View) Path(ctx context.Context, seq int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		for e, err := range v.path(ctx, seq) {
			if err == nil && structural(e) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// path is Path with the markers.
func (v *View) path(ctx context.Context, seq int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		segments, err := v.trail(ctx)
		if err != nil {
			yield(tidemark.Entry{}, err)
			return
		}
		runs, err := v.runs(ctx, segments, seq)
		if err != nil {
			yield(tidemark.Entry{}, err)
			return
		}
		for _, r := range runs {
			for e, err := range v.entries(ctx, segments, r.from, r.to) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

type seqRun struct{ from, to int64 }

// runs returns the path to seq as runs of entries without a gap, oldest first.
// A seq of 0 means the head.
func (v *View) runs(ctx context.Context, segments []segment, seq int64) ([]seqRun, error) {
	if seq == 0 {
		l, err := v.head(ctx)
		if err != nil {
			return nil, err
		}
		seq = l.Seq
		if l.Seq > 0 && l.Position.Depth == l.Seq {
			return []seqRun{{1, l.Seq}}, nil // as many messages as entries: nothing lies beside the path
		}
	}
	var runs []seqRun
	for l, err := range v.walk(ctx, segments, seq, 0) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		if n := len(runs); n > 0 && runs[n-1].from == l.Seq+1 {
			runs[n-1].from = l.Seq
		} else {
			runs = append(runs, seqRun{l.Seq, l.Seq})
		}
	}
	slices.Reverse(runs)
	return runs, nil
}
