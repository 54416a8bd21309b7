package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/standin"
)

func scripted(t *testing.T, p Provider) {
	base := standin.Start(t)
	hasty := model.Retry{Attempts: 3, First: time.Millisecond, Most: 5 * time.Millisecond}
	client := p.New(Dial{BaseURL: base, Key: "any", Retry: hasty, HTTP: &http.Client{}})
	bash := []model.Tool{{Name: "bash", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}}
	for name, c := range map[string]struct {
		prompt string
		check  func(*testing.T, Collected)
	}{
		"text":            {"[[fake say Hello there, ü 漢 🙂]]", wantText("Hello there, ü 漢 🙂", 0)},
		"a call":          {`[[fake call bash {"command":"ls <x>"}]]`, func(t *testing.T, h Collected) { wantCall(t, h, "bash", `{"command":"ls <x>"}`) }},
		"429 twice":       {"[[fake error=429 times=2 retry_after=1]] [[fake say ok]]", wantText("ok", 2)},
		"529 once":        {"[[fake error=529 times=1]] [[fake say fine]]", wantText("fine", 1)},
		"529 always":      {"[[fake error=529]] [[fake say never]]", wantFault(nil, 2, "529", "Overloaded")},
		"cut":             {"[[fake drop]] [[fake say half of this is lost]]", wantFault(nil, 2, "connection was lost")},
		"a proxy's page":  {"[[fake html error=502]]", wantFault(nil, 2, "502", "fakeproxy")},
		"garbage":         {"[[fake garbage]]", wantFault(nil, 0, "makes no sense")},
		"401":             {"[[fake error=401]]", wantFault(tidemark.ErrDenied, 0, "invalid API key")},
		"413":             {"[[fake error=413]]", wantFault(model.ErrTooLong, 0, "250000 tokens")},
		"400":             {"[[fake error=400]]", wantFault(nil, 0, "bad request")},
		"cut off":         {"[[fake stop=max_tokens]] [[fake say some]]", func(t *testing.T, h Collected) { wantStop(t, h, model.StopMaxTokens) }},
		"a long answer":   {"[[fake long=60000]]", func(t *testing.T, h Collected) { wantLong(t, h, 60000) }},
		"thinking":        {"[[fake think Let me see]] [[fake say Done]]", func(t *testing.T, h Collected) { wantThought(t, p, h, "Let me see", "Done") }},
		"529 mid-stream":  {"[[fake error=529 midstream]] [[fake say half of this is lost]]", wantFault(nil, 2, p.Late)},
		"figures of cost": {"[[fake in=190000 out=900 cache_read=5 cache_write=6]] [[fake say x]]", func(t *testing.T, h Collected) { wantUsage(t, h, p.Usage) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := p.ask(c.prompt)
			r.Tools = bash
			c.check(t, Collect(client.Stream(t.Context(), r)))
		})
	}

	t.Run("silence", func(t *testing.T) {
		impatient := hasty
		impatient.Attempts, impatient.Silence = 2, 50*time.Millisecond
		h := Collect(p.New(Dial{BaseURL: base, Retry: impatient}).Stream(t.Context(), p.ask("[[fake hang]]")))
		wantFault(nil, 1, "no word for 50ms")(t, h)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var last error
		for e, err := range client.Stream(ctx, p.ask("[[fake slow=20]] [[fake long=60000]]")) {
			if e.Text != "" {
				cancel()
			}
			last = err
		}
		cancel()
		if !errors.Is(last, context.Canceled) {
			t.Errorf("ended with %v", last)
		}
	})
	t.Run("what it received", func(t *testing.T) { wantHistory(t, p, client) })
}

func wantText(text string, waits int) func(*testing.T, Collected) {
	return func(t *testing.T, h Collected) {
		if h.Err != nil || h.Text != text || h.Answer.Entry.Text() != text || len(h.Waits) != waits {
			t.Errorf("heard %+v, want %q after %d waits", h, text, waits)
		}
	}
}

func wantFault(cause error, waits int, words ...string) func(*testing.T, Collected) {
	return func(t *testing.T, h Collected) {
		WantError(t, h.Err, cause, words...)
		if len(h.Waits) != waits {
			t.Errorf("%d waits, want %d", len(h.Waits), waits)
		}
	}
}

func wantCall(t *testing.T, h Collected, name, input string) {
	if h.Err != nil || len(h.Calls) != 1 || h.Calls[0] != name || h.Answer.Stop != model.StopTools {
		t.Fatalf("heard %+v", h)
	}
	if b := h.Answer.Entry.Blocks[len(h.Answer.Entry.Blocks)-1]; b.ID == "" || string(b.Input) != input {
		t.Errorf("called %+v", b)
	}
}

func wantStop(t *testing.T, h Collected, stop string) {
	if h.Err != nil || h.Answer.Stop != stop {
		t.Errorf("heard %+v", h)
	}
}

func wantLong(t *testing.T, h Collected, n int) {
	if h.Err != nil || len(h.Text) < n || h.Answer.Entry.Text() != h.Text {
		t.Errorf("%d bytes, %v", len(h.Text), h.Err)
	}
}

func wantThought(t *testing.T, p Provider, h Collected, thinking, text string) {
	if h.Err != nil || h.Thinking != thinking || h.Text != text || !p.Thought(h.Answer.Entry.Blocks[0], thinking) {
		t.Errorf("heard %+v", h)
	}
}

func wantUsage(t *testing.T, h Collected, want tidemark.Usage) {
	if h.Err != nil || *h.Answer.Entry.Usage != want {
		t.Errorf("heard %+v", h)
	}
}

// wantHistory has a conversation with a call, and lets the server repeat what it
// received of it.
func wantHistory(t *testing.T, p Provider, client Client) {
	r := p.ask("[[fake think hm]] [[fake call bash {\"command\":\"ls\"}]] [[fake say It is done]]")
	r.Tools = []model.Tool{{Name: "bash"}}
	first := Collect(client.Stream(t.Context(), r))
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	calls := first.Answer.Entry.Blocks
	r.Entries = append(r.Entries, first.Answer.Entry, tidemark.Entry{Role: tidemark.Tool,
		Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: calls[len(calls)-1].ID, Text: "a.txt"}}})
	second := Collect(client.Stream(t.Context(), r))
	if second.Err != nil || second.Text != "It is done" {
		t.Fatalf("heard %+v", second)
	}
	r.Entries = append(r.Entries, second.Answer.Entry, tidemark.Say(tidemark.User, "What have I said so far?"))
	if h := Collect(client.Stream(t.Context(), r)); h.Err != nil || !strings.Contains(h.Text, "1. [[fake think hm]]") || !strings.Contains(h.Text, "2. What have I") {
		t.Errorf("heard %+v", h)
	}
}
