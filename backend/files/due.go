package files

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// dueCache remembers, by kind, which records have a time at which they are due, in
// that order. A daemon asks each second, and mostly nothing has changed: putting or
// deleting a record changes the time of its folder, so that one look at the folder
// stands for a look at each file.
type dueCache struct {
	mu    sync.Mutex
	kinds map[string]*dueKind
}

type dueKind struct {
	folder durable.Info
	until  time.Time
	rows   []*listed // ordered by due, none of them damaged
}

// trustFolderFor is how long the time of a folder is believed. It bounds how late
// a file is noticed that somebody changed in place, or whose folder is on a system
// that writes such times down late.
const trustFolderFor = time.Minute

// folder returns what is known of the folder of a kind, and whether a change from
// now on shows in it.
func (b *Backend) folder(kind string) (durable.Info, bool) {
	info, err := b.fs.Stat(recordsDir + "/" + kind)
	return info, err == nil && info.Mode.IsDir() && !info.ModTime.IsZero() && settled(info)
}

// find returns what was remembered for q, which asks for what is due by a time; ok
// says that it still holds.
func (c *dueCache) find(q tidemark.Query, folder durable.Info) (found []*listed, ok bool) {
	c.mu.Lock()
	k := c.kinds[q.Kind]
	c.mu.Unlock()
	if k == nil || k.folder != folder || !time.Now().Before(k.until) {
		return nil, false
	}
	for _, l := range k.rows {
		if l.due > q.DueBy.UnixMicro() {
			break
		}
		if l.in(q) {
			found = append(found, l)
		}
	}
	return found, true
}

// keep remembers all records of a kind, listed after the folder was looked at.
func (c *dueCache) keep(kind string, folder durable.Info, all []*listed) {
	rows := slices.DeleteFunc(slices.Clone(all), func(l *listed) bool { return l.due == noTime })
	slices.SortFunc(rows, func(x, y *listed) int { return cmp.Compare(x.due, y.due) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = make(map[string]*dueKind)
	}
	c.kinds[kind] = &dueKind{folder, time.Now().Add(trustFolderFor), rows}
}
