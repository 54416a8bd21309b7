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
	"unicode"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
)

const (
	// shownSkips bounds those of a schedule on a page; the API has all.
	shownSkips = 3
	// recentJobs bounds those on the page of their agent; the list has all.
	recentJobs = 20
	// maxPrompt bounds a prompt in a form, as in the API.
	maxPrompt = 1 << 20
)

// fleetPages are the pages of the fleet, and its actions. Readers see no
// buttons, and are refused if they post anyway.
func (s *Site) fleetPages() {
	s.page("/fleet", request.Reader, s.fleetPage)
	s.page("/fleet/agents/{name}", request.Reader, s.agentPage)
	s.act("/fleet/agents/{name}/run", request.Writer, s.actRun)
	s.act("/fleet/agents/{name}/send", request.Writer, s.actSend)
	s.act("/fleet/agents/{name}/reset", request.Writer, s.actReset)
	s.act("/fleet/agents/{name}/schedules", request.Writer, s.actSchedule)
	s.page("/fleet/jobs", request.Reader, s.jobsPage)
	s.jobPages()
}

func (s *Site) fleetPage(r *http.Request) (view, error) {
	ctx := r.Context()
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return view{}, err
	}
	v := web.FleetView{Daemons: []web.DaemonItem{}, Agents: []web.AgentItem{}}
	daemons, err := st.Daemons(ctx)
	if err != nil {
		return view{}, err
	}
	for _, d := range daemons {
		if !d.Dead {
			v.Daemons = append(v.Daemons, web.DaemonItem{Node: render.CleanLine(d.Holder.Host), PID: d.Holder.PID, StartedAt: d.StartedAt})
		}
	}
	agents, err := st.AgentStates(ctx)
	if err != nil {
		return view{}, err
	}
	for _, a := range agents {
		v.Agents = append(v.Agents, agentItem(ctx, st, a))
		v.Poll.Live = v.Poll.Live || a.Status == tidemark.Running
	}
	if v.Schedules, err = scheduleItems(ctx, st, ""); err != nil {
		return view{}, err
	}
	if v.Waiting, err = waitingItems(ctx, st, ""); err != nil {
		return view{}, err
	}
	watched(&v.Poll, r, v.Waiting)
	return view{s.frame(r, "fleet"), v}, nil
}

func agentItem(ctx context.Context, st *fleet.Store, a tidemark.Agent) web.AgentItem {
	of := routes.AgentOf(ctx, st, a)
	of.ErrorMessage = render.Clean(of.ErrorMessage)
	return web.AgentItem{Agent: of.Agent, Node: render.CleanLine(of.Node)}
}

// scheduleItems are the schedules of an agent, or all, next due first.
func scheduleItems(ctx context.Context, st *fleet.Store, agent string) ([]web.ScheduleItem, error) {
	all := []web.ScheduleItem{}
	for d, err := range st.Schedules(ctx, agent) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return nil, err
		}
		item := web.ScheduleItem{Schedule: d, Skips: []web.SkipItem{}, Next: onClock(d.NextRunAt, d.Zone), Rhythm: rhythm(d.Every)}
		item.LastError, item.Prompt = render.Clean(d.LastError), render.Clean(d.Prompt)
		skips, err := st.Skips(ctx, d.Agent, d.Name, shownSkips)
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		for _, k := range skips {
			item.Skips = append(item.Skips, web.SkipItem{Instant: k.Instant, Until: k.Until, Count: k.Count, Reason: render.CleanLine(k.Reason)})
		}
		all = append(all, item)
	}
	slices.SortStableFunc(all, func(a, b web.ScheduleItem) int {
		return cmp.Or(compareDue(a.NextRunAt, b.NextRunAt), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// compareDue puts what is never due last.
func compareDue(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		if a.IsZero() {
			return 1
		}
		return -1
	}
	return a.Compare(b)
}

// onClock is an instant as a clock in a zone shows it; UTC if the zone is
// unknown.
func onClock(t time.Time, zone string) string {
	if t.IsZero() {
		return ""
	}
	where, err := time.LoadLocation(zone)
	if err != nil {
		where = time.UTC
	}
	return t.In(where).Format("Mon 2006-01-02 15:04:05 ") + where.String()
}

// rhythm is an interval without trailing zeros: 1h, not 1h0m0s.
func rhythm(every string) string {
	if text, ok := strings.CutSuffix(every, "m0s"); ok {
		every = text + "m"
	}
	if text, ok := strings.CutSuffix(every, "h0m"); ok {
		every = text + "h"
	}
	return every
}

// waitingItems are the calls that wait for an answer, of one job or of all.
// Those of a job that has ended can no longer be answered.
func waitingItems(ctx context.Context, st *fleet.Store, job string) ([]web.ReviewItem, error) {
	all := []web.ReviewItem{}
	waiting, err := st.WaitingReviews(ctx, job)
	if err != nil || len(waiting) == 0 {
		return all, err
	}
	running, err := st.Running(ctx, "")
	for _, v := range waiting {
		shown := v.Digest() // of what is kept, and not of what is left out here
		if !strings.ContainsFunc(v.Title, unicode.IsLetter) {
			v.Title = "" // the agent's own folder, which says nothing
		}
		if slices.Contains(running, v.Job) {
			all = append(all, web.ReviewItem{Job: v.Job, Agent: v.Agent, Call: v.Call, Shown: shown, Tool: render.CleanLine(v.Tool), Title: render.Clean(v.Title),
				Lines: webLines(render.ReviewLines(v.Text, v.Tool, v.Input, v.InputBytes)), AskedAt: v.AskedAt, UntilAt: v.UntilAt})
		}
	}
	return all, err
}

// webLines are the lines that a person decides about.
func webLines(lines []render.ApprovalLine) (all []web.Line) {
	for _, l := range lines {
		all = append(all, web.Line{Kind: string(l.Kind), Sign: l.Sign(), Text: l.Text})
	}
	return all
}

// agentNamed returns an agent that the address names, and the store of its
// fleet.
func (s *Site) agentNamed(r *http.Request) (*fleet.Store, tidemark.Agent, error) {
	st, err := s.stores.Fleet(r.Context())
	if err != nil {
		return nil, tidemark.Agent{}, err
	}
	a, err := st.Agent(r.Context(), r.PathValue("name"))
	return st, a, err
}

func (s *Site) agentPage(r *http.Request) (view, error) {
	ctx := r.Context()
	st, a, err := s.agentNamed(r)
	if err != nil {
		return view{}, err
	}
	v := web.AgentView{Agent: agentItem(ctx, st, a), Waiting: []web.ReviewItem{}, Jobs: []web.JobItem{}}
	v.Poll.Live = a.Status == tidemark.Running
	if a.Session != nil {
		v.Session = s.sessionHere(ctx, a.Session.ID)
	}
	if v.Schedules, err = scheduleItems(ctx, st, a.Name); err != nil {
		return view{}, err
	}
	v.Chat = slices.ContainsFunc(v.Schedules, func(d web.ScheduleItem) bool { return d.Type == "chat" && d.Status != tidemark.Disabled })
	waiting, err := waitingItems(ctx, st, "")
	if err != nil {
		return view{}, err
	}
	for _, w := range waiting {
		if w.Agent == a.Name {
			v.Waiting = append(v.Waiting, w)
		}
	}
	for j, err := range st.Jobs(ctx, fleet.JobFilter{Agent: a.Name, Limit: recentJobs}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return view{}, err
		}
		v.Jobs = append(v.Jobs, s.jobItem(j))
		v.Poll.Live = v.Poll.Live || j.Status == tidemark.JobPending
	}
	length, err := st.AgentLogLength(ctx, a.Name)
	if err != nil {
		return view{}, err
	}
	base := "/fleet/agents/" + url.PathEscape(a.Name)
	if v.Log, err = outputPart(r, st.NumberedAgentLog, a.Name, length, "/api/v1/agents/"+url.PathEscape(a.Name)+"/log", base); err != nil {
		return view{}, err
	}
	state := make([]string, len(v.Schedules))
	for i, d := range v.Schedules {
		state[i] = d.Name + " " + d.Status
	}
	watched(&v.Poll, r, v.Waiting, append(state, a.Status)...)
	f := s.frame(r, "agent")
	f.Title = a.Name
	return view{f, v}, nil
}

// sessionHere is the name of a session of the fleet, as in links, if the caller
// can read it: "" when the agent's own program keeps it or it is gone.
func (s *Site) sessionHere(ctx context.Context, id string) string {
	parsed, err := tidemark.ParseSessionID(id)
	if err != nil {
		return ""
	}
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return ""
	}
	if house, err := st.Of(request.CallerOf(ctx).Tenant); err == nil {
		if i, err := house.Session(ctx, parsed); err == nil {
			return i.Name()
		}
	}
	i, err := st.Session(ctx, parsed)
	if err != nil {
		return ""
	}
	return i.Name()
}

// formText is a field of a form that may have several lines.
func formText(r *http.Request, name string) (string, error) {
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return "", request.TooLarge(large.Limit)
		}
		return "", tidemark.Invalidf("the form cannot be read")
	}
	text := strings.TrimSpace(strings.ReplaceAll(r.PostForm.Get(name), "\r\n", "\n"))
	if len(text) > maxPrompt {
		return "", tidemark.Invalidf("%s: more than %d bytes", name, maxPrompt)
	}
	return text, nil
}

// said is the message on the page after an action.
func (s *Site) said(r *http.Request, name string, args ...any) string {
	return web.Say(s.frame(r, "fleet").Lang, "fleet.did."+name, args...)
}

func (s *Site) actRun(r *http.Request) (string, string, error) {
	st, a, err := s.agentNamed(r)
	if err != nil {
		return "", "", err
	}
	prompt, err := formText(r, "prompt")
	if err != nil {
		return "", "", err
	}
	j, err := st.RequestJob(r.Context(), fleet.JobRequest{Agent: a.Name, Prompt: prompt})
	return jobPath(j.ID), s.said(r, "run", j.ID), err
}

func (s *Site) actSend(r *http.Request) (string, string, error) {
	st, a, err := s.agentNamed(r)
	if err != nil {
		return "", "", err
	}
	text, err := formText(r, "text")
	if err != nil {
		return "", "", err
	}
	j, err := st.SendMessage(r.Context(), s.api.Asked(r.Context()), a.Name, text)
	return jobPath(j.ID), s.said(r, "send", a.Name, j.ID), err
}

func (s *Site) actReset(r *http.Request) (string, string, error) {
	st, a, err := s.agentNamed(r)
	if err == nil {
		err = st.ResetAgent(r.Context(), a.Name)
	}
	return agentPath(a.Name), s.said(r, "reset", a.Name), err
}

// actSchedule enables, disables or runs a schedule. Its name is in the form: it
// may contain characters that an address may not.
func (s *Site) actSchedule(r *http.Request) (string, string, error) {
	name, err := formText(r, "schedule")
	if err != nil {
		return "", "", err
	}
	st, d, err := s.api.ScheduleOf(r.Context(), routes.ScheduleInput{Agent: r.PathValue("name"), Name: name})
	if err != nil {
		return "", "", err
	}
	do := r.PostForm.Get("do")
	to := map[string]string{"enable": tidemark.Idle, "disable": tidemark.Disabled}[do]
	switch {
	case do == "run":
		j, err := st.RequestJob(r.Context(), fleet.JobRequest{Agent: d.Agent, Schedule: d.Name})
		return jobPath(j.ID), s.said(r, "run", j.ID), err
	case to == "":
		return "", "", tidemark.Invalidf("do: want enable, disable or run")
	}
	_, _, err = st.TurnSchedule(r.Context(), nil, d.Agent, d.Name, to)
	return agentPath(d.Agent), s.said(r, do, d.Agent+"/"+d.Name), err
}

func agentPath(name string) string { return "/fleet/agents/" + url.PathEscape(name) }
func jobPath(id string) string     { return "/fleet/jobs/" + url.PathEscape(id) }
