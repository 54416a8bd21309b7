package daemon

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/due"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/runner"
)

// Options configure a Daemon. Store, File, and Machine or Runner are required.
type Options struct {
	Store  *fleet.Store
	Holder tidemark.Holder
	File   *file.File
	// Machine is where agents run. If it is set, New sets Runner, Environ, Engine
	// and Policy from it.
	Machine *Machine
	// Runner returns what runs an agent.
	Runner func(file.Agent) (runner.Runner, error)
	// Environ is the environment of an agent's program, and Engine that of the
	// container engine.
	Environ func(file.Agent) []string
	Engine  []string
	// Policy is what every program of an agent may do. What its file allows, and
	// what its runner needs, is added. Nil: no sandbox is used.
	Policy func(file.Agent) (sandbox.Policy, error)
	// Session is called for a task that is to continue a session, which the task
	// names by its id in the store. It changes that to the id by which the agent's
	// own program knows the session, and writes the session where that program
	// looks for it, if it is not there. It returns what it did, for people to read;
	// "": nothing. Nil: programs know sessions by their ids in the store.
	Session func(context.Context, file.Agent, *runner.Task) (did string, err error)
	// Wake continues a sleeping chat of the fleet's owner whose timer fired. Nil:
	// chats are not woken. Sleepers lists the chats that are due by a time and
	// that the owner allowed to be woken.
	Wake     func(context.Context, tidemark.SessionID) error
	Sleepers func(ctx context.Context, by time.Time) ([]tidemark.SessionID, error)
	// Key signs the wakes of this fleet's agents, and the schedules that are not
	// in its file. Nil: none of these are run.
	Key fleet.Key
	// Secret returns the value of a variable that the file names; nil: none is
	// set. Inbox is the folder in which inbox/AGENT are the inboxes; "": there are
	// none.
	Secret func(name string) string
	Inbox  string
	// Dispatch hands out jobs that wait. The default takes them from the store.
	Dispatch Dispatch
	// Round, unless it is nil, is called before each round, with the time. Ready is
	// called once, after the first round without an error.
	Round func(time.Time)
	Ready func()
	// Now tells the time. The default is time.Now.
	Now func() time.Time
	// Tell is called with one line of text for people whenever something happens.
	// The default does nothing.
	Tell func(agent, text string)
}

// Dispatch hands out jobs that wait. The default takes them from the store; where
// several machines share one store, they may come from a queue. Either way it only
// says that a job is due: whoever starts the job takes its lease.
type Dispatch interface {
	// Added is called with jobs that were kept and are waiting.
	Added(ctx context.Context, jobs []tidemark.Job) error
	// HandOut is called in every round of a daemon. It calls start with jobs that
	// are due, either before it returns, or later until the daemon ends, and
	// possibly concurrently. start returns nil when nothing more is to be done
	// about the job, fleet.ErrBusy when it has to wait for another one to end,
	// ErrUnsupported when another daemon has to run it, and fleet.ErrNobody when
	// no daemon has its agent.
	HandOut(ctx context.Context, now time.Time, start func(context.Context, tidemark.Job) error) error
}

// inProcess is the default Dispatch: it takes jobs from the store.
type inProcess struct {
	s    *fleet.Store
	wake func()
}

func (d inProcess) Added(context.Context, []tidemark.Job) error {
	d.wake()
	return nil
}

// HandOut starts the jobs that are due, the longest waiting first.
func (d inProcess) HandOut(ctx context.Context, now time.Time, start func(context.Context, tidemark.Job) error) error {
	jobs, err := d.s.DueJobs(ctx, now, 0)
	if err != nil {
		return err
	}
	busy := make(map[string]bool) // agents without a free slot
	for _, j := range jobs {
		if !busy[j.Agent] {
			busy[j.Agent] = errors.Is(start(ctx, j), fleet.ErrBusy)
		}
	}
	return nil
}

const (
	// lookEvery is the longest time between two rounds.
	lookEvery = time.Second
	// lookApart is the upper bound of a random delay after the time at which a
	// schedule is due, so that the daemons on one store do not all claim it at once.
	lookApart = 100 * time.Millisecond
	// sweepEvery is how often a daemon looks for jobs whose owner died.
	sweepEvery = 5 * time.Second
	// stopTimeout is how long runs have to end when the daemon stops.
	stopTimeout = 30 * time.Second
	// lastTimeout is how long they have after that, when their end need not be
	// kept any more.
	lastTimeout = 5 * time.Second
)

// Daemon runs a fleet: it creates jobs for what is due, and runs them. Any number
// of daemons may work on one store.
type Daemon struct {
	*endpoints
	o    Options
	book *due.Book
	wake chan struct{}
	// failed is the last error that was reported of each schedule, by its id, so
	// that it is reported once. Only round uses it.
	failed map[string]string

	mu     sync.Mutex
	file   *file.File
	synced *file.File // the file that the schedules in the store are from
	runs   map[string]context.CancelCauseFunc
	ending bool // no new runs begin
	absent absent
	wg     sync.WaitGroup

	// quit ends when the daemon stops waiting for the ends of jobs to be kept.
	quit   context.Context
	giveUp context.CancelFunc
}

// New returns a Daemon that does nothing yet.
func New(o Options) *Daemon {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Tell == nil {
		o.Tell = func(string, string) {}
	}
	d := &Daemon{o: o, book: new(due.Book), wake: make(chan struct{}, 1), file: o.File, runs: make(map[string]context.CancelCauseFunc), failed: make(map[string]string)}
	d.absent.since = make(map[string]time.Time)
	d.quit, d.giveUp = context.WithCancel(context.Background())
	d.endpoints = newEndpoints(d, o.Secret)
	if o.Machine != nil {
		d.o.runOn(o.Machine, d)
	}
	if d.o.Dispatch == nil {
		d.o.Dispatch = inProcess{o.Store, d.Wake}
	}
	return d
}

// Wake starts the next round now.
func (d *Daemon) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Reload replaces the fleet file, and returns the changes. Jobs that are running go
// on.
func (d *Daemon) Reload(f *file.File) []file.Change {
	d.mu.Lock()
	changes := f.Changes(d.file)
	d.file = f
	d.mu.Unlock()
	select {
	case d.reloaded <- struct{}{}:
	default:
	}
	d.Wake()
	return changes
}

// Run works until ctx ends. Then it interrupts what runs, so that it can be resumed
// later, and waits a limited time for that.
func (d *Daemon) Run(ctx context.Context) error {
	f, err := d.o.Store.Fleet(ctx)
	if err != nil {
		return err
	}
	f.StartedAt = d.o.Now().UTC().Truncate(time.Second)
	if err := d.o.Store.PutFleet(ctx, f); err != nil {
		return err
	}
	defer d.keepMirror(ctx)()
	d.wg.Go(func() { d.endLeftovers(ctx) })
	var swept, retained, next time.Time
	for ctx.Err() == nil {
		now := d.o.Now()
		if now.Sub(swept) >= sweepEvery || now.Before(swept) {
			swept = now
			if err := d.sweep(ctx, now); err != nil {
				d.reportError(err)
			}
		}
		if now.Sub(retained) >= retainEvery || now.Before(retained) {
			retained = now
			if err := d.retain(ctx, now); err != nil {
				d.reportError(err)
			}
		}
		if err := d.inbox(ctx, d.o.Inbox); err != nil {
			d.reportError(err)
		}
		if d.o.Round != nil {
			d.o.Round(now)
		}
		var err error
		if next, err = d.round(ctx, now); err != nil {
			d.reportError(err)
		} else {
			first := d.lastRound.Swap(now.UnixNano()) == 0
			if first && d.o.Ready != nil {
				d.o.Ready()
			}
		}
		select {
		case <-ctx.Done():
		case <-d.wake:
		case <-time.After(d.untilLook(next)):
		}
	}
	d.stop()
	return nil
}

// reportError tells people about an error after which the next round tries again.
func (d *Daemon) reportError(err error) {
	if !errors.Is(err, context.Canceled) {
		d.o.Tell("", err.Error())
	}
}

// untilLook is how long to wait before the next round: until next, when something
// is due, but at most lookEvery.
func (d *Daemon) untilLook(next time.Time) time.Duration {
	if next.IsZero() {
		return lookEvery
	}
	return min(max(0, next.Sub(d.o.Now()))+rand.N(lookApart), lookEvery)
}

// round does what is due now. It returns the time of what is due before the usual
// next round, zero when nothing is.
func (d *Daemon) round(ctx context.Context, now time.Time) (next time.Time, err error) {
	if err := d.sync(ctx, now); err != nil {
		return next, err
	}
	all, err := d.o.Store.DueSchedules(ctx, now.Add(lookEvery))
	if err != nil {
		return next, err
	}
	coming := slices.IndexFunc(all, func(s tidemark.Schedule) bool { return s.NextRunAt.After(now) })
	due := all
	if coming >= 0 {
		due, next = all[:coming], all[coming].NextRunAt
	}
	// Several daemons see the same due schedules. In random order they conflict
	// less often.
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	for _, s := range due {
		err := d.occur(ctx, s, now)
		if err != nil && d.failed[idOf(s)] != err.Error() { // once: it is tried again every second
			d.o.Tell(s.Agent, fmt.Sprintf("schedule %s: %s", s.Name, err))
			d.failed[idOf(s)] = err.Error()
		}
		if err == nil {
			delete(d.failed, idOf(s))
		}
	}
	if err := errors.Join(d.wakeSleepers(ctx, now), d.wakeAgents(ctx, now)); err != nil {
		return next, err
	}
	return next, d.o.Dispatch.HandOut(ctx, now, d.startAndReport)
}

// startAndReport starts a job that was handed out, and reports unexpected errors.
func (d *Daemon) startAndReport(ctx context.Context, j tidemark.Job) error {
	err := d.start(ctx, j)
	if err != nil && !errors.Is(err, fleet.ErrBusy) && !errors.Is(err, tidemark.ErrUnsupported) && !errors.Is(err, fleet.ErrNobody) {
		d.o.Tell(j.Agent, fmt.Sprintf("%s: %s", j.ID, err))
	}
	return err
}

// wakeSleepers wakes the chats that are due, each in a goroutine of its own.
func (d *Daemon) wakeSleepers(ctx context.Context, now time.Time) error {
	if d.o.Wake == nil || d.o.Sleepers == nil {
		return nil
	}
	ids, err := d.o.Sleepers(ctx, now)
	for _, id := range ids {
		d.mu.Lock()
		_, awake := d.runs[string(id)]
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		if !awake {
			d.runs[string(id)] = cancel
		}
		d.mu.Unlock()
		if awake {
			cancel(nil)
			continue
		}
		d.wg.Go(func() {
			defer cancel(nil)
			d.o.Tell("", fmt.Sprintf("session %.8s is woken", id))
			if err := d.o.Wake(ctx, id); err != nil && !errors.Is(err, tidemark.ErrHeld) {
				d.o.Tell("", fmt.Sprintf("session %.8s: %s", id, err))
				select { // it is still due, but should not be woken again at once
				case <-ctx.Done():
				case <-time.After(time.Minute):
				}
			}
			d.mu.Lock()
			delete(d.runs, string(id))
			d.mu.Unlock()
		})
	}
	return err
}

// sweep records that this daemon is alive, and ends jobs whose daemon died or whose
// agent no daemon has.
func (d *Daemon) sweep(ctx context.Context, now time.Time) error {
	if err := d.o.Store.DaemonAlive(ctx, d.o.Holder); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		d.reportError(err)
	}
	return errors.Join(d.interrupt(ctx), d.readOtherDaemons(ctx), d.abandon(ctx, now))
}

// interrupt ends the jobs of daemons that died, with what is left of the jobs'
// programs.
func (d *Daemon) interrupt(ctx context.Context) error {
	// What is left of a program is ended while the job still has its slot, so that
	// no other run of the agent begins meanwhile. It is ended once more afterwards,
	// for what it may have started in the meantime.
	end := func(j tidemark.Job) {
		if len(j.Process) == 0 {
			return
		}
		if err := d.endProgram(ctx, j); err != nil {
			d.o.Tell(j.Agent, fmt.Sprintf("%s: %s", j.ID, err))
		}
	}
	ended, err := d.o.Store.Interrupt(ctx, fleet.Gone{Before: end, Again: d.again})
	for _, one := range ended {
		j := one.Job
		d.o.Tell(j.Agent, fmt.Sprintf("%s was interrupted: %s", j.ID, j.ErrorMessage))
		if err := d.added(ctx, j, one.Next); err != nil {
			d.o.Tell(j.Agent, fmt.Sprintf("%s: %s", one.Next.ID, err))
		}
		if err := d.o.Store.EndReviews(ctx, j.ID); err != nil {
			d.o.Tell(j.Agent, fmt.Sprintf("%s: %s", j.ID, err))
		}
		if a, ok := d.agent(j.Agent); ok {
			d.wg.Go(func() { d.hooks(context.WithoutCancel(ctx), a, j) })
		}
		end(j)
	}
	if len(ended) > 0 {
		d.Wake()
	}
	return err
}

// endLeftovers ends what is left of programs that an earlier daemon on this host
// started, and whose jobs a daemon on another host has ended since: that one could
// not reach the programs.
func (d *Daemon) endLeftovers(ctx context.Context) {
	for j, err := range d.o.Store.Jobs(ctx, fleet.JobFilter{Status: tidemark.JobInterrupted, Limit: leftMost}) {
		if err == nil && j.Node == d.o.Holder.Host && len(j.Process) > 0 {
			err = d.endProgram(ctx, j)
		}
		if err != nil && ctx.Err() == nil {
			d.o.Tell(j.Agent, fmt.Sprintf("%s: %s", j.ID, err))
		}
	}
}

// leftMost is how many of the most recently interrupted jobs are checked: more than
// one host runs at a time.
const leftMost = 50

// stop interrupts all runs and waits for them. It also ends the jobs of daemons that
// died, since no other daemon may be left to do that.
func (d *Daemon) stop() {
	d.mu.Lock()
	d.ending = true
	for _, cancel := range d.runs {
		cancel(runner.ErrInterrupted)
	}
	d.mu.Unlock()
	defer d.giveUp()
	d.wg.Go(func() {
		if err := d.interrupt(d.quit); err != nil {
			d.reportError(err)
		}
	})
	done := make(chan struct{})
	go func() {
		d.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-time.After(stopTimeout):
	}
	d.giveUp()
	select {
	case <-done:
	case <-time.After(lastTimeout):
	}
}

// agent returns the agent of a name in the current file.
func (d *Daemon) agent(name string) (file.Agent, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.file.Agents {
		if a.Name == name {
			return a, true
		}
	}
	return file.Agent{}, false
}

func (d *Daemon) limits(a file.Agent) fleet.SlotLimits {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fleet.SlotLimits{Agent: a.Limits.MaxConcurrent, Fleet: d.file.Limits.MaxConcurrent}
}
