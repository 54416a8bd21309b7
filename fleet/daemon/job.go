package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/runner"
)

// start takes a job and runs it in a goroutine of its own: fleet.ErrBusy when it has
// to wait for another one to end, ErrUnsupported when another daemon has to run it,
// fleet.ErrNobody when none has its agent.
func (d *Daemon) start(ctx context.Context, j tidemark.Job) error {
	a, ok := d.agent(j.Agent)
	if !ok {
		return d.missingAgent(j.Agent)
	}
	if !d.begin() {
		return tidemark.Unsupportedf("this daemon ends")
	}
	program, err := d.marked(j.ID)
	if err != nil {
		d.wg.Done()
		return err
	}
	run, err := d.o.Store.StartMarkedJob(ctx, j.ID, d.o.Holder, d.limits(a), program)
	if err != nil {
		d.wg.Done()
	}
	switch {
	case errors.Is(err, tidemark.ErrConflict), errors.Is(err, tidemark.ErrHeld), errors.Is(err, tidemark.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	// The run is not ended by ctx: stop interrupts it.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	d.mu.Lock()
	d.runs[j.ID] = cancel
	if d.ending { // since begin
		cancel(runner.ErrInterrupted)
	}
	d.mu.Unlock()
	go func() {
		defer d.wg.Done()
		d.runJob(ctx, cancel, a, run)
		d.mu.Lock()
		delete(d.runs, j.ID)
		d.mu.Unlock()
		d.Wake()
	}()
	return nil
}

// begin makes stop wait for one more run. It reports false when stop has begun.
func (d *Daemon) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending {
		return false
	}
	d.wg.Add(1)
	return true
}

// errCancelled is the cause of the end of a run that somebody cancelled.
var errCancelled = errors.New("cancelled")

// tookTooLong is the cause of the end of a run that reached its time limit.
type tookTooLong time.Duration

func (t tookTooLong) Error() string {
	return fmt.Sprintf("it took longer than its limit of %s", time.Duration(t))
}

// Is makes it a timeout for the runner.
func (tookTooLong) Is(target error) bool { return target == context.DeadlineExceeded }

// runJob runs a job to its end.
func (d *Daemon) runJob(ctx context.Context, cancel context.CancelCauseFunc, a file.Agent, run *fleet.JobRun) {
	defer cancel(nil)
	// The lease is kept alive until the end of the job is kept, even when ctx ends.
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopKeeping()
	defer context.AfterFunc(d.quit, stopKeeping)()
	run.Delayed = d.delayed(run.Job())
	go func() {
		if err := run.KeepAlive(keeping, func(tidemark.Holder) { cancel(errCancelled) }); err != nil {
			cancel(err) // the lease is lost: stop at once
		}
	}()
	if a.Retries.Interrupted {
		go d.fence(keeping, a.Retries.Fence, run, cancel)
	}
	if a.Limits.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, a.Limits.Timeout, tookTooLong(a.Limits.Timeout))
		defer stop()
	}
	d.o.Tell(a.Name, run.Job().ID+" started")
	out, emitted, err := d.run(ctx, a, run)
	if err != nil && err.Error() != emitted && !errors.Is(err, tidemark.ErrConflict) {
		e := tidemark.Event{Type: tidemark.EventError, Message: err.Error(), Timestamp: d.o.Now()}
		if emitErr := run.Emit(keeping, e); emitErr != nil {
			d.o.Tell(a.Name, fmt.Sprintf("%s: %s", run.Job().ID, emitErr))
		}
	}
	if err := d.finish(keeping, a, run, out, err); err != nil {
		d.o.Tell(a.Name, fmt.Sprintf("%s: %s", run.Job().ID, err))
	}
	if j := run.Job(); j.Status != tidemark.JobRunning {
		d.Wake() // its slot is free now, and the hooks may take a while
		d.hooks(keeping, a, j)
	}
}

// delayedEvery is how often it is reported that the end of a job is not kept yet.
const delayedEvery = 30 * time.Second

// delayed returns a function that reports why the end of a job is not kept yet. A
// conflict is usually over soon, so it is reported only if it lasts.
func (d *Daemon) delayed(j tidemark.Job) func(error) {
	reported, last := false, d.o.Now()
	return func(err error) {
		now := d.o.Now()
		if now.Sub(last) < delayedEvery && (reported || errors.Is(err, tidemark.ErrConflict)) {
			return
		}
		reported, last = true, now
		d.o.Tell(j.Agent, fmt.Sprintf("%s: its end cannot be kept yet: %s", j.ID, err))
	}
}

// run runs the agent's program. If the session that the agent used last can no
// longer be resumed, it runs it again with a new session; if somebody requested the
// session, that is an error. emitted is the last error that the runner itself put
// into the output.
func (d *Daemon) run(ctx context.Context, a file.Agent, run *fleet.JobRun) (out runner.Outcome, emitted string, err error) {
	out.ExitReason = tidemark.ExitError
	r, err := d.o.Runner(a)
	if err != nil {
		return out, emitted, err
	}
	want := requestedSession(run.Job())
	t, err := d.task(ctx, a, run)
	if err != nil {
		return out, emitted, err
	}
	emit := t.Emit
	t.Emit = func(e tidemark.Event) error {
		if e.Type == tidemark.EventError {
			emitted = e.Message
		}
		return emit(e)
	}
	out, err = r.Run(ctx, t)
	if !errors.Is(err, runner.ErrSession) || want != nil {
		return out, emitted, withSandboxAdvice(a, err)
	}
	text := fmt.Sprintf("session %s cannot be resumed; %s starts fresh", t.Session, t.Job)
	d.o.Tell(a.Name, text)
	if err := t.Emit(d.notice(text)); err != nil {
		return out, emitted, err
	}
	t.Session, t.Fork, t.Spent = "", false, nil
	out, err = r.Run(ctx, t)
	return out, emitted, err
}

// notice is an event for people to read.
func (d *Daemon) notice(text string) tidemark.Event {
	return tidemark.Event{Type: tidemark.EventSystem, Subtype: "warning", Content: text, Timestamp: d.o.Now().UTC()}
}

// requestedSession is the session that somebody requested for a job, nil when nobody
// did. Jobs from earlier versions of this program have no Resume; there the trigger
// shows it.
func requestedSession(j tidemark.Job) *tidemark.Resume {
	byHand := j.Trigger == tidemark.TriggerManual || j.Trigger == tidemark.TriggerFork
	if j.Resume == nil && j.SessionID != "" && byHand && j.Attempt <= 1 {
		return &tidemark.Resume{Session: j.SessionID, Fork: j.ForkedFrom != ""}
	}
	return j.Resume
}

// setSession sets the session of a task to the one that was requested for its job.
func (d *Daemon) setSession(ctx context.Context, a file.Agent, want *tidemark.Resume, t *runner.Task) error {
	t.Session, t.Fork, t.Entry = want.Session, want.Fork, want.Entry
	if d.o.Session == nil {
		return nil
	}
	did, err := d.o.Session(ctx, a, t)
	if err != nil || did == "" {
		return err
	}
	return t.Emit(d.notice(did))
}

// task returns the task that the runner gets.
func (d *Daemon) task(ctx context.Context, a file.Agent, run *fleet.JobRun) (runner.Task, error) {
	j := run.Job()
	keeping := context.WithoutCancel(ctx)
	prompt, err := d.o.Store.JobPrompt(ctx, j)
	if err != nil {
		return runner.Task{}, err
	}
	t := runner.Task{Job: j.ID, Agent: a.Name, Prompt: prompt, System: a.System.Text, Model: a.Model, Dir: a.Dir, Session: j.SessionID,
		Fork: j.ForkedFrom != "", Mint: string(tidemark.NewSessionID()), MaxTurns: a.Limits.MaxTurns, RunMode: a.RunMode, OutputBytes: a.Limits.OutputBytes}
	if d.o.Environ != nil {
		t.Environ = d.o.Environ(a)
	}
	if a.Container != nil {
		t.Container = containerOf(*a.Container)
		t.Container.Environ = d.o.Engine
	}
	if t.Sandbox, err = d.sandboxPolicy(a, func(p sandbox.Policy) (sandbox.Policy, error) { return confined(a, p, t.Environ) }); err != nil {
		return t, err
	}
	t.Emit = func(e tidemark.Event) error { return run.Emit(keeping, e) }
	if want := requestedSession(j); want != nil {
		if err := d.setSession(ctx, a, want, &t); err != nil {
			return t, err
		}
	} else if t.Session == "" && d.resumes(ctx, a, j) {
		session, err := d.lastSession(ctx, a)
		if err != nil {
			return t, err
		}
		t.Session = session
	}
	if t.Session != "" {
		t.Spent = d.spentOf(ctx, a.Name, t.Session)
	}
	t.Ask, t.Args = d.answers(a, run), append(providerArgs(a), permissionArgs(a)...)
	t.Running = func(p runner.Process) error {
		b, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return run.Note(keeping, func(j *tidemark.Job) {
			j.Process, j.ContainerID = b, p.Container
			j.SessionID = cmp.Or(p.Session, j.SessionID)
			if j.Resume != nil && j.Resume.Session == p.Session {
				going := *j.Resume
				going.Entry = 0 // it is used now: a retry of the job continues at the end of the session
				j.Resume = &going
			}
		})
	}
	var p runner.Process
	if err := json.Unmarshal(j.Process, &p); err != nil {
		return t, err
	}
	t.Mark = p.Mark
	return t, nil
}

// marked returns what is kept of a job's program before it is started. It can be found
// by its mark, even if we die before we know its process id.
func (d *Daemon) marked(job string) ([]byte, error) {
	p := runner.Process{Job: job, Mark: runner.NewMark()}
	p.Host, p.BootID, p.Namespace = d.o.Holder.Host, d.o.Holder.BootID, d.o.Holder.Namespace
	return json.Marshal(p)
}

// sandboxPolicy returns the sandbox for a program of an agent, after more has added
// to it; nil where the file turns it off or the program runs in a container. The
// built-in agent applies it to its tools, see Machine.fence.
func (d *Daemon) sandboxPolicy(a file.Agent, more func(sandbox.Policy) (sandbox.Policy, error)) (*sandbox.Policy, error) {
	if d.o.Policy == nil || a.Sandbox.Off || a.Container != nil {
		return nil, nil
	}
	p, err := d.o.Policy(a)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	current := d.file
	d.mu.Unlock()
	p.Read = append(slices.Clip(p.Read), guards(current, d.o.Inbox)...)
	if p, err = more(p); err != nil {
		return nil, err
	}
	return &p, nil
}

// withSandboxAdvice adds advice to the error of a program that cannot run in a
// sandbox.
func withSandboxAdvice(a file.Agent, err error) error {
	if !errors.Is(err, sandbox.ErrNone) {
		return err
	}
	return fmt.Errorf("%w; nothing was run. tidemark doctor says what this machine can enforce; with sandbox: off, agent %s runs without", err, a.Name)
}

// spentOf is the usage of a session as of the agent's newest job in it.
func (d *Daemon) spentOf(ctx context.Context, agent, session string) *tidemark.Usage {
	for j, err := range d.o.Store.Jobs(ctx, fleet.JobFilter{Agent: agent, Limit: recentJobs}) {
		if err == nil && j.SessionID == session && j.Spent != nil {
			return j.Spent
		}
	}
	return nil
}

// recentJobs is how many jobs of an agent are searched for a session.
const recentJobs = 200

// resumes reports whether a job's schedule continues the agent's last session.
func (d *Daemon) resumes(ctx context.Context, a file.Agent, j tidemark.Job) bool {
	if j.Schedule == "" {
		return false
	}
	s, err := d.o.Store.Schedule(ctx, a.Name, j.Schedule)
	s, ok := d.trusted(s)
	return err == nil && ok && s.Resume
}

// lastSession is the session that an agent used last, "" if that is longer ago than
// its SessionTimeout.
func (d *Daemon) lastSession(ctx context.Context, a file.Agent) (string, error) {
	have, err := d.o.Store.AgentRecord(ctx, a.Name)
	switch {
	case errors.Is(err, tidemark.ErrNotFound), errors.Is(err, tidemark.ErrCorrupt):
		return "", nil
	case err != nil:
		return "", err
	case have.Session == nil || d.o.Now().Sub(have.Session.LastUsedAt) >= a.SessionTimeout:
		return "", nil
	}
	return have.Session.ID, nil
}

// finish keeps how a job ended, and the next attempt if there is one.
func (d *Daemon) finish(ctx context.Context, a file.Agent, run *fleet.JobRun, out runner.Outcome, cause error) error {
	now := d.o.Now().UTC().Truncate(time.Microsecond)
	end := func(j *tidemark.Job) {
		j.Status, j.ExitReason = statusFor(out.ExitReason), out.ExitReason
		j.SessionID, j.Summary = cmp.Or(out.Session, j.SessionID), out.Summary
		j.Turns, j.CostUSD, j.Usage, j.Spent = out.Turns, out.CostUSD, out.Usage, out.Spent
		if cause != nil {
			j.ErrorMessage = cause.Error()
		}
		if j.Resume != nil && errors.Is(cause, runner.ErrSession) {
			j.SessionID = j.Resume.Session // the run never had one of its own
		}
		j.FinishedAt = now
	}
	remember := func(state *tidemark.Agent, j tidemark.Job) {
		switch j.Status {
		case tidemark.JobCompleted:
			state.LastJob, state.Status, state.ErrorMessage, state.FailedJob = j.ID, tidemark.Idle, "", ""
		case tidemark.JobFailed:
			state.Status, state.ErrorMessage, state.FailedJob = tidemark.Failing, j.ErrorMessage, j.ID
		}
		if j.SessionID == "" || errors.Is(cause, runner.ErrSession) {
			return
		}
		if state.Session == nil || state.Session.ID != j.SessionID {
			state.Session = &tidemark.AgentSession{ID: j.SessionID, CreatedAt: now}
		}
		state.Session.LastUsedAt, state.Session.RunMode, state.Session.WorkingDirectory = now, a.RunMode, a.Dir
		state.Session.Jobs++
	}
	ended := run.Job()
	end(&ended)
	next, err := run.Finish(ctx, end, remember, nextAttempt(a, ended, now, errors.As(cause, new(fenced))))
	if err != nil {
		return err
	}
	j := run.Job()
	d.o.Tell(a.Name, fmt.Sprintf("%s ended: %s", j.ID, j.ExitReason))
	if err := d.o.Store.EndReviews(ctx, j.ID); err != nil {
		d.o.Tell(a.Name, fmt.Sprintf("%s: %s", j.ID, err))
	}
	if err := d.added(ctx, j, next); err != nil {
		return err
	}
	return d.updateSchedule(ctx, j, now)
}

// added has the next attempt of a job run in its time, if there is one.
func (d *Daemon) added(ctx context.Context, j, next tidemark.Job) error {
	if next.ID == "" {
		return nil
	}
	d.o.Tell(j.Agent, fmt.Sprintf("%s is tried again as %s in %s", j.ID, next.ID, next.NotBefore.Sub(d.o.Now()).Round(time.Second)))
	return d.o.Dispatch.Added(ctx, []tidemark.Job{next})
}

// statusFor is the status of a job with this exit reason.
func statusFor(reason string) string {
	switch reason {
	case tidemark.ExitSuccess, tidemark.ExitEndTurn, tidemark.ExitStopSequence, tidemark.ExitMaxTokens, tidemark.ExitMaxTurns:
		return tidemark.JobCompleted
	case tidemark.ExitCancelled:
		return tidemark.JobCancelled
	case tidemark.ExitInterrupt:
		return tidemark.JobInterrupted
	}
	return tidemark.JobFailed
}

// updateSchedule records the end of a job in its schedule. If the interval counts
// from completion, it also sets when the schedule is due next.
func (d *Daemon) updateSchedule(ctx context.Context, j tidemark.Job, now time.Time) error {
	if j.Schedule == "" {
		return nil
	}
	err := d.o.Store.ChangeSchedule(ctx, j.Agent, j.Schedule, func(s *tidemark.Schedule) error {
		s.LastError = ""
		if j.Status == tidemark.JobFailed {
			s.LastError = j.ErrorMessage
		}
		if s.From != fleet.FromCompletion || s.Job != j.ID {
			return nil
		}
		// If the clock was set back, the same time must not be due again.
		next, err := d.book.Next(timingOf(*s), idOf(*s), later(now, j.Occurrence))
		s.NextRunAt = next
		return err
	})
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil
	}
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// fenced is the cause of the end of a run whose store was away for so long that
// another may have the job by now.
type fenced time.Duration

func (f fenced) Error() string {
	return fmt.Sprintf("the store was away for %s, so that another may run it by now: its program was ended here", time.Duration(f))
}

// Is makes it an interruption for the runner.
func (fenced) Is(target error) bool { return target == runner.ErrInterrupted }

// fence ends a run that is tried again elsewhere when its owner is silent, before
// that may begin.
func (d *Daemon) fence(ctx context.Context, after time.Duration, run *fleet.JobRun, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for run.Silence() < after {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	cancel(fenced(after))
}

// again returns the next attempt of a job whose owner is gone, nil when there is
// none. If the owner is only silent, it notes until when the program may run on there,
// and waits for that.
func (d *Daemon) again(j *tidemark.Job, silent bool) *tidemark.Job {
	a, ok := d.agent(j.Agent)
	now := d.o.Now()
	switch {
	case !silent:
	case ok && a.Retries.Interrupted:
		j.RunsUntil = now.Add(a.Retries.Fence)
		j.ErrorMessage += "; its program may run on there until " + j.RunsUntil.UTC().Format("2006-01-02 15:04:05Z")
	default:
		j.ErrorMessage += "; its program may still run there"
	}
	if !ok {
		return nil
	}
	next := nextAttempt(a, *j, now, true)
	if next != nil {
		next.NotBefore = later(next.NotBefore, j.RunsUntil)
	}
	return next
}

// nextAttempt returns the next attempt of a job that failed, or that was interrupted
// because its owner was gone; nil when there is none. It waits longer each time, and
// is kept in one commit with the end of the job.
func nextAttempt(a file.Agent, j tidemark.Job, now time.Time, gone bool) *tidemark.Job {
	again := j.Status == tidemark.JobFailed || j.Status == tidemark.JobInterrupted && gone && a.Retries.Interrupted
	if !again || j.Attempt >= a.Retries.Attempts {
		return nil
	}
	wait := a.Retries.Backoff << min(max(j.Attempt-1, 0), 10)
	next := &tidemark.Job{Agent: j.Agent, Schedule: j.Schedule, Trigger: j.Trigger, Prompt: j.Prompt, SessionID: j.SessionID,
		Occurrence: j.Occurrence, Attempt: j.Attempt + 1, NotBefore: now.Add(wait)}
	if j.Resume != nil {
		if next.Resume = j.Next(); next.Resume != nil && next.Resume.Fork {
			next.ForkedFrom = j.ForkedFrom
		}
	}
	return next
}

// endProgram ends what is left of a job's program.
func (d *Daemon) endProgram(ctx context.Context, j tidemark.Job) error {
	var p runner.Process
	if err := json.Unmarshal(j.Process, &p); err != nil {
		return err
	}
	return runner.End(ctx, p, d.o.Engine)
}

// containerOf converts the container of the file to the runner's type.
func containerOf(c file.Container) *runner.Container {
	r := &runner.Container{Engine: c.Engine, Image: c.Image}
	for _, m := range c.Mounts {
		r.Mounts = append(r.Mounts, runner.Mount(m))
	}
	if c.Network != "" {
		r.Options = append(r.Options, "--network="+c.Network)
	}
	if c.Memory > 0 {
		r.Options = append(r.Options, fmt.Sprintf("--memory=%d", c.Memory))
	}
	if c.CPUs > 0 {
		r.Options = append(r.Options, fmt.Sprintf("--cpus=%g", c.CPUs))
	}
	return r
}
