package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/render"
)

// Questions of fleet jobs are answered by a person. The model at the other end
// can raise one and cannot answer it: the question goes to the person in front
// of the client, as an elicitation, with everything that would be done. An
// answer holds for that one call, bound to the hash of what was shown.

func (r *room) reviewTools(s *sdk.Server) {
	tool(r, s, sdk.Tool{Name: "list_reviews", Title: "List what jobs ask", Annotations: readOnly(),
		Description: `Lists the calls of tools that jobs of the fleet wait for an answer to, the one that waits longest first, with all that each would do.`}, r.listReviews)
}

// answeringTool adds the tool through which a person answers.
func (r *room) answeringTool(s *sdk.Server) {
	closed, destroys := false, true
	sdk.AddTool(s, &sdk.Tool{Name: answerReview, Title: "Have the user answer what a job asks",
		Annotations: &sdk.ToolAnnotations{Title: "Have the user answer what a job asks", DestructiveHint: &destroys, OpenWorldHint: &closed},
		Description: `Asks the user, in their client, whether a job of the fleet may make one call of a tool, and shows them all of it. You do not answer, and nothing is approved without them.`},
		func(ctx context.Context, req *sdk.CallToolRequest, in answerReviewIn) (*sdk.CallToolResult, answerReviewOut, error) {
			question, out, err := r.answerReview(ctx, req, in)
			switch {
			case err != nil:
				return nil, out, r.tell(ctx, err)
			case question != nil:
				return question, out, nil
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: out.text()}}}, out, nil
		})
}

const answerReview = "answer_review"

type listReviewsIn struct {
	Job string `json:"job,omitempty" jsonschema:"only what this job asks"`
}

type waitingReview struct {
	Job     string    `json:"job"`
	Call    string    `json:"call"`
	Agent   string    `json:"agent,omitempty"`
	Text    string    `json:"text" jsonschema:"everything that it would do, as a person is shown it"`
	AskedAt time.Time `json:"asked_at"`
	UntilAt time.Time `json:"until_at,omitzero" jsonschema:"it is denied then"`
}

type listReviewsOut struct {
	Reviews []waitingReview `json:"reviews"`
	More    bool            `json:"more,omitempty" jsonschema:"there are more: ask for those of one job, or answer some"`
}

func (o listReviewsOut) text() string {
	if len(o.Reviews) == 0 {
		return "Nothing waits for an answer.\n"
	}
	var b strings.Builder
	for _, v := range o.Reviews {
		fmt.Fprintf(&b, "%s %s of %s:\n%s\n", v.Job, v.Call, v.Agent, v.Text)
	}
	if o.More {
		b.WriteString("There are more.\n")
	}
	return b.String()
}

// maxReviews bounds a list: each may be long.
const maxReviews = 20

func (r *room) listReviews(ctx context.Context, _ *sdk.CallToolRequest, in listReviewsIn) (listReviewsOut, error) {
	out := listReviewsOut{Reviews: []waitingReview{}}
	waiting, err := r.waiting(ctx, in.Job)
	for _, v := range waiting {
		if out.More = len(out.Reviews) == maxReviews; out.More {
			break
		}
		out.Reviews = append(out.Reviews, waitingReview{render.CleanLine(v.Job), render.CleanLine(v.Call), render.CleanLine(v.Agent), reviewText(v), v.AskedAt, v.UntilAt})
	}
	return out, err
}

// waiting returns the open questions of one job, or of all.
func (r *room) waiting(ctx context.Context, job string) ([]fleet.Review, error) {
	jobs, err := r.o.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	if job != "" {
		if _, err := jobs.Job(ctx, job); err != nil {
			return nil, err
		}
	}
	return jobs.WaitingReviews(ctx, job)
}

func reviewText(v fleet.Review) string {
	return render.ApprovalText(render.ReviewLines(v.Text, v.Tool, v.Input, v.InputBytes))
}

type answerReviewIn struct {
	Job  string `json:"job" jsonschema:"the job that asks"`
	Call string `json:"call,omitempty" jsonschema:"which of its calls; absent when only one waits"`
}

type answerReviewOut struct {
	Job   string `json:"job"`
	Call  string `json:"call"`
	State string `json:"state" jsonschema:"approved, denied, or waiting when the user did not say"`
}

func (o answerReviewOut) text() string {
	if o.State == fleet.ReviewWaiting {
		return fmt.Sprintf("The user did not answer: %s %s waits.\n", o.Job, o.Call)
	}
	return fmt.Sprintf("The user %s %s %s.\n", o.State, o.Job, o.Call)
}

// answerReview asks the person in a first round, and applies their answer in
// a second one.
func (r *room) answerReview(ctx context.Context, req *sdk.CallToolRequest, in answerReviewIn) (question *sdk.CallToolResult, out answerReviewOut, err error) {
	v, err := r.asked(ctx, in)
	if err != nil {
		return nil, out, err
	}
	out = answerReviewOut{Job: v.Job, Call: v.Call, State: fleet.ReviewWaiting}
	said, ok := req.Params.InputResponses[elicited].(*sdk.ElicitResult)
	if !ok || said == nil || req.Params.RequestState == "" {
		if !canAsk(req) {
			return nil, out, tidemark.Deniedf("this client cannot ask its user (it has no elicitation), and nobody else may answer; the user can: tidemark approve %s %s, or deny", v.Job, v.Call)
		}
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{elicited: reviewQuestion(v)}, RequestState: v.Digest()}, out, nil
	}
	jobs, err := r.o.Fleet(ctx)
	if err != nil {
		return nil, out, err
	}
	decision, _ := said.Content["decision"].(string)
	reason, _ := said.Content["reason"].(string)
	switch {
	case said.Action == "accept" && decision == "approve":
		out.State = fleet.ReviewApproved
		// The state is the hash of what the person saw.
		err = jobs.ApproveShown(ctx, v.Job, v.Call, req.Params.RequestState, r.o.Holder(ctx))
	case said.Action == "decline", said.Action == "accept" && decision == "deny":
		out.State = fleet.ReviewDenied
		_, err = jobs.AnswerReview(ctx, v.Job, v.Call, false, r.o.Holder(ctx), reason)
	default:
		return nil, out, nil
	}
	r.wrote(ctx, answerReview, v.Job, err)
	return nil, out, err
}

// elicited names the question in the protocol.
const elicited = "answer"

// asked finds the call that is meant.
func (r *room) asked(ctx context.Context, in answerReviewIn) (fleet.Review, error) {
	waiting, err := r.waiting(ctx, in.Job)
	if err != nil {
		return fleet.Review{}, err
	}
	var found []fleet.Review
	for _, v := range waiting {
		if in.Call == "" || v.Call == in.Call {
			found = append(found, v)
		}
	}
	switch {
	case in.Job == "":
		return fleet.Review{}, tidemark.Invalidf("name the job: list_reviews has what waits")
	case len(found) == 0:
		return fleet.Review{}, tidemark.NotFoundf("job %s: no such call waits for an answer", in.Job)
	case len(found) > 1:
		return fleet.Review{}, tidemark.Invalidf("job %s asks about %d calls: each is answered by itself", in.Job, len(found))
	}
	return found[0], nil
}

// canAsk reports whether the client can show its user a form.
func canAsk(req *sdk.CallToolRequest) bool {
	c := req.ClientCapabilities()
	return c != nil && c.Elicitation != nil && (c.Elicitation.Form != nil || c.Elicitation.URL == nil)
}

// reviewQuestion is the question to the person.
func reviewQuestion(v fleet.Review) *sdk.ElicitParams {
	return &sdk.ElicitParams{
		Message: render.CleanLine(fmt.Sprintf("%s asks in %s. May it do this, once?", v.Agent, v.Job)) + "\n\n" + reviewText(v),
		RequestedSchema: map[string]any{"type": "object", "required": []string{"decision"}, "properties": map[string]any{
			"decision": map[string]any{"type": "string", "title": "Your answer", "enum": []string{"approve", "deny"}, "description": "approve lets the job make this one call"},
			"reason":   map[string]any{"type": "string", "title": "Reason", "description": "what the agent is told when you deny it"},
		}},
	}
}
