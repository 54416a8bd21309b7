package index

import (
	"context"
	"errors"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// batchBytes bounds what is committed at once: others wait for a commit.
const batchBytes = 256 << 10

// The states of the record of a segment. One that is whole has none: a state is an
// entry in two indexes of a database. Earlier versions called it "made".
const (
	making = "making" // its blocks are not all there
	made   = ""
)

// about is the body of the record of a segment, for people and for counting. The
// family says the same of the segments that count.
type about struct {
	Blocks int64 `json:"blocks"`
	Lines  int   `json:"lines"`
}

// writing is a segment that is being written. Its record is there from its first
// batch on, so that what a killed process leaves can be found and dropped, and in
// a sealed store the key with it.
type writing struct {
	ix      *Index
	of      *snapshot // the family that it is made for
	epoch   int64     // of the family when the first of it was read
	id      string
	version int64 // of its record, 0: nothing is committed yet
	waiting []tidemark.Line
	bytes   int
	blocks  int64
	lines   int
}

func (v *snapshot) newSegment(epoch int64) *writing {
	return &writing{ix: v.ix, of: v, epoch: epoch, id: string(tidemark.NewSessionID())}
}

// emit takes the blocks.
func (w *writing) emit(ctx context.Context) segment.Emit {
	key, at := segmentKey(w.id), w.ix.k.Clock()
	return func(block []byte) error {
		if len(w.waiting) > 0 && w.bytes+len(block) > w.ix.batch {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
		w.blocks++
		l := tidemark.Line{Seq: w.blocks, Kind: "block", At: at, Body: block}
		l.Sum = l.Checksum(key)
		w.waiting, w.bytes = append(w.waiting, l), w.bytes+len(block)
		return nil
	}
}

// flush commits the blocks that wait. The first of them are refused when something
// was taken out of the index since they were read: whoever did that drops what is
// there of unfinished segments (see DropUnfinished), and nothing may come after it.
func (w *writing) flush(ctx context.Context) error {
	b := tidemark.Batch{Appends: []tidemark.Append{{Log: segmentKey(w.id), Lines: w.waiting}}}
	if w.version > 0 {
		b.Require = []tidemark.Precondition{{Key: segmentKey(w.id), Version: w.version}}
		if _, err := w.ix.k.Commit(ctx, b); err != nil {
			return err
		}
		w.waiting, w.bytes = nil, 0
		return nil
	}
	r, err := w.record(making)
	if err != nil {
		return err
	}
	b.Puts = []tidemark.Record{r}
	for try := range records.Tries {
		if w.of.family.Epoch != w.epoch {
			return errLost
		}
		b.Require = []tidemark.Precondition{{Key: w.ix.key, Version: w.of.version}}
		if _, err = w.ix.k.Commit(ctx, b); err == nil {
			w.version, w.waiting, w.bytes = 1, nil, 0
			return nil
		}
		if !conflict(err) || records.BackOff(ctx, try) != nil {
			return err
		}
		if w.of, err = w.ix.look(ctx); err != nil {
			return err
		}
	}
	return errLost
}

func (w *writing) record(state string) (tidemark.Record, error) {
	r, err := records.Put(segmentKey(w.id), w.version, about{Blocks: w.blocks, Lines: w.lines})
	r.Group, r.State = w.ix.o.Family, state
	return r, err
}

// last returns the batch that completes the segment, and how a family names it.
func (w *writing) last() (tidemark.Batch, kept, error) {
	r, err := w.record(made)
	b := tidemark.Batch{Appends: []tidemark.Append{{Log: segmentKey(w.id), Lines: w.waiting}}, Puts: []tidemark.Record{r}}
	return b, kept{ID: w.id, Version: r.Version, Blocks: w.blocks, Lines: w.lines}, err
}

// abandon drops what was committed of a segment that will not count. Where that
// fails, Sweep finds it.
func (w *writing) abandon(ctx context.Context) {
	if w == nil || w.version == 0 {
		return
	}
	var b tidemark.Batch
	taking(&b, kept{ID: w.id, Version: w.version})
	_, _ = w.ix.k.Commit(context.WithoutCancel(ctx), b)
}

// change says what a family becomes: which segments it has, and which of those it
// had are gone. ErrConflict: nothing of it can be done any more.
type change func(v *snapshot) (next family, gone []kept, done []tidemark.Precondition, err error)

// errLost says that what was made does not fit the family that is there now.
var errLost = tidemark.Conflictf("the search index was changed meanwhile")

// settle puts a family, with a segment that was written for it where w is not
// nil, in one batch with what completes the segment and with what removes others.
// Where another was quicker, it tries again with the family that is there then.
func (ix *Index) settle(ctx context.Context, v *snapshot, w *writing, to change) (*snapshot, error) {
	next, err := ix.trySettle(ctx, v, w, to)
	if err != nil {
		w.abandon(ctx)
	}
	return next, err
}

func (ix *Index) trySettle(ctx context.Context, v *snapshot, w *writing, to change) (*snapshot, error) {
	for try := range records.Tries {
		next, gone, done, err := to(v)
		if err != nil {
			return v, err
		}
		next.Segments = slices.Clone(next.Segments)
		var b tidemark.Batch
		if w != nil {
			var s kept
			if b, s, err = w.last(); err != nil {
				return v, err
			}
			next.Segments = append(next.Segments, s)
		}
		r, err := ix.put(next, v.version)
		if err != nil {
			return v, err
		}
		b.Puts = append(b.Puts, r)
		taking(&b, gone...)
		b.Deletes = append(b.Deletes, done...)
		if _, err = ix.k.Commit(ctx, b); err == nil {
			return ix.look(ctx)
		}
		if !conflict(err) {
			return v, err
		}
		version := v.version
		if v, err = ix.look(ctx); err != nil {
			return v, err
		}
		if v.version == version || records.BackOff(ctx, try) != nil {
			break // something else was changed
		}
	}
	return v, errLost
}

// alone calls do while this process has a lease: ErrHeld when somebody else has it.
// The lease saves work that would be done twice, and nothing relies on it.
func (ix *Index) alone(ctx context.Context, of tidemark.Key, do func() error) error {
	l, b, err := ix.k.Take(ctx, of, ix.o.Holder)
	if err != nil {
		return err
	}
	if _, err = ix.k.Commit(ctx, b); err != nil {
		if conflict(err) {
			return tidemark.Errorf(tidemark.ErrHeld, "the search index is being made by somebody else")
		}
		return err
	}
	held := ix.k.Hold(l)
	beating, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = held.KeepAlive(beating, func() {}, conflict)
	}()
	err = do()
	stop()
	<-stopped
	if freed := held.Close(context.WithoutCancel(ctx)); err == nil {
		err = freed
	}
	return err
}

// merging is what the lease for large merges is of. It is another one than that of
// the family, so that lines are indexed while a merge takes its time.
func (ix *Index) merging() tidemark.Key {
	return tidemark.Key{Kind: ix.key.Kind, ID: ix.key.ID + ".merge"}
}

// busy returns ErrHeld while somebody has the lease of the family.
func (ix *Index) busy(ctx context.Context) error {
	l, err := ix.k.Lease(ctx, ix.key)
	if err == nil && l.Living() {
		err = &records.HeldError{Lease: l, Now: ix.k.Clock()}
	}
	return err
}

// IsBusy reports whether an error says that somebody else makes the index at the
// moment, and that it is worth to try again.
func IsBusy(err error) bool { return errors.Is(err, tidemark.ErrHeld) }
