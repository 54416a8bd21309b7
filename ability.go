package tidemark

import (
	"context"
	"iter"
	"time"
)

// Ability returns the part of b that implements T, one of the optional
// interfaces below: Searcher, Hasher, Sealer, Checker, Mender, Compactor or
// Sharer. It returns ErrUnsupported when b does not implement it. A Backend that
// wraps another has these methods whether or not the one underneath does, and
// they return ErrUnsupported where it does not; callers treat both cases alike.
func Ability[T any](b Backend) (T, error) {
	able, ok := b.(T)
	if ok {
		return able, nil
	}
	what := "cannot do that"
	switch any((*T)(nil)).(type) {
	case *Searcher:
		what = "cannot search"
	case *Checker:
		what = "cannot look for damage of its own"
	case *Mender:
		what = "cannot be repaired"
	case *Compactor:
		what = "cannot be compacted"
	case *Sharer:
		what = "has one user: nobody else could read what is shared"
	}
	return able, Unsupportedf("this store %s", what)
}

// Searcher is the ability to find lines by words. The index is built from lines
// that are already stored, by a caller that can read them: an append never pays
// for it, a sealed store has one, and it can be rebuilt at any time.
type Searcher interface {
	// Search yields the indexed lines that match q, newest first; lines of the same
	// instant may come in any order. It knows nothing about language: words match
	// when they are equal, or when they begin with a term that is a prefix.
	Search(ctx context.Context, q IndexQuery) iter.Seq2[Hit, error]

	// Unindexed yields the logs of these kinds that have unindexed lines,
	// without looking at the others.
	Unindexed(ctx context.Context, kinds ...string) iter.Seq2[Lag, error]

	// Index adds lines to the index. The lines of a log continue where its index
	// ends, without a gap; otherwise somebody else was quicker, nothing is added
	// and the error is ErrConflict. A power cut may lose what was added, which
	// then counts as unindexed again.
	Index(ctx context.Context, lines ...Indexed) error

	// Unindex empties the index: every log is unindexed again.
	Unindex(ctx context.Context) error
}

// Hasher is the ability to derive names that do not reveal what they stand for.
// Sealed stores hash with a key of their own.
type Hasher interface {
	// Hash returns a name of at most 32 letters and digits, equal for equal
	// parts.
	Hash(parts ...string) string
}

// Sealer is the ability to encrypt what is stored. Over a Backend without it,
// package store writes in the clear, and marks the store as plain with its first
// change.
type Sealer interface {
	// Sealed reports whether bodies are encrypted on their way down.
	Sealed() bool
}

// IsSealed reports whether a Backend encrypts what it is given.
func IsSealed(b Backend) bool {
	sealer, err := Ability[Sealer](b)
	return err == nil && sealer.Sealed()
}

// Checker is the ability to look for damage that reading single keys would miss:
// leftover files, indexes, pages.
type Checker interface {
	// Check yields what damage it finds, and changes nothing. An error that is
	// not a *Damage ends it.
	Check(ctx context.Context) iter.Seq[error]
}

// Mender is the ability to repair what Check finds.
type Mender interface {
	// Mend repairs what can be repaired without losing anything that is still
	// readable, and yields descriptions of what it did, for people. It sets
	// aside what it cannot keep in place, and never deletes it.
	Mend(ctx context.Context) iter.Seq2[string, error]
}

// Compactor is the ability to free unused space.
type Compactor interface {
	// Compact returns how many bytes it freed. It loses no data and may be
	// interrupted.
	Compact(ctx context.Context) (int64, error)
}

// IndexQuery is a query for a Searcher: it matches lines that carry at least one
// term of each group in All, and no term of None.
type IndexQuery struct {
	All   [][]Term // at least one
	None  []Term
	Limit int // 0: no limit
}

// Term is a word, or the beginning of one.
type Term struct {
	Word   string
	Prefix bool
}

// Step is a word of a phrase, with its place behind that of the first word.
type Step struct {
	Term  Term
	Place int
}

// Lag is a run of lines of one log that are not indexed: From to To, both
// included.
type Lag struct {
	Log      Key
	From, To int64
}

// Indexed is a line as a Searcher gets it.
type Indexed struct {
	Log   Key
	Seq   int64
	At    time.Time // of the line
	Words []string  // none: the line is skipped and counts as indexed
}

// Hit is one line that a Searcher found.
type Hit struct {
	Log   Key
	Seq   int64
	At    time.Time
	Owner string // the log's owner, when that is not the principal
}
