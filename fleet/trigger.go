package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Trigger is something that came in for a schedule of type webhook or chat, and
// is to become one job.
type Trigger struct {
	Agent, Schedule string
	Type            string                     // as the job has it: tidemark.TriggerWebhook, tidemark.TriggerChat
	Text            func(prompt string) string // what the agent is told, given the schedule's prompt
	ID              string                     // no two jobs of a schedule have the same; "": each is a new one
	File            string                     // that it came in, for people
	Look            int                        // how many of the agent's newest jobs, besides those of the last hour, may have come of it already; 0: all
}

// Triggered is what became of a Trigger.
type Triggered struct {
	Job     tidemark.Job
	New     bool   // false: the job was made of it before, or it was skipped
	Skipped string // why there is no job; the history of the schedule has it, too
}

// origin is kept with a job, as its Extra: where it came from.
type origin struct {
	Delivery string `json:"delivery,omitempty"`
	File     string `json:"inbox_file,omitempty"`
}

// ErrDisabled says that a person disabled the schedule of a trigger.
var ErrDisabled = errors.New("the schedule is disabled")

// lookBack is how far back every job is looked at, whatever Look says: longer
// than what was signed once may be sent.
const lookBack = time.Hour

// triggerTries bounds how often somebody else may be quicker.
const triggerTries = 50

// Trigger makes a job of what came in, once over all processes and crashes; when
// it was made before, that is the job, and it is not new. While the last job of
// the schedule runs, or waits to, the overlap of the schedule decides: skip
// writes down that there is none, replace cancels that one, and otherwise the
// new one waits, too. ErrNotFound, ErrDisabled.
//
// The schedule remembers the job that it made last, and is claimed as it was
// read before the other jobs were looked through. So whoever makes a job of the
// same trigger in between makes the claim fail, and is then found.
func (s *Store) Trigger(ctx context.Context, from tidemark.Holder, now time.Time, in Trigger) (Triggered, error) {
	var extra json.RawMessage
	if of := (origin{in.ID, in.File}); of != (origin{}) {
		var err error
		if extra, err = records.Encode(of); err != nil {
			return Triggered{}, err
		}
	}
	now = records.Keepable(now)
	for range triggerTries {
		d, err := s.Schedule(ctx, in.Agent, in.Schedule)
		if err != nil {
			return Triggered{}, err
		}
		if d.Status == tidemark.Disabled {
			return Triggered{}, ErrDisabled
		}
		if before, ok, err := s.triggered(ctx, now, in); ok || err != nil {
			return before, err
		}
		going, err := s.goingOn(ctx, d)
		if err != nil {
			return Triggered{}, err
		}
		o := Occurrence{Of: d, Next: d.NextRunAt, Settled: d.SettledAt}
		got := Triggered{New: true}
		if going != "" && d.Overlap == OverlapSkip {
			got = Triggered{Skipped: "still running job " + going}
			o.Skipped = []Skipped{{Instant: now, Until: now, Count: 1, Reason: got.Skipped, Delivery: in.ID}}
		} else {
			o.Jobs = []tidemark.Job{{Trigger: in.Type, Prompt: in.Text(d.Prompt), SessionID: d.Session, Occurrence: now, Extra: extra}}
		}
		jobs, err := s.ClaimOccurrence(ctx, o)
		if errors.Is(err, tidemark.ErrExists) {
			continue
		}
		if err != nil || got.Skipped != "" {
			return got, err
		}
		got.Job = jobs[0]
		if going != "" && d.Overlap == OverlapReplace {
			if _, err := s.CancelJob(ctx, going, from); err != nil && !errors.Is(err, tidemark.ErrConflict) {
				return got, err
			}
		}
		return got, nil
	}
	return Triggered{}, tidemark.Conflictf("schedule %s/%s: somebody else was quicker %d times", in.Agent, in.Schedule, triggerTries)
}

// goingOn is the job that a schedule made last, while it runs or waits to.
func (s *Store) goingOn(ctx context.Context, d tidemark.Schedule) (string, error) {
	if d.Job == "" {
		return "", nil
	}
	j, err := s.Job(ctx, d.Job)
	if errors.Is(err, tidemark.ErrNotFound) {
		return "", nil
	}
	if j.Status != tidemark.JobPending && j.Status != tidemark.JobRunning {
		return "", err
	}
	return j.ID, err
}

// triggered finds what became of a trigger before: a job, or none and why.
func (s *Store) triggered(ctx context.Context, now time.Time, in Trigger) (Triggered, bool, error) {
	if in.ID == "" {
		return Triggered{}, false, nil
	}
	seen := 0
	for j, err := range s.Jobs(ctx, JobFilter{Agent: in.Agent}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify names it
		}
		if err != nil {
			return Triggered{}, false, err
		}
		var of origin
		if j.Schedule == in.Schedule && len(j.Extra) > 0 && json.Unmarshal(j.Extra, &of) == nil && of.Delivery == in.ID {
			return Triggered{Job: j}, true, nil
		}
		at := j.Occurrence
		if at.IsZero() {
			at = j.StartedAt
		}
		if seen++; in.Look > 0 && seen >= in.Look && !at.IsZero() && at.Before(now.Add(-lookBack)) {
			break
		}
	}
	skips, err := s.Skips(ctx, in.Agent, in.Schedule, in.Look)
	for _, skip := range skips {
		if skip.Delivery == in.ID {
			return Triggered{Skipped: skip.Reason}, true, nil
		}
	}
	return Triggered{}, false, err
}
