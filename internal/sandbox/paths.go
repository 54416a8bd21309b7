package sandbox

import "strings"

// What a confined program finds besides the project. Everything is at the same
// path as outside, because programs have paths compiled in.

// systemPaths are the programs and libraries of the system. Symbolic links among
// them stay links.
var systemPaths = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"}

// etcPaths are the parts of the system's configuration that programs need. The
// rest of the folder is left out: it has keys of the host, and passwords of its
// services.
var etcPaths = []string{"passwd", "group", "nsswitch.conf", "hosts", "host.conf", "hostname", "localtime", "timezone", "os-release", "lsb-release", "debian_version",
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates", "ca-certificates.conf",
	"pki/tls/certs", "pki/ca-trust/extracted", "crypto-policies", "mime.types", "protocols", "services", "shells", "profile", "bash.bashrc", "inputrc", "terminfo",
	"locale.alias", "locale.conf", "default/locale", "gai.conf", "python3", "java", "perl", "fonts", "magic", "vim", "nanorc", "login.defs"}

// toolchains are where people install programs in their home. They are
// read-only: what is changed there would run outside.
var toolchains = []string{"go/pkg/mod", "go/bin", "sdk", ".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/share/mise", ".local/share/pnpm", ".pyenv", ".rbenv", ".nvm",
	".volta", ".asdf", ".sdkman/candidates", ".rustup", ".cargo/bin", ".cargo/registry", ".cargo/git", ".deno/bin", ".bun/bin", ".m2/repository", ".linuxbrew"}

// caches are what builds fill. A confined program can read them, and what it
// writes is gone when it ends: a cache that it could change would be code that a
// build outside runs.
var caches = []string{".cache/go-build", ".cache/pip", ".cache/uv", ".cache/yarn", ".npm/_cacache", ".cache/ms-playwright", ".cache/node"}

// Protected are the names below a project that a confined program can read but
// neither change nor create: what git, editors, shells and agents run by
// themselves when a person uses them.
var Protected = []string{".git/hooks", ".git/config", ".git/config.worktree", ".git/modules", ".git/worktrees", ".claude", ".codex", ".gemini", ".cursor", ".opencode", ".agents", ".mcp.json", ".tidemark.yaml", ".tidemark",
	".vscode", ".idea", ".zed", ".devcontainer", ".envrc", ".husky"}

// harmlessWhenAbsent are those of Protected that need no guard while they do not
// exist: git reads them only when its configuration says so.
var harmlessWhenAbsent = []string{".git/config", ".git/config.worktree"}

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
