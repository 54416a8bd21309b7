package herdctl

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

// Config is the fleet that a herdctl.yaml describes: the agents of all its
// files, with defaults and overrides filled in and variables replaced.
type Config struct {
	Fleet  *yaml.Node // the file itself
	Agents []ConfigAgent
	Left   []Left // what could not be read
}

// ConfigAgent is one agent.
type ConfigAgent struct {
	Name string // with the names of the fleets around it: ops.auditor
	File string // that describes it
	Dir  string // where it works, absolute
	Node *yaml.Node
}

// Left is something that was not imported, and why.
type Left struct {
	File  string `json:"file"`
	Agent string `json:"agent,omitempty"`
	Key   string `json:"key,omitempty"`
	Why   string `json:"why"`
}

func (l Left) String() string {
	s := l.File
	for _, part := range []string{l.Agent, l.Key} {
		if part != "" {
			s += ": " + part
		}
	}
	return s + ": " + l.Why
}

// ConfigOptions are the environment of a herdctl.yaml.
type ConfigOptions struct {
	// Root is the absolute folder that the files are read from, with slashes.
	// Files outside it are left out.
	Root string
	// Env returns the value of a variable for ${NAME}.
	Env func(name string) (value string, ok bool)
}

const (
	// maxConfigs bounds the files of one fleet, and maxFleets the nesting of
	// fleets: a fleet may name another one many times.
	maxConfigs = 1000
	maxFleets  = 16
)

// ReadConfig reads the herdctl.yaml called name below the root, the files of its
// agents, and its fleets with theirs. Only an unreadable main file is an error.
func ReadConfig(fsys fs.FS, name string, o ConfigOptions) (*Config, error) {
	r := &configReader{fs: fsys, o: o, config: &Config{}, names: map[string]string{}}
	root, err := r.read(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r.config.Fleet = root
	r.fleet(root, name, nil, nil, []string{name})
	return r.config, nil
}

type configReader struct {
	fs     fs.FS
	o      ConfigOptions
	config *Config
	files  int
	names  map[string]string // of agents, in lower case, and their files
}

func (r *configReader) left(file, agent, key, why string) {
	r.config.Left = append(r.config.Left, Left{file, agent, key, why})
}

// read returns the mapping of a file, with its variables replaced.
func (r *configReader) read(name string) (*yaml.Node, error) {
	if r.files++; r.files > maxConfigs {
		return nil, tidemark.Invalidf("the fleet has more than %d files", maxConfigs)
	}
	b, err := readBounded(r.fs, name)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err // the caller says which file it is
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, tidemark.NotFoundf("is not there")
		}
		return nil, tidemark.Invalidf("%w", err)
	}
	root, problems := yaml.Parse(b, bounds())
	switch {
	case len(problems) > 0:
		return nil, tidemark.Invalidf("%w", problems[0])
	case root == nil:
		return &yaml.Node{Shape: yaml.Map, Line: 1, Column: 1, Size: 1}, nil
	case root.Shape != yaml.Map:
		return nil, tidemark.Invalidf("is no mapping")
	}
	v := &variables{env: r.o.Env, made: map[*yaml.Node]*yaml.Node{}}
	root = v.replaced(root)
	for _, missing := range slices.Compact(slices.Sorted(slices.Values(v.missing))) {
		r.left(name, "", "${"+missing+"}", "the variable is not set, or looks like a secret: it stays as it is written")
	}
	renamed(root)
	renamed(root.Get("defaults"))
	return root, nil
}

// renamed renames a key of older versions to its newer name.
func renamed(n *yaml.Node) {
	if n == nil || n.Says("working_directory") {
		return
	}
	for i := range n.Entries {
		if n.Entries[i].Key == "workspace" {
			n.Entries[i].Key = "working_directory"
		}
	}
}

// fleet reads the agents of a fleet file and of the fleets inside it. chain are
// the files that led here, this one last, and at the names of their fleets.
func (r *configReader) fleet(n *yaml.Node, file string, defaults *yaml.Node, at, chain []string) {
	own := n.Get("defaults")
	r.resolve(own, path.Dir(file))
	if own != nil {
		defaults = yaml.Merged(own, defaults)
	}
	for _, item := range listOf(n.Get("agents")) {
		r.agent(item, file, defaults, at)
	}
	names := map[string]bool{}
	for _, item := range listOf(n.Get("fleets")) {
		written := textOf(item.Get("path"))
		name, err := r.below(file, written)
		switch {
		case err != nil:
		case slices.Contains(chain, name):
			err = tidemark.Invalidf("a fleet inside of itself: %s", strings.Join(append(chain, name), " → "))
		case len(chain) > maxFleets:
			err = tidemark.Invalidf("fleets are more than %d inside of each other", maxFleets)
		}
		var sub *yaml.Node
		if err == nil {
			sub, err = r.read(name)
		}
		if err != nil {
			r.left(file, "", fmt.Sprintf("fleets: %.80q", written), err.Error())
			continue
		}
		called := textOf(item.Get("name"))
		if called == "" {
			called = textOf(sub.Get("fleet").Get("name"))
		}
		if called == "" {
			called = path.Base(path.Dir(name))
		}
		if !isAgentName(called) || names[strings.ToLower(called)] {
			r.left(file, "", fmt.Sprintf("fleets: %.80q", written), fmt.Sprintf("its name %.60q is not one, or is there twice", called))
			continue
		}
		names[strings.ToLower(called)] = true
		if over := item.Get("overrides"); over != nil {
			sub = yaml.Merged(over, sub)
		}
		for _, key := range []string{"web", "webhooks", "docker"} {
			if sub.Get(key) != nil {
				r.left(name, "", key, "only that of the outermost file counts")
			}
		}
		r.fleet(sub, name, defaults, append(slices.Clone(at), called), append(slices.Clone(chain), name))
	}
}

// agent reads what one entry of agents names.
func (r *configReader) agent(item *yaml.Node, file string, defaults *yaml.Node, at []string) {
	written := textOf(item.Get("path"))
	name, err := r.below(file, written)
	var n *yaml.Node
	if err == nil {
		n, err = r.read(name)
	}
	if err != nil {
		r.left(file, "", fmt.Sprintf("agents: %.80q", written), err.Error())
		return
	}
	if defaults != nil {
		n = yaml.Merged(n, defaults)
	}
	if over := item.Get("overrides"); over != nil {
		n = yaml.Merged(over, n)
	}
	local := textOf(n.Get("name"))
	a := ConfigAgent{Name: strings.Join(append(slices.Clone(at), local), "."), File: name, Node: n}
	if !isAgentName(local) {
		r.left(name, "", "name", fmt.Sprintf("%.60q is not the name of an agent", local))
		return
	}
	if other, ok := r.names[strings.ToLower(a.Name)]; ok {
		r.left(name, a.Name, "", "there is an agent of this name in "+other)
		return
	}
	r.names[strings.ToLower(a.Name)] = name
	dir := n.Get("working_directory")
	if dir != nil && dir.Shape == yaml.Map {
		dir = dir.Get("root")
	}
	a.Dir = r.absolute(path.Dir(name), textOf(dir))
	r.config.Agents = append(r.config.Agents, a)
}

// resolve makes the folder in a fleet's defaults absolute: it is relative to the
// fleet's file, while that of an agent is relative to the agent's.
func (r *configReader) resolve(defaults *yaml.Node, dir string) {
	n := defaults.Get("working_directory")
	if n != nil && n.Shape == yaml.Map {
		n = n.Get("root")
	}
	if n != nil && n.Shape == yaml.Text {
		n.Text = r.absolute(dir, n.Text)
	}
}

func (r *configReader) absolute(dir, written string) string {
	if isAbsolute(written) {
		return path.Clean(written)
	}
	return path.Join(r.o.Root, dir, written)
}

// isAbsolute reports whether a path begins at a root of any system.
func isAbsolute(name string) bool {
	return strings.HasPrefix(name, "/") || len(name) > 2 && name[1] == ':' && (name[2] == '/' || name[2] == '\\')
}

// below returns the path, from the root, of a file that another file names.
func (r *configReader) below(from, written string) (string, error) {
	if written == "" {
		return "", tidemark.Invalidf("has no path")
	}
	name := path.Join(path.Dir(from), written)
	if isAbsolute(written) {
		rel, ok := strings.CutPrefix(path.Clean(written), strings.TrimSuffix(r.o.Root, "/")+"/")
		if !ok {
			rel = ".."
		}
		name = rel
	}
	if !fs.ValidPath(name) || name == "." {
		return "", tidemark.Invalidf("is outside of %s, and is not read", r.o.Root)
	}
	return name, nil
}

func listOf(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Shape != yaml.List {
		return nil
	}
	return n.Items
}

func textOf(n *yaml.Node) string {
	if n == nil || n.Shape == yaml.List || n.Shape == yaml.Map {
		return ""
	}
	return n.Text
}

// isAgentName reports whether herdctl accepts a name for an agent or a fleet.
func isAgentName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || i > 0 && (c == '_' || c == '-')) {
			return false
		}
	}
	return s != ""
}

// variables replaces ${NAME} and ${NAME:-DEFAULT} in texts.
type variables struct {
	env     func(string) (string, bool)
	made    map[*yaml.Node]*yaml.Node // what aliases share stays shared
	missing []string
}

func (v *variables) replaced(n *yaml.Node) *yaml.Node {
	if done, ok := v.made[n]; ok {
		return done
	}
	out := *n
	v.made[n] = &out
	out.Items = make([]*yaml.Node, len(n.Items))
	for i, item := range n.Items {
		out.Items[i] = v.replaced(item)
	}
	out.Entries = slices.Clone(n.Entries)
	for i := range out.Entries {
		out.Entries[i].Value = v.replaced(n.Entries[i].Value)
	}
	if n.Shape == yaml.Text {
		out.Text = v.text(n.Text)
	}
	return &out
}

// text replaces the variables in a text. Their values are not expanded again.
func (v *variables) text(s string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		inner, after, closed := strings.Cut(rest, "}")
		name, byDefault, defaulted := strings.Cut(inner, ":-")
		if !closed || !isVariable(name) {
			b.WriteString("${")
			s = rest
			continue
		}
		s = after
		value, set := v.env(name)
		switch {
		case set:
			b.WriteString(value)
		case defaulted:
			b.WriteString(byDefault)
		default:
			v.missing = append(v.missing, name)
			b.WriteString("${" + inner + "}")
		}
	}
}

func isVariable(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || i > 0 && '0' <= c && c <= '9') {
			return false
		}
	}
	return s != ""
}
