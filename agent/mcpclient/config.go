package mcpclient

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// ProjectFile is the file of a project that names servers, at its root, in the
// form that Claude Code reads.
const ProjectFile = ".mcp.json"

const (
	maxFile    = 1 << 20
	maxServers = 64
)

// Server is one server as a file names it.
type Server struct {
	Name string `json:"-"`
	// File is where it is named: ProjectFile, or the path of a file of the
	// person's own.
	File string `json:"-"`
	// Own means that the person wrote the file, and not the project's authors.
	Own bool `json:"-"`

	Type     string            `json:"type,omitempty"` // "", stdio or http
	Command  string            `json:"command,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	URL      string            `json:"url,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Disabled bool              `json:"disabled,omitempty"`
	// Sandbox is what the program may do beyond the sandbox of the project. It
	// counts in the person's own files only.
	Sandbox *Sandbox `json:"sandbox,omitempty"`

	raw json.RawMessage
}

// Sandbox is how a server of the person's own is confined.
type Sandbox struct {
	Off   bool     `json:"off,omitempty"` // it runs with all that the person may do
	Hosts []string `json:"allow_hosts,omitempty"`
	Write []string `json:"allow_write,omitempty"`
}

// Files say where servers are named. Later ones count less: a name that the
// person gave a server is not taken by a project.
type Files struct {
	Named   []string // by the person, for this conversation; they have to be there
	Own     string   // the person's, for all projects; "" for none
	Project string   // the folder of the project; "" for none
}

// Read returns the servers that the files name, by name. A file that is there
// and cannot be read is ErrInvalid; the servers of the others are returned
// with it.
func (f Files) Read() ([]Server, error) {
	var all []Server
	var errs []error
	add := func(b []byte, file string, own bool, err error) {
		var servers []Server
		if err == nil {
			servers, err = Parse(b)
		}
		if err != nil {
			errs = append(errs, tidemark.Invalidf("%s: %w", file, err))
		}
		for _, s := range servers {
			if !slices.ContainsFunc(all, func(o Server) bool { return o.Name == s.Name }) {
				s.File, s.Own = file, own
				all = append(all, s)
			}
		}
	}
	for _, name := range f.Named {
		b, err := project.ReadOwn(name, maxFile)
		add(b, name, true, err)
	}
	if f.Own != "" {
		if b, err := project.ReadOwn(f.Own, maxFile); !errors.Is(err, fs.ErrNotExist) {
			add(b, f.Own, true, err)
		}
	}
	if f.Project != "" {
		if b, err := project.ReadFile(f.Project, ProjectFile, maxFile); !errors.Is(err, fs.ErrNotExist) {
			add(b, ProjectFile, false, err)
		}
	}
	slices.SortFunc(all, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	return all, errors.Join(errs...)
}

// serverName is what a server may be called: its name is part of the names of
// its tools, which models take in this form only.
var serverName = expression.WhenNeeded(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// CheckName returns ErrInvalid for a name that no server can have.
func CheckName(name string) error {
	if !serverName().MatchString(name) || strings.Contains(name, "__") {
		return tidemark.Invalidf("server %.60q: a name has letters, digits, - and single _, and is at most 32 long", name)
	}
	return nil
}

// Parse reads the servers of a file, by name. What is wrong with one of them
// is an error; the others are returned with it.
func Parse(b []byte) ([]Server, error) {
	var content struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(b, []byte("\uFEFF")), &content); err != nil {
		return nil, fmt.Errorf(`want {"mcpServers": {"NAME": {"command": "…"}}}: %w`, err)
	}
	if len(content.Servers) > maxServers {
		return nil, fmt.Errorf("%d servers, at most %d are allowed", len(content.Servers), maxServers)
	}
	var all []Server
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(content.Servers)) {
		s := Server{raw: content.Servers[name]}
		err := json.Unmarshal(s.raw, &s)
		s.Name = name
		if err == nil {
			err = s.check()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("server %.60q: %w", name, err))
			continue
		}
		all = append(all, s)
	}
	return all, errors.Join(errs...)
}

// check returns what is wrong with a definition.
func (s Server) check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch {
	case s.Command != "" && s.URL != "":
		return errors.New("it has a command and a url; want one")
	case s.Type == "sse":
		return errors.New("type sse is not supported; most servers also offer http")
	case s.Type != "" && s.Type != "stdio" && s.Type != "http" && s.Type != "streamable-http":
		return fmt.Errorf("type %.40q: want stdio or http", s.Type)
	case s.Type == "stdio" && s.Command == "", s.Command == "" && s.URL == "":
		return errors.New("it has neither a command nor a url")
	case (s.Type == "http" || s.Type == "streamable-http") && s.URL == "":
		return errors.New("it has no url")
	case strings.ContainsRune(s.Command+strings.Join(s.Args, ""), 0):
		return errors.New("a NUL in its command")
	}
	if s.Sandbox != nil {
		return sandbox.Widening{Hosts: s.Sandbox.Hosts, Write: s.Sandbox.Write}.Check()
	}
	return nil
}

// What is in one line what a server is.
func (s Server) What() string {
	if s.URL != "" {
		return s.URL
	}
	return strings.Join(append([]string{s.Command}, s.Args...), " ")
}

// Remote reports whether a server is on another machine, or may be.
func (s Server) Remote() bool {
	if s.URL == "" {
		return false
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// hash identifies the definition, as it is written.
func (s Server) hash() string {
	var compact bytes.Buffer
	if json.Compact(&compact, s.raw) != nil {
		compact.Write(s.raw)
	}
	sum := sha256.Sum256(compact.Bytes())
	return hex.EncodeToString(sum[:])
}

// Request is what a person has to approve before a server of a project is
// started or called: its definition, and those files of the project that the
// definition names.
func (s Server) Request(root string) chat.StartRequest {
	return chat.StartRequest{Name: "the MCP server " + s.Name, File: s.File, Says: s.raw, Parts: chat.PartsOf(root, append([]string{s.Command}, s.Args...)), Remote: s.Remote()}
}

// variable is a reference to the environment: ${NAME} or ${NAME:-DEFAULT}.
var variable = expression.WhenNeeded(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}`)

// expanded is a server with the values of the variables that its definition
// names. A variable that is not set and has no default is ErrInvalid.
func (s Server) expanded(environ []string) (Server, error) {
	values := make(map[string]string)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		values[name] = value
	}
	var missing []string
	expand := func(text string) string {
		return variable().ReplaceAllStringFunc(text, func(ref string) string {
			m := variable().FindStringSubmatch(ref)
			if v, ok := values[m[1]]; ok {
				return v
			}
			if m[2] == "" {
				missing = append(missing, m[1])
			}
			return strings.TrimPrefix(m[2], ":-")
		})
	}
	s.Command, s.URL = expand(s.Command), expand(s.URL)
	s.Args = slices.Clone(s.Args)
	for i := range s.Args {
		s.Args[i] = expand(s.Args[i])
	}
	each := func(m map[string]string) map[string]string {
		out := make(map[string]string, len(m))
		for k, v := range m {
			out[k] = expand(v)
		}
		return out
	}
	s.Env, s.Headers = each(s.Env), each(s.Headers)
	if len(missing) > 0 {
		slices.Sort(missing)
		return s, tidemark.Invalidf("the variable %s is not set", strings.Join(slices.Compact(missing), ", "))
	}
	return s, nil
}
