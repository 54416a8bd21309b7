package api

import (
	"context"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// snippetWidth is how much of an entry is shown around a match.
const snippetWidth = 160

// findRoutes are those that search all sessions.
func (s *Server) findRoutes() {
	huma.Register(s.huma, op("GET", "/api/v1/search", "search", "Find entries by their words", "find", request.Reader), s.search)
	huma.Register(s.huma, op("GET", "/api/v1/resolve", "resolve", "What a reference means", "find", request.Reader), s.resolve)
	huma.Register(s.huma, op("GET", "/api/v1/stats", "stats", "Count tokens, cost, turns, messages and sessions", "find", request.Reader), s.stats)
}

type searchInput struct {
	Q       string `query:"q" required:"true" minLength:"1" maxLength:"4096" doc:"words; 'exact text', ^beginning, !without, one | other"`
	Limit   int    `query:"limit" minimum:"1" default:"20" doc:"how many, at most"`
	Session string `query:"session" maxLength:"80" doc:"only in this session: ID, or OWNER:ID"`
	Role    string `query:"role" enum:"system,user,assistant,tool,title,label,tag" doc:"what is of this role, or a title, a label or a tag"`
	Agent   string `query:"agent" maxLength:"256"`
	Project string `query:"project" maxLength:"4096"`
	Since   string `query:"since" maxLength:"40" doc:"written since this date or RFC 3339 time"`
	Trash   bool   `query:"trash" doc:"what is in the trash"`
}

// SearchHit is one thing that was found.
type SearchHit struct {
	Ref     string             `json:"ref" doc:"leads to the entry: SESSION@12, OWNER:SESSION@12 in a session that OWNER shared"`
	Session tidemark.SessionID `json:"session"`
	Owner   string             `json:"owner,omitempty" doc:"whose the session is, when it is another's"`
	Title   string             `json:"title,omitempty"`
	Seq     int64              `json:"seq,omitempty"`
	Worker  string             `json:"worker,omitempty"`
	Role    string             `json:"role"`
	At      time.Time          `json:"at"`
	Snippet string             `json:"snippet"`
	Marks   [][2]int           `json:"marks" nullable:"false" doc:"the bytes of the snippet that were asked for: from, to"`
}

type searchOutput struct {
	Body struct {
		Items  []SearchHit `json:"items" nullable:"false"`
		Cut    bool        `json:"cut,omitempty" doc:"there may be more"`
		Behind int64       `json:"behind,omitempty" doc:"entries that are not indexed yet and were not searched"`
		Damage string      `json:"damage,omitempty" doc:"the first thing that could not be read"`
	}
}

func (s *Server) search(ctx context.Context, in *searchInput) (*searchOutput, error) {
	query, err := search.Parse(in.Q)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	q := store.Question{Role: in.Role, Agent: in.Agent, Project: in.Project, Trash: in.Trash, Limit: s.limit(in.Limit)}
	if q.Since, err = timeOf("since", in.Since); err != nil {
		return nil, request.Fail(ctx, err)
	}
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if in.Session != "" {
		of, v, err := s.View(ctx, in.Session)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		st, q.Session = of, v.ID
	}
	answer, err := st.Search(ctx, q.About(query))
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	var out searchOutput
	out.Body.Items = []SearchHit{}
	for _, f := range answer.Found {
		out.Body.Items = append(out.Body.Items, HitOf(query, f))
	}
	out.Body.Cut, out.Body.Behind = answer.Cut, answer.Behind
	if answer.Damage != nil {
		out.Body.Damage = answer.Damage.Error()
	}
	return &out, nil
}

// HitOf is a search result in its wire form.
func HitOf(query search.Query, f store.Found) SearchHit {
	h := SearchHit{Ref: f.Ref(), Session: f.Info.ID, Owner: f.Info.Owner, Title: f.Info.Title, Seq: f.Seq, Worker: f.Worker, At: f.At, Role: f.Entry.Kind}
	if f.Entry.Role != "" {
		h.Role = string(f.Entry.Role)
	}
	var marks [][2]int
	h.Snippet, marks = query.Snippet(render.Clean(search.Text(f.Entry)), snippetWidth)
	h.Marks = append([][2]int{}, marks...)
	return h
}

type resolveInput struct {
	Ref     string `query:"ref" required:"true" minLength:"1" maxLength:"1100" doc:"an id, the beginning of one, a title, a foreign id, last or @-2, each with @n3, @12, @label or ~2 behind it, and with OWNER: before it for a session that OWNER shared"`
	Project string `query:"project" maxLength:"4096" doc:"in which last and @-2 count"`
}

type resolveOutput struct {
	Body struct {
		Ref     string             `json:"ref" doc:"the same, in a form that stays true"`
		Session tidemark.SessionID `json:"session"`
		Owner   string             `json:"owner,omitempty" doc:"whose the session is, when it is another's"`
		Seq     int64              `json:"seq,omitempty" doc:"the entry; absent: the head"`
		Title   string             `json:"title,omitempty"`
		State   string             `json:"state"`
	}
}

func (s *Server) resolve(ctx context.Context, in *resolveInput) (*resolveOutput, error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	p, err := st.Resolve(ctx, in.Ref, in.Project)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	var out resolveOutput
	b := &out.Body
	b.Ref, b.Session, b.Owner, b.Seq, b.Title, b.State = p.Name(), p.ID, p.Owner, p.Seq, p.Title, p.State
	if p.Seq > 0 {
		b.Ref += "@" + strconv.FormatInt(p.Seq, 10)
	}
	return &out, nil
}

type statsInput struct {
	By    string `query:"by" enum:"day,model,agent,project" doc:"a row for each of them; one row when absent"`
	Since string `query:"since" maxLength:"40" doc:"what was said since this date or RFC 3339 time"`
	Zone  string `query:"zone" maxLength:"64" doc:"the time zone of the days, such as Europe/Oslo; UTC when absent"`
}

type statsOutput struct {
	Body struct {
		Items   []store.Tally `json:"items" nullable:"false"`
		Damaged int           `json:"damaged,omitempty" doc:"how many things could not be read and are left out"`
	}
}

func (s *Server) stats(ctx context.Context, in *statsInput) (*statsOutput, error) {
	since, err := timeOf("since", in.Since)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	zone, err := time.LoadLocation(in.Zone)
	if err != nil || in.Zone == "Local" {
		return nil, request.Fail(ctx, tidemark.Invalidf("zone %.64q: not known", in.Zone))
	}
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	var out statsOutput
	rows, err := st.Count(ctx, store.Counting{By: in.By, Zone: zone, Since: since, Damaged: func(error) { out.Body.Damaged++ }})
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	out.Body.Items = []store.Tally{}
	for _, t := range rows {
		out.Body.Items = append(out.Body.Items, *t)
	}
	return &out, nil
}
