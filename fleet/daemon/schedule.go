package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/due"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

// sync makes the schedules in the store what the file says, once for each file.
// Schedules that agents and people added stay, and so do those of agents that
// only other files have: each file rules over its own agents alone.
func (d *Daemon) sync(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	holds, synced := d.file, d.synced
	d.mu.Unlock()
	if holds == synced {
		return nil
	}
	known := make(map[string]bool)
	for have, err := range d.o.Store.Agents(ctx) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		known[have.Name] = true
	}
	want := make(map[[2]string]bool)
	for _, a := range holds.Agents {
		if !known[a.Name] {
			if _, err := d.o.Store.PutAgent(ctx, tidemark.Agent{Name: a.Name, Status: tidemark.Idle}); err != nil {
				return err
			}
		}
		for _, s := range a.Schedules {
			want[[2]string{a.Name, s.Name}] = true
			err := d.keepSchedule(ctx, a, s, fleet.ByFile, now)
			if errors.Is(err, tidemark.ErrCorrupt) || errors.Is(err, tidemark.ErrInvalid) {
				d.o.Tell(a.Name, fmt.Sprintf("schedule %s: %s", s.Name, err)) // the others go on
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	ours, err := d.ownAgents(ctx, holds, synced)
	if err != nil {
		return err
	}
	for s, err := range d.o.Store.Schedules(ctx, "") {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if s.By == fleet.ByFile && ours[s.Agent] && !want[[2]string{s.Agent, s.Name}] {
			if err := d.o.Store.RemoveSchedule(ctx, s.Agent, s.Name); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
				return err
			}
			d.o.Tell(s.Agent, fmt.Sprintf("schedule %s is no longer in the file", s.Name))
		}
	}
	// A daemon that nobody wrote down runs in somebody else's program.
	if err := d.o.Store.DaemonAgents(ctx, d.o.Holder, agentNames(holds)); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return err
	}
	d.mu.Lock()
	d.synced = holds
	d.mu.Unlock()
	return nil
}

// ownAgents are the agents whose schedules a file rules over: those that it has,
// and those that the file before it had, unless another daemon that is up has
// them. Of any other agent it cannot be told whether the fleet that it belongs
// to is only down.
func (d *Daemon) ownAgents(ctx context.Context, now, before *file.File) (map[string]bool, error) {
	ours := make(map[string]bool)
	if before != nil {
		if err := d.lookAround(ctx); err != nil {
			return nil, err
		}
		d.mu.Lock()
		for _, name := range agentNames(before) {
			ours[name] = !d.absent.unsure && !d.absent.elsewhere[name]
		}
		d.mu.Unlock()
	}
	for _, name := range agentNames(now) {
		ours[name] = true
	}
	return ours, nil
}

func agentNames(f *file.File) []string {
	names := make([]string, len(f.Agents))
	for i, a := range f.Agents {
		names[i] = a.Name
	}
	return names
}

// keepSchedule makes a schedule of the store what it should be. One whose
// timing changed begins anew, after what was due of it has its answer;
// otherwise its next instant stands.
func (d *Daemon) keepSchedule(ctx context.Context, a file.Agent, s file.Schedule, by string, now time.Time) error {
	if have, err := d.o.Store.Schedule(ctx, a.Name, s.Name); err == nil && !have.NextRunAt.IsZero() && !have.NextRunAt.After(now) {
		if held, ok := d.held(have); ok {
			// What was due has its answer by the timing that it had. One that came
			// from elsewhere may not say when it is due: the file does.
			held.Type, held.Every, held.Cron, held.Zone, held.Jitter, held.From, held.Missed, held.Overlap = have.Type, have.Every, have.Cron, have.Zone, have.Jitter, have.From, have.Missed, have.Overlap
			if err := d.occurHeld(ctx, held, now); err != nil && !errors.Is(err, tidemark.ErrInvalid) {
				return err
			}
		}
	}
	_, err := putSchedule(ctx, d.o.Store, d.o.Key, d.book, a.Name, s, by, now, func(tidemark.Schedule, bool) error { return nil })
	return err
}

// putSchedule makes a schedule of the store what it should be. Its next instant
// stands when its timing is what it was, and so does that a person disabled it,
// unless want says otherwise. may is asked in the same commit.
func putSchedule(ctx context.Context, s *fleet.Store, key fleet.Key, book *due.Book, agent string, want file.Schedule, by string, now time.Time, may func(have tidemark.Schedule, isNew bool) error) (tidemark.Schedule, error) {
	var kept tidemark.Schedule
	err := s.MakeSchedule(ctx, agent, want.Name, func(have *tidemark.Schedule, isNew bool) error {
		if err := may(*have, isNew); err != nil {
			return err
		}
		kept = recordOf(agent, want, by)
		if want.Enabled != nil && !*want.Enabled || want.Enabled == nil && have.Status == tidemark.Disabled {
			kept.Status = tidemark.Disabled
		}
		kept.CreatedAt = now.UTC().Truncate(time.Millisecond)
		kept.LastRunAt, kept.LastError, kept.Job = have.LastRunAt, have.LastError, have.Job
		if !isNew && timingText(*have) == timingText(kept) {
			kept.CreatedAt, kept.NextRunAt, kept.SettledAt = have.CreatedAt, have.NextRunAt, have.SettledAt
		}
		if kept.NextRunAt.IsZero() && (want.Type == fleet.TypeInterval || want.Type == fleet.TypeCron) {
			t := timingOf(kept)
			next, err := book.First(t, idOf(kept), t.Anchor)
			if err != nil {
				return err
			}
			kept.NextRunAt = next
		}
		if by != fleet.ByFile {
			kept = key.SignSchedule(kept)
		}
		*have = kept
		return nil
	})
	return kept, err
}

// recordOf is a schedule as the store has it.
func recordOf(agent string, s file.Schedule, by string) tidemark.Schedule {
	r := tidemark.Schedule{Agent: agent, Name: s.Name, Status: tidemark.Idle, Type: s.Type, Cron: s.Cron, Zone: s.Zone, Missed: s.Missed,
		Overlap: s.Overlap, From: s.From, Prompt: s.Prompt, Resume: s.Resume, By: by, Enabled: s.Enabled}
	if s.Every > 0 {
		r.Every = s.Every.String()
	}
	if s.Jitter > 0 {
		r.Jitter = s.Jitter.String()
	}
	return r
}

func idOf(s tidemark.Schedule) string { return s.Agent + "/" + s.Name }

// timingText tells two timings apart.
func timingText(s tidemark.Schedule) string {
	return fmt.Sprint(s.Type, s.Every, s.Cron, s.Zone, s.Jitter, s.From)
}

// timingOf is when a schedule of the store is due.
func timingOf(s tidemark.Schedule) due.Timing {
	t := due.Timing{Anchor: s.CreatedAt, Cron: s.Cron, Zone: s.Zone, From: s.From, Missed: s.Missed, Overlap: s.Overlap}
	t.Every, _ = time.ParseDuration(s.Every) // what is not one is found out by Check
	t.Jitter, _ = time.ParseDuration(s.Jitter)
	if !t.Anchor.IsZero() {
		t.Anchor = t.Anchor.Add(-t.Splay(idOf(s)))
	}
	return t
}

// held returns a schedule of the store as this fleet holds it: one of its file
// as the file says it, wherever it stands; any other as a person or an agent of
// the fleet signed it. What was imported, or written by somebody else, is kept
// and not held.
//
// Where it stands is not signed: it changes with every run. Whoever writes to
// the store can have a schedule run now, or not at all, as they can order a job
// or cancel one; what it runs and in which rhythm they cannot say.
func (d *Daemon) held(s tidemark.Schedule) (tidemark.Schedule, bool) {
	a, ok := d.agent(s.Agent)
	if s.By != fleet.ByFile {
		return s, ok && d.o.Key.SignedSchedule(s)
	}
	for _, o := range a.Schedules {
		if o.Name == s.Name {
			said := recordOf(a.Name, o, fleet.ByFile)
			said.Status, said.CreatedAt, said.NextRunAt, said.SettledAt = s.Status, s.CreatedAt, s.NextRunAt, s.SettledAt
			said.LastRunAt, said.LastError, said.Job, said.Extra = s.LastRunAt, s.LastError, s.Job, s.Extra
			return said, true
		}
	}
	return s, false
}

// occur makes jobs of what is due of a schedule.
func (d *Daemon) occur(ctx context.Context, s tidemark.Schedule, now time.Time) error {
	s, ok := d.held(s)
	if !ok {
		return nil // another fleet's, or one that is gone
	}
	return d.occurHeld(ctx, s, now)
}

func (d *Daemon) occurHeld(ctx context.Context, s tidemark.Schedule, now time.Time) error {
	if s.Every == "" && s.Cron == "" {
		return nil // it came from elsewhere, where only a configuration knew when it is due
	}
	standing := due.Standing{Next: s.NextRunAt, Settled: s.SettledAt}
	if s.Job != "" {
		j, err := d.o.Store.Job(ctx, s.Job)
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
		if j.Status == tidemark.JobPending || j.Status == tidemark.JobRunning {
			standing.Job, standing.Since = j.ID, j.StartedAt
		}
	}
	plan, err := d.book.Due(timingOf(s), idOf(s), standing, now)
	if err != nil {
		return err
	}
	if plan.Next.Equal(s.NextRunAt) && plan.Settled.Equal(s.SettledAt) && len(plan.Run) == 0 && len(plan.Skipped) == 0 {
		return nil
	}
	o := fleet.Occurrence{Of: s, Next: plan.Next, Settled: plan.Settled}
	for _, at := range plan.Run {
		o.Jobs = append(o.Jobs, tidemark.Job{Trigger: tidemark.TriggerSchedule, Prompt: s.Prompt, SessionID: s.Session, Occurrence: at})
	}
	for _, skip := range plan.Skipped {
		o.Skipped = append(o.Skipped, fleet.Skipped{Instant: skip.From, Until: skip.To, Count: skip.Count, Reason: skip.Reason})
	}
	jobs, err := d.o.Store.ClaimOccurrence(ctx, o)
	if errors.Is(err, tidemark.ErrExists) {
		return nil // another daemon was quicker
	}
	if err != nil {
		return err
	}
	if plan.Replace && standing.Job != "" {
		if _, err := d.o.Store.CancelJob(ctx, standing.Job, d.o.Holder); err != nil && !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
	}
	return d.o.Dispatch.Added(ctx, jobs)
}
