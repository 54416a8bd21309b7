// Package hook runs the programs that a person or a project wants to have a say
// in a conversation: before and after a call of a tool, when a message is sent,
// and when a turn ends. They are defined in the form that Claude Code has, in
// .tidemark/hooks.json and .claude/settings.json of the project and in a file of
// the person's own. A hook gets JSON on its input; it vetoes with exit code 2 and
// the reason on its error output, or by JSON on its output.
//
// A project's files are written by anybody: none of its hooks starts before the
// person approved the exact content of the file, and of the files of the project
// that the hooks name. Hooks run in the sandbox of the conversation, unless the
// person exempts their own. A hook can refuse, ask and add text; it cannot allow anything. One that hangs, fails
// or says too much is reported, and things go their way.
//
//	options.Hooks = hook.New(hook.Options{Own: file, Project: dir, …})
package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/tool"
)

// Options are the settings of a conversation's hooks.
type Options struct {
	Own     string // the person's file; "": none
	Project string // the folder that hooks start in
	// IsProject is false for a folder whose files do not count.
	IsProject bool
	Environ   []string // of hooks
	// Sandbox confines hooks, nil: nothing does. Unfenced is why they should be
	// confined and cannot be: then none starts.
	Sandbox  *tool.Sandbox
	Unfenced string
}

// Source returns what agent.Options wants: the hooks of a conversation, with
// those of the person's own file.
func Source(own string) func(agent.Programs) chat.Hooks {
	return func(p agent.Programs) chat.Hooks {
		return New(Options{Own: own, Project: p.Project, IsProject: p.IsProject, Environ: p.Environ, Sandbox: p.Fence.Sandbox, Unfenced: p.Fence.Unfenced})
	}
}

// Hooks are the hooks of a conversation. The files are read each time, so that
// what changes in them is asked about, and counts.
type Hooks struct {
	o Options

	mu   sync.Mutex
	said map[string]bool // problems that were reported: once is enough
}

// New returns the hooks of a conversation. Nothing is read or started yet.
func New(o Options) *Hooks { return &Hooks{o: o, said: make(map[string]bool)} }

// root is the project whose files count, "" for none.
func (h *Hooks) root() string {
	if h.o.IsProject {
		return h.o.Project
	}
	return ""
}

// tell reports something to people, the first time.
func (h *Hooks) tell(c *chat.Chat, text string) {
	h.mu.Lock()
	known := h.said[text]
	h.said[text] = true
	h.mu.Unlock()
	if !known {
		c.Notify(text)
	}
}

// Due returns the hooks of a moment that may start. The person is asked about
// those of the project that were not approved.
func (h *Hooks) Due(ctx context.Context, c *chat.Chat, m chat.Moment) (due []chat.Hook) {
	found, problems := read(h.o.Own, h.root())
	for _, p := range problems {
		h.tell(c, "Hooks: "+p)
	}
	for _, file := range found {
		var meant []Definition
		for _, d := range file.all {
			if d.Event == m.Event && (m.Tool == "" || d.matches(m.Tool)) {
				meant = append(meant, d)
			}
		}
		if len(meant) == 0 {
			continue
		}
		if err := c.MayStart(ctx, file.request(h.o.Project)); err != nil {
			if ctx.Err() == nil {
				h.tell(c, fmt.Sprintf("Hooks: %s", err))
			}
			continue
		}
		for _, d := range meant {
			if h.o.Unfenced != "" && !d.Unheld {
				h.tell(c, fmt.Sprintf("Hooks of %s do not run: %s", file.file, h.o.Unfenced))
				continue
			}
			due = append(due, chat.Hook{Name: render.Phrase(d.Command), Run: func(ctx context.Context) chat.HookAnswer { return h.answer(ctx, c, d, m) }})
		}
	}
	return due
}

// answer runs a hook and returns what it says.
func (h *Hooks) answer(ctx context.Context, c *chat.Chat, d Definition, m chat.Moment) chat.HookAnswer {
	report := func(format string, args ...any) chat.HookAnswer {
		c.Notify(fmt.Sprintf("The hook %s at %s ", render.Phrase(d.Command), d.Event) + fmt.Sprintf(format, args...))
		return chat.HookAnswer{}
	}
	input, err := inputOf(m, h.o.Project)
	if err != nil {
		return report("was not run: %s", err)
	}
	e, err := h.run(ctx, d, input)
	switch {
	case ctx.Err() != nil:
		return chat.HookAnswer{}
	case errors.Is(err, context.DeadlineExceeded):
		return report("was stopped after %s; it has no say.", d.Timeout)
	case err != nil:
		return report("could not be run: %s", err)
	}
	a, tell, err := answerOf(d.Event, e)
	if err != nil {
		return report("has no say: %s", err)
	}
	if tell != "" {
		report("says: %s", render.CleanLine(tell))
	}
	return a
}

// outputBytes bounds each output of a hook; what is more is not read as JSON.
const outputBytes = 64 << 10

// ended is how a hook ended.
type ended struct {
	code     int
	out, err string
	cut      bool // out is longer
}

// run runs the command of a hook in a shell, within its time. It always ends,
// with all that it started.
func (h *Hooks) run(ctx context.Context, d Definition, input []byte) (e ended, err error) {
	ctx, stop := context.WithTimeout(ctx, d.Timeout)
	defer stop()
	held := h.o.Sandbox
	if d.Unheld {
		held = nil
	}
	shell := held.LookUp(h.o.Environ, "bash")
	if shell == "" {
		if shell = held.LookUp(h.o.Environ, "sh"); shell == "" {
			return e, tidemark.NotFoundf("there is no shell in PATH, or the sandbox does not see it")
		}
	}
	environ := append(h.o.Environ[:len(h.o.Environ):len(h.o.Environ)], "PWD="+h.o.Project)
	for name, value := range variables(h.o.Project) {
		environ = append(environ, name+"="+value)
	}
	out, said := &start{}, &start{}
	cmd := &exec.Cmd{Path: shell, Args: []string{shell, "-c", d.Command}, Dir: h.o.Project, Env: environ, Stdin: bytes.NewReader(input), Stdout: out, Stderr: said, WaitDelay: time.Second}
	program, err := held.Start(sandbox.Widening{}, cmd)
	if err != nil {
		return e, err
	}
	defer program.Release()
	dead := make(chan error, 1)
	go func() { dead <- cmd.Wait() }()
	select {
	case err = <-dead:
		program.Stop() // what it left behind
	case <-ctx.Done():
		program.Stop()
		<-dead
		return e, ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return ended{cmd.ProcessState.ExitCode(), out.text(), said.text(), out.cut}, err
}

// start keeps the beginning of what a program says.
type start struct {
	kept bytes.Buffer
	cut  bool
}

func (s *start) Write(b []byte) (int, error) {
	room := outputBytes - s.kept.Len()
	if s.cut = s.cut || len(b) > room; s.cut {
		s.kept.Write(b[:min(room, len(b))])
		return len(b), nil
	}
	return s.kept.Write(b)
}

// text is what was kept. The program has ended.
func (s *start) text() string { return strings.ToValidUTF8(s.kept.String(), "\uFFFD") }

// Row is a hook as a list shows it.
type Row struct {
	File    string `json:"file"`
	State   string `json:"state"`
	Event   string `json:"event"`
	Matcher string `json:"matcher,omitempty"`
	Command string `json:"command"`
}

// The states of a hook.
const (
	RowOwn      = "own"      // the person's
	RowApproved = "approved" // of the project, and approved as it is now
	RowDeclined = "declined" // of the project, and the person does not want it
	RowAsks     = "asks"     // of the project: the person is asked before it runs
)

// Rows lists the hooks of a conversation, with what the person said about them in
// the project, and what is wrong with their files.
func (h *Hooks) Rows(granted *grant.Scope) (rows []Row, problems []string) {
	found, problems := read(h.o.Own, h.root())
	for _, file := range found {
		state := RowOwn
		if !file.own {
			yes, answered := file.request(h.o.Project).Granted(granted)
			switch {
			case yes:
				state = RowApproved
			case answered:
				state = RowDeclined
			default:
				state = RowAsks
			}
		}
		for _, d := range file.all {
			rows = append(rows, Row{file.file, state, string(d.Event), d.Matcher, d.Command})
		}
	}
	return rows, problems
}
