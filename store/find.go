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
// by their logs and numbers, as segments order them.
func (s spot) compare(o spot) int {
	return cmp.Or(s.At.Compare(o.At), cmp.Compare(s.Log.Kind, o.Log.Kind), cmp.Compare(s.Log.ID, o.Log.ID),
		cmp.Compare(s.Owner, o.Owner), cmp.Compare(s.Seq, o.Seq))
}

// looking is what an index is asked for.
type looking struct {
	All  [][]tidemark.Term // one term of each group, filter words included
	None []tidemark.Term
	// Phrases are words that stand together.
	Phrases [][]tidemark.Step
	Before  *spot     // only lines behind it in the order of spots; nil: from the newest on
	Since   time.Time // none that are older
}

// find asks the index for the lines that may hold hits of a rank: by the words of
// the question, the filters that the index has words for, and kinds of lines.
func (h *hunt) find(ctx context.Context, index *finder, r rank, kinds, not []string) iter.Seq2[spot, error] {
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
