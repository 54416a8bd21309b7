package store

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// AgentStates lists the agents as they are now: what runs, what is due next,
// and what they remember. What runs is told by the slots, which change with the
// jobs themselves: an agent never seems to run when nothing does.
func (s *Store) AgentStates(ctx context.Context) ([]tidemark.Agent, error) {
	var all []tidemark.Agent
	for a, err := range s.Agents(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify names it
		}
		if err != nil {
			return all, err
		}
		running, err := s.Running(ctx, a.Name)
		if err != nil {
			return all, err
		}
		a.CurrentJob, a.ContainerID, a.Node, a.NextSchedule, a.NextTriggerAt = "", "", "", "", time.Time{}
		switch {
		case len(running) > 0:
			a.Status, a.CurrentJob = tidemark.Running, running[len(running)-1]
			if j, err := s.Job(ctx, a.CurrentJob); err == nil {
				a.ContainerID, a.Node = j.ContainerID, j.Node
			}
		case a.ErrorMessage != "":
			a.Status = tidemark.Failing
		default:
			a.Status = tidemark.Idle
		}
		if err := s.nextTrigger(ctx, &a); err != nil {
			return all, err
		}
		all = append(all, a)
	}
	return all, nil
}

// nextTrigger finds what of an agent is due first.
func (s *Store) nextTrigger(ctx context.Context, a *tidemark.Agent) error {
	for d, err := range s.Schedules(ctx, a.Name) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if d.Status == tidemark.Disabled || d.NextRunAt.IsZero() {
			continue
		}
		if a.NextTriggerAt.IsZero() || d.NextRunAt.Before(a.NextTriggerAt) {
			a.NextSchedule, a.NextTriggerAt = d.Name, d.NextRunAt
		}
	}
	return nil
}

// ResetAgent forgets the session and the error of an agent: ErrNotFound.
func (s *Store) ResetAgent(ctx context.Context, name string) error {
	return retry(func() error {
		var a tidemark.Agent
		r, err := s.get(ctx, agentKey(name), &a)
		if err != nil {
			return err
		}
		if r.Version == 0 {
			return tidemark.NotFoundf("agent %q: not found", name)
		}
		a.Session, a.ErrorMessage, a.Status = nil, "", tidemark.Idle
		p, err := put(r.Key, r.Version, a)
		if err != nil {
			return err
		}
		p.State = a.Status
		_, err = s.commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		return err
	})
}
