package server

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// endLook is how often a follower looks whether its session is still there and
// still theirs to read, when it was removed or unshared on another node.
const endLook = 4 * time.Second

type followInput struct {
	SessionInput
	Worker      string `query:"worker" maxLength:"64" doc:"the log of this worker"`
	After       string `query:"after" maxLength:"20" doc:"as Last-Event-ID, for clients that cannot set it"`
	LastEventID string `header:"Last-Event-ID" maxLength:"20" doc:"the seq of the last entry that the client has; from the beginning when absent"`
}

func (s *Server) followEntries(ctx context.Context, in *followInput) (*huma.StreamResponse, error) {
	st, v, err := s.view(ctx, in.ID)
	if err == nil && in.Worker != "" {
		v, err = v.Worker(ctx, in.Worker)
	}
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		after, err := lastEvent(r)
		if err != nil {
			request.AnswerProblem(w, err)
			return
		}
		s.stream(w, r, func(ctx context.Context, send func(event) error) error {
			f := &following{s: s, st: st, v: v, worker: in.Worker, after: after, send: send}
			return f.run(ctx)
		})
	}}, nil
}

// following is one client that follows a session.
type following struct {
	s      *Server
	st     *store.Store
	v      *store.View
	worker string
	after  int64 // the last seq that was sent
	send   func(event) error
}

var errGone = errors.New("the session is gone")

// run sends entries until the client goes away or the session does.
func (f *following) run(ctx context.Context) error {
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if f.v.State != store.Live {
		return f.end(ctx)
	}
	go f.watch(within, stop)
	if err := f.past(within); err != nil {
		return f.over(ctx, within, err)
	}
	src, leave := f.s.sources.join(sourceOf{principalName(request.CallerOf(ctx).Principal), f.v.Name(), f.worker}, f.v)
	defer leave()
	for {
		events, floor, news, err := src.after(f.after)
		switch {
		case f.after < floor:
			if err := f.upTo(within, floor); err != nil {
				return f.over(ctx, within, err)
			}
			f.after = max(f.after, floor)
			continue
		case len(events) == 0 && err != nil:
			return f.over(ctx, within, err)
		}
		for _, e := range events {
			f.after = e.ID
			if err := f.send(e); err != nil {
				return err
			}
		}
		if len(events) > 0 {
			continue // more may have come meanwhile
		}
		select {
		case <-news:
		case <-within.Done():
			return f.over(ctx, within, within.Err())
		}
	}
}

// past sends what was there when the client came. It is read for this client
// alone: what others were sent of it may have been masked since.
func (f *following) past(ctx context.Context) error {
	there := f.v.Entries
	if f.after >= there {
		return nil
	}
	if err := f.upTo(ctx, there); err != nil {
		return err
	}
	f.after = there
	return nil
}

// upTo sends what is in the log up to a seq, 0 for all; of what a fork shares,
// only the path that it shares, and not what lies beside it in the log of its
// source.
func (f *following) upTo(ctx context.Context, to int64) error {
	for e, err := range f.v.LogRange(ctx, f.after+1, to) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if err := f.one(e, err); err != nil {
			return err
		}
	}
	return nil
}

func (f *following) one(e tidemark.Entry, damage error) error {
	f.after = e.Seq
	return f.send(event{ID: e.Seq, Data: logEntry(e, damage)})
}

// watch ends the following when the session is removed.
func (f *following) watch(ctx context.Context, stop context.CancelCauseFunc) {
	end, done := f.s.work.watchEnd(request.CallerOf(ctx).Tenant, f.v.ID)
	defer done()
	look := time.NewTicker(endLook)
	defer look.Stop()
	for {
		i, err := f.st.Session(ctx, f.v.ID)
		if errors.Is(err, tidemark.ErrNotFound) || err == nil && i.State != store.Live {
			stop(errGone)
			return
		}
		select {
		case <-end:
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// over is what comes after following ended with an error.
func (f *following) over(ctx, within context.Context, err error) error {
	if errors.Is(context.Cause(within), errGone) || errors.Is(err, tidemark.ErrNotFound) {
		return f.end(ctx)
	}
	return err
}

// end sends what is left of a session that was removed, and says so.
func (f *following) end(ctx context.Context) error {
	state := "gone"
	if i, err := f.st.Session(ctx, f.v.ID); err == nil {
		state = i.State
		if err := f.upTo(ctx, 0); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
	}
	return f.send(event{Name: "gone", Data: map[string]string{"state": state}})
}
