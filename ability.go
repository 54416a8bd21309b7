package tidemark

import (
	"context"
	"iter"
	"slices"
)

// Ability returns the part of b that implements T, one of the optional
// interfaces below: Hasher, Sealer, Checker, Mender, Compactor, Gatherer or
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
	case *Checker:
		what = "cannot look for damage of its own"
	case *Mender:
		what = "cannot be repaired"
	case *Compactor:
		what = "cannot be compacted"
	case *Gatherer:
		what = "reads one log at a time"
	case *Sharer:
		what = "has one user: nobody else could read what is shared"
	}
	return able, Unsupportedf("this store %s", what)
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

// Mend repairs b as its Mender does: ErrUnsupported when it has none.
func Mend(ctx context.Context, b Backend) iter.Seq2[string, error] {
	mender, err := Ability[Mender](b)
	if err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return mender.Mend(ctx)
}

// Compactor is the ability to free unused space.
type Compactor interface {
	// Compact returns how many bytes it freed. It loses no data and may be
	// interrupted.
	Compact(ctx context.Context) (int64, error)
}

// Compact frees space of b as its Compactor does: ErrUnsupported when it has none.
func Compact(ctx context.Context, b Backend) (int64, error) {
	compactor, err := Ability[Compactor](b)
	if err != nil {
		return 0, err
	}
	return compactor.Compact(ctx)
}

// Gatherer is the ability to read lines of several logs in one round trip, for those
// who know which.
type Gatherer interface {
	// LinesOf returns, for each of the logs that are asked for, those of the lines that
	// could be read, in the order of their Seqs. It may leave out any: Lines tells whether
	// one is missing or damaged. The Seqs of a log ascend. Asked for nothing, it does nothing, and
	// returns ErrUnsupported where it would otherwise.
	LinesOf(ctx context.Context, asked []LogLines) ([][]Line, error)
}

// LogLines are some lines of a log.
type LogLines struct {
	Log  Key
	Seqs []int64
}

// Gathers returns the Gatherer of b, false where there is none, or what is underneath
// cannot be read so.
func Gathers(ctx context.Context, b Backend) (Gatherer, bool) {
	gatherer, err := Ability[Gatherer](b)
	if err == nil {
		_, err = gatherer.LinesOf(ctx, nil)
	}
	return gatherer, err == nil
}

// LinesOf reads lines as the Gatherer of b does, none of the logs whose kinds are hidden.
func LinesOf(ctx context.Context, b Backend, asked []LogLines, hidden func(kind string) bool) ([][]Line, error) {
	gatherer, err := Ability[Gatherer](b)
	if err != nil {
		return nil, err
	}
	asked = slices.Clone(asked)
	for i := range asked {
		if hidden(asked[i].Log.Kind) {
			asked[i].Seqs = nil
		}
	}
	return gatherer.LinesOf(ctx, asked)
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
