//go:build linux

package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/runner"
)

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func command(t *testing.T) runner.Runner { return runner.Command([]string{self(t)}) }

func TestACommandsLinesBecomeEvents(t *testing.T) {
	g := newRig(t, "!stdin",
		"plain text",
		"",
		`{"type":"assistant","content":"typed","usage":{"input_tokens":3,"output_tokens":4},"mood":"calm","timestamp":"then"}`,
		`{"type":"tool_use","tool_name":"bash","tool_use_id":"t1","input":{"command":"ls"}}`,
		`{"type":"tool_result","tool_use_id":"t1","result":["a"],"success":true,"error":null}`,
		`{"type":"assistant","content":17}`,
		`{"type":"progress","done":3}`,
		`{"broken":`,
		`[1,2]`,
		"!stderr a complaint",
		"!torn the end")
	g.task.Model = "m1"
	o, err := g.run(t.Context(), command(t))
	if err != nil {
		t.Fatal(err)
	}
	var out, errs []string
	for _, l := range g.brief() {
		if strings.Contains(l, "stderr") {
			errs = append(errs, l)
		} else {
			out = append(out, l)
		}
	}
	same(t, "events", out, []string{
		"assistant content=plain text",
		`assistant content=typed usage={"input_tokens":3,"output_tokens":4}`,
		`tool_use tool=bash id=t1 input={"command":"ls"}`,
		`tool_result id=t1 result=["a"] success=true`,
		`system/json content={"type":"assistant","content":17}`,
		`system/json content={"type":"progress","done":3}`,
		`assistant content={"broken":`,
		`assistant content=[1,2]`,
		`assistant content=the end`,
	})
	same(t, "standard error", errs, []string{"system/stderr content=a complaint"})
	same(t, "outcome", o, runner.Outcome{ExitReason: tidemark.ExitSuccess, Summary: "the end",
		Usage: map[string]tidemark.Usage{"m1": {InputTokens: 3, OutputTokens: 4}}})
	same(t, "what it was told", await(filepath.Join(g.folder, "stdin")), "tidy up")
	for _, e := range g.events {
		if e.Content == "typed" {
			same(t, "fields of its own", string(e.Extra), `{"mood":"calm","timestamp":"then"}`)
		}
	}
}

func TestACommandFindsThePromptAndTheSessionInItsEnvironment(t *testing.T) {
	g := newRig(t, "!env TIDEMARK_PROMPT", "!env TIDEMARK_SESSION", "!env TIDEMARK_JOB", "!env TIDEMARK_AGENT", "!env HOME")
	g.task.Session = "s-1"
	t.Setenv("HOME", "/not/for/agents")
	if _, err := g.run(t.Context(), command(t)); err != nil {
		t.Fatal(err)
	}
	same(t, "events", g.brief(), []string{"assistant content=tidy up", "assistant content=s-1", "assistant content=" + g.task.Job, "assistant content=tidy"})
}

func TestAPromptThatIsTooLongForAVariableComesByStandardInput(t *testing.T) {
	g := newRig(t, "!stdin", "!env TIDEMARK_PROMPT")
	g.task.Prompt = strings.Repeat("long ", 100_000)
	if _, err := g.run(t.Context(), command(t)); err != nil {
		t.Fatal(err)
	}
	if got := await(filepath.Join(g.folder, "stdin")); got != g.task.Prompt || len(g.events) != 0 {
		t.Errorf("%d bytes by standard input, %d events", len(got), len(g.events))
	}
}

func TestAProgramThatReadsNothingIsNotWaitedFor(t *testing.T) {
	g := newRig(t, "done")
	g.task.Prompt = strings.Repeat("more than a pipe holds ", 100_000)
	if o, err := g.run(t.Context(), command(t)); err != nil || o.Summary != "done" {
		t.Errorf("outcome %+v, %v", o, err)
	}
}

func TestAnExitCodeIsAnError(t *testing.T) {
	g := newRig(t, "half", "!stderr no such thing", "!exit 3")
	o, err := g.run(t.Context(), command(t))
	if err == nil || !strings.Contains(err.Error(), "exit code 3: no such thing") || o.ExitCode != 3 || o.Summary != "half" {
		t.Errorf("outcome %+v, %v", o, err)
	}
	if last := g.events[len(g.events)-1]; last.Type != tidemark.EventError || last.Message != err.Error() {
		t.Errorf("the last event is %+v", last)
	}
}

func TestACrashSaysWhichSignal(t *testing.T) {
	g := newRig(t, "half", "!crash")
	o, err := g.run(t.Context(), command(t))
	if err == nil || !strings.Contains(err.Error(), "signal killed") || o.ExitReason != tidemark.ExitError {
		t.Errorf("outcome %+v, %v", o, err)
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{
		"by name":        {"no-such-program-here"},
		"by path":        {"/no/such/program"},
		"a folder":       {"/"},
		"not executable": {plain},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			o, err := g.run(t.Context(), runner.Command(argv))
			if !errors.Is(err, tidemark.ErrNotFound) || o.ExitCode != -1 {
				t.Errorf("outcome %+v, %v, want ErrNotFound", o, err)
			}
			if len(g.events) != 1 || g.events[0].Code != "not_found" {
				t.Errorf("events %v", g.brief())
			}
		})
	}
	t.Run("its folder", func(t *testing.T) {
		g := newRig(t)
		g.task.Dir = filepath.Join(g.folder, "gone")
		if _, err := g.run(t.Context(), command(t)); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("error %v, want ErrNotFound", err)
		}
	})
	t.Run("nothing at all", func(t *testing.T) {
		g := newRig(t)
		if _, err := g.run(t.Context(), runner.Command(nil)); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("error %v, want ErrInvalid", err)
		}
	})
}

func TestAProgramIsLookedForInThePathOfTheAgent(t *testing.T) {
	g := newRig(t, "found")
	if err := os.Symlink(self(t), filepath.Join(g.folder, "agent-of-mine")); err != nil {
		t.Fatal(err)
	}
	g.task.Environ = append(g.task.Environ, "PATH=relative:"+g.folder)
	if o, err := g.run(t.Context(), runner.Command([]string{"agent-of-mine"})); err != nil || o.Summary != "found" {
		t.Errorf("outcome %+v, %v", o, err)
	}
}

func TestBinaryOutputIsKeptAsText(t *testing.T) {
	g := newRig(t, "!binary", "after")
	if _, err := g.run(t.Context(), command(t)); err != nil {
		t.Fatal(err)
	}
	same(t, "events", g.brief(), []string{"assistant content=\uFFFD\uFFFDa\uFFFD", "assistant content=after"})
}

func TestALineWithoutEndIsCut(t *testing.T) {
	g := newRig(t, "!bytes 100000000", "after")
	o, err := g.run(t.Context(), command(t))
	if err != nil {
		t.Fatal(err)
	}
	const kept = 8 << 20
	if len(g.events) != 3 || len(g.events[0].Content) != kept || g.events[1].Subtype != "output_limit" || g.events[2].Content != "after" {
		t.Errorf("%d events", len(g.events))
	}
	if o.LeftOut != 100_000_000-kept {
		t.Errorf("%d bytes were left out, want %d", o.LeftOut, 100_000_000-kept)
	}
}

func TestOutputOverTheLimitIsCountedAndTheProgramGoesOn(t *testing.T) {
	g := newRig(t, "!lines 200000", "!exit 4")
	g.task.OutputBytes = 10_000
	o, err := g.run(t.Context(), command(t))
	if err == nil || o.ExitCode != 4 {
		t.Fatalf("outcome %+v, %v: want that the program came to its end", o, err)
	}
	lines := g.brief()
	kept := 0
	var said []string
	for _, l := range lines {
		if l == "assistant content=over and over again" {
			kept++
		} else {
			said = append(said, l)
		}
	}
	if kept == 0 || kept > 100 {
		t.Errorf("%d events are kept", kept)
	}
	if len(said) != 3 || !strings.Contains(said[0], "output_limit") || !strings.HasPrefix(said[1], "error ") || !strings.Contains(said[2], "are not kept") {
		t.Errorf("said: %q", said)
	}
	if o.LeftOut < 3_000_000 {
		t.Errorf("%d bytes were left out", o.LeftOut)
	}
}

func TestAnEventThatCannotBeKeptEndsTheRun(t *testing.T) {
	g := newRig(t, "one", "!hang")
	full := tidemark.Storagef("no space")
	g.task.Emit = func(tidemark.Event) error { return full }
	o, err := g.run(t.Context(), command(t))
	if !errors.Is(err, tidemark.ErrStorage) || o.ExitReason != tidemark.ExitError {
		t.Errorf("outcome %+v, %v, want ErrStorage", o, err)
	}
}

func TestAProcessThatCannotBeNotedEndsTheRun(t *testing.T) {
	g := newRig(t, "!hang")
	g.task.Running = func(runner.Process) error { return tidemark.Storagef("no space") }
	if _, err := g.run(t.Context(), command(t)); !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("error %v, want ErrStorage", err)
	}
}

func TestAValueThatLooksLikeAnOptionIsRefused(t *testing.T) {
	for name, change := range map[string]func(*runner.Task){
		"session":              func(k *runner.Task) { k.Session = "--dangerously" },
		"model":                func(k *runner.Task) { k.Model = "-m" },
		"new session":          func(k *runner.Task) { k.Mint = "-x" },
		"copy of nothing":      func(k *runner.Task) { k.Fork = true },
		"long system prompt":   func(k *runner.Task) { k.System = strings.Repeat("x", 200_000) },
		"system prompt, zeros": func(k *runner.Task) { k.System = "a\x00b" },
	} {
		g := newRig(t)
		change(&g.task)
		if _, err := g.run(t.Context(), runner.Claude(self(t))); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: error %v, want ErrInvalid", name, err)
		}
	}
}

func TestWhoCannotAskIsNotRunInReviewMode(t *testing.T) {
	for name, r := range map[string]runner.Runner{"command": command(t), "codex": codex(t)} {
		g := newRig(t, "did it")
		g.task.RunMode = runner.Review
		if _, err := g.run(t.Context(), r); !errors.Is(err, tidemark.ErrUnsupported) || len(g.seen) != 0 {
			t.Errorf("%s: %v, processes %v, want ErrUnsupported", name, err, g.seen)
		}
	}
	g := newRig(t)
	g.task.RunMode = "careless"
	if _, err := g.run(t.Context(), command(t)); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("an unknown mode: %v, want ErrInvalid", err)
	}
}

func TestTheEndOfTheContextIsTheExitReason(t *testing.T) {
	person := errors.New("ada does not want it any more")
	for name, c := range map[string]struct {
		cancel func(context.CancelCauseFunc)
		reason string
		err    error
	}{
		"cancelled": {func(c context.CancelCauseFunc) { c(person) }, tidemark.ExitCancelled, person},
		"interrupt": {func(c context.CancelCauseFunc) { c(runner.ErrInterrupted) }, tidemark.ExitInterrupt, runner.ErrInterrupted},
		"timeout":   {func(c context.CancelCauseFunc) { c(context.DeadlineExceeded) }, tidemark.ExitTimeout, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, "half", "!hang")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				g.untilNoted("hangs")
				c.cancel(cancel)
			}()
			o, err := g.run(ctx, command(t))
			if o.ExitReason != c.reason || !errors.Is(err, c.err) || o.Summary != "half" {
				t.Errorf("outcome %+v, %v", o, err)
			}
		})
	}
	t.Run("before it began", func(t *testing.T) {
		g := newRig(t, "half")
		ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
		defer cancel()
		if o, err := g.run(ctx, command(t)); o.ExitReason != tidemark.ExitTimeout || err == nil || len(g.seen) != 0 {
			t.Errorf("outcome %+v, %v, processes %v", o, err, g.seen)
		}
	})
}

// A busy store keeps the last lines of a program later than the program ends;
// it has as long as it needs.
func TestNothingIsLostWhenKeepingTakesLongerThanTheProgram(t *testing.T) {
	g := newRig(t, "!lines 8000")
	g.task.Grace = 20 * time.Millisecond
	keep, n := g.task.Emit, 0
	g.task.Emit = func(e tidemark.Event) error {
		if n++; n%1000 == 1 {
			time.Sleep(3 * g.task.Grace) // the store is slow
		}
		return keep(e)
	}
	if _, err := g.run(t.Context(), command(t)); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, l := range g.brief() {
		if l == "assistant content=over and over again" {
			kept++
		}
	}
	if kept != 8000 {
		t.Errorf("%d of 8000 lines are kept", kept)
	}
}
