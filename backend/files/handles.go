package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// maxHandles bounds the files that are kept open between commits.
const maxHandles = 128

// handles keeps the logs that are appended to and the records that appends
// require open, so that the next append need not open and read them again. The
// identity of an open file is not reused: as long as the name leads to the same
// file, and its size is the last one seen, nobody else changed it. Where files
// have no identity, nothing is kept open.
type handles struct {
	mu      sync.Mutex
	logs    map[tidemark.Key]*target
	records map[tidemark.Key]*required
}

// required is a record that appends depend on.
type required struct {
	f       durable.File
	info    durable.Info
	version int64
}

// takeLog hands out a log that was kept open; the caller closes it or puts it
// back.
func (h *handles) takeLog(log tidemark.Key) *target {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.logs[log]
	delete(h.logs, log)
	return t
}

func (h *handles) keepLog(t *target) {
	if t.id == 0 || t.head == nil || t.f == nil {
		t.close()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.logs == nil {
		h.logs = make(map[tidemark.Key]*target)
	}
	if len(h.logs) >= maxHandles {
		for key, other := range h.logs {
			other.close()
			delete(h.logs, key)
			break
		}
	}
	h.logs[t.log] = t
}

// record returns what is known of a record that is kept open. The file stays where it is,
// and another commit may close it: only its identity counts.
func (h *handles) record(key tidemark.Key) (info durable.Info, version int64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.records[key]
	if r == nil {
		return info, 0, false
	}
	return r.info, r.version, true
}

func (h *handles) keepRecord(key tidemark.Key, r *required) {
	if r.info.ID == 0 {
		r.f.Close()
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.records == nil {
		h.records = make(map[tidemark.Key]*required)
	}
	if old := h.records[key]; old != nil {
		old.f.Close()
		delete(h.records, key)
	} else if len(h.records) >= maxHandles {
		for key, other := range h.records {
			other.f.Close()
			delete(h.records, key)
			break
		}
	}
	h.records[key] = r
}

func (h *handles) forgetRecord(key tidemark.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.records[key]; r != nil {
		r.f.Close()
		delete(h.records, key)
	}
}

func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.logs {
		t.close()
	}
	for _, r := range h.records {
		r.f.Close()
	}
	h.logs, h.records = nil, nil
}

// required returns the version of a record that a batch requires. It is needed
// for every append to a session, and changes when another writer takes over the
// session.
func (b *Backend) required(key tidemark.Key) (int64, error) {
	if known, version, ok := b.handles.record(key); ok {
		if info, err := b.fs.Stat(recordPath(key)); err == nil && info == known {
			return version, nil
		}
		b.handles.forgetRecord(key)
	}
	f, err := b.fs.OpenFile(recordPath(key), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	r := &required{f: f}
	if r.version, err = r.read(key); err != nil {
		f.Close()
		return r.version, err
	}
	b.handles.keepRecord(key, r)
	return r.version, nil
}

func (r *required) read(key tidemark.Key) (version int64, err error) {
	if r.info, err = r.f.Stat(); err != nil {
		return 0, err
	}
	data := make([]byte, r.info.Size)
	if n, err := r.f.ReadAt(data, 0); err != nil && !(err == io.EOF && n == len(data)) {
		return 0, err
	}
	rec, sound, err := parseRecord(data, key)
	if !sound {
		return 0, &tidemark.Damage{Key: key, Place: recordPath(key), What: err.Error()}
	}
	return rec.Version, nil
}
