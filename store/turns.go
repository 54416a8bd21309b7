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
// first offset; to the head when seq is 0. A session of messages without branches
// is not read for that, but for a few lines that find the place; in any other one
// turns are counted from the beginning.
func (v *View) TurnPage(ctx context.Context, seq, offset int64, limit int) (TurnPage, error) {
	page := TurnPage{First: offset}
	segments, err := v.trail(ctx)
	if err != nil {
		return page, err
	}
	end, err := v.straight(ctx, segments, seq)
	if err != nil {
		return page, err
	}
	from, total := int64(1), end.Position.Nodes
	if end.Kind != "" && offset > 0 && offset < total {
		from, err = v.turnStart(ctx, segments, end.Seq, offset)
	}
	if end.Kind == "" || errors.Is(err, tidemark.ErrCorrupt) {
		return v.countTurns(ctx, page, seq, limit)
	}
	if page.Total = total; err != nil || offset >= total {
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

// turnStart returns the first entry of a turn, where all entries up to end are on
// one path: the count of nodes never decreases along it.
func (v *View) turnStart(ctx context.Context, segments []segment, end, number int64) (int64, error) {
	low, high := int64(1), end
	for low < high {
		mid := low + (high-low)/2
		l, err := v.line(ctx, segments, mid)
		if err != nil {
			return 0, err
		}
		if l.Position.Nodes > number {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low, nil
}

// TurnCount is how many turns are on the path to the head. A session of messages
// without branches needs no reading for that.
func (v *View) TurnCount(ctx context.Context) (int64, error) {
	if v.depth == v.Entries {
		return v.Nodes, nil
	}
	n := int64(0)
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
