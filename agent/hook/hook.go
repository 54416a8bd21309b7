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
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
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
	Claude  string // the person's folder for Claude Code; "": none
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
// those of the person's own file, and of their folder for Claude Code.
func Source(own, claude string) func(agent.Programs) chat.Hooks {
	return func(p agent.Programs) chat.Hooks {
		return New(Options{Own: own, Claude: claude, Project: p.Project, IsProject: p.IsProject, Environ: p.Environ, Sandbox: p.Fence.Sandbox, Unfenced: p.Fence.Unfenced})
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
	found, problems := h.o.read()
	for _, p := range problems {
		h.tell(c, "Hooks: "+p)
	}
	about := cmp.Or(m.Tool, m.Kind)
	for _, file := range found {
		if rule := file.denies(m, h.o.Project); rule != "" {
			why := fmt.Sprintf("%s denies %s", file.file, rule)
			return []chat.Hook{{Name: render.Phrase(why), Run: func(context.Context) chat.HookAnswer { return chat.HookAnswer{Veto: why} }}}
		}
	}
	for _, file := range found {
		var meant []Definition
		for _, d := range file.all {
			if d.Event == m.Event && (about == "" || d.matches(about)) {
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
		held := seeing(h.o.Sandbox, file.scripts(h.o.Project))
		for _, d := range meant {
			if h.o.Unfenced != "" && !d.Unheld {
				h.tell(c, fmt.Sprintf("Hooks of %s do not run: %s", file.file, h.o.Unfenced))
				continue
			}
			due = append(due, chat.Hook{Name: render.Phrase(d.Command), Run: func(ctx context.Context) chat.HookAnswer { return h.answer(ctx, c, d, m, held) }})
		}
	}
	return due
}

// seeing is a sandbox in which scripts can be read, too: those that the person
// approved, from a folder that is hidden otherwise.
func seeing(s *tool.Sandbox, scripts map[string]string) *tool.Sandbox {
	if s == nil || len(scripts) == 0 {
		return s
	}
	return &tool.Sandbox{Confine: s.Confine, Policy: func() sandbox.Policy {
		p := s.Policy()
		p.Read = append(slices.Clone(p.Read), slices.Sorted(maps.Keys(scripts))...)
		return p
	}}
}

// answer runs a hook and returns what it says.
func (h *Hooks) answer(ctx context.Context, c *chat.Chat, d Definition, m chat.Moment, held *tool.Sandbox) chat.HookAnswer {
	report := func(format string, args ...any) chat.HookAnswer {
		c.Notify(fmt.Sprintf("The hook %s at %s ", render.Phrase(d.Command), d.Event) + fmt.Sprintf(format, args...))
		return chat.HookAnswer{}
	}
	input, err := inputOf(m, h.o.Project)
	if err != nil {
		return report("was not run: %s", err)
	}
	if d.Unheld {
		held = nil
	}
	e, err := h.run(ctx, d, input, held)
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
func (h *Hooks) run(ctx context.Context, d Definition, input []byte, held *tool.Sandbox) (e ended, err error) {
	ctx, stop := context.WithTimeout(ctx, d.Timeout)
	defer stop()
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
	RowDenies   = "denies"   // no program: calls like this are refused
)

// Rows lists the hooks of a conversation, with what the person said about them in
// the project, and what is wrong with their files.
func (h *Hooks) Rows(granted *grant.Scope) (rows []Row, problems []string) {
	found, problems := h.o.read()
	for _, file := range found {
		for _, r := range file.deny {
			rows = append(rows, Row{file.file, RowDenies, string(chat.HookBefore), "", r.rule})
		}
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
