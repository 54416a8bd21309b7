package tool

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// A program that the sandbox stops reports it in its own words, and those are
// mostly wrong: that a host does not exist, or a file. A better explanation is
// appended where we have one.

var (
	// noNetwork matches messages of programs that cannot resolve a name or
	// reach a host.
	noNetwork = expression.WhenNeeded(`(?i)could not resolve|name resolution|name or service not known|network is unreachable|no address associated|getaddrinfo|ENOTFOUND|EAI_AGAIN|ENETUNREACH|` +
		`dial tcp|failed to establish a new connection|failed to lookup address|unable to resolve host|connection refused|proxyconnect|tunnel connection failed|CONNECT tunnel failed|ProxyError|address family not supported`)
	// namedHost finds the host in such a message.
	namedHost = expression.WhenNeeded(`(?i)(?:the sandbox does not allow the host "|could not resolve host: |could not resolve proxy: |unable to resolve host address .|lookup |ENOTFOUND |EAI_AGAIN |https?://(?:[^/\s@]*@)?)([a-z0-9][a-z0-9.-]*\.[a-z][a-z0-9-]*)`)
	// noFile matches messages about files that do not exist or are not
	// accessible.
	noFile = expression.WhenNeeded(`(?i)no such file or directory|permission denied|read-only file system|operation not permitted|EROFS|EACCES|ENOENT|FileNotFoundError|PermissionError`)
	// ownPath matches paths that each sandbox has for itself.
	ownPath = expression.WhenNeeded(`^/(dev|proc|tmp|var/tmp)(/|$)`)
	// namedPath matches an absolute path, or one in the home folder.
	namedPath = expression.WhenNeeded(`(?:^|[\s'"=:(\x60])(~?/[^\s'":,;)\x60]+)`)
)

// refusal says in a sentence what the sandbox denied to a program that failed,
// and how to get it; "" when it failed for another reason.
func refusal(p sandbox.Policy, command, text string) string {
	said := command + "\n" + text
	if noNetwork().MatchString(text) {
		host := "HOST"
		for _, m := range namedHost().FindAllStringSubmatch(said, -1) {
			if name := strings.ToLower(m[1]); !slices.Contains(p.Hosts, name) {
				host = name
				break
			}
		}
		if host == "HOST" && len(p.Hosts) > 0 && !strings.Contains(said, "sandbox does not allow") {
			return "" // the hosts that it names are allowed, and fail for other reasons
		}
		return fmt.Sprintf(`the sandbox does not let programs connect to other machines; to ask the user for it, call again with "sandbox": {"allow_hosts": [%q]}`, host)
	}
	for line := range strings.Lines(text) {
		if why := refusedPath(p, line); why != "" {
			return why
		}
	}
	return ""
}

// refusedPath says what the sandbox denied, from a program's message about a
// file.
func refusedPath(p sandbox.Policy, line string) string {
	if !noFile().MatchString(line) {
		return ""
	}
	if name := namedProtected(line); name != "" && strings.Contains(strings.ToLower(line), "read-only") {
		return fmt.Sprintf("the sandbox does not let programs change %s: what is in it runs by itself later; the write and edit tools can, and the user is asked", name)
	}
	missing := strings.Contains(strings.ToLower(line), "no such file")
	// Messages begin with who complains and end with what about.
	for _, m := range slices.Backward(namedPath().FindAllStringSubmatch(line, -1)) {
		path := m[1]
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = p.Home + "/" + rest
		}
		switch {
		case belowAny(p.Hide, path):
			return "this is where Tidemark keeps its sessions and keys, and no program gets it"
		case belowAny(slices.Concat([]string{p.Root}, p.Write), path), p.Sees(path) && missing, ownPath().MatchString(path):
		default:
			folder := filepath.Dir(path)
			if _, all := below(folder, p.Home); all {
				folder = path
			}
			return fmt.Sprintf(`programs run in a sandbox, where files outside of the workspace are not there or cannot be changed; to ask the user for a folder, call again with "sandbox": {"allow_write": [%q]}`, folder)
		}
	}
	return ""
}

// namedProtected returns the protected name that a line mentions.
func namedProtected(line string) string {
	for _, name := range sandbox.Protected {
		if strings.Contains(line, name) {
			return name
		}
	}
	return ""
}
