package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/runner"
)

// policyOf is what every program of an agent may do before its file and its
// runner add to it. The fleet's file is not among what it may change, although
// it may lie in the agent's folder: it says what holds the agent.
func (f *fleetRoom) policyOf(a file.Agent) (sandbox.Policy, error) {
	p, err := f.setup(f.config).Policy(a.Dir)
	if err != nil {
		return p, err
	}
	for _, kv := range f.environ(a) {
		if home, ok := strings.CutPrefix(kv, "HOME="); ok && filepath.IsAbs(home) {
			p.Home = home
		}
	}
	file, err := filepath.Abs(f.file)
	if err != nil {
		return p, err
	}
	p.Read = append(p.Read, file)
	return p, nil
}

// fenceFor is what holds the tools of the built-in agent: what its file says.
func (f *fleetRoom) fenceFor(a file.Agent, t runner.Task) agent.Fence {
	setup := f.setup(f.config)
	switch {
	case a.Sandbox.Off:
		p, _ := setup.Policy(t.Dir) // what it hides is hidden as far as it is known
		return agent.Unheld(p, "")
	case t.Sandbox != nil:
		return setup.HeldBy(*t.Sandbox)
	}
	return setup.FenceFor(agent.Options{Project: t.Dir, SandboxMode: agent.SandboxOn})
}

// environ is the environment of an agent's program: what programs need, and what
// its file names. In a container the paths and the user of this machine mean
// nothing: the image has its own.
func (f *fleetRoom) environ(a file.Agent) []string {
	var environ []string
	pass := func(names ...string) {
		for _, name := range names {
			if v, ok := os.LookupEnv(name); ok {
				environ = append(environ, name+"="+v)
			}
		}
	}
	if a.Container != nil {
		pass("LANG")
	} else {
		environ = sandbox.Environ(os.Environ())
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
