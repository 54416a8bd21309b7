// Package sandbox runs a program so that it sees and changes only what a Policy
// names: the project, the system's programs, caches that builds need, and the
// hosts that were allowed one by one. It never asks anybody, and it does not
// decide what a program may do: the maker of the Policy does.
//
//	fence, err := sandbox.Confine(sandbox.Policy{Root: project, Home: home}, cmd)
//	defer fence.Close() // after cmd.Wait
//	err = cmd.Start()
//	fence.Started()
//
// On Linux this program starts itself again as the first process of new
// namespaces (see Stage), which makes its own root, gives up every privilege and
// starts the command. On macOS sandbox-exec does the work, with a profile that
// is generated here. Elsewhere Confine returns ErrNone.
package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNone is the error of Confine where this system has no sandbox.
var ErrNone = errors.New("this system has no sandbox")

// Policy is what a confined program may reach. The zero value of a field
// allows nothing more.
type Policy struct {
	Root   string   // the project: absolute; may be read and written, except for Protected
	Write  []string // more folders and files that may be written, absolute
	Read   []string // more folders and files that may be read and not written, also below Root; absolute
	Forget []string // more folders and files that may be read; writes there are discarded; absolute
	Hosts  []string // hosts that may be reached: NAME, *.NAME, NAME:PORT, or an address with its port
	Hide   []string // what must not be visible, wherever it is: keys, the store; absolute
	Home   string   // the home folder of the user: absolute; it is empty except for toolchains and caches

	// NoNamespaces confines the program as on a machine without namespaces, to
	// show what is left then.
	NoNamespaces bool
}

// Widening is what somebody allows in addition to a policy.
type Widening struct {
	Write []string `json:"write,omitempty" yaml:"allow_write"`
	Hosts []string `json:"hosts,omitempty" yaml:"allow_hosts"`
}

// String says what is allowed in addition, for the person who allows it.
func (w Widening) String() string {
	var parts []string
	for _, d := range w.Write {
		parts = append(parts, fmt.Sprintf("read and write %q", d))
	}
	for _, h := range w.Hosts {
		parts = append(parts, fmt.Sprintf("connect to %q", h))
	}
	if parts == nil {
		return "nothing more"
	}
	return strings.Join(parts, ", ")
}

// Empty reports whether nothing is allowed in addition.
func (w Widening) Empty() bool { return len(w.Write) == 0 && len(w.Hosts) == 0 }

// Check returns an error that says what is invalid in a widening.
func (w Widening) Check() error {
	for _, d := range w.Write {
		if !filepath.IsAbs(d) || filepath.Clean(d) == string(filepath.Separator) {
			return fmt.Errorf("sandbox: write %q: want an absolute path, and not the root of all", d)
		}
	}
	for _, h := range w.Hosts {
		if _, err := parseHost(h); err != nil {
			return err
		}
	}
	return nil
}

// Widen returns the policy with more allowed.
func (p Policy) Widen(w Widening) Policy {
	p.Write = append(slices.Clip(p.Write), w.Write...)
	p.Hosts = append(slices.Clip(p.Hosts), w.Hosts...)
	return p
}

// check returns why a policy cannot be enforced.
func (p Policy) check() error {
	for _, path := range slices.Concat([]string{p.Root, p.Home}, p.Read, p.Forget, p.Hide) {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("sandbox: %q: want an absolute path", path)
		}
	}
	root := filepath.Clean(p.Root)
	if root == "/" || root == filepath.Clean(p.Home) {
		return fmt.Errorf("sandbox: %s cannot be the project: everything you have would be writable", root)
	}
	return Widening{p.Write, p.Hosts}.Check()
}

// Layer is one mechanism that confines a program, and whether this machine has
// it.
type Layer struct {
	Name string // namespaces, landlock, seccomp, …
	On   bool
	Says string // what it does, or why it is missing
}

// Environ returns the part of an environment that a confined program is given:
// what programs need to run, and nothing that may be a secret.
func Environ(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "LC_") || slices.Contains(variables, name) {
			kept = append(kept, kv)
		}
	}
	return kept
}

// variables are the names that Environ keeps.
var variables = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "NO_COLOR", "CLICOLOR", "COLUMNS", "LINES", "LANG", "LANGUAGE", "TZ", "PWD", "CI",
	"GOFLAGS", "GOPATH", "GOROOT", "GOMODCACHE", "GOTOOLCHAIN", "GOOS", "GOARCH", "CGO_ENABLED", "CC", "CXX", "JAVA_HOME", "NODE_ENV", "VIRTUAL_ENV", "PYTHONPATH",
	"PYTHONDONTWRITEBYTECODE", "RUSTUP_TOOLCHAIN", "PYENV_ROOT", "PYENV_VERSION", "NVM_DIR"}
