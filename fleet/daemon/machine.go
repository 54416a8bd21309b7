package daemon

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
)

// Machine is the machine that agents run on, and the environment of the fleet's owner.
type Machine struct {
	// Sessions is where the built-in agent keeps its conversations: the store that
	// the fleet is in.
	Sessions *store.Store
	// Setup is what the conversations of the owner have in common.
	Setup *agent.Setup
	// Environ is the owner's environment, and LookupEnv finds a variable of it:
	// os.Environ and os.LookupEnv.
	Environ   []string
	LookupEnv func(string) (string, bool)
	// File is the absolute path of the fleet file.
	File string
}

// runOn sets the options with which the agents of d run on a machine.
func (o *Options) runOn(m *Machine, d *Daemon) {
	o.Environ, o.Engine, o.Policy = m.environ, engineEnviron(m.Environ), m.policy
	o.Runner = func(a file.Agent) (runner.Runner, error) {
		switch a.Runner {
		case fleet.RunnerCommand:
			return runner.Command(a.Command), nil
		case fleet.RunnerClaude:
			return runner.Claude(a.Command...), nil
		case fleet.RunnerCodex:
			return runner.Codex(a.Command...), nil
		case fleet.RunnerACP:
			return runner.ACP(a.Command), nil
		}
		return runner.Builtin(func(ctx context.Context, t runner.Task) (chat.Options, error) {
			return d.ChatOptions(ctx, a, t)
		}), nil
	}
}

// ChatOptions returns the options of the built-in agent for a task. Options.Machine
// has to be set.
func (d *Daemon) ChatOptions(ctx context.Context, a file.Agent, t runner.Task) (chat.Options, error) {
	m := d.o.Machine
	fence := m.fence(a, t)
	set, err := m.Setup.Assemble(ctx, agent.Options{Store: m.Sessions, Holder: process.Self("tidemark fleet"), Agent: a.Name, Project: t.Dir,
		Choice: agent.Choice{Provider: a.Provider, Model: a.Model, BaseURL: a.BaseURL}, System: cmp.Or(t.System, agent.DefaultInstructions),
		Environ: append([]string{}, t.Environ...), Fence: &fence, Unattended: true})
	if err != nil {
		return chat.Options{}, err
	}
	o := set.Chat
	o.Limits.ToolRounds = cmp.Or(a.Limits.ToolRounds, o.Limits.ToolRounds)
	o.Tools, o.Without = d.ScheduleTools(a), a.Without()
	o.Wake = func(ctx context.Context, id tidemark.SessionID, at time.Time) error {
		return d.o.Store.PutWake(ctx, d.o.Key.SignWake(fleet.Wake{Session: id, Agent: a.Name, At: at}))
	}
	return o, nil
}

// policy is what every program of an agent may do, before its file and its runner add
// to it. It may not change the fleet file, even in the agent's own folder, since that
// says what the agent may do.
func (m *Machine) policy(a file.Agent) (sandbox.Policy, error) {
	p, err := m.Setup.Policy(a.Dir)
	if err != nil {
		return p, err
	}
	for _, kv := range m.environ(a) {
		if home, ok := strings.CutPrefix(kv, "HOME="); ok && filepath.IsAbs(home) {
			p.Home = home
		}
	}
	p.Read = append(p.Read, m.File)
	return p, nil
}

// fence is the sandbox for the tools of the built-in agent, as its file says.
func (m *Machine) fence(a file.Agent, t runner.Task) agent.Fence {
	switch {
	case a.Sandbox.Off:
		p, _ := m.Setup.Policy(t.Dir) // with an error, fewer files are hidden from the tools
		return agent.Unheld(p, "")
	case t.Sandbox != nil:
		return m.Setup.HeldBy(*t.Sandbox)
	}
	return m.Setup.FenceFor(agent.Options{Project: t.Dir, SandboxMode: agent.SandboxOn})
}

// environ is the environment of an agent's program: the variables that all programs
// need, and those that its file names. A container gets no paths and no user of this
// machine, since its image has its own.
func (m *Machine) environ(a file.Agent) []string {
	var environ []string
	pass := func(names ...string) {
		for _, name := range names {
			if v, ok := m.LookupEnv(name); ok {
				environ = append(environ, name+"="+v)
			}
		}
	}
	if a.Container != nil {
		pass("LANG")
	} else {
		environ = sandbox.Environ(m.Environ)
		pass("TMPDIR", "SystemRoot")
		environ = append(environ, "PWD="+cmp.Or(a.Dir, "/"))
	}
	pass(a.PassEnv...)
	if a.Runner == fleet.RunnerClaude && a.BaseURL != "" {
		environ = append(environ, "ANTHROPIC_BASE_URL="+a.BaseURL)
	}
	for name, value := range a.Env {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// engineEnviron is the environment of the container engine: where its parts are, and
// how it reaches its service. It gets nothing else: if an agent has the same variable
// with another value, that has to be on the engine's command line, where others can
// see it.
func engineEnviron(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(v string) bool {
		name, _, _ := strings.Cut(strings.ToUpper(v), "=")
		switch name {
		case "PATH", "HOME", "USER", "LANG", "TMPDIR", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
			"SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "TEMP", "TMP":
			return false
		}
		return !slices.ContainsFunc([]string{"DOCKER_", "CONTAINER_", "CONTAINERS_", "XDG_"}, func(p string) bool { return strings.HasPrefix(name, p) })
	})
}
