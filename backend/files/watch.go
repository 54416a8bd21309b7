package files

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// pollEvery is how often a log that another process may be writing is checked.
const pollEvery = 50 * time.Millisecond

// grown wakes the waiters in this process.
type grown struct {
	mu      sync.Mutex
	waiting map[tidemark.Key]chan struct{}
}

func (g *grown) wait(log tidemark.Key) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.waiting[log]
	if c == nil {
		c = make(chan struct{})
		g.waiting[log] = c
	}
	return c
}

func (g *grown) wake(log tidemark.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.waiting[log]; c != nil {
		close(c)
		delete(g.waiting, log)
	}
}

// Wait returns when log is longer than after: at once when this handle made it
// so, within some 50 ms when another one did.
func (b *Backend) Wait(ctx context.Context, log tidemark.Key, after int64) error {
	for {
		if err := b.use(ctx); err != nil {
			return err
		}
		woken := b.grown.wait(log)
		var st state
		if nameable(log) {
			var err error
			if st, err = b.look(log); err != nil {
				return b.readError(log, err)
			}
		}
		if st.Length > after {
			return nil
		}
		select {
		case <-woken:
		case <-time.After(pollEvery):
		case <-b.ending:
			return errClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
