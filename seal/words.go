package seal

import (
	"context"
	"encoding/base32"
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// The lengths of the prefixes that are indexed along with each word.
const (
	shortPrefix = 3
	longPrefix  = 5
)

// wordBytes is how much of a hash is in the index: enough that two words of a
// store hardly ever collide; where they do, the caller opens the line and sees.
const wordBytes = 5

var wordText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// hashed is what the index holds for one word: the word and its prefixes. Unused
// ones are empty.
type hashed [3]string

// What is hashed with a word, so that no prefix equals a word.
const (
	whole     = "word"
	beginning = "beginning"
)

func hashWord(key *secret, what, word string) string {
	sum := key.mac(what, word)
	return wordText.EncodeToString(sum[:wordBytes])
}

// prefix returns the first n letters of a word, "" when it is shorter.
func prefix(word string, n int) string {
	at := 0
	for range n {
		if at == len(word) {
			return ""
		}
		_, size := utf8.DecodeRuneInString(word[at:])
		at += size
	}
	return word[:at]
}

// isFilter reports whether a word is one of the store's own, which nobody
// searches for by prefix.
func isFilter(word string) bool { return word != "" && word[0] == 0 }

func (b *Backend) hashes(word string) hashed {
	if h, ok := b.words.get(word); ok {
		return h
	}
	key := &b.ring.Load().words
	h := hashed{hashWord(key, whole, word)}
	if !isFilter(word) {
		if p := prefix(word, shortPrefix); p != "" {
			h[1] = hashWord(key, beginning, p)
		}
		if p := prefix(word, longPrefix); p != "" {
			h[2] = hashWord(key, beginning, p)
		}
	}
	b.words.set(word, h)
	return h
}

// searcher returns the ability underneath: ErrUnsupported when there is none, or
// when the store may have no index.
func (b *Backend) searcher(ctx context.Context) (tidemark.Searcher, error) {
	s, err := tidemark.Ability[tidemark.Searcher](b.inner)
	if err != nil {
		return nil, err
	}
	may, err := b.MayIndex(ctx)
	if err == nil && !may {
		err = tidemark.Unsupportedf("the store keeps no index of words")
	}
	return s, err
}

// MayIndex reports whether the store may have a search index: see SetIndex.
func (b *Backend) MayIndex(ctx context.Context) (bool, error) {
	r, err := b.reload(ctx)
	if errors.Is(err, tidemark.ErrSealed) {
		r, err = b.ring.Load(), nil // a rotation changes neither this nor word hashes
	}
	if err != nil {
		return false, err
	}
	return !r.header.NoIndex, nil
}

// Search finds lines by hashed words. A prefix of three letters, or of five and
// more, finds all lines that have it and some that do not; a shorter one is
// ErrUnsupported. Excluded terms that hashes cannot decide exactly are left to
// the caller.
func (b *Backend) Search(ctx context.Context, a tidemark.IndexQuery) iter.Seq2[tidemark.Hit, error] {
	return func(yield func(tidemark.Hit, error) bool) {
		s, err := b.searcher(ctx)
		if err == nil {
			a, err = b.blind(a)
		}
		if err != nil {
			yield(tidemark.Hit{}, err)
			return
		}
		s.Search(ctx, a)(yield)
	}
}

// blind returns the query in the form that the index underneath understands.
func (b *Backend) blind(a tidemark.IndexQuery) (tidemark.IndexQuery, error) {
	out := tidemark.IndexQuery{Limit: a.Limit}
	for _, any := range a.All {
		terms := make([]tidemark.Term, 0, len(any))
		for _, t := range any {
			h, _, ok := b.term(t)
			if !ok {
				return out, tidemark.Unsupportedf("a word's beginning of fewer than %d letters cannot be looked up in a sealed index", shortPrefix)
			}
			terms = append(terms, tidemark.Term{Word: h})
		}
		out.All = append(out.All, terms)
	}
	for _, t := range a.None {
		if h, exact, ok := b.term(t); ok && exact {
			out.None = append(out.None, tidemark.Term{Word: h})
		}
	}
	return out, nil
}

// term returns the hash that stands for t, and whether it matches t and nothing
// more.
func (b *Backend) term(t tidemark.Term) (hash string, exact, ok bool) {
	h := b.hashes(t.Word)
	switch {
	case !t.Prefix:
		return h[0], true, true
	case h[2] != "":
		return h[2], prefix(t.Word, longPrefix) == t.Word, true
	case h[1] != "":
		return h[1], prefix(t.Word, shortPrefix) == t.Word, true
	}
	return "", false, false
}

// Unindexed yields the logs that have unindexed lines.
func (b *Backend) Unindexed(ctx context.Context, kinds ...string) iter.Seq2[tidemark.Lag, error] {
	return func(yield func(tidemark.Lag, error) bool) {
		s, err := b.searcher(ctx)
		if err != nil {
			yield(tidemark.Lag{}, err)
			return
		}
		s.Unindexed(ctx, kinds...)(yield)
	}
}

// Index adds lines by hashes of their words, in an order that reveals nothing.
func (b *Backend) Index(ctx context.Context, lines ...tidemark.Indexed) error {
	s, err := b.searcher(ctx)
	if err != nil {
		return err
	}
	out := make([]tidemark.Indexed, len(lines))
	var all sync.WaitGroup
	share := max(len(lines)/runtime.GOMAXPROCS(0)+1, minShare)
	for from := 0; from < len(lines); from += share {
		to := min(from+share, len(lines))
		all.Go(func() { b.hashLines(out[from:to], lines[from:to]) })
	}
	all.Wait()
	return s.Index(ctx, out...)
}

// minShare is how many lines are worth a goroutine.
const minShare = 100

// hashLines copies lines into out, with hashes in place of words.
func (b *Backend) hashLines(out, lines []tidemark.Indexed) {
	for i, l := range lines {
		words := make([]string, 0, 3*len(l.Words))
		for _, w := range l.Words {
			for _, h := range b.hashes(w) {
				if h != "" {
					words = append(words, h)
				}
			}
		}
		slices.Sort(words)
		l.Words = slices.Compact(words)
		out[i] = l
	}
}

// Unindex empties the index.
func (b *Backend) Unindex(ctx context.Context) error {
	s, err := b.searcher(ctx)
	if err != nil {
		return err
	}
	return s.Unindex(ctx)
}

// Hash names things by a key of the store: nobody without the key can guess
// names.
func (b *Backend) Hash(parts ...string) string {
	sum := b.ring.Load().names.mac(parts...)
	return hexOf(sum[:12])
}
