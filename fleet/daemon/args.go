package daemon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

// permissionArgs passes the permissions of the file to programs that enforce them
// themselves: Claude Code, which never asks in autonomous mode and has scopes of its
// own, and Codex, which has a sandbox.
func permissionArgs(a file.Agent) []string {
	switch a.Runner {
	case fleet.RunnerClaude:
		return claudeArgs(a)
	case fleet.RunnerCodex:
		return codexArgs(a)
	}
	return nil
}

// providerArgs tell Codex the address of its model, if the file has one. Claude Code
// gets it from its environment.
func providerArgs(a file.Agent) []string {
	if a.Runner != fleet.RunnerCodex || a.BaseURL == "" {
		return nil
	}
	return []string{"-c", "openai_base_url=" + strconv.Quote(a.BaseURL)} // for a URL, Go's quoting is valid TOML
}

func claudeArgs(a file.Agent) []string {
	var allow, deny, args []string
	for _, p := range a.Permissions.Allow {
		switch {
		case p != file.Permission{Tool: "*"}:
			allow = append(allow, p.String())
		case a.RunMode == fleet.RunAutonomous: // in the other modes it asks us, and we allow it
			args = append(args, "--permission-mode", "bypassPermissions")
		}
	}
	for _, p := range a.Permissions.Deny {
		if p == (file.Permission{Tool: "*"}) {
			return []string{"--tools", ""}
		}
		deny = append(deny, p.String())
	}
	// With =, so that a name that begins with a dash is not taken as an option.
	if len(allow) > 0 {
		args = append(args, "--allowedTools="+strings.Join(allow, ","))
	}
	if len(deny) > 0 {
		args = append(args, "--disallowedTools="+strings.Join(deny, ","))
	}
	return args
}

// codexArgs turn the permissions of the file into a sandbox mode of Codex. Without
// permissions the configuration of Codex decides. Codex is told never to ask, since
// nobody could answer.
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
	// Inside the fleet's sandbox Codex cannot create its own, which needs namespaces.
	// The fleet's is as strict: only the folder, and no network except the model's.
	if !a.Sandbox.Off && a.Container == nil {
		return append(args, "-c", `sandbox_mode="danger-full-access"`)
	}
	network := (all || a.CodexAllows("fetch")) && !denied("fetch")
	return append(args, "-c", `sandbox_mode="workspace-write"`, "-c", fmt.Sprintf("sandbox_workspace_write.network_access=%t", network))
}
