// Package tour walks through the program on a throw-away store: each step runs
// commands of the program as a person would, in a home of its own, and checks
// that they did what is claimed.
//
// It reads nothing of the user except what it is given: the environment is
// reduced to what a program needs to run, and everything is written to one
// temporary folder, which is removed however the tour ends.
//
//	err := tour.Run(ctx, tour.Options{Program: exe, Name: "tidemark", Environ: os.Environ(), Out: os.Stdout, Err: os.Stderr})
package tour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/repl"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

const (
	// commandTimeout bounds how long one command of the tour may take, so that
	// a tour that nobody watches ends.
	commandTimeout = time.Minute
	// stopTimeout is how long a command has to end when told to.
	stopTimeout = 3 * time.Second
	// shownLines is how much is shown of what one command prints.
	shownLines = 14
	// maxColumns is the widest that the tour writes.
	maxColumns = 80
	// exitInterrupted is the exit code of a chat that was left by Ctrl-C.
	exitInterrupted = 130
)

// ErrInterrupted means that the person left by Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// Options are what the tour needs from its caller.
type Options struct {
	Program  string   // the file to run
	Name     string   // the name it was called by
	Environ  []string // reduced for the commands to what they need to run
	In       io.Reader
	Out, Err io.Writer

	Keep     bool // keep the folder, and say where it is
	Asks     bool // somebody watches, and continues by a key
	Terminal bool // Out is one
	Color    bool
	Columns  int // of the terminal, 0 if unknown
	// Report receives each step, instead of text for people on Out.
	Report func(StepResult) error
	// Raw switches the terminal to single keys; nil if it cannot.
	Raw func() (restore func() error, err error)
	// ReadToken reads the token of a server from a file.
	ReadToken func(file string) (string, error)
	// Talking is set while a chat has the terminal, and handles Ctrl-C itself.
	Talking *atomic.Bool
}

// Tour is one walk.
type Tour struct {
	Options
	// Told is what commands printed, by the names of the matching groups.
	Told map[string]string

	dir string // everything is in here
	// Of the current step: what its commands printed, how the last one ended,
	// and what still runs.
	said    string
	ended   *os.ProcessState
	running []*runningCommand
	cancel  context.CancelCauseFunc
}

// StepResult is a step for programs.
type StepResult struct {
	Step     int      `json:"step"`
	Of       int      `json:"of"`
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Commands []string `json:"commands"`
	OK       bool     `json:"ok"`
	Seen     string   `json:"seen,omitempty"`
	Error    string   `json:"error,omitempty"`
	Seconds  float64  `json:"seconds"`
}

// New returns a tour in an existing empty folder.
func New(dir string, o Options) (*Tour, error) {
	t := &Tour{Options: o, Told: make(map[string]string), dir: dir, cancel: func(error) {}}
	for _, dir := range []string{t.home(), t.workDir(), t.temp()} {
		if err := durable.MakeDir(dir); err != nil {
			return nil, tidemark.Storagef("%w", err)
		}
	}
	if err := furnish(t.home()); err != nil {
		return nil, tidemark.Storagef("%w", err)
	}
	return t, nil
}

// Run creates the folder, runs the tour, and removes the folder, however the
// tour ended. When ctx ends, its cause is the error; when the person left by
// Ctrl-C, it is ErrInterrupted.
func Run(ctx context.Context, o Options) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	scratch, err := durable.NewScratch("tidemark")
	if err != nil {
		return hint.With(tidemark.Storagef("%w", err), "name a folder for temporary files with $TMPDIR")
	}
	t, err := New(scratch.Dir(), o)
	if err != nil {
		return errors.Join(err, scratch.Close())
	}
	t.cancel = cancel
	defer func() {
		t.stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if t.Keep {
			t.kept(context.WithoutCancel(ctx))
			return
		}
		if removeErr := scratch.Close(); removeErr != nil {
			err = errors.Join(err, tidemark.Storagef("%w", removeErr))
			return
		}
		t.tell("2", "\n%s is removed, with all that was in it. To keep it: tidemark tour --keep", t.dir)
	}()
	return t.Walk(ctx, Steps())
}

// The folders of the tour: the home, with the store and its key in their
// usual places; the project that commands run in; and temporary files.
func (t *Tour) home() string    { return filepath.Join(t.dir, "home") }
func (t *Tour) workDir() string { return filepath.Join(t.dir, "harbour") }
func (t *Tour) temp() string    { return filepath.Join(t.dir, "tmp") }

// Walk goes from step to step.
func (t *Tour) Walk(ctx context.Context, steps []Step) error {
	t.tell("", "Welcome to Tidemark. This is a walk through it in %d steps, on a store that is thrown away at the end. Nothing of yours is read or changed.", len(steps))
	t.tell("", "Lines that begin with $ are what you would type, and what is run.")
	for i, s := range steps {
		t.tell("1", "\n%s", ruled(fmt.Sprintf("%d/%d  %s", i+1, len(steps), s.Title), t.width()))
		t.tell("", "%s", s.Why)
		began := time.Now()
		view, err := t.step(ctx, s)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		view.Step, view.Of, view.Seconds = i+1, len(steps), float64(time.Since(began).Milliseconds())/1000
		if err := t.report(view); err != nil {
			return err
		}
		if err != nil {
			return hint.With(fmt.Errorf("step %d of the tour, %s: %s", i+1, s.Name, err), "look at what it left with: tidemark tour --keep")
		}
		if t.Asks {
			if goOn, err := t.pause(ctx); err != nil || !goOn {
				return err
			}
		}
		t.stop()
	}
	return t.end(ctx)
}

// step runs the commands of a step and checks the result.
func (t *Tour) step(ctx context.Context, s Step) (StepResult, error) {
	view := StepResult{Name: s.Name, Title: s.Title}
	t.said = ""
	for _, c := range s.Commands {
		if c.Person && !t.Asks {
			continue
		}
		line := t.fill(c.Line)
		view.Commands = append(view.Commands, line)
		if err := t.do(ctx, c, line); err != nil {
			view.Error = err.Error()
			return view, err
		}
	}
	seen, err := s.Check(ctx, t)
	if err != nil {
		view.Error = err.Error()
		return view, err
	}
	view.OK, view.Seen = true, seen
	return view, nil
}

// report reports how a step ended.
func (t *Tour) report(v StepResult) error {
	if t.Report != nil {
		return t.Report(v)
	}
	if v.OK {
		t.tell("32", "✓ %s", v.Seen)
	} else {
		t.tell("31", "✗ %s", v.Error)
	}
	return nil
}

// fill replaces the placeholders of a line by their values.
func (t *Tour) fill(line string) string {
	for name, text := range t.Told {
		line = strings.ReplaceAll(line, "{"+name+"}", text)
	}
	return line
}

// Words splits a line into words like a shell; of its quotes the tour uses
// double ones around whole words.
func Words(line string) (words []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// do shows and runs one command, and records the values that it printed.
func (t *Tour) do(ctx context.Context, c Command, line string) error {
	mark := ""
	if c.Stays {
		mark = " &"
	}
	t.print("\n" + t.style("1;36", "$ "+line+mark) + "\n")
	find := regexp.MustCompile(t.fill(c.Find))
	wake := find
	if !c.Stays && !c.Kill {
		wake = nil // it ends by itself
	}
	p, err := t.start(Words(line)[1:], wake, t.show())
	if err != nil {
		return err
	}
	late := time.NewTimer(commandTimeout)
	defer late.Stop()
	select {
	case <-p.found:
	case <-p.done:
	case <-ctx.Done():
	case <-late.C:
		err = fmt.Errorf("%s: not done after %s", line, commandTimeout)
	}
	switch {
	case ctx.Err() != nil || err != nil:
		p.stop()
	case c.Stays && !p.isDone():
		p.mute()
		t.running = append(t.running, p)
	case c.Kill:
		p.cmd.Process.Kill()
		<-p.done
	}
	if err == nil {
		err = t.learn(p, c, line, find)
	}
	return err
}

// learn checks the output of a command and how it ended.
func (t *Tour) learn(p *runningCommand, c Command, line string, find *regexp.Regexp) error {
	out := p.text()
	t.said += out
	if p.isDone() {
		t.ended = p.cmd.ProcessState
		if !c.Kill && !t.ended.Success() {
			return fmt.Errorf("%s: %s", line, t.ended)
		}
	}
	m := find.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("%s: does not say %s", line, find)
	}
	for i, name := range find.SubexpNames() {
		if name != "" {
			t.Told[name] = m[i]
		}
	}
	return nil
}

// pause waits for a key, and reports whether to continue.
func (t *Tour) pause(ctx context.Context) (goOn bool, err error) {
	// Single keys where the terminal can; otherwise a line does as well. A
	// key that comes while the question is written must not be echoed.
	if t.Raw != nil {
		if restore, err := t.Raw(); err == nil {
			defer func() {
				restore()
				t.print("\r\x1b[K\x1b[A") // as if it had not been asked
			}()
		}
	}
	t.print("\r\n" + t.style("2", "Enter goes on, q leaves. "))
	keys := make(chan byte)
	for {
		go func() {
			key := [1]byte{4}
			t.In.Read(key[:]) // the end of the input leaves, like Ctrl-D
			keys <- key[0]
		}()
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case key := <-keys:
			switch key {
			case '\r', '\n', ' ':
				return true, nil
			case 'q', 'Q', 4: // Ctrl-D
				return false, nil
			case 3: // Ctrl-C
				return false, ErrInterrupted
			}
		}
	}
}

// end finishes the tour; a person who watches gets the terminal.
func (t *Tour) end(ctx context.Context) error {
	t.tell("1", "\n%s", ruled("That was it", t.width()))
	if path, err := exec.LookPath("tidemark"); err != nil || !sameFile(path, t.Program) {
		t.tell("", "This program is not on your PATH yet. Until it is, type %s in place of tidemark.", t.Program)
	}
	t.tell("", "On your own store: tidemark chat (with --provider demo while you have no key), tidemark import --all, tidemark help. The first ten minutes are in docs/start.md.")
	if !t.Asks {
		return nil
	}
	t.tell("", "Before you go: this is the conversation of the tour. Say something; /help lists what else it can do, and Ctrl-D leaves.")
	t.print("\n" + t.style("1;36", "$ tidemark chat --resume ferry") + "\n")
	return t.talk(ctx)
}

// talk gives the terminal to a chat.
func (t *Tour) talk(ctx context.Context) error {
	chat := t.command(ctx, "chat", "--resume", "ferry")
	chat.Stdin, chat.Stdout, chat.Stderr = t.In, t.Out, t.Err
	// It has its own way to leave, and bounds how long that takes.
	chat.Cancel = func() error { return process.Signal(chat.Process.Pid, syscall.SIGTERM) }
	chat.WaitDelay = agent.LearnTimeout + repl.CloseTimeout
	t.Talking.Store(true)
	defer t.Talking.Store(false)
	err := chat.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitInterrupted {
		return ErrInterrupted
	}
	return err
}

// kept says where the folder is, and how to open its store.
func (t *Tour) kept(ctx context.Context) {
	url, err := t.ask(ctx, "config", "show", "--jq", `.[] | select(.name == "store").value`)
	if err != nil || t.Told["key"] == "" {
		fmt.Fprintf(t.Err, "Kept: %s\n", t.dir)
		return
	}
	words := []string{"tidemark", "--store", strings.TrimSpace(url), "--key-file", t.Told["key"], "ls", "-A"}
	for i, w := range words {
		if strings.Contains(w, " ") {
			words[i] = `"` + w + `"`
		}
	}
	fmt.Fprintf(t.Err, "Kept: %s\nIts store opens with: %s\n", t.dir, strings.Join(words, " "))
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
