package files

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// maxListed bounds how many records a process remembers between listings,
// some 400 bytes each.
const maxListed = 100_000

// listCache remembers what a listing needs of records and logs whose files have
// not changed. An element is used only while the file still has the size, time
// and identity that it had.
type listCache struct {
	mu   sync.Mutex
	rows map[tidemark.Key]*listed
}

type listed struct {
	record          durable.Info
	log             durable.Info // zero: there is none
	tidemark.Record              // without its body
	damage          error
	alone           bool // there is neither a log nor a head of one
}

// List reads the directory of a kind. It reads only files that changed since the
// last listing, and those of the records that it yields.
func (b *Backend) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		if err := b.use(ctx); err != nil {
			yield(tidemark.Record{}, err)
			return
		}
		found, err := b.find(ctx, q)
		if err != nil {
			yield(tidemark.Record{}, b.readError(tidemark.Key{Kind: q.Kind}, err))
			return
		}
		slices.SortFunc(found, func(x, y *listed) int { return q.Compare(x.Record, y.Record) })
		yielded := 0
		for _, l := range found {
			if err := b.use(ctx); err != nil {
				yield(tidemark.Record{}, err)
				return
			}
			r, err := b.get(l.Key, l.alone)
			if err == nil && r.Version == 0 || errors.Is(err, tidemark.ErrNotFound) {
				continue // deleted meanwhile
			}
			if !yield(r, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
			if yielded++; yielded == q.Limit {
				return
			}
		}
	}
}

// find returns the records that the query includes, unordered, and every damaged
// record that might be one of them.
func (b *Backend) find(ctx context.Context, q tidemark.Query) (found []*listed, err error) {
	if (tidemark.Key{Kind: q.Kind, ID: "x"}).Check() != nil {
		return nil, nil
	}
	var folder durable.Info
	whole := false // all records are gathered, to be remembered
	if q.Order == tidemark.ByDue && !q.DueBy.IsZero() {
		var tells bool
		if folder, tells = b.folder(q.Kind); tells {
			if found, ok := b.due.find(q, folder); ok {
				return found, nil
			}
			whole = q.Prefix == ""
		}
	}
	names, err := b.names(recordsDir, q.Kind, ".json")
	if err != nil {
		return nil, err
	}
	logNames, err := b.names(logsDir, q.Kind, ".ndjson")
	if err != nil {
		return nil, err
	}
	headNames, err := b.names(headsDir, q.Kind, ".json")
	if err != nil {
		return nil, err
	}
	logs, heads := setOf(logNames), setOf(headNames)
	inOrderOfNames := q.Order == tidemark.ByID && q.Group == "" && q.State == "" && q.DueBy.IsZero() && q.After == nil
	var all []*listed
	for i, id := range names {
		if !strings.HasPrefix(id, q.Prefix) {
			continue
		}
		if i&255 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		key, alone := tidemark.Key{Kind: q.Kind, ID: id}, !logs[id] && !heads[id]
		if inOrderOfNames { // each is read when it is yielded, and need not be before
			found = append(found, &listed{Record: tidemark.Record{Key: key}, alone: alone})
			continue
		}
		l, err := b.listed(key, logs[id], alone)
		if err != nil {
			return nil, err
		}
		if l != nil && (l.damage != nil && (q.After == nil || q.Compare(*q.After, l.Record) < 0) || l.damage == nil && q.Includes(l.Record)) {
			found = append(found, l)
		}
		if whole = whole && (l == nil || l.damage == nil); whole && l != nil {
			all = append(all, l)
		}
	}
	if whole {
		b.due.keep(q.Kind, folder, all)
	}
	return found, nil
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// names returns the ids that have a file in the folder of a kind.
func (b *Backend) names(folder, kind, ext string) ([]string, error) {
	names, err := b.fs.Names(folder + "/" + kind)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids := names[:0]
	for _, n := range names {
		stem, ok := strings.CutSuffix(n, ext)
		if !ok {
			continue
		}
		if id, ok := idOf(stem); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// listed returns what is known of a record, or nil when it is gone. It may have a
// log, or be alone, without even the head of one.
func (b *Backend) listed(key tidemark.Key, hasLog, alone bool) (*listed, error) {
	record, err := b.fs.Stat(recordPath(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var log durable.Info
	if hasLog {
		if log, err = b.fs.Stat(logPath(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	b.list.mu.Lock()
	l := b.list.rows[key]
	b.list.mu.Unlock()
	if l != nil && l.record == record && l.log == log && l.alone == alone {
		return l, nil
	}
	l = &listed{record: record, log: log, alone: alone}
	if l.Record, _, err = b.readRecord(key); err != nil {
		if !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		l.damage = err
	}
	l.Body = nil
	if !alone || l.damage != nil || l.Head.Length > 0 {
		st, err := b.lookFor(key, l.Head.Length)
		if err != nil {
			return nil, err
		}
		l.Head = st.Head
	}
	if l.damage == nil && l.Version != 0 && settled(record) && settled(log) {
		b.list.keep(key, l)
	}
	return l, nil
}

// racyFor is more than the resolution of file system times: a file that changed
// just now can change again and look the same.
const racyFor = 100 * time.Millisecond

func settled(i durable.Info) bool { return time.Since(i.ModTime) > racyFor }

func (c *listCache) keep(key tidemark.Key, l *listed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rows) >= maxListed || c.rows == nil {
		c.rows = make(map[tidemark.Key]*listed)
	}
	c.rows[key] = l
}

func (c *listCache) forget(key tidemark.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.rows, key)
}
