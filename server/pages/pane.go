package pages

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// paneRows is how many sessions come at once into the list beside the one that is
	// read, and paneMost how many of those that are there are read anew when one changes.
	paneRows = 30
	paneMost = 600
	// namesRead is how many of the newest sessions are looked through for a name; what
	// is older is found by the search, which knows titles, too.
	namesRead = 500
)

// pane is the list beside a session: the newest ones, those after a cursor, or
// those that words lead to. The one that is read stands on top when it is none of the
// newest.
func (s *Site) pane(r *http.Request) (*web.Pane, error) {
	q, v := r.URL.Query(), &web.Pane{}
	var err error
	if len(wordsOf(r)) > 0 {
		named, said, err := s.sought(r, paneRows)
		v.Sessions = append(named, said...)
		return v, err
	}
	rows := paneRows
	if n, err := strconv.Atoi(q.Get("rows")); err == nil {
		rows = min(max(n, paneRows), paneMost)
	}
	var after *store.Info
	if text := q.Get("cursor"); text != "" {
		var c routes.SessionsCursor
		if err := s.api.ParseCursor(request.CallerOf(r.Context()), text, &c); err != nil {
			return nil, err
		}
		after = c.After()
	}
	var last *store.Info
	if v.Sessions, last, err = s.newestRows(r, after, rows); err != nil {
		return nil, err
	}
	if last != nil {
		v.More = s.api.Cursor(request.CallerOf(r.Context()), routes.SessionsCursor{ID: last.ID, At: last.UpdatedAt, Owner: last.Owner})
	}
	if after == nil {
		v.Open, err = s.openApart(r, v.Sessions)
	}
	return v, err
}

// openApart is the session that the page shows, if it is none of those that are listed.
func (s *Site) openApart(r *http.Request, listed []web.Reachable) (*web.Reachable, error) {
	page, err := url.Parse(r.Header.Get("HX-Current-URL"))
	if err != nil {
		return nil, nil // somebody else than our page asks
	}
	name, isSession := strings.CutPrefix(page.Path, "/sessions/")
	if !isSession || slices.ContainsFunc(listed, func(one web.Reachable) bool { return one.Path == page.Path }) {
		return nil, nil
	}
	_, v, err := s.api.View(r.Context(), name)
	if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrInvalid) || errors.Is(err, tidemark.ErrCorrupt) {
		return nil, nil // the page says so
	}
	if err != nil {
		return nil, err
	}
	open := reachable(v.Info)
	return &open, nil
}

// reachable is a session as lists of names show it.
func reachable(i store.Info) web.Reachable {
	title := render.CleanLine(i.Title)
	if title == "" {
		title = web.Say("", "session.untitled") + " " + string(i.ID)[:8]
	}
	return web.Reachable{Path: "/sessions/" + i.Name(), Text: title, Agent: render.CleanLine(i.Agent), Project: render.CleanLine(i.Project), Turns: i.Nodes, At: i.UpdatedAt}
}

// newestRows are the newest sessions after one, and the last of them if there are
// more.
func (s *Site) newestRows(r *http.Request, after *store.Info, limit int) (all []web.Reachable, last *store.Info, err error) {
	st, err := s.stores.Mine(r.Context())
	if err != nil {
		return nil, nil, err
	}
	for i, err := range st.Sessions(r.Context(), store.Filter{After: after, Limit: limit + 1}) {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			continue
		case err != nil:
			return nil, nil, err
		case len(all) == limit:
			return all, last, nil
		}
		all, last = append(all, reachable(i)), &i
	}
	return all, nil, nil
}

// sought are sessions that words lead to, limit at most: the newest whose title, project
// or agent has all of them, or whose id begins with the only one, and then those in which
// they were said, however old these are.
func (s *Site) sought(r *http.Request, limit int) (named, said []web.Reachable, err error) {
	ctx, words := r.Context(), wordsOf(r)
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i, err := range st.Sessions(ctx, store.Filter{Limit: namesRead}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		one := reachable(i)
		if fits(words, one.Text+" "+i.Project+" "+i.Agent) || len(words) == 1 && strings.HasPrefix(string(i.ID), words[0]) {
			if named = append(named, one); len(named) == limit {
				return named, nil, nil
			}
		}
	}
	answer, err := ask(ctx, st, strings.TrimSpace(r.URL.Query().Get("q")), store.Question{Limit: limit, PerSession: 1})
	if errors.Is(err, tidemark.ErrInvalid) {
		return named, nil, nil // it is not a question yet
	}
	if err != nil {
		return nil, nil, err
	}
	for _, found := range answer.Sessions {
		path := "/sessions/" + found.Name()
		if len(named)+len(said) == limit || slices.ContainsFunc(named, func(one web.Reachable) bool { return one.Path == path }) {
			continue
		}
		_, v, err := s.api.View(ctx, found.Name())
		if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		said = append(said, reachable(v.Info))
	}
	return named, said, nil
}
