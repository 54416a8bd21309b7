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

// A job is a record and the log of its output. Whoever runs it holds a lease
// on it, as a writer does on a session, so that a job whose owner died is found
// out and never runs twice at a time. How many run at once is kept in lanes:
// records that come and go in the same commit as the run, so that a limit holds
// over all processes and for every trigger.

// jobID makes an id of a job that begins on the day of at.
func jobID(at time.Time) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	var b [6]byte
	rand.Read(b[:])
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return fmt.Sprintf("job-%s-%s", at.Format(time.DateOnly), b[:])
}

// JobPrompt is what a job is to be told, with what the vault has in place of
// masks. Everybody else sees the masks.
func (s *Store) JobPrompt(ctx context.Context, j tidemark.Job) (string, error) {
	return s.vault.Reveal(ctx, j.ID, j.Prompt)
}

// redactJob masks the secrets of a job. Its Extra is left as it is: it has ids by
// which deliveries are known again.
func (s *Store) redactJob(j *tidemark.Job) vault.Values {
	return s.vault.Redact(j.ID, []*string{&j.Prompt, &j.Summary, &j.ErrorMessage})
}

// jobRecord files a job, without the secrets in it, which go to the vault.
func (s *Store) jobRecord(ctx context.Context, j *tidemark.Job, version int64) (tidemark.Record, error) {
	if s.vault.Redaction() != vault.Warn { // a job is filed many times, and its prompt was warned of
		if err := s.vault.Keep(ctx, j.ID, s.redactJob(j)); err != nil {
			return tidemark.Record{}, err
		}
	}
	return fileJob(j, version)
}

// fileJob makes a job found by its agent, by its state, and by when it is due.
func fileJob(j *tidemark.Job, version int64) (tidemark.Record, error) {
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

// newJob fills in what a job has before it runs, and files it with what the
// vault keeps of its prompt.
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
	r, err := fileJob(&j, 0)
	return j, append(all, r), err
}

// Lease is who runs a job: its Holder, since when, when that was last heard, and
// whether it is Held, Dead or Expired.
type Lease = records.Lease

// JobLease returns who runs a job. One that nobody runs has a Lease that is not
// Held.
func (s *Store) JobLease(ctx context.Context, id string) (Lease, error) {
	return s.k.Lease(ctx, jobKey(id))
}

// AddJob keeps a job that is to run, under an id that no other has.
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

// DueJobs lists the jobs that wait to run, the one that waits longest first.
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
	r, err := s.jobAt(ctx, id, &j)
	return j, r.Version, err
}

// jobAt is job with all of its record.
func (s *Store) jobAt(ctx context.Context, id string, j *tidemark.Job) (tidemark.Record, error) {
	r, err := s.k.Get(ctx, jobKey(id), j)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("job %s: not found", id)
	}
	return r, err
}

// end adds to a batch what ends a job: it goes through while the lease and its
// pulse stand as they were judged, and removes both, with the lanes.
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
	if err := s.remembered(ctx, b, *j, remember); err != nil {
		return err
	}
	r, err := s.jobRecord(ctx, j, version)
	b.Puts = append(b.Puts, r)
	return err
}

// remembered adds what an agent remembers of a job that ended. What an agent
// whose record is damaged remembers is lost; the end of its job is not.
func (s *Store) remembered(ctx context.Context, b *tidemark.Batch, j tidemark.Job, remember func(*tidemark.Agent, tidemark.Job)) error {
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

// CancelJob ends a job that waits, or tells the owner of one that runs; it
// reports which. One that came in as running and never had an owner here is
// ended, too. A job that ended before is ErrConflict.
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

// AbandonJob ends a job that waits, because nobody can run it, and keeps why:
// ErrConflict when it does not wait any more.
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

// RemoveJob removes a job that has ended, with its output and what the vault
// kept of its prompt: ErrNotFound, ErrConflict while it runs or waits to.
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

// Interrupt ends the jobs whose owners are proven dead or were silent for too
// long, and returns them as they are now: interrupted, with their session, and
// with their lanes free. Where the owner is dead, each of before is called with
// the job while its lanes are still taken: it can end what is left of the job's
// program, so that no other run of the agent begins beside that.
func (s *Store) Interrupt(ctx context.Context, before ...func(tidemark.Job)) ([]tidemark.Job, error) {
	var ended []tidemark.Job
	running, err := s.Running(ctx, "")
	if err != nil {
		return nil, err
	}
	var errs []error // of one job, which keeps no other from its end
	for _, id := range running {
		j, ok, err := s.interruptIfGone(ctx, id, before)
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
func (s *Store) interruptIfGone(ctx context.Context, id string, before []func(tidemark.Job)) (tidemark.Job, bool, error) {
	l, err := s.JobLease(ctx, id)
	if err != nil || l.Living() {
		return tidemark.Job{}, false, err
	}
	if l.Dead {
		s.beforehand(ctx, id, before)
	}
	return s.interrupt(ctx, id, l)
}

// beforehand calls each of before with a job, if it can be read.
func (s *Store) beforehand(ctx context.Context, id string, before []func(tidemark.Job)) {
	j, err := s.Job(ctx, id)
	if err != nil {
		return // interrupt says so
	}
	for _, call := range before {
		call(j)
	}
}

// interrupt ends one job whose lease was judged.
func (s *Store) interrupt(ctx context.Context, id string, l Lease) (tidemark.Job, bool, error) {
	j, version, err := s.job(ctx, id)
	if errors.Is(err, tidemark.ErrNotFound) {
		return j, false, nil
	}
	if err != nil {
		return j, false, err
	}
	if j.Status == tidemark.JobRunning {
		j.Status, j.ExitReason, j.ErrorMessage = tidemark.JobInterrupted, tidemark.ExitInterrupt, "its owner "+l.Holder.String()+" is gone"
	}
	b := tidemark.Batch{At: s.k.Now()}
	lanes, err := s.standsIn(ctx, j)
	if err != nil {
		return j, false, err
	}
	if err := s.leaveEarlier(ctx, &b, j); err != nil {
		return j, false, err
	}
	if err := s.end(ctx, &b, &j, version, l, lanes, nil); err != nil {
		return j, false, err
	}
	if _, err := s.k.Commit(ctx, b); err != nil {
		if errors.Is(err, tidemark.ErrConflict) {
			return j, false, nil // somebody else was quicker, or it lives
		}
		return j, false, err
	}
	return j, true, nil
}
