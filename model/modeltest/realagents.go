package modeltest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The programs of others that tests run, as npm has them. Others in PATH are
// taken as they are.
const (
	realVariable  = "TIDEMARK_REAL_AGENTS"
	claudePackage = "@anthropic-ai/claude-code@2.1.325"
	codexPackage  = "@openai/codex@0.166.0"
)

// RealAgents finds Claude Code and Codex, or has npm install them into a
// folder of the test when somebody asked for it.
func RealAgents(t testing.TB) (claudePath, codexPath string) {
	t.Helper()
	claudePath, noClaude := exec.LookPath("claude")
	codexPath, noCodex := exec.LookPath("codex")
	if noClaude == nil && noCodex == nil {
		return claudePath, codexPath
	}
	if os.Getenv(realVariable) == "" {
		t.Skipf("Claude Code and Codex are not both in PATH; set %s=1 to have npm install them for this test", realVariable)
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
