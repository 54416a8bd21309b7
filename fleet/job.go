package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// A job is a record and the log of its output. The process that runs it, its
// owner, holds a lease on it, as a writer does on a session. So a job never runs
// twice at the same time, and one whose owner died is noticed. Lanes bound how
// many jobs run at once: they are records that are made and removed in the same
// commits that start and end a job, so that a limit holds over all processes and
// for every trigger.

// jobID makes an id with the date of at for a job.
func jobID(at time.Time) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var b [6]byte
	rand.Read(b[:])
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return fmt.Sprintf("job-%s-%s", at.Format(time.DateOnly), b[:])
}

// JobPrompt returns the prompt of a job with its masks replaced by the secrets
// in the vault. Everything else returns it masked.
func (s *Store) JobPrompt(ctx context.Context, j tidemark.Job) (string, error) {
	return s.vault.Reveal(ctx, j.ID, j.Prompt)
}

// redactJob masks the secrets of a job. It leaves Extra alone, which has the ids
// that recognize a delivery that is sent again.
func (s *Store) redactJob(j *tidemark.Job) vault.Values {
	return s.vault.Redact(j.ID, []*string{&j.Prompt, &j.Summary, &j.ErrorMessage})
}

// jobRecord makes the record of a job, with its secrets masked and kept in the
// vault.
func (s *Store) jobRecord(ctx context.Context, j *tidemark.Job, version int64) (tidemark.Record, error) {
	if s.vault.Redaction() != vault.Warn { // newJob warned of the prompt already, and a job is written many times
		if err := s.vault.Keep(ctx, j.ID, s.redactJob(j)); err != nil {
			return tidemark.Record{}, err
		}
	}
	return encodeJob(j, version)
}

// encodeJob makes the record of a job, indexed by agent, state and due time.
func encodeJob(j *tidemark.Job, version int64) (tidemark.Record, error) {
	r, err := records.Put(jobKey(j.ID), version, *j)
	r.Group, r.State = j.Agent, j.Status
	if j.Status == tidemark.JobPending {
		r.Due = records.Keepable(j.StartedAt)
		if !j.NotBefore.IsZero() {
			r.Due = records.Keepable(j.NotBefore)
		}
	}
	return r, err
}

// newJob fills in the fields that a pending job has, and makes its record and
// those of the vault for the secrets in its prompt.
func (s *Store) newJob(j tidemark.Job) (tidemark.Job, []tidemark.Record, error) {
	if err := tidemark.CheckID(j.Agent); err != nil {
		return j, nil, tidemark.Invalidf("agent: %w", err)
	}
	now := s.k.Now()
	j.ID, j.Status, j.StartedAt = jobID(now), tidemark.JobPending, now
	j.OutputFile = j.ID + ".jsonl"
	var all []tidemark.Record
	for mark, v := range s.redactJob(&j) {
		r, err := records.Put(vault.Key(j.ID, mark), 0, v)
		if err != nil {
			return j, nil, err
		}
		all = append(all, r)
	}
	r, err := encodeJob(&j, 0)
	return j, append(all, r), err
}

// Lease is who runs a job: its Holder, since when, when it was last renewed, and
// whether it is Held, Dead or Expired.
type Lease = records.Lease

// JobLease returns who runs a job. If nobody does, the Lease is not Held.
func (s *Store) JobLease(ctx context.Context, id string) (Lease, error) {
	return s.k.Lease(ctx, jobKey(id))
}

// AddJob adds a pending job under a new id.
func (s *Store) AddJob(ctx context.Context, j tidemark.Job) (tidemark.Job, error) {
	var added tidemark.Job
	err := records.Retry(ctx, func() error {
		var puts []tidemark.Record
		var err error
		if added, puts, err = s.newJob(j); err != nil {
			return err
		}
		_, err = s.k.Commit(ctx, tidemark.Batch{Puts: puts})
		return err
	})
	return added, err
}

// DueJobs lists the pending jobs that are due, the one that has waited longest
// first.
func (s *Store) DueJobs(ctx context.Context, now time.Time, limit int) ([]tidemark.Job, error) {
	var due []tidemark.Job
	q := tidemark.Query{Kind: kindJob, State: tidemark.JobPending, DueBy: records.Keepable(now), Order: tidemark.ByDue, Limit: limit}
	for j, err := range records.List[tidemark.Job](ctx, s.k, q) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return due, err
		}
		due = append(due, j)
	}
	return due, nil
}

func (s *Store) job(ctx context.Context, id string) (tidemark.Job, int64, error) {
	var j tidemark.Job
	r, err := s.readJob(ctx, id, &j)
	return j, r.Version, err
}

// readJob reads a job into j and returns its record.
func (s *Store) readJob(ctx context.Context, id string, j *tidemark.Job) (tidemark.Record, error) {
	r, err := s.k.Get(ctx, jobKey(id), j)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("job %s: not found", id)
	}
	return r, err
}

// end adds to a batch what ends a job. The batch removes the lease, its pulse and
// the lanes, and commits only if lease and pulse are still as they were read.
func (s *Store) end(ctx context.Context, b *tidemark.Batch, j *tidemark.Job, version int64, l Lease, lanes []tidemark.Precondition, remember func(*tidemark.Agent, tidemark.Job)) error {
	deletes, err := s.k.Forget(ctx, l)
	if err != nil {
		return err
	}
	b.Deletes = append(b.Deletes, deletes...)
	b.Deletes = append(b.Deletes, lanes...)
	if j.FinishedAt.IsZero() {
		j.FinishedAt = b.At
	}
	j.DurationSeconds = j.FinishedAt.Sub(j.StartedAt).Seconds()
	if err := s.updateAgent(ctx, b, *j, remember); err != nil {
		return err
	}
	r, err := s.jobRecord(ctx, j, version)
	b.Puts = append(b.Puts, r)
	return err
}

// updateAgent adds to a batch what an agent remembers of a job that ended. If the
// record of the agent is damaged it adds nothing, so that the job still ends.
func (s *Store) updateAgent(ctx context.Context, b *tidemark.Batch, j tidemark.Job, remember func(*tidemark.Agent, tidemark.Job)) error {
	if remember == nil {
		return nil
	}
	a := tidemark.Agent{Name: j.Agent, Status: tidemark.Idle}
	old, err := s.k.Get(ctx, agentKey(j.Agent), &a)
	if errors.Is(err, tidemark.ErrCorrupt) {
		return nil
	}
	if err != nil {
		return err
	}
	remember(&a, j)
	if err := s.vault.Keep(ctx, a.Name, s.redactAgent(&a)); err != nil {
		return err
	}
	r, err := records.Put(agentKey(j.Agent), old.Version, a)
	r.State = a.Status
	b.Puts = append(b.Puts, r)
	return err
}

// CancelJob ends a pending job, or asks the owner of a running one to end it; it
// reports whether the job has ended. An imported job that was running and never
// had an owner here is ended, too. ErrConflict for a job that has ended before.
func (s *Store) CancelJob(ctx context.Context, id string, from tidemark.Holder) (ended bool, err error) {
	err = records.Retry(ctx, func() error {
		j, version, err := s.job(ctx, id)
		if err != nil {
			return err
		}
		switch j.Status {
		case tidemark.JobRunning:
			l, err := s.JobLease(ctx, id)
			if err != nil {
				return err
			}
			if l.Version != 0 {
				return s.k.RequestHandover(ctx, jobKey(id), from)
			}
			fallthrough
		case tidemark.JobPending:
			j.Status, j.ExitReason, j.FinishedAt = tidemark.JobCancelled, tidemark.ExitCancelled, s.k.Now()
			r, err := s.jobRecord(ctx, &j, version)
			if err != nil {
				return err
			}
			_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
			ended = err == nil
			return err
		}
		return records.Final(tidemark.Conflictf("job %s is %s", id, j.Status))
	})
	return ended, err
}

// AbandonJob ends a pending job that nobody can run, and keeps the reason:
// ErrConflict when the job is no longer pending.
func (s *Store) AbandonJob(ctx context.Context, id, why string) (tidemark.Job, error) {
	var j tidemark.Job
	err := records.Retry(ctx, func() error {
		var version int64
		var err error
		if j, version, err = s.job(ctx, id); err != nil {
			return err
		}
		if j.Status != tidemark.JobPending {
			return records.Final(tidemark.Conflictf("job %s is %s", id, j.Status))
		}
		j.Status, j.ErrorMessage, j.FinishedAt = tidemark.JobAbandoned, why, s.k.Now()
		r, err := s.jobRecord(ctx, &j, version)
		if err != nil {
			return err
		}
		_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		return err
	})
	return j, err
}

// RemoveJob removes a job that has ended, with its output and the secrets that
// the vault keeps for it: ErrNotFound, ErrConflict while it is pending or running.
func (s *Store) RemoveJob(ctx context.Context, id string) error {
	j, version, err := s.job(ctx, id)
	if err != nil {
		return err
	}
	if j.Status == tidemark.JobPending || j.Status == tidemark.JobRunning {
		return tidemark.Conflictf("job %s is %s", id, j.Status)
	}
	if err := s.EndReviews(ctx, id); err != nil {
		return err
	}
	b := tidemark.Batch{Drops: []tidemark.Key{jobKey(id)}}
	if err := s.vault.Forget(ctx, &b, id); err != nil {
		return err
	}
	b.Deletes = append(b.Deletes, tidemark.Precondition{Key: jobKey(id), Version: version})
	_, err = s.k.Commit(ctx, b)
	return err
}

// Gone says what is done about jobs whose owners are gone.
type Gone struct {
	// Before is called with a job whose owner is proven dead, while its lanes are
	// still taken: it can kill what is left of the job's program before another run
	// of the agent begins. It may be nil.
	Before func(tidemark.Job)
	// Again returns the job that follows, nil when none does, and may note at the job
	// what is known. silent means that the owner is only not heard of: its program may
	// still run. It may be nil.
	Again func(j *tidemark.Job, silent bool) *tidemark.Job
}

// Interrupted is a job that was ended because its owner is gone, with the job that
// follows it; its ID is "" when none does.
type Interrupted struct {
	tidemark.Job
	Next tidemark.Job
}

// Interrupt ends the jobs whose owners are proven dead or were silent for too
// long. It frees their lanes and returns the jobs, now interrupted, with their
// sessions. The end of each and what follows it are one commit.
func (s *Store) Interrupt(ctx context.Context, gone Gone) ([]Interrupted, error) {
	var ended []Interrupted
	running, err := s.Running(ctx, "")
	if err != nil {
		return nil, err
	}
	var errs []error // an error of one job does not stop the others
	for _, id := range running {
		j, ok, err := s.interruptIfGone(ctx, id, gone)
		if err != nil {
			errs = append(errs, fmt.Errorf("job %s: %w", id, err))
		}
		if ok {
			ended = append(ended, j)
		}
	}
	return ended, errors.Join(errs...)
}

// interruptIfGone ends one job if its owner is gone, and reports whether it did.
func (s *Store) interruptIfGone(ctx context.Context, id string, gone Gone) (Interrupted, bool, error) {
	l, err := s.JobLease(ctx, id)
	if err != nil || l.Living() {
		return Interrupted{}, false, err
	}
	if l.Dead && gone.Before != nil {
		if j, err := s.Job(ctx, id); err == nil { // interrupt reads it too, and returns the error
			gone.Before(j)
		}
	}
	return s.interrupt(ctx, id, l, gone.Again)
}

// interrupt ends one job if its lease is still l.
func (s *Store) interrupt(ctx context.Context, id string, l Lease, again func(*tidemark.Job, bool) *tidemark.Job) (ended Interrupted, ok bool, err error) {
	j, version, err := s.job(ctx, id)
	if errors.Is(err, tidemark.ErrNotFound) {
		return ended, false, nil
	}
	if err != nil {
		return ended, false, err
	}
	b := tidemark.Batch{At: s.k.Now()}
	if j.Status == tidemark.JobRunning {
		j.Status, j.ExitReason, j.ErrorMessage = tidemark.JobInterrupted, tidemark.ExitInterrupt, "its owner "+l.Holder.String()+" is gone"
		if again != nil {
			if ended.Next, err = s.follow(ctx, &b, j, again(&j, !l.Dead)); err != nil {
				return ended, false, err
			}
		}
	}
	lanes, err := s.lanesOfJob(ctx, j)
	if err != nil {
		return ended, false, err
	}
	if err := s.leaveLegacySlots(ctx, &b, j); err != nil {
		return ended, false, err
	}
	if err := s.end(ctx, &b, &j, version, l, lanes, nil); err != nil {
		return ended, false, err
	}
	if _, err := s.k.Commit(ctx, b); err != nil {
		if errors.Is(err, tidemark.ErrConflict) {
			return ended, false, nil // another process ended it first, or its owner is alive
		}
		return ended, false, err
	}
	ended.Job = j
	return ended, true, nil
}
