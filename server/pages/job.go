package pages

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/render"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// searchedAttempts is how many jobs of an agent are searched for other
// attempts of one.
const searchedAttempts = 200

func (s *Site) jobPages() {
	s.page("/fleet/jobs/{id}", request.Reader, s.jobPage)
	s.pages.HandleFunc("GET /fleet/jobs/{id}/live", s.jobLive)
	s.act("/fleet/jobs/{id}/cancel", request.Writer, s.actCancel)
	s.act("/fleet/jobs/{id}/retry", request.Writer, s.actRepeat(false))
	s.act("/fleet/jobs/{id}/fork", request.Writer, s.actRepeat(true))
	s.act("/fleet/jobs/{id}/answer", request.Writer, s.actAnswer)
}

func (s *Site) jobPage(r *http.Request) (view, error) {
	ctx := r.Context()
	st, j, err := s.api.JobOf(ctx, r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	v := web.JobView{Job: s.jobItem(j), Session: s.sessionHere(ctx, j.SessionID)}
	for _, model := range slices.Sorted(maps.Keys(j.Usage)) {
		v.Models = append(v.Models, web.ModelUsage{Model: render.CleanLine(model), Usage: j.Usage[model]})
	}
	if v.Attempts, err = s.attempts(ctx, st, j); err != nil {
		return view{}, err
	}
	if v.Waiting, err = waitingItems(ctx, st, j.ID); err != nil {
		return view{}, err
	}
	v.Job.Waits = len(v.Waiting) > 0
	length, err := st.OutputLength(ctx, j.ID)
	if err != nil {
		return view{}, err
	}
	if v.Output, err = outputPart(r, st.NumberedOutput, j.ID, length, "/api/v1/jobs/"+j.ID+"/output", jobPath(j.ID)); err != nil {
		return view{}, err
	}
	v.Poll.Live = j.Status == tidemark.JobRunning || j.Status == tidemark.JobPending
	watched(&v.Poll, r, v.Waiting, j.Status)
	f := s.frame(r, "job")
	f.Title = j.ID
	return view{f, v}, nil
}

// attempts are the attempts at one occurrence of a schedule, if there
// were several.
func (s *Site) attempts(ctx context.Context, st *fleet.Store, j tidemark.Job) ([]web.JobItem, error) {
	if j.Occurrence.IsZero() || j.Schedule == "" {
		return nil, nil
	}
	var all []web.JobItem
	for other, err := range st.Jobs(ctx, fleet.JobFilter{Agent: j.Agent, Limit: searchedAttempts}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return nil, err
		}
		if other.Schedule == j.Schedule && other.Occurrence.Equal(j.Occurrence) {
			all = append(all, s.jobItem(other))
		}
	}
	if len(all) < 2 {
		return nil, nil
	}
	slices.SortFunc(all, func(a, b web.JobItem) int { return a.Attempt - b.Attempt })
	return all, nil
}

// jobLive sends the output of a job as parts of its page, until it has ended.
func (s *Site) jobLive(w http.ResponseWriter, r *http.Request) {
	if !request.CallerOf(r.Context()).Role.May(request.Reader) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	st, j, err := s.api.JobOf(r.Context(), r.PathValue("id"))
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	after, _, err := routes.LastEvent(r)
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	f := s.frame(r, "job")
	s.api.Stream(w, r, s.besides(func(ctx context.Context, send func(routes.Event) error) error {
		for n, err := range st.FollowOutput(ctx, j.ID, after) {
			e, err := eventItem(n, err, "/api/v1/jobs/"+j.ID+"/output")
			if err != nil {
				return err
			}
			var part bytes.Buffer
			if err := web.Fragment(&part, f, "fleet-event", e); err != nil {
				return err
			}
			if err := send(routes.Event{ID: e.Seq, Data: template.HTML(part.String())}); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (s *Site) actCancel(r *http.Request) (string, string, error) {
	st, j, err := s.api.JobOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return "", "", err
	}
	ended, err := st.CancelJob(r.Context(), j.ID, s.api.Asked(r.Context()))
	said := "cancelling"
	if ended {
		said = "cancelled"
	}
	return jobPath(j.ID), s.said(r, said, j.ID), err
}

func (s *Site) actRepeat(fork bool) func(*http.Request) (string, string, error) {
	return func(r *http.Request) (string, string, error) {
		st, j, err := s.api.JobOf(r.Context(), r.PathValue("id"))
		if err != nil {
			return "", "", err
		}
		prompt, err := formText(r, "prompt")
		if err != nil {
			return "", "", err
		}
		next, err := st.RepeatJob(r.Context(), j.ID, prompt, fork)
		return jobPath(next.ID), s.said(r, "run", next.ID), err
	}
}

// actAnswer approves or denies a question of a job. The call is named in the
// form: a job names its calls as it likes.
func (s *Site) actAnswer(r *http.Request) (string, string, error) {
	st, j, err := s.api.JobOf(r.Context(), r.PathValue("id"))
	if err != nil {
		return "", "", err
	}
	reason, err := formText(r, "reason")
	if err != nil {
		return "", "", err
	}
	answer, call := r.PostForm.Get("answer"), r.PostForm.Get("call")
	if call == "" || answer != "approve" && answer != "deny" {
		return "", "", tidemark.Invalidf("a call and an answer, approve or deny, are needed")
	}
	if answer == "approve" {
		err = st.ApproveShown(r.Context(), j.ID, call, r.PostForm.Get("shown"), s.api.Asked(r.Context()))
	} else {
		_, err = st.AnswerReview(r.Context(), j.ID, call, false, s.api.Asked(r.Context()), reason)
	}
	if err != nil {
		return "", "", err
	}
	next := jobPath(j.ID)
	switch back := r.PostForm.Get("back"); {
	case back == "/fleet", strings.HasPrefix(back, "/fleet/agents/") && back == agentPath(j.Agent):
		next = back
	}
	return next, s.said(r, answer, j.Agent), nil
}
