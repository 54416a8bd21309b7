package sandbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// The kit of escapes: each is tried by this very test program, inside a sandbox
// that was made for a world with things to steal and to break. An escape
// returns nil when it got what it wanted.

func TestMain(m *testing.M) {
	code, staged, err := sandbox.Stage(os.Args, os.Environ(), func() <-chan os.Signal {
		signals := make(chan os.Signal, 4)
		signal.Notify(signals)
		return signals
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if staged {
		os.Exit(code)
	}
	if len(os.Args) == 4 && os.Args[1] == "escape" {
		os.Exit(tryEscape(os.Args[2], os.Args[3]))
	}
	// Whoever runs the tests may have them keep files in shared memory, in which
	// an escape looks for something.
	if strings.HasPrefix(os.TempDir()+"/", "/dev/shm/") {
		os.Setenv("TMPDIR", "/tmp")
	}
	if len(os.Args) == 3 && os.Args[1] == "hold" {
		holdSandbox(os.Args[2])
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// world is what the escapes are after.
type world struct {
	Base, Home, Project, Outside string
	TCP, Abstract, Socket, Inner string
	Parent                       int
}

const secret = "the-secret-of-the-host"

// exits of an escape.
const (
	escaped = 0
	refused = 42
)

func tryEscape(name, facts string) int {
	var w world
	if err := json.Unmarshal([]byte(facts), &w); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, e := range escapes {
		if e.name == name {
			if err := e.try(w); err != nil {
				fmt.Println(err)
				return refused
			}
			return escaped
		}
	}
	return 1
}

// treasures are the files of the world.
var treasures = map[string]string{
	"home/.ssh/id_ed25519": secret, "home/.aws/credentials": secret, "home/.bashrc": "# mine\n", "home/.netrc": secret, "home/.git-credentials": secret, "home/.gitconfig": secret,
	"home/.local/share/tidemark/tidemark.db": secret, "home/.config/tidemark/key": secret, "home/.mozilla/firefox/logins.json": secret, "home/.claude/.credentials.json": secret,
	"home/.codex/auth.json": secret, "home/.docker/config.json": secret, "home/.kube/config": secret, "home/.gnupg/secring.gpg": secret, "home/.bash_history": secret, "home/.npmrc": secret,
	"home/.cargo/credentials.toml": secret, "home/go/pkg/mod/cache/x": "module\n", "home/.cache/go-build/x": "object\n", "outside/file": secret, "work/project/.git/HEAD": "ref: refs/heads/main\n",
	"work/project/.git/config": "[core]\n", "work/project/.git/hooks/pre-commit.sample": "#\n", "work/project/.envrc": "# mine\n", "work/project/store/key": secret, "work/sibling/file": secret,
}

// newWorld makes a home with secrets, a project with a repository, a folder
// outside, and listeners that count who comes.
func newWorld(t *testing.T) (w world, visitors *atomic.Int64) {
	t.Helper()
	dir, err := os.MkdirTemp("", "escape") // short: the path of a socket has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	base, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	w = world{Base: base, Home: base + "/home", Project: base + "/work/project", Outside: base + "/outside", Parent: os.Getpid()}
	for name, text := range treasures {
		path := filepath.Join(base, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(w.Outside, w.Project+"/way-out"); err != nil {
		t.Fatal(err)
	}
	visitors = new(atomic.Int64)
	w.Socket, w.Inner = base+"/agent.sock", w.Project+"/service.sock"
	w.Abstract = "@tidemark-escape-" + filepath.Base(base) + fmt.Sprint(os.Getpid())
	for _, at := range []struct{ network, address string }{{"tcp", "127.0.0.1:0"}, {"unix", w.Abstract}, {"unix", w.Socket}, {"unix", w.Inner}} {
		l, err := net.Listen(at.network, at.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if at.network == "tcp" {
			w.TCP = l.Addr().String()
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				visitors.Add(1)
				c.Close()
			}
		}()
	}
	return w, visitors
}

func (w world) policy(t *testing.T) sandbox.Policy {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Policy{Root: w.Project, Home: w.Home, Read: []string{exe}, Hide: []string{w.Project + "/store"}}
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

// confined runs a program in a sandbox and returns what it printed and its
// exit code.
func confined(t *testing.T, p sandbox.Policy, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	cmd := &exec.Cmd{Path: args[0], Args: args, Dir: p.Root, Env: append(sandbox.Environ(os.Environ()), "HOME="+p.Home), Stdout: &out, Stderr: &out}
	fence, err := sandbox.Confine(p, cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer fence.Close()
	err = cmd.Start()
	fence.Started()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func TestNoEscapeSucceeds(t *testing.T) {
	needSandbox(t)
	if len(escapes) < 60 {
		t.Errorf("the kit has %d escapes, want at least 60", len(escapes))
	}
	w, visitors := newWorld(t)
	for _, e := range escapes {
		t.Run(e.name, func(t *testing.T) { attempt(t, e, w, w.policy(t), "") })
	}
	if n := visitors.Load(); n != 0 {
		t.Errorf("%d connections reached listeners of the host", n)
	}
	w.unchanged(t, "work/project/.git/config", "work/project/.envrc", "work/project/store/key")
	for _, name := range []string{".claude", ".mcp.json", ".vscode", ".git/commondir", ".tidemark.yaml", ".git/modules", ".git/worktrees"} {
		if _, err := os.Lstat(filepath.Join(w.Project, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s stayed in the project: %v", name, err)
		}
	}
}

// attempt tries an escape under a policy that is known not to hold it for a
// reason, or "".
func attempt(t *testing.T, e escape, w world, p sandbox.Policy, reason string) {
	t.Helper()
	t.Setenv("ESCAPE_TOKEN", secret)
	facts, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, code := confined(t, p, exe, "escape", e.name, string(facts))
	switch {
	case reason != "" && code == refused:
		t.Errorf("the escape is held, although %s: %s", reason, out)
	case reason != "":
	case code == escaped || strings.Contains(out, secret):
		t.Errorf("the escape succeeded: exit code %d\n%s", code, out)
	case code != refused:
		t.Errorf("the escape did not run to its end: exit code %d\n%s", code, out)
	}
}

// unchanged checks that what is not the project's is as it was, and what else is
// named.
func (w world) unchanged(t *testing.T, names ...string) {
	t.Helper()
	for name, want := range treasures {
		outside := !strings.HasPrefix(name, "work/project/")
		if !outside && !slices.Contains(names, name) {
			continue
		}
		if b, err := os.ReadFile(filepath.Join(w.Base, name)); err != nil || string(b) != want {
			t.Errorf("%s = %q, %v; want it unchanged", name, b, err)
		}
	}
}

// TestEscapesWorkWithoutASandbox shows that what the kit tries is worth
// refusing: outside, the same code gets what it wants.
func TestEscapesWorkWithoutASandbox(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range escapes {
		if !e.plain {
			continue
		}
		n++
		t.Run(e.name, func(t *testing.T) {
			t.Setenv("ESCAPE_TOKEN", secret)
			w, _ := newWorld(t)
			facts, err := json.Marshal(w)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(exe, "escape", e.name, string(facts))
			cmd.Dir = w.Project
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if n < 30 {
		t.Errorf("%d escapes are tried outside, want at least 30", n)
	}
}

func TestProgramsWorkInASandbox(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	for _, c := range []struct{ name, script, want string }{
		{"the project is read and written", `echo one >new && mkdir -p a/b && mv new a/b/ && cat a/b/new`, "one\n"},
		{"/tmp is there and empty", `ls -A /var/tmp; echo x >/tmp/x && cat /tmp/x`, "x\n"},
		{"home is writable and forgotten", `echo x >~/.cfg && cat ~/.cfg`, "x\n"},
		{"a cache is read, and changed for now", `cat ~/.cache/go-build/x && echo y >~/.cache/go-build/x && cat ~/.cache/go-build/x`, "object\ny\n"},
		{"toolchains are read", `cat ~/go/pkg/mod/cache/x`, "module\n"},
		{"devices", `echo x >/dev/null && head -c 2 /dev/zero | wc -c | tr -d " "`, "2\n"},
		{"processes see themselves", `test -e /proc/self/status && test -e /proc/$$/cmdline && echo yes`, "yes\n"},
		{"pipes and background jobs", `(echo a & wait) | cat`, "a\n"},
		{"protected files are read", `cat .git/config .envrc`, "[core]\n# mine\n"},
		{"git's own files are written", `echo x >.git/index && rm .git/index && echo yes`, "yes\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, code := confined(t, w.policy(t), "/bin/sh", "-c", c.script); out != c.want || code != 0 {
				t.Errorf("exit code %d, output %q, want %q", code, out, c.want)
			}
		})
	}
	if _, err := os.Stat(w.Home + "/.cfg"); err == nil {
		t.Error("what was written to the home of the sandbox is in the home of the user")
	}
}

func TestExitCodesAndSignalsPassThrough(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$": 143, "kill -KILL $$": 137} {
		if out, code := confined(t, w.policy(t), "/bin/sh", "-c", script); code != want {
			t.Errorf("%s: exit code %d, want %d: %s", script, code, want, out)
		}
	}
	if out, code := confined(t, w.policy(t), w.Outside+"/file"); code != 126 {
		t.Errorf("a program that is not in the sandbox: exit code %d, want 126: %s", code, out)
	}
}

// TestNothingOutlivesTheCommand: whoever the command left in the background is
// gone with it, also one that left its group and session. The pipe ends when
// its last writer does.
func TestNothingOutlivesTheCommand(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	r, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "setsid sleep 1000 & sleep 1000 & echo started"}, Env: []string{"PATH=/usr/bin:/bin"}, Stdout: pw}
	fence, err := sandbox.Confine(w.policy(t), cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer fence.Close()
	err = cmd.Start()
	fence.Started()
	pw.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil || string(out) != "started\n" {
		t.Errorf("%q, %v", out, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestWideningOpensWhatItNames(t *testing.T) {
	needSandbox(t)
	w, _ := newWorld(t)
	more := sandbox.Widening{Write: []string{w.Outside}}
	if got, want := more.String(), fmt.Sprintf("read and write %q", w.Outside); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	script := "echo changed >" + w.Outside + "/new"
	if out, code := confined(t, w.policy(t).Widen(more), "/bin/sh", "-c", script); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	if b, err := os.ReadFile(w.Outside + "/new"); err != nil || string(b) != "changed\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func BenchmarkTrueInASandbox(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		cmd := &exec.Cmd{Path: "/bin/true", Args: []string{"true"}, Env: []string{"PATH=/usr/bin:/bin"}}
		fence, err := sandbox.Confine(sandbox.Policy{Root: dir, Home: "/nonexistent-home"}, cmd)
		if err != nil {
			b.Skip(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		fence.Started()
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		fence.Close()
	}
}

func BenchmarkTrueOutside(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
