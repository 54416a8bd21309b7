package cold

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Here is the URL of the store itself. Segments that are there are a fraction of the
// size of their lines, and need no other place: they are moved, read, shared, dropped
// and copied with the store. Each is a log of its own of this package's kind, named
// after the log whose lines it has, so that it belongs to the same session.
const Here = "store:"

// pieceBytes is how much of a segment one line of its log has at most: less than a
// body may have, since what does not compress grows a little when it is packed.
const pieceBytes = 16 << 20

// hereAtOnce bounds what one commit of segments that are here carries.
const hereAtOnce = 16 << 20

// growsAfter is after how many segments those of a log that are here become twice as
// long, up to the size that they have elsewhere: the record that names them is read
// with every page, and has to stay short.
const growsAfter = 64

// segmentBytes is how long the next segment of a log is that has so many.
func (b *Backend) segmentBytes(segments int) int {
	if b.url != Here {
		return b.limits.segment
	}
	return min(b.limits.here<<min(segments/growsAfter, 10), b.limits.segment)
}

// hereKey names the log of a segment that is here.
func hereKey(log tidemark.Key, name string) tidemark.Key {
	return tidemark.Key{Kind: Kind, ID: keyOf(log).ID + "." + name}
}

// moves reports whether lines of a log can be moved to where this Backend moves them.
func (b *Backend) moves(log tidemark.Key) bool {
	return movable(log) && (b.url != Here || hereKey(log, random()).Check() == nil)
}

// pieces returns a segment as a log.
func pieces(log tidemark.Key, name string, data []byte) tidemark.Append {
	a := tidemark.Append{Log: hereKey(log, name)}
	at := newBatch().At
	for piece := range slices.Chunk(data, pieceBytes) {
		l := tidemark.Line{Seq: int64(len(a.Lines)) + 1, Kind: "piece", At: at, Body: piece}
		l.Sum = l.Checksum(a.Log)
		a.Lines = append(a.Lines, l)
	}
	return a
}

// fetchHere reads a segment that is here. A *goneError: it is missing, or damaged.
func (b *Backend) fetchHere(ctx context.Context, log tidemark.Key, s Segment) (data []byte, err error) {
	for l, err := range b.inner.Lines(ctx, hereKey(log, s.Name)) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			return nil, &goneError{"its segment is damaged"}
		}
		if err != nil {
			return nil, err
		}
		if data == nil {
			data = l.Body
		} else {
			data = append(data, l.Body...)
		}
	}
	if data == nil {
		return nil, &goneError{"its segment is missing"}
	}
	return data, nil
}

// hereLogs returns the segments of a log that are here, for when nothing says which
// there are.
func (b *Backend) hereLogs(ctx context.Context, log tidemark.Key) (keys []tidemark.Key, err error) {
	begin := hereKey(log, "")
	for k, err := range b.inner.Walk(ctx, begin) {
		if err != nil {
			return nil, err
		}
		if k.Kind != Kind || !strings.HasPrefix(k.ID, begin.ID) {
			break
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// sweepHere drops segments that are here and that no record names, and returns how many.
// None is left by a death; but a record that was deleted and made again while another
// program dropped its log may have named another one. Those of a log whose lines are not
// all known stay: they may be the only ones that have them.
func (b *Backend) sweepHere(ctx context.Context) (dropped int, err error) {
	var unknown []tidemark.Key
	for k, err := range b.inner.Walk(ctx, tidemark.Key{Kind: Kind}) {
		if err != nil {
			return 0, err
		}
		if k.Kind != Kind {
			break
		}
		if _, _, ok := segmentOf(k); ok {
			unknown = append(unknown, k)
		}
	}
	batch := newBatch()
	var c whereabouts
	known := make(map[string]bool)
	for _, k := range unknown {
		log, name, _ := segmentOf(k)
		if log != c.log {
			if c, err = b.settled(ctx, log); err != nil {
				return 0, err
			}
			clear(known)
			for _, s := range c.Segments {
				known[s.Name] = true
			}
		}
		if c.version >= 0 && !known[name] {
			batch.Drops = append(batch.Drops, k)
		}
	}
	if len(batch.Drops) == 0 {
		return 0, nil
	}
	_, err = b.inner.Commit(ctx, batch)
	return len(batch.Drops), err
}

// segmentOf returns which segment of which log a key names, and false when it is that of
// something else.
func segmentOf(key tidemark.Key) (log tidemark.Key, name string, ok bool) {
	at := strings.LastIndexByte(key.ID, '.')
	if at < 0 || len(key.ID)-at-1 != nameLength {
		return log, "", false
	}
	log, ok = logOf(tidemark.Key{Kind: key.Kind, ID: key.ID[:at]})
	return log, key.ID[at+1:], ok && movable(log)
}

// settled returns where the lines of a log are, with version -1 when that is not known of
// all that the log lacks.
func (b *Backend) settled(ctx context.Context, log tidemark.Key) (c whereabouts, err error) {
	r, err := b.inner.Get(ctx, log)
	if errors.Is(err, tidemark.ErrNotFound) {
		err = nil
	}
	if err == nil {
		c, err = b.find(ctx, log)
	}
	var last int64
	if n := len(c.Segments); n > 0 {
		last = c.Segments[n-1].Last
	}
	if errors.Is(err, tidemark.ErrCorrupt) || last < r.Head.Trimmed {
		return whereabouts{log: log, version: -1}, nil
	}
	return c, err
}

// isHere reports whether a segment is in the store itself.
func (o Object) isHere() bool { return o.Place == Here }

// firstHere returns the index of the oldest segment that is here, -1: none.
func (c *whereabouts) firstHere() int {
	return slices.IndexFunc(c.Segments, func(s Segment) bool { return s.isHere() })
}

// To returns a Backend over the same store that moves lines to another place.
func (b *Backend) To(url string) *Backend {
	return &Backend{inner: b.inner, places: b.places, url: url, limits: b.limits, lent: true}
}

// sendOn puts segments that are here at another place, where they are longer, and
// drops their logs in the commit that says so. from is the oldest of them.
func (m *move) sendOn(ctx context.Context, r tidemark.Record, c whereabouts, from int) error {
	next := from
	for ; next < len(c.Segments) && c.Segments[next].isHere(); next++ {
		s := c.Segments[next]
		lines, err := m.b.segment(ctx, m.log, s)
		if gone := (*goneError)(nil); errors.As(err, &gone) {
			return m.b.unlessMoved(ctx, m.log, r.Head.Trimmed, &tidemark.Damage{Key: m.log, Seq: s.First, Place: m.b.where(m.log, s), What: gone.what})
		}
		if err != nil {
			return err
		}
		size := 0
		for _, l := range lines {
			size += len(l.Body)
		}
		if len(m.packer.data) > 0 && len(m.packer.data)+size > m.b.limits.segment {
			if err := m.put(ctx); err != nil {
				return err
			}
			if m.full() {
				break
			}
		}
		for _, l := range lines {
			m.packer.add(l)
		}
	}
	if len(m.packer.data) > 0 {
		if err := m.put(ctx); err != nil {
			return err
		}
	}
	m.more = true
	batch := newBatch()
	for _, s := range c.Segments[from:next] {
		batch.Drops = append(batch.Drops, hereKey(m.log, s.Name))
	}
	c.Segments = slices.Concat(c.Segments[:from], m.made, c.Segments[next:])
	return m.commit(ctx, r, c, batch)
}
