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

// vendor is what another vendor's program needs in a sandbox: the folder in which it
// keeps its data, and the hosts of its model.
type vendor struct {
	moved, folder string   // the variable that names the folder, and its usual name below home
	beside        []string // more files below home that it needs
	keep          []string // what it may change for good in the folder; with a / at the end, a folder
	address       string   // the variable with the address of another model
	hosts         []string // of its model
	account       []string // the hosts at which its user's login is renewed
}

// vendors are the programs that the fleet knows. Their configuration names programs
// to run, which they would also run for the person outside the sandbox. So they can
// read it, but their changes to it are discarded. Only what they cannot continue
// without is kept: sessions, and logins, of which the old one is void after a
// renewal.
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

// vendorOf returns the vendor of an agent's program. A program that is named by a
// path has none, since it may be anything.
func vendorOf(a file.Agent) (vendor, bool) {
	kind := a.Runner
	if a.Runner == fleet.RunnerACP && len(a.Command) > 0 {
		kind = adapters[a.Command[0]]
	}
	v, ok := vendors[kind]
	return v, ok
}

// confined returns what the main program of an agent may do: what all programs of
// the agent may do, and what its vendor's program needs.
func confined(a file.Agent, p sandbox.Policy, environ []string) (sandbox.Policy, error) {
	p = widenedByFile(a, p)
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
		if path := filepath.Join(p.Home, name); exists(path) {
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
		if exists(path) {
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

// widenedByFile returns what all programs of an agent may do, including its hooks:
// p and what the file adds.
func widenedByFile(a file.Agent, p sandbox.Policy) sandbox.Policy {
	p = p.Widen(a.Sandbox.Widening())
	p.Read = append(slices.Clip(p.Read), a.Sandbox.Read...)
	return p
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// hostsOf returns the host and port of an address, in the form of Policy.Hosts.
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

// guards returns the files that no program of an agent may change, even in its own
// folder: those that tell the fleet what to do, and programs that the fleet runs
// without a sandbox. dir is the folder of the fleet file.
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
