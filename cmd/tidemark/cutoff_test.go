//go:build !windows

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/standin"
)

// TestAnAnswerThatWasCutOffSaysSo: at the limit of its length an answer ends
// otherwise than one that is whole, for people and for programs.
func TestAnAnswerThatWasCutOffSaysSo(t *testing.T) {
	t.Parallel()
	url := standin.Start(t)
	const prompt = "[[fake stop=max_tokens]] [[fake say Once upon a time]]"
	for _, provider := range []string{"anthropic", "openai"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			say := func(format string) (out, side string) {
				t.Helper()
				cmd := tidemarkIn(dir, "chat", "--no-encrypt", "--provider", provider, "--base-url", url, "--model", "m", "-p", prompt, "--output-format", format)
				var words strings.Builder
				cmd.Stderr = &words
				b, err := cmd.Output()
				if err != nil || !strings.Contains(string(b), "Once upon a time") {
					t.Errorf("%s: %v\n%s%s", format, err, b, words.String())
				}
				return string(b), words.String()
			}
			if out, side := say("text"); !strings.Contains(side, model.StopText(model.StopMaxTokens)) || strings.Contains(out, "max_tokens") {
				t.Errorf("text: %q and beside it %q", out, side)
			}
			for _, format := range []string{"json", "stream-json"} {
				out, _ := say(format)
				lines := strings.Split(strings.TrimSpace(out), "\n")
				var last struct {
					Type string `json:"type"`
					Stop string `json:"stop_reason"`
				}
				if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Type != "result" || last.Stop != model.StopMaxTokens {
					t.Errorf("%s: %v %+v\n%s", format, err, last, out)
				}
			}
			out, err := tidemarkIn(dir, "cat", "last", "--jq", `select(.role == "assistant") | .extra`).Output()
			if err != nil || !strings.Contains(string(out), `"stop_reason":"max_tokens"`) {
				t.Errorf("the entry does not say it: %v %s", err, out)
			}

			file := "version: 1\nagents:\n  - {name: mine, provider: " + provider + ", model: m, base_url: \"" + url + "\"}\n"
			if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) string {
				t.Helper()
				out, err := tidemarkIn(dir, args...).Output()
				if err != nil {
					t.Fatalf("%q: %v\n%s", args, err, out)
				}
				return strings.TrimSpace(string(out))
			}
			run("fleet", "up", "--detach")
			defer run("fleet", "down")
			run("run", "mine", "-p", prompt, "--wait")
			job := run("jobs", "--jq", ".[0].id")
			if got := run("job", job, "--jq", ".exit_reason"); got != "max_tokens" {
				t.Errorf("the job ended with %s", got)
			}
			if got := run("job", job); !strings.Contains(got, "max_tokens") {
				t.Errorf("job does not say it:\n%s", got)
			}
		})
	}
}

// TestWhyAnAnswerEndedComesInWithIt: tools write it down, and it stays in the
// entry as they did.
func TestWhyAnAnswerEndedComesInWithIt(t *testing.T) {
	t.Parallel()
	for tool, c := range map[string]struct{ file, lines, want string }{
		"claude-code": {".claude/projects/-home-x/0b2c4d6e-0000-4000-8000-000000000001.jsonl",
			`{"type":"user","uuid":"a1","parentUuid":null,"sessionId":"0b2c4d6e-0000-4000-8000-000000000001","timestamp":"2026-01-01T00:00:00Z","cwd":"/home/x","message":{"role":"user","content":"tell me"}}
{"type":"assistant","uuid":"a2","parentUuid":"a1","sessionId":"0b2c4d6e-0000-4000-8000-000000000001","timestamp":"2026-01-01T00:00:01Z","cwd":"/home/x","message":{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"Once upon"}],"stop_reason":"max_tokens"}}
`, `"stop_reason":"max_tokens"`},
		"pi": {".pi/agent/sessions/--home-x--/2026-01-01T00-00-00-000Z_01a1dcaa-3f86-70e2-822a-23ef4c26d562.jsonl",
			`{"type":"session","version":3,"id":"01a1dcaa-3f86-70e2-822a-23ef4c26d562","timestamp":"2026-01-01T00:00:00Z","cwd":"/home/x"}
{"type":"message","id":"b1","parentId":null,"timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":[{"type":"text","text":"tell me"}]}}
{"type":"message","id":"b2","parentId":"b1","timestamp":"2026-01-01T00:00:01Z","message":{"role":"assistant","content":[{"type":"text","text":"Once upon"}],"model":"m","stopReason":"length"}}
`, `"stopReason":"length"`},
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, c.file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(c.lines), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := tidemarkIn(dir, "import", file, "--no-encrypt").CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			out, err := tidemarkIn(dir, "cat", "last", "--jq", `select(.role == "assistant")`).Output()
			if err != nil || !strings.Contains(string(out), "Once upon") || !strings.Contains(string(out), c.want) {
				t.Errorf("%v %s", err, out)
			}
		})
	}
}
