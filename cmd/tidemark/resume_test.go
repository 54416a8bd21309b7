//go:build !windows

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// standingTool stands for an agent: it says whether it has a terminal and how large
// that is, and which signals reach it.
const standingTool = `#!/bin/sh
[ "$1" = --version ] && exit
trap 'echo got INT' INT
trap 'echo got TERM; exit 9' TERM
[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo "a terminal of $(stty size)"
while :; do
	read line && echo "read $line"
done
`

// TestAToolThatASessionGoesOnInHasTheTerminal runs a session in a tool on a real
// terminal.
func TestAToolThatASessionGoesOnInHasTheTerminal(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "codex"), []byte(standingTool), 0o700); err != nil {
		t.Fatal(err)
	}
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command(exe, args...)
		cmd.Args[0] = "tidemark" // testscript.Main chooses the command by it
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/config", "XDG_DATA_HOME="+dir+"/data", "TIDEMARK_STORE=", "CODEX_HOME=", "TERM=xterm-256color",
			"PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		return cmd
	}
	cmd := program("append", "new")
	cmd.Stdin = strings.NewReader(`{"role":"user","content":"about the whale"}` + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd = program("resume", "last", "--in", "codex")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	defer tty.Close()
	screen := &screen{t: t, term: vt10x.New(vt10x.WithSize(100, 24), vt10x.WithWriter(tty)), read: make(chan []byte)}
	go screen.listen(tty)
	screen.shows("a terminal of 24 100")
	typed := func(text, want string) {
		t.Helper()
		if _, err := tty.WriteString(text); err != nil {
			t.Fatal(err)
		}
		screen.shows(want)
	}
	typed("hello\r", "read hello")
	typed("\x03", "got INT") // Ctrl-C is for the tool, and once
	typed("still there\r", "read still there")
	if n := strings.Count(string(screen.raw), "got INT"); n != 1 {
		t.Errorf("Ctrl-C reached the tool %d times", n)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	typed("\r", "got TERM")
	screen.shows("0 new entries of Codex")
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("it ended with %v, want the tool's exit code 9", err)
	}
}
