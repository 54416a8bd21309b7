package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// Schedules lists the schedules of an agent, or of all agents if agent is "". A
// disabled one is listed without a next instant.
func (s *Store) Schedules(ctx context.Context, agent string) iter.Seq2[tidemark.Schedule, error] {
	return func(yield func(tidemark.Schedule, error) bool) {
		for d, err := range records.List[tidemark.Schedule](ctx, s.k, tidemark.Query{Kind: kindSchedule, Group: agent, Order: tidemark.ByID}) {
			if !yield(hideTimesIfDisabled(d), err) {
				return
			}
		}
	}
}

// hideTimesIfDisabled clears the times of a disabled schedule, which is never due.
// Its record keeps them, for when it is enabled again.
func hideTimesIfDisabled(d tidemark.Schedule) tidemark.Schedule {
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

// checkSchedule returns ErrInvalid for a schedule whose names give no valid key.
func (s *Store) checkSchedule(d tidemark.Schedule) error {
	if err := tidemark.CheckID(s.scheduleKey(d.Agent, d.Name).ID); err != nil || d.Name == "" {
		return tidemark.Invalidf("schedule %q of agent %q: not a name", d.Name, d.Agent)
	}
	return nil
}

func (s *Store) redactSchedule(d *tidemark.Schedule) vault.Values {
	return s.vault.Redact(d.Agent, []*string{&d.LastError}, &d.Extra)
}

// indexSchedule sets the fields of a record by which a schedule is found: agent,
// status and due time.
func indexSchedule(r *tidemark.Record, d tidemark.Schedule) {
	r.Group, r.State = d.Agent, d.Status
	if !d.NextRunAt.IsZero() && d.Status != tidemark.Disabled {
		r.Due = records.Keepable(d.NextRunAt)
	}
}

func (s *Store) scheduleRecord(d tidemark.Schedule, version int64) (tidemark.Record, error) {
	r, err := records.Put(s.scheduleKey(d.Agent, d.Name), version, d)
	indexSchedule(&r, d)
	return r, err
}

func (s *Store) schedule(ctx context.Context, agent, name string) (tidemark.Schedule, int64, error) {
	var d tidemark.Schedule
	r, err := s.k.Get(ctx, s.scheduleKey(agent, name), &d)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("schedule %s/%s: not found", agent, name)
	}
	return d, r.Version, err
}

// Schedule returns one schedule: ErrNotFound.
func (s *Store) Schedule(ctx context.Context, agent, name string) (tidemark.Schedule, error) {
	d, _, err := s.schedule(ctx, agent, name)
	return hideTimesIfDisabled(d), err
}

// ChangeSchedule changes a schedule: ErrNotFound. After a conflict, change is
// called again with the schedule as it is then. If it changes nothing, nothing is
// written.
func (s *Store) ChangeSchedule(ctx context.Context, agent, name string, change func(*tidemark.Schedule) error) error {
	return s.changeSchedule(ctx, agent, name, func(d *tidemark.Schedule, version int64) error {
		if version == 0 {
			return tidemark.NotFoundf("schedule %s/%s: not found", agent, name)
		}
		return change(d)
	})
}

// MakeSchedule is ChangeSchedule for a schedule that may not exist yet: then isNew
// is true.
func (s *Store) MakeSchedule(ctx context.Context, agent, name string, change func(d *tidemark.Schedule, isNew bool) error) error {
	return s.changeSchedule(ctx, agent, name, func(d *tidemark.Schedule, version int64) error { return change(d, version == 0) })
}

func (s *Store) changeSchedule(ctx context.Context, agent, name string, change func(*tidemark.Schedule, int64) error) error {
	if err := tidemark.CheckID(s.scheduleKey(agent, name).ID); err != nil || name == "" {
		return tidemark.Invalidf("schedule %q of agent %q: not a name", name, agent)
	}
	return records.Retry(ctx, func() error {
		d, version, err := s.schedule(ctx, agent, name)
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
		d.Agent, d.Name = agent, name
		old, err := s.scheduleRecord(d, version)
		if err != nil {
			return err
		}
		if err := change(&d, version); err != nil {
			return err
		}
		r, err := s.scheduleRecord(d, version)
		if err != nil || version > 0 && bytes.Equal(r.Body, old.Body) {
			return err
		}
		_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		return err
	})
}

// RemoveSchedule removes a schedule with its history: ErrNotFound.
func (s *Store) RemoveSchedule(ctx context.Context, agent, name string) error {
	return records.Retry(ctx, func() error {
		_, version, err := s.schedule(ctx, agent, name)
		if err != nil {
			return err
		}
		key := s.scheduleKey(agent, name)
		_, err = s.k.Commit(ctx, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: key, Version: version}}, Drops: []tidemark.Key{key}})
		return err
	})
}

// DueSchedules lists the schedules that are due, the longest overdue first, and
// reads no others.
func (s *Store) DueSchedules(ctx context.Context, now time.Time) ([]tidemark.Schedule, error) {
	var due []tidemark.Schedule
	for d, err := range records.List[tidemark.Schedule](ctx, s.k, tidemark.Query{Kind: kindSchedule, DueBy: records.Keepable(now), Order: tidemark.ByDue}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify names it
		}
		if err != nil {
			return due, err
		}
		due = append(due, d)
	}
	return due, nil
}

// TurnSchedule sets the status of a schedule, which enables or disables it. With
// a key it also accepts a proposed schedule: it signs it, so that fleets with
// that key run it. ErrNotFound.
func (s *Store) TurnSchedule(ctx context.Context, key Key, agent, name, status string) (kept tidemark.Schedule, accepted bool, err error) {
	err = s.ChangeSchedule(ctx, agent, name, func(d *tidemark.Schedule) error {
		d.Status = status
		if accepted = key != nil && key.Proposed(*d); accepted {
			d.By = cmp.Or(d.By, ByPerson)
			*d = key.SignSchedule(*d)
		}
		kept = *d
		return nil
	})
	return kept, accepted, err
}

// ScheduleState is a schedule with its latest skips.
type ScheduleState struct {
	tidemark.Schedule
	Proposed bool      `json:"proposed,omitempty"` // nobody accepted it here, so this fleet does not run it
	Skipped  []Skipped `json:"skipped,omitempty"`
}

// skipsShown is the number of skips in a ScheduleState.
const skipsShown = 10

// ScheduleState returns the state of a schedule for a fleet with that key.
func (s *Store) ScheduleState(ctx context.Context, key Key, d tidemark.Schedule) (ScheduleState, error) {
	skipped, err := s.Skips(ctx, d.Agent, d.Name, skipsShown)
	return ScheduleState{d, key.Proposed(d), skipped}, err
}
