package files

import (
	"context"
	"errors"
	"io/fs"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Get reads one record and the head of its log. A log that became shorter is a
// *tidemark.Damage beside the record.
func (b *Backend) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if err := b.use(ctx); err != nil {
		return tidemark.Record{}, err
	}
	if !nameable(key) {
		return tidemark.Record{}, tidemark.NotFoundf("%s: not found", key)
	}
	return b.get(key, false)
}

// get is Get for a caller that may know that the record has no log: neither a file
// of lines nor a head was there a moment ago. What the record says of its lines
// still counts.
func (b *Backend) get(key tidemark.Key, alone bool) (tidemark.Record, error) {
	r, err := b.recallRecord(key)
	if err != nil {
		return r, b.readError(key, err)
	}
	if alone && r.Version > 0 && r.Head.Length == 0 {
		return r, nil
	}
	st, err := b.lookFor(key, r.Head.Length)
	if err != nil {
		return r, b.readError(key, err)
	}
	if r.Version == 0 && st.Length == 0 {
		return r, tidemark.NotFoundf("%s: not found", key)
	}
	r.Head = st.Head
	if st.lost != nil {
		return r, st.lost
	}
	return r, nil
}

// readRecord returns the record of key, at version 0 when there is none. With a
// *tidemark.Damage, sound says that its version can still be trusted. The length
// in its Head is the floor of its log.
func (b *Backend) readRecord(key tidemark.Key) (r tidemark.Record, sound bool, err error) {
	name := recordPath(key)
	data, err := durable.ReadFile(b.fs, name)
	if errors.Is(err, fs.ErrNotExist) {
		return tidemark.Record{Key: key}, true, nil
	}
	if err != nil {
		return tidemark.Record{Key: key}, false, err
	}
	r, sound, err = parseRecord(data, key)
	if err != nil {
		d := &tidemark.Damage{Key: key, Place: name, What: err.Error()}
		return tidemark.Record{Key: key, Version: r.Version}, sound, d
	}
	return r, true, nil
}
