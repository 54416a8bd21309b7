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
	After       string `query:"after" maxLength:"40" doc:"as Last-Event-ID, for clients that cannot set it"`
	LastEventID string `header:"Last-Event-ID" maxLength:"40" doc:"the id of the last event that the client has, or the seq of its entry; from the beginning when absent"`
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
		after, stamp, err := LastEvent(r)
		if err != nil {
			request.AnswerProblem(w, err)
			return
		}
		s.Stream(w, r, func(ctx context.Context, send func(Event) error) error {
			return s.Follow(ctx, &Following{Store: st, View: v, Worker: in.Worker, Drafts: in.Draft, After: after, Stamp: stamp, Send: send})
		})
	}}, nil
}

// Following is one client that follows a session.
type Following struct {
	s      *Server
	Store  *store.Store
	View   *store.View
	Worker string
	Drafts bool   // also what may still change
	After  int64  // the last seq that was sent
	Stamp  string // what the client knows that entry by, "" when it only knows the seq
	Send   func(Event) error
}

// Follow sends what is written to a session until the client leaves or the
// session is removed.
func (s *Server) Follow(ctx context.Context, f *Following) error {
	f.s = s
	for {
		err := f.wentBack(ctx)
		if err == nil {
			err = f.run(ctx)
		}
		if !errors.Is(err, tidemark.ErrWentBack) {
			return err
		}
		if err := f.reset(ctx); err != nil {
			return f.over(ctx, ctx, err)
		}
	}
}

// wentBack returns ErrWentBack when what the client saw last is not in the log.
func (f *Following) wentBack(ctx context.Context) error {
	if f.View.State != store.Live || f.After == 0 {
		return nil
	}
	if f.After > f.View.Entries {
		return tidemark.ErrWentBack
	}
	if f.Stamp == "" {
		return nil
	}
	for e, err := range f.View.LogRange(ctx, f.After, f.After) {
		if err != nil || store.Stamp(e) == f.Stamp {
			return ignoring(err, tidemark.ErrCorrupt)
		}
	}
	return tidemark.ErrWentBack
}

func ignoring(err, kind error) error {
	if errors.Is(err, kind) {
		return nil
	}
	return err
}

// reset says that the log went back, and begins again.
func (f *Following) reset(ctx context.Context) error {
	v, err := f.Store.View(ctx, f.View.ID)
	if err == nil && f.Worker != "" {
		v, err = v.Worker(ctx, f.Worker)
	}
	if err != nil {
		return err
	}
	f.View, f.After, f.Stamp = v, 0, ""
	return f.Send(Event{Name: resetEvent, Data: map[string]int64{"entries": v.Entries}})
}

var errGone = errors.New("the session is gone")

// run sends entries until the client leaves, the session is removed, or its log
// went back.
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
	return f.Send(entryEvent(e, damage))
}

// entryEvent is the event of an entry.
func entryEvent(e tidemark.Entry, damage error) Event {
	event := Event{ID: e.Seq, Data: logEntry(e, damage)}
	if damage == nil {
		event.Stamp = store.Stamp(e)
	}
	return event
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
	// One that is being purged is as good as gone.
	if i, err := f.Store.Session(ctx, f.View.ID); err == nil && (i.State == store.Trash || i.State == store.Live) {
		state = i.State
		if err := f.upTo(ctx, 0); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
	}
	return f.Send(Event{Name: "gone", Data: map[string]string{"state": state}})
}
