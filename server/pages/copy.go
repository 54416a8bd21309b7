package pages

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// sessionCopy answers with what was said and done in a session as Markdown, to be pasted
// elsewhere. What stands folded on its page is left out, for who pastes it wants the
// conversation; the last line says how much that is. An export has everything.
func (s *Site) sessionCopy(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if !request.CallerOf(ctx).Role.May(request.Reader) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	l, err := s.look(r)
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	log := l.log
	if l.tip == 0 && l.worker == "" {
		if log, err = log.WithDraft(ctx); err != nil {
			s.Trouble(w, r, err)
			return
		}
	}
	labels, err := l.labels(ctx)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		s.Trouble(w, r, err)
		return
	}
	left := 0
	said := func(yield func(tidemark.Entry, error) bool) {
		for e, err := range log.Path(ctx, l.tip) {
			if err == nil && isQuiet(e) {
				left++
			} else if !yield(e, err) {
				return
			}
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	err = render.Markdown(w, render.Document{Session: l.v.Session, UpdatedAt: l.v.UpdatedAt, Messages: l.v.Messages, Node: l.node, Labels: labels, ExportedAt: s.o.Now()}, said)
	if errors.Is(err, tidemark.ErrCorrupt) {
		err = nil // it is told in its place
	}
	if err == nil && left > 0 {
		_, err = fmt.Fprintf(w, "*%s*\n", web.Say(s.frame(r, "session").Lang, "session.copy.left", left))
	}
	routes.Cut(ctx, err)
}
