package chat_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/model"
)

// cancelled sends something and cancels it when an event is told.
func cancelled(t *testing.T, r *rig, c *chat.Chat, text string, when func(chat.Event) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.mu.Lock()
	decide := r.decide
	r.decide = func(ctx context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
		if when == nil {
			cancel()
		}
		return decide(ctx, a)
	}
	r.mu.Unlock()
	r.onEvent(func(e chat.Event) {
		if when != nil && when(e) {
			cancel()
		}
	})
	turn, err := c.Send(ctx, tidemark.Text(text))
	if err != nil || turn.Stop != chat.StopCancelled {
		t.Errorf("Send = %+v, %v, want a cancelled turn and no error", turn, err)
	}
	r.onEvent(nil)
	r.decide = decide
	requests := r.model.all()
	r.send(c, "and then?")
	valid(t, r.model.last(t))
	if n := len(requests); n > 0 && requests[n-1].System == r.model.last(t).System {
		beginsWith(t, r.model, r.model.last(t), requests[n-1])
	}
}

func TestACancelledAnswerIsKeptAsFarAsItCame(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {{text: []string{"half ", "an answer"}, hang: true}}})
	c := r.new()
	cancelled(t, r, c, "go", func(e chat.Event) bool { return e.Text == "an answer" })
	path := r.path(c.ID())
	same(t, shape(path), []string{"tools", "system", "user", "assistant", "user", "assistant"})
	same(t, path[3].Text(), "half an answer")
	if !strings.Contains(string(path[3].Extra), `"interrupted":"cancelled"`) {
		t.Errorf("it is not marked: %s", path[3].Extra)
	}
}

func TestACancelledToolSaysSoAndTheRestIsNotRun(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {calls(
		use("c1", "bash", `{"command":"echo begun; sleep 60"}`), use("c2", "bash", `{"command":"touch never"}`))}})
	c := r.new()
	cancelled(t, r, c, "go", func(e chat.Event) bool { return strings.Contains(e.Output, "begun") })
	all := results(r.path(c.ID()))
	if got := all["c1"]; !got.IsError || !strings.Contains(got.Text, "begun") || !strings.Contains(got.Text, "interrupted: the user cancelled it while it ran.") {
		t.Errorf("c1: %+v", got)
	}
	same(t, all["c2"].Text, "not run: the user cancelled the turn.")
	same(t, len(r.asks), 1)
}

func TestACancelledQuestionRunsNothing(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {calls(use("c1", "bash", `{"command":"touch never"}`), use("c2", "ls", `{}`))}})
	r.decide = func(ctx context.Context, _ chat.ApprovalRequest) (chat.Decision, error) {
		<-ctx.Done()
		return chat.Always, nil // too late
	}
	c := r.new()
	cancelled(t, r, c, "go", nil)
	all := results(r.path(c.ID()))
	same(t, []string{all["c1"].Text, all["c2"].Text}, []string{"not run: the user cancelled the turn.", "not run: the user cancelled the turn."})
}

func TestAWaitForAnotherAttemptCanBeCancelled(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"go": {{text: []string{"void"}, wait: true}}})
	c := r.new()
	cancelled(t, r, c, "go", func(e chat.Event) bool { return e.Wait != nil })
	same(t, shape(r.path(c.ID())), []string{"tools", "system", "user", "user", "assistant"})
}

func TestACompactionByTheModelCanBeCancelled(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	r.o.Compact = compact.Options{Strategy: compact.Model, MaxMessages: 40}
	c := r.new()
	r.many(c, 20)
	usual := r.model.answer
	ask := make(chan struct{}, 1)
	r.model.answer = func(q model.Request) reply {
		if q.System == compact.SummaryPrompt {
			select {
			case ask <- struct{}{}:
				return reply{text: []string{"a summary"}, hang: true}
			default:
			}
			return says("a summary")
		}
		return usual(q)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-ask
		cancel()
	}()
	turn, err := c.Send(ctx, tidemark.Text("one more"))
	if err != nil || turn.Stop != chat.StopCancelled {
		t.Fatalf("Send = %+v, %v", turn, err)
	}
	ask <- struct{}{}
	r.send(c, "again")
	valid(t, r.model.last(t))
	if !r.noticed("context compacted") {
		t.Errorf("notices %q", r.notices())
	}
}

func TestAMessageWithoutWordsIsRefused(t *testing.T) {
	r := newRig(t, memory.New(), nil)
	c := r.new()
	for _, blocks := range [][]tidemark.Block{nil, {tidemark.Text("")}} {
		if _, err := c.Send(t.Context(), blocks...); err == nil || c.Exists() {
			t.Errorf("Send(%v): %v", blocks, err)
		}
	}
}
