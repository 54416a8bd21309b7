package server

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
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/web"
)

// livePath is where a page that shows p gets what comes next.
func (s *Server) livePath(l *looking, p web.PartView) string {
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
// of each event is the seq of its entry, so that a browser that was cut off
// goes on where it was.
func (s *Server) sessionLive(w http.ResponseWriter, r *http.Request) {
	if !request.CallerOf(r.Context()).Role.May(request.Reader) {
		s.pageTrouble(w, r, tidemark.ErrDenied)
		return
	}
	l, err := s.look(r)
	var after int64
	if err == nil {
		after, err = lastEvent(r)
	}
	if err != nil {
		s.pageTrouble(w, r, err)
		return
	}
	frame := s.frame(r, "session")
	s.stream(w, r, func(ctx context.Context, send func(event) error) error {
		f := &following{s: s, st: l.st, v: l.log, worker: l.worker, after: after, send: func(e event) error {
			shown, err := l.shown(ctx, frame, e)
			if err != nil {
				return err
			}
			return send(shown)
		}}
		return f.run(ctx)
	})
}

// shown is an event as the page takes it.
func (l *looking) shown(ctx context.Context, frame web.Frame, e event) (event, error) {
	name, part, data := "entry", "entry", any(nil)
	switch d := e.Data.(type) {
	case api.LogEntry:
		var damage error
		if d.Damage != "" {
			damage = &tidemark.Damage{Seq: d.Seq, What: d.Damage}
		}
		labels, _ := l.labels(ctx) // without them the entry is shown all the same
		data = l.entryView(&render.Transcript{Labels: labels}, d.Entry, damage)
	default:
		name, part = "gone", "gone"
	}
	var html bytes.Buffer
	err := web.Fragment(&html, frame, part, data)
	return event{ID: e.ID, Name: name, Data: template.HTML(html.String())}, err
}
