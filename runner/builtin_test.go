package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/demo"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// house is the built-in agent on a store of its own.
type house struct {
	store  *store.Store
	dir    string
	events []tidemark.Event
}

func (h *house) runner(t *testing.T) Runner {
	return Builtin(func(context.Context, Task) (chat.Options, error) {
		return chat.Options{Store: h.store, Holder: tidemark.Holder{Program: "test", PID: 1, Host: "here"}, Model: demo.New(demo.Options{Delay: -1}), Name: "demo", Provider: "demo",
			System: "Be brief.", Box: func(s tool.State, f tool.Files, _ store.Limits, out func(string, []byte)) (*tool.Box, error) {
				return tool.New(tool.Options{Root: h.dir, Environ: os.Environ(), State: s, Files: f, Output: out})
			}}, nil
	})
}

func (h *house) task(prompt string) Task {
	return Task{Job: "job-2026-11-15-abc123", Agent: "coder", Prompt: prompt,
		Emit: func(e tidemark.Event) error { h.events = append(h.events, e); return nil }}
}

func newHouse(t *testing.T) *house {
	return &house{store: store.New(memory.New(), nil), dir: t.TempDir()}
}

func TestTheBuiltInAgentRunsAJob(t *testing.T) {
	h := newHouse(t)
	var sessions []string
	task := h.task("run echo ran > effect.txt")
	task.Running = func(p Process) error { sessions = append(sessions, p.Session); return nil }
	task.Ask = func(_ context.Context, q Question) (Answer, error) { return Answer{Allow: q.Tool == "bash"}, nil }
	out, err := h.runner(t).Run(t.Context(), task)
	if err != nil || out.ExitReason != tidemark.ExitEndTurn || out.Turns != 2 || out.Usage["demo"].OutputTokens == 0 || out.Summary == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "effect.txt")); err != nil {
		t.Error(err)
	}
	if !slices.Equal(sessions, []string{out.Session}) {
		t.Errorf("noted %v, ran in %s", sessions, out.Session)
	}
	var types []string
	for _, e := range h.events {
		types = append(types, e.Type)
	}
	for _, want := range []string{tidemark.EventSystem, tidemark.EventAssistant, tidemark.EventToolUse, tidemark.EventToolResult} {
		if !slices.Contains(types, want) {
			t.Errorf("no %s among %v", want, types)
		}
	}

	// It goes on where it was, and a copy leaves the session as it is.
	next := h.task("what have I said so far?")
	next.Session = out.Session
	again, err := h.runner(t).Run(t.Context(), next)
	if err != nil || again.Session != out.Session {
		t.Errorf("%+v, %v", again, err)
	}
	next.Fork = true
	forked, err := h.runner(t).Run(t.Context(), next)
	if err != nil || forked.Session == out.Session {
		t.Errorf("%+v, %v", forked, err)
	}
}

func TestTheBuiltInAgentDoesNothingUnasked(t *testing.T) {
	h := newHouse(t)
	out, err := h.runner(t).Run(t.Context(), h.task("run echo ran > effect.txt"))
	if err != nil || out.ExitReason != tidemark.ExitEndTurn {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(h.dir, "effect.txt")); err == nil {
		t.Error("it ran all the same")
	}
}

func TestASessionOfTheBuiltInAgentThatIsGone(t *testing.T) {
	h := newHouse(t)
	for _, id := range []string{"nonsense", string(tidemark.NewSessionID())} {
		task := h.task("hello")
		task.Session = id
		if _, err := h.runner(t).Run(t.Context(), task); !errors.Is(err, ErrSession) {
			t.Errorf("%s: %v, want ErrSession", id, err)
		}
	}
}

func TestACancelledBuiltInAgent(t *testing.T) {
	h := newHouse(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	task := h.task("run sleep 60")
	task.Ask = func(context.Context, Question) (Answer, error) {
		cancel(ErrInterrupted)
		return Answer{Allow: true}, nil
	}
	out, err := h.runner(t).Run(ctx, task)
	if !errors.Is(err, ErrInterrupted) || out.ExitReason != tidemark.ExitInterrupt || out.Session == "" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestHowATurnOfTheBuiltInAgentEnds(t *testing.T) {
	for stop, want := range map[string]string{model.StopEnd: tidemark.ExitEndTurn, model.StopSequence: tidemark.ExitStopSequence, model.StopMaxTokens: tidemark.ExitMaxTokens,
		chat.StopRounds: tidemark.ExitMaxTurns, model.StopRefusal: tidemark.ExitError, model.StopPause: tidemark.ExitError, model.StopUnknown: tidemark.ExitError} {
		reason, err := exitOf(stop)
		if reason != want || (err != nil) != (want == tidemark.ExitError) {
			t.Errorf("%s: %s, %v, want %s", stop, reason, err, want)
		}
	}
}

// What was once allowed for a whole session does not pass by whoever answers
// for the fleet now.
func TestTheBuiltInAgentIsAskedForEachCallOfAResumedSession(t *testing.T) {
	h := newHouse(t)
	task := h.task("run echo ran >> effect.txt")
	task.Ask = func(context.Context, Question) (Answer, error) { return Answer{Allow: true, Always: true}, nil }
	out, err := h.runner(t).Run(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	next := h.task("run echo ran >> effect.txt")
	next.Session = out.Session
	asked := 0
	next.Ask = func(context.Context, Question) (Answer, error) { asked++; return Answer{}, nil }
	if _, err := h.runner(t).Run(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(h.dir, "effect.txt")); err != nil || string(b) != "ran\n" || asked != 1 {
		t.Errorf("asked %d times, the effect is %q, %v", asked, b, err)
	}
}
