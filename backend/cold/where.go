package cold

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Segment is a run of lines of a log that is at a place.
type Segment struct {
	First  int64  `json:"first"`
	Last   int64  `json:"last"`
	Bytes  int64  `json:"bytes"` // as it is there
	SHA256 string `json:"sha256"`
	Object
}

// Object is a blob at a place.
type Object struct {
	Place string `json:"place"`
	Name  string `json:"name"`
}

// whereabouts is the record of a log that says where its older lines are. Gone are
// objects that nothing needs any more, and that are not known to be deleted yet.
type whereabouts struct {
	Segments []Segment `json:"segments,omitempty"`
	Gone     []Object  `json:"gone,omitempty"`

	log     tidemark.Key
	version int64
}

// stateGone is the state of records that name objects which are to be deleted,
// statePacked that of others which name segments that are in the store itself.
const (
	stateGone   = "gone"
	statePacked = "packed"
)

// keyOf names the record of a log: it begins with the id, so that it belongs to the
// session whose log it is.
func keyOf(log tidemark.Key) tidemark.Key {
	return tidemark.Key{Kind: Kind, ID: log.ID + "." + log.Kind}
}

func logOf(key tidemark.Key) (log tidemark.Key, ok bool) {
	at := strings.LastIndexByte(key.ID, '.')
	if at < 0 {
		return log, false
	}
	return tidemark.Key{Kind: key.ID[at+1:], ID: key.ID[:at]}, true
}

// movableKinds are the kinds of logs whose lines may be elsewhere.
var movableKinds = []string{"session", "worker", "past"}

func movable(log tidemark.Key) bool {
	return slices.Contains(movableKinds, log.Kind) && keyOf(log).Check() == nil
}

// find returns where the lines of a log are; version 0: all are here.
func (b *Backend) find(ctx context.Context, log tidemark.Key) (whereabouts, error) {
	r, err := b.inner.Get(ctx, keyOf(log))
	if errors.Is(err, tidemark.ErrNotFound) || err == nil && r.Version == 0 {
		return whereabouts{log: log}, nil
	}
	if err != nil {
		return whereabouts{log: log}, err
	}
	return parse(r, log)
}

func parse(r tidemark.Record, log tidemark.Key) (c whereabouts, err error) {
	if err := records.Decode(r, &c); err != nil {
		return c, err
	}
	c.log, c.version = log, r.Version
	return c, nil
}

// where says where a segment is, for whoever reads that it is damaged. Where a server
// keeps what its users have is the business of who runs it: they find it in the record.
func (b *Backend) where(log tidemark.Key, s Segment) string {
	if b.lent {
		return keyOf(log).String()
	}
	return s.Place + ": " + s.Name
}

// says reports whether another reading of the record says the same. Versions begin
// again when it is deleted and made once more; names are never used twice.
func (c *whereabouts) says(other whereabouts) bool {
	return c.version == other.version && slices.Equal(c.Segments, other.Segments)
}

// put returns the next version of the record.
func (c *whereabouts) put() (tidemark.Record, error) {
	r, err := records.Put(keyOf(c.log), c.version, c)
	switch {
	case len(c.Gone) > 0:
		r.State = stateGone
	case c.firstHere() >= 0:
		r.State = statePacked
	}
	return r, err
}

// change has a batch write the next version of the record, or delete it when it says
// nothing any more.
func (c *whereabouts) change(batch *tidemark.Batch) error {
	if len(c.Segments)+len(c.Gone) == 0 {
		batch.Deletes = append(slices.Clip(batch.Deletes), tidemark.Precondition{Key: keyOf(c.log), Version: c.version})
		return nil
	}
	r, err := c.put()
	batch.Puts = append(slices.Clip(batch.Puts), r)
	return err
}

// whereabouts yields the records in a state, "" any, of logs that are one's own.
func (b *Backend) whereabouts(ctx context.Context, state string) iter.Seq2[whereabouts, error] {
	return func(yield func(whereabouts, error) bool) {
		for r, err := range b.inner.List(ctx, tidemark.Query{Kind: Kind, State: state, Order: tidemark.ByID}) {
			log, ok := logOf(r.Key)
			if (!ok || r.Owner != "") && err == nil {
				continue // it is about no log, or about one that another owner shares
			}
			var c whereabouts
			if err == nil {
				c, err = parse(r, log)
			}
			if !yield(c, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}
