package pages

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
	"github.com/tidemark-sessions/tidemark/store/rewind"
)

const (
	// listRows is how many sessions a page lists: two screens.
	listRows = 30
	// listHits bounds the results of a search on a page, and shownHits those of
	// one session.
	listHits  = 60
	shownHits = 3
	// countGlance is how long a page of hits waits until all of them are counted by
	// what they have in common. The page fetches what takes longer.
	countGlance = 150 * time.Millisecond
)

// sessionPages are those about sessions.
func (s *Site) sessionPages() {
	s.page("/sessions", request.Reader, s.sessionsPage)
	s.page("/sessions/{id}", request.Reader, s.sessionPageOf)
	s.page("/sessions/{id}/tree", request.Reader, s.treePage)
	s.pages.HandleFunc("GET /sessions/totals", s.sessionTotals)
	s.pages.HandleFunc("GET /sessions/names", s.listNames)
	s.pages.HandleFunc("POST /sessions/several", s.changeSeveral)
	s.pages.HandleFunc("POST /sessions/zip", s.sessionsZip)
	s.pages.HandleFunc("GET /sessions/{id}/part", s.sessionPart)
	s.pages.HandleFunc("GET /sessions/{id}/copy", s.sessionCopy)
	s.pages.HandleFunc("GET /sessions/{id}/live", s.sessionLive)
	s.pages.HandleFunc("GET /sessions/{id}/raw/{seq}", s.rawEntry)
	s.sessionActs()
	s.talkActs()
}

// sessionsPage lists sessions, or what was found in them.
func (s *Site) sessionsPage(r *http.Request) (view, error) {
	l, err := s.listed(r)
	if err != nil {
		return view{}, err
	}
	v := &l.view
	switch {
	case v.Query != "":
		err = s.searchSessions(r, l)
	case v.Sort != "" && v.Sort != "age" || v.Up:
		err = s.sorted(r.Context(), l)
	default:
		err = s.newest(r.Context(), l)
	}
	cleanScopes(v)
	if v.Begin = v.State == "" && s.api.MayTalk(r); v.Begin {
		v.Folder = render.CleanLine(s.api.TalkFolder(tidemark.Session{}))
	}
	f := s.frame(r, "sessions")
	f.Path, f.Unknown = address("/sessions", l.q, "count", ""), l.unknown()
	return view{f, *v}, err
}

// cleanScopes makes values from the address harmless.
func cleanScopes(v *web.SessionsView) {
	for _, text := range []*string{&v.Query, &v.Project, &v.Agent, &v.Label, &v.Since, &v.Tool, &v.Model, &v.Until, &v.Role} {
		*text = render.CleanLine(*text)
	}
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

// readLeases bounds how many leases a page reads: there are as many as sessions are
// open, which are few, unless programs died by the thousand.
const readLeases = 1000

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
		if all[l.Session()] = l; len(all) == readLeases {
			break
		}
	}
	return all, nil
}

// sessionRow is one session of the list, without what it used. Damage is shown in
// its place.
func (s *Site) sessionRow(ctx context.Context, st *store.Store, i store.Info, l store.Lease, damage error) (web.SessionRow, error) {
	row := web.SessionRow{ID: string(i.ID), Name: i.Name(), Title: render.CleanLine(i.Title), Project: render.CleanLine(i.Project), Agent: render.CleanLine(i.Agent),
		Model: render.CleanLine(i.Model), Tags: cleanAll(i.Tags), Turns: i.Nodes, Messages: i.Messages, UpdatedAt: i.UpdatedAt, State: i.State,
		Pinned: i.Pinned, OnHold: i.OnHold, Gone: !i.Gone.IsZero(), Shared: i.Owner != "", Machine: render.CleanLine(i.Machine)}
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
	row.End, err = sessionEnd(ctx, v.Store(), v, l)
	s.asks(ctx, row.ID, &row.End)
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

// asks makes the end of sessions that are talked in here one that waits for an answer.
func (s *Site) asks(ctx context.Context, id string, end *web.SessionEnd) {
	if end.Kind == web.EndLive && slices.Contains(s.api.Asking(ctx), tidemark.SessionID(id)) {
		end.Kind = web.EndAsks
	}
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
	asked := e.Role
	for _, b := range rewind.AsCall(e).Blocks {
		switch {
		case b.Type == tidemark.BlockToolUse:
			return web.SessionEnd{Kind: web.EndInterrupted, Who: render.CleanLine(b.Name)}
		case b.Type == tidemark.BlockToolResult && e.Role == tidemark.User && e.Blocks[0].Type == tidemark.BlockText:
			asked = "" // a command that the person ran: nobody was asked anything
		}
	}
	switch asked {
	case tidemark.User, tidemark.Tool:
		return web.SessionEnd{Kind: web.EndUnanswered}
	}
	return web.SessionEnd{Kind: web.EndDone}
}

// searchSessions searches titles and content.
func (s *Site) searchSessions(r *http.Request, l *listed) error {
	v, f := &l.view, l.f
	v.Searched = true
	q := store.Question{Agent: f.Agent, Project: f.Project, Tag: f.Tag, Since: f.Since, Trash: f.State == store.Trash, Limit: listHits, PerSession: shownHits,
		Tool: v.Tool, Model: v.Model, Role: v.Role, Until: l.until, Failed: v.Failed != "", Facets: true, After: l.q.Get("cursor"), Cost: v.Cost, Within: countGlance}
	if q.After != "" || l.q.Get("count") != "" || wantsJSON(r) {
		q.Within = hits.TypedPatience
	}
	l.q.Del("count") // what it leads to need not wait
	// What is not counted yet is counted meanwhile: nobody waits for it who did not
	// ask for it.
	if l.costs == nil && v.Cost == "" {
		l.costs, _ = s.surveyOf(r.Context(), 0)
	}
	if l.costs != nil {
		q.CostOf = l.costs.costOf
	}
	answer, err := ask(r.Context(), l.st, v.Query, q)
	if err == nil && q.Within == countGlance && (answer.Stopped || answer.Behind > 0) {
		q.Facets, q.Within = false, hits.TypedPatience
		if answer, err = ask(r.Context(), l.st, v.Query, q); len(answer.Hits) > 0 {
			v.Count = address("/sessions", l.q, "count", "all")
		}
	}
	if errors.Is(err, tidemark.ErrInvalid) {
		v.Problem = render.CleanLine(err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	v.Behind, v.LeftOut, v.Stopped = answer.Behind, answer.LeftOut, answer.Stopped
	v.Facets = facets(l.q, answer.Facets)
	if answer.Next != "" {
		v.Older = address("/sessions", l.q, "cursor", answer.Next)
	}
	if q.After != "" {
		v.Newest = address("/sessions", l.q, "cursor", "")
	}
	if answer.Damage != nil {
		v.Damage = render.CleanLine(answer.Damage.Error())
	}
	place := make(map[string]int)
	for i, g := range answer.Sessions {
		place[g.Name()] = i
		v.Found = append(v.Found, web.FoundSession{SessionRef: web.SessionRef{ID: string(g.Session), Name: g.Name(), Title: g.Title}, Project: g.Project, Agent: g.Agent, At: g.At, More: g.More})
	}
	if q.After == "" {
		if v.Called, err = called(r.Context(), l.st, v.Query); err != nil {
			return err
		}
	}
	for _, h := range answer.Hits {
		found := &v.Found[place[tidemark.SessionName(h.Owner, h.Session)]]
		hit := foundHit(h)
		hit.Find = v.Query
		found.Hits = append(found.Hits, hit)
	}
	return nil
}

// leastCalled is how long a word has to be to be looked up as an id: the ids that
// pages show are as long, and fewer words are taken for one.
const leastCalled = 8

// called is the session whose id, or id at another tool, is or begins with a word
// that somebody searched for; nil if there is none, or several.
func called(ctx context.Context, st *store.Store, word string) (*web.SessionRef, error) {
	if len(word) < leastCalled || !strings.ContainsAny(word, "0123456789") || strings.ContainsAny(word, " \t") {
		return nil, nil
	}
	p, err := st.Resolve(ctx, word, "")
	if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrInvalid) || errors.Is(err, tidemark.ErrCorrupt) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &web.SessionRef{ID: string(p.View.ID), Name: p.View.Name(), Title: render.CleanLine(p.View.Title)}, nil
}

// ask searches for what somebody is typing. The last word may be incomplete.
func ask(ctx context.Context, st *store.Store, text string, q store.Question) (hits.Answer, error) {
	query, err := search.ParseTyped(text)
	if err != nil {
		return hits.Answer{}, err
	}
	q.Within = cmp.Or(q.Within, hits.TypedPatience)
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
