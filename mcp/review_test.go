package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/workshop/hostile"
)

// asks makes a job that asks about a command, and returns its id.
func (h *house) asks(call, command string) string {
	h.Helper()
	if _, err := fleet.Over(h.s).PutAgent(h.Context(), tidemark.Agent{Name: "coder", Status: tidemark.Idle}); err != nil {
		h.Fatal(err)
	}
	j, err := fleet.Over(h.s).RequestJob(h.Context(), fleet.JobRequest{Agent: "coder"})
	if err != nil {
		h.Fatal(err)
	}
	if _, err := fleet.Over(h.s).StartJob(h.Context(), j.ID, process.Self("test"), fleet.SlotLimits{}); err != nil {
		h.Fatal(err)
	}
	h.asksMore(j.ID, call, command)
	return j.ID
}

func (h *house) asksMore(job, call, command string) {
	h.Helper()
	input, err := json.Marshal(map[string]string{"command": command})
	if err == nil {
		err = fleet.Over(h.s).AskReview(h.Context(), fleet.Review{Job: job, Agent: "coder", Call: call, Tool: "bash", Input: input, Text: render.ApprovalText(render.ApprovalLines("bash", input, nil))})
	}
	if err != nil {
		h.Fatal(err)
	}
}

// person connects a client whose user answers as say does.
func (h *house) person(how, version string, say func(*sdk.ElicitParams) *sdk.ElicitResult) *sdk.ClientSession {
	h.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test client", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return say(req.Params), nil
		}})
	c, err := client.Connect(h.Context(), transports[how](h), &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { c.Close() })
	return c
}

func (h *house) state(job, call string) string {
	h.Helper()
	v, err := fleet.Over(h.s).Review(h.Context(), job, call)
	if err != nil {
		h.Fatal(err)
	}
	return v.State
}

func saying(action, decision string) *sdk.ElicitResult {
	r := &sdk.ElicitResult{Action: action}
	if action == "accept" {
		r.Content = map[string]any{"decision": decision, "reason": "not on a Friday"}
	}
	return r
}

// The ways in which a person can be asked. A client of an older protocol cannot
// be asked over HTTP, where nothing is kept between two requests.
var asking = map[string][2]string{"stream, newest protocol": {"stream", ""}, "stream, older protocol": {"stream", "2025-11-25"}, "http, newest protocol": {"http", ""}}

func TestAPersonAnswersWhatAJobAsks(t *testing.T) {
	for name, way := range asking {
		for _, c := range []struct{ action, decision, state string }{
			{"accept", "approve", fleet.ReviewApproved}, {"accept", "deny", fleet.ReviewDenied}, {"decline", "", fleet.ReviewDenied}, {"cancel", "", fleet.ReviewWaiting},
		} {
			t.Run(name+" "+c.action+" "+c.decision, func(t *testing.T) {
				h := newHouse(t)
				h.o.Write = true
				job := h.asks("c1", "true\nrm -r x")
				var shown []string
				client := h.person(way[0], way[1], func(q *sdk.ElicitParams) *sdk.ElicitResult {
					shown = append(shown, q.Message)
					return saying(c.action, c.decision)
				})
				out, text := call[answerReviewOut](h, client, "answer_review", map[string]any{"job": job})
				if out.State != c.state || h.state(job, "c1") != c.state || !strings.Contains(text, job) {
					t.Errorf("%+v, kept as %s", out, h.state(job, "c1"))
				}
				want := []string{"coder asks in " + job + ". May it do this, once?\n\n@ bash\n@ command:\n  true\n  rm -r x\n"}
				if diff := cmp.Diff(want, shown); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestNobodyButAPersonAnswersOverMCP(t *testing.T) {
	approve := func(*sdk.ElicitParams) *sdk.ElicitResult { return saying("accept", "approve") }
	t.Run("a client that cannot ask", func(t *testing.T) {
		for how := range transports {
			h := newHouse(t)
			h.o.Write = true
			job := h.asks("c1", "rm -r x")
			if said := h.refused(h.connect(how, ""), "answer_review", map[string]any{"job": job, "call": "c1"}); !strings.Contains(said, "tidemark approve "+job+" c1") {
				t.Error(said)
			}
			if h.state(job, "c1") != fleet.ReviewWaiting {
				t.Error("it was answered")
			}
		}
	})
	t.Run("an older client over HTTP", func(t *testing.T) {
		h := newHouse(t)
		h.o.Write = true
		job := h.asks("c1", "rm -r x")
		h.refused(h.person("http", "2025-11-25", approve), "answer_review", map[string]any{"job": job})
		if h.state(job, "c1") != fleet.ReviewWaiting {
			t.Error("it was answered")
		}
	})
	t.Run("a server that only reads", func(t *testing.T) {
		h := newHouse(t)
		job := h.asks("c1", "rm -r x")
		client := h.person("stream", "", approve)
		if said := h.refused(client, "answer_review", map[string]any{"job": job}); !strings.Contains(said, "not allowed") {
			t.Error(said)
		}
		if out, text := call[listReviewsOut](h, client, "list_reviews", nil); len(out.Reviews) != 1 || !strings.Contains(text, "  rm -r x\n") {
			t.Errorf("%+v", out)
		}
	})
	t.Run("the model in its arguments", func(t *testing.T) {
		h := newHouse(t)
		h.o.Write = true
		job := h.asks("c1", "rm -r x")
		client := h.person("stream", "", func(*sdk.ElicitParams) *sdk.ElicitResult { return saying("cancel", "") })
		for _, more := range []map[string]any{{"decision": "approve"}, {"answer": "approve"}, {"shown": "x"}} {
			more["job"] = job
			_, _ = client.CallTool(t.Context(), &sdk.CallToolParams{Name: "answer_review", Arguments: more}) // what it says does not matter
		}
		if h.state(job, "c1") != fleet.ReviewWaiting {
			t.Error("it was answered")
		}
	})
	t.Run("for another call than the one that was shown", func(t *testing.T) {
		h := newHouse(t)
		h.o.Write = true
		job := h.asks("c1", "ls")
		h.asksMore(job, "c2", "rm -r x")
		shown, err := fleet.Over(h.s).Review(t.Context(), job, "c1")
		if err != nil {
			t.Fatal(err)
		}
		client := h.person("stream", "", approve)
		if said := h.refused(client, "answer_review", map[string]any{"job": job}); !strings.Contains(said, "each is answered by itself") {
			t.Error(said)
		}
		res, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "answer_review", Arguments: map[string]any{"job": job, "call": "c2"},
			InputResponses: sdk.InputResponseMap{elicited: saying("accept", "approve")}, RequestState: shown.Digest()})
		if err != nil || !res.IsError || h.state(job, "c2") != fleet.ReviewWaiting {
			t.Errorf("%+v, %v: %s", res, err, h.state(job, "c2"))
		}
	})
}

func TestAnElicitationShowsHostileCallsWhole(t *testing.T) {
	for name, command := range hostile.Commands() {
		h := newHouse(t)
		h.o.Write = true
		job := h.asks("c1", command)
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		want := render.ApprovalText(render.ApprovalLines("bash", input, nil))
		client := h.person("stream", "", func(q *sdk.ElicitParams) *sdk.ElicitResult {
			if _, got, _ := strings.Cut(q.Message, "\n\n"); got != want {
				t.Errorf("%s: %q, want %q", name, got[:min(len(got), 300)], want[:min(len(want), 300)])
			}
			return saying("cancel", "")
		})
		call[answerReviewOut](h, client, "answer_review", map[string]any{"job": job})
	}
}
