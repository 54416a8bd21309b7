package store

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// fleetID is the id of the record of the fleet: a store has one.
const fleetID = "fleet"

func agentKey(name string) tidemark.Key { return tidemark.Key{Kind: kindAgent, ID: name} }

func (s *Store) scheduleKey(agent, name string) tidemark.Key {
	return tidemark.Key{Kind: kindSchedule, ID: agent + "." + s.k.Hash("schedule", name)}
}

func jobKey(id string) tidemark.Key { return tidemark.Key{Kind: kindJob, ID: id} }

// Fleet returns what is known of the fleet; the zero Fleet when nothing is.
func (s *Store) Fleet(ctx context.Context) (tidemark.Fleet, error) {
	var f tidemark.Fleet
	_, err := s.k.Get(ctx, tidemark.Key{Kind: kindFleet, ID: fleetID}, &f)
	return f, err
}

// PutFleet keeps what is known of the fleet.
func (s *Store) PutFleet(ctx context.Context, f tidemark.Fleet) error {
	key := tidemark.Key{Kind: kindFleet, ID: fleetID}
	_, err := s.replace(ctx, key, func(version int64) (tidemark.Record, error) { return records.Put(key, version, f) })
	return err
}

// Agents lists the agents by name.
func (s *Store) Agents(ctx context.Context) iter.Seq2[tidemark.Agent, error] {
	return records.List[tidemark.Agent](ctx, s.k, tidemark.Query{Kind: kindAgent, Order: tidemark.ByID})
}

// PutAgent keeps the state of an agent and reports whether it changed anything.
func (s *Store) PutAgent(ctx context.Context, a tidemark.Agent) (bool, error) {
	return s.replace(ctx, agentKey(a.Name), func(version int64) (tidemark.Record, error) { return s.agentRecord(ctx, a, version) })
}

// agentRecord files an agent, without the secrets in it.
func (s *Store) agentRecord(ctx context.Context, a tidemark.Agent, version int64) (tidemark.Record, error) {
	if err := tidemark.CheckID(a.Name); err != nil {
		return tidemark.Record{}, tidemark.Invalidf("agent: %w", err)
	}
	if err := s.vault.Keep(ctx, a.Name, s.redactAgent(&a)); err != nil {
		return tidemark.Record{}, err
	}
	r, err := records.Put(agentKey(a.Name), version, a)
	r.State = a.Status
	return r, err
}

// Schedules lists the schedules of an agent, or of all when that is "". One that
// is disabled has no next instant.
func (s *Store) Schedules(ctx context.Context, agent string) iter.Seq2[tidemark.Schedule, error] {
	return func(yield func(tidemark.Schedule, error) bool) {
		for d, err := range records.List[tidemark.Schedule](ctx, s.k, tidemark.Query{Kind: kindSchedule, Group: agent, Order: tidemark.ByID}) {
			if !yield(asDue(d), err) {
				return
			}
		}
	}
}

// asDue is a schedule as it is due: one that is disabled is not. What is kept of
// it says where it goes on when it is enabled.
func asDue(d tidemark.Schedule) tidemark.Schedule {
	if d.Status == tidemark.Disabled {
		d.NextRunAt, d.SettledAt = time.Time{}, time.Time{}
	}
	return d
}

// PutSchedule keeps a schedule and reports whether it changed anything.
func (s *Store) PutSchedule(ctx context.Context, d tidemark.Schedule) (bool, error) {
	if err := s.checkSchedule(d); err != nil {
		return false, err
	}
	if err := s.vault.Keep(ctx, d.Agent, s.redactSchedule(&d)); err != nil {
		return false, err
	}
	return s.replace(ctx, s.scheduleKey(d.Agent, d.Name), func(version int64) (tidemark.Record, error) { return s.scheduleRecord(d, version) })
}

// checkSchedule returns ErrInvalid for one that could not be filed.
func (s *Store) checkSchedule(d tidemark.Schedule) error {
	if err := tidemark.CheckID(s.scheduleKey(d.Agent, d.Name).ID); err != nil || d.Name == "" {
		return tidemark.Invalidf("schedule %q of agent %q: not a name", d.Name, d.Agent)
	}
	return nil
}

func (s *Store) redactSchedule(d *tidemark.Schedule) vault.Values {
	return s.vault.Redact(d.Agent, []*string{&d.LastError}, &d.Extra)
}

// fileSchedule makes a schedule found by its agent and by when it is due.
func fileSchedule(r *tidemark.Record, d tidemark.Schedule) {
	r.Group, r.State = d.Agent, d.Status
	if !d.NextRunAt.IsZero() && d.Status != tidemark.Disabled {
		r.Due = records.Keepable(d.NextRunAt)
	}
}

func (s *Store) scheduleRecord(d tidemark.Schedule, version int64) (tidemark.Record, error) {
	r, err := records.Put(s.scheduleKey(d.Agent, d.Name), version, d)
	fileSchedule(&r, d)
	return r, err
}

// JobFilter says which jobs to list. Zero fields ask for nothing.
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

// Jobs lists jobs, the one that changed last first: ErrInvalid for a status that
// no job can have.
func (s *Store) Jobs(ctx context.Context, f JobFilter) iter.Seq2[tidemark.Job, error] {
	if err := f.check(); err != nil {
		return func(yield func(tidemark.Job, error) bool) { yield(tidemark.Job{}, err) }
	}
	return records.List[tidemark.Job](ctx, s.k, tidemark.Query{Kind: kindJob, Group: f.Agent, State: f.Status, Limit: f.Limit})
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
	return s.replace(ctx, jobKey(j.ID), func(version int64) (tidemark.Record, error) { return s.keptJobRecord(ctx, j, version) })
}

// keptJobRecord files a job that was made elsewhere, without the secrets in it.
func (s *Store) keptJobRecord(ctx context.Context, j tidemark.Job, version int64) (tidemark.Record, error) {
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

// Output yields what a job put out.
func (s *Store) Output(ctx context.Context, job string, spans ...tidemark.Span) iter.Seq2[tidemark.Event, error] {
	return s.events(ctx, jobKey(job), spans)
}

// AgentLog yields what an agent logged.
func (s *Store) AgentLog(ctx context.Context, agent string, spans ...tidemark.Span) iter.Seq2[tidemark.Event, error] {
	return s.events(ctx, agentKey(agent), spans)
}

// AppendOutput adds to what a job put out. The log is as long as from says;
// ErrConflict when somebody else was quicker.
func (s *Store) AppendOutput(ctx context.Context, job string, from int64, events ...tidemark.Event) error {
	return s.appendEvents(ctx, jobKey(job), from, events)
}

// AppendAgentLog is AppendOutput for what an agent logged.
func (s *Store) AppendAgentLog(ctx context.Context, agent string, from int64, events ...tidemark.Event) error {
	return s.appendEvents(ctx, agentKey(agent), from, events)
}

// OutputLength is how many events a job put out.
func (s *Store) OutputLength(ctx context.Context, job string) (int64, error) {
	return s.length(ctx, jobKey(job))
}

// AgentLogLength is how many events an agent logged.
func (s *Store) AgentLogLength(ctx context.Context, agent string) (int64, error) {
	return s.length(ctx, agentKey(agent))
}

func (s *Store) length(ctx context.Context, log tidemark.Key) (int64, error) {
	r, err := s.backend.Get(ctx, log)
	if errors.Is(err, tidemark.ErrNotFound) {
		return 0, nil
	}
	return r.Head.Length, err
}

func (s *Store) events(ctx context.Context, log tidemark.Key, spans []tidemark.Span) iter.Seq2[tidemark.Event, error] {
	return func(yield func(tidemark.Event, error) bool) {
		for l, err := range s.backend.Lines(ctx, log, spans...) {
			e := tidemark.Event{Type: l.Kind, Timestamp: l.At}
			if err == nil {
				e, err = tidemark.EventOf(l)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *Store) appendEvents(ctx context.Context, log tidemark.Key, from int64, events []tidemark.Event) error {
	if len(events) == 0 {
		return nil
	}
	a, err := s.eventLines(ctx, log, from, events)
	if err != nil {
		return err
	}
	_, err = s.k.Commit(ctx, tidemark.Batch{Appends: []tidemark.Append{a}})
	return err
}

// eventLines are events, without the secrets in them, as the lines of a log that
// is as long as from says.
func (s *Store) eventLines(ctx context.Context, log tidemark.Key, from int64, events []tidemark.Event) (tidemark.Append, error) {
	a := tidemark.Append{Log: log, Lines: make([]tidemark.Line, len(events))}
	for i, e := range events {
		if err := s.vault.Keep(ctx, log.ID, s.redactEvent(log.ID, &e)); err != nil {
			return a, err
		}
		l, err := e.Line()
		if err != nil {
			return a, err
		}
		l.Seq = from + int64(i) + 1
		l.Sum = l.Checksum(log)
		a.Lines[i] = l
	}
	return a, nil
}

func (s *Store) redactEvent(id string, e *tidemark.Event) vault.Values {
	return s.vault.Redact(id, []*string{&e.Content, &e.Error, &e.Message, &e.Stack}, &e.Input, &e.Result, &e.Extra)
}

func (s *Store) redactAgent(a *tidemark.Agent) vault.Values {
	return s.vault.Redact(a.Name, []*string{&a.ErrorMessage}, &a.Extra)
}

// replace puts a record, unless it says the same already.
func (s *Store) replace(ctx context.Context, key tidemark.Key, record func(version int64) (tidemark.Record, error)) (bool, error) {
	changed := false
	err := records.Retry(ctx, func() error {
		old, err := s.backend.Get(ctx, key)
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
		r, err := record(old.Version)
		if err != nil {
			return err
		}
		if changed = !bytes.Equal(r.Body, old.Body); !changed {
			return nil
		}
		_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		return err
	})
	return changed, err
}
