package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Codex returns the Runner of Codex. command is its program with fixed
// arguments; without one it is codex.
//
// It is started as codex exec --json; Task.Args follow the options that come
// from the task. Its sandbox decides what it may do, and so its configuration
// and Task.Args: codex exec asks nobody, and is not run in review mode
// (ErrUnsupported). It chooses the ids of its sessions itself, also of copies,
// which an old Codex cannot make (ErrUnsupported). It has no limit of turns;
// an event says so.
//
// Codex counts the usage of a session from its beginning, and that of a copy
// from the beginning of the original. So a fresh session is counted as
// reported, and a resumed or copied one less Task.Spent; where that is not
// known, the run is not counted at all, rather than counted too high. Codex
// reports neither the model, for which Task.Model stands, nor the cost.
func Codex(command ...string) Runner { return codex{orProgram(command, "codex")} }

type codex struct{ command []string }

// codexLost are the messages of Codex for a session that it does not know.
var codexLost = []string{"no rollout found for", "thread not found", "No saved session found", "session not found"}

func (c codex) Run(ctx context.Context, t Task) (Outcome, error) {
	if err := errors.Join(t.cannotAsk("codex exec"), t.cannotBranch("Codex")); err != nil {
		return failed(err)
	}
	r, ctx, cancel, err := begin(ctx, t)
	if err != nil {
		return failed(err)
	}
	defer cancel(nil)
	if t.MaxTurns > 0 {
		r.sink.notice(subtypeIgnored, "codex has no limit of turns: %d is not kept to", t.MaxTurns)
	}
	s := codexStream{spent: t.before()}
	before := s.spent
	var lost sessionLost
	e, err := r.do(ctx, program{
		argv: c.argv(t),
		talk: prompt(t.Prompt),
		out: func(line []byte, left int64) {
			events := s.line(line)
			r.inSession(s.thread)
			for _, e := range events {
				r.sink.emit(e)
			}
			r.sink.cut(left)
		},
		errs: func(line []byte, left int64) {
			lost.hear(string(line), codexLost...)
			r.stderrLine(line, left)
		},
	})
	o := Outcome{ExitReason: tidemark.ExitEndTurn, Summary: s.said, Turns: s.turns}
	if s.spent != before {
		o.Spent = s.spent
		if before != nil {
			o.use(t.Model, minus(*s.spent, *before))
		}
	}
	if err != nil {
		return r.outcome(o, e, fmt.Errorf("agent %s: %w", t.Agent, err))
	}
	failure := s.judge(e)
	if t.Fork && s.thread == "" && e.code == codexUsageError {
		failure = tidemark.Unsupportedf("agent %s: this %s cannot go on with a copy of a session: %s", t.Agent, c.command[0], e.stderr)
	}
	return r.outcome(o, e, lost.judge(t, failure))
}

// codexUsageError is the exit code of Codex for an unknown command or
// option.
const codexUsageError = 2

// before returns what the session had used before, nil if that is not known.
func (t Task) before() *tidemark.Usage {
	if t.Session == "" {
		return new(tidemark.Usage)
	}
	return t.Spent
}

// judge returns why a run failed that was not ended from outside.
func (s *codexStream) judge(e ending) error {
	switch {
	case s.failed != "":
		return fmt.Errorf("codex: %s", short(s.failed))
	case !s.completed:
		return fmt.Errorf("codex %s, without the end of a turn", e)
	case e.code != 0:
		return fmt.Errorf("codex %s", e)
	}
	return nil
}

func (c codex) argv(t Task) []string {
	// The owner of the agent chose where it works, so it need not be a
	// repository.
	argv := append(slices.Clone(c.command), "exec", "--json", "--skip-git-repo-check")
	if t.Model != "" {
		argv = append(argv, "--model", t.Model)
	}
	if t.System != "" {
		// A JSON string is a TOML string.
		b, err := json.Marshal(t.System)
		if err == nil {
			argv = append(argv, "-c", "developer_instructions="+string(b))
		}
	}
	argv = append(argv, t.Args...)
	switch {
	case t.Fork:
		argv = append(argv, "fork", t.Session)
	case t.Session != "":
		argv = append(argv, "resume", t.Session)
	}
	return append(argv, "-") // the prompt comes through standard input
}
