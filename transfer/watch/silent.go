package watch

import (
	"context"
	"time"
)

// A home may be on a disk that hangs: a network that is down, a drive that sleeps.
// Nothing that waits for it can be ended, so it waits in a goroutine of its own, and
// after a while the other homes are followed without it.

// serve follows a home, and returns when that is done, or when its disk is silent. The
// home then waits until that answers.
func (w *Watcher) serve(ctx context.Context, h *home) {
	h.busy = true
	h.answers()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.turn.Lock()
		defer w.turn.Unlock()
		w.follow(ctx, h)
		h.busy = false
		w.ring()
	}()
	w.turn.Unlock()
	defer w.turn.Lock()
	ticker := time.NewTicker(w.o.AnswerWithin / 4)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		if time.Since(time.Unix(0, h.answered.Load())) > w.o.AnswerWithin {
			w.silent(ctx, h)
			return
		}
	}
}

// silent tells that the disk of a home does not answer.
func (w *Watcher) silent(ctx context.Context, h *home) {
	w.turn.Lock()
	defer w.turn.Unlock()
	if h.busy && ctx.Err() == nil {
		h.event.State, h.event.At = Silent, time.Now()
		w.tell(h)
	}
}

// away does what waits for the disk of a home, while others have their turn.
func (w *Watcher) away(h *home, do func()) {
	w.turn.Unlock()
	defer w.turn.Lock()
	h.answers()
	w.o.hang(h.Path)
	do()
}

// answers notes that the disk of a home is not silent.
func (h *home) answers() { h.answered.Store(time.Now().UnixNano()) }

// found reports whether the files at a place are the tool's. A place that does not
// answer counts as one: whether it is shows when it does.
func (w *Watcher) found(ctx context.Context, h *home) bool {
	found := make(chan bool, 1)
	go func() {
		w.o.hang(h.Path)
		found <- w.importer().Found(ctx, h.Place)
	}()
	select {
	case is := <-found:
		return is
	case <-ctx.Done():
		return false
	case <-time.After(w.o.AnswerWithin):
		return true
	}
}
