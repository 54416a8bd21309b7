package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// program is what a run starts, and how to talk to it.
type program struct {
	argv    []string
	environ []string // in addition to the task's

	// talk writes to the program's standard input, in a goroutine of its own.
	// The input is closed when it returns, and its writes fail when the program
	// has ended.
	talk func(in io.Writer)
	// out and errs receive the lines, each from a goroutine of its own.
	out, errs func(line []byte, left int64)
	// closed is called when out has received its last line. It may be nil.
	closed func()
	// over is closed when the agent has finished its work. A program that
	// then stays silent for linger without ending is ended, and the run
	// counts as if it had ended by itself. nil: wait until it ends.
	over   <-chan struct{}
	linger time.Duration
	// quit asks the agent to stop before its program is signalled, and
	// returns when it has stopped, or after wait. nil: only the signal is
	// sent.
	quit func(wait time.Duration)
}

// ending is how a program ended.
type ending struct {
	code    int
	signal  string // the signal that killed it
	stopped error  // why it was ended from outside, nil if it ended by itself
	stderr  string // the last line of its standard error
}

func (e ending) String() string {
	s := "ended with exit code " + strconv.Itoa(e.code)
	if e.signal != "" {
		s = "was ended by the signal " + e.signal
	}
	if e.stderr != "" {
		s += ": " + short(e.stderr)
	}
	return s
}

// run is one run of a program for a task.
type run struct {
	t     Task
	sink  *sink
	alive context.Context // ends when the program ends or is to end
	there context.Context // ends when the program ends
	dead  func()          // cancels both

	mu     sync.Mutex
	proc   Process
	heard  bool  // the program has named its session
	astray error // the program is in another session than the one to resume
}

// begin checks the task and creates its run. The context ends with the
// caller's, or when an event cannot be kept.
func begin(ctx context.Context, t Task) (*run, context.Context, context.CancelCauseFunc, error) {
	if err := t.valid(); err != nil {
		return nil, nil, nil, err
	}
	t = t.bound()
	ctx, cancel := context.WithCancelCause(ctx)
	if t.Mark == "" {
		t.Mark = NewMark()
	}
	r := &run{t: t, sink: newSink(t, cancel), proc: Process{Job: t.Job, Mark: t.Mark}}
	if !t.Fork {
		r.proc.Session = t.Session
	}
	there, gone := context.WithCancel(context.WithoutCancel(ctx))
	alive, dead := context.WithCancel(ctx)
	r.there, r.alive, r.dead = there, alive, func() { gone(); dead() }
	return r, ctx, cancel, nil
}

// tell updates what is known of the process, and passes it to Task.Running.
func (r *run) tell(change func(*Process)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.proc
	change(&r.proc)
	if r.t.Running == nil || r.proc == before {
		return nil
	}
	if err := r.t.Running(r.proc); err != nil {
		return &notKept{fmt.Errorf("job %s: noting its process: %w", r.t.Job, err)}
	}
	return nil
}

// inSession records the session that the program named. A program that should
// resume a session and names another one has started afresh, and is ended.
func (r *run) inSession(id string) {
	if id == "" || r.wentAstray(id) {
		return
	}
	if err := r.tell(func(p *Process) { p.Session = id }); err != nil {
		r.sink.fail(err)
	}
}

// wentAstray checks only the first session that the program names: later it
// may have reasons to change it.
func (r *run) wentAstray(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.heard && r.t.Session != "" && !r.t.Fork && !strings.EqualFold(id, r.t.Session) {
		r.astray = fmt.Errorf("agent %s: session %s: %w: its program began another one, %s", r.t.Agent, r.t.Session, ErrSession, short(id))
		r.sink.fail(r.astray)
	}
	r.heard = true
	return r.astray != nil
}

func (r *run) session() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc.Session
}

// environ returns the environment of the program. The mark comes last, so
// that no variable of the task overrides it.
func (r *run) environ(more []string) []string {
	env := append([]string{}, r.t.Environ...)
	env = append(env, more...)
	return append(env, variableJob+"="+r.t.Job, variableAgent+"="+r.t.Agent, variableMark+"="+r.proc.Mark)
}

// do runs a program from its start until nothing of it runs any more. The
// error is about the start; how the program ended is in the ending.
func (r *run) do(ctx context.Context, p program) (ending, error) {
	defer r.dead()
	if ctx.Err() != nil {
		return ending{code: -1, stopped: context.Cause(ctx)}, nil
	}
	cmd := &exec.Cmd{Dir: r.t.Dir, Env: r.environ(p.environ), Args: p.argv}
	if r.t.Container == nil {
		path, err := FindProgram(p.argv[0], r.t.Dir, cmd.Env)
		if err != nil {
			return ending{code: -1}, err
		}
		if info, err := os.Stat(r.t.Dir); r.t.Dir != "" && (err != nil || !info.IsDir()) {
			return ending{code: -1}, tidemark.NotFoundf("working directory %s: not there", r.t.Dir)
		}
		cmd.Path = path
	} else {
		box, err := r.box(ctx, p.argv, cmd.Env)
		if ctx.Err() != nil {
			err = nil // the reason is in the cause
		}
		if err != nil || box == nil {
			return ending{code: -1, stopped: context.Cause(ctx)}, err
		}
		defer box.remove()
		cmd.Path, cmd.Args, cmd.Env, cmd.Dir = box.path, box.argv, box.environ, ""
	}
	started := func() {}
	if r.t.Sandbox != nil && r.t.Container == nil {
		fence, err := r.fence(cmd)
		if err != nil {
			return ending{code: -1}, err
		}
		defer fence.Close()
		started = fence.Started
	}
	c, err := r.start(cmd, p.argv[0])
	started()
	if err != nil {
		return ending{code: -1}, err
	}
	return r.attend(ctx, c, p), nil
}

// child is a running program.
type child struct {
	cmd           *exec.Cmd
	family        process.Family
	in, out, errs *os.File // our ends of its pipes
	ended         chan struct{}
}

func (r *run) start(cmd *exec.Cmd, name string) (*child, error) {
	c := &child{cmd: cmd, ended: make(chan struct{})}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	pipe := func() (read, write *os.File, err error) {
		read, write, err = os.Pipe()
		if err != nil {
			c.close()
			return nil, nil, fmt.Errorf("job %s: %w", r.t.Job, err)
		}
		return read, write, nil
	}
	stdin, in, err := pipe()
	if err != nil {
		return nil, err
	}
	theirs, c.in = append(theirs, stdin), in
	out, stdout, err := pipe()
	if err != nil {
		return nil, err
	}
	theirs, c.out = append(theirs, stdout), out
	errs, stderr, err := pipe()
	if err != nil {
		return nil, err
	}
	theirs, c.errs = append(theirs, stderr), errs

	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	c.family, err = process.Start(cmd, markOf(r.proc))
	if err != nil {
		c.close()
		return nil, fmt.Errorf("program %q: %w", name, err)
	}
	holder := process.Of(cmd.Process.Pid)
	holder.Program = name
	if err := r.tell(func(p *Process) { p.Holder = holder }); err != nil {
		r.sink.fail(err) // attend ends it before it has read anything
	}
	go func() {
		cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

func (c *child) close() {
	for _, f := range []*os.File{c.in, c.out, c.errs} {
		if f != nil {
			f.Close()
		}
	}
}

// attend reads the program's output, and waits for its end or ends it.
func (r *run) attend(ctx context.Context, c *child, p program) ending {
	var heard atomic.Int64 // time of its last output
	var last atomic.Value  // last line of its standard error
	last.Store("")
	var readers, writer sync.WaitGroup
	read := func(f *pipeEnd, closed func(), each func([]byte, int64)) {
		readers.Go(func() {
			if closed != nil {
				defer closed()
			}
			scanLines(f, func(line []byte, left int64) {
				heard.Store(time.Now().UnixNano())
				each(line, left)
			})
		})
	}
	out, errs := &pipeEnd{f: c.out}, &pipeEnd{f: c.errs}
	read(out, p.closed, p.out)
	read(errs, nil, func(line []byte, left int64) {
		if len(strings.TrimSpace(string(line))) > 0 {
			last.Store(short(string(line)))
		}
		p.errs(line, left)
	})
	writer.Go(func() {
		p.talk(c.in)
		c.in.Close()
	})

	stopped := r.await(ctx, c, p, &heard)
	r.finish(c, &readers, out, errs)
	c.close()
	readers.Wait()
	writer.Wait()
	e := ending{code: -1, stopped: stopped, stderr: last.Load().(string)}
	select {
	case <-c.ended:
		e.see(c.cmd.ProcessState)
	default: // not even killing it worked
	}
	return e
}

// await returns when the program has ended or has to be ended; in the
// latter case it returns why.
func (r *run) await(ctx context.Context, c *child, p program, heard *atomic.Int64) error {
	over := p.over
	var quiet <-chan time.Time
	for {
		select {
		case <-c.ended:
			return nil
		case <-ctx.Done():
			if p.quit != nil {
				p.quit(r.t.Grace / 2)
			}
			return context.Cause(ctx)
		case <-over:
			over = nil
			quiet = time.After(p.linger)
		case <-quiet:
			since := time.Since(time.Unix(0, heard.Load()))
			if since >= p.linger {
				return nil
			}
			quiet = time.After(p.linger - since)
		}
	}
}

// finish ends every process that is left, and lets the readers read what
// was written, however long it takes to keep that. A process that could not
// be ended or found may hold a pipe open; it is not waited for.
func (r *run) finish(c *child, readers *sync.WaitGroup, pipes ...*pipeEnd) {
	c.family.Stop(r.t.Grace)
	c.family.Release()
	r.dead() // releases whoever waits to answer the program
	select {
	case <-c.ended:
	case <-time.After(r.t.Grace): // not even killing it worked
	}
	read := make(chan struct{})
	go func() { readers.Wait(); close(read) }()
	for _, p := range pipes {
		p.left.Store(pipeHolds)
	}
	for {
		select {
		case <-read:
			return
		case <-time.After(max(r.t.Grace/10, time.Millisecond)):
		}
		if !slices.ContainsFunc(pipes, func(p *pipeEnd) bool { return !p.over(r.t.Grace) }) {
			return
		}
	}
}

// pipeHolds is more than dead processes can have left in a pipe.
const pipeHolds = 1 << 20

// pipeEnd is our end of a pipe. It knows whether there is anything to read.
type pipeEnd struct {
	f       *os.File
	waiting atomic.Int64 // since when there is nothing to read, in Unix nanoseconds; 0: there is something
	left    atomic.Int64 // bytes that may still come after the program has ended; 0: it has not ended
	done    atomic.Bool
}

func (p *pipeEnd) Read(b []byte) (int, error) {
	p.waiting.Store(time.Now().UnixNano())
	n, err := p.f.Read(b)
	p.waiting.Store(0)
	if p.left.Load() > 0 && p.left.Add(-int64(n)) <= 0 {
		p.left.Store(-1)
	}
	p.done.Store(err != nil)
	return n, err
}

// over reports whether nothing more is expected from the pipe of a program
// that has ended: the pipe is closed, was silent for a grace period, or
// delivered more than it can have held, so that some other process writes to
// it.
func (p *pipeEnd) over(grace time.Duration) bool {
	since := p.waiting.Load()
	return p.done.Load() || p.left.Load() < 0 || since != 0 && time.Since(time.Unix(0, since)) >= grace
}

// see records how the program ended.
func (e *ending) see(state *os.ProcessState) {
	e.code = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.signal = ws.Signal().String()
	}
}

// stderrLine turns a line of standard error into an event, for every runner.
func (r *run) stderrLine(line []byte, left int64) {
	if len(line) > 0 {
		r.sink.emit(tidemark.Event{Type: tidemark.EventSystem, Subtype: subtypeStderr, Content: string(line)})
	}
	r.sink.cut(left)
}

// prompt is the talk function of a program that only reads its prompt.
func prompt(text string) func(io.Writer) {
	return func(in io.Writer) { io.WriteString(in, text) } // a program that does not read it has its reasons
}

// outcome fills in what is the same for every runner. failure is why the agent
// failed, nil if it did not; o.ExitReason is then how it ended.
func (r *run) outcome(o Outcome, e ending, failure error) (Outcome, error) {
	o.ExitCode = e.code
	o.Session = r.session()
	o.Summary = summary(o.Summary)
	var inside *notKept
	switch {
	case r.astray != nil:
		o.ExitReason, failure = tidemark.ExitError, r.astray
		r.sink.must(tidemark.Event{Type: tidemark.EventError, Message: failure.Error(), Code: codeOf(failure)})
	case errors.As(e.stopped, &inside):
		o.ExitReason, failure = tidemark.ExitError, inside
	case e.stopped != nil:
		o.ExitReason, failure = reasonOf(e.stopped), e.stopped
	case failure != nil:
		o.ExitReason = tidemark.ExitError
		r.sink.must(tidemark.Event{Type: tidemark.EventError, Message: failure.Error(), Code: codeOf(failure)})
	}
	o.LeftOut = r.sink.close()
	return o, failure
}

// codeOf names a failure for the log of a job.
func codeOf(err error) string {
	if errors.Is(err, ErrSession) {
		return "session"
	}
	return tidemark.CodeOf(err).Name
}
