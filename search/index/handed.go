package index

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// Handed indexes lines that are handed to it by who appended them, so that nobody has
// to read them again. All of them have to be appended after Handed was made: what is
// taken out of the index later than that is noticed, and then nothing of what was
// handed counts. It is for one goroutine, and takes no lease: see Alone. While a segment
// is written, the words of the next one are gathered, so that two cores have work.
type Handed struct {
	g       *gathering
	writing chan error       // what comes of the segment that is being written; nil: there is none
	spare   *segment.Builder // of a segment that was written
}

// Handed begins with the index as it is now, and makes a segment whenever what was
// gathered takes so many bytes of memory: about twice as many are in use. The caller
// calls Close in the end.
func (ix *Index) Handed(ctx context.Context, bytes int) (*Handed, error) {
	v, err := ix.look(ctx)
	if err != nil {
		return nil, err
	}
	p := Pace{Bytes: bytes, Alone: true, Progress: func(int64) {}}
	return &Handed{g: &gathering{ix: ix, v: v, p: p, total: new(int64), epoch: v.family.Epoch, handed: true, gathered: begun(nil)}}, nil
}

// Add adds lines of a log, in their order. ErrConflict: something was taken out of the
// index, or added past it, since Handed was made. What was added and is not indexed yet
// is lost then, with its notes: CatchUp finds it. Nothing may be added after an error.
// The error may be that of a segment which earlier lines went into.
func (h *Handed) Add(ctx context.Context, log tidemark.Key, words Words, lines []tidemark.Line) error {
	name := nameOf(log)
	for _, l := range lines {
		if h.g.add(log, name, l, words, true) {
			if err := h.write(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Done says that all lines were added that notes are about. They are deleted in the
// commit after which the lines are indexed: ErrConflict as of Add.
func (h *Handed) Done(ctx context.Context, notes ...tidemark.Precondition) error {
	if h.g.notes = append(h.g.notes, notes...); len(h.g.notes) < maxNotes {
		return nil
	}
	return h.write(ctx)
}

// Put makes a segment of what was gathered, and waits until all is indexed:
// ErrConflict as of Add.
func (h *Handed) Put(ctx context.Context) error {
	if len(h.g.covered) > 0 || len(h.g.notes) > 0 {
		if err := h.write(ctx); err != nil {
			return err
		}
	}
	return h.Close()
}

// Close waits until nothing is being written any more, and returns what came of it. What
// was gathered since is left. On a nil Handed it does nothing.
func (h *Handed) Close() error {
	if h == nil || h.writing == nil {
		return nil
	}
	err := <-h.writing
	h.writing = nil
	return err
}

// write begins to make a segment of what was gathered, when the one before it is there:
// each of them is put into the family that the one before has left.
func (h *Handed) write(ctx context.Context) error {
	if err := h.Close(); err != nil {
		return err
	}
	full, written := h.g.gathered, make(chan error, 1)
	h.g.gathered, h.spare, h.writing = begun(h.spare), full.b, written
	go func() { written <- h.g.write(ctx, time.Time{}, &full) }()
	return nil
}

// Alone calls do while this process has the lease of the index, so that others wait:
// ErrHeld when somebody else has it.
func (ix *Index) Alone(ctx context.Context, do func() error) error {
	return ix.alone(ctx, ix.key, do)
}

// settleHanded is settle for lines that were handed over. Others may have indexed some
// of them, too, and deleted their notes: what is there twice counts once.
func (g *gathering) settleHanded(ctx context.Context, v *snapshot, w *writing, of *gathered) (next *snapshot, err error) {
	to := g.after(ctx, time.Time{}, of)
	for {
		if next, err = g.ix.trySettle(ctx, v, w, to); !conflict(err) {
			break
		}
		left, lookErr := g.ix.there(ctx, of.notes)
		if lookErr != nil || len(left) == len(of.notes) {
			err = errors.Join(err, lookErr)
			break
		}
		of.notes, v = left, next
	}
	if err != nil {
		w.abandon(ctx)
	}
	return next, err
}

// there returns the notes that nobody has deleted.
func (ix *Index) there(ctx context.Context, notes []tidemark.Precondition) (left []tidemark.Precondition, err error) {
	for _, note := range notes {
		r, err := ix.k.Backend().Get(ctx, note.Key)
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return nil, err
		}
		if err == nil && r.Version == note.Version {
			left = append(left, note)
		}
	}
	return left, nil
}
