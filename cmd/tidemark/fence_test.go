//go:build !windows

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/config"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/store"
)

// TestProgramsOfAnEditorsAgentAreHeld tries escapes through the program that an
// editor starts: whatever the person allows, it stays in the sandbox.
func TestProgramsOfAnEditorsAgentAreHeld(t *testing.T) {
	if slices.ContainsFunc(sandbox.Layers(), func(l sandbox.Layer) bool { return !l.On }) {
		t.Skip("this machine cannot enforce all layers of a sandbox")
	}
	t.Parallel()
	dir := t.TempDir()
	const secret = "the-secret-of-the-host"
	for _, name := range []string{"home/.ssh/id_ed25519", "outside"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(secret), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	e := openEditor(t, dir)
	e.cmd.Dir = project // what the editor has open
	id := e.open()
	for _, attempt := range []string{"cat ~/.ssh/id_ed25519", "cat ../outside", "env | grep TIDEMARK_", "cat ~/.config/tidemark/keys/*", "ls " + dir + "/data", "echo x >~/.bashrc", "(exec 3<>/dev/tcp/127.0.0.1/22)"} {
		e.say(id, "run "+attempt+" || echo held")
	}
	e.say(id, "run touch inside")
	e.mu.Lock()
	heard, err := json.Marshal(e.heard)
	e.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	said := string(heard)
	if strings.Contains(said, secret) || strings.Contains(said, "TIDEMARK_PROVIDER") || !strings.Contains(said, "held") {
		t.Errorf("%s", said)
	}
	if _, err := os.Stat(filepath.Join(project, "inside")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "home", ".bashrc")); err == nil {
		t.Error("~/.bashrc was written")
	}
}

// TestAMachineThatCanEnforceNothingIsSaid puts a machine without namespaces and
// Landlock in the place of this one.
func TestAMachineThatCanEnforceNothingIsSaid(t *testing.T) {
	t.Setenv(config.SandboxVariable, "")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a := &app{confine: func(sandbox.Policy, *exec.Cmd) (*sandbox.Fence, error) {
		return nil, fmt.Errorf("%w: namespaces: operation not permitted", sandbox.ErrNone)
	}}
	project := t.TempDir()
	for mode, want := range map[string]string{"": "Each program is asked for: programs cannot be held in a sandbox here (this system has no sandbox: namespaces: operation not permitted); --sandbox off",
		agent.SandboxOff: "The sandbox is off (flag --sandbox)"} {
		f := a.setup(a.config).FenceFor(agent.Options{Project: project, SandboxMode: mode})
		if f.Sandbox != nil || !strings.HasPrefix(f.Says, want) || (f.Unfenced != "") != (mode == "") {
			t.Errorf("--sandbox %q: %+v", mode, f)
		}
	}
	s := store.New(memory.New(), nil)
	o, err := a.setup(a.config).Assemble(t.Context(), agent.Options{Store: s, Model: &agent.Model{}, Project: project, Unattended: true})
	if err != nil || !o.Chat.Unattended {
		t.Fatalf("%v %v", o.Chat.Unattended, err)
	}
	// Hosts that are configured and cannot be allowed leave the network off.
	a.confine = func(p sandbox.Policy, _ *exec.Cmd) (*sandbox.Fence, error) {
		if len(p.Hosts) > 0 {
			return nil, sandbox.ErrNone
		}
		return nil, nil
	}
	a.config.Sandbox = config.Sandbox{Hosts: []string{"modules.example.org"}, Write: []string{"/data"}}
	f := a.setup(a.config).FenceFor(agent.Options{Project: project})
	if f.Sandbox == nil || len(f.Sandbox.Policy().Hosts) > 0 || !slices.Equal(f.Sandbox.Policy().Write, []string{"/data"}) || !strings.HasPrefix(f.Says, "Hosts cannot be allowed here") {
		t.Errorf("%+v", f)
	}
}
