package dispatch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/riverqueue/river"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// due is what River keeps: that a job of the store is due. A job that is tried
// again has an id of its own, so the id stands for the attempt, too.
type due struct {
	Tenant string `json:"tenant"`
	Owner  string `json:"owner"`
	Job    string `json:"job"`
}

// Kind names what River keeps.
func (due) Kind() string { return "tidemark_due" }

// worker begins what River hands out.
type worker struct {
	river.WorkerDefaults[due]
	d *Dispatch
}

// Work begins a job, or sees that there is nothing to begin. Whatever else
// happens, the job is put off: River counts no failures, since the record says
// whether the job still waits.
func (w *worker) Work(ctx context.Context, r *river.Job[due]) error {
	d := w.d
	if r.Args.Tenant != d.of.Tenant || r.Args.Owner != d.of.User {
		return river.JobCancel(errors.New("this is the job of another fleet"))
	}
	j, err := d.s.Job(ctx, r.Args.Job)
	switch {
	case errors.Is(err, tidemark.ErrNotFound), errors.Is(err, tidemark.ErrCorrupt):
		return nil // verify names the one that cannot be read
	case err != nil:
		d.log.WarnContext(ctx, "a job cannot be read", slog.String("job", r.Args.Job), slog.Any("error", err))
		return river.JobSnooze(calm())
	case j.Status != tidemark.JobPending:
		return nil // it was cancelled, or somebody was quicker
	}
	if wait := time.Until(j.NotBefore); wait > 0 {
		return river.JobSnooze(wait)
	}
	switch err = d.begin(ctx, j); {
	case err == nil:
		return nil
	case errors.Is(err, tidemark.ErrUnsupported): // another node should come by soon
		return river.JobSnooze(brisk())
	case errors.Is(err, fleet.ErrNobody):
		return river.JobSnooze(nobodyFor)
	case errors.Is(err, fleet.ErrBusy):
		if d.brisk(j.Agent) {
			return river.JobSnooze(brisk())
		}
	default:
		d.log.WarnContext(ctx, "a job cannot begin", slog.String("job", j.ID), slog.Any("error", err))
	}
	return river.JobSnooze(calm())
}

// nobodyFor is how long River keeps a job that no daemon can run: it costs
// nothing meanwhile, and a sweep begins it when a daemon can.
const nobodyFor = 10 * time.Minute

// How long a job that cannot begin now is put off: never so long that River's
// elected node has to bring it back, and not always the same, so that jobs that
// were put off together come apart.
func calm() time.Duration  { return time.Second + rand.N(3*time.Second) }
func brisk() time.Duration { return 100*time.Millisecond + rand.N(300*time.Millisecond) }

// briskFor is how long an agent counts as one whose jobs come and go.
const briskFor = 2 * time.Second

func (d *Dispatch) brisk(agent string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.began[agent]) < briskFor
}

// A few jobs of each agent that has no slot free wait here for one, so that the
// next begins as soon as one ends, without asking River; the others are put
// off.
const (
	waitMost      = hands / 2 // of all agents: there are hands left for the others
	waitMostAgent = 2
	waitFor       = 3 * time.Second
)

// waiter is a job that waits here for a slot.
type waiter struct {
	job  tidemark.Job
	done chan error // of its start, once it was not busy
	gone bool       // nobody waits any more
}

// begin starts a job, and waits a while if its agent is busy.
func (d *Dispatch) begin(ctx context.Context, j tidemark.Job) error {
	if !d.busy(j.Agent) {
		if err := d.try(ctx, j); !errors.Is(err, fleet.ErrBusy) {
			return err
		}
	}
	w := &waiter{job: j, done: make(chan error, 1)}
	if !d.wait(w) {
		return fleet.ErrBusy
	}
	patience := time.NewTimer(waitFor)
	defer patience.Stop()
	select {
	case err := <-w.done:
		return err
	case <-patience.C:
	case <-d.closed:
	case <-ctx.Done():
	}
	if d.leave(w) {
		return fleet.ErrBusy
	}
	return <-w.done // it is tried just now
}

// try starts a job.
func (d *Dispatch) try(ctx context.Context, j tidemark.Job) error {
	d.mu.Lock()
	start := d.start
	d.mu.Unlock()
	err := start(ctx, j)
	if err == nil {
		d.mu.Lock()
		d.began[j.Agent] = time.Now()
		d.mu.Unlock()
	}
	return err
}

// busy reports whether jobs of an agent wait here.
func (d *Dispatch) busy(agent string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting[agent]) > 0
}

// wait takes w in, if there is room for it.
func (d *Dispatch) wait(w *waiter) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.gone {
		return false
	}
	n := 0
	for _, all := range d.waiting {
		n += len(all)
	}
	agent := w.job.Agent
	if n >= waitMost || len(d.waiting[agent]) >= waitMostAgent {
		return false
	}
	d.waiting[agent] = append(d.waiting[agent], w)
	slices.SortStableFunc(d.waiting[agent], func(a, b *waiter) int {
		return cmp.Or(a.job.NotBefore.Compare(b.job.NotBefore), a.job.StartedAt.Compare(b.job.StartedAt))
	})
	return true
}

// leave lets w go, for good: false when it is tried just now.
func (d *Dispatch) leave(w *waiter) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.gone = true
	return d.takeOut(w)
}

// takeOut takes w out of those that wait: false when it is not among them.
func (d *Dispatch) takeOut(w *waiter) bool {
	agent := w.job.Agent
	i := slices.Index(d.waiting[agent], w)
	if i < 0 {
		return false
	}
	if d.waiting[agent] = slices.Delete(d.waiting[agent], i, i+1); len(d.waiting[agent]) == 0 {
		delete(d.waiting, agent)
	}
	return true
}

// again starts those that wait here, of each agent until one is busy. The
// daemon looks whenever a run has ended, so this is when slots become free.
func (d *Dispatch) again(ctx context.Context) {
	d.mu.Lock()
	var first []*waiter
	for _, all := range d.waiting {
		first = append(first, all...)
	}
	d.mu.Unlock()
	busy := make(map[string]bool)
	for _, w := range first {
		d.mu.Lock()
		mine := !busy[w.job.Agent] && d.takeOut(w)
		d.mu.Unlock()
		if !mine {
			continue
		}
		err := d.try(ctx, w.job)
		if busy[w.job.Agent] = errors.Is(err, fleet.ErrBusy); busy[w.job.Agent] && d.wait(w) {
			continue
		}
		w.done <- err
	}
}
