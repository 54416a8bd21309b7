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
// each is held for one page of rows only, never while a caller's loop body
// runs: a read transaction that stays open keeps the -wal file from being
// written back.
type readers struct {
	path  string
	state *condition // of the schema; set before anybody else reads
	slots chan struct{}

	mu    sync.Mutex
	idle  []*conn
	still *stamp // not nil: nobody writes, the file is read as it lies
	age   int    // goes up when the connections so far are of no more use
}

// stamp tells whether a file is still the one that was looked at.
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
// files, and a reader joins there. Where one is missing (a copy, a medium that
// cannot be written, a store that another program closed) and nothing waits
// in -wal, nobody has the store open: the file is read as it lies, so that
// nothing need be made.
func (r *readers) look() {
	r.still = nil
	if r.joins() {
		return
	}
	if info, err := os.Stat(r.path); err == nil {
		r.still = &stamp{info, info.ModTime(), info.Size()}
	}
}

// walHeader is the size of a -wal file in which nothing waits, but which was
// begun. On a medium that cannot be written SQLite does not understand it.
const walHeader = 32

// joins reports whether there is a -wal file with something in it, or with a
// -shm file by which others tell that there is.
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

// same reports whether a file that is read as it lies still lies so.
func (r *readers) same(s *stamp) bool {
	if r.joins() {
		return false
	}
	info, err := os.Stat(r.path)
	return err == nil && os.SameFile(info, s.info) && info.ModTime().Equal(s.mod) && info.Size() == s.size
}

// read calls use with a connection. It calls it again when the file was read
// as it lay and somebody began to write meanwhile: use starts afresh.
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

// renew forgets the connections of an age and looks at the files again.
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

// judge sets how the schema is, for connections from now on.
func (r *readers) judge(state *condition) {
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

// close is called when no call is under way.
func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

// lies reports whether the file is read as it lies.
func (r *readers) lies() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.still != nil
}
