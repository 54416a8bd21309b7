package chat_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/store"
)

// hooks are hooks that answer by a function and remember when they ran.
type hooks struct {
	answer func(context.Context, chat.Moment) chat.HookAnswer
	ran    []string
	events []chat.HookEvent // the moments that they are for; nil: those of every turn
}

func (h *hooks) Due(_ context.Context, _ *chat.Chat, m chat.Moment) []chat.Hook {
	events := h.events
	if events == nil {
		events = []chat.HookEvent{chat.HookPrompt, chat.HookBefore, chat.HookAfter, chat.HookStop}
	}
	if !slices.Contains(events, m.Event) {
		return nil
	}
	return []chat.Hook{{Name: "watch", Run: func(ctx context.Context) chat.HookAnswer {
		h.ran = append(h.ran, strings.TrimSpace(string(m.Event)+" "+m.Tool))
		return h.answer(ctx, m)
	}}}
}

func hooked(t *testing.T, script map[string][]reply, answer func(chat.Moment) chat.HookAnswer) (*rig, *hooks) {
	r := newRig(t, memory.New(), script)
	h := &hooks{answer: func(_ context.Context, m chat.Moment) chat.HookAnswer { return answer(m) }}
	r.o.Hooks = h
	return r, h
}

func bashScript() map[string][]reply {
	return map[string][]reply{"work": {calls(use("c1", "bash", `{"command":"printf x >> ran; echo out"}`))}}
}

func TestHooksRunAtTheirMomentsAndAreKeptBefore(t *testing.T) {
	r, h := hooked(t, bashScript(), func(chat.Moment) chat.HookAnswer { return chat.HookAnswer{} })
	c := r.new()
	r.send(c, "work")
	same(t, h.ran, []string{"UserPromptSubmit", "PreToolUse bash", "PostToolUse bash", "Stop"})
	same(t, shape(r.path(c.ID())), []string{"tools", "system", "hook", "user", "assistant", "hook", "call", "hook", "tool", "assistant", "hook"})
}

func TestHooksRunWhenAConversationIsOpenedAndSummarised(t *testing.T) {
	var kinds []string
	r, h := hooked(t, map[string][]reply{"hello": {says("ok")}}, func(m chat.Moment) chat.HookAnswer {
		kinds = append(kinds, m.Kind)
		return chat.HookAnswer{Context: "it is " + m.Kind, Veto: "no"}
	})
	h.events = []chat.HookEvent{chat.HookStart, chat.HookCompact}
	c := r.new()
	r.send(c, "hello")
	if last := r.model.last(t); !strings.Contains(last.Entries[0].Text(), "it is startup") || !r.noticed("objects, which changes nothing: no") {
		t.Errorf("told %q; notices %q", last.Entries[0].Text(), r.notices())
	}
	r.send(c, "hello")
	r.many(c, 30)
	if err := c.Compact(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	r.close(c)
	c = r.resume(c.ID())
	r.send(c, "hello")
	same(t, h.ran, []string{"SessionStart", "PreCompact", "PreCompact", "SessionStart"})
	same(t, kinds, []string{"startup", "auto", "manual", "resume"})
	if last := r.model.last(t); !strings.Contains(last.Entries[len(last.Entries)-1].Text(), "it is resume") {
		t.Errorf("told %q", last.Entries[len(last.Entries)-1].Text())
	}
}

func TestAHookRunsBeforeTheTurnOfAWorkerEnds(t *testing.T) {
	r, h := hooked(t, map[string][]reply{
		"go":   {calls(use("c1", "spawn_worker", `{"name":"first","prompt":"look"}`)), calls(use("c2", "await_worker", `{"name":"first"}`))},
		"look": {says("seen")},
	}, func(m chat.Moment) chat.HookAnswer {
		if m.Kind == "first" && !m.Again {
			return chat.HookAnswer{Veto: "look again"}
		}
		return chat.HookAnswer{}
	})
	h.events = []chat.HookEvent{chat.HookWorkerStop}
	c := r.new()
	r.send(c, "go")
	same(t, h.ran, []string{"SubagentStop", "SubagentStop"})
	var told bool
	for _, q := range r.model.all() {
		told = told || strings.Contains(q.Entries[len(q.Entries)-1].Text(), "look again")
	}
	if !told {
		t.Error("the worker was not told to go on")
	}
}

func TestAHookIsToldThatAPersonIsAskedAndIsNotWaitedFor(t *testing.T) {
	said := make(chan string, 10)
	r, h := hooked(t, bashScript(), func(m chat.Moment) chat.HookAnswer { return chat.HookAnswer{} })
	hang := make(chan struct{})
	h.events, h.answer = []chat.HookEvent{chat.HookAsks}, func(_ context.Context, m chat.Moment) chat.HookAnswer {
		said <- m.Kind + ": " + m.Prompt
		<-hang
		return chat.HookAnswer{Veto: "no"}
	}
	c := r.new()
	r.send(c, "work")
	if got := <-said; got != "permission_prompt: The agent asks whether it may use bash." || ran(t, r) != 1 {
		t.Errorf("told %q, bash ran %d times", got, ran(t, r))
	}
	close(hang)
	r.o.Unattended = true
	c = r.new()
	r.send(c, "work")
	if len(said) != 0 {
		t.Error("a hook is told of a question that nobody is asked")
	}
}

func TestAVetoOfAHookCountsMoreThanAnApproval(t *testing.T) {
	r, h := hooked(t, bashScript(), func(m chat.Moment) chat.HookAnswer {
		if m.Event == chat.HookBefore {
			return chat.HookAnswer{Veto: "not on a Monday"}
		}
		return chat.HookAnswer{}
	})
	c := r.new()
	r.send(c, "work")
	if got := results(r.path(c.ID()))["c1"]; !got.IsError || !strings.Contains(got.Text, "not on a Monday") || ran(t, r) != 0 || len(r.asks) != 0 {
		t.Errorf("%+v, ran %d times, asked %d times", got, ran(t, r), len(r.asks))
	}
	if slices.Contains(h.ran, "PostToolUse bash") {
		t.Errorf("%q", h.ran)
	}
}

func TestAHookCanHaveAPersonAskedAgainAndNeverAllows(t *testing.T) {
	ask := ""
	r, _ := hooked(t, bashScript(), func(m chat.Moment) chat.HookAnswer {
		if m.Event == chat.HookBefore {
			return chat.HookAnswer{Ask: ask}
		}
		return chat.HookAnswer{}
	})
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Always, nil }
	c := r.new()
	r.send(c, "work")
	r.send(c, "work")
	if len(r.asks) != 1 || ran(t, r) != 2 {
		t.Fatalf("asked %d times", len(r.asks))
	}
	ask = "is it late?"
	r.send(c, "work")
	if len(r.asks) != 2 || !strings.Contains(r.asks[1].EachTime, ask) || r.asks[1].Whole {
		t.Errorf("%+v", r.asks)
	}
	r.close(c)
	r.o.Unattended = true
	before := ran(t, r)
	c = r.resume(c.ID())
	r.send(c, "work")
	if ran(t, r) != before || !r.noticed("nobody is there to ask") {
		t.Errorf("unattended it ran: %q", r.notices())
	}
}

func TestAMessageThatAHookRefusedIsNeitherKeptNorSent(t *testing.T) {
	r, _ := hooked(t, nil, func(m chat.Moment) chat.HookAnswer {
		if m.Event == chat.HookPrompt && strings.Contains(m.Prompt, "password") {
			return chat.HookAnswer{Veto: "there is a secret in it"}
		}
		return chat.HookAnswer{Context: "It is raining."}
	})
	c := r.new()
	_, err := c.Send(t.Context(), tidemark.Text("my password is x"))
	if !errors.Is(err, chat.ErrPromptRefused) || !errors.Is(err, tidemark.ErrDenied) || !strings.Contains(err.Error(), "there is a secret in it") || c.Exists() || len(r.model.all()) != 0 {
		t.Fatalf("%v, exists %v", err, c.Exists())
	}
	r.send(c, "hello")
	asked := r.model.last(t)
	if len(asked.Entries) != 1 || !strings.Contains(asked.Entries[0].Blocks[1].Text, "It is raining.") || !strings.Contains(asked.Entries[0].Blocks[1].Text, "is not the user") {
		t.Errorf("%+v", asked.Entries)
	}
	if title := c.Session().Title; title != "hello" {
		t.Errorf("title %q", title)
	}
	if _, err := c.Send(t.Context(), tidemark.Text("password")); !errors.Is(err, chat.ErrPromptRefused) {
		t.Fatal(err)
	}
	r.send(c, "again")
	for _, e := range r.path(c.ID()) {
		if strings.Contains(e.Text(), "password") {
			t.Errorf("kept: %+v", e)
		}
	}
}

func TestAHookThatKeepsTheTurnGoingIsBounded(t *testing.T) {
	r, _ := hooked(t, nil, func(m chat.Moment) chat.HookAnswer {
		if m.Event == chat.HookStop {
			return chat.HookAnswer{Veto: "run the tests"}
		}
		return chat.HookAnswer{}
	})
	c := r.new()
	turn := r.send(c, "work")
	if turn.Rounds != 9 || !r.noticed("it ends here") {
		t.Errorf("%d rounds, %q", turn.Rounds, r.notices())
	}
	last := r.model.last(t).Entries
	if text := last[len(last)-1].Text(); !strings.Contains(text, "run the tests") || !strings.Contains(text, "is not the user") {
		t.Errorf("%q", text)
	}
}

func TestAHookEndsTheTurnAndAddsToResults(t *testing.T) {
	halt := false
	script := map[string][]reply{"work": {calls(use("c1", "bash", `{"command":"printf x >> ran"}`), use("c2", "bash", `{"command":"printf x >> ran"}`))}}
	r, h := hooked(t, script, func(m chat.Moment) chat.HookAnswer {
		if m.Event != chat.HookAfter {
			return chat.HookAnswer{}
		}
		if halt {
			return chat.HookAnswer{Halt: "enough"}
		}
		return chat.HookAnswer{Veto: "gofmt would change it", Context: strings.Repeat("long ", 10_000)}
	})
	c := r.new()
	r.send(c, "work")
	if got := results(r.path(c.ID()))["c1"].Text; !strings.Contains(got, "gofmt would change it") || !strings.Contains(got, "long long") || len(got) > 32<<10 {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
	halt, h.ran = true, nil
	c = r.new()
	turn := r.send(c, "work")
	if turn.Stop != chat.StopHook || turn.Rounds != 1 || ran(t, r) != 3 {
		t.Errorf("%+v, ran %d times", turn, ran(t, r))
	}
	if got := results(r.path(c.ID()))["c2"]; !got.IsError || !strings.Contains(got.Text, "a hook ended the turn") {
		t.Errorf("%+v", got)
	}
	same(t, h.ran, []string{"UserPromptSubmit", "PreToolUse bash", "PostToolUse bash"})
}

// TestNoHookRunsAgainAfterACrash dies at each commit in turn: what a hook began
// was kept before, and a resume runs none.
func TestNoHookRunsAgainAfterACrash(t *testing.T) {
	everyDeath(t, func(t *testing.T, inner tidemark.Backend, m *mortal) bool {
		r := newRig(t, m, bashScript())
		h := &hooks{answer: func(context.Context, chat.Moment) chat.HookAnswer { return chat.HookAnswer{} }}
		r.o.Hooks = h
		c := r.new()
		_, err := c.Send(t.Context(), tidemark.Text("work"))
		died := errors.Join(err, c.Close(t.Context())) != nil
		if !c.Exists() {
			return died
		}
		r.store = store.New(inner, &store.Options{Dead: allDead})
		r.o.Store = r.store
		before := slices.Clone(h.ran)
		c = r.resume(c.ID())
		same(t, h.ran, before)
		path := r.path(c.ID())
		if began := len(slices.DeleteFunc(shape(path), func(s string) bool { return s != "hook" })); began < len(before) {
			t.Errorf("%q ran, %d were kept", before, began)
		}
		for _, e := range path {
			if e.Role == tidemark.Assistant {
				for _, b := range e.Blocks {
					if _, ok := results(path)[b.ID]; b.Type == tidemark.BlockToolUse && !ok {
						t.Errorf("%s has no outcome", b.ID)
					}
				}
			}
		}
		if n := ran(t, r); n > 1 {
			t.Errorf("the call ran %d times", n)
		}
		r.close(c)
		return died
	})
}
