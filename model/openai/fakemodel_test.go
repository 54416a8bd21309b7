package openai

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// startFake starts the project's scripted stand-in for a model's API, and
// returns its address. A bare clone does not have it.
func startFake(t *testing.T) string {
	t.Helper()
	source, err := filepath.Abs("../../../shared/fakemodel")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(source, "go.mod")); err != nil {
		t.Skipf("the scripted model is not beside this clone: %v", err)
	}
	program := filepath.Join(t.TempDir(), "fakemodel.exe")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "-addr", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "fakemodel on "); ok {
			address, _, _ := strings.Cut(rest, ",")
			return address
		}
	}
	t.Fatalf("the scripted model did not start: %v", lines.Err())
	return ""
}

func TestScriptedModelIsUnderstood(t *testing.T) {
	base := startFake(t)
	hasty := model.Retry{Attempts: 3, First: time.Millisecond, Most: 5 * time.Millisecond}
	client := New(Options{BaseURL: base, Key: "any", Retry: hasty, HTTP: &http.Client{}})
	bash := []model.Tool{{Name: "bash", Schema: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}}
	for name, c := range map[string]struct {
		prompt string
		check  func(t *testing.T, h heard)
	}{
		"text":            {"[[fake say Hello there, ü 漢 🙂]]", wantText("Hello there, ü 漢 🙂", 0)},
		"thinking":        {"[[fake think Let me see]] [[fake say Done]]", func(t *testing.T, h heard) { wantThought(t, h, "Let me see", "Done") }},
		"a call":          {`[[fake call bash {"command":"ls <x>"}]]`, func(t *testing.T, h heard) { wantCall(t, h, "bash", `{"command":"ls <x>"}`) }},
		"429 twice":       {"[[fake error=429 times=2 retry_after=1]] [[fake say ok]]", wantText("ok", 2)},
		"529 once":        {"[[fake error=529 times=1]] [[fake say fine]]", wantText("fine", 1)},
		"529 always":      {"[[fake error=529]] [[fake say never]]", wantFault(nil, 2, "529", "Overloaded")},
		"529 mid-stream":  {"[[fake error=529 midstream]] [[fake say half of this is lost]]", wantFault(nil, 2, "500")},
		"cut":             {"[[fake drop]] [[fake say half of this is lost]]", wantFault(nil, 2, "connection was lost")},
		"a proxy's page":  {"[[fake html error=502]]", wantFault(nil, 2, "502", "fakeproxy")},
		"garbage":         {"[[fake garbage]]", wantFault(nil, 0, "makes no sense")},
		"401":             {"[[fake error=401]]", wantFault(tidemark.ErrDenied, 0, "invalid API key")},
		"413":             {"[[fake error=413]]", wantFault(model.ErrTooLong, 0, "250000 tokens")},
		"400":             {"[[fake error=400]]", wantFault(nil, 0, "bad request")},
		"cut off":         {"[[fake stop=max_tokens]] [[fake say some]]", func(t *testing.T, h heard) { wantStop(t, h, model.StopMaxTokens) }},
		"a long answer":   {"[[fake long=60000]]", func(t *testing.T, h heard) { wantLong(t, h, 60000) }},
		"figures of cost": {"[[fake in=190000 out=900 cache_read=5 cache_write=6]] [[fake say x]]", wantUsage},
	} {
		t.Run(name, func(t *testing.T) {
			r := ask(c.prompt)
			r.Tools = bash
			c.check(t, hear(client.Stream(t.Context(), r)))
		})
	}

	t.Run("silence", func(t *testing.T) {
		impatient := hasty
		impatient.Attempts, impatient.Silence = 2, 50*time.Millisecond
		h := hear(New(Options{BaseURL: base, Retry: impatient}).Stream(t.Context(), ask("[[fake hang]]")))
		wantFault(nil, 1, "no word for 50ms")(t, h)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var last error
		for e, err := range client.Stream(ctx, ask("[[fake slow=20]] [[fake long=60000]]")) {
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
	t.Run("what it received", func(t *testing.T) { wantHistory(t, client) })
}

func wantText(text string, waits int) func(*testing.T, heard) {
	return func(t *testing.T, h heard) {
		if h.err != nil || h.text != text || h.answer.Entry.Text() != text || len(h.waits) != waits {
			t.Errorf("heard %+v, want %q after %d waits", h, text, waits)
		}
	}
}

func wantFault(cause error, waits int, words ...string) func(*testing.T, heard) {
	return func(t *testing.T, h heard) {
		wantError(t, h.err, cause, words...)
		if len(h.waits) != waits {
			t.Errorf("%d waits, want %d", len(h.waits), waits)
		}
	}
}

func wantThought(t *testing.T, h heard, thinking, text string) {
	if h.err != nil || h.thinking != thinking || h.text != text {
		t.Fatalf("heard %+v", h)
	}
	if b := h.answer.Entry.Blocks[0]; b.Type != tidemark.BlockThinking || b.Text != thinking {
		t.Errorf("kept %+v", b)
	}
}

func wantCall(t *testing.T, h heard, name, input string) {
	if h.err != nil || len(h.calls) != 1 || h.calls[0] != name || h.answer.Stop != model.StopTools {
		t.Fatalf("heard %+v", h)
	}
	if b := h.answer.Entry.Blocks[len(h.answer.Entry.Blocks)-1]; b.ID == "" || string(b.Input) != input {
		t.Errorf("called %+v", b)
	}
}

func wantStop(t *testing.T, h heard, stop string) {
	if h.err != nil || h.answer.Stop != stop {
		t.Errorf("heard %+v", h)
	}
}

func wantLong(t *testing.T, h heard, n int) {
	if h.err != nil || len(h.text) < n || h.answer.Entry.Text() != h.text {
		t.Errorf("%d bytes, %v", len(h.text), h.err)
	}
}

func wantUsage(t *testing.T, h heard) {
	want := tidemark.Usage{InputTokens: 189995, OutputTokens: 900, CacheReadTokens: 5}
	if h.err != nil || *h.answer.Entry.Usage != want {
		t.Errorf("heard %+v", h)
	}
}

// wantHistory has a conversation with a call, and lets the server say what it
// received of it.
func wantHistory(t *testing.T, client *Client) {
	r := ask("[[fake think hm]] [[fake call bash {\"command\":\"ls\"}]] [[fake say It is done]]")
	r.Tools = []model.Tool{{Name: "bash"}}
	first := hear(client.Stream(t.Context(), r))
	if first.err != nil {
		t.Fatal(first.err)
	}
	calls := first.answer.Entry.Blocks
	r.Entries = append(r.Entries, first.answer.Entry, tidemark.Entry{Role: tidemark.Tool,
		Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: calls[len(calls)-1].ID, Text: "a.txt"}}})
	second := hear(client.Stream(t.Context(), r))
	if second.err != nil || second.text != "It is done" {
		t.Fatalf("heard %+v", second)
	}
	r.Entries = append(r.Entries, second.answer.Entry, tidemark.Say(tidemark.User, "What have I said so far?"))
	if h := hear(client.Stream(t.Context(), r)); h.err != nil || !strings.Contains(h.text, "1. [[fake think hm]]") || !strings.Contains(h.text, "2. What have I") {
		t.Errorf("heard %+v", h)
	}
}
