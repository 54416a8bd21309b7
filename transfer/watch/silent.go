package watch

import (
	"context"
	"sync/atomic"
	"time"
)

// A home may be on a disk that hangs: a network that is down, a drive that sleeps.
// Nothing that waits for it can be ended, so it waits in a goroutine of its own, and
// after a while the other homes are followed without it. So they are while one huge
// session is read.

// serve follows a home, and returns when that is done, or when it takes too long to keep
// the others waiting: its disk is silent, or one of its sessions is huge.
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
	if !w.within(done, &h.answered) {
		w.passBy(ctx, h)
		go func() {
			for !w.tick(done) {
				w.passBy(ctx, h)
			}
		}()
	}
}

// within waits until something is done. It is false if nothing was heard for too long.
func (w *Watcher) within(done <-chan struct{}, heard *atomic.Int64) bool {
	for !w.tick(done) {
		if w.longAgo(heard) {
			return false
		}
	}
	return true
}

// tick waits for a moment, or until something is done.
func (w *Watcher) tick(done <-chan struct{}) (is bool) {
	timer := time.NewTimer(w.o.AnswerWithin / 4)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func (w *Watcher) longAgo(at *atomic.Int64) bool {
	return time.Since(time.Unix(0, at.Load())) > w.o.AnswerWithin
}

// passBy tells why the others are followed without a home.
func (w *Watcher) passBy(ctx context.Context, h *home) {
	w.turn.Lock()
	defer w.turn.Unlock()
	state := Reading
	if w.longAgo(&h.read) {
		state = Silent
	}
	if h.busy && ctx.Err() == nil && h.event.State != state {
		h.event.State, h.event.At = state, time.Now()
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

// answers notes that something is done with a home.
func (h *home) answers() {
	h.reads()
	h.answered.Store(h.read.Load())
}

// reads notes that the disk of a home is not silent.
func (h *home) reads() { h.read.Store(time.Now().UnixNano()) }

// late reports whether the others are followed without a home.
func (h *home) late() bool { return h.event.State == Silent || h.event.State == Reading }

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

// look is an import of a home that may never end.
type look struct {
	home *home
	done chan struct{} // closed when the rest is there
	took Event
	err  error
}

// takeWithin imports what changed in a home, and waits for that as long as its disk
// answers.
func (w *Watcher) takeWithin(ctx context.Context, h *home) *look {
	l := &look{home: h, done: make(chan struct{})}
	h.answers()
	go func() {
		defer close(l.done)
		w.turn.Lock()
		defer w.turn.Unlock()
		l.took, _, l.err = w.take(ctx, h)
	}()
	w.waitFor(l)
	return l
}

// waitFor waits for an import as long as the disk answers.
func (w *Watcher) waitFor(l *look) {
	w.turn.Unlock()
	defer w.turn.Lock()
	w.within(l.done, &l.home.read)
}

func (l *look) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// event is what an import brought.
func (l *look) event() Event {
	if l.ended() {
		return l.took
	}
	return Event{At: time.Now(), Tool: l.home.Tool.Name, Path: l.home.Path, State: Silent, Problems: []string{"its disk does not answer"}}
}

// failed is why an import ended early, if it did.
func (l *look) failed() error {
	if l.ended() {
		return l.err
	}
	return nil
}
