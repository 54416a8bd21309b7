package sqlite

import (
	"context"
	"io/fs"
	"os"
	"sync"
	"time"
)

// maxReaders bounds the connections for reading, each with a page cache of its
// own; more callers wait for one. A page of a log takes some 100 µs.
const maxReaders = 8

// readers is the pool of connections for reading. None of them can write, and
// each is used for one page of rows at a time, never while a caller's loop body
// runs: a read transaction that stays open keeps the -wal file from being
// written back.
type readers struct {
	path  string
	state *condition // of the schema; set before anybody else reads
	slots chan struct{}

	mu    sync.Mutex
	idle  []*conn
	still *stamp // not nil: nobody writes, and the file is read without locks
	age   int    // goes up when the existing connections have become useless
}

// stamp tells whether a file is still the one that was examined.
type stamp struct {
	info fs.FileInfo
	mod  time.Time
	size int64
}

func newReaders(path string) *readers {
	r := &readers{path: path, slots: make(chan struct{}, maxReaders)}
	r.look()
	return r
}

// look decides how to read. A store that was closed keeps its -wal and -shm
// files, and a reader uses them. Where one is missing (a copy, a read-only
// medium, a store that another program closed) and -wal holds nothing, nobody
// has the store open: the file is read as immutable, so that nothing need be
// created.
func (r *readers) look() {
	r.still = nil
	if r.joins() {
		return
	}
	if info, err := os.Stat(r.path); err == nil {
		r.still = &stamp{info, info.ModTime(), info.Size()}
	}
}

// walHeader is the size of a -wal file that was begun but holds nothing. On a
// read-only medium SQLite cannot handle it.
const walHeader = 32

// joins reports whether there is a -wal file with content, or one with a -shm
// file, by which other processes know of it.
func (r *readers) joins() bool {
	wal, err := os.Stat(r.path + "-wal")
	if err != nil {
		return false
	}
	if _, err := os.Stat(r.path + "-shm"); err != nil {
		return wal.Size() > 0
	}
	return wal.Size() != walHeader || canWrite(r.path+"-shm")
}

// same reports whether a file that is read as immutable is still unchanged.
func (r *readers) same(s *stamp) bool {
	if r.joins() {
		return false
	}
	info, err := os.Stat(r.path)
	return err == nil && os.SameFile(info, s.info) && info.ModTime().Equal(s.mod) && info.Size() == s.size
}

// read calls use with a connection. It calls it again when the file was read as
// immutable and somebody began to write meanwhile; use then starts over.
func (r *readers) read(ctx context.Context, use func(*conn) error) error {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.slots }()
	for {
		c, still, age, err := r.take()
		if err != nil {
			return err
		}
		err = use(c)
		if still != nil && !r.same(still) {
			c.close()
			r.renew(age)
			continue
		}
		r.give(c, age)
		return err
	}
}

func (r *readers) take() (*conn, *stamp, int, error) {
	r.mu.Lock()
	still, age := r.still, r.age
	if still != nil && !r.same(still) {
		r.mu.Unlock()
		r.renew(age)
		r.mu.Lock()
		still, age = r.still, r.age
	}
	if n := len(r.idle); n > 0 {
		c := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return c, still, age, nil
	}
	r.mu.Unlock()
	how := forReading
	if still != nil {
		how = unchanging
	}
	c, err := r.state.open(r.path, how, reading...)
	return c, still, age, err
}

func (r *readers) give(c *conn, age int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age != r.age {
		c.close()
		return
	}
	r.idle = append(r.idle, c)
}

// renew drops the connections of an age and examines the files again.
func (r *readers) renew(age int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age != r.age {
		return
	}
	r.age++
	r.look()
	r.drop()
}

// setCondition sets the condition of the schema, for connections from now on.
func (r *readers) setCondition(state *condition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = state
	r.age++
	r.drop()
}

func (r *readers) drop() {
	for _, c := range r.idle {
		c.close()
	}
	r.idle = nil
}

// close is called when no call is in progress.
func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

// immutable reports whether the file is read as immutable.
func (r *readers) immutable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.still != nil
}
