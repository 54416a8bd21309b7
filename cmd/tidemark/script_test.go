package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/config"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

func TestMain(m *testing.M) {
	if code, staged := stage(); staged {
		os.Exit(code)
	}
	testscript.Main(ofAnyStarter{m}, map[string]func(){"tidemark": main})
}

// ofAnyStarter runs the tests as if a terminal had started them. Whoever starts
// them with nohup has them ignore SIGHUP, and every program that they start.
// Where there can be no sandbox, programs run without one, and what tries it
// says that it is skipped.
type ofAnyStarter struct{ *testing.M }

func (m ofAnyStarter) Run() int {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	if !canHold() {
		os.Setenv(config.SandboxVariable, agent.SandboxOff)
	}
	return m.M.Run()
}

// withAnyStore names the scripts for which it makes no odds what kind of store
// there is: fleets, sandboxes, terminals, other protocols, help. The rules that
// they meet are those of package store, which has one suite for all backends.
var withAnyStore = regexp.MustCompile(`^(acp|chat|costs|faults|fence|fleet_.*|grants|herdctl.*|look|mcp|open|review4?|sandbox|schedules|send|short|terminal|topics|tour|version|wake|workspace)$`)

// scripts are those that are run on a kind of store. TIDEMARK_EVERY_CASE, which
// make soak sets, has all of them run on each.
func scripts(t *testing.T, kind string) (files []string) {
	all, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		name := strings.TrimSuffix(filepath.Base(f), ".txtar")
		if kind == "sqlite" || os.Getenv("TIDEMARK_EVERY_CASE") != "" || !withAnyStore.MatchString(name) {
			files = append(files, f)
		}
	}
	if len(files) < 25 {
		t.Fatalf("only %d scripts for %s", len(files), kind)
	}
	return files
}

// TestScripts runs every command as a person or a script would, once on each
// durable backend where that makes a difference.
func TestScripts(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"sqlite": "", "files": "files:$WORK/store"} {
		if testing.Short() && name != "sqlite" {
			continue // make test tries both
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Files:               scripts(t, name),
				RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					home := env.WorkDir + "/home"
					env.Setenv("HOME", home)
					env.Setenv("XDG_DATA_HOME", home+"/data")
					env.Setenv("XDG_CONFIG_HOME", home+"/config")
					env.Setenv("BACKEND", name)
					env.Setenv(config.SandboxVariable, os.Getenv(config.SandboxVariable))
					env.Setenv("TIDEMARK_STORE", strings.ReplaceAll(url, "$WORK", env.WorkDir))
					env.Setenv("BACKENDSTORE", env.Getenv("TIDEMARK_STORE"))
					return os.MkdirAll(home, 0o700)
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits":   exits,
					"let":     let,
					"lines":   lines,
					"hold":    hold,
					"killed":  killed,
					"waitfor": waitFor,
				},
				Condition: func(cond string) (bool, error) {
					if b, ok := strings.CutPrefix(cond, "backend:"); ok {
						return b == name, nil
					}
					if cond == "sandbox" {
						return !slices.ContainsFunc(sandbox.Layers(), func(l sandbox.Layer) bool { return !l.On }), nil
					}
					return false, fmt.Errorf("unknown condition %q", cond)
				},
			})
		})
	}
}

// canHold reports whether this machine can make the namespaces of a sandbox.
func canHold() bool {
	return !slices.ContainsFunc(sandbox.Layers(), func(l sandbox.Layer) bool { return l.Name == "namespaces" && !l.On })
}

// exits CODE PROGRAM ARGS… runs a program and wants its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if (got == want) == neg {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// let NAME REGEXP sets a variable to what the first group matches in stdout.
func let(ts *testscript.TestScript, neg bool, args []string) {
	m := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if m == nil {
		ts.Fatalf("stdout does not match %s", args[1])
	}
	ts.Setenv(args[0], m[len(m)-1])
}

// waitfor PROGRAM ARGS… REGEXP runs a program until what it prints matches.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[len(args)-1])
	late := time.Now().Add(time.Minute)
	for {
		err := ts.Exec(args[0], args[1:len(args)-1]...)
		if err == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(late) {
			ts.Fatalf("%s does not come: %v", want, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// lines N wants so many lines on stdout.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := strings.Count(ts.ReadFile("stdout"), "\n"); (got == want) == neg {
		ts.Fatalf("%d lines, want %d", got, want)
	}
}

// holder is a writer that a script left running.
type holder struct {
	cmd *exec.Cmd
	in  *os.File
}

// hold NAME SESSION starts a writer that holds a session after one entry.
func hold(ts *testscript.TestScript, neg bool, args []string) {
	r, w, err := os.Pipe()
	ts.Check(err)
	exe, err := os.Executable()
	ts.Check(err)
	cmd := exec.Command(exe, "append", args[1])
	cmd.Args[0] = "tidemark" // testscript.Main chooses the command by it
	cmd.Env = []string{}
	for _, k := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "TIDEMARK_STORE", "PATH"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	cmd.Dir = ts.MkAbs(".")
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	r.Close()
	fmt.Fprintln(w, `{"role":"user","content":"held"}`)
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	ts.Setenv(args[0], strings.Fields(line)[0])
	ts.Setenv(args[0]+"_PID", strconv.Itoa(cmd.Process.Pid))
	held.Store(args[0]+ts.Getenv("WORK"), holder{cmd, w})
	ts.Defer(func() {
		w.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
}

var held sync.Map // of holders; scripts run side by side

// killed NAME SIGNAL ends a writer that hold started, and waits for its end.
func killed(ts *testscript.TestScript, neg bool, args []string) {
	found, ok := held.Load(args[0] + ts.Getenv("WORK"))
	if !ok {
		ts.Fatalf("nobody holds %s", args[0])
	}
	h := found.(holder)
	signals := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	if args[1] == "EOF" {
		h.in.Close()
	} else {
		ts.Check(h.cmd.Process.Signal(signals[args[1]]))
	}
	done := make(chan error, 1)
	go func() { done <- h.cmd.Wait() }()
	select {
	case <-done:
		ts.Setenv("EXIT", strconv.Itoa(h.cmd.ProcessState.ExitCode()))
	case <-time.After(time.Minute):
		ts.Fatalf("it does not end")
	}
}
