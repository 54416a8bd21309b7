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

	marked bool // it has a word of looking.Mark, while a search looks for these
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
	Mark    []tidemark.Term // spots with one of them are marked
	Before  *spot           // only lines behind it in the order of spots; nil: from the newest on
	Since   time.Time       // none that are older
}

// find asks the index for the lines that may hold hits of a rank: by the words of
// the question, the filters that the index has words for, and kinds of lines.
func (h *hunt) find(ctx context.Context, index *finder, r rank, kinds, not []string) iter.Seq2[spot, error] {
	var before *spot
	if h.from.rank == r && h.from.spot.Seq > 0 {
		before = &h.from.spot
	}
	return h.findBehind(ctx, index, r, kinds, not, nil, before)
}

// findBehind is find behind a spot; those of kinds to mark are marked.
func (h *hunt) findBehind(ctx context.Context, index *finder, r rank, kinds, not, mark []string, before *spot) iter.Seq2[spot, error] {
	l := looking{All: slices.Clone(h.q.All), None: filterTerms(filterRole, not...), Phrases: h.q.Phrases, Mark: filterTerms(filterRole, mark...), Before: before, Since: h.q.Since}
	for _, terms := range [][]tidemark.Term{filterTerms(filterRole, kinds...), filterTerms(filterAgent, h.q.Agent), filterTerms(filterProject, h.places...)} {
		if len(terms) > 0 {
			l.All = append(l.All, terms)
		}
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

// twoRanks is what was said and what is of rankOther, found by one search: to find out
// which lines have a phrase takes longest, and would be done for each rank.
type twoRanks struct {
	next func() (spot, error, bool)
	stop func()
	find func(r rank, before *spot) iter.Seq2[spot, error] // by a search of its own

	others []spot // that were met among what was said
	last   spot   // that was met
	over   bool
}

// mostOthers bounds the spots that are kept for later. Where so many come before what is
// looked for, it is looked for by itself.
const mostOthers = 4096

// inOneGo reports whether two ranks are worth to be found by one search.
func (h *hunt) inOneGo() bool {
	return len(h.q.Phrases) > 0 && (h.q.Role == "" || h.q.Role == RoleAny) && h.from.spot.Seq == 0
}

func (h *hunt) findTwo(ctx context.Context, index *finder) *twoRanks {
	t := &twoRanks{find: func(r rank, before *spot) iter.Seq2[spot, error] {
		in, notIn := h.q.kinds(r)
		return h.findBehind(ctx, index, r, in, notIn, nil, before)
	}}
	t.next, t.stop = iter.Pull2(h.findBehind(ctx, index, rankSaid, nil, contextKinds, saidKinds, nil))
	return t
}

// said yields what find(rankSaid) would.
func (t *twoRanks) said(yield func(spot, error) bool) {
	for len(t.others) < mostOthers {
		s, err, ok := t.next()
		if t.over = !ok; t.over {
			return
		}
		t.last = s
		s.marked = false
		if err == nil && !t.last.marked {
			t.others = append(t.others, s)
		} else if !yield(s, err) || err != nil {
			return
		}
	}
	for s, err := range t.find(rankSaid, &t.last) {
		if !yield(s, err) {
			return
		}
	}
}

// other yields behind said what find(rankOther) would.
func (t *twoRanks) other(yield func(spot, error) bool) {
	for _, s := range t.others {
		if !yield(s, nil) {
			return
		}
	}
	if t.over {
		return
	}
	for s, err := range t.find(rankOther, &t.last) {
		if !yield(s, err) {
			return
		}
	}
}
