//go:build !windows

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// standingTool stands for an agent: it says whether it has a terminal and how large
// that is, and which signals reach it.
const standingTool = `#!/bin/sh
[ "$1" = --version ] && exit
trap 'echo got INT' INT
trap 'echo got TERM; exit 9' TERM
[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "a terminal of $(stty size)" && echo "process $$."
while :; do
	read line && echo "read $line"
	case $line in stop*) kill -STOP $$; echo "behind $line" ;; esac
done
`

// resuming is a home with a session and that tool in it, and how programs run there.
func resuming(t *testing.T) (program func(args ...string) *exec.Cmd) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "codex"), []byte(standingTool), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, filepath.Join(bin, "tidemark")); err != nil { // testscript.Main chooses the command by the name
		t.Fatal(err)
	}
	program = func(args ...string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		if args[0] == "tidemark" {
			cmd = exec.Command(filepath.Join(bin, "tidemark"), args[1:]...)
		}
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/config", "XDG_DATA_HOME="+dir+"/data", "TIDEMARK_STORE=", "CODEX_HOME=", "TERM=xterm-256color",
			"PATH="+bin+":"+os.Getenv("PATH"), "PS1=ready> ", "ENV=")
		return cmd
	}
	cmd := program("tidemark", "append", "new")
	cmd.Stdin = strings.NewReader(`{"role":"user","content":"about the whale"}` + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// TestAToolThatASessionGoesOnInHasTheTerminal runs a session in a tool on a real
// terminal.
func TestAToolThatASessionGoesOnInHasTheTerminal(t *testing.T) {
	t.Parallel()
	c := onTerminal(t, resuming(t)("tidemark", "resume", "last", "--in", "codex"), 100)
	c.shows("a terminal of 40 100")
	typed := func(text, want string) {
		t.Helper()
		c.types(text)
		c.shows(want)
	}
	typed("hello\r", "read hello")
	typed("\x03", "got INT") // Ctrl-C is for the tool, and once
	typed("still there\r", "read still there")
	if n := strings.Count(string(c.raw), "got INT"); n != 1 {
		t.Errorf("Ctrl-C reached the tool %d times", n)
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	typed("\r", "got TERM")
	c.shows("0 new entries of Codex")
	if code := c.ends(); code != 9 {
		t.Errorf("it ended with %d, want the tool's exit code 9", code)
	}
}

// TestWithoutASessionOneIsPickedToGoOnWith picks one on a real terminal, and leaves the
// picker without any.
func TestWithoutASessionOneIsPickedToGoOnWith(t *testing.T) {
	t.Parallel()
	program := resuming(t)
	c := onTerminal(t, program("tidemark", "resume", "--in", "codex"), 100)
	c.shows("Go on with", "about the whale")
	c.types("\r")
	c.shows("a terminal of 40 100")
	c.types("hello\r")
	c.shows("read hello") // so the terminal is the tool's, and not raw any more
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.types("\r")
	c.shows("got TERM", "0 new entries of Codex")
	if code := c.ends(); code != 9 {
		t.Errorf("it ended with %d, want the tool's exit code 9", code)
	}
	c = onTerminal(t, program("tidemark", "resume", "--in", "codex"), 100)
	c.shows("Go on with", "about the whale")
	c.types("\x1b")
	if c.ends(); strings.Contains(string(c.raw), "a terminal of") {
		t.Errorf("the tool was started all the same:\n%s", c.raw)
	}
}

// TestAToolThatStopsItselfGivesTheTerminalBackToTheShell stops a tool as some do on
// Ctrl-Z: alone, so that the shell knows nothing of it.
func TestAToolThatStopsItselfGivesTheTerminalBackToTheShell(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("a tool that stops only itself keeps the terminal here")
	}
	c := onTerminal(t, resuming(t)("sh", "-i"), 100)
	typed := func(text, want string) {
		t.Helper()
		c.types(text)
		c.shows(want)
	}
	const clear = `printf '\033[2J\033[H'; ` // so that what is waited for is new
	c.shows("ready> ")
	typed(clear+"tidemark resume last --in codex\r", "a terminal of 40 100")
	c.shows("process ", ".")
	pid := regexp.MustCompile(`process (\d+)\.`).FindStringSubmatch(c.term.String())[1]
	for n := range 3 {
		typed(fmt.Sprintf("stop %d\r", n), fmt.Sprintf("read stop %d", n))
		c.shows("Stopped", "ready> ")
		typed(fmt.Sprintf("echo $((40+%d)) in the shell\r", n), fmt.Sprintf("%d in the shell", 40+n))
		typed(clear+"fg\r", fmt.Sprintf("behind stop %d", n))
		typed(fmt.Sprintf("hello %d\r", n), fmt.Sprintf("read hello %d", n))
		typed("\x1a", "Stopped") // of the terminal, which stops both
		c.shows("ready> ")
		for stat := []byte{}; !bytes.Contains(stat, []byte(") T ")); { // until then it may read what is typed
			var err error
			if stat, err = os.ReadFile("/proc/" + pid + "/stat"); err != nil {
				t.Fatal(err)
			}
		}
		c.types(clear + "fg\r")
		typed(fmt.Sprintf("again %d\r", n), fmt.Sprintf("read again %d", n))
	}
}
