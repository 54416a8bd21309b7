// Package cold is a Backend over another one that keeps the older lines of quiet
// logs elsewhere: as compressed segments in a folder, in storage that speaks S3, or in
// the other Backend itself.
// Records, heads and the newest lines stay where they are, so lists, tails and
// searches never meet a segment. Whoever reads older lines gets them from their
// segments, by range; whoever appends to such a log has its lines brought back
// first.
//
// It stands below the encryption: what is sealed stays sealed. It believes nothing
// that it gets from a place: a segment has to match its SHA-256, each line its sum,
// and what does not is damage. It never deletes a line from the store that it did
// not read back from the place.
//
//	b := cold.Over(inner, cold.NewPlaces(open), "s3://bucket/cold")
package cold

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Kind is that of the records that say where lines are. Nobody above sees them.
const Kind = "cold"

// Backend is a Backend some of whose lines are elsewhere. It has the methods of the
// abilities that the one underneath may have; where that lacks one, they return
// ErrUnsupported.
type Backend struct {
	inner  tidemark.Backend
	places *Places
	url    string
	limits limits
	lent   bool // whoever lent the places closes them
}

// limits say how much is moved.
type limits struct {
	hot     int64 // how many of the newest lines of a log stay: what a tail and a first page show
	least   int   // bytes: less is not worth a request to the storage
	segment int   // about how much a segment has before it is packed
	here    int   // the same of one that is in the store itself
}

// A segment is small enough that a page of an old session reads little, and large
// enough that a request to the storage pays. One that is in the store itself is
// short, since there a request costs little and a page is wanted soon. A longer line has one of its own.
var usual = limits{hot: 64, least: 32 << 10, segment: 1 << 20, here: 128 << 10}

// Over returns a Backend over inner. Lines are moved to the place at a URL, ""
// nowhere; they are read from wherever they were moved to. Closing it closes inner
// and the places.
func Over(inner tidemark.Backend, places *Places, url string) *Backend {
	return &Backend{inner: inner, places: places, url: url, limits: usual}
}

// Lend returns a Backend over inner, one of several that share these places: closing it
// closes inner alone.
func (p *Places) Lend(inner tidemark.Backend, url string) *Backend {
	b := Over(inner, p, url)
	b.lent = true
	return b
}

// Under returns what is below the cold tier, if b is one, else b.
func Under(b tidemark.Backend) tidemark.Backend {
	if c, ok := b.(*Backend); ok {
		return c.inner
	}
	return b
}

func hidden(kind string) bool { return kind == Kind }

// Get returns a record, with the head of its log as if all of it were here.
func (b *Backend) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if hidden(key.Kind) {
		return tidemark.Record{}, tidemark.NotFoundf("%s: not found", key)
	}
	r, err := b.inner.Get(ctx, key)
	r.Head.Trimmed = 0
	return r, err
}

// List yields records.
func (b *Backend) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	if hidden(q.Kind) {
		return func(func(tidemark.Record, error) bool) {}
	}
	return func(yield func(tidemark.Record, error) bool) {
		for r, err := range b.inner.List(ctx, q) {
			r.Head.Trimmed = 0
			if !yield(r, err) {
				return
			}
		}
	}
}

// Walk yields every key but those of the records of this package.
func (b *Backend) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		for k, err := range b.inner.Walk(ctx, after) {
			if hidden(k.Kind) && err == nil {
				continue
			}
			if !yield(k, err) {
				return
			}
		}
	}
}

// LinesOf reads lines of several logs that are here; see tidemark.Gatherer.
func (b *Backend) LinesOf(ctx context.Context, asked []tidemark.LogLines) ([][]tidemark.Line, error) {
	return tidemark.LinesOf(ctx, b.inner, asked, hidden)
}

// Wait waits until a log grows.
func (b *Backend) Wait(ctx context.Context, log tidemark.Key, after int64) error {
	return b.inner.Wait(ctx, log, after)
}

// Close closes the Backend underneath and, unless they are lent, the places.
func (b *Backend) Close() error {
	if b.lent {
		return b.inner.Close()
	}
	return errors.Join(b.inner.Close(), b.places.Close())
}

// URL is that of the place that lines are moved to, "" for none.
func (b *Backend) URL() string { return b.url }

// Reach returns an error when a place cannot be used now.
func (b *Backend) Reach(ctx context.Context, url string) error {
	if url == Here {
		return nil
	}
	place, err := b.places.place(ctx, url)
	if err != nil {
		return err
	}
	for _, err := range place.List(ctx, "reach/") {
		if err != nil {
			b.places.counts.failedMove.Add(1)
			return unreachable(url, err)
		}
	}
	return nil
}

// Mend repairs what the Backend underneath can repair.
func (b *Backend) Mend(ctx context.Context) iter.Seq2[string, error] {
	return tidemark.Mend(ctx, b.inner)
}

// Compact frees unused space.
func (b *Backend) Compact(ctx context.Context) (int64, error) {
	return tidemark.Compact(ctx, b.inner)
}

// Check finds what the Backend underneath finds, and records that do not say where
// all lines are that their logs lack. The lines themselves are checked by whoever
// reads them.
func (b *Backend) Check(ctx context.Context) iter.Seq[error] {
	return func(yield func(error) bool) {
		if c, err := tidemark.Ability[tidemark.Checker](b.inner); err == nil {
			for err := range c.Check(ctx) {
				if !errors.Is(err, tidemark.ErrUnsupported) && !yield(err) {
					return
				}
			}
		}
		for c, err := range b.whereabouts(ctx, "") {
			if err == nil {
				err = b.checkOne(ctx, c)
			}
			if err != nil && (!yield(err) || !errors.Is(err, tidemark.ErrCorrupt)) {
				return
			}
		}
	}
}

func (b *Backend) checkOne(ctx context.Context, c whereabouts) error {
	r, err := b.inner.Get(ctx, c.log)
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			return nil // whoever reads it reports it
		}
		return err
	}
	var last int64
	for _, s := range c.Segments {
		if s.First != last+1 || s.Last < s.First {
			return c.damage("lines %d to %d are not in their order", s.First, s.Last)
		}
		last = s.Last
	}
	if last == r.Head.Trimmed {
		return nil
	}
	// It may have been moved meanwhile.
	if now, err := b.find(ctx, c.log); err != nil || now.version != c.version {
		return err
	}
	return c.damage("it says where lines to %d are, and the log lacks those to %d", last, r.Head.Trimmed)
}

func (c *whereabouts) damage(what string, args ...any) error {
	return &tidemark.Damage{Key: keyOf(c.log), What: fmt.Sprintf(what, args...)}
}

// own refuses what a batch from above says about the records of this package.
func own(batch *tidemark.Batch) error {
	keys := slices.Clone(batch.Drops)
	for _, n := range batch.Require {
		keys = append(keys, n.Key)
	}
	for _, n := range batch.Deletes {
		keys = append(keys, n.Key)
	}
	for _, r := range batch.Puts {
		keys = append(keys, r.Key)
	}
	for _, a := range batch.Appends {
		keys = append(keys, a.Log)
	}
	for _, k := range keys {
		if hidden(k.Kind) {
			return tidemark.Invalidf("%s: is kept by the cold tier itself", k)
		}
	}
	return batch.RefuseTrims()
}
