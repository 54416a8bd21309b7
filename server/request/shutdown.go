package request

import (
	"context"
	"sync"
)

// Shutdown is the end of a server, for everything that would otherwise
// continue: streams, conversations, background work.
type Shutdown struct {
	mu    sync.Mutex
	begun chan struct{}
	open  sync.WaitGroup
}

// NewShutdown returns a Shutdown that has not begun.
func NewShutdown() *Shutdown { return &Shutdown{begun: make(chan struct{})} }

// Begin begins the shutdown: nothing new is accepted. It may be called more
// than once.
func (s *Shutdown) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.begun:
	default:
		close(s.begun)
	}
}

// Begun is closed once the shutdown has begun.
func (s *Shutdown) Begun() <-chan struct{} { return s.begun }

// Enter registers something that Wait waits for until Leave. It returns
// false once the shutdown has begun.
func (s *Shutdown) Enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.begun:
		return false
	default:
		s.open.Add(1)
		return true
	}
}

// Leave ends what Enter began.
func (s *Shutdown) Leave() { s.open.Done() }

// Wait returns when everything that entered has left, or ctx ends. It is called
// after Begin.
func (s *Shutdown) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.open.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
