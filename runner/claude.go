package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// Claude returns the Runner of Claude Code. command is its program with fixed
// arguments; without one it is claude.
//
// It is started in print mode with its stream of JSON lines; Task.Args follow
// the options that come from the task. A fresh session, and the copy of one,
// get the id Task.Mint, so that it is known before anything runs. In the modes
// interactive and review its permission requests go to Task.Ask, and in review
// its settings cannot add to what it does without asking; in autonomous mode
// whatever its settings and flags do not allow is denied.
//
// Usage is counted once per model, from the result at the end of the run. That
// result covers the session from its beginning; so for a resumed or copied
// session Task.Spent is subtracted, for the model of the main agent. Where
// Task.Spent is not known, helpers and the cost are not counted, rather than
// counted too high. A run that was cut off has no result; the usage of its
// answers counts instead, without a cost.
func Claude(command ...string) Runner { return claude{orProgram(command, "claude")} }

// orProgram returns the command, or the program's name if there is none.
func orProgram(command []string, name string) []string {
	if len(command) == 0 || command[0] == "" {
		return []string{name}
	}
	return command
}

type claude struct{ command []string }

func (c claude) Run(ctx context.Context, t Task) (Outcome, error) {
	if err := t.cannotBranch("Claude Code"); err != nil {
		return failed(err)
	}
	r, ctx, cancel, err := begin(ctx, t)
	if err != nil {
		return failed(err)
	}
	defer cancel(nil)
	if id := t.mints(); id != "" {
		r.proc.Session = id // recorded together with the process
	}
	var s claudeStream
	var lost sessionLost
	over := make(chan struct{})
	asks := t.Ask != nil && (t.RunMode == Interactive || t.RunMode == Review)
	desk := &claudeDesk{answers: make(chan []byte, 1), over: over}
	p := program{argv: c.argv(t, asks), over: over, linger: claudeLinger * r.t.Grace, talk: prompt(t.Prompt)}
	if asks {
		p.talk = func(in io.Writer) { desk.talk(r.there, in, t.Prompt) }
	}
	var once sync.Once
	p.out = func(line []byte, left int64) {
		events := s.line(line)
		r.inSession(s.session)
		for _, e := range events {
			r.sink.emit(e)
		}
		r.sink.cut(left)
		if s.ask != nil {
			desk.answer(r.alive, *s.ask, t.Ask)
		}
		if s.result != nil {
			once.Do(func() { close(over) })
		}
	}
	p.errs = func(line []byte, left int64) {
		lost.hear(string(line), claudeLost)
		r.stderrLine(line, left)
	}
	e, err := r.do(ctx, p)
	if err != nil {
		if t.mints() != "" {
			r.proc.Session = "" // nothing ran that could have made it
		}
		return r.outcome(s.outcome(t), e, fmt.Errorf("agent %s: %w", t.Agent, err))
	}
	o := s.outcome(t)
	reason, failure := s.judge(e)
	o.ExitReason = reason
	if s.result != nil {
		for _, why := range s.result.Errors {
			lost.hear(why, claudeLost)
		}
	}
	return r.outcome(o, e, lost.judge(t, failure))
}

// claudeLinger is how many grace periods Claude Code may be silent after its
// result: background work may still bring another one.
const claudeLinger = 6

// claudeLost is the message of Claude Code for a session that it does not know.
const claudeLost = "No conversation found with session ID"

// mints returns the id that the session of the run will have, "" when the
// program chooses it.
func (t Task) mints() string {
	if t.Session == "" || t.Fork {
		return t.Mint
	}
	return ""
}

func (c claude) argv(t Task, asks bool) []string {
	argv := append(slices.Clone(c.command), "-p", "--output-format", "stream-json", "--verbose")
	if asks {
		argv = append(argv, "--input-format", "stream-json", "--permission-prompt-tool", "stdio")
	}
	if t.RunMode == Review {
		argv = append(argv, "--permission-mode", "default") // whatever its settings say
	}
	if t.Session != "" {
		argv = append(argv, "--resume", t.Session)
	}
	if t.Fork {
		argv = append(argv, "--fork-session")
	}
	if id := t.mints(); id != "" {
		argv = append(argv, "--session-id", id)
	}
	if t.Model != "" {
		argv = append(argv, "--model", t.Model)
	}
	if t.System != "" {
		argv = append(argv, "--append-system-prompt", t.System)
	}
	if t.MaxTurns > 0 {
		argv = append(argv, "--max-turns", strconv.Itoa(t.MaxTurns))
	}
	return append(argv, t.Args...)
}

// sessionLost notes whether a program reported that it does not know the
// session to resume.
type sessionLost struct {
	mu   sync.Mutex
	said bool
}

func (l *sessionLost) hear(text string, how ...string) {
	for _, h := range how {
		if strings.Contains(text, h) {
			l.mu.Lock()
			l.said = true
			l.mu.Unlock()
		}
	}
}

// judge turns a failure that means a lost session into ErrSession.
func (l *sessionLost) judge(t Task, failure error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if failure == nil || !l.said || t.Session == "" {
		return failure
	}
	return fmt.Errorf("agent %s: session %s: %w: %w", t.Agent, t.Session, ErrSession, failure)
}

// claudeDesk talks to a Claude Code that asks for permission. Its input
// stays open until its result has arrived, because the answers go through
// it.
type claudeDesk struct {
	answers chan []byte
	over    <-chan struct{}
}

// talk sends the greeting of a host that answers questions, then the
// prompt, then the answers.
func (d *claudeDesk) talk(there context.Context, in io.Writer, text string) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.Encode(map[string]any{"type": "control_request", "request_id": "tidemark-1",
		"request": map[string]any{"subtype": "initialize", "hooks": nil}})
	enc.Encode(map[string]any{"type": "user", "session_id": "", "parent_tool_use_id": nil,
		"message": map[string]any{"role": string(tidemark.User), "content": text}})
	if _, err := in.Write(b.Bytes()); err != nil {
		return
	}
	for {
		select {
		case <-d.over:
			return
		case <-there.Done():
			return
		case a := <-d.answers:
			if _, err := in.Write(a); err != nil {
				return
			}
		}
	}
}

// answer passes on a question and queues its answer. Claude Code waits for it,
// so the next line may wait as well.
func (d *claudeDesk) answer(ctx context.Context, ask claudeAsk, put func(context.Context, Question) (Answer, error)) {
	response := map[string]any{"subtype": "success", "request_id": ask.request}
	switch {
	case ask.Tool == "" || put == nil:
		response["subtype"], response["error"] = "error", "not supported"
	default:
		a, err := put(ctx, ask.Question)
		switch {
		case err == nil && a.Allow:
			response["response"] = map[string]any{"behavior": "allow", "updatedInput": ask.Input}
		case err == nil && a.Reason != "":
			response["response"] = map[string]any{"behavior": "deny", "message": a.Reason}
		default:
			response["response"] = map[string]any{"behavior": "deny", "message": "not allowed"}
		}
	}
	line, err := json.Marshal(map[string]any{"type": "control_response", "response": response})
	if err != nil {
		return // unreachable: the input comes from JSON
	}
	select {
	case d.answers <- append(line, '\n'):
	case <-ctx.Done():
	}
}
