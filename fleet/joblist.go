package fleet

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// JobFilter selects jobs. A zero field selects all.
type JobFilter struct {
	Agent  string
	Status string
	Limit  int
}

// check refuses a status that no job can have.
func (f JobFilter) check() error {
	if all := tidemark.JobStatuses(); f.Status != "" && !slices.Contains(all, f.Status) {
		return tidemark.Invalidf("status %.40q: want one of %s", f.Status, strings.Join(all, ", "))
	}
	return nil
}

// Jobs lists jobs, the most recently changed first: ErrInvalid for a status that
// no job can have.
func (s *Store) Jobs(ctx context.Context, f JobFilter) iter.Seq2[tidemark.Job, error] {
	if err := f.check(); err != nil {
		return func(yield func(tidemark.Job, error) bool) { yield(tidemark.Job{}, err) }
	}
	return records.List[tidemark.Job](ctx, s.k, tidemark.Query{Kind: kindJob, Group: f.Agent, State: f.Status, Limit: f.Limit})
}

// AllJobs lists all jobs in the order of Jobs, for who keeps them in memory anyhow: they
// are read as they lie, which saves a search for each, decoded beside the reading, and
// then sorted. What cannot be read comes first.
func (s *Store) AllJobs(ctx context.Context) iter.Seq2[tidemark.Job, error] {
	return func(yield func(tidemark.Job, error) bool) {
		var pages []*jobPage
		var decoding sync.WaitGroup
		page := newJobPage()
		decode := func() {
			pages = append(pages, page)
			decoding.Go(page.decode)
			page = newJobPage()
		}
		for r, err := range s.k.Backend().List(ctx, tidemark.Query{Kind: kindJob, Order: tidemark.ByID}) {
			page.found = append(page.found, foundJob{record: r, err: err})
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				break
			}
			if len(page.found) == jobPageSize {
				decode()
			}
		}
		decode()
		decoding.Wait()
		var all []*foundJob
		for _, p := range pages {
			for i := range p.found {
				if f := &p.found[i]; f.err == nil {
					all = append(all, f)
				} else if !yield(tidemark.Job{}, f.err) || !errors.Is(f.err, tidemark.ErrCorrupt) {
					return
				}
			}
		}
		slices.SortStableFunc(all, func(a, b *foundJob) int { return b.touched.Compare(a.touched) })
		for _, f := range all {
			if !yield(f.job, nil) {
				return
			}
		}
	}
}

// jobPageSize is how many jobs are decoded by one goroutine: enough that starting it
// costs nothing beside them.
const jobPageSize = 128

// jobPage is a part of a list of jobs.
type jobPage struct{ found []foundJob }

func newJobPage() *jobPage { return &jobPage{found: make([]foundJob, 0, jobPageSize)} }

// foundJob is a record and then the job that was in it.
type foundJob struct {
	record  tidemark.Record
	touched time.Time
	job     tidemark.Job
	err     error
}

func (p *jobPage) decode() {
	for i := range p.found {
		f := &p.found[i]
		if f.err == nil {
			f.touched, f.err = f.record.Touched(), records.Decode(f.record, &f.job)
		}
		f.record = tidemark.Record{} // its body is as large as the job
	}
}

// Job returns one job: ErrNotFound.
func (s *Store) Job(ctx context.Context, id string) (tidemark.Job, error) {
	var j tidemark.Job
	r, err := s.k.Get(ctx, jobKey(id), &j)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("job %s: not found", id)
	}
	return j, err
}

// PutJob keeps a job and reports whether it changed anything.
func (s *Store) PutJob(ctx context.Context, j tidemark.Job) (bool, error) {
	return s.replace(ctx, jobKey(j.ID), func(version int64) (tidemark.Record, error) { return s.importedJobRecord(ctx, j, version) })
}

// importedJobRecord makes the record of a job of another tool, with the secrets
// masked, also those in its Extra.
func (s *Store) importedJobRecord(ctx context.Context, j tidemark.Job, version int64) (tidemark.Record, error) {
	if err := tidemark.CheckID(j.ID); err != nil {
		return tidemark.Record{}, tidemark.Invalidf("job: %w", err)
	}
	for _, values := range []vault.Values{s.redactJob(&j), s.vault.Redact(j.ID, nil, &j.Extra)} {
		if err := s.vault.Keep(ctx, j.ID, values); err != nil {
			return tidemark.Record{}, err
		}
	}
	r, err := records.Put(jobKey(j.ID), version, j)
	r.Group, r.State = j.Agent, j.Status
	return r, err
}

// Mark is where a listing stopped, so that the next one can continue after it.
type Mark = records.Mark

// KeptJob is a job with the Mark after which a listing continues.
type KeptJob struct {
	tidemark.Job
	Mark Mark
}

// JobsAfter lists jobs as Jobs does, after the mark of an earlier listing.
func (s *Store) JobsAfter(ctx context.Context, f JobFilter, after Mark) iter.Seq2[KeptJob, error] {
	q := tidemark.Query{Kind: kindJob, Group: f.Agent, State: f.Status, Limit: f.Limit, After: after.After(jobKey(after.ID))}
	return func(yield func(KeptJob, error) bool) {
		if err := f.check(); err != nil {
			yield(KeptJob{}, err)
			return
		}
		for r, err := range s.k.Backend().List(ctx, q) {
			var j KeptJob
			if err == nil {
				err = records.Decode(r, &j.Job)
			}
			j.Mark = Mark{ID: r.ID, At: r.Touched()}
			if !yield(j, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

// JobNamed returns the id of the job that ref means: ref itself if it is a job's
// id, or the most recently changed job of the agent of that name. ErrNotFound.
func (s *Store) JobNamed(ctx context.Context, ref string) (string, error) {
	_, err := s.Job(ctx, ref)
	if err == nil || !errors.Is(err, tidemark.ErrNotFound) {
		return ref, err
	}
	for j, err := range s.Jobs(ctx, JobFilter{Agent: ref, Limit: 1}) {
		return j.ID, err
	}
	return "", hint.With(tidemark.NotFoundf("%q is neither a job nor an agent that had one", ref), "see them with: tidemark jobs")
}
