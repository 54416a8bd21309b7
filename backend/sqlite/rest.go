package sqlite

import (
	"context"
	"sync/atomic"
	"time"
)

// A program that keeps a store open, such as a watcher or a server, is idle most of
// the time. What its connections have in their caches after a busy hour, up to
// 2 MB each, is given back then; it is in the cache of the system, too.

const (
	// restAfter is for how long the use of a store is counted.
	restAfter = 10 * time.Second
	// fewUses is how often a store is used in that time by a program that only renews
	// a lease and looks for what others wrote.
	fewUses = 64
)

// rest finds out whether a store is hardly used.
type rest struct {
	b       *Backend
	uses    atomic.Int64
	counted atomic.Bool // the timer runs
}

// used counts a use of a connection.
func (r *rest) used() {
	r.uses.Add(1)
	if !r.counted.Load() && r.counted.CompareAndSwap(false, true) {
		time.AfterFunc(restAfter, r.look)
	}
}

// look gives memory back, or looks again later. Once nobody uses the store, no timer
// runs.
func (r *rest) look() {
	if r.b.enter(context.Background()) != nil {
		return
	}
	defer r.b.leave()
	if r.uses.Swap(0) > fewUses {
		time.AfterFunc(restAfter, r.look)
		return
	}
	r.counted.Store(false)
	r.b.readers.rest()
	if r.b.writer != nil {
		r.b.writer.rest()
	}
}

// rest closes the connections that nobody uses now except for the one that is used
// next, and empties the cache of that one.
func (r *readers) rest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.idle)
	if n == 0 {
		return
	}
	last := r.idle[n-1]
	for _, c := range r.idle[:n-1] {
		c.close()
	}
	r.idle = append(r.idle[:0], last)
	last.shrink()
}

// rest empties the cache of the writer, unless it is at work.
func (w *writer) rest() {
	w.mu.Lock()
	busy := w.leading
	w.leading = true
	w.mu.Unlock()
	if busy {
		return
	}
	defer w.handOver()
	w.standings = nil
	w.c.shrink()
}

// shrink frees the memory that a connection can do without. What goes wrong shows at
// its next use.
func (c *conn) shrink() { c.run("PRAGMA shrink_memory") }
