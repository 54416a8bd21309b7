package store

import (
	"context"
	"errors"
	"iter"

	"github.com/tidemark-sessions/tidemark"
)

// Turn is the entries from one message of the user to the next.
type Turn struct {
	Number  int64 // of its node
	Entries []tidemark.Entry
}

// Turns yields the turns on the path to seq, oldest first; to the head when
// seq is 0. Entries before the first turn, and those that cannot be read, are
// left out.
func (v *View) Turns(ctx context.Context, seq int64) iter.Seq2[Turn, error] {
	return turnsOf(v.Path(ctx, seq))
}

// turnsOf puts the entries of a path together.
func turnsOf(path iter.Seq2[tidemark.Entry, error]) iter.Seq2[Turn, error] {
	return func(yield func(Turn, error) bool) {
		var t Turn
		for e, err := range path {
			if errors.Is(err, tidemark.ErrCorrupt) {
				continue
			}
			if err != nil {
				yield(Turn{}, err)
				return
			}
			if e.Nodes == 0 {
				continue
			}
			if len(t.Entries) > 0 && t.Number != e.Nodes-1 {
				if !yield(t, nil) {
					return
				}
				t = Turn{}
			}
			t.Number = e.Nodes - 1
			t.Entries = append(t.Entries, e)
		}
		if len(t.Entries) > 0 {
			yield(t, nil)
		}
	}
}

// TurnPage is a part of the turns on a path.
type TurnPage struct {
	Turns []Turn
	First int64 // how many turns are before them
	Total int64 // how many turns the path has
}

// TurnPage returns at most limit of the turns on the path to seq, behind the
// first offset; to the head when seq is 0. Where the jumps of the path are known, only what is
// returned is read and a few lines that find the place; elsewhere turns are counted from the beginning.
func (v *View) TurnPage(ctx context.Context, seq, offset int64, limit int) (TurnPage, error) {
	page := TurnPage{First: offset}
	segments, err := v.trail(ctx)
	if err != nil {
		return page, err
	}
	end, runs, err := v.turnRuns(ctx, segments, seq)
	if err != nil {
		return page, err
	}
	from, left := int64(1), offset
	for _, r := range runs {
		if n := r.nodes(); left >= 0 && left < n {
			from = r.from
			if r.first+left > 1 || r.from > 1 {
				from, err = v.turnStart(ctx, segments, &r, r.first+left)
			}
			left = -1
		} else if left >= 0 {
			left -= n
		}
		page.Total += r.nodes()
	}
	if end.Kind == "" || errors.Is(err, tidemark.ErrCorrupt) {
		page.Total = 0
		return v.countTurns(ctx, page, seq, limit)
	}
	if err != nil || offset >= page.Total {
		return page, err
	}
	for t, err := range turnsOf(v.PathRange(ctx, end.Seq, from, 0)) {
		if err != nil {
			return page, err
		}
		if page.Turns = append(page.Turns, t); len(page.Turns) == limit {
			break
		}
	}
	return page, nil
}

// turnRuns returns the path to seq, to the head for 0, as runs whose turns can be counted, and the line
// that it ends at. Where they are not known that line is empty.
func (v *View) turnRuns(ctx context.Context, segments []segment, seq int64) (tidemark.Line, []pathRun, error) {
	end, straight, err := v.straight(ctx, segments, seq)
	if err != nil || end.Kind == "" {
		return tidemark.Line{}, nil, err
	}
	if straight {
		return end, []pathRun{{seqRun{1, end.Seq}, 1, end.Position.Nodes}}, nil
	}
	runs, ok, err := v.jumped(ctx, segments, &end)
	if err != nil || !ok {
		return tidemark.Line{}, nil, err
	}
	return end, runs, nil
}

// countTurns is TurnPage for any path.
func (v *View) countTurns(ctx context.Context, page TurnPage, seq int64, limit int) (TurnPage, error) {
	for t, err := range v.Turns(ctx, seq) {
		if err != nil {
			return page, err
		}
		if page.Total >= page.First && len(page.Turns) < limit {
			page.Turns = append(page.Turns, t)
		}
		page.Total++
	}
	return page, nil
}

// How turnStart looks: so often where the entry would be if the count grew evenly, at so many entries
// on each side of it. Then it halves what is left.
const (
	turnGuesses = 3
	turnWindow  = 16
)

// turnStart returns the first entry of a run whose count of nodes is number. The count never decreases along a
// run, and in most sessions it grows evenly.
func (v *View) turnStart(ctx context.Context, segments []segment, r *pathRun, number int64) (int64, error) {
	low, high := r.from, r.to // the entry is one of these
	least, most := r.first, r.last
	for tries := 0; low < high; tries++ {
		from := low + (high-low)/2
		to := from
		if tries < turnGuesses && most > least {
			guess := low + int64(float64(high-low)*(float64(number-least)/float64(most-least)))
			from, to = max(guess-turnWindow, low), min(guess+turnWindow, high)
		}
		looked, found, err := from, false, tidemark.NotFoundf("session %s: entry %d: not found", v.ID, from)
		v.linesOf(ctx, segments, from, to, func(_ *segment, l *tidemark.Line, lineErr error) bool {
			if err = lineErr; err != nil {
				return false
			}
			if looked, found = l.Seq, l.Position.Nodes >= number; found {
				high, most = l.Seq, l.Position.Nodes
			} else {
				low, least = l.Seq+1, l.Position.Nodes
			}
			return !found
		})
		if err != nil || found && looked > from {
			return looked, err
		}
	}
	return low, nil
}

// TurnCount is how many turns are on the path to the head.
func (v *View) TurnCount(ctx context.Context) (int64, error) {
	if v.depth == v.Entries {
		return v.Nodes, nil
	}
	segments, err := v.trail(ctx)
	if err != nil {
		return 0, err
	}
	end, runs, err := v.turnRuns(ctx, segments, 0)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	if end.Kind != "" {
		for i := range runs {
			n += runs[i].nodes()
		}
		return n, nil
	}
	for _, err := range v.Turns(ctx, 0) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// At returns the seq that a point of the session means: n3, 12 or a label,
// followed by ~2 for two turns up. For "" it returns 0, the head.
func (v *View) At(ctx context.Context, point string) (int64, error) {
	if point == "" {
		return 0, nil
	}
	_, point, up := splitRef("-@" + point)
	seq, err := v.seqOf(ctx, point)
	if err == nil && up > 0 {
		seq, err = v.upFrom(ctx, seq, up)
	}
	return seq, err
}

// PathRange yields the entries from one seq to another, both included, on the path
// to at. An at of 0 means the head, a to of 0 the end of the path.
func (v *View) PathRange(ctx context.Context, at, from, to int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		segments, err := v.trail(ctx)
		if err != nil {
			yield(tidemark.Entry{}, err)
			return
		}
		v.pathRange(ctx, segments, at, from, to, func(e tidemark.Entry, err error) bool {
			return err == nil && structural(e) || yield(e, err)
		})
	}
}

// pathRange is PathRange with the branch markers. It reports whether to go on.
func (v *View) pathRange(ctx context.Context, segments []segment, at, from, to int64, yield func(tidemark.Entry, error) bool) bool {
	runs, err := v.runs(ctx, segments, at, from)
	if err != nil {
		yield(tidemark.Entry{}, err)
		return false
	}
	for _, r := range runs {
		if to != 0 {
			r.to = min(r.to, to)
		}
		for e, err := range v.entries(ctx, segments, max(r.from, from), r.to) {
			if !yield(e, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return false
			}
		}
	}
	return true
}

// LogRange yields the part of Log from one seq to another, both included; a to of
// 0 means the end.
func (v *View) LogRange(ctx context.Context, from, to int64) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		segments, err := v.trail(ctx)
		if err != nil {
			yield(tidemark.Entry{}, err)
			return
		}
		shared, end := v.sharedUpTo(), to
		if end == 0 {
			end = 1 << 62
		}
		if from <= shared && !v.pathRange(ctx, segments, shared, from, to, yield) {
			return
		}
		v.entries(ctx, segments, max(from, shared+1), end)(yield)
	}
}
