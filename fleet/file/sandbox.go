package file

import (
	"fmt"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

// Sandbox is what confines the programs of an agent: its own, those of its
// tools and its hooks. The zero value lets them see the agent's folder, what
// its runner needs, and nothing else.
type Sandbox struct {
	Off   bool     // they run with all permissions of the daemon's user
	Read  []string `key:"allow_read"`  // more paths that they may read
	Write []string `key:"allow_write"` // more paths that they may read and write
	Hosts []string `key:"allow_hosts"` // hosts that they may reach
}

// Widening is what an agent's programs may do in addition to the default.
func (s Sandbox) Widening() sandbox.Widening {
	return sandbox.Widening{Write: s.Write, Hosts: s.Hosts}
}

const sandboxHint = "write off, or {allow_read: [], allow_write: [], allow_hosts: []}"

// sandbox reads how an agent's programs are confined: a word, or what they may
// do in addition.
func (c *checker) sandbox(n *yaml.Node) (s Sandbox) {
	if n.Shape != yaml.Map {
		switch n.Text {
		case "off", "false":
			s.Off = true
		case "on", "true":
		default:
			c.reportAt(n, fmt.Sprintf("sandbox is %s", described(n)), sandboxHint)
		}
		return s
	}
	paths := func(what string, into *[]string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			c.list(n, what, "write it like [/srv/data, ../shared]", func(item *yaml.Node) {
				path := c.folder(item, what)
				if err := (sandbox.Widening{Write: []string{path}}).Check(); err != nil && filepath.IsAbs(path) {
					c.reportAt(item, fmt.Sprintf("%s is %s: everything would be in it", what, described(item)), "name the folder that is needed")
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
					c.reportAt(item, fmt.Sprintf("%s is not a host", described(item)), hint)
					return
				}
				s.Hosts = append(s.Hosts, host)
			})
		},
	})
	return s
}
