package tour

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark/internal/process"
)

// ask runs a command for a check, without showing it.
func (t *Tour) ask(ctx context.Context, args ...string) (string, error) {
	cmd := t.command(ctx, args...)
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("tidemark %s: %w", strings.Join(args, " "), err)
	}
	return string(out), err
}

// command is this program, in the home of the tour.
func (t *Tour) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, t.Program, args...)
	cmd.Args[0] = t.Name
	cmd.Dir, cmd.Env = t.workDir(), t.environ()
	cmd.WaitDelay = stopTimeout
	return cmd
}

// environ has what a program needs to run, and nothing about the user's
// folders, keys or preferences.
func (t *Tour) environ() []string {
	kept := []string{"PATH", "TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "NO_COLOR", "CLICOLOR",
		"SystemRoot", "SystemDrive", "ComSpec", "PATHEXT"}
	env := slices.DeleteFunc(slices.Clone(t.Environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.ContainsFunc(kept, func(k string) bool { return strings.EqualFold(k, name) })
	})
	roaming := filepath.Join(t.home(), "AppData", "Roaming")
	for name, dir := range map[string]string{"HOME": t.home(), "USERPROFILE": t.home(), "APPDATA": roaming, "LOCALAPPDATA": roaming,
		"TMPDIR": t.temp(), "TMP": t.temp(), "TEMP": t.temp()} {
		env = append(env, name+"="+dir)
	}
	return env
}

// runningCommand is a running command, with all that it started.
type runningCommand struct {
	cmd    *exec.Cmd
	family process.Family
	done   chan struct{}
	found  chan struct{} // closed when wake has matched the output

	mu   sync.Mutex
	out  bytes.Buffer
	line int // start in out of the line that is not shown yet
	wake *regexp.Regexp
	show func(line string)
}

// start starts this program. Its output is what it would print on a terminal
// of the same width, without colour: colour marks the tour's own text.
func (t *Tour) start(args []string, wake *regexp.Regexp, show func(line string)) (*runningCommand, error) {
	p := &runningCommand{cmd: t.command(context.Background(), args...), done: make(chan struct{}), found: make(chan struct{}), wake: wake, show: show}
	p.cmd.Env = append(p.cmd.Env, "NO_COLOR=1")
	if t.Terminal {
		p.cmd.Env = append(p.cmd.Env, "TIDEMARK_FORCE_TTY="+strconv.Itoa(t.width()-2))
	}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	var err error
	if p.family, err = process.Start(p.cmd, ""); err != nil {
		return nil, err
	}
	go func() {
		p.cmd.Wait() // its ProcessState says how it ended
		p.family.Kill()
		p.family.Release()
		close(p.done)
	}()
	return p, nil
}

// Write takes what the process prints.
func (p *runningCommand) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Write(b)
	for {
		line, _, whole := strings.Cut(string(p.out.Bytes()[p.line:]), "\n")
		if !whole {
			break
		}
		p.line += len(line) + 1
		if p.show != nil {
			p.show(line)
		}
	}
	if p.wake != nil && p.wake.Match(p.out.Bytes()) {
		p.wake = nil
		close(p.found)
	}
	return len(b), nil
}

func (p *runningCommand) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// mute shows nothing more of the output.
func (p *runningCommand) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show = nil
}

func (p *runningCommand) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop ends a process and all that it started.
func (p *runningCommand) stop() {
	if !p.isDone() {
		p.family.Stop(stopTimeout)
		<-p.done
	}
}

// stop ends what still runs.
func (t *Tour) stop() {
	for _, p := range t.running {
		p.stop()
	}
	t.running = nil
}
