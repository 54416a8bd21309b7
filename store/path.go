package store

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// maxRun is the number of lines at which the requests of a walk stop growing: each
// is twice as large as the one before.
const maxRun = 1 << 16

// walk yields the lines of the path that ends at seq, or at the head when seq is
// 0, newest first, with the branch markers. hint is roughly how many lines the
// caller wants, 0: all.
func (v *View) walk(ctx context.Context, segments []segment, seq int64, hint int) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		// Each round reads one run: consecutive lines of one log, up to the first
		// that is not on the path.
		w := pathWalk{next: seq}
		for run := hint; ; {
			seg, from := segmentAt(segments, w.next), w.next
			if from == 0 {
				seg = &segments[len(segments)-1]
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

// pathWalk is the state of a walk from the end of a path to its beginning.
type pathWalk struct {
	next    int64         // the seq of the next line on the path, 0 before the head is known
	child   tidemark.Line // the last line that could be read
	damaged bool          // the line after child could not be read
}

// take sets next to the line that comes before l on the path. It reports false
// when l itself is not on the path: then next is the line to continue with.
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
		// The damaged entry has its parent elsewhere, so l is on another branch.
		// The end of the previous node is known to be on the path.
		w.damaged = false
		w.next = w.child.Position.Turn
		return false
	default:
		w.child, w.damaged, w.next = l, false, l.Position.Parent
	}
	return true
}

// follows reports whether l may be on the path to child when all lines between
// them are damaged. They must be no more messages apart than their seqs allow, and
// l must be in the same turn as child or be the end of the previous turn; where
// that end is damaged too, l may be before it.
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

// path is Path with the branch markers.
func (v *View) path(ctx context.Context, seq int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		segments, err := v.trail(ctx)
		if err != nil {
			yield(tidemark.Entry{}, err)
			return
		}
		runs, err := v.runs(ctx, segments, seq, 1)
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

// runs returns the path to seq as runs of consecutive seqs, oldest first, at least
// as far back as from. A seq of 0 means the head. Where the jumps of the path are known
// it costs a few lines, however long the session is.
func (v *View) runs(ctx context.Context, segments []segment, seq, from int64) ([]seqRun, error) {
	end, straight, err := v.straight(ctx, segments, seq)
	if err != nil {
		return nil, err
	}
	var runs []seqRun
	switch seq = end.Seq; {
	case straight:
		return []seqRun{{1, seq}}, nil
	case end.Kind != "" && seq-from > jumpsEach: // fewer are as quickly walked
		known, ok, err := v.jumped(ctx, segments, &end)
		if err != nil {
			return nil, err
		}
		if ok {
			for i := range known {
				if known[i].to >= from {
					runs = append(runs, known[i].seqRun)
				}
			}
			return runs, nil
		}
	}
	for l, err := range v.walk(ctx, segments, seq, 0) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		if n := len(runs); n > 0 && runs[n-1].from == l.Seq+1 {
			runs[n-1].from = l.Seq
		} else {
			runs = append(runs, seqRun{l.Seq, l.Seq})
		}
		if l.Seq <= from {
			break
		}
	}
	slices.Reverse(runs)
	return runs, nil
}

// straight returns the line of seq, of the head for 0; only its Seq where it cannot be read. ok is true
// if there are as many messages as entries up to there, so that all of them are on the path to it.
func (v *View) straight(ctx context.Context, segments []segment, seq int64) (l tidemark.Line, ok bool, err error) {
	if seq == 0 {
		l, err = v.head(ctx)
	} else {
		l, err = v.line(ctx, segments, seq)
	}
	if seq != 0 && (errors.Is(err, tidemark.ErrCorrupt) || errors.Is(err, tidemark.ErrNotFound)) {
		return tidemark.Line{Seq: seq}, false, nil // whoever reads on finds out
	}
	return l, err == nil && l.Kind != "" && l.Position.Depth == l.Seq, err
}
