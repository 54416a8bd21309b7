package repl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/store"
)

// How long leaving may take: everything except learning; and what is left to do
// once the person has asked twice to leave. The last one is longer than the
// time that a tool has to end, so that none outlives the chat.
const (
	CloseTimeout = 5 * time.Second
	hurryTimeout = 700 * time.Millisecond
)

// leaving is why and how the conversation ends. All ways out use the same path.
type leaving struct {
	hibernated bool
	to         *store.HandoverRequest // handed over
	err        error                  // what went wrong
}

// waysOut receives every request to stop or to leave, from a key or a signal,
// in whichever goroutine it comes and whatever the others are doing. The first
// one is carried out in order; the next one ends the program, even if whatever
// blocks it never ends.
type waysOut struct {
	called chan struct{} // closed by the first signal that asks to leave

	// staying ends with the first request to leave, patient with the next one.
	staying, patient context.Context
	leave            context.CancelCauseFunc
	hurry            context.CancelFunc

	mu       sync.Mutex
	stop     context.CancelFunc // stops what is in progress; nil: nothing is
	stopped  bool               // the person stopped something, and has said nothing since
	warned   bool               // they pressed Ctrl-C at an idle prompt, and have said nothing since
	overtook time.Time          // when the second of two Ctrl-C came without a first before it
	by       os.Signal          // the first signal that asked to leave; it decides the exit code
}

// Stopped is the end of a conversation by a signal, or by Ctrl-C. Everything
// has been reported already.
type Stopped struct{ Signal os.Signal }

func (*Stopped) Error() string { return "interrupted" }

// errLeaving is why nobody answers a question any more.
var errLeaving = errors.New("the user is leaving")

func newWaysOut() *waysOut {
	x := &waysOut{called: make(chan struct{})}
	x.staying, x.leave = context.WithCancelCause(context.Background())
	x.patient, x.hurry = context.WithCancel(context.Background())
	return x
}

// busy returns a context for something that the person may stop, and a
// function to call when it is done.
func (x *waysOut) busy(ctx context.Context) (context.Context, func()) {
	ctx, stop := context.WithCancel(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.stop
	x.stop = stop
	if x.staying.Err() == nil {
		x.stopped, x.warned = false, false // they said something else since
	}
	if x.patient.Err() != nil {
		stop()
	}
	return ctx, func() {
		stop()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.stop = before
	}
}

// answered notes that what is in progress can no longer be stopped, only
// awaited: Ctrl-C then means the same as at an idle prompt, unless the person
// tried to stop it before.
func (x *waysOut) answered() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.stopped && x.staying.Err() == nil {
		x.stop = nil
	}
}

// whileStaying returns a context for a question: it ends when the person
// leaves.
func (x *waysOut) whileStaying(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(x.staying, func() { cancel(errLeaving) })
	return ctx, func() { unhook(); cancel(nil) }
}

// stops treats Ctrl-C as a request to stop what is in progress, and
// reports whether it was that and nothing more.
func (x *waysOut) stops() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stop == nil || x.stopped || x.staying.Err() != nil {
		return false
	}
	x.stopped = true
	x.stop()
	return true
}

// idle reports whether Ctrl-C has nothing to stop, and nobody is leaving.
func (x *waysOut) idle() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stop == nil && x.staying.Err() == nil
}

// confirmed reports whether Ctrl-C, pressed where nothing can be stopped, is a
// request to leave: the first one is not, and the next one is, if it came again
// without another key between them, or if somebody is leaving already.
func (x *waysOut) confirmed(again bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.stop != nil || x.staying.Err() != nil || x.warned && again:
		return true
	case !again && time.Since(x.overtook) < overtaken:
		return true
	case again:
		// Where nobody reads keys, each is told by a goroutine of its own: the first
		// may come behind this one.
		x.overtook = time.Now()
	}
	x.warned = true
	return false
}

// overtaken is how long the first of two Ctrl-C may come behind the second.
const overtaken = 500 * time.Millisecond

// wish records a request to leave, by a signal or, when that is nil, by Ctrl-D
// or a command. It reports whether the program has to end now: because this
// was requested before, or because what was stopped does not end.
func (x *waysOut) wish(s os.Signal) (now bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.by == nil {
		x.by = s
	}
	again := x.staying.Err() != nil
	x.leave(errLeaving)
	now = again || x.stopped && x.stop != nil
	if now {
		x.hurry()
	}
	if x.stop != nil && (now || s != nil) {
		x.stop()
	}
	return now
}

// hungUp notes that the terminal is gone. That is no request of its own: a
// signal reports the same.
func (x *waysOut) hungUp() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.by == nil {
		x.by = syscall.SIGHUP
	}
	if x.stop != nil {
		x.stop()
	}
}

// quick reports whether the person should not have to wait for a model: they
// are in a hurry, or stopped one already.
func (x *waysOut) quick() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stopped || x.patient.Err() != nil
}

// call ends the conversation where it does not read the request itself.
func (x *waysOut) call() {
	x.mu.Lock()
	defer x.mu.Unlock()
	select {
	case <-x.called:
	default:
		close(x.called)
	}
}

// code is the exit status: the first signal, else success.
func (x *waysOut) code() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.by == nil {
		return nil
	}
	return &Stopped{Signal: x.by}
}

// Control is how a conversation at a terminal handles signals. Whoever
// catches them calls it.
type Control struct{ r *repl }

// Continue is for SIGCONT: the shell had the terminal meanwhile.
func (c Control) Continue() { c.r.console.Continue() }

// Resize is for SIGWINCH.
func (c Control) Resize() {
	c.r.console.Resize()
	c.r.screen.resized.Store(true)
}

// Suspend is for SIGTSTP: it stops the process, with the terminal restored, and
// returns when it continues.
func (c Control) Suspend() {
	c.r.console.Lend(func() error { c.r.t.Suspend(); return nil })
}

// GiveBack restores the terminal, for a process that ends now.
func (c Control) GiveBack() { c.r.console.Abandon("") }

// Leave is for every other signal: it asks to stop what is in progress, or to
// leave. On a plain terminal SIGINT is the key Ctrl-C.
func (c Control) Leave(s os.Signal) {
	if s == os.Interrupt && c.r.t.Person && !c.r.interactive {
		c.r.console.Interrupt()
		return
	}
	c.r.wish(s)
}

// wish handles a signal.
func (r *repl) wish(s os.Signal) {
	if s == os.Interrupt && r.exits.stops() {
		return
	}
	r.part(s)
	r.exits.call()
}

// heard handles a request to leave in an input, and reports whether the input
// still has to be handled.
func (r *repl) heard(in terminal.Input) bool {
	switch {
	case in.Kind == terminal.Interrupt && r.exits.stops():
		return false
	case in.Kind == terminal.Interrupt && !r.exits.confirmed(in.Again):
		r.console.Notice("press Ctrl-C again to leave")
		return false
	case in.Kind == terminal.Interrupt:
		r.part(os.Interrupt)
	case in.Kind == terminal.EOF, in.Kind == terminal.Line && slash.IsExit(in.Text):
		r.part(nil)
	}
	return true
}

// pressed handles Ctrl-C where nobody reads keys.
func (r *repl) pressed(in terminal.Input) {
	if r.heard(in) {
		r.exits.call()
	}
}

// part records a request to leave, and makes sure that the second one is
// carried out whatever else happens.
func (r *repl) part(s os.Signal) {
	if r.exits.wish(s) {
		time.AfterFunc(hurryTimeout, r.abandon)
		r.exits.call()
	}
}

// abandon ends the program at once. What was acknowledged is kept; the next
// writer finds that the holder of the session is gone.
func (r *repl) abandon() {
	words := ""
	if c := r.attached.Load(); c != nil && c.Exists() {
		words = fmt.Sprintf("Left at once; what was said is kept.\nResume: tidemark chat --resume %s\n", c.ID())
	}
	r.console.Abandon(words)
	r.t.Exit(r.exits.code())
}

// gone is the way out when the terminal is gone.
func (r *repl) gone(err error) {
	if err != nil {
		r.screen.note("tidemark: no more input: %s", err)
	}
	r.hungUp = true
	r.exits.hungUp()
	if r.leaving == nil {
		r.leaving = &leaving{}
	}
}

// notAttached is the end of a conversation that did not begin.
func (r *repl) notAttached(err error) error {
	if code := r.exits.code(); code != nil && errors.Is(err, context.Canceled) {
		return code
	}
	return err
}

// leave is the one way out: learn, save, say how to find the session again.
func (r *repl) leave(ctx context.Context) error {
	l := r.leaving
	if !r.hungUp {
		r.exits.leave(errLeaving) // from here on, another request ends the program
	}
	r.queue = append(r.queue, r.console.TakeLines(waits, false)...)
	if r.interactive && !r.hungUp {
		go r.hearOn()
	}
	for _, line := range r.queue {
		if !slash.IsExit(line) {
			r.screen.note("Not sent: %s", line)
		}
	}
	if r.Chat.Exists() && l.err == nil {
		if l.to != nil {
			r.screen.note("Handed over to %s.", l.to.From)
		}
		if r.Setup.Chat.Learn != agent.LearnOff {
			agent.Learn(ctx, r.Chat, agent.Learning{Note: r.screen.note, Retrying: r.exits.patient, InHurry: r.exits.quick})
		}
	}
	closing, stop := context.WithTimeout(ctx, CloseTimeout)
	defer stop()
	reason := "left"
	if l.hibernated {
		reason = "hibernated"
	}
	err := l.err
	if r.Chat.Exists() && err == nil {
		err = r.Chat.Checkpoint(closing, "", reason)
	}
	if closeErr := r.Chat.Close(closing); err == nil {
		err = closeErr
	}
	if err == nil && r.Chat.Exists() {
		if l.hibernated {
			r.screen.note("Hibernated: session saved after %g minute(s) without a word.", r.t.HibernateMinutes)
		}
		r.saved()
	}
	closeErr := r.console.Close()
	if err != nil {
		return err
	}
	if by := r.exits.code(); by != nil {
		return by // the terminal may be gone, and cannot be restored
	}
	return closeErr
}

// hearOn reads keys while everything is saved: another request to leave
// counts. Anything else typed then is dropped.
func (r *repl) hearOn() {
	for {
		r.read()
		select {
		case <-r.inputs:
			r.reading = false
		case <-r.broken:
			return
		}
	}
}
