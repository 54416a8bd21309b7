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

// sync updates the schedules in the store to match the file, once for each file.
// Schedules that agents and people added stay, and so do those of agents that are
// only in other files: a file decides only about its own agents.
func (d *Daemon) sync(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	current, synced := d.file, d.synced
	d.mu.Unlock()
	if current == synced {
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
	for _, a := range current.Agents {
		if !known[a.Name] {
			if _, err := d.o.Store.PutAgent(ctx, tidemark.Agent{Name: a.Name, Status: tidemark.Idle}); err != nil {
				return err
			}
		}
		for _, s := range a.Schedules {
			want[[2]string{a.Name, s.Name}] = true
			err := d.keepSchedule(ctx, a, s, fleet.ByFile, now)
			if errors.Is(err, tidemark.ErrCorrupt) || errors.Is(err, tidemark.ErrInvalid) {
				d.o.Tell(a.Name, fmt.Sprintf("schedule %s: %s", s.Name, err)) // the others are not affected
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	ours, err := d.ownAgents(ctx, current, synced)
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
	// ErrNotFound: a daemon in another Go program need not be in the store's list.
	if err := d.o.Store.DaemonAgents(ctx, d.o.Holder, agentNames(current)); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return err
	}
	d.mu.Lock()
	d.synced = current
	d.mu.Unlock()
	return nil
}

// ownAgents returns the agents whose schedules a file decides about: its own, and
// those of the file before it, unless another daemon that is up has them. Any other
// agent may belong to a fleet that is just down at the moment.
func (d *Daemon) ownAgents(ctx context.Context, now, before *file.File) (map[string]bool, error) {
	ours := make(map[string]bool)
	if before != nil {
		if err := d.readOtherDaemons(ctx); err != nil {
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

// keepSchedule updates a schedule in the store to match the file. Before that, it
// handles what is due by the old timing. If the timing changed, the schedule starts
// anew; otherwise it stays due when it was.
func (d *Daemon) keepSchedule(ctx context.Context, a file.Agent, s file.Schedule, by string, now time.Time) error {
	if have, err := d.o.Store.Schedule(ctx, a.Name, s.Name); err == nil && !have.NextRunAt.IsZero() && !have.NextRunAt.After(now) {
		if old, ok := d.trusted(have); ok {
			// The old timing decides about what was due. An imported schedule has
			// none: that is in the file alone.
			old.Type, old.Every, old.Cron, old.Zone, old.Jitter, old.From, old.Missed, old.Overlap = have.Type, have.Every, have.Cron, have.Zone, have.Jitter, have.From, have.Missed, have.Overlap
			if err := d.occurTrusted(ctx, old, now); err != nil && !errors.Is(err, tidemark.ErrInvalid) {
				return err
			}
		}
	}
	_, err := putSchedule(ctx, d.o.Store, d.o.Key, d.book, a.Name, s, by, now, func(tidemark.Schedule, bool) error { return nil })
	return err
}

// putSchedule replaces a schedule in the store with want. If the timing is unchanged,
// it stays due when it was. It also stays disabled if a person disabled it, unless
// want enables it. may is called with the old schedule within the same commit, and can
// refuse the change.
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

// recordOf converts a schedule of a file to the store's type.
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

// timingText is equal for two schedules if they have the same timing.
func timingText(s tidemark.Schedule) string {
	return fmt.Sprint(s.Type, s.Every, s.Cron, s.Zone, s.Jitter, s.From)
}

// timingOf returns the timing of a schedule of the store.
func timingOf(s tidemark.Schedule) due.Timing {
	t := due.Timing{Anchor: s.CreatedAt, Cron: s.Cron, Zone: s.Zone, From: s.From, Missed: s.Missed, Overlap: s.Overlap}
	t.Every, _ = time.ParseDuration(s.Every) // Check finds what is invalid
	t.Jitter, _ = time.ParseDuration(s.Jitter)
	if !t.Anchor.IsZero() {
		t.Anchor = t.Anchor.Add(-t.Splay(idOf(s)))
	}
	return t
}

// trusted returns a schedule of the store as this fleet may run it, and whether it
// may. For a schedule of the file, everything but its state is taken from the file.
// Any other has to be signed by a person or an agent of this fleet: one that was
// imported, or written by somebody else, stays in the store and is not run.
//
// The state (when it is due next, its last run and so on) is not signed, since it
// changes with every run. So anybody who can write to the store can make a schedule
// run now or never, just as they can request or cancel a job. They cannot change what
// it runs or how often.
func (d *Daemon) trusted(s tidemark.Schedule) (tidemark.Schedule, bool) {
	a, ok := d.agent(s.Agent)
	if s.By != fleet.ByFile {
		return s, ok && d.o.Key.SignedSchedule(s)
	}
	for _, o := range a.Schedules {
		if o.Name == s.Name {
			inFile := recordOf(a.Name, o, fleet.ByFile)
			inFile.Status, inFile.CreatedAt, inFile.NextRunAt, inFile.SettledAt = s.Status, s.CreatedAt, s.NextRunAt, s.SettledAt
			inFile.LastRunAt, inFile.LastError, inFile.Job, inFile.Extra = s.LastRunAt, s.LastError, s.Job, s.Extra
			return inFile, true
		}
	}
	return s, false
}

// occur creates the jobs that are due of a schedule, if it is trusted.
func (d *Daemon) occur(ctx context.Context, s tidemark.Schedule, now time.Time) error {
	s, ok := d.trusted(s)
	if !ok {
		return nil // it belongs to another fleet, or was removed from the file
	}
	return d.occurTrusted(ctx, s, now)
}

func (d *Daemon) occurTrusted(ctx context.Context, s tidemark.Schedule, now time.Time) error {
	if s.Every == "" && s.Cron == "" {
		return nil // it was imported from a tool whose configuration alone has the timing
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
