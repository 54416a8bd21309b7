package durable

import (
	"context"
	"os"
	"sync"
	"time"
)

// Lock is a lock file that can be waited for: processes queue in the kernel
// instead of polling. The file is never removed: a lock on a removed file locks
// nothing. One goroutine at a time calls Acquire and Release.
type Lock struct {
	f       *os.File
	letPass time.Duration // for how long others are let pass; 0: never
	mu      sync.Mutex
	pending chan error // a wait in progress
	wanted  bool       // somebody still waits for it
	closed  bool
	inVain  time.Time // when others were let pass and did not; used by Acquire only
}

// OpenLock opens the lock file at path, and makes it when it is missing.
func OpenLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &Lock{f: f}, nil
}

// OpenFairLock is OpenLock for a file on a local disk that is locked again and again.
// On Linux a process that comes back at once is quicker than one that was woken for the
// lock, and would keep it to itself; here it lets those who wait pass.
func OpenFairLock(path string) (*Lock, error) {
	l, err := OpenLock(path)
	if err == nil {
		l.letPass = letPass
	}
	return l, err
}

// A process that waits for a fair lock says so with a second lock, the turn. The turn
// is never waited for without end: the process that has it may have been stopped.
const (
	// letPass is for how long others are let pass. On a busy machine it takes some
	// milliseconds until a process that was woken runs.
	letPass = 20 * time.Millisecond
	// passStep is how often it is looked whether they have.
	passStep = 50 * time.Microsecond
	// passAgain is for how long nobody is let pass when the one who waits did not come.
	passAgain = time.Second
)

// pass waits while others wait for their turn.
func (l *Lock) pass(ctx context.Context) {
	if l.letPass == 0 || !turnTaken(l.f) {
		return
	}
	begin := time.Now()
	if begin.Sub(l.inVain) < passAgain {
		return
	}
	for turnTaken(l.f) && ctx.Err() == nil {
		if time.Since(begin) > l.letPass {
			l.inVain = time.Now()
			return
		}
		time.Sleep(passStep)
	}
}

// Acquire returns with the lock, or with the error of ctx and without it.
func (l *Lock) Acquire(ctx context.Context) error {
	l.pass(ctx)
	l.mu.Lock()
	if l.pending == nil {
		if ok, err := lockFile(l.f, false); ok || err != nil {
			l.mu.Unlock()
			return err
		}
		l.pending = make(chan error, 1)
		go l.wait(l.pending)
	}
	pending := l.pending
	l.wanted = true
	l.mu.Unlock()
	select {
	case err := <-pending:
		return err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case err := <-pending: // it came at the same moment
		return err
	default:
		l.wanted = false
		return ctx.Err()
	}
}

// wait outlives a caller that gave up, because the kernel's wait cannot be
// cancelled; the next caller takes it over, and if there is none the lock is
// released at once.
func (l *Lock) wait(pending chan error) {
	turn := l.letPass > 0 && takeTurn(l.f)
	_, err := lockFile(l.f, true)
	if turn {
		leaveTurn(l.f)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = nil
	switch {
	case l.wanted:
		pending <- err
	case l.closed:
		l.f.Close()
	case err == nil:
		unlockFile(l.f)
	}
	l.wanted = false
}

// Release gives the lock to the next in the queue.
func (l *Lock) Release() { unlockFile(l.f) }

// Close closes the file, which releases the lock.
func (l *Lock) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.pending == nil {
		l.f.Close()
	}
}
