package store

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// This file is the place where a search asks the index.

// spot is where a line stands in the order of all lines. A cursor is one, so the
// order is total and never changes while a line is kept.
type spot struct {
	At    time.Time
	Log   tidemark.Key
	Seq   int64
	Owner string // of the log, when that is not the principal
}

// compare is positive when s is the newer one. Lines of one instant are ordered
// by their logs and numbers.
func (s spot) compare(o spot) int {
	return cmp.Or(s.At.Compare(o.At), cmp.Compare(s.Log.Kind, o.Log.Kind), cmp.Compare(s.Log.ID, o.Log.ID),
		cmp.Compare(s.Seq, o.Seq), cmp.Compare(s.Owner, o.Owner))
}

// looking is what an index is asked for.
type looking struct {
	All  [][]tidemark.Term // one term of each group, filter words included
	None []tidemark.Term
	// Phrases are words that stand together, for an index that knows places.
	Phrases [][]tidemark.Step
	Before  *spot     // only lines behind it in the order of spots; nil: from the newest on
	Since   time.Time // none that are older
}

// finder is what a search asks of an index. Each search has one of its own.
type finder interface {
	// behind yields the lines that find does not know of; the search reads them.
	// It is called before find, which may know more by then, never less.
	behind(ctx context.Context) iter.Seq2[tidemark.Lag, error]
	// find yields the spots of all indexed lines that may match, the newest first,
	// exactly in the order of spots, each once. ErrUnsupported: this cannot be
	// looked up, so everything has to be read.
	find(ctx context.Context, l looking) iter.Seq2[spot, error]
}

// finder returns the index of the store, nil where there is none.
func (s *Store) finder(ctx context.Context) (finder, error) {
	if s.index != nil {
		if err := s.mayIndex(ctx); err != nil {
			return nil, err
		}
		view, err := s.index.Look(ctx)
		return segmentFinder{s, view}, err
	}
	if index := s.searcher(); index != nil {
		return searcherFinder{index}, nil
	}
	return nil, nil
}

// searcherFinder asks a tidemark.Searcher, which orders lines by their times
// alone, and always begins with the newest.
type searcherFinder struct{ index tidemark.Searcher }

func (f searcherFinder) behind(ctx context.Context) iter.Seq2[tidemark.Lag, error] {
	return f.index.Unindexed(ctx, searched...)
}

func (f searcherFinder) find(ctx context.Context, l looking) iter.Seq2[spot, error] {
	return func(yield func(spot, error) bool) {
		var same []spot // of one instant
		flush := func() bool {
			slices.SortFunc(same, func(a, b spot) int { return b.compare(a) })
			for _, s := range slices.Compact(same) {
				if (l.Before == nil || s.compare(*l.Before) < 0) && !yield(s, nil) {
					return false
				}
			}
			same = same[:0]
			return true
		}
		for hit, err := range f.index.Search(ctx, tidemark.IndexQuery{All: l.All, None: l.None}) {
			if err != nil {
				yield(spot{}, err)
				return
			}
			switch {
			case hit.At.Before(l.Since):
				flush()
				return
			case l.Before != nil && hit.At.After(l.Before.At):
				continue
			case len(same) > 0 && !same[0].At.Equal(hit.At) && !flush():
				return
			}
			same = append(same, spot{hit.At.UTC(), hit.Log, hit.Seq, hit.Owner})
		}
		flush()
	}
}

// find asks the index for the lines that may hold hits of a rank: by the words of
// the question, the filters that the index has words for, and kinds of lines.
func (h *hunt) find(ctx context.Context, index finder, r rank, kinds, not []string) iter.Seq2[spot, error] {
	l := looking{All: slices.Clone(h.q.All), None: filterTerms(filterRole, not...), Phrases: h.q.Phrases, Since: h.q.Since}
	for _, terms := range [][]tidemark.Term{filterTerms(filterRole, kinds...), filterTerms(filterAgent, h.q.Agent), filterTerms(filterProject, h.places...)} {
		if len(terms) > 0 {
			l.All = append(l.All, terms)
		}
	}
	if h.from.rank == r && h.from.spot.Seq > 0 {
		l.Before = &h.from.spot
	}
	if r == rankTitle || len(h.q.None) == 0 {
		return index.find(ctx, l)
	}
	// The first line of a session also has the words of its title: one that may not
	// be in the entry may be in the title, and these lines have to be looked at.
	first := l
	first.All = append(slices.Clone(l.All), filterTerms(filterRole, noteTitle))
	l.None = append(l.None, h.q.None...)
	return merge(index.find(ctx, l), index.find(ctx, first))
}

// filterTerms returns the words by which lines are filtered, one for each value.
func filterTerms(class string, values ...string) (terms []tidemark.Term) {
	for _, value := range values {
		if value != "" {
			terms = append(terms, tidemark.Term{Word: filterWord(class, value)})
		}
	}
	return terms
}

// merge yields the spots of both, the newest first and each once.
func merge(a, b iter.Seq2[spot, error]) iter.Seq2[spot, error] {
	return func(yield func(spot, error) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		other, err, more := next()
		for s, failed := range a {
			if failed != nil {
				yield(s, failed)
				return
			}
			for more && (err != nil || other.compare(s) >= 0) {
				if (err != nil || other != s) && !yield(other, err) || err != nil {
					return
				}
				other, err, more = next()
			}
			if !yield(s, nil) {
				return
			}
		}
		for more && yield(other, err) && err == nil {
			other, err, more = next()
		}
	}
}
