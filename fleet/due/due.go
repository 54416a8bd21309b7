package due

import (
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// Standing is the state of a schedule: what is kept of it, and whether it
// runs.
type Standing struct {
	Next    time.Time // from the last Plan, or from First
	Settled time.Time // from the last Plan
	Job     string    // job of this schedule that runs or waits to run, "" if there is none
	Since   time.Time // when that job started; zero while it waits
}

// Plan is what is to be done now, provided that Next and Settled are still
// those of the Standing when it is committed: both are compared, and all of
// the Plan is one commit. If two plan at once, the second discards its Plan.
// So each instant is once in Run, once in Skipped, or still due.
type Plan struct {
	Run     []time.Time // start a job for each, oldest first; at most one, with MissedAll at most MaxRuns
	Skipped []Skip      // record these, oldest first
	Replace bool        // cancel the running job first
	Waits   bool        // something is due and waits for the end of the running job
	Next    time.Time   // to keep. If not after now: ask again when the job has ended, or at once when none runs
	Settled time.Time   // to keep: not zero while Next waits in the queue; then everything up to here except Next is decided
}

// Skip says why one instant, or a series of them, does not run.
type Skip struct {
	From, To time.Time // the first and the last; equal for one
	Count    int64
	Why      string // one of the Skip constants
	Reason   string // a sentence for people
}

// Reasons why an instant does not run.
const (
	SkipMissed   = "missed"   // no daemon noticed it in time
	SkipNewer    = "newer"    // a newer one runs instead
	SkipRunning  = "running"  // an earlier one still runs
	SkipWaiting  = "waiting"  // an earlier one still runs, and another one waits
	SkipReplaced = "replaced" // a newer one replaces the running one
)

const (
	// MaxRuns is how many instants one Plan starts; the others stay due.
	MaxRuns = 16
	// MaxSkips is how many instants skipped for one reason are listed
	// individually; more of them become one Skip.
	MaxSkips = 16
)

// Due decides what to do about a schedule now. After a clock was set back,
// nothing is due until it has caught up; after it was set forward, the result
// is the same as after a downtime. When nothing is due the Plan holds the
// Standing's Next and Settled, and nothing is parsed or counted for it.
//
// The Standing's Next always counts as an instant of the schedule, even if
// the timing was changed since, or somebody set it by hand.
//
// With FromCompletion one instant is due at a time. When the job has ended,
// keep Book.Next of that end; until then Next is only a time to look again.
func (b *Book) Due(t Timing, id string, s Standing, now time.Time) (Plan, error) {
	if s.Next.IsZero() {
		return Plan{}, tidemark.Invalidf("schedule %s: has no next instant", id)
	}
	if s.Next.After(now) {
		return Plan{Next: s.Next, Settled: s.Settled}, nil
	}
	t, err := t.complete()
	if err != nil {
		return Plan{}, fmt.Errorf("schedule %s: %w", id, err)
	}
	if t.From == fleet.FromCompletion {
		return t.dueAfterRun(id, s, now), nil
	}
	g, err := b.grid(t, id)
	if err != nil {
		return Plan{}, fmt.Errorf("schedule %s: %w", id, err)
	}
	r := round{grid: g, timing: t, standing: s, next: s.Next.UnixMilli(), now: now.UnixMilli()}
	r.queued = !s.Settled.IsZero() && !s.Settled.Before(s.Next)
	r.plan = Plan{Next: s.Next, Settled: s.Settled}
	switch {
	case s.Job != "":
		r.whileRunning()
	case r.queued:
		r.run(r.next)
		r.moveTo(s.Settled.UnixMilli())
	case t.Missed == fleet.MissedAll:
		r.runAll()
	default:
		r.runNewest()
	}
	if r.err != nil {
		return Plan{}, fmt.Errorf("schedule %s: %w", id, r.err)
	}
	return r.plan, nil
}

// dueAfterRun is Due for a schedule that counts from the end of its last run.
// A skipped run ends when the skip is decided.
func (t Timing) dueAfterRun(id string, s Standing, now time.Time) Plan {
	plan := Plan{Next: t.afterRun(id, now)}
	switch {
	case s.Job != "":
		plan.Waits = true
	case t.Missed == fleet.MissedSkip && now.Sub(s.Next) > t.Grace:
		plan.Skipped = []Skip{{s.Next.UTC(), s.Next.UTC(), 1, SkipMissed, missedReason(now.Sub(s.Next))}}
	default:
		plan.Run = []time.Time{s.Next.UTC()}
	}
	return plan
}

// round is one call of Due for a schedule that has something due.
type round struct {
	grid      grid
	timing    Timing
	standing  Standing
	queued    bool
	next, now int64
	plan      Plan
	err       error
}

// stretch is a series of consecutive instants, empty when count is 0.
type stretch struct{ from, to, count int64 }

// upTo returns the instants from from, which is itself one, up to a time.
func (r *round) upTo(from, to int64) stretch {
	if from > to {
		return stretch{}
	}
	s := stretch{from, from, 1}
	if last, ok := r.grid.last(from, to); ok {
		s.to, s.count = last, 1+r.grid.count(from, to)
	}
	return s
}

// butLast returns s without its last instant.
func (r *round) butLast(s stretch) stretch {
	if s.count < 2 {
		return stretch{}
	}
	before, ok := r.grid.last(s.from, s.to-1)
	if !ok {
		before = s.from
	}
	return stretch{s.from, before, s.count - 1}
}

// after returns the instant that follows at.
func (r *round) after(at int64) int64 {
	next, ok := r.grid.next(at)
	if !ok {
		r.err = tidemark.Invalidf("cron %.60q: does not fire within years after %s", r.timing.Cron, instant(at).Format(time.RFC3339))
	}
	return next
}

func (r *round) run(at int64) { r.plan.Run = append(r.plan.Run, instant(at)) }

// moveTo makes the instant that follows at the next one: everything up to
// at is decided.
func (r *round) moveTo(at int64) { r.plan.Next, r.plan.Settled = instant(r.after(at)), time.Time{} }

// skip records that the instants of a stretch do not run.
func (r *round) skip(s stretch, why, reason string) {
	if s.count > MaxSkips {
		r.plan.Skipped = append(r.plan.Skipped, Skip{instant(s.from), instant(s.to), s.count, why, reason})
		return
	}
	for at, left := s.from, s.count; left > 0; left-- {
		r.plan.Skipped = append(r.plan.Skipped, Skip{instant(at), instant(at), 1, why, reason})
		if left > 1 {
			at = r.after(at)
		}
	}
}

func (r *round) skipMissed(s stretch) {
	r.skip(s, SkipMissed, missedReason(time.Duration(r.now-s.from)*time.Millisecond))
}

func (r *round) skipNewer(s stretch, newer int64) {
	r.skip(s, SkipNewer, "missed: "+timestamp(newer)+", the newest, runs for all")
}

// runAll starts each instant, a limited number per round.
func (r *round) runAll() {
	newest := r.next
	for at := newest; at <= r.now && len(r.plan.Run) < MaxRuns && r.err == nil; at = r.after(at) {
		r.run(at)
		newest = at
	}
	r.moveTo(newest)
}

// runNewest starts only the newest instant, and not even that if it was
// missed and missed ones are skipped.
func (r *round) runNewest() {
	due := r.upTo(r.next, r.now)
	skipping := r.timing.Missed == fleet.MissedSkip
	switch {
	case skipping && r.late(due.to):
		r.skipMissed(due)
	case skipping:
		r.skipMissed(r.butLast(due))
		r.run(due.to)
	default:
		r.skipNewer(r.butLast(due), due.to)
		r.run(due.to)
	}
	r.moveTo(due.to)
}

func (r *round) late(at int64) bool { return r.now-at > r.timing.Grace.Milliseconds() }

// whileRunning decides about instants that are due while a job runs: Missed
// decides about those missed before it started, Overlap about the others.
func (r *round) whileRunning() {
	first := r.next
	if r.queued {
		first = r.after(r.standing.Settled.UnixMilli())
	}
	due := r.upTo(first, r.now)
	missed, came := r.split(due)
	switch {
	case due.count == 0 || missed.count > 0 && r.timing.Missed == fleet.MissedAll:
		r.plan.Waits = true
		return
	case r.timing.Missed == fleet.MissedSkip:
		r.skipMissed(missed)
	case came.count > 0:
		r.skipNewer(missed, came.to)
	default:
		came = stretch{missed.to, missed.to, 1}
		r.skipNewer(r.butLast(missed), missed.to)
	}
	r.overlap(came, due.to)
}

// split separates the instants missed before the job started from the
// others, which are newer.
func (r *round) split(due stretch) (missed, came stretch) {
	started := r.now
	if !r.standing.Since.IsZero() {
		started = r.standing.Since.UnixMilli()
	}
	before := min(started, r.now-r.timing.Grace.Milliseconds())
	missed = r.upTo(due.from, min(before-1, due.to))
	if missed.count == 0 || missed.count == due.count {
		return missed, stretch{due.from, due.to, due.count - missed.count}
	}
	return missed, stretch{r.after(missed.to), due.to, due.count - missed.count}
}

// overlap decides about instants that came while a job runs. Everything up
// to last is decided then.
func (r *round) overlap(came stretch, last int64) {
	running := "still running job " + r.standing.Job
	switch {
	case r.queued:
		// A waiting instant keeps waiting, even if Overlap was changed since.
		r.skip(came, SkipWaiting, running+", and "+timestamp(r.next)+" waits already")
		r.plan.Settled, r.plan.Waits = instant(last), true
	case came.count == 0:
		r.moveTo(last)
	case r.timing.Overlap == fleet.OverlapQueue:
		r.skip(r.butLast(came), SkipWaiting, running+", and "+timestamp(came.to)+" waits already")
		r.plan.Next, r.plan.Settled, r.plan.Waits = instant(came.to), instant(last), true
	case r.timing.Overlap == fleet.OverlapReplace:
		r.skip(r.butLast(came), SkipReplaced, "replaced by "+timestamp(came.to))
		r.run(came.to)
		r.plan.Replace = true
		r.moveTo(last)
	default:
		r.skip(came, SkipRunning, running)
		r.moveTo(last)
	}
}

func missedReason(late time.Duration) string {
	return fmt.Sprintf("missed: seen %s late, and what is missed is skipped", late.Round(time.Second))
}

func timestamp(at int64) string { return instant(at).Format(time.RFC3339) }

// How far ahead Shortest examines a cron expression. The shortest gap comes every
// day, or where two months meet.
const (
	lookAhead     = 2 * 366 * 24 * time.Hour
	lookAheadMost = 3000
)

// Shortest returns the shortest time between two instants after now.
func (b *Book) Shortest(t Timing, now time.Time) (time.Duration, error) {
	if t.Every > 0 {
		return t.Every, nil
	}
	gap := time.Duration(maxEvery)
	at, err := b.Next(t, "", now)
	if err != nil {
		return 0, err
	}
	for range lookAheadMost {
		next, err := b.Next(t, "", at)
		if err != nil {
			break // it fires once in several years
		}
		gap = min(gap, next.Sub(at))
		if at = next; at.Sub(now) > lookAhead {
			break
		}
	}
	return gap, nil
}
