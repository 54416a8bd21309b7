//go:build linux

package runner_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/runner"
)

// The test binary is every program that the tests run: which one, its role
// says. It replays a script of its own: lines that are written as they are,
// and a few words that it obeys.
const (
	roleVariable    = "RUNNER_TEST_ROLE"
	scriptVariable  = "RUNNER_TEST_SCRIPT"
	folderVariable  = "RUNNER_TEST_FOLDER"
	sandboxVariable = "RUNNER_TEST_SANDBOX" // the project of the sandbox that a daemon holds its program in
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
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "script":
		script()
	case "acp":
		acpAgent()
	case "engine":
		engine()
	case "daemon":
		daemon()
	}
	os.Exit(0)
}

// script plays what the script says, a line a step.
func script() {
	folder := os.Getenv(folderVariable)
	note(folder, "args", strings.Join(os.Args[1:], "\n"))
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for line := range strings.Lines(os.Getenv(scriptVariable)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "!stdin": // notes what it is told, to the end
			out.Flush()
			b, _ := io.ReadAll(os.Stdin)
			note(folder, "stdin", string(b))
		case "!reads": // notes one line that it is told
			out.Flush()
			noteLine(folder)
		case "!stderr":
			fmt.Fprintln(os.Stderr, rest)
		case "!torn":
			fmt.Fprint(out, rest)
		case "!bytes": // so many of them, without a newline
			var n int
			fmt.Sscan(rest, &n)
			chunk := bytes.Repeat([]byte("x"), 1<<20)
			for ; n > 0; n -= len(chunk) {
				out.Write(chunk[:min(n, len(chunk))])
			}
			fmt.Fprintln(out)
		case "!lines":
			var n int
			fmt.Sscan(rest, &n)
			for range n {
				fmt.Fprintln(out, "over and over again")
			}
		case "!binary":
			out.Write([]byte{0xff, 0xfe, 0, 'a', 0x80, '\n'})
		case "!env":
			fmt.Fprintln(out, os.Getenv(rest))
		case "!child": // in the group, holding the pipes
			startChild(folder, rest, false)
		case "!daemon": // in a session of its own, and its parent ends
			startChild(folder, rest, true)
		case "!escape": // without the mark, in a session of its own, holding the pipes
			startChild(folder, rest+" escaped", true)
		case "!deaf": // to requests to end
			signal.Ignore(syscall.SIGTERM)
		case "!hang":
			out.Flush()
			note(folder, "hangs", fmt.Sprint(os.Getpid()))
			hang()
		case "!crash":
			out.Flush()
			p, _ := os.FindProcess(os.Getpid())
			p.Kill()
			hang()
		case "!exit":
			out.Flush()
			var n int
			fmt.Sscan(rest, &n)
			os.Exit(n)
		default:
			fmt.Fprint(out, line)
		}
	}
	out.Flush()
}

// hang never returns. It sleeps, because Go ends a program that waits for
// nothing.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

func startChild(folder, name string, apart bool) {
	script := "!hang"
	if deaf, ok := strings.CutSuffix(name, " deaf"); ok {
		name, script = deaf, "!deaf\n!hang"
	}
	name, escaped := strings.CutSuffix(name, " escaped")
	cmd := exec.Command("/proc/self/exe")
	environ := os.Environ()
	if escaped {
		environ = slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	}
	cmd.Env = append(environ, roleVariable+"=script", scriptVariable+"="+script, folderVariable+"="+filepath.Join(folder, name))
	os.MkdirAll(filepath.Join(folder, name), 0o700)
	if apart {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if !apart || escaped {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
	}
	for await(filepath.Join(folder, name, "hangs")) == "" {
		time.Sleep(time.Millisecond) // another process is waited for
	}
}

// note writes all at once, so that whoever finds it finds it whole.
func note(folder, name, text string) {
	if folder != "" {
		path := filepath.Join(folder, name)
		os.WriteFile(path+".new", []byte(text), 0o600)
		os.Rename(path+".new", path)
	}
}

var input = sync.OnceValue(func() *bufio.Reader { return bufio.NewReader(os.Stdin) })

func noteLine(folder string) {
	line, _ := input().ReadString('\n')
	f, _ := os.OpenFile(filepath.Join(folder, "read"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	defer f.Close()
	f.WriteString(line)
}

// await is what a program has noted so far, "": nothing yet.
func await(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

// rig is a task with what came of it.
type rig struct {
	t      *testing.T
	task   runner.Task
	folder string // where the programs note things

	mu     sync.Mutex
	events []tidemark.Event
	seen   []runner.Process
}

func newRig(t *testing.T, lines ...string) *rig {
	t.Helper()
	g := &rig{t: t, folder: t.TempDir()}
	g.task = runner.Task{
		Job: "job-2026-11-15-3y0e8d", Agent: "tidy", Prompt: "tidy up",
		Dir: t.TempDir(), Grace: 300 * time.Millisecond,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", "GOCOVERDIR=" + t.TempDir(), roleVariable + "=script", folderVariable + "=" + g.folder,
			scriptVariable + "=" + strings.Join(lines, "\n")},
		Emit: func(e tidemark.Event) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.events = append(g.events, e)
			return nil
		},
		Running: func(p runner.Process) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.seen = append(g.seen, p)
			return nil
		},
	}
	return g
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs the task, and checks what holds for every run: each event can be
// kept, and nothing that bears the mark of the run is left.
func (g *rig) run(ctx context.Context, r runner.Runner) (runner.Outcome, error) {
	g.t.Helper()
	o, err := r.Run(ctx, g.task)
	for _, e := range g.events {
		if _, err := e.Line(); err != nil || e.Timestamp.IsZero() {
			g.t.Errorf("event %+v cannot be kept: %v", e, err)
		}
	}
	bad := slices.Contains([]string{tidemark.ExitError, tidemark.ExitCancelled, tidemark.ExitTimeout, tidemark.ExitInterrupt}, o.ExitReason)
	if o.ExitReason == "" || bad != (err != nil) {
		g.t.Errorf("exit reason %q with the error %v", o.ExitReason, err)
	}
	if len(g.seen) > 0 {
		if left := bearers(g.seen[0].Mark); len(left) > 0 {
			g.t.Errorf("processes %v are left of the run", left)
		}
	}
	return o, err
}

// bearers returns who has a mark in the environment, and is not a zombie.
func bearers(mark string) (pids []string) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, f := range folders {
		env, _ := os.ReadFile(f + "/environ")
		if bytes.Contains(env, []byte("TIDEMARK_RUN="+mark)) {
			pids = append(pids, filepath.Base(f))
		}
	}
	return pids
}

// brief writes events so that a test can say what it wants.
func (g *rig) brief() (lines []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.events {
		s := e.Type
		if e.Subtype != "" {
			s += "/" + e.Subtype
		}
		add := func(name, v string) {
			if v != "" {
				s += " " + name + "=" + v
			}
		}
		add("content", e.Content)
		if e.Partial {
			s += " partial"
		}
		if e.Usage != nil {
			b, _ := json.Marshal(e.Usage)
			add("usage", string(b))
		}
		add("tool", e.ToolName)
		add("id", e.ToolUseID)
		add("input", string(e.Input))
		add("result", string(e.Result))
		if e.Success != nil {
			add("success", fmt.Sprint(*e.Success))
		}
		add("error", e.Error)
		add("message", e.Message)
		add("code", e.Code)
		lines = append(lines, s)
	}
	return lines
}

// untilNoted waits for a program to note something.
func (g *rig) untilNoted(name string) string {
	for {
		if s := await(filepath.Join(g.folder, name)); s != "" {
			return s
		}
		time.Sleep(time.Millisecond) // another process is waited for
	}
}
