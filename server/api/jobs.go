package api

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// JobInput is the job that a call is about.
type JobInput struct {
	ID string `path:"id" maxLength:"128"`
}

// OutputInput says which part of a log is wanted.
type OutputInput struct {
	Offset int64 `query:"offset" minimum:"0" doc:"how many events to leave out at the beginning"`
	Limit  int   `query:"limit" minimum:"1" default:"200" doc:"how many, at most"`
	Newest int   `query:"newest" minimum:"0" doc:"only the newest so many; offset does not count then"`
}

// maxPageBytes bounds the size of a page of output; a page has fewer events
// rather than more bytes.
const maxPageBytes = 4 << 20

func (s *Server) jobRoutes() {
	huma.Register(s.huma, op("GET", "/api/v1/jobs", "list-jobs", "List jobs, the one that changed last first", fleetGroup, request.Reader), s.listJobs)
	huma.Register(s.huma, op("GET", "/api/v1/jobs/{id}", "get-job", "Show a job", fleetGroup, request.Reader), s.getJob)
	huma.Register(s.huma, op("POST", "/api/v1/jobs/{id}/cancel", "cancel-job", "End a job, wherever it runs", fleetGroup, request.Writer), s.cancelJob)
	huma.Register(s.huma, s.takes(made(op("POST", "/api/v1/jobs/{id}/retry", "retry-job", "Do a job once more, in its session", fleetGroup, request.Writer))), s.repeatJob(false))
	huma.Register(s.huma, s.takes(made(op("POST", "/api/v1/jobs/{id}/fork", "fork-job", "Do a job once more, in a copy of its session", fleetGroup, request.Writer))), s.repeatJob(true))
	huma.Register(s.huma, op("GET", "/api/v1/jobs/{id}/output", "get-job-output", "What a job put out", fleetGroup, request.Reader), s.jobOutput)
	huma.Register(s.huma, asStream(op("GET", "/api/v1/jobs/{id}/output/stream", "stream-job-output",
		"What a job puts out, as it comes, until the job has ended", fleetGroup, request.Reader)), s.streamOutput)
	huma.Register(s.huma, op("GET", "/api/v1/jobs/{id}/reviews", "list-reviews", "What a job asks, answered or not", fleetGroup, request.Reader), s.listReviews)
	huma.Register(s.huma, op("POST", "/api/v1/jobs/{id}/reviews/{call}", "answer-review", "Approve or deny what a job asks", fleetGroup, request.Writer), s.answerReview)
}

// asStream describes an answer that is a stream of events.
func asStream(o huma.Operation) huma.Operation {
	o.Description = "Server-sent events. Each has its place as its id; Last-Event-ID, or ?after=, says where to go on."
	o.Responses = map[string]*huma.Response{"200": {Description: "events", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}}
	return o
}

// Shown is a job as callers see it: how to find its process is only for its
// owner.
func Shown(j tidemark.Job) tidemark.Job {
	j.Process = nil
	return j
}

// JobOf returns a job of the caller's fleet, and the store that it is in.
func (s *Server) JobOf(ctx context.Context, id string) (*fleet.Store, tidemark.Job, error) {
	if err := tidemark.CheckID(id); err != nil {
		return nil, tidemark.Job{}, tidemark.NotFoundf("job %.40q: not found", id)
	}
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, tidemark.Job{}, err
	}
	j, err := st.Job(ctx, id)
	return st, Shown(j), err
}

func (s *Server) listJobs(ctx context.Context, in *struct {
	PageInput
	Agent  string `query:"agent" maxLength:"128" doc:"jobs of this agent"`
	Status string `query:"status" enum:"pending,running,completed,failed,cancelled,interrupted,abandoned"`
}) (*madeOf[Page[tidemark.Job]], error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	var after fleet.Mark
	caller := request.CallerOf(ctx)
	if in.Cursor != "" {
		if err := s.ParseCursor(caller, in.Cursor, &after); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	limit := s.limit(in.Limit)
	out := &madeOf[Page[tidemark.Job]]{Body: Page[tidemark.Job]{Items: []tidemark.Job{}}}
	for j, err := range st.JobsAfter(ctx, fleet.JobFilter{Agent: in.Agent, Status: in.Status, Limit: limit + 1}, after) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		if len(out.Body.Items) == limit {
			out.Body.Next = s.Cursor(caller, after)
			break
		}
		out.Body.Items, after = append(out.Body.Items, Shown(j.Job)), j.Mark
	}
	return out, nil
}

func (s *Server) getJob(ctx context.Context, in *struct {
	JobInput
	NoneMatch
}) (*tagged[tidemark.Job], error) {
	_, j, err := s.JobOf(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return oneThing(j, contentTag(j), in.IfNoneMatch), nil
}

func (s *Server) cancelJob(ctx context.Context, in *JobInput) (*madeOf[api.Cancelled], error) {
	st, _, err := s.JobOf(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	ended, err := st.CancelJob(ctx, in.ID, s.Asked(ctx))
	return &madeOf[api.Cancelled]{api.Cancelled{ID: in.ID, Ended: ended}}, request.Fail(ctx, err)
}

type repeatInput struct {
	JobInput
	Body *api.RepeatJob
}

func (s *Server) repeatJob(fork bool) func(context.Context, *repeatInput) (*madeOf[tidemark.Job], error) {
	return func(ctx context.Context, in *repeatInput) (*madeOf[tidemark.Job], error) {
		st, _, err := s.JobOf(ctx, in.ID)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		prompt := ""
		if in.Body != nil {
			prompt = in.Body.Prompt
		}
		j, err := st.RepeatJob(ctx, in.ID, prompt, fork)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		return &madeOf[tidemark.Job]{Shown(j)}, nil
	}
}

// span is the requested part of a log of this length.
func (in OutputInput) span(s *Server, length int64) tidemark.Span {
	if in.Newest > 0 {
		return tidemark.Span{To: length, Newest: s.limit(in.Newest)}
	}
	from := min(in.Offset, length) + 1
	return tidemark.Span{From: from, To: min(from+int64(s.limit(in.Limit))-1, length)}
}

// eventOf is an event in its wire form. A damaged one says so in its place, so
// that none seems to be missing.
func eventOf(e fleet.Numbered, err error) (api.OutputEvent, error) {
	if errors.Is(err, tidemark.ErrCorrupt) {
		e.Event = tidemark.Event{Type: tidemark.EventError, Code: "corrupt", Message: "this event is damaged", Timestamp: e.Timestamp}
		err = nil
	}
	return api.OutputEvent{Seq: e.Seq, Event: e.Event}, err
}

// outputOf is a page of events.
func outputOf(events iter.Seq2[fleet.Numbered, error], length int64) (*madeOf[api.JobOutput], error) {
	out := &madeOf[api.JobOutput]{Body: api.JobOutput{Items: []api.OutputEvent{}, Length: length}}
	if length == 0 {
		return out, nil // a span up to 0 would mean the newest
	}
	bytes := 0
	for n, err := range events {
		e, err := eventOf(n, err)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		if bytes += len(b); bytes > maxPageBytes && len(out.Body.Items) > 0 {
			break
		}
		out.Body.Items = append(out.Body.Items, e)
	}
	if n := len(out.Body.Items); n > 0 && out.Body.Items[n-1].Seq < length {
		out.Body.Next = out.Body.Items[n-1].Seq
	}
	return out, nil
}

func (s *Server) jobOutput(ctx context.Context, in *struct {
	JobInput
	OutputInput
}) (*madeOf[api.JobOutput], error) {
	st, _, err := s.JobOf(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	length, err := st.OutputLength(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	out, err := outputOf(st.NumberedOutput(ctx, in.ID, in.span(s, length)), length)
	return out, request.Fail(ctx, err)
}

func (s *Server) streamOutput(ctx context.Context, in *struct {
	JobInput
	Last  string `header:"Last-Event-ID" doc:"the last event that the client saw"`
	After string `query:"after" doc:"the same, for clients that cannot set a header"`
}) (*huma.StreamResponse, error) {
	st, _, err := s.JobOf(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		after, _, err := LastEvent(r)
		if err != nil {
			request.AnswerProblem(w, err)
			return
		}
		s.Stream(w, r, func(ctx context.Context, send func(Event) error) error {
			for n, err := range st.FollowOutput(ctx, in.ID, after) {
				e, err := eventOf(n, err)
				if err == nil {
					err = send(Event{ID: e.Seq, Data: e})
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}}, nil
}

func (s *Server) listReviews(ctx context.Context, in *struct {
	JobInput
	PageInput
}) (*madeOf[Page[fleet.Review]], error) {
	st, _, err := s.JobOf(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	all, err := st.Reviews(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return pageOf(s, ctx, all, in.PageInput)
}

func (s *Server) answerReview(ctx context.Context, in *struct {
	JobInput
	Call string `path:"call" maxLength:"512"`
	Body api.ReviewAnswer
}) (*madeOf[api.ReviewAnswered], error) {
	st, _, err := s.JobOf(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if in.Call == "" {
		return nil, request.Fail(ctx, &api.Problem{Status: http.StatusNotFound, Title: "Not Found", Code: "not_found", Detail: "no call is named"})
	}
	out := api.ReviewAnswered{Job: in.ID, Call: in.Call, State: fleet.ReviewDenied}
	allow := in.Body.Answer == "approve"
	if allow {
		out.State = fleet.ReviewApproved
	}
	if allow && in.Body.Shown != "" {
		err = st.ApproveShown(ctx, in.ID, in.Call, in.Body.Shown, s.Asked(ctx))
	} else {
		_, err = st.AnswerReview(ctx, in.ID, in.Call, allow, s.Asked(ctx), in.Body.Reason)
	}
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &madeOf[api.ReviewAnswered]{out}, nil
}
