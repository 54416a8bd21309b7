package records

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Tries bounds how often a change is made anew because somebody else was
// quicker. Each failed try means that another writer succeeded.
const Tries = 100

// Also adds to a batch that is about to be committed what has to be kept with
// it, and returns what wants to know how that ended. An error keeps the batch
// from being committed.
type Also func(context.Context, *tidemark.Batch) (ended func(error), err error)

// With returns the same Kernel, whose batches are added to.
func (k *Kernel) With(also Also) *Kernel {
	more := *k
	more.also = also
	return &more
}

// Commit commits a batch and what is added to it.
func (a Also) Commit(ctx context.Context, to tidemark.Backend, b tidemark.Batch) (tidemark.Receipt, error) {
	if a == nil {
		return to.Commit(ctx, b)
	}
	b.Appends = slices.Clip(b.Appends)
	ended, err := a(ctx, &b)
	if err != nil {
		return tidemark.Receipt{}, err
	}
	receipt, err := to.Commit(ctx, b)
	ended(err)
	return receipt, err
}

// Commit carries out a batch, the first one of a plain store with its mark. An
// unknown outcome is settled: the id of the batch stands with everything it
// wrote, so one look tells.
func (k *Kernel) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if b.ID == "" {
		b.ID = tidemark.NewBatchID()
	}
	if b.At.IsZero() {
		b.At = k.Now()
	}
	if !k.settled.Load() {
		return k.commitFirst(ctx, b)
	}
	return k.send(ctx, b)
}

// send commits a batch, and looks what became of it where that is not known.
func (k *Kernel) send(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	for try := range Tries {
		receipt, err := k.also.Commit(ctx, k.backend, b)
		if err == nil && len(b.Appends) > 0 {
			k.o.Grown()
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

// Took reports whether a batch took effect, by looking for its id. A batch of
// drops alone never seems to have: it can be sent again.
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

// Retry runs change until it does not lose a race. A conflict that is Final it
// returns as it was before.
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

// final is a conflict that is not one under errors.Is.
type final struct{ error }

func (e *final) Is(error) bool { return false }

// Final marks a conflict that trying again does not help: what was to be changed
// has ended, or is not as it was.
func Final(conflict error) error { return &final{conflict} }

// IsFinal returns the conflict that was marked as Final.
func IsFinal(err error) (conflict error, ok bool) {
	var marked *final
	if errors.As(err, &marked) {
		return marked.error, true
	}
	return nil, false
}

// Whoever lost a race waits before the next try, longer each time: at first for
// about as long as a commit takes, and never so long that a person notices one
// wait.
const (
	firstWait = time.Millisecond
	longWait  = 128 * time.Millisecond
)

// BackOff waits before another try, by chance for a shorter or a longer time, so
// that those who met do not meet again. It returns the error of ctx when that
// ends first.
func BackOff(ctx context.Context, try int) error { return BackOffUpTo(ctx, try, longWait) }

// BackOffUpTo is BackOff for whoever tries for hours, and waits longer in the
// end.
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
