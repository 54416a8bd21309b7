package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/runner"
)

// Each tool call of an agent is checked. The permissions of the file come first: what
// they deny is denied, and what they allow is done. Anything else is denied in
// autonomous mode, where nobody can be asked, so an agent whose file allows nothing
// may read its folder and change nothing. In the modes interactive and review, it
// waits in the store for a person's answer.

// answers returns the function that answers the questions of a run.
func (d *Daemon) answers(a file.Agent, run *fleet.JobRun) func(context.Context, runner.Question) (runner.Answer, error) {
	return func(ctx context.Context, q runner.Question) (runner.Answer, error) {
		allowed, denial := judge(a, q)
		switch {
		case allowed:
			// Only for this call: the file may be changed.
			return runner.Answer{Allow: true}, nil
		case denial != "":
			return runner.Answer{Reason: denial}, nil
		case a.RunMode != fleet.RunInteractive && a.RunMode != fleet.RunReview:
			return runner.Answer{Reason: unlistedReason(a, q)}, nil
		}
		return d.review(ctx, a, run, q)
	}
}

const (
	// reviewLook is how often the store is checked for an answer.
	reviewLook = 250 * time.Millisecond
	// maxAsked bounds how often a run may ask about calls of one name.
	maxAsked = 1000
	// subtypeReview is the subtype of events about questions in a job's output.
	subtypeReview = "review"
)

// review asks people a question and waits for the answer. Both the question and the
// answer are in the job's output before the call is run.
func (d *Daemon) review(ctx context.Context, a file.Agent, run *fleet.JobRun, q runner.Question) (runner.Answer, error) {
	job, wait := run.Job().ID, cmp.Or(a.ReviewTimeout, file.DefaultReviewTimeout)
	shown := cmp.Or(q.Text, render.ApprovalText(render.ApprovalLines(q.Tool, q.Input, nil)))
	if len(shown) > tidemark.MaxApprovalBytes {
		return runner.Answer{Reason: fmt.Sprintf("denied: it is %d bytes long, more than a person can be shown (%d); do it in smaller steps", len(shown), tidemark.MaxApprovalBytes)}, nil
	}
	v := fleet.Review{Job: job, Agent: a.Name, Tool: q.Tool, Title: q.Title, Input: q.Input, Text: shown,
		UntilAt: d.o.Now().Add(wait).UTC().Truncate(time.Microsecond)}
	if err := d.askReview(ctx, &v, callName(q.ID)); err != nil {
		return runner.Answer{}, err
	}
	text := questionLine(a, q)
	if err := d.note(ctx, run, v, fmt.Sprintf("waits for an answer until %s: %s (tidemark approve %s %s)", v.UntilAt.Format(time.RFC3339), text, job, v.Call)); err != nil {
		return runner.Answer{}, err
	}
	d.o.Tell(a.Name, fmt.Sprintf("%s asks: %s; answer with: tidemark approve %s %s, or deny", job, text, job, v.Call))
	asked := d.o.Store.Shown(v).Digest()
	v, err := d.awaitReview(ctx, v, wait)
	if err != nil {
		return runner.Answer{}, err
	}
	reason := ""
	if v.Reason != "" {
		reason = ": " + v.Reason
	}
	if err := d.note(ctx, run, v, fmt.Sprintf("%s by %s%s", v.State, v.By, reason)); err != nil {
		return runner.Answer{}, err
	}
	switch {
	case v.State == fleet.ReviewApproved && v.Digest() != asked:
		// Somebody changed the question in the store, so the person saw another
		// call.
		return runner.Answer{Reason: "what was approved is not what was asked"}, nil
	case v.State == fleet.ReviewApproved:
		return runner.Answer{Allow: true}, nil
	}
	return runner.Answer{Reason: "denied" + reason}, nil
}

// askReview keeps the question under a name that is new in the job: a program may ask
// twice with one id and mean different calls.
func (d *Daemon) askReview(ctx context.Context, v *fleet.Review, name string) error {
	v.Call = name
	err := d.o.Store.AskReview(ctx, *v)
	for n := 2; n <= maxAsked && errors.Is(err, tidemark.ErrExists); n++ {
		v.Call = fmt.Sprintf("%s-%d", name, n)
		err = d.o.Store.AskReview(ctx, *v)
	}
	return err
}

// awaitReview waits until the question is answered. The daemon itself denies it when
// nobody answers in time, or the run ends.
func (d *Daemon) awaitReview(ctx context.Context, v fleet.Review, wait time.Duration) (fleet.Review, error) {
	tick := time.NewTicker(reviewLook)
	defer tick.Stop()
	deny := func(ctx context.Context, reason string) error {
		_, err := d.o.Store.AnswerReview(ctx, v.Job, v.Call, false, d.o.Holder, reason)
		if errors.Is(err, tidemark.ErrConflict) {
			return nil // somebody was quicker
		}
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return v, errors.Join(context.Cause(ctx), deny(context.WithoutCancel(ctx), "the run ended"))
		case <-tick.C:
		}
		// By the wall clock, which also runs while the machine sleeps.
		if !d.o.Now().Before(v.UntilAt) {
			if err := deny(ctx, fmt.Sprintf("nobody answered within %s", wait)); err != nil {
				return v, err
			}
		}
		have, err := d.o.Store.Review(ctx, v.Job, v.Call)
		switch {
		case errors.Is(err, tidemark.ErrNotFound):
			return v, err
		case err != nil:
			// The store may be back soon. If not, the lease is lost, and that
			// ends the run.
		case have.State != fleet.ReviewWaiting:
			return have, nil
		}
	}
}

// note adds an event about a question to the job's output.
func (d *Daemon) note(ctx context.Context, run *fleet.JobRun, v fleet.Review, text string) error {
	return run.Emit(context.WithoutCancel(ctx), tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeReview, Content: text,
		ToolName: oneLine(v.Tool), ToolUseID: v.Call, Timestamp: d.o.Now()})
}

// callName is the name of a question on the command line: the id of the call if that
// can be typed, else a hash of it.
func callName(id string) string {
	const most = 80
	if len(id) <= most && tidemark.CheckID(id) == nil && id[0] != '-' {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:6])
}

// questionLine is a question in one line.
func questionLine(a file.Agent, q runner.Question) string {
	what := q.Title
	if a.Runner == fleet.RunnerBuiltin || what == "" {
		what = string(q.Input)
	}
	return oneLine(q.Tool) + " " + oneLine(what)
}

// oneLine is the beginning of a text of a program, in one line.
func oneLine(s string) string { return text.ShortLine(s, 200) }
