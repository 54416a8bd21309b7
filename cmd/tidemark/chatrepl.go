package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// painted is how many entries a resumed session shows at once.
const painted = 50

// repl is a conversation with a person.
type repl struct {
	*talk
	console *terminal.Console
	exits   *waysOut
	inputs  chan terminal.Input
	broken  chan error // why there is no more input
	reading bool       // an input is awaited
	// interactive says that keys are heard while something else happens.
	interactive bool
	onTerminal  bool             // a person is there who can be asked
	queue       []string         // lines that were typed during a turn
	oldest      int64            // the first entry that was shown, for /history
	loaded      []tidemark.Block // documents that go with the next message
	// leaving is why the conversation ends: nil while it goes on.
	leaving *leaving
	hungUp  bool      // the terminal is no more
	idle    time.Time // when the person last did something
}

// converse talks until somebody leaves.
func (t *talk) converse(ctx context.Context, id tidemark.SessionID, seq int64) error {
	r := &repl{talk: t, exits: newWaysOut(), inputs: make(chan terminal.Input), broken: make(chan error, 1), idle: time.Now()}
	onTerminal := t.terminal && !t.noInput && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
	o := r.consoleOptions(ctx, onTerminal)
	r.interactive, r.onTerminal = onTerminal && !o.Plain, onTerminal
	var err error
	if r.console, err = terminal.Open(o); err != nil && r.interactive {
		o.Plain, r.interactive = true, false // a terminal that cannot be made raw still has lines
		r.console, err = terminal.Open(o)
	}
	if err != nil {
		return err
	}
	defer r.console.Close()
	t.screen = &chatScreen{app: t.app, side: t.err, body: r.console, over: r.exits.answered}
	if onTerminal && term.IsTerminal(int(os.Stderr.Fd())) {
		t.screen.side = r.console // beside the prompt, nobody else may write there
	}
	t.approve, t.unattended = r.ask, t.noInput
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // signals are heard here
	defer stop()
	r.listen()
	attaching, done := r.exits.busy(ctx)
	err = t.attach(attaching, id, seq)
	left := attaching.Err() != nil
	done()
	if left && r.exits.code() == nil {
		r.exits.wish(os.Interrupt) // there was no turn that Ctrl-C could stop
	}
	switch {
	case err != nil:
		return r.notAttached(err)
	case left:
		r.leaving = &leaving{}
	default:
		r.greet(ctx, id, seq)
	}
	for r.leaving == nil {
		r.step(ctx)
	}
	return r.leave(ctx)
}

func (r *repl) consoleOptions(ctx context.Context, onTerminal bool) terminal.Options {
	return terminal.Options{
		In: r.in, Out: r.out, Terminal: onTerminal, Plain: os.Getenv("TERM") == "dumb", Color: r.color, Prompt: "you> ",
		Text: terminal.Text{Clean: render.CleanLine, Width: render.Width},
		Raw: func() (func() error, error) {
			fd := int(os.Stdin.Fd())
			was, err := term.MakeRaw(fd)
			return func() error { return term.Restore(fd, was) }, err
		},
		Size:      func() (int, int, error) { return term.GetSize(int(os.Stdout.Fd())) },
		Suspend:   func() { r.suspend() },
		Interrupt: func() { r.wish(os.Interrupt) },
		Complete:  func(ctx context.Context, line string, pos int) (int, []string) { return r.complete(ctx, line, pos) },
	}
}

// read asks for the next input, unless that was done already. Wishes to leave
// are heard here, also when nobody has time for the input.
func (r *repl) read(ctx context.Context) {
	if r.reading {
		return
	}
	r.reading = true
	go func() {
		for {
			in, err := r.console.Read(ctx)
			if err != nil {
				r.broken <- err
				return
			}
			if r.heard(in) {
				r.inputs <- in
				return
			}
		}
	}()
}

// step waits for the next thing to happen, and does it.
func (r *repl) step(ctx context.Context) {
	if len(r.queue) > 0 {
		line := r.queue[0]
		r.queue = r.queue[1:]
		r.line(ctx, line)
		return
	}
	r.status(ctx)
	r.read(ctx)
	sleep, loop := r.timers()
	select {
	case in := <-r.inputs:
		r.reading, r.idle = false, time.Now()
		r.input(ctx, in)
	case err := <-r.broken:
		r.gone(err)
	case <-r.exits.called:
		r.leaving = &leaving{}
	case a := <-r.c.Handed():
		r.leaving = &leaving{to: &a}
	case <-sleep:
		r.leaving = &leaving{hibernated: true}
	case <-loop:
		r.loop(ctx)
	}
}

// timers are what happens when nobody does anything: sleep, and loops.
func (r *repl) timers() (sleep, loop <-chan time.Time) {
	if r.f.hibernate > 0 {
		after := time.Duration(r.f.hibernate * float64(time.Minute))
		sleep = time.After(time.Until(r.idle.Add(after)))
	}
	if next, ok := r.c.NextLoop(); ok && !r.f.noLoops {
		loop = time.After(time.Until(next.NextAt))
	}
	return sleep, loop
}

// input does what the person did.
func (r *repl) input(ctx context.Context, in terminal.Input) {
	switch in.Kind {
	case terminal.Line:
		r.line(ctx, in.Text)
	case terminal.EOF:
		r.leaving = &leaving{}
	case terminal.Interrupt:
		// Something is typed: it is dropped, as in a shell. Otherwise it leaves.
		if in.Text != "" {
			r.console.SetLine("")
			return
		}
		r.leaving = &leaving{}
	case terminal.Hangup:
		r.gone(nil)
	case terminal.Older:
		r.history(ctx)
	default:
		r.switchView(ctx, in.Kind)
	}
}

// line is a command or a message.
func (r *repl) line(ctx context.Context, line string) {
	if strings.HasPrefix(line, "/") && !strings.HasPrefix(line, "//") {
		ctx, done := r.exits.busy(ctx)
		defer done()
		r.command(ctx, line)
		return
	}
	if r.screen.view != "" {
		r.fail(r.c.Tell(ctx, r.screen.view, line))
		return
	}
	r.turn(ctx, func(ctx context.Context) error {
		_, err := r.c.Send(ctx, append(r.documents(), tidemark.Text(strings.TrimPrefix(line, "/")))...)
		return err
	})
}

// turn does something that takes a while, and that Ctrl-C stops. What is typed
// meanwhile is done afterwards, but for commands that are about what happens
// now.
func (r *repl) turn(whole context.Context, work func(context.Context) error) {
	ctx, over := r.exits.busy(whole)
	defer over()
	called := r.exits.called
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	for {
		inputs := r.inputs
		if r.interactive && !r.hungUp {
			r.read(whole) // what is read outlives the turn
		} else if !r.reading {
			inputs = nil
		}
		select {
		case err := <-done:
			r.idle = time.Now()
			r.fail(err)
			return
		case in := <-inputs:
			r.reading = false
			r.during(whole, in)
		case err := <-r.broken:
			r.gone(err)
		case <-called:
			called = nil
			if r.leaving == nil {
				r.leaving = &leaving{}
			}
		case a := <-r.c.Handed():
			r.screen.note("%s asks for this session; it is handed over when this turn is done.", a.From)
			r.leaving = &leaving{to: &a}
		}
	}
}

// during is what can be done while the agent works.
func (r *repl) during(ctx context.Context, in terminal.Input) {
	switch in.Kind {
	case terminal.Interrupt: // the turn was stopped before, or has nothing left to stop
		if in.Text != "" && !r.exits.wished() {
			r.console.SetLine("")
		} else if r.leaving == nil {
			r.leaving = &leaving{}
		}
	case terminal.EOF:
		r.during(ctx, terminal.Input{Kind: terminal.Line, Text: "/exit"})
	case terminal.Hangup:
		r.gone(nil)
	case terminal.Line:
		if name, _, _ := strings.Cut(in.Text, " "); anytime[name] {
			r.command(ctx, in.Text)
			return
		}
		r.queue = append(r.queue, in.Text)
		if isExit(in.Text) {
			r.screen.note("Leaving when this is done; once more leaves now.")
		}
	case terminal.Older:
		r.history(ctx)
	case terminal.LeaveView:
		if r.screen.view == "" {
			r.exits.stops() // Esc stops the turn, like Ctrl-C
			return
		}
		r.switchView(ctx, in.Kind)
	default:
		r.switchView(ctx, in.Kind)
	}
}

// fail says what went wrong. When something could not be kept, that is all that
// matters: nothing more is shown as if it were.
func (r *repl) fail(err error) {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
	case errors.Is(err, tidemark.ErrStorage), errors.Is(err, tidemark.ErrConflict): // no room, or the lease is lost
		r.screen.note("%s", strings.Repeat("!", 60))
		r.screen.note("NOT SAVED: %s", err)
		r.screen.note("%s", strings.Repeat("!", 60))
		if errors.Is(err, tidemark.ErrConflict) {
			err = withHint(err, "what was kept before is there: tidemark chat --resume %.8s", r.c.ID())
		}
		r.leaving = &leaving{err: err}
	default:
		r.screen.note("tidemark: %s", err)
		if hint := hintFor(err); hint != "" {
			r.screen.note("hint: %s", hint)
		}
	}
}

// ask asks the person about a call.
func (r *repl) ask(ctx context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
	if err := a.Readable(); err != nil {
		return chat.Deny, err
	}
	question := "Allow " + askText(a) + "?"
	choices := []terminal.Choice{{Key: 'y', Text: "once"}}
	if a.Whole {
		always := "always"
		switch {
		case !a.Widens.Empty():
			always = "in this project: " + firstLine(a.Widens.String())
		case a.Scope != "":
			always = "always (" + firstLine(a.Scope) + ")"
		}
		choices = append(choices, terminal.Choice{Key: 'a', Text: always})
	}
	choices = append(choices, terminal.Choice{Key: 'n', Text: "deny"})
	r.screen.pause()
	ctx, stop := r.exits.whileStaying(ctx)
	defer stop()
	key, err := r.lookThrough(ctx, a.Lines)
	if err == nil && key != 'n' {
		key, err = r.console.Ask(ctx, question, choices...)
	}
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		r.wish(os.Interrupt)
		return chat.Deny, errors.New("the user cancelled the turn")
	case errors.Is(err, io.EOF), errors.Is(err, errLeaving):
		return chat.Deny, errors.New("there is nobody to ask")
	case err != nil:
		return chat.Deny, err
	case key == 'y':
		return chat.Once, nil
	case key == 'a':
		return chat.Always, nil
	}
	return chat.Deny, nil
}

// promptRows are those that a question itself takes.
const promptRows = 4

// lookThrough shows all lines of a call, a screen at a time: one key brings the
// next, another all the rest. It cannot be allowed before its end. The key is
// 'n' when it was denied on the way.
func (r *repl) lookThrough(ctx context.Context, lines []render.ApprovalLine) (rune, error) {
	columns, rows := max(r.console.Columns(), 1), max(r.console.Rows()-promptRows, 1)
	if r.terminal {
		lines = noLongerThan(lines, max(rows*columns/4, columns))
	} else {
		rows = math.MaxInt // nothing scrolls away
	}
	for len(lines) > 0 {
		for used := 0; len(lines) > 0; lines = lines[1:] {
			need := 1 + (render.Width(render.ApprovalForTerminal(lines[0], false))-1)/columns
			if used > 0 && used+need > rows {
				break
			}
			r.print("%s", render.ApprovalForTerminal(lines[0], r.screen.color))
			used += need
		}
		if len(lines) == 0 {
			break
		}
		key, err := r.console.Ask(ctx, fmt.Sprintf("%d more lines", len(lines)), terminal.Choice{Key: 'm', Text: "more"}, terminal.Choice{Key: 'e', Text: "everything"}, terminal.Choice{Key: 'n', Text: "deny"})
		if err != nil || key == 'n' {
			return key, err
		}
		if key == 'e' {
			rows = math.MaxInt
		}
	}
	return 0, nil
}

// noLongerThan cuts lines that take more than a part of the screen, so that no
// part of one is gone before it was seen.
func noLongerThan(lines []render.ApprovalLine, cells int) (all []render.ApprovalLine) {
	for _, l := range lines {
		begin, width := 0, 0
		for i, c := range l.Text {
			if width += max(render.Width(string(c)), 1); width > cells-len("+ ") {
				all = append(all, render.ApprovalLine{Kind: l.Kind, Text: l.Text[begin:i]}, render.ApprovalLine{Kind: render.MarkerLine, Text: "the same line goes on"})
				begin, width = i, 1
			}
		}
		all = append(all, render.ApprovalLine{Kind: l.Kind, Text: l.Text[begin:]})
	}
	return all
}

// greet says what was resumed, and shows its end.
func (r *repl) greet(ctx context.Context, id tidemark.SessionID, seq int64) {
	if r.fence.says != "" {
		r.screen.note("%s", r.fence.says)
	}
	if id == "" {
		if r.provider.name == "demo" {
			r.screen.note("This is the demo model: it needs no network and knows little. Type /help for the commands.")
		}
		return
	}
	messages, err := r.c.Messages(ctx)
	if err != nil {
		r.fail(err)
		return
	}
	if seq == 0 {
		r.paint(ctx, 0)
	}
	r.fail(r.consent(ctx))
	state := r.c.State()
	r.screen.note("Resumed session %s (%d messages, %d approvals)", id, messages, len(state.Approvals))
	if seq != 0 {
		r.screen.note("Branched from %s (%d messages)", strings.TrimPrefix(r.f.branch, "@"), messages)
	}
	if r.f.forceNew {
		r.screen.note("A fresh shell and interpreter, because --force-new asked for it; the history stays.")
	}
	switch {
	case len(state.Loops) == 0:
		return
	case r.f.noLoops:
		r.screen.note("%d loop(s) are kept and stay off, because --no-loops asked for it.", len(state.Loops))
		return
	}
	loops, err := r.c.Rearm(ctx)
	r.fail(err)
	r.screen.note("%d loop(s) go on; see /loops, end one with /cancel.", len(loops))
}

// paint shows entries of the thread that is looked at: the newest, or those
// before one.
func (r *repl) paint(ctx context.Context, before int64) {
	v, err := r.c.View(ctx)
	if err == nil && r.screen.view != "" {
		v, err = v.Worker(ctx, r.screen.view)
	}
	if errors.Is(err, tidemark.ErrNotFound) {
		r.screen.note("Nothing was said yet.")
		return
	}
	if err != nil {
		r.fail(err)
		return
	}
	entries := v.Tail(ctx, 0, painted)
	if before > 0 {
		entries = v.Before(ctx, before, painted)
	}
	o := &render.Options{Color: r.color, Width: r.console.Columns()}
	n := 0
	r.screen.pause()
	for e, err := range entries {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			r.fail(err)
			return
		}
		if n++; n == 1 {
			r.oldest = e.Seq
		}
		if err != nil {
			r.screen.note("%d [damaged: %s]", e.Seq, err)
			continue
		}
		if e.Empty() || e.Kind != tidemark.KindMessage && e.Kind != tidemark.KindContext && e.Kind != "compaction" {
			continue
		}
		if err := render.Entry(r.console, e, o); err != nil {
			r.fail(err)
			return
		}
		if !e.Context() {
			fmt.Fprintln(r.console)
		}
	}
	if n == 0 {
		r.screen.note("There is nothing before that.")
	}
}

// history shows what was before.
func (r *repl) history(ctx context.Context) {
	if r.oldest == 0 {
		r.paint(ctx, 0)
		return
	}
	r.paint(ctx, r.oldest)
}

// loop does one round of the loop that is due.
func (r *repl) loop(ctx context.Context) {
	next, ok := r.c.NextLoop()
	if !ok {
		return
	}
	r.screen.note("[%s] %s", next.ID, loopText(next))
	r.turn(ctx, func(ctx context.Context) error {
		_, err := r.c.RunLoop(ctx, next)
		return err
	})
}

func loopText(l store.Loop) string {
	goal := l.Goal
	if goal == "" {
		goal = "the task list"
	}
	return fmt.Sprintf("%s, every %s", firstLine(goal), time.Duration(l.EverySeconds)*time.Second)
}
