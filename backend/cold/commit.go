package cold

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// tries bounds how often something is repeated because another program was quicker.
const tries = 100

// Commit commits a batch. A log that it appends to, and whose older lines may have
// keys that the append repeats, gets them back first. Of a log that it drops, the
// segments are deleted before Commit returns; what a place does not delete now is
// remembered, see Left, and deleted by Sweep.
//
// In addition to the contract: ErrInvalid for a key of this package's own kind,
// ErrStorage when a place does not answer from which lines have to come back.
func (b *Backend) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if err := own(&batch); err != nil {
		return tidemark.Receipt{}, err
	}
	for try := 1; ; try++ {
		out, dropped, err := b.forgetting(ctx, batch)
		if err != nil {
			return tidemark.Receipt{}, err
		}
		receipt, err := b.inner.Commit(ctx, out)
		var t *tidemark.TrimmedError
		switch {
		case err == nil:
			b.deleteDropped(ctx, dropped)
			return receipt, nil
		case errors.As(err, &t) && try < tries:
			if err := b.bringBack(ctx, t.Log, false); err != nil {
				return tidemark.Receipt{}, err
			}
		case errors.Is(err, tidemark.ErrConflict) && try < tries && b.changed(ctx, dropped):
		default:
			return receipt, err
		}
	}
}

// forgetting returns a batch that also lets go of the segments of the logs that it
// drops, and what it knew of them.
func (b *Backend) forgetting(ctx context.Context, batch tidemark.Batch) (out tidemark.Batch, dropped []whereabouts, err error) {
	out = batch
	for _, log := range batch.Drops {
		if !movable(log) {
			continue
		}
		c, err := b.find(ctx, log)
		if errors.Is(err, tidemark.ErrCorrupt) { // what it named elsewhere is found by a sweep
			here, err := b.hereLogs(ctx, log)
			if err != nil {
				return out, nil, err
			}
			out.Drops = append(slices.Clip(out.Drops), here...)
			continue
		}
		if err != nil {
			return out, nil, err
		}
		if c.version == 0 {
			continue
		}
		dropped = append(dropped, c)
		out.Drops = append(slices.Clip(out.Drops), c.letGo(c.Segments)...)
		c.Segments = nil
		if batch.Adopt { // which replaces nothing
			out.Deletes = append(slices.Clip(out.Deletes), tidemark.Precondition{Key: keyOf(log), Version: c.version})
			continue
		}
		if err := c.change(&out); err != nil {
			return out, nil, err
		}
	}
	return out, dropped, nil
}

// letGo moves segments to what is to be deleted, and returns the logs of those that are
// here, which go with the commit.
func (c *whereabouts) letGo(segments []Segment) (drops []tidemark.Key) {
	for _, s := range segments {
		if s.isHere() {
			drops = append(drops, hereKey(c.log, s.Name))
			continue
		}
		c.Gone = append(slices.Clip(c.Gone), s.Object)
	}
	return drops
}

// changed reports whether one of the records was changed meanwhile.
func (b *Backend) changed(ctx context.Context, were []whereabouts) bool {
	for _, c := range were {
		if now, err := b.find(ctx, c.log); err == nil && now.version != c.version {
			return true
		}
	}
	return false
}

// deleteDropped deletes the objects of logs that were dropped. It goes on when the
// caller has gone: what was dropped has to go.
func (b *Backend) deleteDropped(ctx context.Context, dropped []whereabouts) {
	for _, c := range dropped {
		for _, s := range c.Segments {
			b.places.forget(s.SHA256)
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), deletingFor)
		b.deleteGone(ctx, c.log) // what fails stays in the record
		stop()
	}
}

// deletingFor is how long a commit that drops a log waits for a place.
const deletingFor = time.Minute

// deleteGone deletes the objects that a record names as gone, and then the names.
func (b *Backend) deleteGone(ctx context.Context, log tidemark.Key) error {
	for range tries {
		c, err := b.find(ctx, log)
		if err != nil || len(c.Gone) == 0 {
			return err
		}
		batch := newBatch()
		for _, o := range c.Gone {
			if o.isHere() { // so says an older program, which knows no such segments
				batch.Drops = append(batch.Drops, hereKey(log, o.Name))
				continue
			}
			place, err := b.places.place(ctx, o.Place)
			if err == nil {
				if err = place.Delete(ctx, o.Name); err != nil {
					err = unreachable(o.Place, err)
				}
			}
			if err != nil {
				return err
			}
		}
		c.Gone = nil
		if err := c.change(&batch); err != nil {
			return err
		}
		batch.Frees = true
		if _, err := b.inner.Commit(ctx, batch); !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
	}
	return tidemark.Conflictf("%s: is changed by others all the time", log)
}

func newBatch() tidemark.Batch {
	return tidemark.Batch{ID: tidemark.NewBatchID(), At: records.Keepable(time.Now())}
}

// BringBack puts all lines of a log back into the store, and deletes their segments.
func (b *Backend) BringBack(ctx context.Context, log tidemark.Key) error {
	return b.bringBack(ctx, log, true)
}

// bringBack puts lines back, segment by segment from the newest on: all of them, or
// as many as an append needs.
func (b *Backend) bringBack(ctx context.Context, log tidemark.Key, all bool) error {
	for conflicts := 0; conflicts < tries; {
		r, err := b.inner.Get(ctx, log)
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
		if r.Head.Trimmed == 0 || !all && !r.Head.HidesKeys() {
			return b.left(b.deleteGone(ctx, log))
		}
		switch err := b.bringSegment(ctx, log, r.Head.Trimmed); {
		case errors.Is(err, tidemark.ErrConflict):
			conflicts++
		case err != nil:
			return err
		}
	}
	return tidemark.Conflictf("%s: is changed by others all the time", log)
}

// left passes over a place that does not delete now: the record remembers it.
func (b *Backend) left(err error) error {
	if errors.Is(err, tidemark.ErrStorage) {
		return nil
	}
	return err
}

// bringSegment puts the newest segment back, whose last line is upto.
func (b *Backend) bringSegment(ctx context.Context, log tidemark.Key, upto int64) error {
	c, err := b.find(ctx, log)
	if err != nil {
		return err
	}
	n := len(c.Segments) - 1
	if n < 0 || c.Segments[n].Last != upto {
		return b.unlessMoved(ctx, log, upto, &tidemark.Damage{Key: log, Seq: upto, Place: keyOf(log).String(), What: "nothing says where it was moved to"})
	}
	s := c.Segments[n]
	lines, err := b.segment(ctx, log, s)
	var gone *goneError
	if errors.As(err, &gone) {
		return b.unlessMoved(ctx, log, upto, &tidemark.Damage{Key: log, Seq: s.First, Place: b.where(log, s), What: gone.what})
	}
	if err != nil {
		return err
	}
	c.Segments = slices.Clone(c.Segments[:n])
	batch := newBatch()
	batch.Drops = c.letGo([]Segment{s})
	// It stays when it says nothing any more: whoever reads compares it, and in files one
	// that is being deleted looks damaged.
	put, err := c.put()
	if err != nil {
		return err
	}
	batch.Puts = []tidemark.Record{put}
	batch.Fills = []tidemark.Append{{Log: log, Lines: lines}}
	_, err = b.inner.Commit(ctx, batch)
	return err
}

// unlessMoved returns damage, or a conflict when it is none because somebody else
// brought the lines back.
func (b *Backend) unlessMoved(ctx context.Context, log tidemark.Key, upto int64, damage error) error {
	r, err := b.inner.Get(ctx, log)
	if err == nil && r.Head.Trimmed == upto {
		return damage
	}
	return tidemark.Conflictf("%s: was changed meanwhile", log)
}
