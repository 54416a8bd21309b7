package segment

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Query says which lines are asked for: those with one of the terms of each
// group of All, with none of the terms of None, and with every phrase. All and
// Phrases may not both be empty. Words by which lines are filtered are terms like
// any other.
type Query struct {
	All     [][]tidemark.Term
	None    []tidemark.Term
	Phrases [][]tidemark.Step

	// Mark are terms of which each hit tells whether its line has one of them.
	Mark []tidemark.Term

	Before *Line // only lines before it, in the order of Line.Compare
	Since  int64 // only lines of that time, as in Line.At, or later; 0: all
}

// Hit is a line that was found. Unless it is Sure, only the line itself can tell whether
// it has the phrase: the places of some word are not kept, or so many words may end the
// phrase that to look at the line is quicker.
type Hit struct {
	Line
	Sure   bool
	Marked bool // it has a term of Query.Mark
}

// Together calls do with 0 to n-1 and returns when all calls have returned. They may
// run at the same time, so that what they fetch is fetched in one go.
type Together func(ctx context.Context, n int, do func(ctx context.Context, i int))

// Search yields the lines of several segments that match, newest first. A line
// that is in several of them is yielded once. To go on later, ask for what is
// before the last hit.
func Search(ctx context.Context, segments []*Reader, q Query) iter.Seq2[Hit, error] {
	return SearchTogether(ctx, segments, q, nil)
}

// SearchTogether is Search that asks more and more segments at once, the longer they
// have too few hits. Nil: one after the other.
func SearchTogether(ctx context.Context, segments []*Reader, q Query, together Together) iter.Seq2[Hit, error] {
	return func(yield func(Hit, error) bool) {
		all := streams{together: together, atOnce: 1}
		for _, r := range segments {
			all.open = append(all.open, &stream{r: r, q: &q})
		}
		var last *Hit
		for {
			best, err := all.newest(ctx)
			if err != nil {
				yield(Hit{}, err)
				return
			}
			if best == nil {
				return
			}
			hit := best.ready[0]
			best.ready = best.ready[1:]
			if last != nil && last.Line == hit.Line {
				continue
			}
			if last = &hit; !yield(hit, nil) {
				return
			}
		}
	}
}

// streams are those of the segments of one search.
type streams struct {
	open     []*stream
	together Together
	atOnce   int // how many are asked next, where they are asked together
}

// Each turn asks so many times as many segments as the one before: a frequent word is
// in the newest, a rare one has to be looked for in all.
const (
	moreAtOnce = 4
	mostAtOnce = 64
)

// newest returns the stream with the newest hit, nil when all are at their end. A
// segment is not asked before its newest line could be the answer, unless it is asked
// together with one of which that is so.
func (a *streams) newest(ctx context.Context) (best *stream, err error) {
	for {
		best = nil
		var unread []*stream
		for _, s := range a.open {
			switch {
			case len(s.ready) > 0:
				if best == nil || s.ready[0].Compare(best.ready[0].Line) > 0 {
					best = s
				}
			case !s.over:
				unread = append(unread, s)
			}
		}
		slices.SortStableFunc(unread, func(x, y *stream) int { return cmp.Compare(y.bound(), x.bound()) })
		if len(unread) == 0 || best != nil && best.ready[0].At > unread[0].bound() {
			return best, nil
		}
		if err := a.fill(ctx, unread); err != nil {
			return nil, err
		}
	}
}

// fill fills the first of some streams, and as many more as are to be asked at once.
func (a *streams) fill(ctx context.Context, unread []*stream) error {
	if a.together == nil {
		return unread[0].fill(ctx)
	}
	n := min(len(unread), a.atOnce)
	a.atOnce = min(moreAtOnce*a.atOnce, mostAtOnce)
	if n == 1 {
		return unread[0].fill(ctx)
	}
	errs := make([]error, n)
	a.together(ctx, n, func(ctx context.Context, i int) { errs[i] = unread[i].fill(ctx) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Count returns how many lines of a segment match, and how many of these are not
// sure. It stops at a limit, where that is not 0.
func (r *Reader) Count(ctx context.Context, q Query, limit int) (lines, unsure int, err error) {
	s := &stream{r: r, q: &q}
	if len(r.without) > 0 {
		return s.countLeft(ctx, limit)
	}
	if err := s.begin(ctx); err != nil {
		return 0, 0, err
	}
	for limit == 0 || lines < limit {
		c, ok, err := s.next(ctx)
		if err != nil || !ok {
			return lines, unsure, err
		}
		if lines++; !c.sure {
			unsure++
		}
	}
	return lines, unsure, nil
}

// countLeft counts lines where some are left out, which only their logs and seqs
// tell.
func (s *stream) countLeft(ctx context.Context, limit int) (lines, unsure int, err error) {
	for !s.over {
		if err := s.fill(ctx); err != nil {
			return lines, unsure, err
		}
		for _, h := range s.ready {
			if lines++; !h.Sure {
				unsure++
			}
			if lines == limit {
				return lines, unsure, nil
			}
		}
	}
	return lines, unsure, nil
}
