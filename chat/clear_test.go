package chat_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/compact"
)

// Old results of tools are left out before anything is summarised; a resumed
// session sends the same.
func TestOldResultsAreLeftOutFirst(t *testing.T) {
	eachBackend(t, func(t *testing.T, b tidemark.Backend) {
		script := make(map[string][]reply)
		for i := range 12 {
			name := fmt.Sprintf("f%d.txt", i)
			script["read "+name] = []reply{calls(use("c"+name, "read", `{"path":"`+name+`"}`))}
		}
		r := newRig(t, b, script)
		r.o.Compact = compact.Options{MaxMessages: 1000, MaxBytes: 40_000}
		for i := range 12 {
			if err := os.WriteFile(filepath.Join(r.dir, fmt.Sprintf("f%d.txt", i)), []byte(strings.Repeat(fmt.Sprintf("line of %d\n", i), 400)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := r.new()
		for i := range 12 {
			r.send(c, fmt.Sprintf("read f%d.txt", i))
		}
		if !r.noticed("old results of tools") || r.noticed("compacted") {
			t.Errorf("noticed: %q", r.notices())
		}
		last := r.model.last(t)
		valid(t, last)
		sent := fmt.Sprint(last.Entries)
		if isSummary(last) || strings.Contains(sent, "line of 0\n") || !strings.Contains(sent, "was left out to make room") || !strings.Contains(sent, "line of 11\n") {
			t.Errorf("the model was sent %.2000s", sent)
		}
		// Nothing is destroyed, and it goes on as it was.
		if all := fmt.Sprint(r.path(c.ID())); !strings.Contains(all, "line of 0") {
			t.Error("the session has lost a result")
		}
		r.close(c)
		goesOn(t, r, c.ID(), 0)
	})
}

// What a person runs themselves is kept and told to the model, and is not asked.
func TestACommandOfThePersonIsKeptAndTold(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"what came of it?": {says("harbour")}})
	c := r.new()
	if err := c.RunCommand(t.Context(), "echo harbour; exit 3"); err != nil {
		t.Fatal(err)
	}
	r.send(c, "what came of it?")
	last := r.model.last(t)
	valid(t, last)
	sent := fmt.Sprint(last.Entries)
	if !strings.Contains(sent, "I ran a command in the project myself: echo harbour; exit 3") || !strings.Contains(sent, "<data ") || !strings.Contains(sent, "harbour\n") {
		t.Errorf("the model was sent %s", sent)
	}
	if len(r.asks) != 0 {
		t.Errorf("%d questions", len(r.asks))
	}
	shown := 0
	for _, e := range r.told() {
		if e.Call != nil && e.Call.Tool == "bash" || e.Result != nil {
			shown++
		}
	}
	if shown != 2 {
		t.Errorf("the call and its result were shown %d times", shown)
	}
	out, err := c.Peek(t.Context(), "echo only for me")
	if err != nil || !strings.Contains(out, "only for me") || strings.Contains(fmt.Sprint(r.path(c.ID())), "only for me") {
		t.Errorf("%q, %v", out, err)
	}
	r.o.Without = []string{"bash"}
	none := r.new()
	if err := none.RunCommand(t.Context(), "true"); !errors.Is(err, tidemark.ErrUnsupported) || none.Exists() {
		t.Errorf("without a shell: %v", err)
	}
	if _, err := none.Peek(t.Context(), "true"); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("without a shell: %v", err)
	}
}

func TestATurnEndsAfterSoManyRounds(t *testing.T) {
	look := calls(use("c", "ls", `{}`))
	r := newRig(t, memory.New(), map[string][]reply{"go": {look, look, look, look}})
	r.o.Rounds = 2
	c := r.new()
	if turn := r.send(c, "go"); turn.Stop != chat.StopRounds || turn.Rounds != 2 {
		t.Errorf("%+v", turn)
	}
}

func TestTheContextIsMeasuredByItsParts(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{"run": {calls(use("c1", "bash", `{"command":"seq 1 500"}`))}})
	r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Once, nil }
	c := r.new()
	r.send(c, "run")
	tokens := make(map[string]int)
	for _, p := range c.Context() {
		tokens[p.Name] = p.Tokens
	}
	if tokens["tool results"] < 400 || tokens["instructions"] == 0 || tokens["tools"] < 100 || tokens["you"] == 0 || tokens["the model"] == 0 {
		t.Errorf("%v", tokens)
	}
	if c.CompactAbove() <= 0 {
		t.Errorf("made shorter above %d", c.CompactAbove())
	}
	c.SetThinking(4000)
	r.send(c, "on")
	if got := r.model.last(t).Thinking; got != 4000 || c.Thinking() != 4000 {
		t.Errorf("thinks for %d tokens", got)
	}
}
