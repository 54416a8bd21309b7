package file

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

// A permission without effect is worse than none: its author relies on it. So
// permissions that the agent's runner cannot enforce are mistakes.

// checkPermissions reports permissions that have no meaning for the agent's runner.
func (c *checker) checkPermissions(a *Agent, n *yaml.Node) {
	e, ok := n.Find("permissions")
	if !ok || e.Value.Shape != yaml.Map {
		return
	}
	if a.Runner == fleet.RunnerCommand {
		if !e.Inherited {
			c.reportKey(e, "permissions mean nothing for runner command, which does whatever its program does",
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
				c.reportAt(item, problem, hint)
			}
		}
	}
	var fits func(*Agent, bool, Permission) (problem, hint string)
	switch a.Runner {
	case fleet.RunnerBuiltin:
		fits = builtinPermission
	case fleet.RunnerCodex:
		fits = codexPermission
	case fleet.RunnerACP:
		fits = acpPermission
	default: // Claude Code checks its own
		return
	}
	check("allow", fits)
	check("deny", fits)
	if a.Runner == fleet.RunnerCodex {
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
	if !deny || p.Scope == "" || !onlyReads(p.Tool) {
		return "", ""
	}
	scope := p.Scope
	if !filepath.IsAbs(scope) {
		scope = filepath.Join(a.Dir, filepath.FromSlash(scope))
	}
	if a.Within(scope, a.Dir) || a.Within(a.Dir, scope) {
		return fmt.Sprintf("%s cannot be kept to: the agent may look at all of its folder, or at nothing", p),
			fmt.Sprintf("deny %s as a whole, or give the agent another dir", p.Tool)
	}
	return "", ""
}

// onlyReads reports whether a tool of the built-in agent only reads files.
func onlyReads(tool string) bool { return IsFileTool(tool) && tool != "write" && tool != "edit" }

func acpPermission(_ *Agent, _ bool, p Permission) (problem, hint string) {
	if p.Scope == "" {
		return "", ""
	}
	return fmt.Sprintf("%s cannot be kept to: an ACP agent does not say which part of a tool it means to use", p),
		fmt.Sprintf("write %s, which is all of it, or leave it to run_mode: interactive", p.Tool)
}

// codexPermission checks a permission of Codex, which can only be told about
// its sandbox: read reads the machine, write and edit change its folder, fetch
// is the network, * is no sandbox at all. Its shell cannot be denied.
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

// codexNetwork reports network access without the right to write, which the
// sandbox of Codex does not support.
func (c *checker) codexNetwork(a *Agent, n *yaml.Node) {
	if a.CodexAllows("fetch") && !a.CodexAllows("write") && !a.CodexAllows("edit") {
		c.reportAt(n.Get("allow"), "codex reaches the network only where it may write", "allow write, too, or take fetch out")
	}
}

// CodexAllows reports whether something is allowed to Codex, and not denied.
func (a Agent) CodexAllows(tool string) bool {
	is := func(p Permission) bool { return p.Tool == tool }
	return slices.ContainsFunc(a.Permissions.Allow, is) && !slices.ContainsFunc(a.Permissions.Deny, is)
}

// IsFileTool reports whether a tool of the built-in agent works on files, so
// that its calls are distinguished by folder.
func IsFileTool(tool string) bool {
	switch tool {
	case "read", "write", "edit", "ls", "glob", "grep":
		return true
	}
	return false
}

// Within reports whether a folder is scope or is inside it. Both may be relative to
// the agent's folder; but a relative folder without a leading dot is in the storage
// of the session, and within no scope.
func (a Agent) Within(folder, scope string) bool {
	switch {
	case strings.HasPrefix(folder, "."):
		folder = filepath.Join(a.Dir, filepath.FromSlash(folder))
	case !filepath.IsAbs(folder):
		return false
	}
	if !filepath.IsAbs(scope) {
		scope = filepath.Join(a.Dir, filepath.FromSlash(scope))
	}
	rel, err := filepath.Rel(scope, folder)
	return err == nil && filepath.IsLocal(rel)
}

// Without are the tools that the permissions of the file deny as a whole. The
// built-in agent does not ask before it reads its own folder, so denied tools
// must not be offered at all.
func (a Agent) Without() (names []string) {
	for _, p := range a.Permissions.Deny {
		if p.Scope == "" {
			names = append(names, p.Tool)
		}
	}
	return names
}
