package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tidemark-sessions/tidemark"
)

// The jobs that wait in the store are told to River: at once when this node
// made them, and otherwise by a sweep, which compares what waits with what
// River has. River knows each once, however often it is told. Of an agent with
// a long queue it knows only the beginning, so that it does not turn over
// thousands of jobs which have no slot.
const (
	sweepEvery = time.Second
	// window is how many jobs of one agent River is told of.
	window = 64
	// sweepMost is how many jobs a sweep looks at; the first and then every
	// wholeSweep-th looks at all, so that an agent with a long queue does not
	// hide the others.
	sweepMost  = 1000
	wholeSweep = 10
	// riverMost is how many jobs River is asked for at a time, as many as it
	// gives. Of those beyond it is told again, which changes nothing.
	riverMost = 10_000
	// stuckAfter is when a job that River handed out, or should have, counts as
	// held up: longer than one waits on a node that lives.
	stuckAfter = waitFor + 2*time.Second
)

// live are the states of a job that River will hand out, or hands out now.
func live() []rivertype.JobState {
	return []rivertype.JobState{rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable,
		rivertype.JobStateRunning, rivertype.JobStateScheduled}
}

// outbox is what is known of the jobs that wait.
type outbox struct {
	swept  time.Time
	sweeps int
	depth  map[string]int // by agent, how many of its jobs wait
}

// Added tells River of jobs that were kept. What cannot be told is found by a
// sweep, so it is never an error.
func (d *Dispatch) Added(ctx context.Context, jobs []tidemark.Job) error {
	d.mu.Lock()
	var tell []tidemark.Job
	for _, j := range jobs {
		if d.outbox.depth[j.Agent]++; d.outbox.depth[j.Agent] <= window {
			tell = append(tell, j)
		}
	}
	d.mu.Unlock()
	if err := d.tell(ctx, tell); err != nil {
		d.log.WarnContext(ctx, "jobs cannot be told to river yet", slog.Any("error", err))
	}
	return nil
}

// sweep tells River of what is due and what it does not have, and begins what
// is held up in it.
func (d *Dispatch) sweep(ctx context.Context, now time.Time) error {
	whole, ok := d.isTime(now)
	if !ok {
		return nil
	}
	// What River has is read first: a job that begins meanwhile is not due any
	// more, and is not told once more.
	has, err := d.has(ctx)
	if err != nil {
		return err
	}
	limit := sweepMost
	if whole {
		limit = 0
	}
	jobs, err := d.s.DueJobs(ctx, now, limit)
	if err != nil {
		return err
	}
	var missing []tidemark.Job
	for _, j := range d.first(jobs) {
		switch row, ok := has[j.ID]; {
		case !ok:
			missing = append(missing, j)
		case heldUp(row, now):
			_ = d.try(ctx, j) // the daemon tells of errors; the job still waits then
		}
	}
	if err := d.tell(ctx, missing); !inEachOthersWay(err) {
		return err
	}
	return nil // the next sweep tells
}

// inEachOthersWay reports whether PostgreSQL undid a change because two wanted
// the same rows: nodes that tell River of the same jobs, and River itself, which
// moves them meanwhile.
func inEachOthersWay(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001")
}

// isTime reports whether a sweep is due, and whether it should look at all.
func (d *Dispatch) isTime(now time.Time) (whole, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := &d.outbox
	if since := now.Sub(o.swept); since >= 0 && since < sweepEvery && !d.runsDry() {
		return false, false
	}
	o.swept = now
	o.sweeps++
	return o.sweeps%wholeSweep == 1, true
}

// runsDry reports whether an agent whose queue is longer than River was told
// began jobs since: then there is room in River for the next.
func (d *Dispatch) runsDry() bool {
	for agent, n := range d.outbox.depth {
		if n > window && d.began[agent].After(d.outbox.swept.Add(sweepEvery/4)) {
			return true
		}
	}
	return false
}

// has returns what River has of this fleet, by job.
func (d *Dispatch) has(ctx context.Context) (map[string]*rivertype.JobRow, error) {
	list, err := d.client.JobList(ctx, river.NewJobListParams().Queues(d.queue).States(live()...).First(riverMost))
	if err != nil {
		return nil, err
	}
	has := make(map[string]*rivertype.JobRow, len(list.Jobs))
	for _, row := range list.Jobs {
		var args due
		if err := json.Unmarshal(row.EncodedArgs, &args); err == nil {
			has[args.Job] = row
		}
	}
	return has, nil
}

// first returns the jobs of which River should know, and notes how many wait.
func (d *Dispatch) first(jobs []tidemark.Job) (first []tidemark.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	depth := d.outbox.depth
	clear(depth)
	for _, j := range jobs {
		if depth[j.Agent]++; depth[j.Agent] <= window {
			first = append(first, j)
		}
	}
	return first
}

// tell inserts jobs into River, each once while it is there. One that was
// completed may come again, if its record waits nevertheless.
func (d *Dispatch) tell(ctx context.Context, jobs []tidemark.Job) error {
	// Nodes that tell the same at the same time wait for each other's rows: in
	// one order, so that they seldom wait in a circle.
	slices.SortFunc(jobs, func(a, b tidemark.Job) int { return cmp.Compare(a.ID, b.ID) })
	for some := range slices.Chunk(jobs, sweepMost) {
		params := make([]river.InsertManyParams, len(some))
		for i, j := range some {
			params[i] = river.InsertManyParams{
				Args: due{Tenant: d.of.Tenant, Owner: d.of.User, Job: j.ID},
				InsertOpts: &river.InsertOpts{Queue: d.queue, ScheduledAt: j.NotBefore,
					UniqueOpts: river.UniqueOpts{ByArgs: true, ByQueue: true, ByState: live()}},
			}
		}
		if _, err := d.client.InsertMany(ctx, params); err != nil {
			return err
		}
	}
	return nil
}

// heldUp reports whether a job that River has does not get on: the node that it
// was handed to died before the job began, or the elected node that should
// bring it forward did. So does one that is put off for long because nobody had
// its agent, and that somebody may have meanwhile.
func heldUp(r *rivertype.JobRow, now time.Time) bool {
	switch r.State {
	case rivertype.JobStateRunning:
		return r.AttemptedAt != nil && now.Sub(*r.AttemptedAt) > stuckAfter
	case rivertype.JobStateScheduled, rivertype.JobStateRetryable:
		return now.Sub(r.ScheduledAt).Abs() > stuckAfter
	}
	return false
}
