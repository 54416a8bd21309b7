//go:build linux

package runner_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/runner"
)

// codexTurn is a turn as codex exec --json tells it, made up but for its
// shape: items that start and complete, some that only complete.
var codexTurn = []string{
	`{"type":"thread.started","thread_id":"` + uuid + `"}`,
	`{"type":"turn.started"}`,
	`{"type":"item.completed","item":{"id":"item_0","type":"reasoning","text":"**Looking**"}}`,
	`{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"bash -lc ls","aggregated_output":"","exit_code":null,"status":"in_progress"}}`,
	`{"type":"item.updated","item":{"id":"item_1","type":"command_execution","command":"bash -lc ls","aggregated_output":"a","exit_code":null,"status":"in_progress"}}`,
	`{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"bash -lc ls","aggregated_output":"a\nb\n","exit_code":0,"status":"completed"}}`,
	`{"type":"item.completed","item":{"id":"item_2","type":"command_execution","command":"false","aggregated_output":"","exit_code":1,"status":"failed"}}`,
	`{"type":"item.completed","item":{"id":"item_3","type":"file_change","changes":[{"path":"a","kind":"add"}],"status":"completed"}}`,
	`{"type":"item.started","item":{"id":"item_4","type":"mcp_tool_call","server":"docs","tool":"search","arguments":{"q":"x"},"result":null,"error":null,"status":"in_progress"}}`,
	`{"type":"item.completed","item":{"id":"item_4","type":"mcp_tool_call","server":"docs","tool":"search","arguments":{"q":"x"},"result":null,"error":{"message":"no such index"},"status":"failed"}}`,
	`{"type":"item.completed","item":{"id":"item_5","type":"web_search","query":"tides","action":{"type":"search"}}}`,
	`{"type":"item.started","item":{"id":"item_6","type":"todo_list","items":[{"text":"look","completed":false}]}}`,
	`{"type":"item.completed","item":{"id":"item_7","type":"error","message":"a plugin is old"}}`,
	`{"type":"item.completed","item":{"id":"item_8","type":"agent_message","text":"Done."}}`,
	`{"type":"turn.completed","usage":{"input_tokens":100,"cached_input_tokens":60,"cache_write_input_tokens":10,"output_tokens":7,"reasoning_output_tokens":3}}`,
}

func codex(t *testing.T) runner.Runner { return runner.Codex(self(t)) }

func TestCodexsStreamBecomesTypedEvents(t *testing.T) {
	g := newRig(t, slices.Concat([]string{"!stdin"}, codexTurn, []string{`{"type":"of.the.future","x":1}`})...)
	g.task.Model, g.task.System, g.task.Args = "gpt-5", "Be \"brief\".", []string{"--sandbox", "workspace-write"}
	o, err := g.run(t.Context(), codex(t))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "events", g.brief(), []string{
		"system/thread.started",
		"assistant/thinking content=**Looking**",
		`tool_use tool=command_execution id=item_1 input={"command":"bash -lc ls"}`,
		`tool_result id=item_1 result="a\nb\n" success=true`,
		`tool_use tool=command_execution id=item_2 input={"command":"false"}`,
		`tool_result id=item_2 result="" success=false error=exit code 1`,
		`tool_use tool=file_change id=item_3 input={"changes":[{"path":"a","kind":"add"}]}`,
		`tool_result id=item_3 result=[{"path":"a","kind":"add"}] success=true`,
		`tool_use tool=mcp__docs__search id=item_4 input={"q":"x"}`,
		`tool_result id=item_4 result=null success=false error=no such index`,
		`tool_use tool=web_search id=item_5 input={"query":"tides"}`,
		`tool_result id=item_5 result={"action":{"type":"search"}} success=true`,
		"system/todo_list",
		"system/warning content=a plugin is old",
		"assistant content=Done.",
		`system/turn.completed usage={"input_tokens":30,"output_tokens":7,"cache_read_tokens":60,"cache_write_tokens":10}`,
		"system/of.the.future",
	})
	used := tidemark.Usage{InputTokens: 30, OutputTokens: 7, CacheReadTokens: 60, CacheWriteTokens: 10}
	same(t, "outcome", o, runner.Outcome{ExitReason: tidemark.ExitEndTurn, Session: uuid, Summary: "Done.", Turns: 1,
		Usage: map[string]tidemark.Usage{"gpt-5": used}, Spent: &used})
	same(t, "arguments", args(g), []string{"exec", "--json", "--skip-git-repo-check", "--model", "gpt-5",
		"-c", `developer_instructions="Be \"brief\"."`, "--sandbox", "workspace-write", "-"})
	if len(g.seen) != 2 || g.seen[1].Session != uuid {
		t.Errorf("processes %+v", g.seen)
	}
}

func TestCodexCountsAResumedSessionOnce(t *testing.T) {
	spent := tidemark.Usage{InputTokens: 20, OutputTokens: 5, CacheReadTokens: 60}
	for name, c := range map[string]struct {
		spent *tidemark.Usage
		want  map[string]tidemark.Usage
	}{
		"known":   {&spent, map[string]tidemark.Usage{"unknown": {InputTokens: 10, OutputTokens: 2, CacheWriteTokens: 10}}},
		"unknown": {nil, nil},
	} {
		g := newRig(t, codexTurn...)
		g.task.Session, g.task.Spent, g.task.MaxTurns = uuid, c.spent, 3
		o, err := g.run(t.Context(), codex(t))
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, o.Usage, c.want)
		same(t, name+": spent", o.Spent, &tidemark.Usage{InputTokens: 30, OutputTokens: 7, CacheReadTokens: 60, CacheWriteTokens: 10})
		same(t, name+": arguments", args(g), []string{"exec", "--json", "--skip-git-repo-check", "resume", uuid, "-"})
		if g.events[0].Subtype != "ignored" {
			t.Errorf("%s: nothing is said of the limit of turns", name)
		}
	}
}

func TestCodexsFailures(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
		is    error
	}{
		"a turn that failed": {[]string{codexTurn[0], codexTurn[1], `{"type":"error","message":"Reconnecting... 1/5"}`, `{"type":"turn.failed","error":{"message":"no quota"}}`, "!exit 1"}, "no quota", nil},
		"a crash":            {append(slices.Clone(codexTurn[:5]), `!torn {"type":"item.comp`, "!crash"), "signal killed, without the end of a turn", nil},
		"a silent end":       {codexTurn[:3], "without the end of a turn", nil},
		"an unknown session": {[]string{"!stderr Error: thread/resume: thread/resume failed: no rollout found for thread id " + uuid + " (code -32600)", "!exit 1"}, uuid, runner.ErrSession},
		"another session":    {append([]string{`{"type":"thread.started","thread_id":"` + other + `"}`}, codexTurn[1:]...), "began another one, " + other, runner.ErrSession},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, c.lines...)
			g.task.Session = uuid
			o, err := g.run(t.Context(), codex(t))
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) || c.is == nil && errors.Is(err, runner.ErrSession) {
				t.Errorf("outcome %+v, %v", o, err)
			}
		})
	}
}

func TestCodexGoesOnWithACopyWhereItCan(t *testing.T) {
	lines := slices.Clone(codexTurn)
	lines[0] = `{"type":"thread.started","thread_id":"` + other + `"}`
	g := newRig(t, lines...)
	g.task.Session, g.task.Fork, g.task.Spent = uuid, true, &tidemark.Usage{InputTokens: 20, OutputTokens: 5, CacheReadTokens: 60}
	o, err := g.run(t.Context(), codex(t))
	if err != nil || o.Session != other {
		t.Errorf("outcome %+v, %v", o, err)
	}
	same(t, "usage", o.Usage, map[string]tidemark.Usage{"unknown": {InputTokens: 10, OutputTokens: 2, CacheWriteTokens: 10}})
	same(t, "arguments", args(g), []string{"exec", "--json", "--skip-git-repo-check", "fork", uuid, "-"})

	g = newRig(t, "!stderr error: unexpected argument '"+uuid+"' found", "!exit 2")
	g.task.Session, g.task.Fork = uuid, true
	if _, err := g.run(t.Context(), codex(t)); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("an old codex: %v, want ErrUnsupported", err)
	}
}
