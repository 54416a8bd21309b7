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
	// Delayed is told why the end of the job is not kept yet, each time that it
	// is not; nil: nobody is told.
	Delayed func(error)

	s       *Store
	held    *records.Holding // its mutex guards what follows
	job     tidemark.Job
	version int64
	length  int64                   // of the output
	lanes   []tidemark.Precondition // that the job stands in
}

// StartJob makes this process the owner of a job that waits: ErrBusy when as
// many run as are allowed, ErrConflict when it does not wait any more.
func (s *Store) StartJob(ctx context.Context, id string, who tidemark.Holder, limits SlotLimits) (*JobRun, error) {
	var run *JobRun
	err := records.Retry(ctx, func() error {
		var j tidemark.Job
		old, err := s.jobAt(ctx, id, &j)
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
		lanes, err := s.enter(ctx, &b, j, limits)
		if err != nil {
			return err
		}
		j.Status, j.StartedAt, j.Node = tidemark.JobRunning, b.At, who.Host
		j.Attempt = max(j.Attempt, 1)
		r, err := s.jobRecord(ctx, &j, old.Version)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
		if err := s.decide(ctx, b); err != nil {
			return err
		}
		run = &JobRun{s: s, held: s.k.Hold(l), job: j, version: r.Version, length: old.Head.Length, lanes: lanes}
		return nil
	})
	return run, err
}

// decide is commit for a batch that its caller must not be in doubt about: a
// caller that is told to stop just now would be left with a job that it does not
// know of, and so would one whose connection broke. It goes on asking until ctx
// ends; then the caller is ended too, and its lease tells.
func (s *Store) decide(ctx context.Context, b tidemark.Batch) error {
	b.ID = tidemark.NewBatchID()
	_, err := s.k.Commit(context.WithoutCancel(ctx), b)
	for try := 0; errors.Is(err, tidemark.ErrUnknown); try++ {
		if records.BackOff(ctx, try) != nil {
			return err
		}
		switch took, lookErr := s.k.Took(ctx, b); {
		case lookErr != nil: // still away
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

// Emit adds to the output of the job: ErrConflict when it is not ours any more.
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

// Note writes down something about the job while it runs, such as its session.
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
// when somebody wants the job to end.
//
// Unlike that of a session's writer it heeds a wish from before its first look: a job has
// one run, so whoever asked meant this one.
func (r *JobRun) KeepAlive(ctx context.Context, cancelled func(by tidemark.Holder)) error {
	told := false
	look := func() {
		if q, request, err := r.s.k.Handover(ctx, jobKey(r.job.ID)); err == nil && request.Version > 0 && !told {
			told = true
			cancelled(q.From)
		}
	}
	// Anything but a conflict may pass, and the lease outlasts some of it.
	return r.held.KeepAlive(ctx, look, func(err error) bool { return errors.Is(err, tidemark.ErrConflict) })
}

// Finish ends the job: its record, its lanes, what its agent remembers and the
// job that follows it, if there is one, change together, and it is nobody's any
// more. It returns the job that follows.
//
// The end of a job is not given up because others are in the way or the storage
// is away: the lease is kept and Finish goes on until the end is durable, the
// lease is lost or ctx ends. After that whoever finds the owner dead or silent
// interrupts the job.
func (r *JobRun) Finish(ctx context.Context, end func(*tidemark.Job), remember func(*tidemark.Agent, tidemark.Job), follow *tidemark.Job) (tidemark.Job, error) {
	r.held.Lock()
	defer r.held.Unlock()
	e := ending{run: r, job: r.job, remember: remember, follow: follow}
	end(&e.job)
	for try := 0; ; try++ {
		err := e.try(ctx)
		lost, isFinal := records.IsFinal(err)
		switch {
		case err == nil:
			r.job = e.job
			r.held.End()
			return e.next, nil
		case isFinal:
			return tidemark.Job{}, lost
		case !passes(err) || endWait(ctx, try) != nil:
			return tidemark.Job{}, err
		}
		if r.Delayed != nil {
			r.Delayed(err)
		}
		// Nobody else can renew the lease meanwhile. A lease that is lost is found
		// out by the next try.
		if r.held.IsOld() {
			_ = r.held.Renew(ctx)
		}
	}
}

// longEndWait bounds the pause between two tries to keep the end of a job: much
// less than a lease lasts, and little work for a store that is away for hours.
const longEndWait = 2 * time.Second

// endWait is backOff for as long as it takes.
func endWait(ctx context.Context, try int) error {
	return records.BackOffUpTo(ctx, try, longEndWait)
}

// passes reports whether an error may be gone at the next try.
func passes(err error) bool {
	for _, lasting := range []error{tidemark.ErrInvalid, tidemark.ErrCorrupt, tidemark.ErrSealed, tidemark.ErrDenied, tidemark.ErrNotFound, tidemark.ErrUnsupported,
		context.Canceled} {
		if errors.Is(err, lasting) {
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

// try keeps the end: a final conflict when the job is somebody else's.
func (e *ending) try(ctx context.Context) error {
	r, s := e.run, e.run.s
	b := tidemark.Batch{ID: tidemark.NewBatchID(), At: s.k.Now()}
	if e.follow != nil {
		again := *e.follow
		var err error
		if again.Prompt, err = s.JobPrompt(ctx, tidemark.Job{ID: e.job.ID, Prompt: again.Prompt}); err != nil {
			return err
		}
		added, puts, err := s.newJob(again)
		if err != nil {
			return err
		}
		e.next, b.Puts = added, append(b.Puts, puts...)
	}
	if err := s.end(ctx, &b, &e.job, r.version, r.held.Lease(), r.lanes, e.remember); err != nil {
		return err
	}
	_, err := s.k.Commit(ctx, b)
	switch {
	case errors.Is(err, tidemark.ErrUnknown):
		e.sent = append(e.sent, b.ID)
	case errors.Is(err, tidemark.ErrConflict):
		return e.met(ctx, err)
	}
	return err
}

// met explains a conflict: nil when an earlier try took effect after all.
func (e *ending) met(ctx context.Context, conflict error) error {
	r := e.run
	ours, err := r.held.Ours(ctx)
	if err != nil {
		return err
	}
	var kept tidemark.Job
	record, err := r.s.jobAt(ctx, e.job.ID, &kept)
	switch {
	case err != nil:
		return err
	case slices.Contains(e.sent, record.Batch):
		return nil
	case !ours:
		return records.Final(r.held.Lost(ctx, conflict))
	}
	// While the lease is ours nobody else changes the job and its lanes: what is
	// otherwise than thought is so by a commit of ours whose outcome was unknown.
	r.version = record.Version
	if r.lanes, err = r.s.standsIn(ctx, e.job); err != nil {
		return err
	}
	return conflict
}
