package api

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/server/stores"
	"github.com/tidemark-sessions/tidemark/store"
)

// endLook is how often a follower checks whether its session still exists and
// may still be read, in case it was removed or unshared on another node.
const endLook = 4 * time.Second

type followInput struct {
	SessionInput
	Worker      string `query:"worker" maxLength:"64" doc:"the log of this worker"`
	Draft       bool   `query:"draft" doc:"also what another tool may still change: events of the name draft without an id, again when they change, and once more as an entry when they are final"`
	After       string `query:"after" maxLength:"20" doc:"as Last-Event-ID, for clients that cannot set it"`
	LastEventID string `header:"Last-Event-ID" maxLength:"20" doc:"the seq of the last entry that the client has; from the beginning when absent"`
}

func (s *Server) followEntries(ctx context.Context, in *followInput) (*huma.StreamResponse, error) {
	st, v, err := s.View(ctx, in.ID)
	if err == nil && in.Worker != "" {
		v, err = v.Worker(ctx, in.Worker)
	}
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		after, err := LastEvent(r)
		if err != nil {
			request.AnswerProblem(w, err)
			return
		}
		s.Stream(w, r, func(ctx context.Context, send func(Event) error) error {
			return s.Follow(ctx, &Following{Store: st, View: v, Worker: in.Worker, Drafts: in.Draft, After: after, Send: send})
		})
	}}, nil
}

// Following is one client that follows a session.
type Following struct {
	s      *Server
	Store  *store.Store
	View   *store.View
	Worker string
	Drafts bool  // also what may still change
	After  int64 // the last seq that was sent
	Send   func(Event) error
}

// Follow sends what is written to a session until the client leaves or the
// session is removed.
func (s *Server) Follow(ctx context.Context, f *Following) error {
	f.s = s
	return f.run(ctx)
}

var errGone = errors.New("the session is gone")

// run sends entries until the client leaves or the session is removed.
func (f *Following) run(ctx context.Context) error {
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if f.View.State != store.Live {
		return f.end(ctx)
	}
	go f.watch(within, stop)
	if err := f.past(within); err != nil {
		return f.over(ctx, within, err)
	}
	if f.Drafts {
		return f.over(ctx, within, f.withDrafts(within))
	}
	src, leave := f.s.sources.join(sourceOf{stores.NameOf(request.CallerOf(ctx).Principal), f.View.Name(), f.Worker}, f.View)
	defer leave()
	for {
		events, floor, news, err := src.after(f.After)
		switch {
		case f.After < floor:
			if err := f.upTo(within, floor); err != nil {
				return f.over(ctx, within, err)
			}
			f.After = max(f.After, floor)
			continue
		case len(events) == 0 && err != nil:
			return f.over(ctx, within, err)
		}
		for _, e := range events {
			f.After = e.ID
			if err := f.Send(e); err != nil {
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

// withDrafts sends entries and drafts until ctx ends. It reads for this client
// alone, which has seen other drafts than others have.
func (f *Following) withDrafts(ctx context.Context) error {
	v, err := f.View.WithDraft(ctx)
	if err != nil {
		return err
	}
	for e, err := range v.Follow(ctx, f.After) {
		switch {
		case err != nil && (e.Seq <= f.After || !errors.Is(err, tidemark.ErrCorrupt)):
			return err
		case e.Draft:
			err = f.Send(Event{Name: "draft", Data: logEntry(e, nil)})
		default:
			err = f.one(e, err)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// past sends what existed when the client came. It is read for this client
// alone: what others were sent may have been masked since.
func (f *Following) past(ctx context.Context) error {
	there := f.View.Entries
	if f.After >= there {
		return nil
	}
	if err := f.upTo(ctx, there); err != nil {
		return err
	}
	f.After = there
	return nil
}

// upTo sends the log up to a seq, 0 for all; of the past that a fork shares,
// only the shared path, and not what is beside it in the log of its source.
func (f *Following) upTo(ctx context.Context, to int64) error {
	for e, err := range f.View.LogRange(ctx, f.After+1, to) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if err := f.one(e, err); err != nil {
			return err
		}
	}
	return nil
}

func (f *Following) one(e tidemark.Entry, damage error) error {
	f.After = e.Seq
	return f.Send(Event{ID: e.Seq, Data: logEntry(e, damage)})
}

// watch ends the following when the session is removed.
func (f *Following) watch(ctx context.Context, stop context.CancelCauseFunc) {
	end, done := f.s.activity.watchEnd(request.CallerOf(ctx).Tenant, f.View.ID)
	defer done()
	look := time.NewTicker(endLook)
	defer look.Stop()
	for {
		i, err := f.Store.Session(ctx, f.View.ID)
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

// over handles the error that ended the following.
func (f *Following) over(ctx, within context.Context, err error) error {
	if errors.Is(context.Cause(within), errGone) || errors.Is(err, tidemark.ErrNotFound) {
		return f.end(ctx)
	}
	return err
}

// end sends what is left of a removed session, and says that it is.
func (f *Following) end(ctx context.Context) error {
	state := "gone"
	if i, err := f.Store.Session(ctx, f.View.ID); err == nil {
		state = i.State
		if err := f.upTo(ctx, 0); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
	}
	return f.Send(Event{Name: "gone", Data: map[string]string{"state": state}})
}
