//go:build !windows

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/model/standin"
)

// TestContinueAsksBeforeItGoesElsewhere: a project that has no session does not
// go on with one of another project unless the person says so.
func TestContinueAsksBeforeItGoesElsewhere(t *testing.T) {
	t.Parallel()
	server := newStandIn(t)
	for name, c := range map[string]struct {
		types string
		shows string // at the prompt that follows; "": there is none
		code  int
	}{
		"yes":    {"y\r", "Resumed session", 0},
		"no":     {"n\r", "you>", 0},
		"enter":  {"\r", "you>", 0},
		"Ctrl-C": {"\x03", "", 130},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			begin := tidemarkIn(dir, "chat", "--no-encrypt", "--base-url", server.URL, "-p", "hello", "--name", "theirs")
			if out, err := begin.CombinedOutput(); err != nil {
				t.Fatalf("%v %s", err, out)
			}
			other := filepath.Join(dir, "other")
			if err := os.MkdirAll(filepath.Join(other, ".git"), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := tidemarkIn(dir, "chat", "-c", "--base-url", server.URL)
			cmd.Dir = other
			cli := onTerminal(t, cmd, 120)
			cli.shows(`Go on with the newest from elsewhere, "theirs" in `, "[y/N]")
			cli.types(c.types)
			if c.shows != "" {
				cli.shows(c.shows)
				cli.types("\x04")
			}
			if code := cli.endsAtAll(); code != c.code {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, cli.term.String())
			}
			if resumed := strings.Contains(cli.term.String(), "Resumed session"); resumed != (name == "yes") {
				t.Errorf("resumed %v:\n%s", resumed, cli.term.String())
			}
		})
	}
}

// TestStatusSaysWhereWeAre: what a session is, and what it has cost so far.
func TestStatusSaysWhereWeAre(t *testing.T) {
	t.Parallel()
	url := standin.Start(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml": "prices: prices.yaml\n",
		"prices.yaml": "as_of: 2025-03-01\nmodels:\n  house-model:\n    - input: 3\n      output: 15\n",
	} {
		file := filepath.Join(dir, "config", "tidemark", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	c := openChat(t, dir, 120, "--no-encrypt", "--provider", "anthropic", "--base-url", url, "--model", "house-model", "--name", "talk")
	c.types("/status\r")
	c.shows("A new session, anthropic/house-model; nothing was said yet.")
	c.types("[[fake in=1000000 out=100000 stop=max_tokens]] [[fake say High at six]]\r")
	c.shows(model.StopText(model.StopMaxTokens)) // is said once the answer is kept
	c.types("/status\r")
	c.shows("title      talk", "model      anthropic/house-model", "messages   3 on this branch", "used       1.0M tokens in, 100k out, cost $4.50",
		"The cost is an estimate: tokens times prices of 2025-03-01.", "more than 90 days old", "approvals  0, loops 0, tasks 0, documents 0")
	c.types("\x04")
	if code := c.endsAtAll(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
