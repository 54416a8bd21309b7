package daemon

import (
	"cmp"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// vendor is what the program of somebody else needs of its user's: the folder in
// which it keeps its things, and the hosts that its model is asked at.
type vendor struct {
	moved, folder string   // the variable that names the folder, and what it is called below home
	beside        []string // more files below home that it begins with
	keep          []string // of the folder, what stays written; a / at the end is a folder
	address       string   // the variable with the address of another model
	hosts         []string // of its model
	account       []string // where its user's login is renewed
}

// vendors says what the programs that the fleet knows get. What they are
// configured with names programs that they run, for the person too: so they read
// it, and what they change of it is forgotten. What stays is what they could not
// go on without: sessions, and logins, which are void once they were renewed.
var vendors = map[string]vendor{
	fleet.RunnerClaude: {moved: "CLAUDE_CONFIG_DIR", folder: ".claude", beside: []string{".claude.json"}, keep: []string{"projects/", ".credentials.json"},
		address: "ANTHROPIC_BASE_URL", hosts: []string{"api.anthropic.com"}, account: []string{"platform.claude.com", "console.anthropic.com"}},
	fleet.RunnerCodex: {moved: "CODEX_HOME", folder: ".codex", keep: []string{"sessions/", "archived_sessions/", "auth.json"},
		address: "OPENAI_BASE_URL", hosts: []string{"api.openai.com", "chatgpt.com"}, account: []string{"auth.openai.com"}},
	"gemini": {folder: ".gemini", keep: []string{"tmp/", "oauth_creds.json"},
		hosts: []string{"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com"}, account: []string{"oauth2.googleapis.com"}},
}

// adapters are the programs that speak ACP for one of the vendors.
var adapters = map[string]string{"claude-code-acp": fleet.RunnerClaude, "claude-agent-acp": fleet.RunnerClaude, "codex-acp": fleet.RunnerCodex, "gemini": "gemini"}

// vendorOf returns whose program an agent runs. One that is named by a path is
// whatever lies there.
func vendorOf(a file.Agent) (vendor, bool) {
	kind := a.Runner
	if a.Runner == fleet.RunnerACP && len(a.Command) > 0 {
		kind = adapters[a.Command[0]]
	}
	v, ok := vendors[kind]
	return v, ok
}

// confined returns what an agent's own program may do: what all of its programs
// may, and what is its vendor's.
func confined(a file.Agent, p sandbox.Policy, environ []string) (sandbox.Policy, error) {
	p = bounded(a, p)
	v, ok := vendorOf(a)
	if !ok {
		return p, nil
	}
	variable := func(name string) (value string) {
		for _, kv := range environ {
			if k, val, _ := strings.Cut(kv, "="); k == name && name != "" {
				value = val
			}
		}
		return value
	}
	folder := cmp.Or(variable(v.moved), filepath.Join(p.Home, v.folder))
	p.Forget = append(slices.Clip(p.Forget), folder)
	for _, name := range v.beside {
		if path := filepath.Join(p.Home, name); isThere(path) {
			p.Forget = append(p.Forget, path)
		}
	}
	for _, name := range v.keep {
		path := filepath.Join(folder, name)
		if strings.HasSuffix(name, "/") {
			if err := durable.MakeDir(path); err != nil {
				return p, err
			}
		}
		if isThere(path) {
			p.Write = append(p.Write, path)
		}
	}
	hosts := v.hosts
	if at := cmp.Or(a.BaseURL, variable(v.address)); at != "" {
		hosts = hostsOf(at)
	}
	p.Hosts = slices.Concat(p.Hosts, hosts, v.account)
	return p, nil
}

// bounded returns what all programs of an agent may do, its hooks too.
func bounded(a file.Agent, p sandbox.Policy) sandbox.Policy {
	p = p.Widen(a.Sandbox.Widening())
	p.Read = append(slices.Clip(p.Read), a.Sandbox.Read...)
	return p
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// hostsOf returns the host of an address as a sandbox takes it.
func hostsOf(address string) []string {
	at, err := url.Parse(address)
	if err != nil || at.Hostname() == "" {
		return nil
	}
	port := at.Port()
	if port == "" && at.Scheme == "http" {
		port = "80"
	}
	return []string{net.JoinHostPort(at.Hostname(), cmp.Or(port, "443"))}
}

// guards returns what no program of an agent may change, although it may lie in
// its folder: what the fleet takes its orders from, and what it runs without a
// sandbox. dir is the folder of the fleet's file.
func guards(f *file.File, dir string) []string {
	var all []string
	add := func(base, name string, plain bool) {
		if name == "" {
			return
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(base, name)
		}
		if info, err := os.Stat(name); err == nil && (!plain || info.Mode().IsRegular()) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if dir != "" {
		add(dir, "inbox", false)
	}
	for _, a := range f.Agents {
		add(dir, a.System.File, true)
		if !a.Sandbox.Off {
			continue
		}
		words := slices.Clone(a.Command)
		for _, h := range slices.Concat(a.Hooks.AfterRun, a.Hooks.OnError) {
			words = append(words, h.Command...)
		}
		for _, word := range words {
			add(a.Dir, word, true)
		}
	}
	return all
}
