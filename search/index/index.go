// Package index keeps a search index in a Backend: segments of words
// (search/segment), each a record and a log of its own, and one record that names
// those that count, the family.
//
// Everything in it is made from other logs, behind their writers, and can be made
// again: [Index.CatchUp] indexes what is not indexed yet, [Index.Merge] makes few
// segments of many, [Index.Leave] and [Index.Rewrite] take lines out again, with
// the keys of the segments that had them where a store is sealed. [Index.Look]
// returns what can be searched now. Any number of processes may do all of this at
// once: what counts is put at the version that was read, and who loses drops what
// it made. The package knows neither sessions nor languages: a [Source] says which
// logs there are and which words a line has.
//
//	ix := index.New(kernel, index.Options{Holder: who})
//	_, err := ix.CatchUp(ctx, source, index.Pace{})
//	view, err := ix.Look(ctx)
//	for hit, err := range view.Search(ctx, query) { … }
package index

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// Own is the family of what belongs to the principal of a Backend alone.
const Own = "index"

// Options configure an Index. Each zero field means the default.
type Options struct {
	// Family is the id of the family. The default is Own.
	Family string
	// Holder is who indexes, for those who wait.
	Holder tidemark.Holder
	// Owned says that the logs are those of several owners, and named with them: see
	// WithOwner.
	Owned bool
	// Cache keeps blocks. The default is a Cache of its own.
	Cache *Cache
}

// Index is the search index of one family. It may be used concurrently.
type Index struct {
	k     *records.Kernel
	o     Options
	key   tidemark.Key // of the family
	batch int          // bytes of blocks that are committed at once
	help  help
	mu    sync.Mutex
	known map[string]*segment.Reader // by the id of the segment
}

// New returns the index that is kept in the Backend of k. Nothing is read or
// written yet. The Options.Grown of k should not wake who indexes: segments are
// appended to as well.
func New(k *records.Kernel, o Options) *Index {
	if o.Family == "" {
		o.Family = Own
	}
	if o.Cache == nil {
		o.Cache = NewCache(DefaultCacheBytes)
	}
	return &Index{k: k, o: o, key: tidemark.Key{Kind: tidemark.KindIndex, ID: o.Family}, batch: batchBytes, help: defaultHelp(), known: make(map[string]*segment.Reader)}
}

// What is asked of an index, and what it finds: those of its segments.
type (
	Query = segment.Query
	Hit   = segment.Hit
)

// MaxWordBytes bounds a word, also one by which lines are filtered.
const MaxWordBytes = segment.MaxKeyBytes

// nameOf is how segments call a log. Names sort as kind and id do.
func nameOf(log tidemark.Key) string { return log.Kind + " " + log.ID }

// LogOf is the reverse: the log of a segment.Line.
func LogOf(name string) tidemark.Key {
	kind, id, _ := strings.Cut(name, " ")
	return tidemark.Key{Kind: kind, ID: id}
}

// WithOwner returns how an index with Options.Owned calls a log of an owner: two of
// them may have logs of the same name. Such names sort by kind, id and owner. Without
// an owner it is the log itself.
func WithOwner(log tidemark.Key, owner string) tidemark.Key {
	if owner != "" {
		log.ID += " " + owner
	}
	return log
}

// CutOwner is the reverse.
func CutOwner(log tidemark.Key) (owner string, of tidemark.Key) {
	log.ID, owner, _ = strings.Cut(log.ID, " ")
	return owner, log
}

// LineOf is a line of a log as segments know it.
func LineOf(log tidemark.Key, l tidemark.Line) segment.Line {
	return segment.Line{Log: nameOf(log), Seq: l.Seq, At: l.At.UnixMicro()}
}

// Lines is a run of lines of a log, both ends included.
type Lines struct {
	Log      tidemark.Key
	From, To int64
}

func segmentKey(id string) tidemark.Key { return tidemark.Key{Kind: tidemark.KindSegment, ID: id} }

// snapshot is a family as it was read, with its segments.
type snapshot struct {
	ix      *Index
	version int64 // of the family, 0: there is none yet
	family  family

	mu      sync.Mutex
	readers []*segment.Reader
}

// look reads which segments count now.
func (ix *Index) look(ctx context.Context) (*snapshot, error) {
	v := &snapshot{ix: ix}
	r, err := ix.k.Get(ctx, ix.key, &v.family)
	if err == nil {
		err = v.family.check(ix.key)
	}
	if err != nil {
		return nil, err
	}
	v.version = r.Version
	v.readers = make([]*segment.Reader, len(v.family.Segments))
	ix.forget(v.family)
	return v, nil
}

// forget closes the segments that a family does not have, and forgets their
// blocks: words that were purged should not stay in memory either.
func (ix *Index) forget(f family) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for id := range ix.known {
		if !f.has(id) {
			delete(ix.known, id)
			ix.o.Cache.forget(id)
		}
	}
}

// reader opens a segment.
func (v *snapshot) reader(ctx context.Context, i int) (*segment.Reader, error) {
	v.mu.Lock()
	r := v.readers[i]
	v.mu.Unlock()
	if r != nil {
		return r, nil
	}
	kept := v.family.Segments[i]
	r, err := v.ix.open(ctx, kept)
	if err != nil {
		return nil, err
	}
	if len(kept.Without) > 0 {
		r = r.Except(kept.without())
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.readers[i] = r
	return r, nil
}

func (ix *Index) open(ctx context.Context, s kept) (*segment.Reader, error) {
	ix.mu.Lock()
	r := ix.known[s.ID]
	ix.mu.Unlock()
	if r != nil {
		return r, nil
	}
	r, err := segment.Open(ctx, ix.fetch(s.ID, true), s.Blocks)
	if err != nil {
		return nil, err
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.known[s.ID] = r
	return r, nil
}

// all opens every segment.
func (v *snapshot) all(ctx context.Context) ([]*segment.Reader, error) {
	for i := range v.readers {
		if _, err := v.reader(ctx, i); err != nil {
			return nil, err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]*segment.Reader(nil), v.readers...), nil
}

// newer returns a later snapshot after an error that a block could not be read, when
// that is because its segment does not count any more; otherwise the error.
func (v *snapshot) newer(ctx context.Context, err error) (*snapshot, error) {
	if !errors.Is(err, tidemark.ErrCorrupt) {
		return nil, err
	}
	next, lookErr := v.ix.look(ctx)
	if lookErr != nil {
		return nil, lookErr
	}
	for _, s := range v.family.Segments {
		if !next.family.has(s.ID) {
			return next, nil
		}
	}
	return nil, err
}
