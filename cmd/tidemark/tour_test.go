//go:build !windows

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/hinshun/vt10x"

	"github.com/tidemark-sessions/tidemark/agent/tour"
)

// tourists are a home that may not change and a folder for temporary files
// that is to be empty in the end.
type tourists struct {
	t          *testing.T
	home, temp string
	before     map[string]string
}

func newTourists(t *testing.T) *tourists {
	t.Helper()
	c := &tourists{t: t, home: t.TempDir(), temp: t.TempDir()}
	for name, text := range map[string]string{
		"config/tidemark/config.yaml":        "no such setting: [\n",
		"data/tidemark/tidemark.db":          "not a database\n",
		".claude/projects/x/y.jsonl":         "{}\n",
		".local/share/tidemark/server.token": "mine\n",
		"work/.tidemark.yaml":                "store: files:elsewhere\n",
	} {
		path := filepath.Join(c.home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.before = snapshot(t, c.home)
	return c
}

// theirSecret is in the environment of the user and has no business in the tour.
const theirSecret = "sk-ant-not-for-the-tour"

func (c *tourists) command(args ...string) *exec.Cmd {
	cmd := tidemarkIn(filepath.Join(c.home, "work"), append([]string{"tour"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+c.home, "XDG_CONFIG_HOME="+c.home+"/config", "XDG_DATA_HOME="+c.home+"/data", "XDG_CACHE_HOME="+c.home+"/cache",
		"TMPDIR="+c.temp, "TERM=xterm-256color", "TIDEMARK_STORE=files:"+c.home+"/elsewhere", "TIDEMARK_KEY_FILE="+c.home+"/no.key",
		"TIDEMARK_PROVIDER=anthropic", "TIDEMARK_MODEL=theirs", "CLAUDE_CONFIG_DIR="+c.home+"/.claude", "ANTHROPIC_API_KEY="+theirSecret)
	return cmd
}

// nothingIsLeft looks at the home, at the temporary files, and for processes.
func (c *tourists) nothingIsLeft() {
	c.t.Helper()
	c.homeIsUntouched()
	if left, err := os.ReadDir(c.temp); err != nil || len(left) > 0 {
		c.t.Errorf("temporary files are left: %v %v", left, err)
	}
	if left := processesIn(c.t, c.temp); len(left) > 0 {
		c.t.Errorf("processes are left: %v", left)
	}
}

// childrenKnowNothing looks at what runs while the server of the tour is up:
// there is somebody besides the tour itself, and nobody was given what is the
// user's.
func (c *tourists) childrenKnowNothing(tour int) {
	c.t.Helper()
	children := 0
	for _, p := range processesIn(c.t, c.temp) {
		pid, _, _ := strings.Cut(p, " ")
		if pid == fmt.Sprint(tour) {
			continue
		}
		children++
		if env, err := os.ReadFile("/proc/" + pid + "/environ"); err != nil || bytes.Contains(env, []byte(theirSecret)) || bytes.Contains(env, []byte(c.home)) {
			c.t.Errorf("%s: %v %q", p, err, bytes.Split(env, []byte{0}))
		}
	}
	if children == 0 {
		c.t.Error("the server is nowhere to be seen")
	}
}

func (c *tourists) homeIsUntouched() {
	c.t.Helper()
	if diff := cmp.Diff(c.before, snapshot(c.t, c.home)); diff != "" {
		c.t.Errorf("the home of the user changed:\n%s", diff)
	}
}

// snapshot is what a folder holds: names, modes, times and contents.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var sum [32]byte
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum = sha256.Sum256(data)
		}
		all[path] = fmt.Sprintf("%s %s %x", info.Mode(), info.ModTime(), sum)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// processesIn returns the processes that have a folder in their environment or
// work in it.
func processesIn(t *testing.T, dir string) (found []string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return nil // only there can everybody's environment be read
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(all) == 0 {
		t.Fatalf("no processes in /proc: %v", err)
	}
	for _, p := range all {
		env, _ := os.ReadFile(p + "/environ") // one that ended meanwhile has none
		where, _ := os.Readlink(p + "/cwd")
		if bytes.Contains(env, []byte(dir)) || strings.HasPrefix(where, dir) {
			line, _ := os.ReadFile(p + "/cmdline")
			found = append(found, strings.TrimPrefix(p, "/proc/")+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return found
}

func TestTheTourTouchesNothingOfTheUser(t *testing.T) {
	t.Parallel()
	c := newTourists(t)
	cmd := c.command("--json", "--keep")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		var step tour.StepResult
		if err := json.Unmarshal([]byte(line), &step); err != nil || !step.OK || step.Seen == "" || len(step.Commands) == 0 {
			t.Errorf("%v: %s", err, line)
		}
		names = append(names, step.Name)
	}
	if got := strings.Join(names, " "); got != "chat kill resume branch search export import fleet serve" {
		t.Errorf("the steps are %s", got)
	}
	c.homeIsUntouched()
	if left := processesIn(t, c.temp); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}

	kept := regexp.MustCompile(`(?m)^Kept: (.*)\nIts store opens with: tidemark (.*)$`).FindStringSubmatch(stderr.String())
	if kept == nil || filepath.Dir(kept[1]) != c.temp {
		t.Fatalf("it does not say where the folder is: %s", stderr.String())
	}
	err = filepath.WalkDir(kept[1], func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && d.Type()&fs.ModeSocket == 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if files, _, holding, err := tour.FilesWith(os.DirFS(kept[1]), theirSecret); err != nil || files < 8 || len(holding) > 0 {
		t.Errorf("of %d files these hold a key of the user: %v %v", files, holding, err)
	}
	again := tidemarkIn(t.TempDir(), tour.Words(kept[2])...)
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "ferry") || !strings.Contains(string(out), "lamp timer") {
		t.Errorf("%s: %v\n%s", kept[2], err, out)
	}
}

// onTerminal begins a tour on a terminal.
func (c *tourists) onTerminal(columns uint16, args ...string) *terminalChat {
	c.t.Helper()
	cmd := c.command(args...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 60, Cols: columns})
	if err != nil {
		c.t.Skipf("no terminal: %v", err)
	}
	c.t.Cleanup(func() {
		cmd.Process.Kill()
		tty.Close()
	})
	on := &terminalChat{cmd: cmd, tty: tty, dir: c.home,
		screen: &screen{t: c.t, term: vt10x.New(vt10x.WithSize(int(columns), 60), vt10x.WithWriter(tty)), read: make(chan []byte)}}
	go on.listen(tty)
	return on
}

const pauseText = "Enter goes on, q leaves."

// walkTo presses Enter until a step is done.
func walkTo(on *terminalChat, step int) {
	on.t.Helper()
	for i := 1; ; i++ {
		on.shows(fmt.Sprintf("%d/9  ", i), pauseText)
		if i == step {
			return
		}
		on.types("\r")
		on.shows(fmt.Sprintf("%d/9  ", i+1))
	}
}

func TestTheTourWaitsForAKeyAndEndsInAChat(t *testing.T) {
	t.Parallel()
	for _, columns := range []uint16{60, 80} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			c := newTourists(t)
			on := c.onTerminal(columns)
			walkTo(on, 9)
			on.shows("/signin?code=")
			if runtime.GOOS == "linux" {
				c.childrenKnowNothing(on.cmd.Process.Pid)
			}
			on.types("x\r") // what means nothing is passed over
			on.shows("$ tidemark chat --resume ferry", "Resumed session", "you>")
			on.types("Thank you.\r")
			on.shows(`You said: "Thank you."`)
			on.types("\x04")
			if code := on.endsAtAll(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, on.term.String())
			}
			if shown := strings.Join(strings.Fields(on.term.String()), " "); !strings.Contains(shown, "Session saved:") || !strings.Contains(shown, "is removed,") {
				t.Errorf("the end is\n%s", shown)
			}
			c.nothingIsLeft()
		})
	}
}

func TestLeavingTheTourAnywhereLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		leave func(*terminalChat)
		code  int
	}{
		"q at a pause":      {func(on *terminalChat) { walkTo(on, 1); on.types("q") }, 0},
		"Ctrl-D at a pause": {func(on *terminalChat) { walkTo(on, 2); on.types("\x04") }, 0},
		"Ctrl-C at a pause": {func(on *terminalChat) { walkTo(on, 1); on.types("\x03") }, 130},
		"SIGTERM at a pause": {func(on *terminalChat) {
			walkTo(on, 1)
			on.cmd.Process.Signal(syscall.SIGTERM)
		}, 143},
		"Ctrl-C, twice, while a fleet runs": {func(on *terminalChat) {
			walkTo(on, 7)
			on.types("\r")
			on.shows("The fleet is up.")
			on.types("\x03\x03")
		}, 130},
		"SIGHUP while a server runs": {func(on *terminalChat) {
			walkTo(on, 9)
			on.cmd.Process.Signal(syscall.SIGHUP)
		}, 129},
		"Ctrl-C, twice, in the chat": {func(on *terminalChat) {
			walkTo(on, 9)
			on.types("\r")
			on.shows("asks ·") // below the prompt: what was said before has a you>, too
			on.types("\x03\x03")
		}, 130},
		"SIGTERM in the chat": {func(on *terminalChat) {
			walkTo(on, 9)
			on.types("\r")
			on.shows("asks ·")
			on.cmd.Process.Signal(syscall.SIGTERM)
		}, 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTourists(t)
			on := c.onTerminal(80)
			way.leave(on)
			if code := on.endsAtAll(); code != way.code {
				t.Errorf("exit code %d, want %d:\n%s", code, way.code, on.term.String())
			}
			c.nothingIsLeft()
		})
	}
}

func TestTheTourEndsWhenNobodyReadsIt(t *testing.T) {
	t.Parallel()
	c := newTourists(t)
	cmd := c.command()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(io.LimitReader(out, 16)).ReadByte(); err != nil {
		t.Error(err)
	}
	out.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	c.nothingIsLeft()
}

// shortTour is a tour of steps of the test's own, in its own process.
func shortTour(t *testing.T) (*tour.Tour, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	tr, err := tour.New(t.TempDir(), tour.Options{Program: exe, Name: "tidemark", Environ: os.Environ(), Out: &out, Err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return tr, &out
}

func TestAStepThatDoesNotDoWhatItClaimsFailsTheTour(t *testing.T) {
	t.Parallel()
	checkOf := func(name string) func(context.Context, *tour.Tour) (string, error) {
		steps := tour.Steps()
		return steps[slices.IndexFunc(steps, func(s tour.Step) bool { return s.Name == name })].Check
	}
	fine := func(context.Context, *tour.Tour) (string, error) { return "All is well.", nil }
	talk := tour.Command{Line: `tidemark chat --provider demo --name ferry -p "The Valletta ferry is late."`}
	for name, steps := range map[string][]tour.Step{
		"its command fails":              {{Commands: []tour.Command{{Line: "tidemark show nobody"}}, Check: fine}},
		"its command says another thing": {{Commands: []tour.Command{{Line: "tidemark version", Find: "teapot"}}, Check: fine}},
		"what should stay has ended":     {{Commands: []tour.Command{{Line: "tidemark version", Find: "teapot", Stays: true}}, Check: fine}},
		"the kill came too late": {{Commands: []tour.Command{talk}, Check: fine},
			{Commands: []tour.Command{{Line: `tidemark chat -c -p "Hello"`, Find: "never said", Kill: true}}, Check: checkOf("kill")}},
		"an entry is gone": {{Commands: []tour.Command{talk}, Check: func(_ context.Context, t *tour.Tour) (string, error) {
			t.Told["kept"] = "5"
			return "", nil
		}}, {Commands: []tour.Command{{Line: `tidemark cat ferry --jq "[.seq, .kind, .role]"`}}, Check: checkOf("resume")}},
		"a word can be read": {{Commands: []tour.Command{{Line: talk.Line + " --no-encrypt"}}, Check: checkOf("search")}},
		"an import is short": {{Commands: []tour.Command{{Line: "tidemark version"}}, Check: checkOf("import")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, out := shortTour(t)
			err := tr.Walk(t.Context(), steps)
			if err == nil || exitOf(err) != 1 || !strings.Contains(out.String(), "✗ ") || strings.Contains(out.String(), "That was it") {
				t.Errorf("it ended with %v:\n%s", err, out)
			}
		})
	}
}
