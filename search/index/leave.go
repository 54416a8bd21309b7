package index

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// Leave returns a record that, when it is put, hides lines from then on, and keeps
// whoever is indexing them from putting them. The caller puts it in the batch that
// removes the lines themselves, again with a new one if that conflicts, and calls
// Rewrite and DropUnfinished then. A To of 0 stands for the end of the log.
func (ix *Index) Leave(ctx context.Context, lines ...Lines) (tidemark.Record, error) {
	return ix.leave(ctx, false, lines)
}

// Renew is Leave for lines that say something else from then on: they are indexed
// again.
func (ix *Index) Renew(ctx context.Context, lines ...Lines) (tidemark.Record, error) {
	return ix.leave(ctx, true, lines)
}

// maxAgain bounds the logs that a family names to be looked at again. Beyond it,
// all are.
const maxAgain = 200

func (ix *Index) leave(ctx context.Context, again bool, lines []Lines) (tidemark.Record, error) {
	v, err := ix.look(ctx)
	if errors.Is(err, tidemark.ErrCorrupt) {
		// An index that is damaged keeps nobody from purging.
		if err = ix.Reset(ctx); err == nil {
			v, err = ix.look(ctx)
		}
	}
	if err != nil {
		return tidemark.Record{}, err
	}
	next := v.family
	next.Epoch++
	next.Segments = slices.Clone(next.Segments)
	for i := range next.Segments {
		for _, l := range lines {
			if err := v.leftOut(ctx, i, &next.Segments[i], l); err != nil {
				return tidemark.Record{}, err
			}
		}
	}
	if again {
		next.Again = slices.Clone(next.Again)
		for _, l := range lines {
			if name := nameOf(l.Log); !slices.Contains(next.Again, name) {
				next.Again = append(next.Again, name)
			}
		}
		if len(next.Again) > maxAgain {
			next.Again, next.Until = nil, time.Time{}
		}
	}
	return ix.put(next, v.version)
}

// leftOut leaves lines out of a segment, if it has any of them or cannot be read.
func (v *snapshot) leftOut(ctx context.Context, i int, s *kept, l Lines) error {
	gone := segment.Span{From: l.From, To: l.To}
	if gone.To == 0 {
		gone.To = toEnd
	}
	name := nameOf(l.Log)
	spans, err := v.spans(ctx, i, name)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return err
	}
	if err == nil && !slices.ContainsFunc(spans, func(s segment.Span) bool { return s.From <= gone.To && gone.From <= s.To }) {
		return nil
	}
	s.Without = append(slices.Clone(s.Without), left{name, gone.From, gone.To})
	return nil
}

// Rewrite makes each segment anew of which lines are left out, and drops the old
// one with its key: no segment that counts has the words of these lines when it
// returns nil.
func (ix *Index) Rewrite(ctx context.Context) error {
	for try := 0; ; {
		v, err := ix.look(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(v.family.Segments, func(s kept) bool { return len(s.Without) > 0 })
		if i < 0 {
			return nil
		}
		err = ix.join(ctx, v, []int{i})
		if errors.Is(err, tidemark.ErrCorrupt) {
			err = ix.heal(ctx, err)
		}
		if err != nil {
			// Each conflict is a change that another made.
			if try++; !conflict(err) || try == records.Tries || records.BackOff(ctx, try) != nil {
				return err
			}
		}
	}
}
