//go:build !windows

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/model/standin"
)

// TestWhatTheServerWasSentIsTheHistory checks resume, branch, fork and
// compaction by what the server says that it received.
func TestWhatTheServerWasSentIsTheHistory(t *testing.T) {
	t.Parallel()
	url := standin.Start(t)
	for _, provider := range []string{"anthropic", "openai"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			settings := filepath.Join(dir, "config", "tidemark", "config.yaml")
			if err := os.MkdirAll(filepath.Dir(settings), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(settings, []byte("chat:\n  max_messages: 50\n  max_bytes: 32000\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			say := func(prompt string, args ...string) string {
				t.Helper()
				cmd := tidemarkIn(dir, append([]string{"chat", "--provider", provider, "--base-url", url, "--model", "m", "-p", prompt}, args...)...)
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%q: %v\n%s", prompt, err, err.(*exec.ExitError).Stderr)
				}
				return string(out)
			}
			said := func(args ...string) string {
				return strings.Join(regexp.MustCompile(`apple|pear|plum|fig`).FindAllString(say("What have I said so far?", args...), -1), " ")
			}
			say("apple", "--name", "fruit")
			say("pear", "-c")
			if got := said("--resume", "fruit"); got != "apple pear" {
				t.Errorf("after a resume the server was sent %q", got)
			}
			say("plum", "--resume", "fruit", "--branch", "n0")
			if got := said("--resume", "fruit"); got != "apple plum" {
				t.Errorf("after a branch the server was sent %q", got)
			}
			if out, err := tidemarkIn(dir, "fork", "fruit@n1", "--name", "other").CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			say("fig", "--resume", "other")
			if got := said("--resume", "other"); got != "apple pear fig" {
				t.Errorf("after a fork the server was sent %q", got)
			}
			// A long conversation is made short, and says so; what is old is a summary then.
			for i := range 26 {
				say("tell me more "+strings.Repeat("x", i), "--resume", "other")
			}
			out, err := tidemarkIn(dir, "cat", "other", "--jq", `select(.kind == "compaction") | .blocks[0].text`).Output()
			if err != nil || !strings.Contains(string(out), "[COMPACTION SUMMARY]") || !strings.Contains(string(out), "apple") {
				t.Errorf("%v %s", err, out)
			}
			out, err = tidemarkIn(dir, "cat", "other", "--jq", `select(.role == "user") | .blocks[0].text`).Output()
			if err != nil || !strings.HasPrefix(string(out), "apple\npear\n") {
				t.Errorf("the history is not whole: %v %.200s", err, out)
			}
		})
	}
}

// TestFaultsOfAProviderOneByOne: what passes is asked again, what stays is an
// error that says what it is, and the session goes on after each.
func TestFaultsOfAProviderOneByOne(t *testing.T) {
	t.Parallel()
	url := standin.Start(t)
	for _, provider := range []string{"anthropic", "openai"} {
		for name, fault := range map[string]struct {
			mark string
			ok   bool
		}{
			"429 twice":          {"[[fake error=429 times=2 retry_after=0]]", true},
			"529 once":           {"[[fake error=529 times=1 retry_after=0]]", true},
			"500 once":           {"[[fake error=500 times=1 retry_after=0]]", true},
			"an error half way":  {"[[fake error=529 midstream times=1]]", true},
			"401":                {"[[fake error=401]]", false},
			"400":                {"[[fake error=400]]", false},
			"nonsense":           {"[[fake garbage]]", false},
			"a page of a proxy":  {"[[fake html error=404]]", false},
			"cut off by a limit": {"[[fake stop=max_tokens]]", true},
		} {
			t.Run(provider+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				args := []string{"chat", "--provider", provider, "--base-url", url, "--model", "m"}
				if out, err := tidemarkIn(dir, append(args, "-p", "apple", "--name", "talk")...).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				cmd := tidemarkIn(dir, append(args, "-p", "hello "+name+" "+fault.mark, "--resume", "talk")...)
				out, err := cmd.CombinedOutput()
				if (err == nil) != fault.ok {
					t.Errorf("%v\n%s", err, out)
				}
				if err != nil && !strings.Contains(string(out), "tidemark: "+provider) {
					t.Errorf("it does not say who refused: %s", out)
				}
				// The mark is in what was said: without it the session goes on.
				next, err := tidemarkIn(dir, append(args, "--resume", "talk", "--branch", "n0", "-p", "What have I said so far?")...).CombinedOutput()
				if err != nil || !strings.Contains(string(next), "apple") {
					t.Errorf("afterwards: %v\n%s", err, next)
				}
			})
		}
	}
}
