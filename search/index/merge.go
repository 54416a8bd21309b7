package index

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// manyLines is from how many lines on a merge is worth to be done by one process
// only.
const manyLines = 20_000

// Merge makes one segment of several, if there are enough of about one size and
// they have at most so many lines together; 0: however many. It reports whether
// there was something to do. ErrHeld: somebody else makes the index, or merges much,
// at the moment.
func (ix *Index) Merge(ctx context.Context, most int) (bool, error) {
	v, err := ix.look(ctx)
	if err != nil {
		return false, err
	}
	var lines []int
	for _, s := range v.family.Segments {
		lines = append(lines, s.Lines)
	}
	of := segment.Plan(lines)
	total := 0
	for _, i := range of {
		total += lines[i]
	}
	if len(of) == 0 || most > 0 && total > most {
		return false, nil
	}
	merge := func() error { return ix.join(ctx, v, of) }
	if total < manyLines {
		if err = ix.busy(ctx); err == nil {
			err = merge()
		}
	} else {
		err = ix.alone(ctx, ix.merging(), merge)
	}
	switch {
	case conflict(err):
		return false, nil // somebody else did it, or took lines out meanwhile
	case errors.Is(err, tidemark.ErrCorrupt):
		if err = ix.heal(ctx, err); conflict(err) {
			err = nil
		}
	}
	return err == nil, err
}

// join puts one segment in the place of several, without what is left out of them.
func (ix *Index) join(ctx context.Context, v *snapshot, of []int) error {
	var old []kept
	var readers []*segment.Reader
	for _, i := range of {
		s := v.family.Segments[i]
		r, err := segment.Open(ctx, ix.fetch(s.ID, false), s.Blocks)
		if err != nil {
			return ix.blame(ctx, v, of, err)
		}
		old, readers = append(old, s), append(readers, r.Except(s.without()))
	}
	left, err := anyLeft(ctx, readers)
	if err != nil {
		return ix.blame(ctx, v, of, err)
	}
	var w *writing
	if left {
		w = v.newSegment(v.family.Epoch)
		if w.lines, err = segment.Merge(ctx, readers, w.emit(ctx)); err != nil {
			w.abandon(ctx)
			return ix.blame(ctx, v, of, err)
		}
	}
	_, err = ix.settle(ctx, v, w, func(now *snapshot) (family, []kept, []tidemark.Precondition, error) {
		next := now.family
		next.Segments = nil
		found := 0
		for _, s := range now.family.Segments {
			if slices.ContainsFunc(old, s.same) {
				found++
			} else {
				next.Segments = append(next.Segments, s)
			}
		}
		if found < len(old) {
			return next, nil, nil, errLost
		}
		return next, old, nil, nil
	})
	if conflict(err) {
		return ix.blame(ctx, v, of, errors.Join(err, ix.standing(ctx, old)))
	}
	return err
}

// standing returns ErrCorrupt when a segment does not have the record that the
// family says, so that it can neither be merged nor dropped.
func (ix *Index) standing(ctx context.Context, segments []kept) error {
	for _, s := range segments {
		r, err := ix.k.Get(ctx, segmentKey(s.ID), &about{})
		if err == nil && r.Version != s.Version {
			err = &tidemark.Damage{Key: r.Key, What: "it is not what the search index says"}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remains returns segments as they can be dropped, whatever the family says.
func (ix *Index) remains(ctx context.Context, segments ...kept) ([]kept, error) {
	var found []kept
	for _, s := range segments {
		r, err := ix.k.Get(ctx, segmentKey(s.ID), &about{})
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		found = append(found, kept{ID: s.ID, Version: r.Version})
	}
	return found, nil
}

// anyLeft reports whether segments cover anything.
func anyLeft(ctx context.Context, readers []*segment.Reader) (bool, error) {
	for _, r := range readers {
		for _, err := range r.Logs(ctx) {
			return err == nil, err
		}
	}
	return false, nil
}

// broken is a segment that cannot be read.
type broken struct {
	segment kept
	err     error
}

func (e *broken) Error() string { return e.err.Error() }
func (e *broken) Unwrap() error { return e.err }

// blame finds out which of some segments cannot be read. Where they are gone, all
// is well: another merged or rewrote them.
func (ix *Index) blame(ctx context.Context, v *snapshot, of []int, err error) error {
	if !errors.Is(err, tidemark.ErrCorrupt) {
		return err
	}
	if _, err = v.newer(ctx, err); err == nil {
		return errLost
	}
	for _, i := range of {
		s := v.family.Segments[i]
		if wrong := ix.verify(ctx, s); errors.Is(wrong, tidemark.ErrCorrupt) {
			return &broken{s, wrong}
		}
	}
	return err
}

// verify reads a whole segment.
func (ix *Index) verify(ctx context.Context, s kept) error {
	if err := ix.standing(ctx, []kept{s}); err != nil {
		return err
	}
	r, err := segment.Open(ctx, ix.fetch(s.ID, false), s.Blocks)
	if err == nil {
		err = r.Verify(ctx)
	}
	return err
}

// heal takes a segment that cannot be read out of the index, so that its lines are
// indexed anew, and returns ErrConflict then, because the caller has to begin again;
// the error itself, when it is about something else.
func (ix *Index) heal(ctx context.Context, err error) error {
	var wrong *broken
	if !errors.As(err, &wrong) {
		return err
	}
	v, err := ix.look(ctx)
	if err != nil {
		return err
	}
	_, err = ix.settle(ctx, v, nil, func(v *snapshot) (family, []kept, []tidemark.Precondition, error) {
		next := v.family
		next.Segments = nil
		for _, s := range v.family.Segments {
			if s.ID != wrong.segment.ID {
				next.Segments = append(next.Segments, s)
			}
		}
		if len(next.Segments) == len(v.family.Segments) {
			return next, nil, nil, errLost
		}
		next.Epoch, next.Until = next.Epoch+1, time.Time{}
		gone, err := ix.remains(ctx, wrong.segment)
		return next, gone, nil, err
	})
	if err != nil {
		return err
	}
	return errLost
}

// Verify reads the whole index, and returns what is wrong with each segment that
// cannot be read. It changes nothing; CatchUp makes what cannot be read again when it
// meets it, and Reset all of it. ErrCorrupt: the family cannot be read.
func (ix *Index) Verify(ctx context.Context) (wrong []error, err error) {
	v, err := ix.look(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range v.family.Segments {
		err := ix.verify(ctx, s)
		if errors.Is(err, tidemark.ErrCorrupt) {
			if _, gone := v.newer(ctx, err); gone == nil {
				return ix.Verify(ctx)
			}
			wrong = append(wrong, err)
		} else if err != nil {
			return wrong, err
		}
	}
	return wrong, nil
}

// Reset empties the index, whatever is wrong with it.
func (ix *Index) Reset(ctx context.Context) error {
	err := ix.empty(ctx)
	if err != nil {
		return err
	}
	return ix.sweep(ctx, 0)
}

func (ix *Index) empty(ctx context.Context) error {
	var f family
	r, err := ix.k.Get(ctx, ix.key, &f)
	if err == nil {
		err = f.check(ix.key)
	}
	switch {
	case errors.Is(err, tidemark.ErrCorrupt) && r.Version > 0:
		// Nobody knows its epoch: this one comes behind all that were.
		next, err := ix.put(family{Epoch: ix.k.Clock().UnixMicro()}, r.Version)
		if err != nil {
			return err
		}
		_, err = ix.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{next}})
		return err
	case err != nil:
		return err
	}
	v, err := ix.look(ctx)
	if err != nil {
		return err
	}
	_, err = ix.settle(ctx, v, nil, func(v *snapshot) (family, []kept, []tidemark.Precondition, error) {
		gone, err := ix.remains(ctx, v.family.Segments...)
		return family{Epoch: v.family.Epoch + 1}, gone, nil, err
	})
	return err
}

// orphanAge is how old a segment is that does not count before it is dropped: who
// makes it has given up, or died.
const orphanAge = time.Hour

// Sweep drops what killed processes have left.
func (ix *Index) Sweep(ctx context.Context) error { return ix.sweep(ctx, orphanAge) }

// DropUnfinished drops what there is of segments that do not count, whoever makes
// them or died making them: they may have words that were taken out of the index
// before. With Rewrite it makes sure that these are gone.
func (ix *Index) DropUnfinished(ctx context.Context) error { return ix.sweep(ctx, 0) }

// sweep drops segments that do not count. One that is being made is lost then, and
// made again: without its record it cannot be put into the family.
func (ix *Index) sweep(ctx context.Context, age time.Duration) error {
	v, err := ix.look(ctx)
	if err != nil {
		return err
	}
	for r, err := range ix.k.Backend().List(ctx, tidemark.Query{Kind: tidemark.KindSegment, Group: ix.o.Family, Order: tidemark.ByID}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if v, err = ix.dropOrphan(ctx, v, r, age); err != nil {
			return err
		}
	}
	return nil
}

// dropOrphan drops a segment if it does not count and is so old, and returns the
// family that this was decided by.
func (ix *Index) dropOrphan(ctx context.Context, v *snapshot, r tidemark.Record, age time.Duration) (*snapshot, error) {
	for try := range records.Tries {
		if v.family.has(r.ID) || ix.k.Clock().Sub(r.UpdatedAt) < age {
			return v, nil
		}
		var b tidemark.Batch
		taking(&b, kept{ID: r.ID, Version: r.Version})
		// A segment that counts since the family was read is not dropped.
		b.Require = append(b.Require, tidemark.Precondition{Key: ix.key, Version: v.version})
		_, err := ix.k.Commit(ctx, b)
		if !conflict(err) {
			return v, err
		}
		if v, err = ix.look(ctx); err != nil {
			return v, err
		}
		r, err = ix.k.Backend().Get(ctx, r.Key)
		if errors.Is(err, tidemark.ErrNotFound) {
			return v, nil
		}
		if err == nil {
			err = records.BackOff(ctx, try)
		}
		if err != nil {
			return v, err
		}
	}
	return v, errLost
}
