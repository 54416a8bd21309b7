package pages

import (
	"bytes"
	"context"
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// livePath is where a page that shows p gets new entries from.
func (s *Site) livePath(l *looking, p web.PartView) string {
	last := l.log.Entries
	if n := len(p.Entries); n > 0 {
		last = max(last, p.Entries[n-1].Seq)
	}
	q := url.Values{"after": {strconv.FormatInt(last, 10)}}
	if l.worker != "" {
		q.Set("worker", l.worker)
	}
	return "/sessions/" + l.v.Name() + "/live?" + q.Encode()
}

// sessionLive sends what is written to a session, as the page shows it. The id
// of each event is the seq of its entry, so that a reconnecting browser
// continues where it was.
func (s *Site) sessionLive(w http.ResponseWriter, r *http.Request) {
	if !request.CallerOf(r.Context()).Role.May(request.Reader) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	l, err := s.look(r)
	var after int64
	if err == nil {
		after, _, err = routes.LastEvent(r)
	}
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	after = min(after, l.log.Entries) // a page may also show what is not final
	frame := s.frame(r, "session")
	s.api.Stream(w, r, s.besides(func(ctx context.Context, send func(routes.Event) error) error {
		a := &arranger{l: l}
		if after > 0 {
			// Without it, a turn under way is told from here on.
			a.turn, _ = l.turnUpTo(ctx, after)
		}
		watch := &talkWatch{s: s, l: l, frame: frame, may: s.api.MayTalk(r), poke: make(chan struct{}, 1)}
		watch.sent.Store(after)
		// What a page has is named by its seq alone: a log that goes back while
		// it is open is told by reset, and the page is loaded again. So is a
		// conversation that goes on from an earlier entry, whoever moved it and
		// however long before the stream opened: the page shows the other branch.
		follow := func() error {
			return s.api.Follow(ctx, &routes.Following{Store: l.st, View: l.log, Worker: l.worker, After: after, Send: func(e routes.Event) error {
				now := frame
				now.Now = s.o.Now() // the stream may be hours old
				shown, err := a.shown(ctx, now, e)
				if after > 0 && isMove(e) {
					shown = routes.Event{Name: "reset", Data: map[string]int64{"moved": e.ID}}
				}
				if err == nil {
					err = send(shown)
				}
				if err == nil && e.ID > 0 {
					watch.has(e.ID)
				}
				return err
			}})
		}
		if l.worker != "" || !l.mine || !s.api.HoldsTalks() {
			return follow()
		}
		return watch.alongside(ctx, send, follow)
	}))
}

// isMove reports whether an event says that the session goes on from an earlier
// entry.
func isMove(e routes.Event) bool {
	d, ok := e.Data.(api.LogEntry)
	return ok && d.Kind == tidemark.KindBranch
}

// shown is an event in the form for the page.
func (a *arranger) shown(ctx context.Context, frame web.Frame, e routes.Event) (routes.Event, error) {
	if e.Name == "reset" {
		return e, nil
	}
	name, part, data := "entry", "live", any(nil)
	switch d := e.Data.(type) {
	case api.LogEntry:
		var damage error
		if d.Damage != "" {
			damage = &tidemark.Damage{Seq: d.Seq, What: d.Damage}
		}
		labels, _ := a.l.labels(ctx) // without labels the entry is still shown
		a.t, a.items = &render.Transcript{Labels: labels}, nil
		a.add(a.l.entryView(a.t, d.Entry, damage))
		data = a.items
	default:
		name, part = "gone", "gone"
	}
	var html bytes.Buffer
	err := web.Fragment(&html, frame, part, data)
	return routes.Event{ID: e.ID, Name: name, Data: template.HTML(html.String())}, err
}
