package fleet

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

// A permission that nothing heeds is worse than none: whoever wrote it relies on
// it. So those that the agent's runner cannot keep to are mistakes.

// permitted reports permissions that mean nothing for the agent's runner.
func (c *checker) permitted(a *Agent, n *yaml.Node) {
	e, ok := n.Find("permissions")
	if !ok || e.Value.Shape != yaml.Map {
		return
	}
	if a.Runner == RunnerCommand {
		if !e.Inherited {
			c.key(e, "permissions mean nothing for runner command, which does whatever its program does",
				"take them out; what it may do is bounded by sandbox:, or by container:")
		}
		a.Permissions = Permissions{}
		return
	}
	check := func(kind string, fits func(*Agent, bool, Permission) (problem, hint string)) {
		list := e.Value.Get(kind)
		if list == nil || list.Shape != yaml.List {
			return
		}
		for _, item := range list.Items {
			tool, scope, _ := strings.Cut(item.Text, "(")
			p := Permission{Tool: tool, Scope: strings.TrimSuffix(scope, ")")}
			if problem, hint := fits(a, kind == "deny", p); problem != "" && item.Shape == yaml.Text && tool != "" {
				c.at(item, problem, hint)
			}
		}
	}
	var fits func(*Agent, bool, Permission) (problem, hint string)
	switch a.Runner {
	case RunnerBuiltin:
		fits = builtinPermission
	case RunnerCodex:
		fits = codexPermission
	case RunnerACP:
		fits = acpPermission
	default: // Claude Code knows its own
		return
	}
	check("allow", fits)
	check("deny", fits)
	if a.Runner == RunnerCodex {
		c.codexNetwork(a, e.Value)
	}
}

// builtinTools are the tools of the built-in agent. It may define more.
var builtinTools = []string{"bash", "python", "read", "write", "edit", "ls", "glob", "grep", "fetch", "remember", "task", "wake",
	"spawn_worker", "await_worker", "tell_worker", "define_tool"}

func builtinPermission(a *Agent, deny bool, p Permission) (problem, hint string) {
	if lower := strings.ToLower(p.Tool); !deny && lower != p.Tool && slices.Contains(builtinTools, lower) {
		return fmt.Sprintf("the built-in agent has no tool %s", p.Tool), fmt.Sprintf("did you mean %q?", lower)
	}
	if !deny || p.Scope == "" || !looks(p.Tool) {
		return "", ""
	}
	scope := p.Scope
	if !filepath.IsAbs(scope) {
		scope = filepath.Join(a.Dir, filepath.FromSlash(scope))
	}
	if a.within(scope, a.Dir) || a.within(a.Dir, scope) {
		return fmt.Sprintf("%s cannot be kept to: the agent may look at all of its folder, or at nothing", p),
			fmt.Sprintf("deny %s as a whole, or give the agent another dir", p.Tool)
	}
	return "", ""
}

// looks reports whether a tool of the built-in agent only looks at files.
func looks(tool string) bool { return isFileTool(tool) && tool != "write" && tool != "edit" }

func acpPermission(_ *Agent, _ bool, p Permission) (problem, hint string) {
	if p.Scope == "" {
		return "", ""
	}
	return fmt.Sprintf("%s cannot be kept to: an ACP agent does not say which part of a tool it means to use", p),
		fmt.Sprintf("write %s, which is all of it, or leave it to run_mode: interactive", p.Tool)
}

// What Codex can be told is how its sandbox is: read is a look at the machine,
// write and edit are changes of its folder, fetch is the network, * is no
// sandbox at all. Its shell cannot be taken away.
func codexPermission(_ *Agent, deny bool, p Permission) (problem, hint string) {
	known := []string{"read", "write", "edit", "fetch", "*"}
	if deny {
		known = []string{"write", "edit", "fetch"}
	}
	if p.Scope == "" && slices.Contains(known, p.Tool) {
		return "", ""
	}
	what := "allowed"
	if deny {
		what = "denied"
	}
	return fmt.Sprintf("%s cannot be %s to codex, which has a sandbox and no permissions for tools", p, what),
		fmt.Sprintf("want %s", choices(known))
}

// codexNetwork reports a network without the right to write, which the sandbox
// of Codex does not have.
func (c *checker) codexNetwork(a *Agent, n *yaml.Node) {
	if a.codexAllows("fetch") && !a.codexAllows("write") && !a.codexAllows("edit") {
		c.at(n.Get("allow"), "codex reaches the network only where it may write", "allow write, too, or take fetch out")
	}
}

// codexAllows reports whether something is allowed to Codex, and not denied.
func (a Agent) codexAllows(tool string) bool {
	is := func(p Permission) bool { return p.Tool == tool }
	return slices.ContainsFunc(a.Permissions.Allow, is) && !slices.ContainsFunc(a.Permissions.Deny, is)
}

// codexArgs are the sandbox that the permissions of the file ask for. A file
// that has none leaves it to the configuration of Codex. It is never asked:
// nobody is there.
func codexArgs(a Agent) []string {
	if len(a.Permissions.Allow) == 0 && len(a.Permissions.Deny) == 0 {
		return nil
	}
	denied := func(tool string) bool { return slices.Contains(a.Permissions.Deny, Permission{Tool: tool}) }
	all := slices.Contains(a.Permissions.Allow, Permission{Tool: "*"})
	writes := (all || a.codexAllows("write") || a.codexAllows("edit")) && !denied("write") && !denied("edit")
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
	network := (all || a.codexAllows("fetch")) && !denied("fetch")
	return append(args, "-c", `sandbox_mode="workspace-write"`, "-c", fmt.Sprintf("sandbox_workspace_write.network_access=%t", network))
}
