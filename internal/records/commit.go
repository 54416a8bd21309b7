package records

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Tries bounds how often a change is tried that loses the race against another.
// Each failed try means that another writer succeeded.
const Tries = 100

// Also adds to a batch that is about to be committed, such as a line of the audit
// log. It returns a function that is called with the result of the commit. If it
// returns an error, the batch is not committed.
type Also func(context.Context, *tidemark.Batch) (ended func(error), err error)

// With returns a Kernel like k that passes each of its batches to an Also first.
func (k *Kernel) With(also Also) *Kernel {
	more := *k
	more.also = also
	return &more
}

// Passing returns a Backend like the one that the Kernel works on, which passes each
// of its batches to the Kernel's Also first: for whoever copies past the rules.
func (k *Kernel) Passing() tidemark.Backend {
	if k.also == nil {
		return k.backend
	}
	return passing{k.backend, k.also}
}

type passing struct {
	tidemark.Backend
	also Also
}

func (p passing) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	return p.also.Commit(ctx, p.Backend, b)
}

// Commit commits a batch to a Backend, together with what a adds to it.
func (a Also) Commit(ctx context.Context, to tidemark.Backend, b tidemark.Batch) (tidemark.Receipt, error) {
	if a == nil {
		return to.Commit(ctx, b)
	}
	return a.commit(ctx, to, b)
}

// commit is apart, since a batch that is passed on by its address is one more of them on
// the heap.
func (a Also) commit(ctx context.Context, to tidemark.Backend, b tidemark.Batch) (tidemark.Receipt, error) {
	b.Appends = slices.Clip(b.Appends)
	ended, err := a(ctx, &b)
	if err != nil {
		return tidemark.Receipt{}, err
	}
	receipt, err := to.Commit(ctx, b)
	ended(err)
	return receipt, err
}

// Commit commits a batch. The first batch of a new plain store also writes the
// mark that it is plain. When the outcome is unknown, Commit finds it out: whatever
// a batch writes carries the id of the batch, so one read is enough.
func (k *Kernel) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if b.ID == "" {
		b.ID = tidemark.NewBatchID()
	}
	if b.At.IsZero() {
		b.At = k.Now()
	}
	b.Puts = slices.Clip(b.Puts)
	if k.o.Before != nil {
		b = k.before(b)
	}
	if !k.settled.Load() {
		return k.commitFirst(ctx, b)
	}
	return k.send(ctx, b)
}

// before is apart for the same reason as Also.commit.
func (k *Kernel) before(b tidemark.Batch) tidemark.Batch {
	k.o.Before(&b)
	return b
}

// send commits a batch, and reads what became of it when the outcome is unknown.
func (k *Kernel) send(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	for try := range Tries {
		receipt, err := k.also.Commit(ctx, k.backend, b)
		if err == nil && len(b.Appends) > 0 {
			k.o.Grown(b)
		}
		if !errors.Is(err, tidemark.ErrUnknown) {
			return receipt, err
		}
		done, lookErr := k.Took(ctx, b)
		if lookErr != nil {
			return receipt, errors.Join(err, lookErr)
		}
		if done {
			return tidemark.Receipt{}, nil
		}
		if BackOff(ctx, try) != nil {
			break
		}
	}
	return tidemark.Receipt{}, tidemark.ErrUnknown
}

// Took reports whether a batch took effect, by looking for its id. For a batch that
// only drops logs it reports false, since that can safely be committed again.
func (k *Kernel) Took(ctx context.Context, b tidemark.Batch) (bool, error) {
	switch {
	case len(b.Appends) > 0:
		first := b.Appends[0].Lines[0].Seq
		for l, err := range k.backend.Lines(ctx, b.Appends[0].Log, tidemark.Span{From: first, To: first}) {
			if err != nil || l.Batch == b.ID {
				return err == nil, err
			}
		}
		return false, nil
	case len(b.Puts) > 0:
		r, err := k.backend.Get(ctx, b.Puts[0].Key)
		if errors.Is(err, tidemark.ErrNotFound) {
			return false, nil
		}
		return r.Batch == b.ID, err
	case len(b.Deletes) > 0:
		r, err := k.backend.Get(ctx, b.Deletes[0].Key)
		if errors.Is(err, tidemark.ErrNotFound) || err == nil && r.Version == 0 {
			return true, nil
		}
		return false, err
	}
	return false, nil
}

// Retry calls change until it returns something other than ErrConflict, at most
// Tries times. It returns a conflict that is marked as Final at once, without the
// mark.
func Retry(ctx context.Context, change func() error) error {
	var err error
	for try := range Tries {
		if err = change(); !errors.Is(err, tidemark.ErrConflict) || BackOff(ctx, try) != nil {
			break
		}
	}
	if conflict, ok := IsFinal(err); ok {
		return conflict
	}
	return err
}

// final wraps a conflict and hides it from errors.Is.
type final struct{ error }

func (e *final) Is(error) bool { return false }

// Final marks a conflict for Retry as one that would only occur again: what was to
// be changed has ended, or is no longer at the version that the caller wants.
func Final(conflict error) error { return &final{conflict} }

// IsFinal returns the conflict that was marked as Final.
func IsFinal(err error) (conflict error, ok bool) {
	var marked *final
	if errors.As(err, &marked) {
		return marked.error, true
	}
	return nil, false
}

// After a lost race, each wait before the next try is longer than the one before:
// the first about as long as a commit takes, and the longest still too short for a
// person to notice.
const (
	firstWait = time.Millisecond
	longWait  = 128 * time.Millisecond
)

// BackOff waits before another try, for a random time, so that those who conflicted
// do not conflict again. It returns the error of ctx when that ends first.
func BackOff(ctx context.Context, try int) error { return BackOffUpTo(ctx, try, longWait) }

// BackOffUpTo is BackOff with a longer limit, for callers that try for hours.
func BackOffUpTo(ctx context.Context, try int, most time.Duration) error {
	t := time.NewTimer(rand.N(min(firstWait<<min(try, 16), most)) + 1)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
