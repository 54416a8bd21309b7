package sync

import (
	"context"
	"errors"
	"maps"

	"github.com/tidemark-sessions/tidemark"
)

// A name that an entry got for one remote goes with it to the others, also to one that is
// added later. If the run ends before this remote hears of the name, and the store is then
// put back to a backup, the backup would give the same name to another entry, and of two
// entries of one name a machine keeps one. So the first name of a run comes after a head
// that is newer than any backup: whoever finds that takes another id.

// nameLines gives the lines of a log up to a length names of this machine. ErrConflict:
// the remote cannot be written, so there must be no new names.
func (y *syncer) nameLines(ctx context.Context, o *origins, length int64) error {
	if first, _ := o.nextUnnamed(1, length); first > length {
		return nil
	}
	if err := y.claim(ctx); err != nil {
		return err
	}
	o.name(y.me.ID, length)
	return nil
}

// claim writes a newer head with what the last one names, once a run.
func (y *syncer) claim(ctx context.Context) error {
	if !y.claimed && y.refused == nil {
		last := *y.head
		last.Shards = y.published
		err := y.writeHead(ctx, &last)
		y.head.Generation = last.Generation // others may have seen one that was not heard of
		if ctx.Err() != nil {
			return ctx.Err()
		}
		y.claimed, y.refused = err == nil, err
	}
	if y.refused != nil {
		return tidemark.Conflictf("it has entries that this remote does not know, and cannot be merged while the remote cannot be written (is it full, or read-only?): %v", y.refused)
	}
	return nil
}

// writeHead replaces the head of this machine by one of the next generation.
func (y *syncer) writeHead(ctx context.Context, h *head) error {
	h.Generation++
	h.Name, h.At = y.me.Name, y.k.Clock()
	text, err := encode(h)
	if err != nil {
		return err
	}
	data := y.ring.Seal(sealedHead(y.me.ID), text)
	// Whoever finds this head later has to know that it is this machine's, even if
	// this process ends before it can say that it was written.
	y.c.Pending = &point{h.Generation, hashOf(data)}
	if err := y.remotes.save(ctx, y.c); err != nil {
		return err
	}
	// What nobody can find is not there: so this comes first, each time.
	if err := y.blobs.PutNew(ctx, machineName(y.me.ID), []byte("tidemark\n")); err != nil && !errors.Is(err, tidemark.ErrExists) {
		return err
	}
	if err := y.blobs.Replace(ctx, headName(y.me.ID), data); err != nil {
		return err
	}
	y.report.Pushed.Bytes += int64(len(data))
	y.c.Own, y.c.Pending = *y.c.Pending, nil
	return nil
}

// begin notes the head that this run begins with.
func (y *syncer) begin(own *head) { y.head, y.published = own, maps.Clone(own.Shards) }
