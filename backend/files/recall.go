package files

import (
	"slices"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Who reads a session reads its record, the head of its log and the end of its log, and
// an interface does so again and again. What a file says is remembered with the stamp that
// the file had, and counts while the file still has it: then a look at the file is enough.
// A file that changed just now could change again and keep its stamp, so it is remembered
// only when it has settled, and only where the file system says at once what changed.

const (
	// maxRecalled bounds how many logs are remembered, and how many records.
	maxRecalled = 256
	// maxRecalledBody bounds the body of a record that is remembered.
	maxRecalledBody = 4 << 10
)

// recall remembers what was read at least twice. What is read once, as in a list of
// everything, costs no look at its file beside the reading.
type recall struct {
	tells   func() bool // whether the file system says at once what changed; asked once
	mu      sync.Mutex
	logs    map[tidemark.Key]recalled[state]
	records map[tidemark.Key]recalled[tidemark.Record]
}

// recalled is what a file with a stamp says; no stamp: it was read once.
type recalled[T any] struct {
	stamp stamp
	what  T
}

func (c *recall) init(fsys durable.FS) {
	c.tells = sync.OnceValue(func() bool { return durable.Tells(fsys) })
	c.logs, c.records = make(map[tidemark.Key]recalled[state]), make(map[tidemark.Key]recalled[tidemark.Record])
}

// recallLog returns the state of a log as it is now, if it is remembered. If not, it
// returns the Info of the file as it was before anything was read, for rememberLog.
func (b *Backend) recallLog(log tidemark.Key) (st state, before durable.Info, ok bool) {
	known, before, ok := recallOf(b, b.recall.logs, log, logPath(log))
	return known, before, ok
}

// rememberLog remembers the state of a log that was the same file before and after its
// head was read. One that lost lines, or ends behind its head, is looked at each time.
func (b *Backend) rememberLog(log tidemark.Key, before, after durable.Info, st *state) {
	sound := st.lost == nil && st.file && st.synced == st.end && st.end == after.Size
	if before == after && sound {
		st.id, st.places = after.ID, new(lineStarts)
	}
	remember(b, b.recall.logs, log, before, after, *st, sound)
}

// recallRecord is readRecord for who only reads.
func (b *Backend) recallRecord(key tidemark.Key) (tidemark.Record, error) {
	name := recordPath(key)
	r, before, ok := recallOf(b, b.recall.records, key, name)
	if ok {
		r.Body = slices.Clone(r.Body) // the caller's
		return r, nil
	}
	r, _, err := b.readRecord(key)
	if err != nil || r.Version == 0 || len(r.Body) > maxRecalledBody {
		return r, err
	}
	var after durable.Info
	if before != after {
		after, _ = b.fs.Stat(name)
	}
	kept := r
	kept.Body = slices.Clone(r.Body)
	remember(b, b.recall.records, key, before, after, kept, true)
	return r, nil
}

func recallOf[T any](b *Backend, m map[tidemark.Key]recalled[T], key tidemark.Key, name string) (what T, before durable.Info, ok bool) {
	b.recall.mu.Lock()
	known, met := m[key]
	b.recall.mu.Unlock()
	if !met {
		return what, before, false
	}
	before, err := b.fs.Stat(name)
	if err != nil {
		return what, durable.Info{}, false
	}
	return known.what, before, known.stamp == stampOf(before)
}

func remember[T any](b *Backend, m map[tidemark.Key]recalled[T], key tidemark.Key, before, after durable.Info, what T, sound bool) {
	if !b.recall.tells() {
		return
	}
	var r recalled[T]
	if sound && before == after && after.ID != 0 && settled(after) {
		r = recalled[T]{stampOf(after), what}
	}
	b.recall.mu.Lock()
	defer b.recall.mu.Unlock()
	if _, met := m[key]; !met && len(m) >= maxRecalled {
		for other := range m { // any one
			delete(m, other)
			break
		}
	}
	m[key] = r
}

// lineStarts are where some lines of a log begin, as reading came by them: the next page of
// somebody who reads backwards ends where the last one began.
type lineStarts struct {
	mu   sync.Mutex
	all  [16]lineStart
	next int
}

type lineStart struct{ seq, at int64 }

func (p *lineStarts) add(seq, at int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(p.all[:], func(o lineStart) bool { return o.seq == seq }) {
		return
	}
	p.all[p.next] = lineStart{seq, at}
	p.next = (p.next + 1) % len(p.all)
}

// around returns the nearest place at or before the line seq, and the nearest behind it;
// zero where there is none.
func (p *lineStarts) around(seq int64) (low, high lineStart) {
	if p == nil {
		return low, high
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.all {
		switch {
		case o.seq == 0:
		case o.seq <= seq && o.seq > low.seq:
			low = o
		case o.seq > seq && (high.seq == 0 || o.seq < high.seq):
			high = o
		}
	}
	return low, high
}
