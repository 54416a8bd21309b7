package daemon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

// permissionArgs hands the permissions of the file to a program that judges by
// itself: Claude Code, which never asks in autonomous mode and knows its own
// scopes, and Codex, which has a sandbox.
func permissionArgs(a file.Agent) []string {
	switch a.Runner {
	case fleet.RunnerClaude:
		return claudeArgs(a)
	case fleet.RunnerCodex:
		return codexArgs(a)
	}
	return nil
}

// providerArgs tell Codex where its model is, as the file says. Claude Code is
// told by its environment.
func providerArgs(a file.Agent) []string {
	if a.Runner != fleet.RunnerCodex || a.BaseURL == "" {
		return nil
	}
	return []string{"-c", "openai_base_url=" + strconv.Quote(a.BaseURL)} // Go's quotes around a URL are TOML's
}

func claudeArgs(a file.Agent) []string {
	var allow, deny, args []string
	for _, p := range a.Permissions.Allow {
		switch {
		case p != file.Permission{Tool: "*"}:
			allow = append(allow, p.String())
		case a.RunMode == fleet.RunAutonomous: // in the other modes it asks, and is told
			args = append(args, "--permission-mode", "bypassPermissions")
		}
	}
	for _, p := range a.Permissions.Deny {
		if p == (file.Permission{Tool: "*"}) {
			return []string{"--tools", ""}
		}
		deny = append(deny, p.String())
	}
	// One argument each: a name that begins with a dash is no option then.
	if len(allow) > 0 {
		args = append(args, "--allowedTools="+strings.Join(allow, ","))
	}
	if len(deny) > 0 {
		args = append(args, "--disallowedTools="+strings.Join(deny, ","))
	}
	return args
}

// codexArgs are the sandbox that the permissions of the file ask for. A file
// that has none leaves it to the configuration of Codex. It is never asked:
// nobody is there.
func codexArgs(a file.Agent) []string {
	if len(a.Permissions.Allow) == 0 && len(a.Permissions.Deny) == 0 {
		return nil
	}
	denied := func(tool string) bool { return slices.Contains(a.Permissions.Deny, file.Permission{Tool: tool}) }
	all := slices.Contains(a.Permissions.Allow, file.Permission{Tool: "*"})
	writes := (all || a.CodexAllows("write") || a.CodexAllows("edit")) && !denied("write") && !denied("edit")
	args := []string{"-c", `approval_policy="never"`}
	switch {
	case all && len(a.Permissions.Deny) == 0:
		return append(args, "-c", `sandbox_mode="danger-full-access"`)
	case !writes:
		return append(args, "-c", `sandbox_mode="read-only"`)
	}
	// In the fleet's sandbox Codex cannot make its own, which needs namespaces. That
	// one holds as much: the folder, and no network but the model's.
	if !a.Sandbox.Off && a.Container == nil {
		return append(args, "-c", `sandbox_mode="danger-full-access"`)
	}
	network := (all || a.CodexAllows("fetch")) && !denied("fetch")
	return append(args, "-c", `sandbox_mode="workspace-write"`, "-c", fmt.Sprintf("sandbox_workspace_write.network_access=%t", network))
}
