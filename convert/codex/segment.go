package codex

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// segments are the files of a thread that is exported with its branches.
type segments struct {
	*exporter
	tree tree
	meta map[string]json.RawMessage
	ends map[int]end // of the entries at which branches begin
	used map[string]bool
	last time.Time // when the last segment began
}

// end is where an entry ends: the file, and the next ordinal and byte offset.
type end struct {
	file    string
	ordinal int64
	offset  int64
}

// next closes a file and begins that of the branch whose first entry is i.
func (f *segments) next(w *writer, e convert.Entry, i int) (*writer, error) {
	if err := w.close(); err != nil {
		return nil, err
	}
	id := f.segmentID(e.ID)
	f.used[id] = true
	at := f.begins(e)
	s, err := f.create(f.id+"_"+id, at)
	if err != nil {
		return nil, err
	}
	s.thread, s.id, s.paginated, s.total, s.spawned = f.id, id, true, w.total, w.spawned
	m := maps.Clone(f.meta)
	m["timestamp"] = mustJSON(formatTime(at))
	if parent := f.tree.parents[i]; parent >= 0 {
		base := f.ends[parent]
		s.ordinal = base.ordinal
		m["history_base"] = mustJSON(map[string]any{
			"thread_id": base.file, "end_ordinal_exclusive": base.ordinal, "end_byte_offset": base.offset})
	}
	s.begin(at, m)
	return s, nil
}

// segmentID is the id that the segment had, or else a new one, always the same.
func (f *segments) segmentID(entry string) string {
	prefix, _, _ := strings.Cut(entry, ":")
	if id, err := tidemark.ParseSessionID(prefix); err == nil && !f.used[string(id)] {
		return string(id)
	}
	return derivedID(f.id + "/" + entry)
}

// begins is when a segment begins: later than the previous one, since they are
// ordered by time.
func (f *segments) begins(e convert.Entry) time.Time {
	at := e.At
	for _, line := range keptOf(e.Extra).Before {
		if rec, err := parseRecord(line); err == nil && !rec.at().IsZero() {
			at = rec.at()
			break
		}
	}
	if f.last.IsZero() {
		f.last = f.session.CreatedAt
	}
	if !at.After(f.last) {
		at = f.last.Add(time.Millisecond)
	}
	f.last = at
	return at
}
