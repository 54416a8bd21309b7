package standin

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The real agents that tests run, as npm packages. Any found in PATH are used as
// they are.
const (
	claudePackage = "@anthropic-ai/claude-code@2.1.325"
	codexPackage  = "@openai/codex@0.166.0"
)

// RealVariable is the environment variable that allows installing the real
// agents.
const RealVariable = "TIDEMARK_REAL_AGENTS"

// RealAgents finds Claude Code and Codex, or has npm install them into a folder
// of the test when asked, the value of RealVariable, is set.
func RealAgents(t testing.TB, asked string) (claudePath, codexPath string) {
	t.Helper()
	claudePath, noClaude := exec.LookPath("claude")
	codexPath, noCodex := exec.LookPath("codex")
	if noClaude == nil && noCodex == nil {
		return claudePath, codexPath
	}
	if asked == "" {
		t.Skipf("Claude Code and Codex are not both in PATH; set %s=1 to have npm install them for this test", RealVariable)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("there is no npm to install Claude Code and Codex with")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--no-audit", "--no-fund", claudePackage, codexPackage)
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm cannot install them: %v\n%s", err, out)
	}
	bin := filepath.Join(dir, "node_modules", ".bin")
	return filepath.Join(bin, "claude"), filepath.Join(bin, "codex")
}
