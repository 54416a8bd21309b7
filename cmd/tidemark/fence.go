package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
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

// sandboxSettings is what a configuration file may say of the sandbox that the
// programs of conversations run in.
type sandboxSettings struct {
	Mode  string   `yaml:"mode"`
	Write []string `yaml:"allow_write"`
	Hosts []string `yaml:"allow_hosts"`
}

// The modes of the sandbox, and the variable that chooses one.
const (
	sandboxOn       = "on"
	sandboxOff      = "off"
	sandboxVariable = "TIDEMARK_SANDBOX"
)

// isSet reports whether a file says anything of the sandbox.
func (s sandboxSettings) isSet() bool { return s.Mode != "" || s.Write != nil || s.Hosts != nil }

// check completes paths in the home folder, and returns what cannot be meant.
func (s *sandboxSettings) check() error {
	if err := checkMode("mode", s.Mode); err != nil {
		return err
	}
	for i, path := range s.Write {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			s.Write[i] = filepath.Join(home, rest)
		}
	}
	return s.widening().Check()
}

func (s sandboxSettings) widening() sandbox.Widening {
	return sandbox.Widening{Write: s.Write, Hosts: s.Hosts}
}

func checkMode(name, mode string) error {
	if mode == "" || mode == sandboxOn || mode == sandboxOff {
		return nil
	}
	return tidemark.Invalidf("%s: %q: want on or off", name, mode)
}

// sandboxMode is whether programs are put into a sandbox, and who said so.
func (a *app) sandboxMode(flag string) (mode, origin string) {
	switch env := os.Getenv(sandboxVariable); {
	case flag != "":
		return flag, "flag --sandbox"
	case env != "":
		return env, "$" + sandboxVariable
	case a.config.Sandbox.Mode != "":
		return a.config.Sandbox.Mode, a.config.origins["sandbox"]
	}
	return sandboxOn, "default"
}

// fence is how the programs of a conversation are held.
type fence struct {
	sandbox *tool.Sandbox // nil: they are not
	// unfenced is why they should be held and are not: each is asked for then.
	unfenced string
	hidden   []string // what no tool opens
	// says is what the person should know, in one line; "": all is well.
	says string
}

// fenceOf returns how programs are held that work in a folder, where the flag
// says mode, or nothing. What was granted to the project counts.
func (a *app) fenceOf(root, flag string, granted *grant.Scope) fence {
	p, err := a.policy(root)
	if mode, origin := a.sandboxMode(flag); mode == sandboxOff {
		return unheld(p, fmt.Sprintf("The sandbox is off (%s): programs run with all that you may do.", origin))
	}
	if err == nil && !isProject(root) {
		err = tidemark.Invalidf("%s is no project: everything you have would be writable", root)
	}
	return a.heldBy(p.Widen(a.config.Sandbox.widening()), err, granted)
}

// unheld is for programs that run with all that their user may do.
func unheld(p sandbox.Policy, says string) fence { return fence{hidden: p.Hide, says: says} }

// heldBy returns how programs are held by a policy, if there is no reason
// against it.
func (a *app) heldBy(p sandbox.Policy, against error, granted *grant.Scope) fence {
	if runtime.GOOS == "windows" {
		return unheld(p, "This system has no sandbox: programs run with all that you may do.")
	}
	f := fence{hidden: p.Hide}
	if against == nil {
		against = a.holds(p)
	}
	if without := p; errors.Is(against, sandbox.ErrNone) && len(p.Hosts) > 0 {
		without.Hosts = nil
		if a.holds(without) == nil {
			p, against = without, nil
			f.says = "Hosts cannot be allowed here; the network is off for programs. "
		}
	}
	if against != nil {
		f.unfenced = fmt.Sprintf("programs cannot be held in a sandbox here (%s); --sandbox off runs them without one", strings.TrimPrefix(against.Error(), "sandbox: "))
		f.says = "Each program is asked for: " + f.unfenced + "."
		return f
	}
	if weak := weakness(); weak != "" {
		f.says += "The sandbox is a weaker one here: " + weak + "."
	}
	f.says = strings.TrimSpace(f.says)
	f.sandbox = &tool.Sandbox{Confine: a.confine, Policy: func() sandbox.Policy {
		now := p
		for _, w := range granted.Widenings() {
			now = now.Widen(w)
		}
		return now
	}}
	return f
}

// holds tries whether this machine can enforce a policy. Nothing is started.
func (a *app) holds(p sandbox.Policy) error {
	confine := a.confine
	if confine == nil {
		confine = sandbox.Confine
	}
	fence, err := confine(p, &exec.Cmd{Path: "/bin/true", Args: []string{"true"}})
	if err == nil && fence != nil {
		fence.Close()
	}
	return err
}

// weakness says what holds programs less well here than elsewhere, "" when
// nothing does.
func weakness() string {
	for _, l := range sandbox.Layers() {
		if l.Name == "namespaces" && !l.On {
			return "no namespaces, " + l.Says
		}
	}
	return ""
}

// policy is what programs of a project may do.
func (a *app) policy(project string) (sandbox.Policy, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return sandbox.Policy{}, tidemark.Invalidf("no home folder: %w", err)
	}
	p := sandbox.Policy{Root: project, Home: home}
	// What is not below the project is not there anyway.
	for _, folder := range []func() (string, error){dataDir, configDir, stateDir} {
		dir, err := folder()
		if err != nil || !filepath.IsAbs(dir) {
			continue
		}
		// A folder that is not there yet could be made by a program, with what
		// it likes to be found in it.
		if rel, err := filepath.Rel(project, dir); err == nil && filepath.IsLocal(rel) {
			if err := durable.MakeDir(dir); err != nil {
				return p, err
			}
		}
		p.Hide = append(p.Hide, dir)
	}
	files := []string{a.keyFile, os.Getenv("TIDEMARK_KEY_FILE"), a.configFile}
	if store := a.storePath(); store != "" {
		files = append(files, store, store+"-wal", store+"-shm", store+"-journal", store+".lock")
	}
	for _, file := range files {
		if path, err := filepath.Abs(file); err == nil && file != "" && !slices.Contains(p.Hide, path) {
			p.Hide = append(p.Hide, path)
		}
	}
	return p, nil
}

// sandboxSetting is the row of `config show`.
func (a *app) sandboxSetting() setting {
	mode, origin := a.sandboxMode("")
	return setting{"sandbox", mode, cmp.Or(origin, "default")}
}

// granted is what the person granted in the project; nil where nobody does.
func (t *talk) granted() *grant.Scope {
	if !t.person {
		return nil
	}
	return t.grants().For(t.root())
}

// howFenced is how the programs of this conversation are held.
func (t *talk) howFenced() fence { return t.fenceOf(t.root(), t.f.sandbox, t.granted()) }

// sandboxStatus says in a line how programs are held.
func (t *talk) sandboxStatus() string {
	f := t.howFenced()
	if f.sandbox == nil {
		return f.says
	}
	p := f.sandbox.Policy()
	more := sandbox.Widening{Write: p.Write, Hosts: p.Hosts}
	says := "on: programs see the project and nothing else"
	if !more.Empty() {
		says = "on, and programs may " + more.String()
	}
	if f.says != "" {
		says += "; " + f.says
	}
	return says
}
