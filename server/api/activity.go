package api

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

// activity is what this server is doing with single sessions: calls that
// write wait for each other, and followers are notified when one ends. It is
// only an optimisation: other nodes know nothing of it, and the store
// enforces the rules.
type activity struct {
	mu     sync.Mutex
	queues map[string]*queue
	ends   map[string]map[chan struct{}]bool
}

// queue lets one call at a time write to a session.
type queue struct {
	turn chan struct{}
	in   int // number of calls that wait or run
}

// enter waits for the turn of a call, and returns a function that ends it.
func (w *activity) enter(ctx context.Context, name string) (leave func(), err error) {
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

// turnTimeout is how long a call waits for a call on another node that writes
// to the same session: those take only moments.
const turnTimeout = 3 * time.Second

// attach runs do with a Writer of a session for the duration of one call.
func (s *Server) attach(ctx context.Context, st *store.Store, id tidemark.SessionID, do func(*store.Writer) error) error {
	leave, err := s.activity.enter(ctx, activityName(ctx, id))
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

// activityName is the name of the queue of a caller's session. Another caller's
// session with the same id has another queue: nobody waits for it, or learns by
// waiting that it exists.
func activityName(ctx context.Context, id tidemark.SessionID) string {
	c := request.CallerOf(ctx)
	return c.Tenant + "/" + c.User + "/" + string(id)
}

// release ends the lease of one call. What the call wrote is written: a
// failure to release the lease must not be reported as its failure, or the
// client would write again.
func (s *Server) release(ctx context.Context, st *store.Store, w *store.Writer) {
	if err := w.Close(context.WithoutCancel(ctx)); err != nil {
		request.Note(ctx, "lease not released", err.Error())
		s.abandon(ctx, st, w.ID())
	}
}

// abandonTimeout is how long a server tries to release leases that its
// calls left behind; a lease expires not much later.
const abandonTimeout = 20 * time.Second

// abandon releases, in the background, a lease that a call of this server may
// have left: the connection broke while it was taken or released, so nobody
// knows whether it exists, and all others would wait for a living holder that
// does nothing. If the process ends, the next writer notices.
func (s *Server) abandon(ctx context.Context, st *store.Store, id tidemark.SessionID) {
	if !s.shutdown.Enter() {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
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
// works on the session.
func (s *Server) releaseOwn(ctx context.Context, st *store.Store, id tidemark.SessionID) error {
	leave, err := s.activity.enter(ctx, activityName(ctx, id))
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

// takeTurn attaches, after waiting for calls of other nodes if necessary.
func (s *Server) takeTurn(ctx context.Context, st *store.Store, id tidemark.SessionID) (*store.Writer, error) {
	until := time.Now().Add(turnTimeout)
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

// add runs do, which makes one commit, with a Writer: that of a token, or one
// that takes no lease if nobody has one, or one for this call.
func (s *Server) add(ctx context.Context, st *store.Store, id tidemark.SessionID, token string, do func(*store.Writer) error) error {
	if token != "" {
		return st.WithToken(ctx, id, token, do)
	}
	leave, err := s.activity.enter(ctx, activityName(ctx, id))
	if err != nil {
		return err
	}
	err = st.WithoutLease(ctx, id, do)
	leave()
	if errors.Is(err, tidemark.ErrHeld) {
		return s.attach(ctx, st, id, do)
	}
	return err
}

// watchEnd returns a channel that receives when a session may have ended
// here.
func (w *activity) watchEnd(tenant string, id tidemark.SessionID) (end <-chan struct{}, stop func()) {
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

// ended notifies the followers of a session that it was removed, or is
// shared differently: each checks whether it may still read it.
func (w *activity) ended(tenant string, id tidemark.SessionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.ends[tenant+"/"+string(id)] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
