package daemon

import (
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

func TestPermissionsOfCodexAreItsSandbox(t *testing.T) {
	never := []string{"-c", `approval_policy="never"`}
	mode := func(name string, more ...string) []string {
		return slices.Concat(never, []string{"-c", `sandbox_mode="` + name + `"`}, more)
	}
	network := func(on string) []string { return []string{"-c", "sandbox_workspace_write.network_access=" + on} }
	for text, want := range map[string][]string{
		"{}":                                 nil,
		"{allow: [read]}":                    mode("read-only"),
		"{deny: [write]}":                    mode("read-only"),
		"{allow: [read, write]}":             mode("workspace-write", network("false")...),
		"{allow: [write, fetch]}":            mode("workspace-write", network("true")...),
		"{allow: [write], deny: [edit]}":     mode("read-only"),
		"{allow: ['*']}":                     mode("danger-full-access"),
		"{allow: ['*'], deny: [fetch]}":      mode("workspace-write", network("false")...),
		"{allow: ['*'], deny: [write]}":      mode("read-only"),
		"{allow: [edit, fetch], deny: null}": mode("workspace-write", network("true")...),
	} {
		f, err := file.Parse("fleet.yaml", []byte("version: 1\ndefaults: {runner: codex, permissions: "+text+"}\nagents:\n  - {name: a, sandbox: off}\n  - {name: b}\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := permissionArgs(f.Agents[0]); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if len(want) > 4 { // the fleet's sandbox is the workspace then
			want = mode("danger-full-access")
		}
		if got := permissionArgs(f.Agents[1]); !slices.Equal(got, want) {
			t.Errorf("in a sandbox, %s: %q, want %q", text, got, want)
		}
	}
}

func TestClaudeIsToldThePermissions(t *testing.T) {
	for text, want := range map[string][]string{
		"":                          nil,
		"Read Bash(git:*)|Bash(rm)": {"--allowedTools=Read,Bash(git:*)", "--disallowedTools=Bash(rm)"},
		"*|Bash":                    {"--permission-mode", "bypassPermissions", "--disallowedTools=Bash"},
		"Read|*":                    {"--tools", ""},
	} {
		a := file.Agent{Runner: fleet.RunnerClaude, RunMode: fleet.RunAutonomous, Permissions: permissionsOf(t, text)}
		if got := permissionArgs(a); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := permissionArgs(file.Agent{Runner: fleet.RunnerClaude, RunMode: fleet.RunReview, Permissions: permissionsOf(t, "*")}); got != nil {
		t.Errorf("in review: %q: it would not ask any more", got)
	}
}
