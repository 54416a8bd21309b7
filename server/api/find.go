package api

import (
	"context"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
)

// findRoutes are those that search all sessions.
func (s *Server) findRoutes() {
	huma.Register(s.huma, op("GET", "/api/v1/search", "search", "Find entries by their words", "find", request.Reader), s.search)
	huma.Register(s.huma, op("GET", "/api/v1/resolve", "resolve", "What a reference means", "find", request.Reader), s.resolve)
	huma.Register(s.huma, op("GET", "/api/v1/stats", "stats", "Count tokens, cost, turns, messages and sessions", "find", request.Reader), s.stats)
}

type searchInput struct {
	Q          string `query:"q" required:"true" minLength:"1" maxLength:"4096" doc:"words; 'exact text', ^beginning, !without, one | other"`
	Limit      int    `query:"limit" minimum:"1" default:"20" doc:"how many, at most"`
	Cursor     string `query:"cursor" maxLength:"8192" doc:"next of the answer before, to the same question"`
	PerSession int    `query:"per_session" minimum:"0" doc:"how many hits of one session are listed; the others are counted in sessions; 0: all"`
	Facets     bool   `query:"facets" doc:"also count all hits by role, project, agent, tool, model, tag, day and error; not with a cursor"`
	Session    string `query:"session" maxLength:"80" doc:"only in this session: ID, or OWNER:ID"`
	Role       string `query:"role" enum:"system,user,assistant,tool,context,compaction,title,label,tag,any" doc:"what is of this role or kind; context, system texts and compactions are found only when they are asked for, and any is everything"`
	Agent      string `query:"agent" maxLength:"256"`
	Project    string `query:"project" maxLength:"4096"`
	Tag        string `query:"tag" maxLength:"1024" doc:"in sessions with this tag, or with this label somewhere"`
	Tool       string `query:"tool" maxLength:"256" doc:"in sessions that came from this tool; tidemark: begun here"`
	Model      string `query:"model" maxLength:"256" doc:"said by this model, or in a session of it"`
	Since      string `query:"since" maxLength:"40" doc:"written since this date or RFC 3339 time"`
	Until      string `query:"until" maxLength:"40" doc:"written before this date or RFC 3339 time"`
	Failed     bool   `query:"failed" doc:"only what tells of an error"`
	Trash      bool   `query:"trash" doc:"what is in the trash"`
}

type searchOutput struct {
	Body struct {
		Items    []hits.Hit       `json:"items" nullable:"false" doc:"titles first, then what was said, then the rest; the newest first in each"`
		Next     string           `json:"next,omitempty" doc:"there is more: the cursor to go on with"`
		Sessions []hits.InSession `json:"sessions,omitempty" doc:"the sessions of the items, in their order"`
		LeftOut  *store.Count     `json:"left_out,omitempty" doc:"hits in context, system texts and compactions, which were not asked for; only without a cursor"`
		Facets   []store.Facet    `json:"facets,omitempty"`
		Cut      bool             `json:"cut,omitempty" doc:"there is more, or may be"`
		Stopped  bool             `json:"stopped,omitempty" doc:"it took too long: not everything was looked at"`
		Until    *time.Time       `json:"until,omitempty" doc:"when it was stopped: how far back it looked"`
		Behind   int64            `json:"behind,omitempty" doc:"entries that are not indexed yet and were not searched"`
		Damage   string           `json:"damage,omitempty" doc:"the first thing that could not be read"`
	}
}

func (s *Server) search(ctx context.Context, in *searchInput) (*searchOutput, error) {
	query, err := search.Parse(in.Q)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	q := store.Question{Role: in.Role, Agent: in.Agent, Project: in.Project, Tag: in.Tag, Tool: in.Tool, Model: in.Model, Failed: in.Failed, Trash: in.Trash, Limit: s.limit(in.Limit),
		PerSession: in.PerSession, After: in.Cursor, Facets: in.Facets, Within: hits.Patience}
	if q.Since, err = timeOf("since", in.Since); err != nil {
		return nil, request.Fail(ctx, err)
	}
	if q.Until, err = timeOf("until", in.Until); err != nil {
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
	answer, err := hits.Search(ctx, st, query, q, hits.Width)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	var out searchOutput
	b := &out.Body
	b.Items, b.Next, b.Sessions, b.Facets = answer.Hits, answer.Next, answer.Sessions, answer.Facets
	b.Cut, b.Stopped, b.Behind = answer.Cut, answer.Stopped, answer.Behind
	if answer.LeftOut.N > 0 {
		b.LeftOut = &answer.LeftOut
	}
	if answer.Stopped && !answer.Until.IsZero() {
		b.Until = &answer.Until
	}
	if answer.Damage != nil {
		b.Damage = answer.Damage.Error()
	}
	return &out, nil
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
