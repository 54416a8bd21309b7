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
	Text            func(prompt string) string // returns the prompt of the job, given the schedule's prompt
	ID              string                     // a schedule makes one job of all triggers with this id; "": always a new job
	File            string                     // the file that it came in, for people
	Look            int                        // how many of the agent's newest jobs to search for ID, besides those of the last hour; 0: all
}

// Triggered is what became of a Trigger.
type Triggered struct {
	Job     tidemark.Job
	New     bool   // false: an earlier call made the job, or the trigger was skipped
	Skipped string // why there is no job; it is also in the history of the schedule
}

// origin is where a job came from, kept as its Extra.
type origin struct {
	Delivery string `json:"delivery,omitempty"`
	File     string `json:"inbox_file,omitempty"`
}

// ErrDisabled means that the schedule of a trigger is disabled.
var ErrDisabled = errors.New("the schedule is disabled")

// minLookBack is how far back the jobs are searched at least, whatever Look says:
// longer than a signed delivery is accepted.
const minLookBack = time.Hour

// triggerTries bounds how often Trigger tries again because another process
// changed the schedule.
const triggerTries = 50

// Trigger makes a job of a trigger, once across all processes and crashes; if an
// earlier call made it, Trigger returns that job, which is not New. While the last
// job of the schedule is pending or running, the schedule's overlap decides: skip
// makes no job and records the skip, replace cancels the last job, and with queue
// the new job waits. ErrNotFound, ErrDisabled.
//
// The schedule is read before the jobs are searched, and the claim requires it
// unchanged, with the job that it made last. So if another process makes a job of
// the same trigger in between, the claim fails, and the next try finds that job.
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
		if before, ok, err := s.findTriggered(ctx, now, in); ok || err != nil {
			return before, err
		}
		unfinished, err := s.unfinishedJob(ctx, d)
		if err != nil {
			return Triggered{}, err
		}
		o := Occurrence{Of: d, Next: d.NextRunAt, Settled: d.SettledAt}
		got := Triggered{New: true}
		if unfinished != "" && d.Overlap == OverlapSkip {
			got = Triggered{Skipped: "still running job " + unfinished}
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
		if unfinished != "" && d.Overlap == OverlapReplace {
			if _, err := s.CancelJob(ctx, unfinished, from); err != nil && !errors.Is(err, tidemark.ErrConflict) {
				return got, err
			}
		}
		return got, nil
	}
	return Triggered{}, tidemark.Conflictf("schedule %s/%s: somebody else was quicker %d times", in.Agent, in.Schedule, triggerTries)
}

// unfinishedJob returns the job that a schedule made last if it is pending or
// running, and otherwise "".
func (s *Store) unfinishedJob(ctx context.Context, d tidemark.Schedule) (string, error) {
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

// findTriggered looks for what an earlier call made of a trigger: a job or a skip.
func (s *Store) findTriggered(ctx context.Context, now time.Time, in Trigger) (Triggered, bool, error) {
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
		if seen++; in.Look > 0 && seen >= in.Look && !at.IsZero() && at.Before(now.Add(-minLookBack)) {
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
