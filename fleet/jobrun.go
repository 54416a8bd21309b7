package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// JobRun is a job that this process runs. Its methods may be called
// concurrently.
type JobRun struct {
	// Delayed is called with the error each time that Finish could not commit
	// the end of the job and tries again; it may be nil.
	Delayed func(error)

	s       *Store
	held    *records.Holding // its mutex guards the fields below
	job     tidemark.Job
	version int64
	length  int64                   // of the output
	lanes   []tidemark.Precondition // that the job takes
}

// StartJob makes this process the owner of a pending job: ErrBusy when the limits
// allow no more, ErrConflict when the job is no longer pending.
func (s *Store) StartJob(ctx context.Context, id string, who tidemark.Holder, limits SlotLimits) (*JobRun, error) {
	return s.StartMarkedJob(ctx, id, who, limits, nil)
}

// StartMarkedJob is StartJob that keeps, in the same commit, how the program that is to
// be started for the job can be found: tidemark.Job.Process.
func (s *Store) StartMarkedJob(ctx context.Context, id string, who tidemark.Holder, limits SlotLimits, program []byte) (*JobRun, error) {
	var run *JobRun
	err := records.Retry(ctx, func() error {
		var j tidemark.Job
		old, err := s.readJob(ctx, id, &j)
		if err != nil {
			return err
		}
		if j.Status != tidemark.JobPending {
			return records.Final(tidemark.Conflictf("job %s is %s", id, j.Status))
		}
		l, b, err := s.k.Take(ctx, jobKey(id), who)
		if err != nil {
			return err
		}
		lanes, err := s.takeLanes(ctx, &b, j, limits)
		if err != nil {
			return err
		}
		j.Status, j.StartedAt, j.Node = tidemark.JobRunning, b.At, who.Host
		j.Attempt = max(j.Attempt, 1)
		if program != nil {
			j.Process = program
		}
		r, err := s.jobRecord(ctx, &j, old.Version)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
		if err := s.commitUntilKnown(ctx, b); err != nil {
			return err
		}
		run = &JobRun{s: s, held: s.k.Hold(l), job: j, version: r.Version, length: old.Head.Length, lanes: lanes}
		return nil
	})
	return run, err
}

// commitUntilKnown commits a batch and does not return before it is known whether
// the commit took effect. A caller that is cancelled during the commit, or loses
// its connection, would otherwise own a job without knowing it. It gives up only
// when ctx ends; then the caller ends too, and the job is found by its lease.
func (s *Store) commitUntilKnown(ctx context.Context, b tidemark.Batch) error {
	b.ID = tidemark.NewBatchID()
	_, err := s.k.Commit(context.WithoutCancel(ctx), b)
	for try := 0; errors.Is(err, tidemark.ErrUnknown); try++ {
		if records.BackOff(ctx, try) != nil {
			return err
		}
		switch took, lookErr := s.k.Took(ctx, b); {
		case lookErr != nil: // the storage is still unreachable
		case took:
			return nil
		default:
			_, err = s.k.Commit(context.WithoutCancel(ctx), b)
		}
	}
	return err
}

// Job is the job as it is kept now.
func (r *JobRun) Job() tidemark.Job {
	r.held.Lock()
	defer r.held.Unlock()
	return r.job
}

// Emit appends to the output of the job: ErrConflict when the lease is lost.
func (r *JobRun) Emit(ctx context.Context, events ...tidemark.Event) error {
	if len(events) == 0 {
		return nil
	}
	r.held.Lock()
	defer r.held.Unlock()
	b := tidemark.Batch{At: r.s.k.Now()}
	a, err := r.s.eventLines(ctx, jobKey(r.job.ID), r.length, events)
	if err != nil {
		return err
	}
	b.Appends = append(b.Appends, a)
	if err := r.held.Guard(&b, false); err != nil {
		return err
	}
	if _, err := r.s.k.Commit(ctx, b); err != nil {
		return r.held.Lost(ctx, err)
	}
	r.length += int64(len(events))
	return nil
}

// Note changes the record of the running job, for instance to add its session.
func (r *JobRun) Note(ctx context.Context, change func(*tidemark.Job)) error {
	r.held.Lock()
	defer r.held.Unlock()
	j := r.job
	change(&j)
	b := tidemark.Batch{At: r.s.k.Now()}
	p, err := r.s.jobRecord(ctx, &j, r.version)
	if err != nil {
		return err
	}
	b.Puts = append(b.Puts, p)
	if err := r.held.Guard(&b, false); err != nil {
		return err
	}
	if _, err := r.s.k.Commit(ctx, b); err != nil {
		return r.held.Lost(ctx, err)
	}
	r.job, r.version = j, r.version+1
	return nil
}

// KeepAlive renews the lease of the job until ctx ends, and calls cancelled
// once when somebody wants the job to end.
//
// Unlike the KeepAlive of a session's writer, it also heeds a request that is
// older than its first check: a job has one run, so the request means this one.
func (r *JobRun) KeepAlive(ctx context.Context, cancelled func(by tidemark.Holder)) error {
	told := false
	look := func() {
		if q, request, err := r.s.k.Handover(ctx, jobKey(r.job.ID)); err == nil && request.Version > 0 && !told {
			told = true
			cancelled(q.From)
		}
	}
	// Any error but a conflict may be transient, and the lease outlasts short ones.
	return r.held.KeepAlive(ctx, look, func(err error) bool { return errors.Is(err, tidemark.ErrConflict) })
}

// Finish ends the job and releases it. Its record, its lanes, what its agent
// remembers and the job that follows it, if there is one, change in one commit.
// Finish returns the job that follows.
//
// On conflicts, and while the storage is unreachable, Finish renews the lease and
// tries again, until the end is durable, the lease is lost or ctx ends. If the
// job has not ended by then, the process that finds its owner dead or silent
// interrupts it.
func (r *JobRun) Finish(ctx context.Context, end func(*tidemark.Job), remember func(*tidemark.Agent, tidemark.Job), follow *tidemark.Job) (tidemark.Job, error) {
	r.held.Lock()
	defer r.held.Unlock()
	e := ending{run: r, job: r.job, remember: remember, follow: follow}
	end(&e.job)
	for try := 0; ; try++ {
		err := e.commit(ctx)
		lost, isFinal := records.IsFinal(err)
		switch {
		case err == nil:
			r.job = e.job
			r.held.End()
			return e.next, nil
		case isFinal:
			return tidemark.Job{}, lost
		case !isTransient(err) || pauseBeforeRetry(ctx, try) != nil:
			return tidemark.Job{}, err
		}
		if r.Delayed != nil {
			r.Delayed(err)
		}
		// KeepAlive cannot renew the lease while Finish holds the mutex. If the
		// lease is lost, the next try notices.
		if r.held.IsOld() {
			_ = r.held.Renew(ctx)
		}
	}
}

// maxFinishPause bounds the pause between two tries to commit the end of a job:
// much less than a lease lasts, and rare enough for a store that is unreachable
// for hours.
const maxFinishPause = 2 * time.Second

// pauseBeforeRetry is records.BackOff with pauses that grow up to maxFinishPause.
func pauseBeforeRetry(ctx context.Context, try int) error {
	return records.BackOffUpTo(ctx, try, maxFinishPause)
}

// isTransient reports whether the next try may succeed.
func isTransient(err error) bool {
	for _, permanent := range []error{tidemark.ErrInvalid, tidemark.ErrCorrupt, tidemark.ErrSealed, tidemark.ErrDenied, tidemark.ErrNotFound, tidemark.ErrUnsupported,
		context.Canceled} {
		if errors.Is(err, permanent) {
			return false
		}
	}
	return true
}

// ending is the end of a job that this process runs.
type ending struct {
	run      *JobRun
	job      tidemark.Job
	remember func(*tidemark.Agent, tidemark.Job)
	follow   *tidemark.Job
	next     tidemark.Job
	sent     []string // batches that may have taken effect
}

// commit tries once to commit the end: a final conflict when the lease is lost.
func (e *ending) commit(ctx context.Context) error {
	r, s := e.run, e.run.s
	b := tidemark.Batch{ID: tidemark.NewBatchID(), At: s.k.Now()}
	var err error
	if e.next, err = s.follow(ctx, &b, e.job, e.follow); err != nil {
		return err
	}
	if err := s.end(ctx, &b, &e.job, r.version, r.held.Lease(), r.lanes, e.remember); err != nil {
		return err
	}
	_, err = s.k.Commit(ctx, b)
	switch {
	case errors.Is(err, tidemark.ErrUnknown):
		e.sent = append(e.sent, b.ID)
	case errors.Is(err, tidemark.ErrConflict):
		return e.explainConflict(ctx, err)
	}
	return err
}

// follow adds to a batch the job that follows another one, if there is one, with the
// prompt as it was before secrets were masked.
func (s *Store) follow(ctx context.Context, b *tidemark.Batch, after tidemark.Job, next *tidemark.Job) (tidemark.Job, error) {
	if next == nil {
		return tidemark.Job{}, nil
	}
	again := *next
	var err error
	if again.Prompt, err = s.JobPrompt(ctx, tidemark.Job{ID: after.ID, Prompt: again.Prompt}); err != nil {
		return tidemark.Job{}, err
	}
	added, puts, err := s.newJob(again)
	b.Puts = append(b.Puts, puts...)
	return added, err
}

// Silence is how long the store has not heard of this run.
func (r *JobRun) Silence() time.Duration { return r.held.Silence() }

// explainConflict finds out why a commit conflicted. It returns nil when an
// earlier try took effect after all, a final error when the lease is lost, and
// otherwise the conflict, after refreshing what the next try needs.
func (e *ending) explainConflict(ctx context.Context, conflict error) error {
	r := e.run
	ours, err := r.held.Ours(ctx)
	if err != nil {
		return err
	}
	var kept tidemark.Job
	record, err := r.s.readJob(ctx, e.job.ID, &kept)
	switch {
	case err != nil:
		return err
	case slices.Contains(e.sent, record.Batch):
		return nil
	case !ours:
		return records.Final(r.held.Lost(ctx, conflict))
	}
	// While the lease is ours nobody else changes the job and its lanes. If they
	// differ from what we expect, a commit of ours with an unknown outcome did it.
	r.version = record.Version
	if r.lanes, err = r.s.lanesOfJob(ctx, e.job); err != nil {
		return err
	}
	return conflict
}
