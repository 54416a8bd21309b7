package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/workshop/hostile"
)

// permissionsOf reads "allow | deny", with blanks between tools, as a file has
// them. A blank within a tool is written as ~.
func permissionsOf(t *testing.T, text string) file.Permissions {
	t.Helper()
	allow, deny, _ := strings.Cut(text, "|")
	list := func(s string) string {
		names := append([]string{}, strings.Fields(s)...)
		for i := range names {
			names[i] = strings.ReplaceAll(names[i], "~", " ")
		}
		b, err := json.Marshal(names)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	f, err := file.Parse("fleet.yaml", fmt.Appendf(nil, "version: 1\nagents:\n  - name: a\n    runner: claude\n    permissions: {allow: %s, deny: %s}\n", list(allow), list(deny)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f.Agents[0].Permissions
}

func TestPermissionsOfTheFileComeFirst(t *testing.T) {
	const builtin, claude, acp = fleet.RunnerBuiltin, fleet.RunnerClaude, fleet.RunnerACP
	for _, c := range []struct{ runner, permissions, tool, title, want string }{
		{builtin, "", "bash", "git", ""},
		{builtin, "bash", "bash", "git", "allow"},
		{builtin, "*", "python", "", "allow"},
		{builtin, "*|bash", "bash", "git", "deny"},
		{builtin, "*|Bash", "bash", "git", "deny"},
		{builtin, "Bash", "bash", "git", ""},
		{builtin, "bash|*", "bash", "git", "deny"},
		{builtin, "bash(git)", "bash", "vetted: git status", "allow"},
		{builtin, "bash(git)", "bash", "vetted: git log, git status", "allow"},
		{builtin, "bash(git)", "bash", "vetted: git log, head", ""},
		{builtin, "bash(git~status)", "bash", "vetted: git status", "allow"},
		{builtin, "bash(git~status)", "bash", "vetted: git log", ""},
		{builtin, "bash(gi)", "bash", "vetted: git log", ""},
		{builtin, "bash(git)", "bash", "git", ""},
		{builtin, "bash(git)", "bash", "/tmp/git", ""},
		{builtin, "bash(git)", "bash", "exactly: git -c core.fsmonitor=./x status", ""},
		{builtin, "bash(git)", "bash", "exactly: git status; rm -r x", ""},
		{builtin, "bash(make~test)", "bash", "exactly: make test", "allow"},
		{builtin, "bash(make~test)", "bash", "exactly: make test ", ""},
		{builtin, "bash(make~test)", "bash", "exactly: in /tmp: make test", ""},
		{builtin, "bash(git)", "bash", "", ""},
		{builtin, "bash|bash(rm)", "bash", "vetted: ls", "allow"},
		{builtin, "bash|bash(rm)", "bash", "exactly: make test", "allow"},
		{builtin, "bash|bash(rm)", "bash", "exactly: rm x", "deny"},
		{builtin, "bash|bash(rm)", "bash", "exactly: /bin/rm x", "deny"},
		{builtin, "bash|bash(rm)", "bash", "exactly: ls; rm x", "deny"},
		{builtin, "*|bash(rm)", "bash", "exactly: ls; rm x", "deny"},
		{builtin, "*|bash(rm)", "bash", "exactly: env rm x", ""},
		{builtin, "*|bash(rm)", "bash", "exactly: $x", ""},
		{builtin, "*|bash(git~push)", "bash", "exactly: git push", "deny"},
		{builtin, "*|bash(rm)", "python", "", "allow"},
		{builtin, "write(docs)", "write", "./docs", "allow"},
		{builtin, "write(./docs)", "write", "./docs/deep/er", "allow"},
		{builtin, "write(docs)", "write", "./docs2", ""},
		{builtin, "write(docs)", "write", ".", ""},
		{builtin, "write(.)", "write", "./src", "allow"},
		{builtin, "write(.)", "write", "session:", ""},
		{builtin, "write(.)", "write", "/etc", ""},
		{builtin, "write|write(src)", "write", "./src/x", "deny"},
		{builtin, "write|write(src)", "write", "./docs of mine", "allow"},
		{builtin, "read(/srv)", "read", "/srv/data", "allow"},
		{builtin, "read(/srv)", "read", "/srv/../etc", ""},
		{builtin, "fetch(example.org)", "fetch", "example.org", "allow"},
		{builtin, "fetch(example.org)", "fetch", "www.example.org", ""},
		{builtin, "fetch(example.org)", "fetch", "example.org:8080", ""},
		{builtin, "fetch|fetch(example.org)", "fetch", "www.example.org:8080", "deny"},
		{builtin, "fetch|fetch(example.org)", "fetch", "badexample.org", "allow"},
		{claude, "Bash", "Bash", "Run git", "allow"},
		{claude, "Bash(git)", "Bash", "git", ""},
		{claude, "Bash|Bash(rm:*)", "Bash", "ls", ""},
		{acp, "execute", "execute", "anything", "allow"},
		{acp, "execute(git)", "execute", "git", ""},
		{acp, "*|execute(rm)", "execute", "git", ""},
	} {
		a := file.Agent{Runner: c.runner, Permissions: permissionsOf(t, c.permissions)}
		input, err := json.Marshal(map[string]string{"command": strings.TrimPrefix(c.title, "exactly: ")})
		if err != nil {
			t.Fatal(err)
		}
		allowed, denial := judge(a, runner.Question{Tool: c.tool, Title: c.title, Input: input})
		got := ""
		switch {
		case allowed:
			got = "allow"
		case denial != "":
			got = "deny"
		}
		if got != c.want {
			t.Errorf("%s, %q: %s %q: %q (%s), want %q", c.runner, c.permissions, c.tool, c.title, got, denial, c.want)
		}
	}
}

func TestAFolderMayBeNamedWhole(t *testing.T) {
	dir := t.TempDir()
	a := file.Agent{Runner: fleet.RunnerBuiltin, Dir: dir, Permissions: file.Permissions{Allow: []file.Permission{{Tool: "write", Scope: dir}}}}
	for title, want := range map[string]bool{"./src": true, ".": true, "../x": false, "/elsewhere": false} {
		if got, _ := judge(a, runner.Question{Tool: "write", Title: title}); got != want {
			t.Errorf("%s: %t, want %t", title, got, want)
		}
	}
}

// asking is a job that runs and asks.
type asking struct {
	*stage
	d   *Daemon
	run *fleet.JobRun
	ask func(context.Context, runner.Question) (runner.Answer, error)
}

func newAsking(t *testing.T, a file.Agent) *asking {
	t.Helper()
	s := newStage(t)
	a.Name, a.Runner = "a", fleet.RunnerBuiltin
	d := s.daemon(&file.File{Agents: []file.Agent{a}}, "daemon")
	j, err := s.store.AddJob(t.Context(), tidemark.Job{Agent: "a"})
	if err != nil {
		t.Fatal(err)
	}
	run, err := d.o.Store.StartJob(t.Context(), j.ID, d.o.Holder, fleet.SlotLimits{})
	if err != nil {
		t.Fatal(err)
	}
	return &asking{s, d, run, d.answers(a, run)}
}

// told is what the output of the job says about questions.
func (a *asking) told() string {
	a.t.Helper()
	var all []string
	for e, err := range a.store.Output(a.t.Context(), a.run.Job().ID) {
		if err != nil {
			a.t.Fatal(err)
		}
		all = append(all, e.Content)
	}
	return strings.Join(all, "\n")
}

func (a *asking) answer(call string, allow bool, reason string) {
	a.t.Helper()
	if n, err := a.store.AnswerReview(a.t.Context(), a.run.Job().ID, call, allow, tidemark.Holder{Program: "ada"}, reason); err != nil || n == 0 {
		a.t.Errorf("answer to %q: %d, %v", call, n, err)
	}
}

func push(id string) runner.Question {
	return runner.Question{ID: id, Tool: "bash", Title: "exactly: git push", Input: json.RawMessage(`{"command":"git push"}`)}
}

func TestAnAutonomousAgentIsToldWhyItMayNot(t *testing.T) {
	a := newAsking(t, file.Agent{RunMode: fleet.RunAutonomous, Permissions: file.Permissions{Allow: []file.Permission{{Tool: "bash", Scope: "ls"}}}})
	got, err := a.ask(t.Context(), push("c1"))
	if err != nil || got.Allow || !strings.Contains(got.Reason, "do not allow bash(git push)") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := a.ask(t.Context(), runner.Question{ID: "c2", Tool: "bash", Title: "vetted: ls"}); err != nil || !got.Allow || got.Always {
		t.Errorf("what is allowed: %+v, %v", got, err)
	}
	if all, err := a.store.Reviews(t.Context(), ""); err != nil || len(all) != 0 {
		t.Errorf("somebody was asked: %v, %v", all, err)
	}
}

func TestAQuestionWaitsForAPerson(t *testing.T) {
	for _, mode := range []string{fleet.RunInteractive, fleet.RunReview} {
		synctest.Test(t, func(t *testing.T) {
			a := newAsking(t, file.Agent{RunMode: mode, ReviewTimeout: time.Hour})
			var wg sync.WaitGroup
			answers := make([]runner.Answer, 2)
			for i, id := range []string{"c1", "c2"} {
				wg.Go(func() {
					var err error
					if answers[i], err = a.ask(t.Context(), push(id)); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(time.Minute)
			waiting, err := a.store.WaitingReviews(t.Context(), a.run.Job().ID)
			if err != nil || len(waiting) != 2 || string(waiting[0].Input) != `{"command":"git push"}` || waiting[0].UntilAt.Sub(waiting[0].AskedAt) != time.Hour {
				t.Errorf("waiting: %+v, %v", waiting, err)
			}
			a.answer("c1", true, "")
			a.answer("c2", false, "not on a Friday")
			wg.Wait()
			if !answers[0].Allow || answers[1].Allow || answers[1].Reason != "denied: not on a Friday" {
				t.Errorf("%+v", answers)
			}
			told := a.told()
			for _, want := range []string{`bash {"command":"git push"}`, "approved by ada", "denied by ada: not on a Friday"} {
				if !strings.Contains(told, want) {
					t.Errorf("the output lacks %q:\n%s", want, told)
				}
			}
		})
	}
}

func TestWhatNobodyAnswersIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, file.Agent{RunMode: fleet.RunReview, ReviewTimeout: 4 * time.Hour})
		began := time.Now()
		got, err := a.ask(t.Context(), push("c1"))
		if err != nil || got.Allow || got.Reason != "denied: nobody answered within 4h0m0s" {
			t.Errorf("%+v, %v", got, err)
		}
		if took := time.Since(began); took < 4*time.Hour || took > 4*time.Hour+time.Second {
			t.Errorf("after %s", took)
		}
		if _, err := a.store.AnswerReview(t.Context(), a.run.Job().ID, "c1", true, tidemark.Holder{Program: "ada"}, ""); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("approved too late: %v, want ErrConflict", err)
		}
	})
}

func TestAQuestionEndsWithItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, file.Agent{RunMode: fleet.RunReview, ReviewTimeout: time.Hour})
		ctx, cancel := context.WithCancelCause(t.Context())
		var got runner.Answer
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { got, err = a.ask(ctx, push("c1")) })
		time.Sleep(time.Second)
		cancel(errCancelled)
		wg.Wait()
		if got.Allow || !errors.Is(err, errCancelled) {
			t.Errorf("%+v, %v", got, err)
		}
		if waiting, err := a.store.WaitingReviews(t.Context(), ""); err != nil || len(waiting) != 0 {
			t.Errorf("still waiting: %+v, %v", waiting, err)
		}
	})
}

func TestAnAnswerHoldsForOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, file.Agent{RunMode: fleet.RunReview, ReviewTimeout: time.Hour})
		for i, call := range []string{"c1", "c1-2", "c1-3"} {
			var got runner.Answer
			var err error
			var wg sync.WaitGroup
			wg.Go(func() { got, err = a.ask(t.Context(), push("c1")) })
			time.Sleep(time.Second)
			a.answer(call, i != 1, "")
			wg.Wait()
			if err != nil || got.Allow != (i != 1) {
				t.Errorf("%s: %+v, %v", call, got, err)
			}
		}
	})
}

func TestWhatNobodyCanReadIsDeniedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsking(t, file.Agent{RunMode: fleet.RunReview, ReviewTimeout: time.Hour})
		input, err := json.Marshal(map[string]string{"command": hostile.HugeCommand()})
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.ask(t.Context(), runner.Question{ID: "c1", Tool: "bash", Input: input})
		if err != nil || got.Allow || !strings.Contains(got.Reason, "more than a person can be shown (262144)") {
			t.Errorf("%+v, %v", got, err)
		}
		if all, err := a.store.Reviews(t.Context(), ""); err != nil || len(all) != 0 {
			t.Errorf("asked: %+v, %v", all, err)
		}
	})
}

func TestACallHasANameThatCanBeTyped(t *testing.T) {
	for _, id := range []string{"", "-rf", "a b", "../x", "\x1b[31m", strings.Repeat("x", 500)} {
		if name := callName(id); len(name) != 12 || tidemark.CheckID(name) != nil {
			t.Errorf("%q is called %q", id, name)
		}
	}
	if got := callName("toolu_01A"); got != "toolu_01A" {
		t.Errorf("toolu_01A is called %q", got)
	}
}
