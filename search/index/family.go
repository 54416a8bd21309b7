package index

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// format is the version of the record of a family.
const format = 1

// family is the body of the record that says which segments count. It is
// replaced whole, at the version that was read.
type family struct {
	Format   int    `json:"format"`
	Segments []kept `json:"segments,omitempty"` // in the order of their making
	// Until is an instant: whatever was touched before it is indexed.
	Until time.Time `json:"until,omitzero"`
	// Epoch grows whenever lines are taken out of the index: what was read before
	// that may have had them, and may not be put. It begins with the time, so that a
	// family that was forgotten is not taken for the one behind it.
	Epoch int64 `json:"epoch,omitempty"`
	// Again are logs that are looked at whenever they were touched: lines of them
	// were taken out, to be indexed anew.
	Again []string `json:"again,omitempty"`
	// Adopting are those who copy logs into the store at the moment: everything
	// is looked at until they are done.
	Adopting []adoption `json:"adopting,omitempty"`
}

// adoption is somebody who copies logs into the store.
type adoption struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
}

// kept is a segment of a family.
type kept struct {
	ID      string `json:"id"`
	Version int64  `json:"version"` // of its record
	Blocks  int64  `json:"blocks"`
	Lines   int    `json:"lines"`
	// Without are the lines that are left out, until the segment is rewritten.
	Without []left `json:"without,omitempty"`
}

// left is lines that are left out of a segment.
type left struct {
	Log  string `json:"log"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

func (s kept) without() segment.Without {
	w := make(segment.Without)
	for _, l := range s.Without {
		w[l.Log] = append(w[l.Log], segment.Span{From: l.From, To: l.To})
	}
	return w
}

func (s kept) same(o kept) bool { return s.ID == o.ID && slices.Equal(s.Without, o.Without) }

func (f family) has(id string) bool {
	return slices.ContainsFunc(f.Segments, func(s kept) bool { return s.ID == id })
}

// check refuses what no family is.
func (f family) check(key tidemark.Key) error {
	if f.Format > format {
		return tidemark.Unsupportedf("%s: the search index was made by a newer version (format %d)", key, f.Format)
	}
	for _, s := range f.Segments {
		_, err := tidemark.ParseSessionID(s.ID)
		if err != nil || s.Version < 1 || s.Blocks < 1 || s.Lines < 0 || s.Lines > segment.MaxLines {
			return &tidemark.Damage{Key: key, What: "it names a segment that cannot be"}
		}
	}
	return nil
}

// put returns the record that replaces the family at a version.
func (ix *Index) put(f family, version int64) (tidemark.Record, error) {
	if f.Format = format; version == 0 {
		f.Epoch = ix.k.Clock().UnixMicro()
	}
	return records.Put(ix.key, version, f)
}

// taking returns the batch parts that remove segments: record and log together,
// which in a sealed store destroys the key of the segment.
func taking(b *tidemark.Batch, segments ...kept) {
	for _, s := range segments {
		if s.Version > 0 {
			b.Deletes = append(b.Deletes, tidemark.Precondition{Key: segmentKey(s.ID), Version: s.Version})
		}
		b.Drops = append(b.Drops, segmentKey(s.ID))
	}
}

// toEnd stands for the end of a log that may still grow.
const toEnd = math.MaxInt64 / 4

// conflict reports whether a commit lost against another.
func conflict(err error) bool { return errors.Is(err, tidemark.ErrConflict) }
