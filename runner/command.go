package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Command returns the Runner of any program. argv is the program with its
// arguments; Task.Args follow them.
//
// The program reads the prompt from its standard input. The prompt is also in TIDEMARK_PROMPT,
// unless it is too long for a variable; the session to resume is in TIDEMARK_SESSION, the entry
// to continue from, if any, in TIDEMARK_ENTRY, and TIDEMARK_FORK=1 asks for a copy. What these
// mean is up to the program; it is not told the model, the system prompt or the limit of turns.
// It asks nobody, so it is not run in review mode (ErrUnsupported): to review a command, let a
// person decide before it is run.
//
// Each line of its standard output becomes an event. A JSON object whose type
// is that of an event (system, assistant, tool_use, tool_result, error) and
// whose fields have the types of an event's is that event; fields that an
// event does not have, and the program's own timestamp, are in its extra. Any
// other JSON object is a system event of the subtype json. Everything else is
// text of the assistant, one event per line; empty lines are skipped. A line
// of its standard error is a system event of the subtype stderr.
//
// Exit code 0 is success, everything else an error.
func Command(argv []string) Runner { return command{argv} }

type command struct{ argv []string }

func (c command) Run(ctx context.Context, t Task) (Outcome, error) {
	if len(c.argv) == 0 {
		return failed(tidemark.Invalidf("agent %s: a command without a program", t.Agent))
	}
	if err := t.cannotAsk("a command"); err != nil {
		return failed(err)
	}
	r, ctx, cancel, err := begin(ctx, t)
	if err != nil {
		return failed(err)
	}
	defer cancel(nil)
	var o Outcome
	e, err := r.do(ctx, program{
		argv:    append(append([]string{}, c.argv...), t.Args...),
		environ: commandEnviron(t),
		talk:    prompt(t.Prompt),
		errs:    r.stderrLine,
		out: func(line []byte, left int64) {
			if e, ok := commandLine(line); ok {
				o.hear(e, t.Model)
				r.sink.emit(e)
			}
			r.sink.cut(left)
		},
	})
	if err != nil {
		return r.outcome(o, e, fmt.Errorf("agent %s: %w", t.Agent, err))
	}
	o.ExitReason = tidemark.ExitSuccess
	var failure error
	if e.code != 0 {
		failure = fmt.Errorf("agent %s: its program %s", t.Agent, e)
	}
	return r.outcome(o, e, failure)
}

// failed is the outcome of a run that never began.
func failed(err error) (Outcome, error) {
	return Outcome{ExitReason: tidemark.ExitError, ExitCode: -1}, err
}

func commandEnviron(t Task) (env []string) {
	if len(t.Prompt) <= maxArgument && !strings.ContainsRune(t.Prompt, 0) {
		env = append(env, variablePrompt+"="+t.Prompt)
	}
	env = append(env, variableSession+"="+t.Session)
	if t.Entry != 0 {
		env = append(env, variableEntry+"="+strconv.FormatInt(t.Entry, 10))
	}
	if t.Fork {
		env = append(env, variableFork+"=1")
	}
	return env
}

// hear takes what belongs to the outcome from an event of a command.
func (o *Outcome) hear(e tidemark.Event, model string) {
	if e.Type != tidemark.EventAssistant {
		return
	}
	if e.Content != "" && e.Subtype != subtypeThink {
		o.Summary = e.Content
	}
	if e.Usage != nil {
		o.use(model, *e.Usage)
	}
}

// use adds to the usage of a model. Without a model name it is counted
// under unknown.
func (o *Outcome) use(model string, u tidemark.Usage) {
	u = sane(u)
	if u == (tidemark.Usage{}) {
		return
	}
	if model == "" {
		model = "unknown"
	}
	if o.Usage == nil {
		o.Usage = make(map[string]tidemark.Usage)
	}
	o.Usage[model] = plus(o.Usage[model], u)
	o.CostUSD += u.CostUSD
}

// Limits of the figures that a program may report. They are far above any
// true figure, and small enough that their sums do not overflow.
const (
	mostTokens = 1 << 50
	mostUSD    = 1e9
)

func sane(u tidemark.Usage) tidemark.Usage {
	within := func(n int64) int64 { return min(max(n, 0), mostTokens) }
	return tidemark.Usage{
		InputTokens:      within(u.InputTokens),
		OutputTokens:     within(u.OutputTokens),
		CacheReadTokens:  within(u.CacheReadTokens),
		CacheWriteTokens: within(u.CacheWriteTokens),
		CostUSD:          saneUSD(u.CostUSD),
	}
}

func saneUSD(cost float64) float64 { return min(max(cost, 0), mostUSD) }

func plus(a, b tidemark.Usage) tidemark.Usage {
	return tidemark.Usage{
		InputTokens:      a.InputTokens + b.InputTokens,
		OutputTokens:     a.OutputTokens + b.OutputTokens,
		CacheReadTokens:  a.CacheReadTokens + b.CacheReadTokens,
		CacheWriteTokens: a.CacheWriteTokens + b.CacheWriteTokens,
		CostUSD:          a.CostUSD + b.CostUSD,
	}
}

// commandLine returns the event for a line of a command, false if there is
// none.
func commandLine(line []byte) (e tidemark.Event, ok bool) {
	if len(strings.TrimSpace(string(line))) == 0 {
		return e, false
	}
	if line[0] != '{' {
		return tidemark.Event{Type: tidemark.EventAssistant, Content: string(line)}, true
	}
	fields, isObject := object(line)
	if !isObject {
		return tidemark.Event{Type: tidemark.EventAssistant, Content: string(line)}, true
	}
	if e, ok := ownEvent(fields); ok {
		return e, true
	}
	return tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeJSON, Content: string(line)}, true
}

// eventFields are the fields of an event.
const eventFields = " type subtype content partial usage tool_name tool_use_id input result success error message code stack extra "

// ownEvent reads a line that is one of our events.
func ownEvent(fields map[string]json.RawMessage) (e tidemark.Event, ok bool) {
	switch str(fields["type"]) {
	case tidemark.EventSystem, tidemark.EventAssistant, tidemark.EventToolUse, tidemark.EventToolResult, tidemark.EventError:
	default:
		return e, false
	}
	// The program's timestamp may be anything; the time of arrival counts here.
	stamp := fields["timestamp"]
	delete(fields, "timestamp")
	b, err := json.Marshal(fields)
	if err != nil || json.Unmarshal(b, &e) != nil {
		return e, false
	}
	more := make(map[string]any)
	var given map[string]json.RawMessage
	if json.Unmarshal(e.Extra, &given) == nil {
		for k, v := range given {
			more[k] = v
		}
	} else if len(e.Extra) > 0 {
		more["extra"] = e.Extra
	}
	for k := range fields {
		if !strings.Contains(eventFields, " "+k+" ") {
			more[k] = fields[k]
		}
	}
	if stamp != nil {
		more["timestamp"] = stamp
	}
	e.Extra = extra(more)
	return e, true
}
