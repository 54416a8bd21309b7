//go:build !windows

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark/model"
)

// wayOut is one way to leave a chat, and the exit code that goes with it.
type wayOut struct {
	name string
	keys string
	sig  syscall.Signal
	code int
}

var waysOfLeaving = []wayOut{
	{"Ctrl-C", "\x03", 0, 130}, {"Ctrl-D", "\x04", 0, 0}, {"exit", "/exit\r", 0, 0},
	{"SIGINT", "", syscall.SIGINT, 130}, {"SIGTERM", "", syscall.SIGTERM, 143}, {"SIGHUP", "", syscall.SIGHUP, 129},
}

// take takes the way. A program that has ended already takes neither key nor
// signal.
func (w wayOut) take(c *terminalChat) {
	if w.keys != "" {
		c.tty.WriteString(w.keys)
		return
	}
	c.cmd.Process.Signal(w.sig)
}

// moment is what a chat is busy with when somebody leaves.
type moment struct {
	name   string
	say    string
	shows  string // on the screen once it is busy; "": the turn has ended then
	learns bool   // the second way is taken while the model is asked for learnings
}

var moments = []moment{
	{"idle", "hello at length", "", false},
	{"learnings", "I am slow to learn at length", "", true},
	{"thinking", "slow to learn, so hang", "Let me think", false},
	{"tool", "slow to learn, run sh work", "▸ bash: sh work", false},
	{"approval", "slow to learn, run touch file", "[n] deny", false},
}

// grantHere makes the grants of a home that was copied those of the copy: they
// are for one project, and for their owner's eyes alone.
func grantHere(t *testing.T, from, to string) {
	t.Helper()
	path := filepath.Join(to, "state", "tidemark", "grants.json")
	granted, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(granted, []byte(from), []byte(to)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestASecondWayOutAlwaysEndsTheProgram takes every two ways out of a chat one
// after the other, whatever it is busy with and however long the model would
// take to learn.
func TestASecondWayOutAlwaysEndsTheProgram(t *testing.T) {
	t.Parallel()
	server := newStandIn(t)
	begun := t.TempDir()
	// What will run for long is approved while it is short.
	if err := os.WriteFile(filepath.Join(begun, "work"), []byte("exit"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := tidemarkIn(begun, "chat", "--no-encrypt", "--base-url", server.URL, "--name", "talk")
	first.Stdin = strings.NewReader("run sh work\na\n")
	if out, err := first.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for _, m := range moments {
		for _, one := range waysOfLeaving {
			for _, two := range waysOfLeaving {
				t.Run(m.name+"/"+one.name+"/"+two.name, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					if err := os.CopyFS(dir, os.DirFS(begun)); err != nil {
						t.Fatal(err)
					}
					grantHere(t, begun, dir)
					if err := os.WriteFile(filepath.Join(dir, "work"), []byte("exec sleep 1000"), 0o600); err != nil {
						t.Fatal(err)
					}
					c := openChat(t, dir, 100, "--base-url", server.URL, "--resume", "talk")
					c.leaves(m, one, two)
				})
			}
		}
	}
}

func (c *terminalChat) leaves(m moment, one, two wayOut) {
	t := c.t
	t.Helper()
	c.types(m.say + "\r")
	ended := m.shows == ""
	c.shows(cmp.Or(m.shows, model.StopText(model.StopMaxTokens))) // that it was cut off is said at the end
	if ended && one.name == "Ctrl-C" {
		c.pressesCtrlCTwice()
	} else {
		one.take(c)
	}
	switch {
	case m.learns, !ended && one.sig != 0 && one.sig == two.sig && one.code != 130:
		c.shows("Extracting learnings")
	case !ended && one.sig != 0 && one.sig == two.sig:
		c.shows("(stopped)") // two of the same that nobody took in between are one
	}
	var code int
	if !ended && one.code == 130 && two.code == 130 {
		code = c.leavesBy(two) // both may have stopped it, or the second was the first at a prompt
	} else {
		two.take(c)
		code = c.endsAtAll()
	}
	want := []int{one.code, two.code} // nobody knows the order of two signals, or of a key and a signal
	if m.learns {
		want = []int{cmp.Or(one.code, two.code)} // the first signal
	}
	if !slices.Contains(want, code) {
		t.Errorf("exit code %d, want one of %v", code, want)
	}
	shown := c.term.String()
	if !strings.Contains(shown, "Resume: tidemark chat --resume ") {
		t.Errorf("it does not say where to find it:\n%s", shown)
	}
	c.terminalIsAsBefore()
	out, err := tidemarkIn(c.dir, "cat", "talk").Output()
	if err != nil || !strings.Contains(string(out), m.say) || ended && !strings.Contains(string(out), "You said "+m.say) {
		t.Errorf("something that was acknowledged is lost: %v\n%s", err, out)
	}
}

// interruption is what a person was in the middle of when they leave.
type interruption struct {
	name  string
	keys  []string // typed one after the other
	shows []string // on the screen after each
	// typing means that there is text in the line, to which a way out that is
	// typed would only add.
	typing bool
	says   string // what is kept at least
}

var interruptions = []interruption{
	{name: "idle"},
	{name: "half a line", keys: []string{"half a line"}, shows: []string{"you> half a line"}, typing: true},
	{name: "menu", keys: []string{"see @wor"}, shows: []string{"@work"}, typing: true},
	{name: "search", keys: []string{"\x12sh"}, shows: []string{"search sh"}, typing: true},
	{name: "question", keys: []string{"slow to learn, run touch file\r"}, shows: []string{"[n] deny"}, says: "run touch file"},
	{name: "thinking", keys: []string{"slow to learn, so hang\r"}, shows: []string{"Let me think"}, says: "so hang"},
	{name: "tool", keys: []string{"slow to learn, run sh work\r"}, shows: []string{"▸ bash: sh work"}, says: "run sh work"},
	{name: "queue", keys: []string{"slow to learn, run sh work\r", "and this\r"}, shows: []string{"▸ bash: sh work", "» and this"}, says: "run sh work"},
	{name: "command", keys: []string{"!sh work\r"}, shows: []string{"▸ bash: sh work"}, says: "myself: sh work"},
	{name: "plan", keys: []string{"\x1b[Z", "\x1b[Z", "slow to learn\r"}, shows: []string{"accepts edits", "plans only", "Carry out this plan?"}, says: "You said slow to learn"},
	{name: "undo", keys: []string{"\x1b[Z", "slow to learn, change it\r", "/undo\r"}, shows: []string{"accepts edits", "✓ write: tide.txt", "[n] nothing"}, says: "change it"},
	{name: "worker", keys: []string{"/spawn w so hang\r", "/view w\r"}, shows: []string{"[w] started", "you → w>"}},
}

// TestEveryInterruptionHasEveryWayOut takes each way out of whatever a person is
// in the middle of, again until it ends, as somebody does who wants to leave.
// Without TIDEMARK_EVERY_CASE it takes every third.
func TestEveryInterruptionHasEveryWayOut(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	begun := t.TempDir()
	if err := os.WriteFile(filepath.Join(begun, "work"), []byte("exit"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := tidemarkIn(begun, "chat", "--no-encrypt", "--base-url", model.URL, "--name", "talk")
	first.Stdin = strings.NewReader("run sh work\na\n")
	if out, err := first.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for i, m := range interruptions {
		for j, way := range waysOfLeaving {
			if typed := way.keys != "" && way.name != "Ctrl-C"; m.typing && typed || os.Getenv("TIDEMARK_EVERY_CASE") == "" && (i+j)%3 != 0 {
				continue
			}
			t.Run(m.name+"/"+way.name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(begun)); err != nil {
					t.Fatal(err)
				}
				grantHere(t, begun, dir)
				if err := os.WriteFile(filepath.Join(dir, "work"), []byte("exec sleep 1000"), 0o600); err != nil {
					t.Fatal(err)
				}
				c := openChat(t, dir, 100, "--base-url", model.URL, "--resume", "talk")
				c.shows("Resumed session")
				for i, keys := range m.keys {
					c.types(keys)
					c.shows(m.shows[i])
				}
				if code := c.leavesBy(way); code != way.code {
					t.Errorf("exit code %d, want %d", code, way.code)
				}
				if shown := c.term.String(); !strings.Contains(shown, "Resume: tidemark chat --resume ") {
					t.Errorf("it does not say where to find it:\n%s", shown)
				}
				c.terminalIsAsBefore()
				out, err := tidemarkIn(c.dir, "cat", "talk", "--all").Output()
				if err != nil || !strings.Contains(string(out), m.says) {
					t.Errorf("something that was acknowledged is lost: %v\n%s", err, out)
				}
				if _, err := os.Stat(filepath.Join(dir, "file")); err == nil {
					t.Error("what nobody allowed was done")
				}
			})
		}
	}
}

// leavesBy takes a way out again until the program ends, and returns its exit
// code.
func (c *terminalChat) leavesBy(w wayOut) int {
	c.t.Helper()
	for range 10 {
		w.take(c)
		for patience := time.After(3 * time.Second); ; {
			select {
			case data, more := <-c.read:
				if !more {
					c.cmd.Wait()
					return c.cmd.ProcessState.ExitCode()
				}
				c.take(data)
				continue
			case <-patience:
			}
			break
		}
	}
	c.t.Fatalf("it does not end:\n%s", c.term.String())
	return 0
}

// endsAtAll is ends for a program that may never end: its bound says nothing
// about how long that takes.
func (c *terminalChat) endsAtAll() int {
	c.t.Helper()
	late := time.AfterFunc(time.Minute, func() {
		c.cmd.Process.Signal(syscall.SIGQUIT) // says where it hangs
		time.AfterFunc(5*time.Second, func() { c.cmd.Process.Kill() })
	})
	code := c.ends()
	if !late.Stop() {
		c.t.Fatalf("it did not end:\n%s", c.term.String())
	}
	return code
}

// terminalIsAsBefore compares the terminal with one that nobody has used.
func (c *terminalChat) terminalIsAsBefore() {
	c.t.Helper()
	state := func(f *os.File) (s string) {
		conn, err := f.SyscallConn()
		if err == nil {
			err = conn.Control(func(fd uintptr) {
				var now *term.State
				if now, err = term.GetState(int(fd)); err == nil {
					s = fmt.Sprint(*now)
				}
			})
		}
		if err != nil {
			c.t.Error(err)
		}
		return s
	}
	fresh, slave, err := pty.Open()
	if err != nil {
		c.t.Fatal(err)
	}
	defer fresh.Close()
	defer slave.Close()
	if now, before := state(c.tty), state(slave); now != before {
		c.t.Errorf("the terminal is %s, was %s", now, before)
	}
	if !c.term.CursorVisible() {
		c.t.Error("the cursor is hidden")
	}
	if on, off := bytes.LastIndex(c.raw, []byte("[?2004h")), bytes.LastIndex(c.raw, []byte("[?2004l")); on > off {
		c.t.Error("the terminal still tells pastes from keys")
	}
}

// TestASignalEndsThePickerOfAChat: while another part of the program has the
// terminal, signals are heard as well.
func TestASignalEndsThePickerOfAChat(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	c := openChat(t, t.TempDir(), 100, "--base-url", model.URL)
	c.types("hello\r")
	c.shows("You said hello.")
	c.types("/resume\r")
	c.shows("Go on with")
	c.cmd.Process.Signal(syscall.SIGTERM)
	if code := c.endsAtAll(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
	if shown := c.term.String(); !strings.Contains(shown, "Session saved: ") {
		t.Errorf("%s", shown)
	}
	c.terminalIsAsBefore()
}

// TestATerminalThatClosesIsOneWayOut: that the keyboard is gone and the signal
// that says so are one thing, which is in no hurry.
func TestATerminalThatClosesIsOneWayOut(t *testing.T) {
	t.Parallel()
	model := newStandIn(t)
	c := openChat(t, t.TempDir(), 100, "--base-url", model.URL, "--name", "talk")
	c.types("Always use tabs.\r")
	c.shows("You said Always use tabs..")
	c.types("half a line") // its echo wakes the reader, which lets the terminal go
	c.tty.Close()
	if code := c.endsAtAll(); code != 129 {
		t.Errorf("exit code %d, want 129", code)
	}
	out, err := tidemarkIn(c.dir, "memory", "ls").Output()
	if err != nil || !strings.Contains(string(out), "Tabs, always.") {
		t.Errorf("the model was not asked what to learn: %v %s", err, out)
	}
	if out, err := tidemarkIn(c.dir, "lock", "talk", "--json=held").Output(); err != nil || !strings.Contains(string(out), `"held":false`) {
		t.Errorf("it is still held: %v %s", err, out)
	}
}

// TestNohupSurvivesTheTerminal: who was started to survive a hang-up does.
func TestNohupSurvivesTheTerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("nohup"); err != nil {
		t.Skip("no nohup")
	}
	model := newStandIn(t)
	dir := t.TempDir()
	chat := tidemarkIn(dir, "chat", "--base-url", model.URL, "-p", "please hang", "--name", "talk")
	cmd := exec.Command("bash", append([]string{"-c", `exec nohup bash -c 'exec -a tidemark "$@"' bash "$@"`, "bash", chat.Path}, chat.Args[1:]...)...)
	cmd.Dir, cmd.Env = chat.Dir, chat.Env
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<10)
	for said := ""; !strings.Contains(said, "Session: "); {
		n, err := stderr.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, said)
		}
		said += string(buf[:n])
	}
	cmd.Process.Signal(syscall.SIGHUP)
	cmd.Process.Signal(syscall.SIGTERM)
	for err == nil {
		_, err = stderr.Read(buf)
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}
