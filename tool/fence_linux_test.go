package tool

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

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
	os.Exit(m.Run())
}

const secret = "the-secret-of-the-host"

// fenced is a box whose programs are held, in a world with things to steal.
type fenced struct {
	*Box
	base   string
	policy sandbox.Policy
}

func newFenced(t *testing.T) *fenced {
	t.Helper()
	if slices.ContainsFunc(sandbox.Layers(), func(l sandbox.Layer) bool { return !l.On }) {
		t.Skip("this machine cannot enforce all layers of a sandbox")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"home/.ssh/id_ed25519": secret, "home/.aws/credentials": secret, "home/.bashrc": "# mine\n", "outside/file": secret,
		"project/.git/HEAD": "ref: refs/heads/main\n", "project/.git/config": "[core]\n", "project/.git/hooks/pre-commit.sample": "#\n",
		"project/.envrc": "# mine\n", "project/store/key": secret, "project/sub/file": "inside\n",
	} {
		put(t, filepath.Join(base, name), text)
	}
	f := &fenced{base: base}
	f.policy = sandbox.Policy{Root: base + "/project", Home: base + "/home", Hide: []string{base + "/project/store"}}
	f.Box = shellBox(t, Options{Root: f.policy.Root, Hidden: f.policy.Hide, Sandbox: &Sandbox{Policy: func() sandbox.Policy { return f.policy }},
		Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + f.policy.Home, "LANG=C.UTF-8"}})
	return f
}

// attempts are what no program of a session may do. Each prints "escaped" when
// it could.
func (f *fenced) attempts(t *testing.T) []string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return []string{
		"grep -rq " + secret + " ~/.ssh && echo escaped",
		"grep -q " + secret + " ~/.aws/credentials && echo escaped",
		"grep -q " + secret + " " + f.base + "/outside/file && echo escaped",
		"grep -rq " + secret + " . && echo escaped",
		"grep -q " + secret + " store/key && echo escaped",
		"grep -rqs " + secret + " /proc/*/root" + f.base + " /proc/*/environ && echo escaped",
		"ls /proc/" + fmt.Sprint(os.Getpid()) + "/environ && echo escaped",
		"kill -0 " + fmt.Sprint(os.Getpid()) + " && echo escaped",
		"echo x >" + f.base + "/home/.bashrc; grep -q mine ~/.bashrc || true",
		"echo x >.git/hooks/pre-commit && echo escaped",
		"echo '[core]fsmonitor=x' >>.git/config && echo escaped",
		"mv .git .gone && echo escaped",
		"rm -rf .git/hooks && mkdir .git/hooks && echo escaped",
		"echo x >.envrc && echo escaped",
		"mkdir -p .claude && echo x >.claude/settings.json && echo escaped",
		"echo x >.mcp.json && echo escaped",
		"ln -s " + f.base + "/outside out && cat out/file && echo escaped",
		"ln " + f.base + "/outside/file hard && echo escaped",
		"(exec 3<>/dev/tcp/127.0.0.1/" + port + ") && echo escaped",
		"mount -t tmpfs x sub && echo escaped",
		"unshare -Ur true && echo escaped",
		"ls /run/docker.sock /var/run/docker.sock && echo escaped",
		"ls /etc/shadow && echo escaped",
	}
}

func TestNoToolRunsProgramsOutsideOfTheSandbox(t *testing.T) {
	f := newFenced(t)
	attempts := f.attempts(t)
	define(t, f.Box, Definition{Name: "try", Schema: []byte(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
		Command: "case $TOOL_INPUT in\n" + cases(attempts) + "esac"})
	tried := 0
	check := func(how, attempt string, res Result) {
		tried++
		if strings.Contains(res.Text, "escaped") || strings.Contains(res.Text, secret) {
			t.Errorf("%s: %s: %s", how, attempt, res.Text)
		}
	}
	for i, a := range attempts {
		check("bash", a, sh(t, f.Box, a))
		check("a defined tool", a, call(t, f.Box, "try", m{"n": i}))
		if f.Find("python") != nil {
			check("python", a, call(t, f.Box, "python", m{"code": "import subprocess\nprint(subprocess.run(['bash', '-c', '''" + a + "'''], capture_output=True, text=True).stdout)"}))
		}
	}
	// A vetted form has a shell of its own, which is held as well.
	if err := os.Symlink(f.base+"/outside/file", f.policy.Root+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"cat store/key", "grep -r " + secret[:10] + " .", "ls -a store"} {
		check("vetted", a, sh(t, f.Box, a))
	}
	for name, want := range map[string]string{"home/.bashrc": "# mine\n", "project/.envrc": "# mine\n", "project/.git/config": "[core]\n"} {
		if got, err := os.ReadFile(filepath.Join(f.base, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := os.Stat(f.policy.Root + "/.git/hooks/pre-commit"); err == nil {
		t.Error("a hook was made")
	}
	t.Logf("%d escapes tried, 0 succeeded", tried)
}

func cases(attempts []string) string {
	var b strings.Builder
	for i, a := range attempts {
		fmt.Fprintf(&b, "'{\"n\":%d}') %s ;;\n", i, a)
	}
	return b.String()
}

func TestTheShellInASandboxGoesOnLikeAnother(t *testing.T) {
	f := newFenced(t)
	wantText(t, sh(t, f.Box, "cd sub; export A=1; b=2; f() { echo called; }"), "[now in "+f.policy.Root+"/sub]\n")
	wantText(t, sh(t, f.Box, "pwd; echo $A$b; f; cat file; echo there >/tmp/x"), f.policy.Root+"/sub\n12\ncalled\ninside\n")
	wantText(t, sh(t, f.Box, "cat /tmp/x; env | grep -c TMPDIR"), "there\n0\n[exit code 1]\n")
	wantText(t, sh(t, f.Box, "exit 7"), "[the shell ended: exit status 7; the next command gets a fresh one, where it was before this command]\n")
	wantText(t, sh(t, f.Box, "pwd; echo $A"), f.policy.Root+"/sub\n1\n")
	wantText(t, call(t, f.Box, "python", m{"code": "x = 41\nimport os; os.getcwd()"}), "'"+f.policy.Root+"'\n")
	wantText(t, call(t, f.Box, "python", m{"code": "x + 1"}), "42\n")
}

// A family that left its session ends with the call that took too long: what it
// holds is free afterwards.
func TestTimeoutsAndCancelsEndEverythingInTheSandbox(t *testing.T) {
	f := newFenced(t)
	const hold = "exec 9>lock; flock 9; setsid -f sleep 1000 9>&9; sleep 1000"
	f.shell.o.Timeout = time.Second
	res := call(t, f.Box, "bash", m{"command": hold, "timeout_seconds": 1})
	wantHas(t, res, "stopped after 1s")
	wantText(t, sh(t, f.Box, "flock -n lock echo free"), "free\n")
}

func TestAFolderThatTheSandboxDoesNotHaveIsLeft(t *testing.T) {
	f := newFenced(t)
	sh(t, f.Box, "mkdir /tmp/mine; cd /tmp/mine")
	wantText(t, sh(t, f.Box, "ls"), "(no output)") // not a vetted one, which would not find it
	f.Reset(f.State())
	wantText(t, sh(t, f.Box, "pwd"), f.policy.Root+"\n[the folder of before is gone, or not in the sandbox; this ran in the root of the workspace]\n")
	f.Reset(State{Dir: f.base + "/outside"})
	define(t, f.Box, Definition{Name: "where", Command: "pwd"})
	wantHas(t, call(t, f.Box, "where", m{}), f.policy.Root+"\n")
	f.Reset(State{Dir: f.policy.Root + "/store"})
	wantHas(t, sh(t, f.Box, "pwd"), f.policy.Root+"\n")
}

func TestWhatCannotBeHeldIsNotRun(t *testing.T) {
	f := newFenced(t)
	f.shell.o.Sandbox = &Sandbox{Policy: func() sandbox.Policy { return f.policy }, Confine: func(sandbox.Policy, *exec.Cmd) (*sandbox.Fence, error) { return nil, sandbox.ErrNone }}
	wantError(t, sh(t, f.Box, "touch ran"), "cannot be started", "no sandbox")
	f.policy.Root += "/nowhere"
	f.python.o.Root, f.python.o.Start = f.policy.Root, f.policy.Root
	wantError(t, call(t, f.Box, "python", m{"code": "open('ran', 'w')"}), "cannot be started", "nowhere")
	if _, err := os.Stat(f.base + "/project/ran"); err == nil {
		t.Error("it ran all the same")
	}
}

func TestWhatIsAllowedOnceDoesNotStay(t *testing.T) {
	f := newFenced(t)
	outside := f.base + "/outside"
	ask := m{"allow_write": []string{outside}}
	write := func(name string) m {
		return m{"command": "A=2; cd " + outside + " && touch " + name + "; export B=1", "sandbox": ask}
	}
	sh(t, f.Box, "export A=1")
	wantError(t, call(t, f.Box, "bash", write("asked")), "not run", "the user did not allow exactly that")
	w := f.Find("bash").Widens([]byte(`{"command":"true","sandbox":{"allow_write":["` + outside + `"]}}`))
	if w.String() != fmt.Sprintf("read and write %q", outside) {
		t.Fatalf("it would widen the sandbox to %s", w)
	}
	once := WithSeen(t.Context(), Seen{Scope: f.Find("bash").Scope(commandInput(write("once")["command"].(string))), Widens: w})
	res, err := try(t, once, f.Box, "bash", write("once"))
	if err != nil || res.IsError {
		t.Fatalf("%v %+v", err, res)
	}
	wantHas(t, res, "a shell of its own")
	if _, err := os.Stat(outside + "/once"); err != nil {
		t.Error(err)
	}
	wantText(t, sh(t, f.Box, "pwd; echo $A$B"), f.policy.Root+"\n1\n")
	wantError(t, sh(t, f.Box, "touch "+outside+"/later"), "No such file")
	res = sh(t, f.Box, "touch /opt/later")
	wantError(t, res, "Read-only", `"allow_write": ["/opt"]`)
	if res.Refused == "" {
		t.Error("nobody is told that it was the sandbox")
	}
	res, err = try(t, WithSeen(t.Context(), Seen{Scope: ExactScope("x = 1\nopen('" + outside + "/python', 'w')"), Widens: w}), f.Box, "python",
		m{"code": "x = 1\nopen('" + outside + "/python', 'w')", "sandbox": ask})
	if err != nil || res.IsError {
		t.Errorf("%v %+v", err, res)
	}
	wantError(t, call(t, f.Box, "python", m{"code": "x"}), "NameError")
	define(t, f.Box, Definition{Name: "make", Command: "cat; touch " + outside + "/defined"})
	res, err = try(t, WithSeen(t.Context(), Seen{Widens: w}), f.Box, "make", m{"sandbox": ask})
	if err != nil || res.Text != "{}" {
		t.Errorf("%v %+v", err, res)
	}
	wantError(t, call(t, f.Box, "make", m{}), "No such file")
}

func TestAPolicyThatChangesIsInForceAtOnce(t *testing.T) {
	f := newFenced(t)
	outside := f.base + "/outside"
	sh(t, f.Box, "cd sub; export A=1")
	wantError(t, sh(t, f.Box, "cat "+outside+"/file"), "No such file")
	f.policy.Write = []string{outside}
	wantText(t, sh(t, f.Box, "cat "+outside+"/file; pwd; echo $A"), secret+f.policy.Root+"/sub\n1\n[the sandbox changed: this is a fresh shell, with the same exported variables]\n")
	if w := f.Find("bash").Widens([]byte(`{"command":"true","sandbox":{"allow_write":["` + outside + `/x/.."]}}`)); !w.Empty() {
		t.Errorf("what is allowed would be asked for: %s", w)
	}
	f.policy.Write = nil
	wantError(t, sh(t, f.Box, "cat "+outside+"/file"), "No such file")
}

func TestAHostIsReachedWhenItIsAllowed(t *testing.T) {
	f := newFenced(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	at := l.Addr().String()
	get := func(url string) string {
		return `p=${http_proxy#http://}; exec 3<>/dev/tcp/${p%:*}/${p#*:} || exit; printf 'GET http://` + url + `/ HTTP/1.0\r\n\r\n' >&3; cat <&3 | tail -1`
	}
	command := get(at)
	w := sandbox.Widening{Hosts: []string{at}}
	res, err := try(t, WithSeen(t.Context(), Seen{Scope: ExactScope(command), Widens: w}), f.Box, "bash", m{"command": command, "sandbox": m{"allow_hosts": []string{at}}})
	if err != nil || !strings.HasPrefix(res.Text, "hello") {
		t.Errorf("%v %+v", err, res)
	}
	other := get("elsewhere.test")
	res, err = try(t, WithSeen(t.Context(), Seen{Scope: ExactScope(other + "; false"), Widens: w}), f.Box, "bash", m{"command": other + "; false", "sandbox": m{"allow_hosts": []string{at}}})
	if err != nil || !strings.Contains(res.Text, "does not allow the host") {
		t.Errorf("%v %+v", err, res)
	}
	if sh(t, f.Box, command); strings.Contains(sh(t, f.Box, command).Text, "hello") {
		t.Error("it stays allowed")
	}
}

func TestARequestThatIsTooWideIsRefused(t *testing.T) {
	f := newFenced(t)
	if err := os.Symlink(f.base+"/home/.ssh", f.policy.Root+"/build"); err != nil {
		t.Fatal(err)
	}
	for _, w := range []m{{"allow_write": []string{"/"}}, {"allow_write": []string{f.base + "/home"}}, {"allow_write": []string{f.base}}, {"allow_write": []string{"relative"}},
		{"allow_write": []string{f.base + "/absent"}}, {"allow_write": []string{f.policy.Root + "/store"}}, {"allow_hosts": []string{"*"}}, {"allow_hosts": []string{"127.0.0.1"}}, {"allow_all": true}} {
		wantError(t, call(t, f.Box, "bash", m{"command": "true", "sandbox": w}), "sandbox")
	}
	// What a link hides is what a person is asked about.
	w := f.Find("bash").Widens([]byte(`{"command":"true","sandbox":{"allow_write":["` + f.policy.Root + `/build"]}}`))
	if !slices.Equal(w.Write, []string{f.base + "/home/.ssh"}) {
		t.Errorf("a link to %s is asked for as %v", f.base+"/home/.ssh", w.Write)
	}
}

func TestFileToolsOpenNothingThatIsHidden(t *testing.T) {
	f := newFenced(t)
	root := f.policy.Root
	if err := errors.Join(os.Symlink("store/key", root+"/innocent"), os.Symlink("store", root+"/folder")); err != nil {
		t.Fatal(err)
	}
	sh(t, f.Box, "true") // a sandbox is there, with its empty folders
	for _, path := range []string{"store/key", "innocent", root + "/store/key", "folder/key", "./sub/../store/key"} {
		wantError(t, call(t, f.Box, "read", m{"path": path}), "no tool opens it")
		wantError(t, call(t, f.Box, "write", m{"path": path, "content": "x"}), "no tool opens it")
	}
	for name, args := range map[string]m{"ls": {}, "glob": {"pattern": "**"}, "grep": {"pattern": "secret"}} {
		if res := call(t, f.Box, name, args); strings.Contains(res.Text, "store") || strings.Contains(res.Text, "innocent") || strings.Contains(res.Text, secret) || strings.Contains(res.Text, ".claude") {
			t.Errorf("%s shows %s", name, res.Text)
		}
	}
	if got, err := os.ReadFile(root + "/store/key"); err != nil || string(got) != secret {
		t.Errorf("the key is %q, %v", got, err)
	}
}

func TestWhatRunsByItselfIsAskedForEachTime(t *testing.T) {
	f := newFenced(t)
	if err := os.Symlink(".git", f.policy.Root+"/docs"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{".git/hooks/pre-commit", ".git/config", ".git", "docs/hooks/x", "sub/.git/config", ".claude/settings.json", "sub/.vscode/tasks.json", ".MCP.json", ".envrc", ".tidemark.yaml",
		f.policy.Root + "/.git/config", "sub/../.husky/pre-push", "~/.bashrc", "~/.config/autostart/x"} {
		for _, name := range []string{"write", "edit"} {
			if f.Find(name).EachTime([]byte(`{"path":"`+path+`"}`)) == "" {
				t.Errorf("%s %s may be approved for good", name, path)
			}
		}
	}
	for _, path := range []string{"main.go", ".gitignore", ".github/workflows/x.yaml", "sub/git/config", "session:memory/x"} {
		if why := f.Find("write").EachTime([]byte(`{"path":"` + path + `"}`)); why != "" {
			t.Errorf("%s is asked for each time: %s", path, why)
		}
	}
	// Once it is allowed it is done, although a sandbox keeps the name.
	sh(t, f.Box, "cd sub")
	for _, path := range []string{".mcp.json", ".claude/settings.json"} {
		if res := call(t, f.Box, "write", m{"path": path, "content": "{}"}); res.IsError {
			t.Errorf("%s: %s", path, res.Text)
		}
	}
	wantText(t, sh(t, f.Box, "pwd; cat ../.mcp.json"), f.policy.Root+"/sub\n{}")
}

// A shell that is idle lives: what collects the garbage of the process above it
// must not take the socket whose end ends everything.
func TestAnIdleShellInASandboxIsNotEnded(t *testing.T) {
	f := newFenced(t)
	f.shell.o.Environ = append(f.shell.o.Environ, "GOGC=1")
	for range 20 {
		f.Reset(State{})
		wantText(t, sh(t, f.Box, "a=1"), "(no output)")
		wantText(t, sh(t, f.Box, "echo $a"), "1\n")
	}
}
