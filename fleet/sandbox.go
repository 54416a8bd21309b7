package fleet

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

// Sandbox is what holds the programs of an agent: its own, those of its tools
// and its hooks. The zero value lets them see the agent's folder, what its
// runner needs, and nothing else.
type Sandbox struct {
	Off   bool     // they run with all that the daemon's user may do
	Read  []string `key:"allow_read"`  // more that they may read
	Write []string `key:"allow_write"` // more that they may read and write
	Hosts []string `key:"allow_hosts"` // hosts that they may reach
}

// Widening is what an agent's programs may do beside what all may.
func (s Sandbox) Widening() sandbox.Widening {
	return sandbox.Widening{Write: s.Write, Hosts: s.Hosts}
}

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
	RunnerClaude: {moved: "CLAUDE_CONFIG_DIR", folder: ".claude", beside: []string{".claude.json"}, keep: []string{"projects/", ".credentials.json"},
		address: "ANTHROPIC_BASE_URL", hosts: []string{"api.anthropic.com"}, account: []string{"platform.claude.com", "console.anthropic.com"}},
	RunnerCodex: {moved: "CODEX_HOME", folder: ".codex", keep: []string{"sessions/", "archived_sessions/", "auth.json"},
		address: "OPENAI_BASE_URL", hosts: []string{"api.openai.com", "chatgpt.com"}, account: []string{"auth.openai.com"}},
	"gemini": {folder: ".gemini", keep: []string{"tmp/", "oauth_creds.json"},
		hosts: []string{"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com"}, account: []string{"oauth2.googleapis.com"}},
}

// adapters are the programs that speak ACP for one of the vendors.
var adapters = map[string]string{"claude-code-acp": RunnerClaude, "claude-agent-acp": RunnerClaude, "codex-acp": RunnerCodex, "gemini": "gemini"}

// vendor returns whose program an agent runs. One that is named by a path is
// whatever lies there.
func (a Agent) vendor() (vendor, bool) {
	kind := a.Runner
	if a.Runner == RunnerACP && len(a.Command) > 0 {
		kind = adapters[a.Command[0]]
	}
	v, ok := vendors[kind]
	return v, ok
}

// confined returns what an agent's own program may do: what all of its programs
// may, and what is its vendor's.
func (a Agent) confined(p sandbox.Policy, environ []string) (sandbox.Policy, error) {
	p = a.held(p)
	v, ok := a.vendor()
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

// held returns what all programs of an agent may do, its hooks too.
func (a Agent) held(p sandbox.Policy) sandbox.Policy {
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
func (f *File) guards(dir string) []string {
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

const sandboxHint = "write off, or {allow_read: [], allow_write: [], allow_hosts: []}"

// sandbox reads what holds an agent's programs: a word, or what they may do in
// addition.
func (c *checker) sandbox(n *yaml.Node) (s Sandbox) {
	if n.Shape != yaml.Map {
		switch n.Text {
		case "off", "false":
			s.Off = true
		case "on", "true":
		default:
			c.at(n, fmt.Sprintf("sandbox is %s", described(n)), sandboxHint)
		}
		return s
	}
	paths := func(what string, into *[]string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			c.list(n, what, "write it like [/srv/data, ../shared]", func(item *yaml.Node) {
				path := c.folder(item, what)
				if err := (sandbox.Widening{Write: []string{path}}).Check(); err != nil && filepath.IsAbs(path) {
					c.at(item, fmt.Sprintf("%s is %s: everything would be in it", what, described(item)), "name the folder that is needed")
				} else if path != "" {
					*into = append(*into, path)
				}
			})
		}
	}
	c.mapping(n, "sandbox", fields{
		"allow_read":  paths("allow_read", &s.Read),
		"allow_write": paths("allow_write", &s.Write),
		"allow_hosts": func(n *yaml.Node) {
			const hint = "write it like [modules.example.org, \"*.example.org\", \"localhost:8080\"]"
			c.list(n, "allow_hosts", hint, func(item *yaml.Node) {
				host := c.text(item, "a host")
				if err := (sandbox.Widening{Hosts: []string{host}}).Check(); err != nil {
					c.at(item, fmt.Sprintf("%s is not a host", described(item)), hint)
					return
				}
				s.Hosts = append(s.Hosts, host)
			})
		},
	})
	return s
}
