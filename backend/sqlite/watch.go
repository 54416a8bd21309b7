package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// pollEvery is how often a waiting handle checks whether another process has
// written. A check costs a few microseconds, once for all waiters.
const pollEvery = 50 * time.Millisecond

// broadcast wakes all waiters.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

func (b *broadcast) init() { b.ch = make(chan struct{}) }

func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ch
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.ch)
	b.ch = make(chan struct{})
}

// watch asks SQLite whether the store has changed, on a connection of its own,
// because the answer refers to the last time that the same connection asked.
type watch struct {
	mu    sync.Mutex
	c     *conn
	asked time.Time
	data  int64
}

// Wait returns when log may be longer than after: at once after a commit
// through this handle, within pollEvery after one through another.
func (b *Backend) Wait(ctx context.Context, log tidemark.Key, after int64) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		grown := b.grown.next()
		var h head
		err := b.snapshot(ctx, func(c *conn) (err error) {
			h, err = readHead(c, log)
			return err
		})
		if err != nil || h.Length > after {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-grown:
				waiting = false
			case <-tick.C:
				if b.changed(ctx) {
					b.grown.wake()
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// changed reports whether another connection may have written since the last
// call.
func (b *Backend) changed(ctx context.Context) bool {
	if b.enter(ctx) != nil {
		return true // the waiter finds out
	}
	defer b.leave()
	if b.readers.immutable() {
		return true // no connection would notice; the waiter checks itself
	}
	w := &b.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.asked) < pollEvery/2 {
		return false // another waiter has just asked, and wakes all
	}
	w.asked = time.Now()
	if w.c == nil {
		c, err := openConn(b.path, forReading, reading...)
		if err != nil {
			return true
		}
		w.c = c
	}
	data, err := w.c.number("PRAGMA data_version")
	if err == nil && data == w.data {
		return false
	}
	w.data = data
	return true
}

// close is called when no call is in progress.
func (w *watch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c != nil {
		w.c.close()
		w.c = nil
	}
}
