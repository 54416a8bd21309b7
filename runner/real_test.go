//go:build linux

package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model/standin"
	"github.com/tidemark-sessions/tidemark/runner"
)

// realAgent is a program of somebody else, that talks to a scripted model.
type realAgent struct {
	runner  runner.Runner
	args    []string // so that it does what it is told
	environ []string
	model   string // its answers are counted for
}

// TestRealAgents runs Claude Code and Codex themselves against a model server
// that says what it was sent.
func TestRealAgents(t *testing.T) {
	claudePath, codexPath := standin.RealAgents(t, os.Getenv(standin.RealVariable))
	url := standin.Start(t)
	t.Run("claude", func(t *testing.T) {
		t.Parallel()
		a := realAgent{runner.Claude(claudePath), []string{"--allowedTools", "Bash"}, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
			"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=fake", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"}, "claude-sonnet-4-5"}
		a.check(t)
		t.Run("its limit of turns holds", a.stopsAfterOneTurn)
		t.Run("what a person denies is not done", a.obeysAPerson)
	})
	t.Run("codex", func(t *testing.T) {
		t.Parallel()
		home := t.TempDir()
		config := "model_provider = \"fake\"\n[model_providers.fake]\nname = \"fake\"\nbase_url = \"" + url + "/v1\"\nenv_key = \"FAKE_KEY\"\nwire_api = \"responses\"\n"
		if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		a := realAgent{runner.Codex(codexPath), []string{"--dangerously-bypass-approvals-and-sandbox"}, []string{"PATH=" + os.Getenv("PATH"),
			"HOME=" + t.TempDir(), "CODEX_HOME=" + home, "FAKE_KEY=fake"}, "gpt-5"}
		a.check(t)
	})
}

// rig is a run of the agent that is about to be.
func (a realAgent) rig(t *testing.T, dir, prompt string) *rig {
	g := newRig(t)
	g.task.Dir, g.task.Prompt, g.task.Environ, g.task.Args, g.task.Model = dir, prompt, a.environ, a.args, a.model
	g.task.Grace = 2 * time.Second // they have something to write down
	g.task.Mint = string(tidemark.NewSessionID())
	return g
}

// do runs a rig to a good end.
func (a realAgent) do(g *rig) runner.Outcome {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	o, err := g.run(ctx, a.runner)
	if err != nil {
		g.t.Fatalf("%v\n%s", err, strings.Join(g.brief(), "\n"))
	}
	return o
}

// said asks a session for what the model was sent of it.
func (a realAgent) said(t *testing.T, dir, session string) string {
	t.Helper()
	g := a.rig(t, dir, "What have I said so far?")
	g.task.Session = session
	return strings.Join(regexp.MustCompile("apple|pear|fig|plum").FindAllString(a.do(g).Summary, -1), " ")
}

// check is what holds for every agent.
func (a realAgent) check(t *testing.T) {
	dir := t.TempDir()
	g := a.rig(t, dir, `An apple. [[fake op bash {"cmd":"echo harbour-$((40+2))"}]] [[fake say Noted.]] [[fake in=100 out=10]]`)
	first := a.do(g)
	same(t, "summary", first.Summary, "Noted.")
	same(t, "usage", a.tokens(first), [2]int64{200, 20}) // two answers
	g.usedATool(true, "harbour-42")

	g = a.rig(t, dir, "A pear. [[fake say Noted.]] [[fake in=50 out=5]]")
	g.task.Session, g.task.Spent = first.Session, first.Spent
	second := a.do(g)
	same(t, "session", second.Session, first.Session)
	same(t, "usage of a resumed run", a.tokens(second), [2]int64{50, 5})
	same(t, "what it was sent", a.said(t, dir, first.Session), "apple pear")

	g = a.rig(t, dir, "A fig.")
	g.task.Session, g.task.Fork = first.Session, true
	copied := a.do(g)
	if copied.Session == "" || copied.Session == first.Session {
		t.Errorf("the copy of session %s is %q", first.Session, copied.Session)
	}
	same(t, "what the copy was sent", a.said(t, dir, copied.Session), "apple pear fig")
	same(t, "what the original was sent", a.said(t, dir, first.Session), "apple pear")

	a.cancel(t)

	g = a.rig(t, dir, "A plum.")
	g.task.Session = other
	if _, err := g.run(t.Context(), a.runner); !errors.Is(err, runner.ErrSession) {
		t.Errorf("a session that it does not know: %v, want ErrSession", err)
	}
	g = a.rig(t, dir, "A plum.")
	g.task.Session, g.task.Fork = other, true
	if _, err := g.run(t.Context(), a.runner); !errors.Is(err, runner.ErrSession) {
		t.Errorf("a copy of a session that it does not know: %v, want ErrSession", err)
	}
}

// tokens are the input and the output that a run counts, of all models.
func (a realAgent) tokens(o runner.Outcome) (sum [2]int64) {
	for _, u := range o.Usage {
		sum[0] += u.InputTokens
		sum[1] += u.OutputTokens
	}
	return sum
}

// usedATool checks that one call of a tool was told, and what came of it.
func (g *rig) usedATool(good bool, result string) {
	g.t.Helper()
	var used, came []tidemark.Event
	for _, e := range g.events {
		switch e.Type {
		case tidemark.EventToolUse:
			used = append(used, e)
		case tidemark.EventToolResult:
			came = append(came, e)
		}
	}
	if len(used) != 1 || len(came) != 1 || used[0].ToolUseID == "" || used[0].ToolUseID != came[0].ToolUseID || used[0].ToolName == "" ||
		!strings.Contains(string(used[0].Input), "harbour") || came[0].Success == nil || *came[0].Success != good || !strings.Contains(string(came[0].Result), result) {
		g.t.Errorf("want one call and its result:\n%s", strings.Join(g.brief(), "\n"))
	}
}

// cancel ends an agent while its tool runs, and goes on with its session.
func (a realAgent) cancel(t *testing.T) {
	dir := t.TempDir()
	g := a.rig(t, dir, `A plum. [[fake op bash {"cmd":"echo $$ > pid; exec sleep 300"}]] [[fake say Never.]]`)
	g.folder = dir
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var pid string
	go func() {
		pid = strings.TrimSpace(g.untilNoted("pid"))
		cancel()
	}()
	o, err := g.run(ctx, a.runner)
	if o.ExitReason != tidemark.ExitCancelled || !errors.Is(err, context.Canceled) || o.Session == "" {
		t.Fatalf("outcome %+v, %v\n%s", o, err, strings.Join(g.brief(), "\n"))
	}
	if line := await("/proc/" + pid + "/cmdline"); strings.Contains(line, "sleep") { // one that has ended has none
		t.Errorf("what its tool started runs as process %s", pid)
	}
	same(t, "what it was sent after a run that was cancelled", a.said(t, dir, o.Session), "plum")
}

func (a realAgent) stopsAfterOneTurn(t *testing.T) {
	g := a.rig(t, t.TempDir(), `[[fake op bash {"cmd":"echo harbour"}]] [[fake say Never.]]`)
	g.task.MaxTurns = 1
	if o := a.do(g); o.ExitReason != tidemark.ExitMaxTurns {
		t.Errorf("outcome %+v", o)
	}
}

func (a realAgent) obeysAPerson(t *testing.T) {
	dir := t.TempDir()
	for _, allow := range []bool{false, true} {
		g := a.rig(t, dir, `[[fake op bash {"cmd":"echo harbour > harbour"}]] [[fake say Done.]]`)
		g.task.Args, g.task.RunMode = nil, runner.Review
		var asked []runner.Question
		g.task.Ask = func(_ context.Context, q runner.Question) (runner.Answer, error) {
			asked = append(asked, q)
			return runner.Answer{Allow: allow, Reason: "not today"}, nil
		}
		a.do(g)
		if len(asked) != 1 || asked[0].Tool != "Bash" || !strings.Contains(string(asked[0].Input), "harbour") {
			t.Errorf("asked %+v", asked)
		}
		want := "not today"
		if allow {
			want = ""
		}
		g.usedATool(allow, want)
		if _, err := os.Stat(filepath.Join(dir, "harbour")); (err == nil) != allow {
			t.Errorf("allowed: %t; then %v", allow, err)
		}
	}
}
