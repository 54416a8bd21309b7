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

// Options are what a Daemon needs. Store, File and a Machine, or a Runner, are
// required.
type Options struct {
	Store  *fleet.Store
	Holder tidemark.Holder
	File   *file.File
	// Machine says where agents run, which then says the four that follow.
	Machine *Machine
	// Runner makes what runs an agent.
	Runner func(file.Agent) (runner.Runner, error)
	// Environ is the environment of an agent's program, and Engine that of the
	// program which makes containers.
	Environ func(file.Agent) []string
	Engine  []string
	// Policy is what every program of an agent may do; what its file says, and
	// what its runner needs, is added to it. Nil: nothing is held in a sandbox.
	Policy func(file.Agent) (sandbox.Policy, error)
	// Session makes the session of a task, which somebody named by its id here,
	// the one that the agent's own program knows it by, and writes it where that
	// one looks when it is not there. What it did is for people to read; "":
	// nothing. Nil: programs know sessions by their ids here.
	Session func(context.Context, file.Agent, *runner.Task) (did string, err error)
	// Wake goes on with a chat of the person whose fleet it is, which sleeps and
	// whose timer fired. Nil: none is woken. Sleepers tells at each look which
	// chats sleep that are to be woken by then, and that the person let be woken.
	Wake     func(context.Context, tidemark.SessionID) error
	Sleepers func(ctx context.Context, by time.Time) ([]tidemark.SessionID, error)
	// Key is what the wakes of this fleet's agents and the schedules that its
	// file does not have are known by. Nil: none is.
	Key fleet.Key
	// Secret returns the value of a variable that the file names; nil: none is
	// set. Inbox is the folder with an inbox for each agent; "": there are none.
	Secret func(name string) string
	Inbox  string
	// Dispatch hands out jobs that wait. The default is in process.
	Dispatch Dispatch
	// Round is called before each look, with the time; nil: nothing is. Ready
	// is called once, after the first look at which nothing was wrong.
	Round func(time.Time)
	Ready func()
	// Now tells the time. The default is time.Now.
	Now func() time.Time
	// Tell is told what happens, one line each, for people. The default tells
	// nobody.
	Tell func(agent, text string)
}

// Dispatch hands out jobs that wait. In process they come from the store; where
// several machines share one store, from a queue. Either way it only says that
// a job is due: whoever starts it takes its lease.
type Dispatch interface {
	// Added is told of jobs that were kept and wait.
	Added(ctx context.Context, jobs []tidemark.Job) error
	// HandOut is called with every look of a daemon. It has start called with
	// jobs that are due: before it returns, or from then on until the daemon
	// ends, also concurrently. start returns nil when the job needs no further
	// care, fleet.ErrBusy when it has to wait for another one to end, and
	// ErrUnsupported when another daemon has to run it, and fleet.ErrNobody when
	// no daemon has its agent.
	HandOut(ctx context.Context, now time.Time, start func(context.Context, tidemark.Job) error) error
}

// inProcess hands out what the store has.
type inProcess struct {
	s    *fleet.Store
	wake func()
}

func (d inProcess) Added(context.Context, []tidemark.Job) error {
	d.wake()
	return nil
}

// HandOut starts what is due, those that wait longest first.
func (d inProcess) HandOut(ctx context.Context, now time.Time, start func(context.Context, tidemark.Job) error) error {
	jobs, err := d.s.DueJobs(ctx, now, 0)
	if err != nil {
		return err
	}
	busy := make(map[string]bool) // agents that have no slot free
	for _, j := range jobs {
		if !busy[j.Agent] {
			busy[j.Agent] = errors.Is(start(ctx, j), fleet.ErrBusy)
		}
	}
	return nil
}

// The pace of a daemon: how often it looks for what others changed, and for
// owners that died.
const (
	lookEvery = time.Second
	// lookApart is how much later than an instant a daemon looks, by chance at
	// most, so that those on one store do not all claim it at the same time.
	lookApart  = 100 * time.Millisecond
	sweepEvery = 5 * time.Second
	// stopTimeout is how long runs have to end when the daemon is told to.
	stopTimeout = 30 * time.Second
	// lastTimeout is how long they have when they were told once more.
	lastTimeout = 5 * time.Second
)

// Daemon runs a fleet: it makes jobs of what is due, and runs them. Any number
// of them may work on one store.
type Daemon struct {
	*endpoints
	o    Options
	book *due.Book
	wake chan struct{}
	// failed is what was told of schedules, by their ids; only round uses it.
	failed map[string]string

	mu     sync.Mutex
	file   *file.File
	synced *file.File // what the schedules in the store say
	runs   map[string]context.CancelCauseFunc
	ending bool // nothing more begins
	absent absent
	wg     sync.WaitGroup

	// quit ends when the daemon waits no longer for ends to be kept.
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

// Wake makes the daemon look now.
func (d *Daemon) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Reload makes another file hold, and returns what is different from the one that
// held. What runs goes on.
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

// Run works until ctx ends; then it lets what runs end, and ends the rest,
// which can be resumed.
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
	d.wg.Go(func() { d.leftovers(ctx) })
	var swept, retained, next time.Time
	for ctx.Err() == nil {
		now := d.o.Now()
		if now.Sub(swept) >= sweepEvery || now.Before(swept) {
			swept = now
			if err := d.sweep(ctx, now); err != nil {
				d.trouble(err)
			}
		}
		if now.Sub(retained) >= keepEvery || now.Before(retained) {
			retained = now
			if err := d.retain(ctx, now); err != nil {
				d.trouble(err)
			}
		}
		if err := d.inbox(ctx, d.o.Inbox); err != nil {
			d.trouble(err)
		}
		if d.o.Round != nil {
			d.o.Round(now)
		}
		var err error
		if next, err = d.round(ctx, now); err != nil {
			d.trouble(err)
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

// trouble says what went wrong; the next round tries again.
func (d *Daemon) trouble(err error) {
	if !errors.Is(err, context.Canceled) {
		d.o.Tell("", err.Error())
	}
}

// untilLook is how long to wait until the next look: until something is due that
// the last one saw coming, or lookEvery.
func (d *Daemon) untilLook(next time.Time) time.Duration {
	if next.IsZero() {
		return lookEvery
	}
	return min(max(0, next.Sub(d.o.Now()))+rand.N(lookApart), lookEvery)
}

// round does what is due now. It returns when something is due before the usual
// next look, zero when nothing is.
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
	// Daemons that see the same instants begin with different ones, and are not
	// in each other's way at each of them.
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	for _, s := range due {
		err := d.occur(ctx, s, now)
		if err != nil && d.failed[idOf(s)] != err.Error() { // it is due again in a second
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
	return next, d.o.Dispatch.HandOut(ctx, now, d.handed)
}

// handed starts a job that was handed out, and tells what is wrong with it.
func (d *Daemon) handed(ctx context.Context, j tidemark.Job) error {
	err := d.start(ctx, j)
	if err != nil && !errors.Is(err, fleet.ErrBusy) && !errors.Is(err, tidemark.ErrUnsupported) && !errors.Is(err, fleet.ErrNobody) {
		d.o.Tell(j.Agent, fmt.Sprintf("%s: %s", j.ID, err))
	}
	return err
}

// wakeSleepers goes on with sessions that asked to be woken, each beside
// everything else.
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
				select { // it is still due; not at once again
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

// sweep says that this daemon is there, and ends jobs that nobody else will.
func (d *Daemon) sweep(ctx context.Context, now time.Time) error {
	if err := d.o.Store.DaemonAlive(ctx, d.o.Holder); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		d.trouble(err)
	}
	return errors.Join(d.interrupt(ctx), d.lookAround(ctx), d.abandon(ctx, now))
}

// interrupt ends jobs whose owners are gone, with what is left of their programs.
func (d *Daemon) interrupt(ctx context.Context) error {
	// What is left of a program is ended while its slot is still taken, so that
	// no other run of the agent begins beside it; and once more afterwards, for
	// what it started meanwhile.
	end := func(j tidemark.Job) {
		if len(j.Process) == 0 {
			return
		}
		if err := d.end(ctx, j); err != nil {
			d.o.Tell(j.Agent, fmt.Sprintf("%s: %s", j.ID, err))
		}
	}
	ended, err := d.o.Store.Interrupt(ctx, end)
	for _, j := range ended {
		d.o.Tell(j.Agent, fmt.Sprintf("%s was interrupted: %s", j.ID, j.ErrorMessage))
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

// leftovers ends what is left of programs that a daemon of this host began
// before it was killed, and whose jobs a daemon of another host has ended since:
// that one cannot reach them.
func (d *Daemon) leftovers(ctx context.Context) {
	for j, err := range d.o.Store.Jobs(ctx, fleet.JobFilter{Status: tidemark.JobInterrupted, Limit: leftMost}) {
		if err == nil && j.Node == d.o.Holder.Host && len(j.Process) > 0 {
			err = d.end(ctx, j)
		}
		if err != nil && ctx.Err() == nil {
			d.o.Tell(j.Agent, fmt.Sprintf("%s: %s", j.ID, err))
		}
	}
}

// leftMost is how many jobs that were interrupted last are looked at: more than
// one host runs at a time.
const leftMost = 50

// stop lets runs end, and ends them when they do not. Jobs whose owners died are
// ended, too: this may be the last daemon that can tell.
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
			d.trouble(err)
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

// agent returns the agent of a name in the file that holds.
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
