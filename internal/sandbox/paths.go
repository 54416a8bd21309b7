package sandbox

import "strings"

// What a confined program finds besides the project. Everything is at the same
// path as outside, because programs have paths compiled in.

// systemPaths are the programs and libraries of the system. Symbolic links among
// them stay links.
var systemPaths = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"}

// toolchains are where people install programs in their home. They are
// read-only: what is changed there would run outside.
var toolchains = []string{"go/pkg/mod", "go/bin", "sdk", ".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/share/mise", ".local/share/pnpm", ".pyenv", ".rbenv", ".nvm",
	".volta", ".asdf", ".sdkman/candidates", ".rustup", ".cargo/bin", ".cargo/registry", ".cargo/git", ".deno/bin", ".bun/bin", ".m2/repository", ".linuxbrew"}

// Protected are the names below a project that a confined program can read but
// neither change nor create: what git, editors, shells and agents run by
// themselves when a person uses them.
var Protected = []string{".git/hooks", ".git/config", ".git/config.worktree", ".git/modules", ".git/worktrees", ".claude", ".codex", ".gemini", ".cursor", ".opencode", ".agents", ".mcp.json", ".tidemark.yaml", ".tidemark",
	".vscode", ".idea", ".zed", ".devcontainer", ".envrc", ".husky"}

// RunsByItself returns which of the protected names a slash-separated path
// contains, in any folder; "" when it has none. In a repository every path
// counts, because a configuration can be included from more than one file.
func RunsByItself(path string) string {
	path = "/" + strings.ToLower(path) + "/"
	for _, name := range append([]string{".git"}, Protected...) {
		if strings.Contains(path, "/"+name+"/") {
			return name
		}
	}
	return ""
}
