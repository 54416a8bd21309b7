package durable

import (
	"context"
	"os"
	"sync"
)

// Lock is a lock file that can be waited for: processes queue in the kernel
// instead of polling. The file is never removed: a lock on a removed file locks
// nothing. One goroutine at a time calls Acquire and Release.
type Lock struct {
	f       *os.File
	mu      sync.Mutex
	pending chan error // a wait in progress
	wanted  bool       // somebody still waits for it
	closed  bool
}

// OpenLock opens the lock file at path, and makes it when it is missing.
func OpenLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &Lock{f: f}, nil
}

// Acquire returns with the lock, or with the error of ctx and without it.
func (l *Lock) Acquire(ctx context.Context) error {
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
	_, err := lockFile(l.f, true)
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
