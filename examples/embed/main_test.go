package main

import (
	"strings"
	"testing"
)

const session = "../../convert/testdata/claude-code/2.1.325/.claude/projects/-home-tester-work-claude-beta/f19e7c28-4951-4275-ab36-a30737bffcab.jsonl"

const word = "fail good"

func TestAClaudeCodeFileIsImportedOnceAndFound(t *testing.T) {
	dir := t.TempDir()
	environ := []string{"HOME=" + dir, "USERPROFILE=" + dir, "AppData=" + dir}
	var first, second strings.Builder
	if err := run(t.Context(), environ, session, word, &first); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first.String(), "new: ") || strings.Count(first.String(), "\n") < 2 {
		t.Errorf("first run: %s", &first)
	}
	if err := run(t.Context(), environ, session, word, &second); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(second.String(), "known: ") {
		t.Errorf("second run: %s", &second)
	}
}
