package agent

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/tool"
)

// The modes of the sandbox.
const (
	SandboxOn  = "on"
	SandboxOff = "off"
)

// CheckSandboxMode returns ErrInvalid for an unknown mode; "" leaves the
// choice to others. name is the flag or setting that the mode came from.
func CheckSandboxMode(name, mode string) error {
	if mode == "" || mode == SandboxOn || mode == SandboxOff {
		return nil
	}
	return tidemark.Invalidf("%s: %q: want on or off", name, mode)
}

// Fence is how the programs of a conversation are confined.
type Fence struct {
	Sandbox *tool.Sandbox // nil: they are not
	// Unfenced is why they should be confined and are not: then each needs
	// approval.
	Unfenced string
	Hidden   []string // what no tool opens
	// Says is what the person should know, in one line; "": nothing.
	Says string
}

// FenceFor returns how the programs of a conversation are confined.
// Grants to the project count.
func (s *Setup) FenceFor(o Options) Fence {
	p, err := s.Policy(o.Project)
	offBy := s.SandboxOffBy
	switch o.SandboxMode {
	case SandboxOn:
		offBy = ""
	case SandboxOff:
		offBy = "flag --sandbox"
	}
	if offBy != "" {
		return Unheld(p, fmt.Sprintf("The sandbox is off (%s): programs run with all that you may do.", offBy))
	}
	if err == nil && !s.IsProject(o.Project) {
		err = tidemark.Invalidf("%s is no project: everything you have would be writable", o.Project)
	}
	return s.held(p.Widen(s.Widening), err, o.Grants)
}

// HeldBy confines programs by a policy.
func (s *Setup) HeldBy(p sandbox.Policy) Fence { return s.held(p, nil, nil) }

// Unheld is for programs that run with all permissions of their user. says is
// what the person should know about it.
func Unheld(p sandbox.Policy, says string) Fence { return Fence{Hidden: p.Hide, Says: says} }

// held returns how programs are confined by a policy, unless against gives a
// reason not to.
func (s *Setup) held(p sandbox.Policy, against error, granted *grant.Scope) Fence {
	if runtime.GOOS == "windows" {
		return Unheld(p, "This system has no sandbox: programs run with all that you may do.")
	}
	f := Fence{Hidden: p.Hide}
	if against == nil {
		against = s.tryPolicy(p)
	}
	if without := p; errors.Is(against, sandbox.ErrNone) && len(p.Hosts) > 0 {
		without.Hosts = nil
		if s.tryPolicy(without) == nil {
			p, against = without, nil
			f.Says = "Hosts cannot be allowed here; the network is off for programs. "
		}
	}
	if against != nil {
		f.Unfenced = fmt.Sprintf("programs cannot be held in a sandbox here (%s); --sandbox off runs them without one", strings.TrimPrefix(against.Error(), "sandbox: "))
		f.Says = "Each program is asked for: " + f.Unfenced + "."
		return f
	}
	if weak := weakness(); weak != "" {
		f.Says += "The sandbox is a weaker one here: " + weak + "."
	}
	f.Says = strings.TrimSpace(f.Says)
	f.Sandbox = &tool.Sandbox{Confine: s.Confine, Policy: func() sandbox.Policy {
		now := p
		for _, w := range granted.Widenings() {
			now = now.Widen(w)
		}
		return now
	}}
	return f
}

// tryPolicy checks whether this machine can enforce a policy. Nothing is
// started.
func (s *Setup) tryPolicy(p sandbox.Policy) error {
	confine := s.Confine
	if confine == nil {
		confine = sandbox.Confine
	}
	fence, err := confine(p, &exec.Cmd{Path: "/bin/true", Args: []string{"true"}})
	if err == nil && fence != nil {
		fence.Close()
	}
	return err
}

// weakness says what is confined less well here than on other systems, ""
// when nothing is.
func weakness() string {
	for _, l := range sandbox.Layers() {
		if l.Name == "namespaces" && !l.On {
			return "no namespaces, " + l.Says
		}
	}
	return ""
}

// Policy is what programs of a project may do before anybody widens it.
// ErrInvalid: there is no home folder.
func (s *Setup) Policy(project string) (sandbox.Policy, error) {
	home, err := s.Home()
	if err != nil {
		return sandbox.Policy{}, tidemark.Invalidf("no home folder: %w", err)
	}
	p := sandbox.Policy{Root: project, Home: home}
	// What is not below the project is invisible anyway.
	for _, dir := range s.PrivateDirs {
		if !filepath.IsAbs(dir) {
			continue
		}
		// A program could create a folder that does not exist yet, with
		// content of its choice.
		if rel, err := filepath.Rel(project, dir); err == nil && filepath.IsLocal(rel) {
			if err := durable.MakeDir(dir); err != nil {
				return p, err
			}
		}
		p.Hide = append(p.Hide, dir)
	}
	for _, file := range s.PrivateFiles {
		if path, err := filepath.Abs(file); err == nil && file != "" && !slices.Contains(p.Hide, path) {
			p.Hide = append(p.Hide, path)
		}
	}
	return p, nil
}

// Status describes in a line how programs are confined.
func (f Fence) Status() string {
	if f.Sandbox == nil {
		return f.Says
	}
	p := f.Sandbox.Policy()
	more := sandbox.Widening{Write: p.Write, Hosts: p.Hosts}
	says := "on: programs see the project and nothing else"
	if !more.Empty() {
		says = "on, and programs may " + more.String()
	}
	if f.Says != "" {
		says += "; " + f.Says
	}
	return says
}
