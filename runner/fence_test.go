//go:build linux

package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/runner"
)

// fence holds the program of a rig in a sandbox, in which it can note things.
func (g *rig) fence() *rig {
	g.t.Helper()
	needSandbox(g.t)
	g.task.Sandbox = &sandbox.Policy{Root: g.task.Dir, Home: filepath.Join(g.t.TempDir(), "home"), Write: []string{g.folder}}
	return g
}

// needSandbox skips, with the reason, where the kernel cannot.
func needSandbox(t *testing.T) {
	t.Helper()
	for _, l := range sandbox.Layers() {
		if !l.On {
			t.Skipf("this machine cannot enforce %s: %s", l.Name, l.Says)
		}
	}
}

func TestAProgramSeesWhatItsSandboxAllows(t *testing.T) {
	g := newRig(t).fence()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the-secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "cat " + secret + "; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^HOST_TOKEN=; echo x >here; echo exits; exit 3"
	t.Setenv("HOST_TOKEN", "the-secret")
	o, err := g.run(t.Context(), runner.Command([]string{"sh", "-c", script}))
	if o.ExitCode != 3 || err == nil || strings.Contains(strings.Join(g.brief(), "\n"), "the-secret") {
		t.Errorf("outcome %+v, %v\n%s", o, err, strings.Join(g.brief(), "\n"))
	}
	if b, err := os.ReadFile(filepath.Join(g.task.Dir, "here")); err != nil || string(b) != "x\n" {
		t.Errorf("what it wrote: %q, %v", b, err)
	}
	if p := g.seen[len(g.seen)-1]; p.Program != "sh" {
		t.Errorf("it is known as %q", p.Program)
	}
}

func TestTheWholeFamilyInASandboxEndsWithItsRun(t *testing.T) {
	for name, script := range map[string][]string{"cancelled": {"!child a", "!daemon b deaf", "!hang"}, "by itself": {"!child a deaf", "!daemon b deaf", "after"}} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, script...).fence()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if name == "cancelled" {
				go func() {
					g.untilNoted("hangs")
					cancel(errors.New("enough"))
				}()
			}
			if o, err := g.run(ctx, command(t)); (o.ExitReason == tidemark.ExitCancelled) != (name == "cancelled") {
				t.Errorf("outcome %+v, %v", o, err)
			}
		})
	}
}

// TestAProgramInASandboxIsAskedOnceToEnd: many take a second request for
// impatience, and leave without writing down where they are.
func TestAProgramInASandboxIsAskedOnceToEnd(t *testing.T) {
	g := newRig(t).fence()
	g.task.Grace = 2 * time.Second
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		g.untilNoted("hangs")
		cancel(errors.New("enough"))
	}()
	script := `trap 'echo asked >>asked; n=1' TERM; echo $$ >"$RUNNER_TEST_FOLDER/hangs"; while [ -z "$n" ]; do read x </proc/uptime; done; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done`
	if o, err := g.run(ctx, runner.Command([]string{"sh", "-c", script})); o.ExitReason != tidemark.ExitCancelled {
		t.Errorf("outcome %+v, %v", o, err)
	}
	if b, err := os.ReadFile(filepath.Join(g.task.Dir, "asked")); err != nil || string(b) != "asked\n" {
		t.Errorf("it was asked %q, %v", b, err)
	}
}

func TestASandboxThatCannotBeEnforcedRunsNothing(t *testing.T) {
	g := newRig(t)
	g.task.Sandbox = &sandbox.Policy{Root: g.task.Dir, Home: filepath.Join(t.TempDir(), "home"), NoNamespaces: true, Hosts: []string{"example.org"}}
	o, err := g.run(t.Context(), runner.Command([]string{"sh", "-c", "echo x >ran"}))
	if !errors.Is(err, sandbox.ErrNone) || o.ExitCode != -1 {
		t.Errorf("outcome %+v, %v, want ErrNone", o, err)
	}
	if _, err := os.Stat(filepath.Join(g.task.Dir, "ran")); err == nil {
		t.Error("it ran")
	}
}

// TestTheProgramOfADeadDaemonEndsInItsSandbox: whoever holds a sandbox takes it
// along, and there is nobody left to find.
func TestTheProgramOfADeadDaemonEndsInItsSandbox(t *testing.T) {
	g := newRig(t).fence()
	cmd := exec.Command(self(t))
	cmd.Env = append(os.Environ(), roleVariable+"=daemon", scriptVariable+"=!child a\n!daemon b deaf\n!hang", folderVariable+"="+g.folder, sandboxVariable+"="+g.task.Dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := g.untilNoted("process")
	g.untilNoted("hangs")
	var p runner.Process
	if err := json.Unmarshal([]byte(told), &p); err != nil {
		t.Fatal(err)
	}
	if len(bearers(p.Mark)) < 4 { // the stage, its program and both children
		t.Errorf("processes %v bear the mark", bearers(p.Mark))
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err := runner.End(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if left := bearers(p.Mark); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}
