package files

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// listed is what a listing needs of one record and its log. It is used only while both
// files are as they were when it was made.
type listed struct {
	id           string
	record, log  stamp // of the files; no log: zero
	hasLog       bool
	alone        bool // there is neither a log nor a head of one
	solid        bool // a power cut does not change what it says
	group, state string
	due, touched int64 // microseconds since 1970; never: noTime
	damage       error
}

// stamp tells a file from a changed one.
type stamp struct {
	id      uint64
	size    int64
	changed int64 // nanoseconds since 1970
}

func stampOf(i durable.Info) stamp {
	if i == (durable.Info{}) {
		return stamp{}
	}
	return stamp{i.ID, i.Size, i.ModTime.UnixNano()}
}

const noTime = math.MinInt64

func microsOf(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.UnixMicro()
}

func timeOf(micros int64) time.Time {
	if micros == noTime {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// asRecord returns as much of the record as a Query looks at.
func (l *listed) asRecord(kind string) tidemark.Record {
	return tidemark.Record{Key: tidemark.Key{Kind: kind, ID: l.id}, Group: l.group, State: l.state, Due: timeOf(l.due), UpdatedAt: timeOf(l.touched)}
}

// racyFor is more than the resolution of file system times: a file that changed
// just now can change again and look the same.
const racyFor = 100 * time.Millisecond

func settled(i durable.Info) bool { return time.Since(i.ModTime) > racyFor }

// maxRows bounds how many rows of a kind a process remembers, some 250 bytes each.
const maxRows = 400_000

// table is what is known of all records of a kind. It is never changed, but replaced.
type table struct {
	folders kindFolders
	rows    []*listed
}

// kindFolders are those of the records, logs and heads of a kind. While they are as they
// were when a table was made, there are no other names than those in it, and no other
// records: one is changed by a file that takes its name.
type kindFolders [3]durable.Folder

func (b *Backend) foldersOf(kind string) (f kindFolders, tell bool) {
	for i, folder := range []string{recordsDir, logsDir, headsDir} {
		if f[i], tell = durable.FolderOf(b.fs, folder+"/"+kind); !tell {
			return kindFolders{}, false
		}
	}
	return f, f[0] != durable.Folder{}
}

// listCache remembers tables between listings.
type listCache struct {
	mu     sync.Mutex
	tables map[string]*table // by kind
	stale  map[string]int    // how many rows of a kind changed since its list was written
}

// of returns the table of a kind, nil when there is none.
func (c *listCache) of(kind string) *table {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tables[kind]
}

// keep remembers a table that differs from the last one by so many rows, and returns by
// how many in all since the list of the kind was written.
func (c *listCache) keep(kind string, t *table, changed int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tables == nil {
		c.tables, c.stale = make(map[string]*table), make(map[string]int)
	}
	if len(t.rows) > maxRows {
		t = nil
	}
	c.tables[kind] = t
	c.stale[kind] += changed
	return c.stale[kind]
}

func (c *listCache) written(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stale, kind)
}

// forget drops what is known of one record.
func (c *listCache) forget(key tidemark.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tables[key.Kind]
	if t == nil {
		return
	}
	t = &table{t.folders, slices.Clone(t.rows)}
	for i, l := range t.rows {
		if l.id == key.ID {
			unknown := *l
			unknown.record = stamp{}
			t.rows[i] = &unknown
		}
	}
	c.tables[key.Kind] = t
}

// rows returns what a listing needs of all records of a kind with such ids.
func (b *Backend) rows(ctx context.Context, kind string, of affix) ([]*listed, error) {
	b.loadList(kind)
	last := b.list.of(kind)
	t, changed, err := b.refreshed(ctx, kind, of, last)
	if err != nil {
		return nil, err
	}
	if of == (affix{}) && (changed > 0 || last == nil || t.folders != last.folders) {
		b.keepList(kind, t, b.list.keep(kind, t, changed))
	}
	return t.rows, nil
}

// refreshed returns the table of a kind as it is now, or those rows of it that have such
// ids, and how many rows are not in the last one or went from it.
func (b *Backend) refreshed(ctx context.Context, kind string, of affix, last *table) (t *table, changed int, err error) {
	f, tell := b.foldersOf(kind)
	var looks []look
	if tell && last != nil && last.folders == f {
		looks = make([]look, 0, len(last.rows))
		for _, l := range last.rows {
			if of.has(l.id) {
				looks = append(looks, look{id: l.id, row: l, sure: true, log: l.hasLog, alone: l.alone})
			}
		}
	} else {
		p, err := b.present(kind, of)
		if err != nil {
			return nil, 0, err
		}
		looks = make([]look, len(p.ids))
		known := last.byID(of)
		for i, id := range p.ids {
			looks[i] = look{id: id, row: known[id], log: p.files[id]&hasLog != 0, alone: p.files[id] == 0}
		}
	}
	if err := b.lookAtAll(ctx, kind, looks); err != nil {
		return nil, 0, err
	}
	t = &table{rows: make([]*listed, 0, len(looks))}
	if tell {
		t.folders = f
	}
	kept := 0
	for i := range looks {
		if looks[i].row != nil {
			t.rows = append(t.rows, looks[i].row)
		}
		if looks[i].same {
			kept++
		}
	}
	changed = len(t.rows) - kept
	if last != nil {
		changed += max(len(last.rows)-len(t.rows), 0)
	}
	return t, changed, nil
}

// byID returns the rows with such ids.
func (t *table) byID(of affix) map[string]*listed {
	if t == nil {
		return nil
	}
	size := 0
	if of == (affix{}) {
		size = len(t.rows)
	}
	known := make(map[string]*listed, size)
	for _, l := range t.rows {
		if of.has(l.id) {
			known[l.id] = l
		}
	}
	return known
}

// lookAtOnce is how many files are looked at in one go: between two it is seen whether
// the caller is still there.
const lookAtOnce = 512

// look is one record to be looked at: what was known of it, and then what is.
type look struct {
	id         string
	row        *listed // nil: nothing is known, or it is gone
	sure       bool    // the file of the record is the one that the row was made from
	log, alone bool    // there is a log; there is neither a log nor a head
	same       bool    // the row did not change
}

// lookAtAll looks at records, several at once where they are many.
func (b *Backend) lookAtAll(ctx context.Context, kind string, all []look) error {
	workers := min(runtime.GOMAXPROCS(0), 1+len(all)/(2*lookAtOnce))
	errs := make([]error, workers)
	work := func(w int) {
		for at := w * lookAtOnce; at < len(all) && errs[w] == nil; at += workers * lookAtOnce {
			if errs[w] = ctx.Err(); errs[w] == nil {
				errs[w] = b.lookAt(kind, all[at:min(at+lookAtOnce, len(all))])
			}
		}
	}
	var others sync.WaitGroup
	for w := 1; w < workers; w++ {
		others.Go(func() { work(w) })
	}
	work(0)
	others.Wait()
	return errors.Join(errs...)
}

func (b *Backend) lookAt(kind string, some []look) error {
	records, err := b.statSome(recordsDir+"/"+kind, ".json", some, func(l *look) bool { return !l.sure })
	if err != nil {
		return err
	}
	logs, err := b.statSome(logsDir+"/"+kind, ".ndjson", some, func(l *look) bool { return l.log })
	if err != nil {
		return err
	}
	for i := range some {
		l := &some[i]
		var record, log durable.Info
		if l.log {
			log, logs = logs[0], logs[1:]
		}
		known := l.row != nil && l.row.damage == nil && l.row.record != stamp{} && l.row.alone == l.alone && l.row.log == stampOf(log)
		if !l.sure {
			record, records = records[0], records[1:]
			if record == (durable.Info{}) {
				l.row = nil
				continue
			}
			known = known && l.row.record == stampOf(record)
		}
		if l.same = known; known {
			continue
		}
		if l.sure {
			if record, err = b.fs.Stat(recordPath(tidemark.Key{Kind: kind, ID: l.id})); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if l.row, err = b.readRow(tidemark.Key{Kind: kind, ID: l.id}, record, log, l.alone); err != nil {
			return err
		}
	}
	return nil
}

// statSome looks at the files of those that are wanted.
func (b *Backend) statSome(dir, ext string, some []look, wanted func(*look) bool) ([]durable.Info, error) {
	names := make([]string, 0, len(some))
	for i := range some {
		if wanted(&some[i]) {
			names = append(names, fileName(some[i].id)+ext)
		}
	}
	infos := make([]durable.Info, len(names))
	return infos, durable.StatAll(b.fs, dir, names, infos)
}

// readRow makes the row of a record from its files, nil when it is gone. One that may
// change without looking changed has no stamp, and is not remembered.
func (b *Backend) readRow(key tidemark.Key, record, log durable.Info, alone bool) (*listed, error) {
	l := &listed{id: key.ID, hasLog: log != durable.Info{}, alone: alone, due: noTime, solid: alone}
	r, _, err := b.readRecord(key)
	switch {
	case errors.Is(err, tidemark.ErrCorrupt):
		l.damage = err
	case err != nil:
		return nil, err
	case r.Version == 0:
		return nil, nil
	}
	if !alone || l.damage != nil || r.Head.Length > 0 {
		st, err := b.lookFor(key, r.Head.Length)
		if err != nil {
			return nil, err
		}
		r.Head = st.Head
		l.solid = st.lost == nil && st.exists && st.size == st.end && st.synced == st.end
	}
	l.group, l.state, l.due, l.touched = r.Group, r.State, microsOf(r.Due), microsOf(r.Touched())
	if record != (durable.Info{}) && settled(record) && (log == (durable.Info{}) || settled(log)) {
		l.record, l.log = stampOf(record), stampOf(log)
	}
	return l, nil
}
