package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// A job is a record and the log of its output. Whoever runs it holds a lease
// on it, as a writer does on a session, so that a job whose owner died is found
// out and never runs twice at a time. How many run at once is kept in slots:
// records that change in the same commit as the job, so that a limit holds
// over all processes and for every trigger.
// ErrBusy says that as many jobs run as are allowed.
var ErrBusy = errors.New("as many jobs run as are allowed")

// slots are the jobs that run, of one agent or of the whole fleet.
type slots struct {
	Running []string `json:"running"`
}

// fleetSlots is the id of the slots of the fleet; no agent is called so.
const fleetSlots = "-"

func slotsKey(id string) tidemark.Key { return tidemark.Key{Kind: kindSlots, ID: id} }

// SlotLimits bound how many jobs run at once; 0: no limit.
type SlotLimits struct {
	Agent int
	Fleet int
}

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

// jobRecord files a job, without the secrets in it.
func (s *Store) jobRecord(j *tidemark.Job, version int64) (tidemark.Record, error) {
	if s.o.Redact != RedactWarn { // a job is filed many times, and its prompt was warned of
		s.hideJob(j)
	}
	r, err := put(jobKey(j.ID), version, *j)
	r.Group, r.State = j.Agent, j.Status
	if j.Status == tidemark.JobPending {
		r.Due = keepable(j.StartedAt)
		if !j.NotBefore.IsZero() {
			r.Due = keepable(j.NotBefore)
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
	now := s.now()
	j.ID, j.Status, j.StartedAt = jobID(now), tidemark.JobPending, now
	j.OutputFile = j.ID + ".jsonl"
	var all []tidemark.Record
	for mark, v := range s.hideJob(&j) {
		r, err := put(keyOf(kindSecret, tidemark.SessionID(j.ID), mark), 0, v)
		if err != nil {
			return j, nil, err
		}
		all = append(all, r)
	}
	r, err := s.jobRecord(&j, 0)
	return j, append(all, r), err
}

// AddJob keeps a job that is to run, under an id that no other has.
func (s *Store) AddJob(ctx context.Context, j tidemark.Job) (tidemark.Job, error) {
	var added tidemark.Job
	err := retry(func() error {
		var puts []tidemark.Record
		var err error
		if added, puts, err = s.newJob(j); err != nil {
			return err
		}
		_, err = s.commit(ctx, tidemark.Batch{Puts: puts})
		return err
	})
	return added, err
}

// DueJobs lists the jobs that wait to run, the one that waits longest first.
func (s *Store) DueJobs(ctx context.Context, now time.Time, limit int) ([]tidemark.Job, error) {
	var due []tidemark.Job
	q := tidemark.Query{Kind: kindJob, State: tidemark.JobPending, DueBy: keepable(now), Order: tidemark.ByDue, Limit: limit}
	for j, err := range listed[tidemark.Job](ctx, s, q) {
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

// JobRun is a job that this process runs. Its methods may be called
// concurrently.
type JobRun struct {
	s *Store
	// w holds the lease; a job has no entries of its own to append with it.
	w       *Writer
	job     tidemark.Job
	version int64
	length  int64 // of the output
}

// StartJob makes this process the owner of a job that waits: ErrBusy when as
// many run as are allowed, ErrConflict when it does not wait any more.
func (s *Store) StartJob(ctx context.Context, id string, who tidemark.Holder, limits SlotLimits) (*JobRun, error) {
	var run *JobRun
	err := retry(func() error {
		j, version, err := s.job(ctx, id)
		if err != nil {
			return err
		}
		if j.Status != tidemark.JobPending {
			return &settled{tidemark.Conflictf("job %s is %s", id, j.Status)}
		}
		l, b, err := s.take(ctx, tidemark.SessionID(id), who)
		if err != nil {
			return err
		}
		for slot, limit := range map[string]int{j.Agent: limits.Agent, fleetSlots: limits.Fleet} {
			if err := s.fill(ctx, &b, slot, id, limit); err != nil {
				return err
			}
		}
		j.Status, j.StartedAt, j.Node = tidemark.JobRunning, b.At, who.Host
		j.Attempt = max(j.Attempt, 1)
		r, err := s.jobRecord(&j, version)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
		// A caller that is told to stop just now must not be left with a job
		// that it does not know of.
		ctx := context.WithoutCancel(ctx)
		if _, err := s.commit(ctx, b); err != nil {
			return err
		}
		w := &Writer{s: s, id: tidemark.SessionID(id), closed: make(chan struct{}), attached: true, lease: l}
		run = &JobRun{s: s, w: w, job: j, version: version + 1}
		run.length, err = s.length(ctx, jobKey(id))
		return err
	})
	var done *settled
	if errors.As(err, &done) {
		err = done.error
	}
	return run, err
}

// settled is a conflict that trying again does not help.
type settled struct{ error }

func (e *settled) Is(error) bool { return false }

func (s *Store) job(ctx context.Context, id string) (tidemark.Job, int64, error) {
	var j tidemark.Job
	r, err := s.get(ctx, jobKey(id), &j)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("job %s: not found", id)
	}
	return j, r.Version, err
}

// fill takes a slot for a job: ErrBusy when none is free.
func (s *Store) fill(ctx context.Context, b *tidemark.Batch, slot, job string, limit int) error {
	var have slots
	r, err := s.get(ctx, slotsKey(slot), &have)
	if err != nil {
		return err
	}
	if limit > 0 && len(have.Running) >= limit && !slices.Contains(have.Running, job) {
		return ErrBusy
	}
	if !slices.Contains(have.Running, job) {
		have.Running = append(have.Running, job)
	}
	p, err := put(slotsKey(slot), r.Version, have)
	b.Puts = append(b.Puts, p)
	return err
}

// empty gives the slots of a job back.
func (s *Store) empty(ctx context.Context, b *tidemark.Batch, j tidemark.Job) error {
	for _, slot := range []string{j.Agent, fleetSlots} {
		var have slots
		r, err := s.get(ctx, slotsKey(slot), &have)
		if err != nil {
			return err
		}
		if !slices.Contains(have.Running, j.ID) {
			continue
		}
		have.Running = slices.DeleteFunc(have.Running, func(id string) bool { return id == j.ID })
		p, err := put(slotsKey(slot), r.Version, have)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, p)
	}
	return nil
}

// Running lists the jobs of an agent that run, or of the whole fleet when that
// is "".
func (s *Store) Running(ctx context.Context, agent string) ([]string, error) {
	if agent == "" {
		agent = fleetSlots
	}
	var have slots
	_, err := s.get(ctx, slotsKey(agent), &have)
	return have.Running, err
}

// Job is the job as it is kept now.
func (r *JobRun) Job() tidemark.Job {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.job
}

// Emit adds to the output of the job: ErrConflict when it is not ours any more.
func (r *JobRun) Emit(ctx context.Context, events ...tidemark.Event) error {
	if len(events) == 0 {
		return nil
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	b := tidemark.Batch{At: r.s.now()}
	a, err := r.s.eventLines(jobKey(r.job.ID), r.length, events)
	if err != nil {
		return err
	}
	b.Appends = append(b.Appends, a)
	if err := r.w.guard(&b, false); err != nil {
		return err
	}
	if _, err := r.s.commit(ctx, b); err != nil {
		return r.w.lost(ctx, err)
	}
	r.length += int64(len(events))
	return nil
}

// Note writes down something about the job while it runs, such as its session.
func (r *JobRun) Note(ctx context.Context, change func(*tidemark.Job)) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	j := r.job
	change(&j)
	b := tidemark.Batch{At: r.s.now()}
	p, err := r.s.jobRecord(&j, r.version)
	if err != nil {
		return err
	}
	b.Puts = append(b.Puts, p)
	if err := r.w.guard(&b, false); err != nil {
		return err
	}
	if _, err := r.s.commit(ctx, b); err != nil {
		return r.w.lost(ctx, err)
	}
	r.job, r.version = j, r.version+1
	return nil
}

// KeepAlive renews the lease of the job until ctx ends, and calls cancelled
// when somebody wants the job to end.
//
// Unlike Writer.KeepAlive it heeds a wish from before its first look: a job has
// one run, so whoever asked meant this one.
func (r *JobRun) KeepAlive(ctx context.Context, cancelled func(Ask)) error {
	ticker := time.NewTicker(min(askLook, r.s.o.Lease/6))
	defer ticker.Stop()
	told := false
	for {
		var a Ask
		if ask, err := r.s.get(ctx, keyOf(kindAsk, r.w.id), &a); err == nil && ask.Version > 0 && !told {
			told = true
			cancelled(a)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.w.closed:
			return nil
		case <-ticker.C:
		}
		// Anything but a conflict may pass, and the lease outlasts some of it.
		if err := r.w.renewIfOld(ctx); errors.Is(err, tidemark.ErrConflict) {
			return err
		}
	}
}

// Finish ends the job: its record, its slots, what its agent remembers and the
// job that follows it, if there is one, change together, and it is nobody's any
// more. It returns the job that follows.
func (r *JobRun) Finish(ctx context.Context, end func(*tidemark.Job), remember func(*tidemark.Agent, tidemark.Job), follow *tidemark.Job) (tidemark.Job, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	j := r.job
	end(&j)
	var next tidemark.Job
	err := retry(func() error {
		b, err := r.s.ending(ctx, &j, r.version, r.w.lease, remember)
		if err != nil {
			return err
		}
		if follow != nil {
			again := *follow
			if again.Prompt, err = r.s.JobPrompt(ctx, tidemark.Job{ID: j.ID, Prompt: again.Prompt}); err != nil {
				return err
			}
			added, puts, err := r.s.newJob(again)
			if err != nil {
				return err
			}
			next, b.Puts = added, append(b.Puts, puts...)
		}
		if _, err = r.s.commit(ctx, b); errors.Is(err, tidemark.ErrConflict) && !r.w.holds(ctx) {
			return &settled{r.w.lost(ctx, err)}
		}
		return err
	})
	var done *settled
	if errors.As(err, &done) {
		err = done.error
	}
	if err != nil {
		return tidemark.Job{}, err
	}
	r.job = j
	close(r.w.closed)
	return next, nil
}

// ending is the batch that ends a job: it goes through while the lease and its
// pulse stand as they were judged, and removes both.
func (s *Store) ending(ctx context.Context, j *tidemark.Job, version int64, l Lease, remember func(*tidemark.Agent, tidemark.Job)) (tidemark.Batch, error) {
	b := tidemark.Batch{At: s.now()}
	id := tidemark.SessionID(j.ID)
	ask, err := s.get(ctx, keyOf(kindAsk, id), &Ask{})
	if err != nil {
		return b, err
	}
	for kind, v := range map[string]int64{kindLease: l.token, kindPulse: l.pulse, kindAsk: ask.Version} {
		if v > 0 {
			b.Deletes = append(b.Deletes, tidemark.Need{Key: keyOf(kind, id), Version: v})
		}
	}
	if j.FinishedAt.IsZero() {
		j.FinishedAt = b.At
	}
	j.DurationSeconds = j.FinishedAt.Sub(j.StartedAt).Seconds()
	if err := s.empty(ctx, &b, *j); err != nil {
		return b, err
	}
	a := tidemark.Agent{Name: j.Agent, Status: tidemark.Idle}
	old, err := s.get(ctx, agentKey(j.Agent), &a)
	if err != nil {
		return b, err
	}
	r, err := s.jobRecord(j, version)
	if err != nil {
		return b, err
	}
	if remember != nil {
		remember(&a, *j)
	}
	s.hideAgent(&a)
	ar, err := put(agentKey(j.Agent), old.Version, a)
	if err != nil {
		return b, err
	}
	ar.State = a.Status
	b.Puts = append(b.Puts, ar, r)
	return b, nil
}

// CancelJob ends a job that waits, or tells the owner of one that runs; it
// reports which. One that came in as running and never had an owner here is
// ended, too. A job that ended before is ErrConflict.
func (s *Store) CancelJob(ctx context.Context, id string, from tidemark.Holder) (ended bool, err error) {
	err = retry(func() error {
		j, version, err := s.job(ctx, id)
		if err != nil {
			return err
		}
		switch j.Status {
		case tidemark.JobRunning:
			l, err := s.Lease(ctx, tidemark.SessionID(id))
			if err != nil {
				return err
			}
			if l.token != 0 {
				return s.AskHandOver(ctx, tidemark.SessionID(id), from)
			}
			fallthrough
		case tidemark.JobPending:
			j.Status, j.ExitReason, j.FinishedAt = tidemark.JobCancelled, tidemark.ExitCancelled, s.now()
			r, err := s.jobRecord(&j, version)
			if err != nil {
				return err
			}
			_, err = s.commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
			ended = err == nil
			return err
		}
		return &settled{tidemark.Conflictf("job %s is %s", id, j.Status)}
	})
	var done *settled
	if errors.As(err, &done) {
		err = done.error
	}
	return ended, err
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
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindSecret, Prefix: id, Order: tidemark.ByID}) {
		if err != nil {
			return err
		}
		b.Deletes = append(b.Deletes, tidemark.Need{Key: r.Key, Version: r.Version})
	}
	b.Deletes = append(b.Deletes, tidemark.Need{Key: jobKey(id), Version: version})
	_, err = s.commit(ctx, b)
	return err
}

// Interrupt ends the jobs whose owners are proven dead or were silent for too
// long, and returns them as they are now: interrupted, with their session, and
// with their slots free. Where the owner is dead, each of before is called with
// the job while its slots are still taken: it can end what is left of the job's
// program, so that no other run of the agent begins beside that.
func (s *Store) Interrupt(ctx context.Context, before ...func(tidemark.Job)) ([]tidemark.Job, error) {
	var ended []tidemark.Job
	running, err := s.Running(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, id := range running {
		l, err := s.Lease(ctx, tidemark.SessionID(id))
		if err != nil {
			return ended, err
		}
		if l.Held && !l.Dead && !l.Expired {
			continue
		}
		if l.Dead {
			s.beforehand(ctx, id, before)
		}
		j, ok, err := s.interrupt(ctx, id, l)
		if err != nil {
			return ended, err
		}
		if ok {
			ended = append(ended, j)
		}
	}
	return ended, nil
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
	b, err := s.ending(ctx, &j, version, l, nil)
	if err != nil {
		return j, false, err
	}
	if _, err := s.commit(ctx, b); err != nil {
		if errors.Is(err, tidemark.ErrConflict) {
			return j, false, nil // somebody else was quicker, or it lives
		}
		return j, false, err
	}
	return j, true, nil
}
