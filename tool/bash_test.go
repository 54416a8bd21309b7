package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newBox returns a box in an empty workspace.
func newBox(t *testing.T, o Options) *Box {
	t.Helper()
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	if o.Environ == nil {
		o.Environ = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8"}
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func shellBox(t *testing.T, o Options) *Box {
	t.Helper()
	b := newBox(t, o)
	if b.Find("bash") == nil {
		t.Skip(b.Missing())
	}
	return b
}

// call runs a tool with arguments that may be anything with JSON.
func call(t *testing.T, b *Box, name string, args any) Result {
	t.Helper()
	res, err := try(t, t.Context(), b, name, args)
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return res
}

func try(t *testing.T, ctx context.Context, b *Box, name string, args any) (Result, error) {
	t.Helper()
	tool := b.Find(name)
	if tool == nil {
		t.Fatalf("there is no tool %s", name)
	}
	input, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Run(ctx, input)
}

type m = map[string]any

func sh(t *testing.T, b *Box, command string) Result {
	t.Helper()
	return call(t, b, "bash", m{"command": command})
}

func wantText(t *testing.T, res Result, want string) {
	t.Helper()
	if res.Text != want {
		t.Errorf("got %q, want %q", res.Text, want)
	}
}

func wantHas(t *testing.T, res Result, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(res.Text, p) {
			t.Errorf("got %q, want it to have %q", res.Text, p)
		}
	}
}

func TestBashKeepsWhatAWarmShellKeeps(t *testing.T) {
	b := shellBox(t, Options{})
	sh(t, b, "mkdir -p sub/deep; cd sub/deep; export A='one\ntwo'; plain=3; f() { echo called $1; }; declare -A map=([k]=v)")
	wantText(t, sh(t, b, `echo "${PWD##*/} $A $plain ${map[k]}"; f x`), "deep one\ntwo 3 v\ncalled x\n")
	wantText(t, sh(t, b, "true"), "(no output)")
}

func TestBashReportsExitCodeAndWorkingDirectory(t *testing.T) {
	b := shellBox(t, Options{})
	res := sh(t, b, "echo out; echo err >&2; (exit 7)")
	wantText(t, res, "out\nerr\n[exit code 7]\n")
	if !res.IsError {
		t.Error("a command with exit code 7 is no error")
	}
	wantHas(t, sh(t, b, "cd /"), "[now in /]")
	if got := sh(t, b, "true"); got.IsError || got.Text != "(no output)" {
		t.Errorf("the exit code of the command before was kept: %+v", got)
	}
}

func TestBashSurvivesWhatCommandsDoToTheirShell(t *testing.T) {
	b := shellBox(t, Options{Timeout: 2 * time.Minute})
	for _, c := range []string{
		"exec >/dev/null 2>&1", "exec </dev/zero", "exec 1>&- 2>&-", "break", "continue", "return 3", "set -x", "set -u; echo $nothing_here",
		"echo 'an open quote", "if true; then", "cat <<END\nhere\nEND", "printf() { :; }; builtin() { :; }; unset -f builtin", "IFS=x", "unset PWD",
		"trap 'echo bye' EXIT", "set -e; false", "exit 3", "exec true", "kill -9 $$", "cat", "PATH=/nowhere", "cd /; rmdir /nothing", "set -f", "shopt -s extglob nullglob",
		"echo $'\\0'", "umask 077", "alias echo=false",
	} {
		res := sh(t, b, c)
		if strings.Contains(res.Text, "stopped after") {
			t.Fatalf("%s: hangs: %s", c, res.Text)
		}
		after := sh(t, b, "PATH=/usr/bin:/bin; \\echo still here")
		if !strings.Contains(after.Text, "still here") {
			t.Fatalf("after %s: %+v", c, after)
		}
		b.Reset(State{})
	}
}

func TestBashThatEndsIsFollowedByAFreshOneInTheSamePlace(t *testing.T) {
	b := shellBox(t, Options{})
	sh(t, b, "mkdir d; cd d; export KEPT=yes")
	res := sh(t, b, "echo last words; cd /; export LOST=1; exit 5")
	wantHas(t, res, "last words\n", "the shell ended: exit status 5")
	if !res.IsError {
		t.Error("exit 5 is no error")
	}
	wantText(t, sh(t, b, `echo "${PWD##*/} $KEPT [$LOST]"`), "d yes []\n")
	res = sh(t, b, "exec echo replaced")
	wantHas(t, res, "replaced\n", "the shell ended")
	if res.IsError {
		t.Errorf("exec of a program that succeeds is an error: %+v", res)
	}
	wantText(t, sh(t, b, `echo "${PWD##*/}"`), "d\n")
}

func TestStateOfAShellGoesThroughJSONIntoAnother(t *testing.T) {
	root := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "GIVEN=secret", "GONE=x", "CHANGED=old", "odd.name=1"}
	b := shellBox(t, Options{Root: root, Environ: env})
	if diff := cmp.Diff(State{}, b.State()); diff != "" {
		t.Errorf("before the first command:\n%s", diff)
	}
	sh(t, b, "mkdir -p a/b; cd a/b; export NEW=$'tab\\tquote\\'newline\\n' CHANGED=new; unset GONE")
	kept, err := json.Marshal(b.State())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(kept), "secret") || strings.Contains(string(kept), "GIVEN") {
		t.Errorf("the state holds what the session was given: %s", kept)
	}
	var state State
	if err := json.Unmarshal(kept, &state); err != nil {
		t.Fatal(err)
	}
	want := State{Dir: "a/b", Set: map[string]string{"NEW": "tab\tquote'newline\n", "CHANGED": "new", "OLDPWD": state.Set["OLDPWD"]}, Unset: []string{"GONE"}}
	if diff := cmp.Diff(want, state); diff != "" {
		t.Errorf("state:\n%s", diff)
	}
	b.Close()
	again := shellBox(t, Options{Root: root, Environ: env, State: state})
	wantText(t, sh(t, again, `echo "${PWD##*/}|$NEW|$CHANGED|${GONE-gone}|$GIVEN"; env | grep odd`), "b|tab\tquote'newline\n|new|gone|secret\nodd.name=1\n")
	if diff := cmp.Diff(state, again.State()); diff != "" {
		t.Errorf("after a restart:\n%s", diff)
	}
}

func TestBashWhoseFolderIsGoneBeginsAtTheRoot(t *testing.T) {
	b := shellBox(t, Options{State: State{Dir: "never/was"}})
	wantHas(t, sh(t, b, "pwd"), "the folder of before is gone")
	if b.State().Dir != "" {
		t.Errorf("state %+v", b.State())
	}
}

func TestBashDoesNotSeeTheEnvironmentOfThisProcess(t *testing.T) {
	t.Setenv("TIDEMARK_TEST_SECRET", "leaked")
	b := shellBox(t, Options{})
	if res := sh(t, b, "env"); strings.Contains(res.Text, "leaked") {
		t.Error(res.Text)
	}
}

func TestBashOutputIsBoundedAndValid(t *testing.T) {
	b := shellBox(t, Options{OutputBytes: 2000})
	sh(t, b, "true")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res := sh(t, b, "echo begin; yes 0123456789 | head -c 50000000; echo end")
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 5<<20 {
		t.Errorf("%d bytes were allocated for output of which 2000 are kept", n)
	}
	if !res.Truncated || len(res.Text) > 2200 {
		t.Errorf("%d bytes, truncated %v", len(res.Text), res.Truncated)
	}
	wantHas(t, res, "begin\n", "end\n", "bytes left out")
	wantText(t, sh(t, b, `printf 'a\xff\xfeb\0c'`), "a\uFFFDb\uFFFDc")
	wantText(t, sh(t, b, "echo next"), "next\n")
}

func TestBashStreamsWhileItRuns(t *testing.T) {
	var mu sync.Mutex
	var got bytes.Buffer
	seen := make(chan struct{})
	var once sync.Once
	b := shellBox(t, Options{OutputBytes: 100, Output: func(tool string, chunk []byte) {
		mu.Lock()
		defer mu.Unlock()
		got.Write(chunk)
		if tool == "bash" && strings.Contains(got.String(), "first") {
			once.Do(func() { close(seen) })
		}
	}})
	go func() {
		<-seen
		os.WriteFile(filepath.Join(b.o.Root, "go"), nil, 0o600)
	}()
	// The command ends only when its first line was streamed.
	res := sh(t, b, "echo first; until [ -e go ]; do sleep 0.01; done; head -c 1000 /dev/zero | tr '\\0' x")
	wantHas(t, res, "first")
	mu.Lock()
	defer mu.Unlock()
	if got.Len() != 100 {
		t.Errorf("%d bytes were streamed, want the limit of 100", got.Len())
	}
}

// A command of its own shell may be done before anybody waits for it.
func TestWhatAQuickCommandPutOutIsStreamedToo(t *testing.T) {
	b := shellBox(t, Options{})
	w, err := startWarm(b.o, program{path: b.o.Shell, args: []string{"-c", "echo quick"}, dir: b.o.Root})
	if err != nil {
		t.Fatal(err)
	}
	w.once = true
	<-w.dead
	var got bytes.Buffer
	o, err := w.run(t.Context(), func(string) string { return "" }, time.Minute, func(chunk []byte) { got.Write(chunk) })
	if err != nil || o.text != "quick\n" || got.String() != "quick\n" {
		t.Errorf("%v: it put out %q, and %q was streamed", err, o.text, got.String())
	}
}

// gone waits until no process has a pid, or only what is left of one.
func gone(t *testing.T, pid string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes are looked for in /proc")
	}
	for range 6000 {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %s is still there", pid)
}

// stubborn are commands that leave a process behind whose pid is in a file.
var stubborn = map[string]string{
	"child":           "sleep 1000 & echo $! >pid; wait",
	"ignores SIGTERM": `bash -c 'trap "" TERM; echo $$ >pid; while :; do sleep 1000; done' & until [ -s pid ]; do sleep 0.01; done; wait`,
	"own session":     "setsid sleep 1000 & until pgrep -P $! >pid 2>/dev/null || echo $! >pid; do :; done; wait",
	"job control":     "set -m; sleep 1000 & echo $! >pid; wait",
	"holds the pipe":  "nohup sleep 1000 & echo $! >pid; wait",
}

func pidIn(t *testing.T, b *Box) string {
	t.Helper()
	for range 6000 {
		if pid, err := os.ReadFile(filepath.Join(b.o.Root, "pid")); err == nil && strings.HasSuffix(string(pid), "\n") {
			return strings.TrimSpace(string(pid))
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the command did not begin")
	return ""
}

func TestCancelledCommandLeavesNoProcess(t *testing.T) {
	for name, command := range stubborn {
		t.Run(name, func(t *testing.T) {
			b := shellBox(t, Options{})
			sh(t, b, "cd /tmp; cd "+b.o.Root+"; export KEPT=1")
			ctx, cancel := context.WithCancel(t.Context())
			pid := make(chan string, 1)
			go func() { pid <- pidIn(t, b); cancel() }()
			res, err := try(t, ctx, b, "bash", m{"command": "echo so far; " + command})
			if !errors.Is(err, context.Canceled) || !res.IsError {
				t.Errorf("%v, %+v", err, res)
			}
			wantHas(t, res, "so far\n", "[stopped")
			gone(t, <-pid)
			wantText(t, sh(t, b, "echo $KEPT"), "1\n")
		})
	}
}

func TestCommandThatTakesTooLongIsEndedWithItsChildren(t *testing.T) {
	b := shellBox(t, Options{Timeout: 2 * time.Second})
	res := sh(t, b, "echo so far; "+stubborn["ignores SIGTERM"])
	wantHas(t, res, "so far\n", "stopped after 2s")
	if !res.IsError {
		t.Error("a timeout is no error")
	}
	gone(t, pidIn(t, b))
	wantText(t, sh(t, b, "echo next"), "next\n")
}

func TestCloseAndResetEndProcessesInTheBackground(t *testing.T) {
	for name, end := range map[string]func(*Box){"close": func(b *Box) { b.Close() }, "reset": func(b *Box) { b.Reset(State{}) }} {
		t.Run(name, func(t *testing.T) {
			b := shellBox(t, Options{})
			sh(t, b, "sleep 1000 & echo $! >pid")
			end(b)
			gone(t, pidIn(t, b))
		})
	}
}

func TestExitOfTheShellEndsItsBackground(t *testing.T) {
	b := shellBox(t, Options{})
	sh(t, b, "sleep 1000 & echo $! >pid; exit")
	gone(t, pidIn(t, b))
}

func TestBackgroundProcessLivesFromCallToCall(t *testing.T) {
	b := shellBox(t, Options{})
	sh(t, b, "{ until [ -e go ]; do sleep 0.01; done; echo from behind; touch done; } &")
	res := sh(t, b, "touch go; wait; echo after")
	wantHas(t, res, "from behind\n", "after\n")
}

func TestCloseEndsACommandThatRuns(t *testing.T) {
	b := shellBox(t, Options{})
	go func() { pidIn(t, b); b.Close() }()
	res, err := try(t, t.Context(), b, "bash", m{"command": stubborn["child"]})
	if err != nil || !res.IsError {
		t.Errorf("%v %+v", err, res)
	}
	if _, err := try(t, t.Context(), b, "bash", m{"command": "true"}); err == nil {
		t.Error("a closed box runs commands")
	}
}

func TestCallsOfBashWaitForEachOther(t *testing.T) {
	b := shellBox(t, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			res, err := try(t, t.Context(), b, "bash", m{"command": "mkdir lock && echo alone; rmdir lock"})
			if err != nil || res.Text != "alone\n" {
				t.Errorf("%v %+v", err, res)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := try(t, ctx, b, "bash", m{"command": "touch ran"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(b.o.Root, "ran")); err == nil {
		t.Error("a call that was cancelled before it began ran")
	}
}

func BenchmarkBashCall(b *testing.B) {
	box, err := New(Options{Root: b.TempDir(), Environ: os.Environ()})
	if err != nil {
		b.Fatal(err)
	}
	defer box.Close()
	bash := box.Find("bash")
	if bash == nil {
		b.Skip(box.Missing())
	}
	for b.Loop() {
		if res, err := bash.Run(b.Context(), json.RawMessage(`{"command":"true"}`)); err != nil || res.IsError {
			b.Fatal(res, err)
		}
	}
}
