package index

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Handed indexes lines that are handed to it by who appended them, so that nobody has
// to read them again. All of them have to be appended after Handed was made: what is
// taken out of the index later than that is noticed, and then nothing of what was
// handed counts. It is for one goroutine, and takes no lease: see Alone.
type Handed struct{ g *gathering }

// Handed begins with the index as it is now, and makes a segment whenever what was
// gathered takes so many bytes of memory.
func (ix *Index) Handed(ctx context.Context, bytes int) (*Handed, error) {
	v, err := ix.look(ctx)
	if err != nil {
		return nil, err
	}
	p := Pace{Bytes: bytes, Alone: true, Progress: func(int64) {}}
	h := &Handed{&gathering{ix: ix, v: v, p: p, total: new(int64), epoch: v.family.Epoch, handed: true}}
	h.g.begin()
	return h, nil
}

// Add adds lines of a log, in their order. ErrConflict: something was taken out of the
// index, or added past it, since Handed was made. What was added and is not indexed yet
// is lost then, with its notes: CatchUp finds it. Nothing may be added after an error.
func (h *Handed) Add(ctx context.Context, log tidemark.Key, words Words, lines []tidemark.Line) error {
	name := nameOf(log)
	for _, l := range lines {
		if err := h.g.add(ctx, log, name, l, words, true); err != nil {
			return err
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
	return h.Put(ctx)
}

// Put makes a segment of what was gathered: ErrConflict as of Add.
func (h *Handed) Put(ctx context.Context) error {
	if len(h.g.covered) == 0 && len(h.g.notes) == 0 {
		return nil
	}
	return h.g.put(ctx, time.Time{})
}

// Alone calls do while this process has the lease of the index, so that others wait:
// ErrHeld when somebody else has it.
func (ix *Index) Alone(ctx context.Context, do func() error) error {
	return ix.alone(ctx, ix.key, do)
}

// settleHanded is settle for lines that were handed over. Others may have indexed some
// of them, too, and deleted their notes: what is there twice counts once.
func (g *gathering) settleHanded(ctx context.Context, v *snapshot, w *writing, to change) (next *snapshot, err error) {
	for {
		if next, err = g.ix.trySettle(ctx, v, w, to); !conflict(err) {
			break
		}
		left, lookErr := g.ix.there(ctx, g.notes)
		if lookErr != nil || len(left) == len(g.notes) {
			err = errors.Join(err, lookErr)
			break
		}
		g.notes, v = left, next
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
