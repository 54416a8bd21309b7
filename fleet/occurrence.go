package fleet

import (
	"context"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Skipped says why an occurrence of a schedule did not run. Count is 1, or how
// many there were from Instant to Until.
type Skipped struct {
	Instant time.Time `json:"instant"`
	Until   time.Time `json:"until,omitzero"`
	Count   int64     `json:"count"`
	Reason  string    `json:"reason"`
	// Delivery is the id of the trigger that was skipped, if it had one.
	Delivery string `json:"delivery,omitempty"`
}

// Occurrence is what to do about a schedule that is due: the jobs to run, what to
// skip, and the next instant.
type Occurrence struct {
	Of      tidemark.Schedule // as it was when this was decided
	Jobs    []tidemark.Job    // to run, each with its Occurrence
	Skipped []Skipped
	Next    time.Time // zero: never again
	Settled time.Time // while Next waits for the end of a job: everything up to here except Next is decided
}

// ClaimOccurrence adds the jobs of an occurrence, once across all daemons:
// ErrExists when another daemon claimed it first. The jobs, the skips and the next
// instant are one commit.
func (s *Store) ClaimOccurrence(ctx context.Context, o Occurrence) ([]tidemark.Job, error) {
	var jobs []tidemark.Job
	err := records.Retry(ctx, func() error {
		d, version, err := s.schedule(ctx, o.Of.Agent, o.Of.Name)
		if err != nil {
			return err
		}
		if !d.NextRunAt.Equal(o.Of.NextRunAt) || !d.SettledAt.Equal(o.Of.SettledAt) || d.Status == tidemark.Disabled || d.Job != o.Of.Job {
			return tidemark.Existsf("schedule %s/%s: its occurrence at %s was taken", d.Agent, d.Name, o.Of.NextRunAt.Format(time.RFC3339))
		}
		b := tidemark.Batch{At: s.k.Now()}
		jobs = nil
		for _, j := range o.Jobs {
			j.Agent, j.Schedule = d.Agent, d.Name
			added, puts, err := s.newJob(j)
			if err != nil {
				return err
			}
			jobs, b.Puts = append(jobs, added), append(b.Puts, puts...)
			d.LastRunAt, d.Job = j.Occurrence, added.ID
		}
		d.NextRunAt, d.SettledAt = o.Next, o.Settled
		if len(o.Skipped) > 0 {
			if err := s.noteSkips(ctx, &b, o); err != nil {
				return err
			}
		}
		r, err := s.scheduleRecord(d, version)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r) // last: this put claims the occurrence
		_, err = s.k.Commit(ctx, b)
		return err
	})
	return jobs, err
}

// noteSkips adds to a batch the skips of an occurrence, for the history of its
// schedule.
func (s *Store) noteSkips(ctx context.Context, b *tidemark.Batch, o Occurrence) error {
	log := s.scheduleKey(o.Of.Agent, o.Of.Name)
	length, err := s.length(ctx, log)
	if err != nil {
		return err
	}
	a := tidemark.Append{Log: log}
	for i, skip := range o.Skipped {
		body, err := records.Encode(skip)
		if err != nil {
			return err
		}
		l := tidemark.Line{Seq: length + int64(i) + 1, Kind: "skipped", At: b.At, Body: body}
		l.Sum = l.Checksum(log)
		a.Lines = append(a.Lines, l)
	}
	b.Appends = append(b.Appends, a)
	return nil
}

// Skips returns the newest n skips of a schedule, the newest first.
func (s *Store) Skips(ctx context.Context, agent, name string, n int) ([]Skipped, error) {
	var all []Skipped
	for l, err := range s.k.Backend().Lines(ctx, s.scheduleKey(agent, name), tidemark.Span{Newest: n, Backwards: true}) {
		if err != nil {
			return all, err
		}
		var skip Skipped
		if err := records.Decode(tidemark.Record{Key: s.scheduleKey(agent, name), Body: l.Body}, &skip); err != nil {
			return all, err
		}
		all = append(all, skip)
	}
	return all, nil
}
