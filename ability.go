package tidemark

import (
	"context"
	"iter"
	"time"
)

// Ability returns what only some Backends can do, as one of the interfaces
// below: Searcher, Hasher, Sealer, Checker, Mender, Compactor, Sharer.
// ErrUnsupported: this one cannot. A Backend that wraps another has the methods
// whether or not the one underneath does, and they return ErrUnsupported where
// it does not; a caller treats both alike.
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

// Searcher is the ability to find lines by words. The index is made from
// lines that are kept already, by whoever can read them: an append never pays
// for it, a sealed store has one, and it can be made anew at any time.
type Searcher interface {
	// Search yields the indexed lines that a asks for, newest first; lines of
	// about the same minute may come in any order. It knows nothing of
	// language: words match when they are equal, or begin as asked.
	Search(ctx context.Context, q IndexQuery) iter.Seq2[Hit, error]

	// Unindexed yields the logs of these kinds that have lines which are not
	// indexed, without looking at the others.
	Unindexed(ctx context.Context, kinds ...string) iter.Seq2[Lag, error]

	// Index adds lines to the index. The lines of a log go on where its index
	// ends, without a gap; ErrConflict when they do not, because somebody else
	// was quicker, and nothing was added. What was added may be lost in a power
	// cut, and is unindexed again then.
	Index(ctx context.Context, lines ...Indexed) error

	// Unindex empties the index: every log is unindexed again.
	Unindex(ctx context.Context) error
}

// Hasher is the ability to name things without telling what they are called.
// Sealed stores hash with a key of their own.
type Hasher interface {
	// Hash returns a name of at most 32 letters and digits, equal for equal
	// parts.
	Hash(parts ...string) string
}

// Sealer is the ability to encrypt what is kept. Over a Backend that does not
// have it, package store writes in the clear, and marks the store as plain
// with its first change.
type Sealer interface {
	// Sealed reports whether bodies are encrypted on their way down.
	Sealed() bool
}

// IsSealed reports whether a Backend encrypts what it is given.
func IsSealed(b Backend) bool {
	sealer, err := Ability[Sealer](b)
	return err == nil && sealer.Sealed()
}

// Checker is the ability to look for damage that reading single keys does not
// meet: leftovers, indexes, pages.
type Checker interface {
	// Check yields what it finds and changes nothing. An error that is not a
	// *Damage ends it.
	Check(ctx context.Context) iter.Seq[error]
}

// Mender is the ability to repair what Check finds.
type Mender interface {
	// Mend repairs what can be repaired without losing anything that can still
	// be read, and yields what it did, for people to read. It sets aside what
	// it cannot keep in place, and never deletes it.
	Mend(ctx context.Context) iter.Seq2[string, error]
}

// Compactor is the ability to give back space that nothing needs any more.
type Compactor interface {
	// Compact returns how many bytes it gave back. It loses nothing and may be
	// interrupted.
	Compact(ctx context.Context) (int64, error)
}

// IndexQuery is a question to a Searcher: lines that carry one of the terms in each
// of All, and none of None.
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
	Words []string  // none: the line is passed over and counts as indexed
}

// Hit is one line that a Searcher found.
type Hit struct {
	Log   Key
	Seq   int64
	At    time.Time
	Owner string // whose the log is, where that is not the principal
}
