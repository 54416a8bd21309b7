package pages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
)

const (
	// listedJobs are those on one page of the list.
	listedJobs = 50
	// drawnJobs bounds those that are read for one picture, and tableJobs those
	// in the table below it.
	drawnJobs = 5000
	tableJobs = 100
)

// spans are how far back a list or a picture of jobs may go.
var spans = map[string]time.Duration{"1h": time.Hour, "6h": 6 * time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour}

// waitsForAnswer, in the place of a status, is that of running jobs of which a call
// waits for somebody's answer.
const waitsForAnswer = "waits"

var jobStatuses = append(tidemark.JobStatuses(), waitsForAnswer)

// jobItem is a job as a page shows it.
func (s *Site) jobItem(j tidemark.Job) web.JobItem {
	j = routes.Shown(j)
	for _, text := range []*string{&j.ErrorMessage, &j.Prompt, &j.Summary} {
		*text = render.Clean(*text)
	}
	for _, text := range []*string{&j.Status, &j.ExitReason, &j.Trigger, &j.Schedule, &j.Node, &j.SessionID, &j.ForkedFrom} {
		*text = render.CleanLine(*text)
	}
	item := web.JobItem{Job: j}
	switch {
	case j.Status == tidemark.JobRunning:
		item.Took = max(s.o.Now().Sub(j.StartedAt), 0)
	case !j.FinishedAt.IsZero():
		item.Took = max(j.FinishedAt.Sub(j.StartedAt), 0)
	}
	return item
}

// markWaiting tells which of the running jobs wait for somebody.
func markWaiting(ctx context.Context, st *fleet.Store, items []web.JobItem, running []string) error {
	if len(running) == 0 {
		return nil
	}
	waiting, err := st.WaitingReviews(ctx, "")
	for i := range items {
		items[i].Waits = slices.Contains(running, items[i].ID) && slices.ContainsFunc(waiting, func(w fleet.Review) bool { return w.Job == items[i].ID })
	}
	return err
}

// jobsWanted reads what the address of the page requests.
func jobsWanted(r *http.Request) (web.JobsView, error) {
	q := r.URL.Query()
	v := web.JobsView{Items: []web.JobItem{}, Agents: []string{}, Agent: q.Get("agent"), Status: q.Get("status"), Since: q.Get("since"), View: q.Get("view"), By: q.Get("by"), Node: q.Get("node")}
	if v.View == "" {
		v.View = "list"
	}
	if v.View == "timeline" {
		if v.By == "" {
			v.By = "agent"
		}
		if v.Since == "" {
			v.Since = "24h"
		}
	} else {
		v.By = ""
	}
	switch {
	case v.View != "list" && v.View != "timeline":
		return v, tidemark.Invalidf("view: want list or timeline")
	case v.By != "" && v.By != "agent" && v.By != "node":
		return v, tidemark.Invalidf("by: want agent or node")
	case v.Since != "" && spans[v.Since] == 0:
		return v, tidemark.Invalidf("since: want 1h, 6h, 24h or 7d")
	case v.Status != "" && !slices.Contains(jobStatuses, v.Status):
		return v, tidemark.Invalidf("status: want one of %s", jobStatuses)
	case v.Agent != "" && tidemark.CheckID(v.Agent) != nil:
		return v, tidemark.Invalidf("agent: not a name")
	case v.View == "timeline":
		v.Node = ""
		return v, nil // it shows all bars
	}
	var err error
	v.OfBar, err = barWanted(q)
	return v, err
}

// barWanted reads which bar of the timeline the jobs of a list share, nil for none.
func barWanted(q url.Values) (*web.OfBar, error) {
	started := q.Get("started")
	if started == "" {
		return nil, nil
	}
	of := &web.OfBar{Runs: q.Get("runs") == "yes"}
	from, to, ok := strings.Cut(started, "..")
	var err error
	if of.From, err = time.Parse(time.RFC3339, from); err == nil {
		of.To, err = time.Parse(time.RFC3339, to)
	}
	if err != nil || !ok {
		return nil, tidemark.Invalidf("started %.80q: want two times like 2026-11-15T12:00:00Z..2026-11-15T13:00:00Z", started)
	}
	if under := q.Get("under"); under != "" {
		if of.Under, err = time.ParseDuration(under); err != nil || of.Under <= 0 {
			return nil, tidemark.Invalidf("under %.40q: want a time like 20m", under)
		}
	}
	return of, nil
}

// narrows reports whether a list has less than what the fleet keeps by agent and status.
func narrows(v *web.JobsView) bool { return v.Node != "" || v.OfBar != nil }

// listsJob reports whether a job is on the node and of the bar that a list is about.
func listsJob(v *web.JobsView, j web.JobItem, now time.Time) bool {
	return (v.Node == "" || v.Node == cmp.Or(j.Node, web.NoNode)) && (v.OfBar == nil || v.OfBar.Has(j, now))
}

func (s *Site) jobsPage(r *http.Request) (view, error) {
	ctx := r.Context()
	v, err := jobsWanted(r)
	if err != nil {
		return view{}, err
	}
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return view{}, err
	}
	for a, err := range st.Agents(ctx) {
		if err == nil {
			v.Agents = append(v.Agents, a.Name)
		} else if !errors.Is(err, tidemark.ErrCorrupt) {
			return view{}, err
		}
	}
	if v.Agent != "" && !slices.Contains(v.Agents, v.Agent) {
		v.Agents = append(v.Agents, v.Agent) // it may be gone and still have jobs
	}
	slices.SortFunc(v.Agents, text.Compare)
	now := s.o.Now()
	if v.View == "timeline" {
		err = s.drawJobs(ctx, st, &v, now)
	} else {
		err = s.listJobItems(r, st, &v, now)
	}
	if err != nil {
		return view{}, err
	}
	running, err := st.Running(ctx, "")
	if err != nil {
		return view{}, err
	}
	v.Poll.Live = len(running) > 0
	if err := markWaiting(ctx, st, v.Items, running); err != nil {
		return view{}, err
	}
	watched(&v.Poll, r, nil)
	return view{s.frame(r, "jobs"), v}, nil
}

// listJobItems gathers one page of the list.
func (s *Site) listJobItems(r *http.Request, st *fleet.Store, v *web.JobsView, now time.Time) error {
	if v.Status == waitsForAnswer {
		return s.waitingJobs(r.Context(), st, v)
	}
	caller := request.CallerOf(r.Context())
	var after fleet.Mark
	if text := r.URL.Query().Get("cursor"); text != "" {
		if err := s.api.ParseCursor(caller, text, &after); err != nil {
			return err
		}
		v.Cursor = true
	}
	last := after
	f := fleet.JobFilter{Agent: v.Agent, Status: v.Status, Limit: listedJobs + 1}
	if narrows(v) {
		f.Limit = 0
	}
	for j, err := range st.JobsAfter(r.Context(), f, after) {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			continue // verify reports it
		case err != nil:
			return err
		case v.Since != "" && j.Mark.At.Before(now.Add(-spans[v.Since])):
			return nil // all that follow changed even longer ago
		}
		item := s.jobItem(j.Job)
		if !listsJob(v, item, now) {
			continue
		}
		if len(v.Items) == listedJobs {
			v.Next = s.api.Cursor(caller, last)
			return nil
		}
		v.Items, last = append(v.Items, item), j.Mark
	}
	return nil
}

// drawJobs gathers the jobs of a picture: what changed in its time, and what
// runs, however long it has.
func (s *Site) drawJobs(ctx context.Context, st *fleet.Store, v *web.JobsView, now time.Time) error {
	from := now.Add(-spans[v.Since])
	if v.Status == waitsForAnswer {
		if err := s.waitingJobs(ctx, st, v); err != nil {
			return err
		}
		s.draw(v, from, now)
		return nil
	}
	drawn := make(map[string]bool)
	add := func(j tidemark.Job) {
		if !drawn[j.ID] {
			drawn[j.ID] = true
			v.Items = append(v.Items, s.jobItem(j))
		}
	}
	running, err := st.Running(ctx, v.Agent)
	if err != nil {
		return err
	}
	for _, id := range running {
		j, err := st.Job(ctx, id)
		if err == nil && (v.Status == "" || v.Status == j.Status) {
			add(j)
		}
	}
	for j, err := range st.JobsAfter(ctx, fleet.JobFilter{Agent: v.Agent, Status: v.Status}, fleet.Mark{}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return err
		}
		if j.Mark.At.Before(from) {
			break
		}
		if len(v.Items) >= drawnJobs {
			v.Cut = true
			break
		}
		add(j.Job)
	}
	s.draw(v, from, now)
	return nil
}

// waitingJobs gathers the jobs of which a call waits for an answer, whenever they
// changed last: who looks for them wants all.
func (s *Site) waitingJobs(ctx context.Context, st *fleet.Store, v *web.JobsView) error {
	waiting, err := waitingItems(ctx, st, "")
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, w := range waiting {
		if seen[w.Job] || v.Agent != "" && w.Agent != v.Agent {
			continue
		}
		seen[w.Job] = true
		j, err := st.Job(ctx, w.Job)
		if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
			continue // it has ended meanwhile; verify reports damage
		}
		if err != nil {
			return err
		}
		if item := s.jobItem(j); listsJob(v, item, s.o.Now()) {
			v.Items = append(v.Items, item)
		}
	}
	slices.SortFunc(v.Items, func(a, b web.JobItem) int { return b.StartedAt.Compare(a.StartedAt) })
	return nil
}

// draw makes the picture of the jobs that were gathered, and leaves those of the
// table.
func (s *Site) draw(v *web.JobsView, from, now time.Time) {
	slices.SortFunc(v.Items, func(a, b web.JobItem) int { return b.StartedAt.Compare(a.StartedAt) })
	lane := func(j web.JobItem) string { return j.Agent }
	if v.By == "node" {
		lane = func(j web.JobItem) string { return j.Node }
	}
	v.Timeline = web.NewTimeline(slices.Clone(v.Items), from, now, lane)
	v.Drawn = len(v.Items)
	v.Items = v.Items[:min(v.Drawn, tableJobs)]
}

// watched records the state of a page's forms, and whether the requesting
// page still has that state.
func watched(p *web.Poll, r *http.Request, waiting []web.ReviewItem, more ...string) {
	h := sha256.New()
	for _, w := range waiting {
		h.Write([]byte(w.Job + "\x00" + w.Call + "\x00"))
	}
	for _, m := range more {
		h.Write([]byte(m + "\x00"))
	}
	p.State = hex.EncodeToString(h.Sum(nil)[:6])
	q := r.URL.Query()
	p.Changed = q.Has("was") && q.Get("was") != p.State
	p.Live = p.Live || len(waiting) > 0
	q.Set("was", p.State)
	p.Path = r.URL.Path + "?" + q.Encode()
}
