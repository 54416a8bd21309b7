package repl

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/model"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// repl is a conversation with a person.
type repl struct {
	*conversation
	t       TerminalOptions
	console *terminal.Console
	exits   *waysOut
	life    context.Context // ends with the conversation
	inputs  chan terminal.Input
	broken  chan error // why there is no more input
	reading bool       // an input is awaited
	looped  bool       // a loop had its turn since the last input
	// interactive means that keys are read while something else happens.
	interactive bool
	queue       []string // lines that were typed during a turn
	oldest      int64    // the first entry that was shown, for /history
	// leaving is why the conversation ends, nil while it continues.
	leaving *leaving
	hungUp  bool // the terminal is no more
	meter   meter
	counted bool // what the session used before is in the meter
	around  surroundings
	idle    time.Time // when the person last did something
}

// Run runs a conversation with the person at a terminal, or with whoever
// writes lines into a pipe, until somebody leaves. The error is *Stopped when
// a signal or Ctrl-C ended it.
func Run(ctx context.Context, o Options, t TerminalOptions) error {
	r := &repl{conversation: newConversation(o), t: t, exits: newWaysOut(), inputs: make(chan terminal.Input), broken: make(chan error, 1), idle: time.Now()}
	r.NoLoops, r.Front = t.NoLoops, front{r}
	set := r.consoleOptions()
	r.interactive = t.Person && !set.Plain
	var err error
	if r.console, err = terminal.Open(set); err != nil && r.interactive {
		set.Plain, r.interactive = true, false // a terminal that cannot be made raw still has lines
		r.console, err = terminal.Open(set)
	}
	if err != nil {
		return err
	}
	defer r.console.Close()
	r.screen = &screen{Display: o.Display, side: o.Err, body: r.console, over: r.exits.answered, tasks: func() []store.Task { return r.Chat.State().Tasks }}
	if r.interactive {
		r.screen.progress = r.console.Progress
	}
	if t.Person && t.ErrIsTerminal {
		r.screen.side = r.console // nothing else may write beside the prompt
	}
	r.Out, r.Note, r.Pause, r.Columns, r.Terminal = r.console, r.screen.note, r.screen.pause, r.console.Columns, r.o.Terminal
	r.Options.Show, r.Options.Approve, r.Options.AskForm, r.Options.Unattended = r.show, r.ask, r.fill, t.NoInput
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // signals are handled here
	defer stop()
	r.life = ctx
	t.Listen(Control{r})
	attaching, done := r.exits.busy(ctx)
	err = r.attach(attaching, o.Session, o.From)
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
		r.greet(ctx, o.Session, o.From)
	}
	for r.leaving == nil {
		r.step(ctx)
	}
	return r.leave(ctx)
}

// show handles an event of the chat.
func (r *repl) show(e chat.Event) {
	r.meter.kept(r.Store, e)
	r.screen.show(e)
}

func (r *repl) consoleOptions() terminal.Options {
	return terminal.Options{
		In: r.t.In, Out: r.o.Out, Terminal: r.t.Person, Plain: r.t.Plain, Color: r.o.Color, Prompt: prompt,
		Text:      terminal.Text{Clean: render.CleanLine, Width: render.Width},
		Raw:       r.t.Raw,
		Size:      r.t.Size,
		Suspend:   r.t.Suspend,
		Interrupt: r.pressed,
		Idle:      r.exits.idle,
		Complete:  func(ctx context.Context, line string, pos int) (int, []string) { return r.Complete(ctx, line, pos) },
		Eager: func(word, first string) bool {
			return strings.HasPrefix(word, "@") || first == "" && strings.HasPrefix(word, "/") || first == "/model"
		},
		Earlier:    r.earlier,
		Paste:      r.Paste,
		PasteImage: r.PasteImage,
		Edit:       r.t.Edit,
	}
}

// read requests the next input, unless that was done already. It also handles
// requests to leave, even when nobody is ready for the input. What is read
// outlives the turn or the command during which it was requested.
func (r *repl) read() {
	if r.reading {
		return
	}
	r.reading = true
	go func() {
		for {
			in, err := r.console.Read(r.life)
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

// step waits for the next event, and handles it.
func (r *repl) step(ctx context.Context) {
	if len(r.queue) > 0 {
		line := r.queue[0]
		r.queue = r.queue[1:]
		r.line(ctx, line)
		return
	}
	r.status(ctx)
	// A loop that is due goes before a line that nobody has read yet, so that
	// lines from a pipe leave it its turn; once, so that it leaves them theirs.
	if next, ok := r.Chat.NextLoop(); ok && !r.NoLoops && !r.reading && !r.looped && !next.NextAt.After(time.Now()) {
		r.loop(ctx)
		return
	}
	r.read()
	sleep, loop := r.timers()
	select {
	case in := <-r.inputs:
		r.reading, r.looped, r.idle = false, false, time.Now()
		r.input(ctx, in)
	case err := <-r.broken:
		r.gone(err)
	case <-r.exits.called:
		r.leaving = &leaving{}
	case a := <-r.Chat.Handed():
		r.leaving = &leaving{to: &a}
	case <-sleep:
		r.leaving = &leaving{hibernated: true}
	case <-loop:
		r.loop(ctx)
	}
}

// timers are what happens while nobody does anything: hibernation, and loops.
func (r *repl) timers() (sleep, loop <-chan time.Time) {
	if r.t.HibernateMinutes > 0 {
		after := time.Duration(r.t.HibernateMinutes * float64(time.Minute))
		sleep = time.After(time.Until(r.idle.Add(after)))
	}
	if next, ok := r.Chat.NextLoop(); ok && !r.NoLoops {
		loop = time.After(time.Until(next.NextAt))
	}
	return sleep, loop
}

// input handles what the person did.
func (r *repl) input(ctx context.Context, in terminal.Input) {
	switch in.Kind {
	case terminal.Line:
		r.line(ctx, in.Text)
	case terminal.EOF, terminal.Interrupt:
		r.leaving = &leaving{}
	case terminal.Hangup:
		r.gone(nil)
	default:
		r.key(ctx, in.Kind)
	}
}

// key handles a key that means the same at any time.
func (r *repl) key(ctx context.Context, kind terminal.Kind) {
	switch kind {
	case terminal.Older:
		r.history(ctx)
	case terminal.Unfold:
		r.screen.unfold()
	case terminal.NextMode:
		r.nextPermission(ctx)
	default:
		r.switchView(ctx, kind)
	}
}

// line handles a command or a message.
func (r *repl) line(ctx context.Context, line string) {
	if slash.Is(line) {
		ctx, done := r.exits.busy(ctx)
		defer done()
		r.fail(r.Conversation.Run(ctx, line))
		if u := r.Chat.LastUsage(); u != nil { // it may have gone back to a shorter context
			r.meter.shown(tidemark.Entry{Usage: u})
		}
		return
	}
	if r.screen.view != "" {
		if len(r.Pasted(line)) > 0 {
			r.screen.note("A worker is told the names of images only.")
		}
		r.fail(r.Chat.Tell(ctx, r.screen.view, line))
		return
	}
	if command, ok := slash.Shell(line); ok {
		r.turn(ctx, func(ctx context.Context) error { return r.Chat.RunCommand(ctx, command) })
		return
	}
	if text, ok := slash.Memory(line); ok {
		r.fail(r.Remember(ctx, text))
		return
	}
	r.say(ctx, r.Message(line)...)
}

// say sends a message and waits for the end of the turn.
func (r *repl) say(ctx context.Context, blocks ...tidemark.Block) {
	planning := r.Chat.Permission() == chat.PermissionPlan
	blocks = r.Planned(blocks)
	var turn chat.Turn
	r.turn(ctx, func(ctx context.Context) (err error) {
		turn, err = r.Chat.Send(ctx, blocks...)
		return err
	})
	if planning && r.t.Person && turn.Stop == model.StopEnd && turn.Text != "" && r.leaving == nil && len(r.queue) == 0 {
		r.fail(r.offerPlan(ctx))
	}
}

// offerPlan asks whether a plan is to be carried out.
func (r *repl) offerPlan(ctx context.Context) error {
	key, err := r.choose(ctx, "Carry out this plan?", terminal.Choice{Key: 'e', Text: "yes, and accept edits"}, terminal.Choice{Key: 'a', Text: "yes, and ask"}, terminal.Choice{Key: 'n', Text: "keep planning"})
	next := chat.PermissionAsk
	switch {
	case errors.Is(err, terminal.ErrInterrupted), errors.Is(err, io.EOF):
		return nil
	case err != nil || key == 'n':
		return err
	case key == 'e':
		next = chat.PermissionEdits
	}
	if err := r.setPermission(next); err != nil {
		return err
	}
	r.say(ctx, tidemark.Text("The plan is approved. Carry it out."))
	return nil
}

// turn runs something that takes a while, and that Ctrl-C stops. What is typed
// meanwhile is handled afterwards, except commands about the current turn.
func (r *repl) turn(whole context.Context, work func(context.Context) error) {
	ctx, over := r.exits.busy(whole)
	defer over()
	called := r.exits.called
	done := make(chan error, 1)
	r.console.Notice("") // it was about the prompt
	r.screen.begin("waiting for the model")
	defer r.screen.end()
	if r.interactive {
		r.console.Hold(waits)
		defer r.console.Hold(nil)
	}
	r.countBefore(whole)
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	go func() { done <- work(ctx) }()
	for {
		inputs := r.inputs
		if r.interactive && !r.hungUp {
			r.read()
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
		case a := <-r.Chat.Handed():
			r.screen.note("%s asks for this session; it is handed over when this turn is done.", a.From)
			r.leaving = &leaving{to: &a}
		case <-tick.C:
			r.screen.tick()
			r.drawStatus()
		}
	}
}

// countBefore counts, once and beside the turn, what a resumed session used
// before.
func (r *repl) countBefore(ctx context.Context) {
	if r.counted || !r.interactive || !r.Chat.Exists() {
		return
	}
	r.counted = true
	if v, err := r.Chat.View(ctx); err == nil {
		r.meter.load(ctx, v)
	}
}

// waits reports whether input that comes during a turn waits for its end.
func waits(in terminal.Input) bool {
	return in.Kind == terminal.Line && !slash.IsAnytime(in.Text) && !slash.IsExit(in.Text)
}

// during handles input while the agent works.
func (r *repl) during(ctx context.Context, in terminal.Input) {
	switch in.Kind {
	case terminal.Interrupt:
		if r.leaving == nil {
			r.leaving = &leaving{}
		}
	case terminal.EOF:
		r.during(ctx, terminal.Input{Kind: terminal.Line, Text: "/exit"})
	case terminal.Hangup:
		r.gone(nil)
	case terminal.Line:
		if slash.IsAnytime(in.Text) {
			r.fail(r.Conversation.Run(ctx, in.Text))
			return
		}
		if slash.IsExit(in.Text) {
			r.queue = append(r.queue, r.console.TakeLines(waits, true)...) // what was sent before it is done before it
		}
		r.queue = append(r.queue, in.Text)
		if slash.IsExit(in.Text) {
			r.screen.note("Leaving when this is done; once more leaves now.")
		}
	case terminal.LeaveView:
		if r.screen.view == "" {
			r.exits.stops() // Esc stops the turn, like Ctrl-C
			return
		}
		r.switchView(ctx, in.Kind)
	default:
		r.key(ctx, in.Kind)
	}
}

// fail reports what went wrong. When something could not be kept, that ends the
// conversation: nothing more may be shown as if it were kept.
func (r *repl) fail(err error) {
	switch {
	case err == nil || errors.Is(err, context.Canceled):
	case errors.Is(err, tidemark.ErrStorage), errors.Is(err, tidemark.ErrConflict): // no space, or the lease is lost
		r.screen.note("%s", strings.Repeat("!", 60))
		r.screen.note("NOT SAVED: %s", err)
		r.screen.note("%s", strings.Repeat("!", 60))
		if errors.Is(err, tidemark.ErrConflict) {
			err = hint.With(err, "what was kept before is there: tidemark chat --resume %.8s", r.Chat.ID())
		}
		r.leaving = &leaving{err: err}
	default:
		r.screen.note("tidemark: %s", err)
		if way := r.t.Hint(err); way != "" {
			r.screen.note("hint: %s", way)
		}
	}
}

// loop runs one round of the loop that is due.
func (r *repl) loop(ctx context.Context) {
	next, ok := r.Chat.NextLoop()
	if !ok {
		return
	}
	r.looped = true
	r.screen.note("[%s] %s", next.ID, slash.LoopText(next))
	r.turn(ctx, func(ctx context.Context) error {
		_, err := r.Chat.RunLoop(ctx, next)
		return err
	})
}
