package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// TestAPortOfThisMachineIsReachedWhenItIsAllowed: the listener of the host is
// reached at its own address and by the proxy, and another one is not.
func TestAPortOfThisMachineIsReachedWhenItIsAllowed(t *testing.T) {
	needSandbox(t)
	w, visitors := newWorld(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(w.TCP)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	const direct, proxied = "connect to a TCP listener of the host", "CONNECT through the proxy to the host's listener"
	came := int64(0)
	for _, c := range []struct {
		host, way string
		want      int
	}{
		{w.TCP, direct, escaped},
		{w.TCP, proxied, escaped},
		{"localhost:" + port, direct, escaped},
		{"127.0.0.1:1", direct, refused},
		{"127.0.0.1:1", proxied, refused},
		{"example.org:" + port, direct, refused},
	} {
		p := w.policy(t).Widen(sandbox.Widening{Hosts: []string{c.host}})
		if out, code := confined(t, p, exe, "escape", c.way, string(facts)); code != c.want {
			t.Errorf("%s, allowed %s: exit code %d: %s", c.way, c.host, code, out)
		}
		if c.want == escaped {
			came++
		}
	}
	// Whoever was let in by a bridge is counted by the listener a moment later.
	for late := time.Now().Add(time.Minute); visitors.Load() < came && time.Now().Before(late); {
		time.Sleep(time.Millisecond)
	}
	if n := visitors.Load(); n != came {
		t.Errorf("%d connections, want %d", n, came)
	}
}

func TestWhatIsForgottenIsReadAndWrittenForNow(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	p := w.policy(t)
	p.Forget = []string{w.Home + "/.codex", w.Home + "/.netrc"}
	p.Write = []string{w.Home + "/.codex/sessions"}
	if err := os.MkdirAll(w.Home+"/.codex/sessions", 0o700); err != nil {
		t.Fatal(err)
	}
	script := `set -e; cat ~/.codex/auth.json; cat ~/.netrc; echo x >~/.codex/auth.json; echo x >~/n; mv ~/n ~/.netrc; echo x >~/.codex/config.toml; echo kept >~/.codex/sessions/one`
	if out, code := confined(t, p, "/bin/sh", "-c", script); code != 0 || out != secret+secret {
		t.Errorf("exit code %d: %s", code, out)
	}
	w.unchanged(t)
	if b, err := os.ReadFile(w.Home + "/.codex/sessions/one"); err != nil || string(b) != "kept\n" {
		t.Errorf("what may be written below it: %q, %v", b, err)
	}
	if _, err := os.Stat(w.Home + "/.codex/config.toml"); err == nil {
		t.Error("what should be forgotten was kept")
	}
}

func TestWhatMayOnlyBeReadIsNotWrittenBelowTheProject(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	p := w.policy(t)
	if err := os.WriteFile(w.Project+"/fleet.yaml", []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Read = append(p.Read, w.Project+"/fleet.yaml")
	for _, script := range []string{"echo evil >fleet.yaml", "rm fleet.yaml", "echo evil >n; mv n fleet.yaml", "mv fleet.yaml old", "ln fleet.yaml l && echo evil >>l"} {
		if out, code := confined(t, p, "/bin/sh", "-c", script); code == 0 {
			t.Errorf("%s: %s", script, out)
		}
	}
	if b, err := os.ReadFile(w.Project + "/fleet.yaml"); err != nil || string(b) != "version: 1\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestProjectsOfAllKindsOfPlaces: what their paths have in them, and how one
// comes there, makes no difference.
func TestProjectsOfAllKindsOfPlaces(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	for name, project := range map[string]string{
		"blanks":        w.Base + "/my project",
		"a newline":     w.Base + "/two\nlines",
		"a comma":       w.Base + "/a,b:c\\d",
		"letters":       w.Base + "/größe",
		"below home":    w.Home + "/src/project",
		"beside home":   w.Home + "-too",
		"above home":    w.Base,
		"a cache":       w.Home + "/.cache/go-build",
		"of a tool":     w.Home + "/go/pkg/mod",
		"by a link":     w.Base + "/link",
		"a linked path": w.Base + "/link/inner",
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(project, w.Base+"/link") {
				os.MkdirAll(w.Base+"/there/inner", 0o700)
				os.Symlink(w.Base+"/there", w.Base+"/link")
			}
			if err := os.MkdirAll(project, 0o700); err != nil {
				t.Fatal(err)
			}
			p := sandbox.Policy{Root: project, Home: w.Home, Hide: []string{w.Home + "/.ssh", w.Project + "/store"}}
			if out, code := confined(t, p, "/bin/sh", "-c", `echo x >made && cat made && test ! -s ~/.ssh/id_ed25519`); code != 0 || out != "x\n" {
				t.Errorf("exit code %d: %s", code, out)
			}
			if b, err := os.ReadFile(project + "/made"); err != nil || string(b) != "x\n" {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// TestManySandboxesOfOneProject start and end at the same time; the last one
// takes the placeholders away.
func TestManySandboxesOfOneProject(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			script := fmt.Sprintf("echo %d >out.%d; mkdir .claude/x 2>/dev/null && echo made; echo evil 2>/dev/null >.mcp.json && echo made; true", i, i)
			if out, code := confined(t, w.policy(t), "/bin/sh", "-c", script); code != 0 || strings.Contains(out, "made") {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
	all.Wait()
	found, err := filepath.Glob(w.Project + "/out.*")
	if err != nil || len(found) != 30 {
		t.Errorf("%d of 30 left their file: %v", len(found), err)
	}
	w.tidy(t)
}

// tidy checks that no placeholder is left in the project.
func (w world) tidy(t *testing.T) {
	t.Helper()
	for _, name := range sandbox.Protected {
		path := filepath.Join(w.Project, name)
		info, err := os.Lstat(path)
		if _, mine := treasures["work/project/"+name]; err == nil && !mine && name != ".git/hooks" {
			t.Errorf("%s stayed in the project: %v", name, info.Mode())
		}
	}
}

// TestWhoIsKilledLeavesNothingForLong kills the process that holds a sandbox:
// the program ends with it, and the next sandbox of the project removes what it
// left there.
func TestWhoIsKilledLeavesNothingForLong(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	facts, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(exe, "hold", string(facts))
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 8)
	if n, err := out.Read(said); err != nil || string(said[:n]) != "inside\n" {
		t.Fatalf("%q, %v", said[:n], err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(said); err == nil { // the pipe ends when its last writer does
		t.Errorf("the program went on, and said %q", said[:n])
	}
	holder.Wait()
	if _, err := os.Lstat(w.Project + "/.claude"); err != nil {
		t.Errorf("there was no placeholder to be left: %v", err)
	}
	if out, code := confined(t, w.policy(t), "/bin/true"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	w.tidy(t)
}

// holdSandbox is what TestWhoIsKilledLeavesNothingForLong kills.
func holdSandbox(facts string) {
	var w world
	if json.Unmarshal([]byte(facts), &w) != nil {
		return
	}
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "echo inside; sleep 1000; echo after"}, Env: []string{"PATH=/usr/bin:/bin"}, Stdout: os.Stdout, Stderr: os.Stderr}
	fence, err := sandbox.Confine(sandbox.Policy{Root: w.Project, Home: w.Home}, cmd)
	if err != nil {
		return
	}
	cmd.Start()
	fence.Started()
	cmd.Wait()
}

// TestTheStageKeepsItsSocket: the garbage collector of the first process must
// not close what that talks through. A long plan and GOGC=1 make it run.
func TestTheStageKeepsItsSocket(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	p := w.policy(t).Widen(sandbox.Widening{Hosts: []string{"example.org"}})
	for range 20 {
		cmd := &exec.Cmd{Path: "/bin/sh", Args: append([]string{"sh", "-c", "echo $HTTPS_PROXY"}, slices.Repeat([]string{strings.Repeat("x", 100<<10)}, 10)...), Env: []string{"PATH=/usr/bin:/bin", "GOGC=1"}}
		out := new(strings.Builder)
		cmd.Stdout, cmd.Stderr = out, out
		fence, err := sandbox.Confine(p, cmd)
		if err != nil {
			t.Fatal(err)
		}
		err = cmd.Start()
		fence.Started()
		if err == nil {
			err = cmd.Wait()
		}
		fence.Close()
		if err != nil || !strings.HasPrefix(out.String(), "http://127.0.0.1:") {
			t.Fatalf("%v: %s", err, out)
		}
	}
}
