package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// sessionWork is what this server has under way with single sessions: calls
// that write wait for each other, and followers are told when one ends. It is
// only a help: other nodes know nothing of it, and the store keeps the rules.
type sessionWork struct {
	mu     sync.Mutex
	queues map[string]*queue
	ends   map[string]map[chan struct{}]bool
}

// queue lets one call at a time write to a session.
type queue struct {
	turn chan struct{}
	in   int // how many wait or have their turn
}

// enter waits for the turn of a call, and returns what ends it.
func (w *sessionWork) enter(ctx context.Context, name string) (leave func(), err error) {
	w.mu.Lock()
	if w.queues == nil {
		w.queues = make(map[string]*queue)
	}
	q := w.queues[name]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		w.queues[name] = q
	}
	q.in++
	w.mu.Unlock()
	out := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if q.in--; q.in == 0 {
			delete(w.queues, name)
		}
	}
	select {
	case q.turn <- struct{}{}:
		return func() { <-q.turn; out() }, nil
	case <-ctx.Done():
		out()
		return nil, ctx.Err()
	}
}

// callPatience is how long a call waits for a call on another node that writes
// to the same session: those last for moments.
const callPatience = 3 * time.Second

// attach runs do with a Writer of a session for the time of one call.
func (s *Server) attach(ctx context.Context, st *store.Store, id tidemark.SessionID, do func(*store.Writer) error) error {
	leave, err := s.work.enter(ctx, workName(ctx, id))
	if err != nil {
		return err
	}
	defer leave()
	w, err := s.takeTurn(ctx, st, id)
	var held *store.HeldError
	switch {
	case errors.As(err, &held) || errors.Is(err, tidemark.ErrNotFound):
		return err
	case err != nil:
		s.abandon(ctx, st, id)
		return err
	}
	err = do(w)
	s.release(ctx, st, w)
	return err
}

// workName is what the calls for a session of the caller queue up for. That of
// another who has a session of the same id is another queue: nobody waits for
// it, nor learns from waiting that it is there.
func workName(ctx context.Context, id tidemark.SessionID) string {
	c := request.CallerOf(ctx)
	return c.Tenant + "/" + c.User + "/" + string(id)
}

// release ends the lease of one call. What the call wrote is written: that the
// lease could not be released is no reason to say otherwise, and a client that
// is told so writes it again.
func (s *Server) release(ctx context.Context, st *store.Store, w *store.Writer) {
	if err := w.Close(context.WithoutCancel(ctx)); err != nil {
		request.Note(ctx, "lease not released", err.Error())
		s.abandon(ctx, st, w.ID())
	}
}

// abandonPatience is how long a server tries to release what its calls left
// behind; the lease runs out not much later.
const abandonPatience = 20 * time.Second

// abandon releases, in the background, a lease that a call of this server may
// have left: the connection broke while it was taken or released, so nobody
// knows whether it is there, and all others wait for a holder that lives and
// does nothing. Where the process ends, that is seen by whoever comes next.
func (s *Server) abandon(ctx context.Context, st *store.Store, id tidemark.SessionID) {
	if !s.shutdown.Enter() {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), abandonPatience)
	go func() {
		defer s.shutdown.Leave()
		defer stop()
		for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			if s.releaseOwn(ctx, st, id) == nil {
				return
			}
			select {
			case <-time.After(pause + rand.N(pause)):
			case <-s.shutdown.Begun():
				return
			case <-ctx.Done():
				return
			}
		}
	}()
}

// releaseOwn releases a lease that this server holds while none of its calls
// is at work on the session.
func (s *Server) releaseOwn(ctx context.Context, st *store.Store, id tidemark.SessionID) error {
	leave, err := s.work.enter(ctx, workName(ctx, id))
	if err != nil {
		return err
	}
	defer leave()
	l, err := st.Lease(ctx, id)
	if err != nil || !l.Held || l.Holder != s.o.Holder {
		return err
	}
	return st.Release(ctx, id, true)
}

// takeTurn attaches, after the calls of other nodes if need be.
func (s *Server) takeTurn(ctx context.Context, st *store.Store, id tidemark.SessionID) (*store.Writer, error) {
	until := time.Now().Add(callPatience)
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		w, err := st.Attach(ctx, id, s.o.Holder)
		var held *store.HeldError
		if !errors.As(err, &held) || held.Lease.Holder.PID == 0 || held.Lease.Holder.Program != s.o.Holder.Program || time.Now().After(until) {
			return w, err
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// write runs do with a Writer: that of a token, or one for this call.
func (s *Server) write(ctx context.Context, st *store.Store, id tidemark.SessionID, token string, do func(*store.Writer) error) error {
	if token == "" {
		return s.attach(ctx, st, id, do)
	}
	return st.WithToken(ctx, id, token, do)
}

// watchEnd returns a channel that gets something when a session may have
// ended here.
func (w *sessionWork) watchEnd(tenant string, id tidemark.SessionID) (end <-chan struct{}, stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, c := tenant+"/"+string(id), make(chan struct{}, 1)
	if w.ends == nil {
		w.ends = make(map[string]map[chan struct{}]bool)
	}
	if w.ends[name] == nil {
		w.ends[name] = make(map[chan struct{}]bool)
	}
	w.ends[name][c] = true
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.ends[name], c); len(w.ends[name]) == 0 {
			delete(w.ends, name)
		}
	}
}

// ended tells who follows a session that it was removed, or is not shared as
// before: each looks whether it is still there for them.
func (w *sessionWork) ended(tenant string, id tidemark.SessionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.ends[tenant+"/"+string(id)] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
