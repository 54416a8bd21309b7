package store

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// finder is what one search asks: the index of what is one's own, and those of what is
// shared with the principal.
type finder struct {
	s      *Store
	me     string // the principal, in the indexes of scopes
	own    *index.View
	shared []*index.View
	told   []tidemark.Record // notes of what these may not have

	toldShared []tidemark.Record // those for scopes, until all are here
}

// finder returns the index of the store, nil where there is none.
func (s *Store) finder(ctx context.Context) (*finder, error) {
	if s.index == nil {
		return nil, nil
	}
	if err := s.mayIndex(ctx); err != nil {
		return nil, err
	}
	f := &finder{s: s}
	err := inParts(s.isFar(ctx), func() (err error) {
		if err := f.hear(ctx, s, false); err != nil {
			return err
		}
		f.own, err = s.index.Look(ctx)
		return err
	}, func() error { return f.lookAtScopes(ctx) })
	f.told = append(f.told, f.toldShared...)
	return f, err
}

// isFar reports whether each call takes a round trip that others can be made beside.
func (s *Store) isFar(ctx context.Context) bool {
	_, is := tidemark.Gathers(ctx, s.backend)
	return is
}

// inParts does both parts, the second at the same time where beside is set, and only
// after a first that succeeded where it is not.
func inParts(beside bool, first, second func() error) error {
	if !beside {
		if err := first(); err != nil {
			return err
		}
		return second()
	}
	done := make(chan error)
	go func() { done <- second() }()
	err := first()
	if secondErr := <-done; err == nil {
		err = secondErr
	}
	return err
}

// readsBeside is how many reads are under way at once where each takes a round trip.
const readsBeside = 8

// beside is how many reads are worth to be under way at once. Two processors that read
// one SQLite file were no quicker than one.
func (h *hunt) beside(ctx context.Context) int {
	if h.s.isFar(ctx) {
		return readsBeside
	}
	return 1
}

// sideBySide calls do with 0 to n-1, so many at once, and returns the first error, after
// which no more are begun.
func sideBySide(n, atOnce int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	work := func() {
		for failed.Load() == nil {
			i := int(next.Add(1) - 1)
			if i >= n {
				return
			}
			if err := do(i); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		}
	}
	var wait sync.WaitGroup
	for range min(n, atOnce) - 1 {
		wait.Go(work)
	}
	work()
	wait.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// hear reads the notes of an index that is looked at next.
func (f *finder) hear(ctx context.Context, of *Store, shared bool) error {
	for r, err := range of.unindexed(ctx, shared) {
		if err != nil {
			return err
		}
		if shared {
			f.toldShared = append(f.toldShared, r)
		} else {
			f.told = append(f.told, r)
		}
	}
	return nil
}

// lag is a run of lines that are not indexed, both ends included.
type lag struct {
	owner    string
	log      tidemark.Key
	from, to int64
}

// behind yields the lines that find does not know of; the search reads them. It is
// called before find, which may know more by then, never less.
func (f *finder) behind(ctx context.Context) iter.Seq2[lag, error] {
	src := source{s: f.s, others: f.me != "", told: f.told, noted: true}
	return func(yield func(lag, error) bool) {
		for l, err := range index.Behind(ctx, src, append([]*index.View{f.own}, f.shared...)...) {
			owner, log := index.CutOwner(l.Log)
			if !yield(lag{owner, log, l.From, l.To}, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

// find yields the spots of all indexed lines that may match, the newest first,
// exactly in the order of spots, each once.
func (f *finder) find(ctx context.Context, l looking) iter.Seq2[spot, error] {
	q := index.Query{None: segmentTerms(l.None), Phrases: l.Phrases, Mark: segmentTerms(l.Mark)}
	for _, group := range l.All {
		q.All = append(q.All, segmentTerms(group))
	}
	if b := l.Before; b != nil {
		at := index.LineOf(index.WithOwner(b.Log, b.Owner), tidemark.Line{Seq: b.Seq, At: b.At})
		q.Before = &at
	}
	if !l.Since.IsZero() {
		q.Since = l.Since.UnixMicro()
	}
	// An entry with more words than are indexed may have any.
	rest := q
	rest.All, rest.None, rest.Phrases = nil, nil, nil
	for _, group := range append(slices.Clone(q.All), []tidemark.Term{{Word: filterWord(filterOverflow, "")}}) {
		if isFilterWord(group[0].Word) {
			rest.All = append(rest.All, group)
		}
	}
	for _, term := range q.None {
		if isFilterWord(term.Word) {
			rest.None = append(rest.None, term)
		}
	}
	found := merge(f.lines(ctx, f.own, q), f.lines(ctx, f.own, rest))
	for _, view := range f.shared {
		found = merge(found, merge(f.lines(ctx, view, q), f.lines(ctx, view, rest)))
	}
	return found
}

func (f *finder) lines(ctx context.Context, view *index.View, q index.Query) iter.Seq2[spot, error] {
	return func(yield func(spot, error) bool) {
		for hit, err := range view.Search(ctx, q) {
			owner, log := index.CutOwner(index.LogOf(hit.Log))
			if err == nil && owner != "" && owner == f.me {
				continue // it is found in one's own index
			}
			if !yield(spot{At: time.UnixMicro(hit.At).UTC(), Log: log, Seq: hit.Seq, Owner: owner, marked: hit.Marked}, err) || err != nil {
				return
			}
		}
	}
}
