package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// What an agent may do is asked for call by call. The permissions of the file
// come first: what they deny is denied, what they allow is done. The rest is
// denied in autonomous mode, where nobody can be asked: an agent of a file that
// allows nothing may look at its folder and change nothing. In the modes
// interactive and review the rest waits in the store for a person.

// ask returns what answers the questions of a run.
func (d *Daemon) ask(a Agent, run *store.JobRun) func(context.Context, runner.Question) (runner.Answer, error) {
	return func(ctx context.Context, q runner.Question) (runner.Answer, error) {
		allowed, denial := a.judge(q)
		switch {
		case allowed:
			// Never for good: the file may say something else tomorrow.
			return runner.Answer{Allow: true}, nil
		case denial != "":
			return runner.Answer{Reason: denial}, nil
		case a.RunMode != RunInteractive && a.RunMode != RunReview:
			return runner.Answer{Reason: a.unlisted(q)}, nil
		}
		return d.review(ctx, a, run, q)
	}
}

// judge says what the permissions of the file say of a call: that it is
// allowed, why it is denied, or neither.
func (a Agent) judge(q runner.Question) (allowed bool, denial string) {
	doubtful := false
	for _, p := range a.Permissions.Deny {
		switch {
		case p.Tool != "*" && !strings.EqualFold(p.Tool, q.Tool):
		case p.Scope == "" || a.touches(q, p.Scope):
			return false, fmt.Sprintf("the fleet file denies %s", p)
		case !a.scoped(q):
			doubtful = true
		}
	}
	for _, p := range a.Permissions.Allow {
		switch {
		case p.Tool != "*" && p.Tool != q.Tool:
		case p.Scope == "":
			// Where a part of a tool is denied, the whole tool being allowed
			// says nothing of a call that may be that part.
			if !doubtful {
				return true, ""
			}
		case a.covers(q, p.Scope):
			return true, ""
		}
	}
	return false, ""
}

// scoped reports whether it is known which part of a tool a call uses. The
// built-in agent says it in the title; of a command it is known when it is of
// vetted forms, or one program with its arguments. Titles of other programs are
// for people: those programs judge parts of tools themselves.
func (a Agent) scoped(q runner.Question) bool {
	switch {
	case a.Runner != RunnerBuiltin || q.Title == "":
		return false
	case q.Tool == "bash":
		_, all := programsOf(q)
		return all
	}
	return isFileTool(q.Tool) || !strings.Contains(q.Title, " ")
}

// programsOf are the programs that a command names, and whether it runs no
// others.
func programsOf(q runner.Question) (programs []string, all bool) {
	programs, all = tool.Programs(commandOf(q))
	return programs, all || len(tool.Forms(q.Title)) > 0
}

// commandOf is the command of a call of bash, whole.
func commandOf(q runner.Question) string {
	var in struct{ Command string }
	if json.Unmarshal(q.Input, &in) != nil {
		return ""
	}
	return in.Command
}

func isFileTool(tool string) bool {
	switch tool {
	case "read", "write", "edit", "ls", "glob", "grep":
		return true
	}
	return false
}

// covers reports whether a call is inside of a scope that is allowed: the very
// program or host, or the folder with all that is in it.
func (a Agent) covers(q runner.Question, scope string) bool {
	switch {
	case a.Runner != RunnerBuiltin || q.Title == "":
		return false
	case isFileTool(q.Tool):
		return q.Title == scope || a.within(q.Title, scope)
	case q.Tool == "bash":
		return coversCommand(q.Title, scope)
	}
	return q.Title == scope
}

// coversCommand reports whether what is allowed of bash has a command in it: a
// program stands for its vetted forms, and "git status" for that one; anything
// else is a very command, run where the agent's shell begins.
func coversCommand(title, scope string) bool {
	forms := tool.Forms(title)
	if len(forms) == 0 {
		return title == tool.ExactScope(scope)
	}
	return !slices.ContainsFunc(forms, func(form string) bool { return form != scope && !strings.HasPrefix(form, scope+" ") })
}

// touches reports whether a call is inside of a scope that is denied. It is
// wider than covers: a program is denied wherever it lies, and a host with its
// ports and with the hosts below it.
func (a Agent) touches(q runner.Question, scope string) bool {
	switch {
	case a.covers(q, scope):
		return true
	case a.Runner == RunnerBuiltin && q.Tool == "bash":
		programs, _ := programsOf(q)
		return slices.Contains(programs, scope) || slices.Contains(tool.Forms(q.Title), scope) || commandOf(q) == scope
	case !a.scoped(q) || isFileTool(q.Tool):
		return false
	case q.Tool == "fetch":
		host, scope := hostOnly(q.Title), strings.ToLower(scope)
		return host == scope || strings.HasSuffix(host, "."+scope)
	}
	return q.Title[strings.LastIndexByte(q.Title, '/')+1:] == scope
}

func hostOnly(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return strings.ToLower(strings.TrimSuffix(address, "."))
}

// within reports whether a folder is another one or lies in it. Both may be
// relative to where the agent works; those of the workspace begin with a dot.
func (a Agent) within(folder, scope string) bool {
	switch {
	case strings.HasPrefix(folder, "."):
		folder = filepath.Join(a.Dir, filepath.FromSlash(folder))
	case !filepath.IsAbs(folder):
		return false // the storage of the session
	}
	if !filepath.IsAbs(scope) {
		scope = filepath.Join(a.Dir, filepath.FromSlash(scope))
	}
	rel, err := filepath.Rel(scope, folder)
	return err == nil && filepath.IsLocal(rel)
}

// unlisted is what an agent is told that nobody can be asked for.
func (a Agent) unlisted(q runner.Question) string {
	p := Permission{Tool: clip(q.Tool)}
	if a.scoped(q) {
		p.Scope = clip(q.Title)
	}
	if q.Tool == "bash" && a.scoped(q) {
		p.Scope = clip(commandOf(q)) // what the file would have to say
	}
	return fmt.Sprintf("this agent runs by itself, so nobody can be asked, and the permissions of its fleet file do not allow %s", p)
}

// Without are the tools that the permissions of the file take away from an
// agent as a whole. The built-in agent does not ask before it looks at its own
// folder, so that what is denied must not be there.
func (a Agent) Without() (names []string) {
	for _, p := range a.Permissions.Deny {
		if p.Scope == "" {
			names = append(names, p.Tool)
		}
	}
	return names
}

// permissionArgs hands the permissions of the file to a program that judges by
// itself: Claude Code, which never asks in autonomous mode and knows its own
// scopes, and Codex, which has a sandbox.
func permissionArgs(a Agent) []string {
	switch a.Runner {
	case RunnerClaude:
		return claudeArgs(a)
	case RunnerCodex:
		return codexArgs(a)
	}
	return nil
}

// providerArgs tell Codex where its model is, as the file says. Claude Code is
// told by its environment.
func providerArgs(a Agent) []string {
	if a.Runner != RunnerCodex || a.BaseURL == "" {
		return nil
	}
	return []string{"-c", "openai_base_url=" + strconv.Quote(a.BaseURL)} // Go's quotes around a URL are TOML's
}

func claudeArgs(a Agent) []string {
	var allow, deny, args []string
	for _, p := range a.Permissions.Allow {
		switch {
		case p != Permission{Tool: "*"}:
			allow = append(allow, p.String())
		case a.RunMode == RunAutonomous: // in the other modes it asks, and is told
			args = append(args, "--permission-mode", "bypassPermissions")
		}
	}
	for _, p := range a.Permissions.Deny {
		if p == (Permission{Tool: "*"}) {
			return []string{"--tools", ""}
		}
		deny = append(deny, p.String())
	}
	// One argument each: a name that begins with a dash is no option then.
	if len(allow) > 0 {
		args = append(args, "--allowedTools="+strings.Join(allow, ","))
	}
	if len(deny) > 0 {
		args = append(args, "--disallowedTools="+strings.Join(deny, ","))
	}
	return args
}

const (
	// reviewLook is how often it is looked whether somebody answered.
	reviewLook = 250 * time.Millisecond
	// maxAsked bounds how often a run may ask about calls of one name.
	maxAsked = 1000
	// subtypeReview marks what a job's output says about questions.
	subtypeReview = "review"
)

// review puts a question to people and waits for their answer. The output of
// the job says what was asked and what was answered, before anything is done.
func (d *Daemon) review(ctx context.Context, a Agent, run *store.JobRun, q runner.Question) (runner.Answer, error) {
	job, wait := run.Job().ID, cmp.Or(a.ReviewTimeout, defaultReviewTimeout)
	shown := cmp.Or(q.Text, render.ApprovalText(render.ApprovalLines(q.Tool, q.Input, nil)))
	if len(shown) > store.MaxReviewShown {
		return runner.Answer{Reason: fmt.Sprintf("denied: it is %d bytes long, more than a person can be shown (%d); do it in smaller steps", len(shown), store.MaxReviewShown)}, nil
	}
	v := store.Review{Job: job, Agent: a.Name, Tool: q.Tool, Title: q.Title, Input: q.Input, Text: shown,
		UntilAt: d.o.Now().Add(wait).UTC().Truncate(time.Microsecond)}
	if err := d.askReview(ctx, &v, callName(q.ID)); err != nil {
		return runner.Answer{}, err
	}
	text := asks(a, q)
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
	case v.State == store.ReviewApproved && v.Digest() != asked:
		// Somebody changed the question in the store: it was not this call that a
		// person saw.
		return runner.Answer{Reason: "what was approved is not what was asked"}, nil
	case v.State == store.ReviewApproved:
		return runner.Answer{Allow: true}, nil
	}
	return runner.Answer{Reason: "denied" + reason}, nil
}

// askReview keeps the question under a name that the job has not used: a
// program that asks twice about one call may mean something else.
func (d *Daemon) askReview(ctx context.Context, v *store.Review, name string) error {
	v.Call = name
	err := d.o.Store.AskReview(ctx, *v)
	for n := 2; n <= maxAsked && errors.Is(err, tidemark.ErrExists); n++ {
		v.Call = fmt.Sprintf("%s-%d", name, n)
		err = d.o.Store.AskReview(ctx, *v)
	}
	return err
}

// awaitReview waits until the question has its answer: somebody's, or the
// daemon's own when it is late or the run ends.
func (d *Daemon) awaitReview(ctx context.Context, v store.Review, wait time.Duration) (store.Review, error) {
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
		// The wall clock decides, which goes on while a machine sleeps.
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
			// A store that is away for a moment is no answer. When it stays
			// away the lease is lost, and with it the run.
		case have.State != store.ReviewWaiting:
			return have, nil
		}
	}
}

// note adds to the output of the job what becomes of a question.
func (d *Daemon) note(ctx context.Context, run *store.JobRun, v store.Review, text string) error {
	return run.Emit(context.WithoutCancel(ctx), tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeReview, Content: text,
		ToolName: clip(v.Tool), ToolUseID: v.Call, Timestamp: d.o.Now()})
}

// callName is what people call a question: the id of the call where that can
// be typed, else a hash of it.
func callName(id string) string {
	const most = 80
	if len(id) <= most && tidemark.CheckID(id) == nil && id[0] != '-' {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:6])
}

// asks is a question in a line.
func asks(a Agent, q runner.Question) string {
	what := q.Title
	if a.Runner == RunnerBuiltin || what == "" {
		what = string(q.Input)
	}
	return clip(q.Tool) + " " + clip(what)
}

// clip is the beginning of what a program says, in a line.
func clip(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(text[:min(len(text), 10*most)]), " ")
	if len(text) <= most {
		return strings.ToValidUTF8(text, "")
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
