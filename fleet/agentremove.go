package fleet

import (
	"context"
	"errors"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Removed is what RemoveAgent removed along with an agent.
type Removed struct {
	Agent     string   `json:"agent"`
	Schedules []string `json:"schedules"`
	Cancelled []string `json:"cancelled"` // jobs that waited for it
}

// RemoveAgent removes an agent with its log and its schedules, and cancels its
// pending jobs. Jobs that have ended and sessions stay. ErrNotFound; ErrConflict
// while the fleet file of a live daemon has the agent, or one of its jobs runs.
func (s *Store) RemoveAgent(ctx context.Context, name string, by tidemark.Holder) (Removed, error) {
	gone := Removed{Agent: name, Schedules: []string{}, Cancelled: []string{}}
	r, err := s.k.Backend().Get(ctx, agentKey(name))
	if errors.Is(err, tidemark.ErrNotFound) || err == nil && r.Version == 0 {
		return gone, tidemark.NotFoundf("agent %q: not found", name)
	}
	if err != nil {
		return gone, err
	}
	if err := s.checkRemovable(ctx, name); err != nil {
		return gone, err
	}
	for j, err := range s.Jobs(ctx, JobFilter{Agent: name, Status: tidemark.JobPending}) {
		if err == nil {
			_, err = s.CancelJob(ctx, j.ID, by)
		}
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return gone, err
		}
		gone.Cancelled = append(gone.Cancelled, j.ID)
	}
	b := tidemark.Batch{Deletes: []tidemark.Precondition{{Key: r.Key, Version: r.Version}}, Drops: []tidemark.Key{r.Key}}
	for d, err := range s.k.Backend().List(ctx, tidemark.Query{Kind: kindSchedule, Group: name, Order: tidemark.ByID}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return gone, err
		}
		b.Deletes, b.Drops = append(b.Deletes, tidemark.Precondition{Key: d.Key, Version: d.Version}), append(b.Drops, d.Key)
		var known tidemark.Schedule
		if records.Decode(d, &known) == nil {
			gone.Schedules = append(gone.Schedules, known.Name)
		}
	}
	if err := s.vault.Forget(ctx, &b, name); err != nil {
		return gone, err
	}
	_, err = s.k.Commit(ctx, b)
	return gone, err
}

// checkRemovable refuses an agent that runs a job, or that a live daemon would
// add again because its fleet file has it.
func (s *Store) checkRemovable(ctx context.Context, name string) error {
	running, err := s.Running(ctx, name)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return tidemark.Conflictf("agent %s runs %s", name, running[0])
	}
	daemons, err := s.Daemons(ctx)
	for _, d := range daemons {
		if !d.Dead && slices.Contains(d.Agents, name) {
			return tidemark.Conflictf("agent %s is in the file of the fleet that %s runs", name, d.Holder)
		}
	}
	return err
}
