package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Searcher is a Backend that is a tidemark.Searcher, too: the model of those that
// find lines by words on their own. Over any other, package store keeps an index in
// the records and logs that they have.
type Searcher struct{ *Backend }

// NewSearcher returns an empty Searcher.
func NewSearcher() *Searcher { return &Searcher{New()} }

// Again returns a second handle on the same state.
func (b *Searcher) Again() *Searcher { return &Searcher{b.Backend.Again()} }

// Search looks through every indexed line: it defines what a search means, and
// is not fast.
func (b *Searcher) Search(ctx context.Context, ask tidemark.IndexQuery) iter.Seq2[tidemark.Hit, error] {
	return func(yield func(tidemark.Hit, error) bool) {
		if err := b.use(ctx); err != nil {
			yield(tidemark.Hit{}, err)
			return
		}
		var hits []tidemark.Hit
		b.kept.mu.Lock()
		for key, l := range b.kept.logs {
			for i, words := range l.words {
				if matches(ask, words) {
					hits = append(hits, tidemark.Hit{Log: key, Seq: int64(i + 1), At: l.lines[i].At})
				}
			}
		}
		b.kept.mu.Unlock()
		slices.SortFunc(hits, func(a, b tidemark.Hit) int {
			return cmp.Or(b.At.Compare(a.At), compareKeys(a.Log, b.Log), cmp.Compare(b.Seq, a.Seq))
		})
		for i, h := range hits {
			if ask.Limit > 0 && i == ask.Limit || !yield(h, nil) {
				return
			}
		}
	}
}

func matches(ask tidemark.IndexQuery, words []string) bool {
	has := func(t tidemark.Term) bool {
		return slices.ContainsFunc(words, func(w string) bool {
			return w == t.Word || t.Prefix && strings.HasPrefix(w, t.Word)
		})
	}
	for _, any := range ask.All {
		if !slices.ContainsFunc(any, has) {
			return false
		}
	}
	return len(ask.All) > 0 && !slices.ContainsFunc(ask.None, has)
}

// Unindexed yields the logs whose index is shorter than they are.
func (b *Searcher) Unindexed(ctx context.Context, kinds ...string) iter.Seq2[tidemark.Lag, error] {
	return func(yield func(tidemark.Lag, error) bool) {
		if err := b.use(ctx); err != nil {
			yield(tidemark.Lag{}, err)
			return
		}
		var lags []tidemark.Lag
		b.kept.mu.Lock()
		for key, l := range b.kept.logs {
			if done := int64(len(l.words)); done < l.head.Length && slices.Contains(kinds, key.Kind) {
				lags = append(lags, tidemark.Lag{Log: key, From: done + 1, To: l.head.Length})
			}
		}
		b.kept.mu.Unlock()
		slices.SortFunc(lags, func(a, b tidemark.Lag) int { return compareKeys(a.Log, b.Log) })
		for _, lag := range lags {
			if !yield(lag, nil) {
				return
			}
		}
	}
}

// Index adds words to lines, all of them or, on a conflict, none.
func (b *Searcher) Index(ctx context.Context, lines ...tidemark.Indexed) error {
	if err := b.use(ctx); err != nil {
		return err
	}
	b.kept.mu.Lock()
	defer b.kept.mu.Unlock()
	done := make(map[tidemark.Key]int64)
	for _, line := range lines {
		l := b.kept.logs[line.Log]
		if l == nil || line.Seq > l.head.Length {
			return tidemark.Conflictf("%s: has no line %d", line.Log, line.Seq)
		}
		if _, ok := done[line.Log]; !ok {
			done[line.Log] = int64(len(l.words))
		}
		if done[line.Log]++; line.Seq != done[line.Log] {
			return tidemark.Conflictf("%s: line %d is not the next to index", line.Log, line.Seq)
		}
	}
	for _, line := range lines {
		l := b.kept.logs[line.Log]
		l.words = append(l.words, slices.Clone(line.Words))
	}
	return nil
}

// Unindex removes all words.
func (b *Searcher) Unindex(ctx context.Context) error {
	if err := b.use(ctx); err != nil {
		return err
	}
	b.kept.mu.Lock()
	defer b.kept.mu.Unlock()
	for _, l := range b.kept.logs {
		l.words = nil
	}
	return nil
}
