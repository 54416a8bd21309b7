package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/repl"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/render"
)

const (
	// tourTimeout bounds how long one command of the tour may take, so that a
	// tour that nobody watches ends.
	tourTimeout = time.Minute
	// tourGrace is what a command has to end when it is told to.
	tourGrace = 3 * time.Second
	// tourLines is how much is shown of what one command prints.
	tourLines = 14
	// tourColumns is the widest that the tour writes.
	tourColumns = 80
)

// tour walks through the program: each step runs commands of this very program
// as a person would, in a home of its own, and looks whether they did what is
// claimed.
type tour struct {
	*app
	keep bool
	asks bool   // somebody watches, and goes on by a key
	dir  string // everything is in here
	exe  string // this program, and the name that it was called by
	name string
	told map[string]string // what commands printed, by the names of the groups that found it
	// Of the step under way: what its commands printed, how the last one ended,
	// and what still runs.
	said    string
	ended   *os.ProcessState
	running []*tourProcess
	cancel  context.CancelCauseFunc
	talking atomic.Bool // a chat has the terminal
}

// tourView is a step for programs.
type tourView struct {
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

func tourCommand(a *app) *cobra.Command {
	t := &tour{app: a, name: os.Args[0], told: make(map[string]string)}
	cmd := &cobra.Command{
		Use:   "tour",
		Short: "A walk through all of it, on a throw-away store",
		Long: `Shows what this program does, in two minutes: it chats with the demo model, kills
the chat with SIGKILL, goes on, branches, searches, exports, imports, runs a
fleet and a server. Each step prints the commands that it runs, so that you can
type them yourself, and checks what came of them.

It needs no network, no account and no configuration, and touches nothing of
yours: everything is in a temporary folder, which is removed at the end and at
Ctrl-C. On a terminal it waits for a key between the steps and ends in a chat;
in a pipe, or with --no-input, it runs through.`,
		Example: `  tidemark tour
  tidemark tour --keep
  tidemark tour --json=name,ok,seen`,
		Args: usage(cobra.NoArgs),
		// In place of what all other commands do first: the tour works without
		// the configuration of the user, and despite one that is broken.
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.color = a.terminal && !a.noColor && wantsColor(settings{})
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.storeURL != "" || a.keyFile != "" || a.configFile != "" || a.noEncrypt {
				return withHint(tidemark.Invalidf("the tour has a store and a key of its own"), "tidemark tour")
			}
			return t.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&t.keep, "keep", false, "leave the temporary folder there, and say where it is")
	return cmd
}

// run makes the folder, walks, and removes the folder, however the walk ended.
func (t *tour) run(ctx context.Context) (err error) {
	if t.exe, err = os.Executable(); err != nil {
		return err
	}
	ctx, t.cancel = context.WithCancelCause(ctx)
	defer t.cancel(nil)
	t.hearSignals()
	t.asks = t.terminal && !t.noInput && !t.wantsJSON() && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
	scratch, err := durable.NewScratch("tidemark")
	if err != nil {
		return withHint(tidemark.Storagef("%w", err), "name a folder for temporary files with $TMPDIR")
	}
	t.dir = scratch.Dir()
	defer func() {
		t.stop()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if t.keep {
			t.kept(context.WithoutCancel(ctx))
			return
		}
		if removeErr := scratch.Close(); removeErr != nil {
			err = errors.Join(err, tidemark.Storagef("%w", removeErr))
			return
		}
		t.tell("2", "\n%s is removed, with all that was in it. To keep it: tidemark tour --keep", t.dir)
	}()
	for _, dir := range []string{t.home(), t.workDir(), t.temp()} {
		if err := durable.MakeDir(dir); err != nil {
			return tidemark.Storagef("%w", err)
		}
	}
	if err := furnish(t.home()); err != nil {
		return tidemark.Storagef("%w", err)
	}
	return t.walk(ctx, tourSteps())
}

// hearSignals makes every signal an orderly end. Further ones change nothing:
// what is left to do then is short, and would otherwise be left undone.
func (t *tour) hearSignals() {
	hear := func(s os.Signal) {
		// A reader that went away is noticed by the next write; a chat that has
		// the terminal knows what Ctrl-C means.
		if s == syscall.SIGPIPE || s == os.Interrupt && t.talking.Load() {
			return
		}
		t.cancel(&stopped{signal: s})
	}
	t.onSignal.Store(&hear)
	signal.Notify(t.signals, syscall.SIGPIPE)
	t.hearUnlessIgnored(syscall.SIGHUP)
}

// The folders of the tour: the home, with the store and its key where they
// always are; the project that commands are run in; and temporary files.
func (t *tour) home() string    { return filepath.Join(t.dir, "home") }
func (t *tour) workDir() string { return filepath.Join(t.dir, "harbour") }
func (t *tour) temp() string    { return filepath.Join(t.dir, "tmp") }

// walk goes from step to step.
func (t *tour) walk(ctx context.Context, steps []tourStep) error {
	t.tell("", "Welcome to Tidemark. This is a walk through it in %d steps, on a store that is thrown away at the end. Nothing of yours is read or changed.", len(steps))
	t.tell("", "Lines that begin with $ are what you would type, and what is run.")
	for i, s := range steps {
		t.tell("1", "\n%s", ruled(fmt.Sprintf("%d/%d  %s", i+1, len(steps), s.title), t.width()))
		t.tell("", "%s", s.why)
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
			return withHint(fmt.Errorf("step %d of the tour, %s: %s", i+1, s.name, err), "look at what it left with: tidemark tour --keep")
		}
		if t.asks {
			if goOn, err := t.pause(ctx); err != nil || !goOn {
				return err
			}
		}
		t.stop()
	}
	return t.end(ctx)
}

// step runs the commands of a step and checks what came of them.
func (t *tour) step(ctx context.Context, s tourStep) (tourView, error) {
	view := tourView{Name: s.name, Title: s.title}
	t.said = ""
	for _, c := range s.commands {
		if c.person && !t.asks {
			continue
		}
		line := t.fill(c.line)
		view.Commands = append(view.Commands, line)
		if err := t.do(ctx, c, line); err != nil {
			view.Error = err.Error()
			return view, err
		}
	}
	seen, err := s.check(ctx, t)
	if err != nil {
		view.Error = err.Error()
		return view, err
	}
	view.OK, view.Seen = true, seen
	return view, nil
}

// report says how a step ended.
func (t *tour) report(v tourView) error {
	if t.wantsJSON() {
		b, err := marshal(v)
		if err != nil {
			return err
		}
		return t.printJSON(t.out, b)
	}
	if v.OK {
		t.tell("32", "✓ %s", v.Seen)
	} else {
		t.tell("31", "✗ %s", v.Error)
	}
	return nil
}

// fill puts what was told in the places of a line that ask for it.
func (t *tour) fill(line string) string {
	for name, text := range t.told {
		line = strings.ReplaceAll(line, "{"+name+"}", text)
	}
	return line
}

// typed cuts a line into words as a shell does; of its quotes the tour uses
// double ones around whole words.
func typed(line string) (words []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// do shows and runs one command, and takes from it what it told.
func (t *tour) do(ctx context.Context, c tourLine, line string) error {
	mark := ""
	if c.stays {
		mark = " &"
	}
	t.print("\n" + t.style("1;36", "$ "+line+mark) + "\n")
	find := regexp.MustCompile(t.fill(c.find))
	wake := find
	if !c.stays && !c.kill {
		wake = nil // it ends by itself
	}
	p, err := t.start(typed(line)[1:], wake, t.show())
	if err != nil {
		return err
	}
	late := time.NewTimer(tourTimeout)
	defer late.Stop()
	select {
	case <-p.found:
	case <-p.done:
	case <-ctx.Done():
	case <-late.C:
		err = fmt.Errorf("%s: not done after %s", line, tourTimeout)
	}
	switch {
	case ctx.Err() != nil || err != nil:
		p.stop()
	case c.stays && !p.isDone():
		p.mute()
		t.running = append(t.running, p)
	case c.kill:
		p.cmd.Process.Kill()
		<-p.done
	}
	if err == nil {
		err = t.learn(p, c, line, find)
	}
	return err
}

// learn looks at what a command printed and how it ended.
func (t *tour) learn(p *tourProcess, c tourLine, line string, find *regexp.Regexp) error {
	out := p.text()
	t.said += out
	if p.isDone() {
		t.ended = p.cmd.ProcessState
		if !c.kill && !t.ended.Success() {
			return fmt.Errorf("%s: %s", line, t.ended)
		}
	}
	m := find.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("%s: does not say %s", line, find)
	}
	for i, name := range find.SubexpNames() {
		if name != "" {
			t.told[name] = m[i]
		}
	}
	return nil
}

// pause waits for a key, and reports whether to go on.
func (t *tour) pause(ctx context.Context) (goOn bool, err error) {
	// Key by key where the terminal can; else a line does as well. A key that
	// comes while the question is written must not be shown already.
	if os.Getenv("TERM") != "dumb" {
		if was, err := term.MakeRaw(int(os.Stdin.Fd())); err == nil {
			defer func() {
				term.Restore(int(os.Stdin.Fd()), was)
				t.print("\r\x1b[K\x1b[A") // as if it had not been asked
			}()
		}
	}
	t.print("\r\n" + t.style("2", "Enter goes on, q leaves. "))
	keys := make(chan byte)
	for {
		go func() {
			key := [1]byte{4}
			t.in.Read(key[:]) // no more input leaves, like Ctrl-D
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
				return false, &stopped{signal: os.Interrupt, quiet: true}
			}
		}
	}
}

// end is the last word: where somebody watches, it is theirs.
func (t *tour) end(ctx context.Context) error {
	t.tell("1", "\n%s", ruled("That was it", t.width()))
	if path, err := exec.LookPath("tidemark"); err != nil || !sameFile(path, t.exe) {
		t.tell("", "This program is not on your PATH yet. Until it is, type %s in place of tidemark.", t.exe)
	}
	t.tell("", "On your own store: tidemark chat (with --provider demo while you have no key), tidemark import --all, tidemark help. The first ten minutes are in docs/start.md.")
	if !t.asks {
		return nil
	}
	t.tell("", "Before you go: this is the conversation of the tour. Say something; /help lists what else it can do, and Ctrl-D leaves.")
	t.print("\n" + t.style("1;36", "$ tidemark chat --resume ferry") + "\n")
	return t.talk(ctx)
}

// talk gives the terminal to a chat.
func (t *tour) talk(ctx context.Context) error {
	chat := t.command(ctx, "chat", "--resume", "ferry")
	chat.Stdin, chat.Stdout, chat.Stderr = os.Stdin, os.Stdout, os.Stderr
	// It has its own way to leave, and bounds how long that takes.
	chat.Cancel = func() error { return process.Signal(chat.Process.Pid, syscall.SIGTERM) }
	chat.WaitDelay = agent.LearnTimeout + repl.CloseTimeout
	t.talking.Store(true)
	defer t.talking.Store(false)
	err := chat.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitOf(&stopped{signal: os.Interrupt}) {
		return &stopped{signal: os.Interrupt, quiet: true}
	}
	return err
}

// kept says where the folder is, and how to open the store in it.
func (t *tour) kept(ctx context.Context) {
	url, err := t.ask(ctx, "config", "show", "--jq", `.[] | select(.name == "store").value`)
	if err != nil || t.told["key"] == "" {
		fmt.Fprintf(t.err, "Kept: %s\n", t.dir)
		return
	}
	words := []string{"tidemark", "--store", strings.TrimSpace(url), "--key-file", t.told["key"], "ls", "-A"}
	for i, w := range words {
		if strings.Contains(w, " ") {
			words[i] = `"` + w + `"`
		}
	}
	fmt.Fprintf(t.err, "Kept: %s\nIts store opens with: %s\n", t.dir, strings.Join(words, " "))
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// width is how wide the tour writes.
func (t *tour) width() int {
	if t.columns == 0 {
		return tourColumns
	}
	return min(t.columns, tourColumns)
}

// show shows the lines of a command, and counts those that are too many.
func (t *tour) show() func(line string) {
	n := 0
	return func(line string) {
		if n++; n > tourLines {
			if n == tourLines+1 {
				t.print("  …\n")
			}
			return
		}
		line = render.Clean(line)
		switch {
		case !t.terminal:
			line = "  " + line
		case strings.HasPrefix(line, "{"):
			line = render.Truncate("  "+line, t.width()) // JSON has no good place to break
		default:
			line = folded(line, t.width(), "  ")
		}
		t.print(strings.TrimRight(line, " ") + "\n")
	}
}

// tell says something in the tour's own words.
func (t *tour) tell(style, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	lead := text[:len(text)-len(strings.TrimLeft(text, "\n"))]
	t.print(lead + t.style(style, folded(text[len(lead):], t.width(), "")) + "\n")
}

func (t *tour) style(code, text string) string {
	if !t.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// print writes to people. When nobody reads any more, the tour ends.
func (t *tour) print(text string) {
	if t.wantsJSON() {
		return
	}
	if _, err := io.WriteString(t.out, text); err != nil {
		t.cancel(err)
	}
}

// folded breaks a line between words, so that it fits into so many columns,
// each part behind an indent. A word that is longer stays whole.
func folded(line string, columns int, indent string) string {
	text := strings.TrimLeft(line, " ")
	indent += line[:len(line)-len(text)]
	var out strings.Builder
	used := 0
	for text != "" {
		gap := len(text) - len(strings.TrimLeft(text, " "))
		word := gap + len(text[gap:])
		if end := strings.IndexByte(text[gap:], ' '); end >= 0 {
			word = gap + end
		}
		switch w := render.Width(text[:word]); {
		case used == 0:
			out.WriteString(indent + text[:word])
			used = render.Width(indent) + w
		case used+w > columns:
			out.WriteString("\n" + indent + text[gap:word])
			used = render.Width(indent) + w - gap
		default:
			out.WriteString(text[:word])
			used += w
		}
		text = text[word:]
	}
	return out.String()
}

// ruled is a heading.
func ruled(text string, columns int) string {
	return "── " + text + " " + strings.Repeat("─", max(0, columns-render.Width(text)-4))
}
