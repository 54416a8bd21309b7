package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/search"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
)

const (
	// listRows is how many sessions a page lists: a few screens.
	listRows = 40
	// listHits bounds the results of a search on a page, and shownHits those of
	// one session.
	listHits  = 60
	shownHits = 3
)

// sessionPages are those about sessions.
func (s *Site) sessionPages() {
	s.page("/sessions", request.Reader, s.sessionsPage)
	s.page("/sessions/{id}", request.Reader, s.sessionPageOf)
	s.page("/sessions/{id}/tree", request.Reader, s.treePage)
	s.pages.HandleFunc("GET /sessions/{id}/part", s.sessionPart)
	s.pages.HandleFunc("GET /sessions/{id}/live", s.sessionLive)
	s.pages.HandleFunc("GET /sessions/{id}/raw/{seq}", s.rawEntry)
	s.sessionActs()
}

// sessionsPage lists sessions, or what was found in them.
func (s *Site) sessionsPage(r *http.Request) (view, error) {
	q := r.URL.Query()
	v := web.SessionsView{Query: strings.TrimSpace(q.Get("q")), Project: q.Get("project"), Agent: q.Get("agent"), Label: strings.TrimSpace(q.Get("label")),
		Since: q.Get("since"), State: q.Get("state"), Sessions: []web.SessionRow{}}
	if v.State != store.Trash {
		v.State = ""
	}
	st, err := s.stores.Mine(r.Context())
	if err != nil {
		return view{}, err
	}
	in := &routes.ListSessionsInput{Project: v.Project, Agent: v.Agent, Label: v.Label, Since: v.Since, Trash: v.State == store.Trash}
	f, err := in.Filter()
	if err != nil {
		return view{}, err
	}
	if v.Query != "" {
		err = s.searchSessions(r, st, f, &v)
	} else {
		err = s.listPage(r, st, in, f, &v)
	}
	cleanScopes(&v)
	return view{s.frame(r, "sessions"), v}, err
}

// cleanScopes makes values from the address harmless.
func cleanScopes(v *web.SessionsView) {
	for _, text := range []*string{&v.Query, &v.Project, &v.Agent, &v.Label, &v.Since} {
		*text = render.CleanLine(*text)
	}
}

func (s *Site) listPage(r *http.Request, st *store.Store, in *routes.ListSessionsInput, f store.Filter, v *web.SessionsView) error {
	ctx, q := r.Context(), r.URL.Query()
	if text := q.Get("cursor"); text != "" {
		var c routes.SessionsCursor
		if err := s.api.ParseCursor(request.CallerOf(ctx), text, &c); err != nil {
			return err
		}
		if c.Of != in.Asked() {
			return tidemark.Invalidf("cursor: of another list; begin again without it")
		}
		f.After = c.After()
		v.Newest = address("/sessions", q, "cursor", "")
	}
	leases, err := leasesOf(ctx, st)
	if err != nil {
		return err
	}
	f.Limit = listRows + 1
	budget := countBudget
	var last store.Info
	for i, err := range st.Sessions(ctx, f) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if len(v.Sessions) == listRows {
			v.Older = address("/sessions", q, "cursor", s.api.Cursor(request.CallerOf(ctx), routes.SessionsCursor{Of: in.Asked(), ID: last.ID, At: last.UpdatedAt, Owner: last.Owner}))
			break
		}
		last = i
		var lease store.Lease
		if i.Owner == "" { // those of others are private
			lease = leases[i.ID]
		}
		row, rowErr := s.sessionRow(ctx, st, i, lease, &budget, err)
		if rowErr != nil {
			return rowErr
		}
		v.Sessions = append(v.Sessions, row)
	}
	return nil
}

// address is a path with one more value in its query, or one fewer.
func address(path string, q url.Values, name, value string) string {
	next := url.Values{}
	for k, all := range q {
		if k != name && len(all) > 0 && all[0] != "" {
			next.Set(k, all[0])
		}
	}
	if value != "" {
		next.Set(name, value)
	}
	if len(next) == 0 {
		return path
	}
	return path + "?" + next.Encode()
}

// leasesOf are the current leases, including those of dead holders.
func leasesOf(ctx context.Context, st *store.Store) (map[tidemark.SessionID]store.Lease, error) {
	all := make(map[tidemark.SessionID]store.Lease)
	for l, err := range st.Leases(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // the page of the store reports it
		}
		if err != nil {
			return nil, err
		}
		all[l.Session()] = l
	}
	return all, nil
}

// sessionRow is one session of the list. Damage is shown in its place.
func (s *Site) sessionRow(ctx context.Context, st *store.Store, i store.Info, l store.Lease, budget *int, damage error) (web.SessionRow, error) {
	row := web.SessionRow{ID: string(i.ID), Name: i.Name(), Title: render.CleanLine(i.Title), Project: render.CleanLine(i.Project), Agent: render.CleanLine(i.Agent),
		Model: render.CleanLine(i.Model), Tags: cleanAll(i.Tags), Turns: i.Nodes, Messages: i.Messages, UpdatedAt: i.UpdatedAt, State: i.State,
		Pinned: i.Pinned, OnHold: i.OnHold, Gone: !i.Gone.IsZero()}
	if i.Base != nil {
		row.Base = sessionRef(i.Owner, i.Base.Session)
		row.Base.Seq = i.Base.Seq
	}
	if damage != nil {
		row.Damage, row.End.Kind = render.CleanLine(damage.Error()), web.EndDamaged
		return row, nil
	}
	v, err := st.ViewOf(i)
	if err != nil {
		return row, goneOrDamaged(err, &row)
	}
	if row.End, err = sessionEnd(ctx, v.Store(), v, l); err != nil {
		return row, goneOrDamaged(err, &row)
	}
	row.Usage, err = s.used(ctx, v, budget)
	return row, goneOrDamaged(err, &row)
}

// sessionRef links to a session of an owner.
func sessionRef(owner string, id tidemark.SessionID) *web.SessionRef {
	return &web.SessionRef{ID: string(id), Name: tidemark.SessionName(owner, id)}
}

// goneOrDamaged keeps one session from spoiling the list: one that was
// removed meanwhile, or whose past cannot be read.
func goneOrDamaged(err error, row *web.SessionRow) error {
	if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
		row.Damage, row.End.Kind = render.CleanLine(err.Error()), web.EndDamaged
		return nil
	}
	return err
}

func cleanAll(texts []string) []string {
	var out []string
	for _, t := range texts {
		out = append(out, render.CleanLine(t))
	}
	return out
}

// sessionEnd is how a session ended, by its lease, its last entry and what it
// waits for.
func sessionEnd(ctx context.Context, st *store.Store, v *store.View, l store.Lease) (web.SessionEnd, error) {
	if l.Held && !l.Dead && !l.Expired {
		return web.SessionEnd{Kind: web.EndLive, Who: render.CleanLine(l.Holder.String())}, nil
	}
	if l.Held {
		return web.SessionEnd{Kind: web.EndCrashed, Who: render.CleanLine(l.Holder.String())}, nil
	}
	end := web.SessionEnd{Kind: web.EndEmpty}
	for e, err := range v.Tail(ctx, 0, 1) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return end, err
		}
		end = endOf(e, err)
	}
	if end.Kind != web.EndDone {
		return end, nil
	}
	c, err := st.Checkpoint(ctx, v.ID, "")
	if err != nil {
		if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
			err = nil
		}
		return end, err
	}
	for _, t := range c.WakeTriggers {
		end.Kind, end.Why = web.EndAsleep, render.CleanLine(c.Reason)
		if t.Kind == store.WakeTimer && (end.At.IsZero() || t.At.Before(end.At)) {
			end.At = t.At
		}
	}
	return end, nil
}

// endOf is what the last entry says about the end.
func endOf(e tidemark.Entry, damage error) web.SessionEnd {
	if damage != nil {
		return web.SessionEnd{Kind: web.EndDamaged}
	}
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockToolUse {
			return web.SessionEnd{Kind: web.EndInterrupted, Who: render.CleanLine(b.Name)}
		}
	}
	switch e.Role {
	case tidemark.User, tidemark.Tool:
		return web.SessionEnd{Kind: web.EndUnanswered}
	}
	return web.SessionEnd{Kind: web.EndDone}
}

// searchSessions searches titles and content.
func (s *Site) searchSessions(r *http.Request, st *store.Store, f store.Filter, v *web.SessionsView) error {
	v.Searched = true
	address := func(cursor string) string { return address("/sessions", r.URL.Query(), "cursor", cursor) }
	q := store.Question{Agent: f.Agent, Project: f.Project, Tag: f.Tag, Since: f.Since, Trash: f.State == store.Trash, Limit: listHits, PerSession: shownHits,
		After: r.URL.Query().Get("cursor")}
	answer, err := ask(r.Context(), st, v.Query, q)
	if errors.Is(err, tidemark.ErrInvalid) {
		v.Problem = render.CleanLine(err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	v.Behind, v.LeftOut, v.Stopped = answer.Behind, answer.LeftOut, answer.Stopped
	if answer.Next != "" {
		v.Older = address(answer.Next)
	}
	if q.After != "" {
		v.Newest = address("")
	}
	if answer.Damage != nil {
		v.Damage = render.CleanLine(answer.Damage.Error())
	}
	place := make(map[string]int)
	for i, g := range answer.Sessions {
		place[g.Name()] = i
		v.Found = append(v.Found, web.FoundSession{SessionRef: web.SessionRef{ID: string(g.Session), Name: g.Name(), Title: g.Title}, Project: g.Project, More: g.More})
	}
	for _, h := range answer.Hits {
		found := &v.Found[place[tidemark.SessionName(h.Owner, h.Session)]]
		found.Hits = append(found.Hits, foundHit(h))
	}
	return nil
}

// ask searches for what somebody is typing. The last word may be incomplete.
func ask(ctx context.Context, st *store.Store, text string, q store.Question) (hits.Answer, error) {
	query, err := search.ParseTyped(text)
	if err != nil {
		return hits.Answer{}, err
	}
	q.Within = hits.TypedPatience
	return hits.Search(ctx, st, query, q, hits.Width)
}

func foundHit(h hits.Hit) web.FoundHit {
	return web.FoundHit{Seq: h.Seq, Draft: h.Draft, Worker: h.Worker, Role: h.Who(), At: h.At, Snippet: pieces(h.Snippet, h.Marks)}
}

// pieces splits a text where marks begin and end.
func pieces(text string, marks [][2]int) []web.Piece {
	var all []web.Piece
	add := func(from, to int, mark bool) {
		if from < to && to <= len(text) {
			all = append(all, web.Piece{Text: strings.ReplaceAll(text[from:to], "\n", " "), Mark: mark})
		}
	}
	at := 0
	for _, m := range marks {
		if m[0] < at {
			continue
		}
		add(at, m[0], false)
		add(m[0], m[1], true)
		at = m[1]
	}
	add(at, len(text), false)
	return all
}
