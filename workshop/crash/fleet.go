package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

// killsAFleet is how many kills one store goes through before a new one is
// begun.
const killsAFleet = 20

// fleetLanes is the number of concurrent fleets, each with a store of its own.
const fleetLanes = 4

// fleetUp kills the daemons of fleets, and the programs of their agents,
// by SIGKILL at random instants, and starts other daemons on the same
// store.
func fleetUp(ctx context.Context, o options) ([]row, error) {
	if runtime.GOOS != "linux" {
		return nil, &skipped{"seeing which agents run needs /proc, which " + runtime.GOOS + " has not"}
	}
	p, work, done, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &fleeting{o: o, work: work, book: &book{say: o.say}, place: place{program: p, backend: o.backend, plain: true}}
	err = t.run(ctx)
	total := t.book.row()
	total.what, total.where, total.count = "SIGKILL", "tidemark fleet up", int(t.kills.Load())
	total.note = fmt.Sprintf("%d daemons, %d agents' programs; %d jobs, %d interrupted; %d occurrences; %d left something running, gone after %d ms",
		t.kills.Load()-t.programs.Load(), t.programs.Load(), t.jobs.Load(), t.interrupted.Load(), t.occurrences.Load(), t.orphaned.Load(), t.slowest.Load()/1e6)
	if total.broken() {
		o.say("the stores are left in %s", work)
	} else {
		done()
	}
	return []row{total}, err
}

// fleeting is one run of fleetUp.
type fleeting struct {
	o     options
	place place
	work  string

	kills, programs, fleets                  atomic.Int64
	jobs, interrupted, occurrences, orphaned atomic.Int64
	slowest                                  atomic.Int64 // nanoseconds until leftovers were gone
	book                                     *book        // its lock guards the counts
}

func (t *fleeting) fault(count *int, format string, args ...any) {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	t.book.fault(count, format, args...)
}

func (t *fleeting) over(ctx context.Context) bool {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	return ctx.Err() != nil || t.kills.Load() >= int64(t.o.n) || t.book.row().broken() && !t.o.goOn
}

func (t *fleeting) run(ctx context.Context) error {
	errs := make([]error, min(fleetLanes, t.o.n))
	var all sync.WaitGroup
	for lane := range errs {
		r := rand.New(rand.NewPCG(t.o.seed, uint64(lane)))
		all.Go(func() {
			for errs[lane] == nil && !t.over(ctx) {
				errs[lane] = t.oneFleet(ctx, r)
			}
		})
	}
	all.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// crowd is one fleet: its store, its file and its running daemons.
type crowd struct {
	place
	t       *fleeting
	r       chooser
	name    string
	marks   string // file that the agents write to
	file    string
	store   *store.Store
	fleet   *fleet.Store // in it
	daemons []*daemon
}

// daemon is one process that runs the fleet.
type daemon struct {
	cmd  *exec.Cmd
	said bytes.Buffer
	done chan struct{}
}

// oneFleet deals blows to one fleet until it has had enough of them, and then
// checks everything that it left.
func (t *fleeting) oneFleet(ctx context.Context, r chooser) (err error) {
	c := &crowd{place: t.place, t: t, r: r, name: fmt.Sprint("fleet", t.fleets.Add(1))}
	c.dir = filepath.Join(t.work, c.name)
	c.marks, c.file = filepath.Join(c.dir, "marks"), filepath.Join(c.dir, "fleet.yaml")
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return err
	}
	if err := c.describe(); err != nil {
		return err
	}
	if a, err := c.ask("", "append", "new"); err != nil || a.code != 0 { // appends nothing, but creates the store
		return fmt.Errorf("a new store: exit %d, %w: %s", a.code, err, a.err)
	}
	if c.store, err = openStore(ctx, c.backend, c.dir, 0); err != nil {
		return err
	}
	defer c.store.Close()
	c.fleet = fleet.Over(c.store)
	defer c.killAll()
	for range killsAFleet {
		if t.over(ctx) {
			break
		}
		if err := c.blow(ctx); err != nil {
			return err
		}
	}
	if err := c.down(); err != nil {
		return err
	}
	if err := c.audit(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if t.broken() {
		return nil
	}
	return os.RemoveAll(c.dir)
}

func (t *fleeting) broken() bool {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	return t.book.row().broken()
}

// The limits of the fleet file below, by agent; the fleet's own is "".
var fleetLimits = map[string]int{"": 5, "short": 1, "long": 2, "fork": 1, "heavy": 1, "last": 1}

// describe writes the fleet file.
func (c *crowd) describe() error {
	me, err := os.Executable()
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nlimits: {max_concurrent: %d}\nagents:\n", fleetLimits[""])
	agent := func(name, schedule string) {
		fmt.Fprintf(&b, "  - name: %s\n    runner: command\n    command: [%q, agent, %s, %q]\n    env: {%s: agent}\n", name, me, name, c.marks, helperMark)
		fmt.Fprintf(&b, "    limits: {max_concurrent: %d}\n    schedules:\n      - {name: tick, %s}\n", fleetLimits[name], schedule)
	}
	agent("short", "every: 1s, missed: all")
	agent("long", "every: 2s, overlap: queue")
	agent("fork", "every: 2s, missed: skip")
	agent("heavy", "every: 3s, overlap: replace")
	agent("last", "every: 1s, from: completion")
	return os.WriteFile(c.file, []byte(b.String()), 0o600)
}

// up starts a daemon.
func (c *crowd) up() error {
	d := &daemon{cmd: c.command("fleet", "up", "--file", c.file), done: make(chan struct{})}
	d.cmd.Stderr = &d.said
	ownGroup(d.cmd)
	if err := d.cmd.Start(); err != nil {
		return err
	}
	go func() {
		d.cmd.Wait()
		close(d.done)
	}()
	c.daemons = append(c.daemons, d)
	return nil
}

// kill ends a daemon, which has no time to say anything.
func (c *crowd) kill(d *daemon) {
	d.cmd.Process.Kill()
	<-d.done
	for i, have := range c.daemons {
		if have == d {
			c.daemons = append(c.daemons[:i:i], c.daemons[i+1:]...)
		}
	}
}

func (c *crowd) killAll() {
	for len(c.daemons) > 0 {
		c.kill(c.daemons[0])
	}
}

// down stops the daemons as people do.
func (c *crowd) down() error {
	for _, d := range c.daemons {
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	for _, d := range c.daemons {
		select {
		case <-d.done:
			// One that had not begun when it was told to end has done nothing
			// yet.
			if code := d.cmd.ProcessState.ExitCode(); code != 0 && !(code == -1 && d.said.String() == "") {
				c.t.fault(&c.t.book.aid, "%s: a daemon that is stopped ends with %d: %s", c.name, code, d.said.String())
			}
		case <-time.After(turnTimeout):
			c.t.fault(&c.t.book.aid, "%s: a daemon has not stopped after %s", c.name, turnTimeout)
		}
	}
	return nil
}

// blow lets the fleet work for a while, kills something, and waits until
// everything is in order again.
func (c *crowd) blow(ctx context.Context) error {
	for want := 1 + c.r.IntN(3)/2; len(c.daemons) < want; {
		if err := c.up(); err != nil {
			return err
		}
	}
	if c.r.IntN(3) == 0 { // by hand, in addition to the schedules; no agent is known before a daemon was up
		if _, err := c.ask("", "run", []string{"short", "long", "fork"}[c.r.IntN(3)]); err != nil {
			return err
		}
	}
	time.Sleep(time.Duration(50+c.r.IntN(2500)) * time.Millisecond)
	for _, d := range c.daemons {
		select {
		case <-d.done:
			return fmt.Errorf("%s: a daemon ended by itself: %s", c.name, d.said.String())
		default:
		}
	}
	switch n := c.r.IntN(8); {
	case n < 2:
		if c.killProgram() {
			c.t.programs.Add(1)
			c.t.kills.Add(1)
		}
		return nil
	case n < 3:
		c.killProgram()
		fallthrough
	case n < 6:
		c.kill(c.daemons[c.r.IntN(len(c.daemons))])
	default:
		c.killAll()
	}
	c.t.kills.Add(1)
	if len(c.daemons) == 0 {
		time.Sleep(time.Duration(c.r.IntN(1500)) * time.Millisecond) // no daemon is running
		if err := c.up(); err != nil {
			return err
		}
	}
	return c.settle(ctx)
}

// killProgram ends the group of an agent's program, and reports whether there
// was one.
func (c *crowd) killProgram() bool {
	all, err := readMarks(c.marks)
	if err != nil {
		return false
	}
	for _, m := range all {
		if p, err := os.FindProcess(m.pid); m.what == "begin" && err == nil && m.alive() {
			killGroup(p)
			return true
		}
	}
	return false
}

// settling is how long a fleet has to clean up after a killed daemon: a
// sweep comes every few seconds, and a program has some seconds to end.
const settling = 25 * time.Second

// settle waits until every running job has an owner, and no program runs
// without its job.
func (c *crowd) settle(ctx context.Context) error {
	began, left := time.Now(), ""
	for first := true; ; first = false {
		was := left
		var err error
		if left, err = c.leftBehind(ctx); err != nil || left == "" {
			if !first && was != "" {
				c.t.orphaned.Add(1)
				raise(&c.t.slowest, time.Since(began))
			}
			return err
		}
		if time.Since(began) > settling {
			c.t.fault(&c.t.book.aid, "%s: %s, %s after a kill", c.name, left, settling)
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leftBehind names something without an owner; "" when there is nothing.
func (c *crowd) leftBehind(ctx context.Context) (string, error) {
	running, err := c.fleet.Running(ctx, "")
	if err != nil {
		return "", err
	}
	for _, id := range running {
		l, err := c.fleet.JobLease(ctx, id)
		if err != nil {
			return "", err
		}
		if !l.Held || l.Dead {
			return "job " + id + " runs without an owner", nil
		}
	}
	all, err := readMarks(c.marks)
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if m.what != "begin" && m.what != "child" || !m.alive() {
			continue
		}
		// The process is checked again: it may have ended with its job.
		if j, err := c.fleet.Job(ctx, m.job); err != nil || j.Status != tidemark.JobRunning && m.alive() {
			return fmt.Sprintf("%s process %d of %s (%s) runs", m.what, m.pid, m.job, j.Status), err
		}
	}
	return "", nil
}
