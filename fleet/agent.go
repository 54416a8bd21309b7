package fleet

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// Agents lists the agents by name.
func (s *Store) Agents(ctx context.Context) iter.Seq2[tidemark.Agent, error] {
	return records.List[tidemark.Agent](ctx, s.k, tidemark.Query{Kind: kindAgent, Order: tidemark.ByID})
}

// PutAgent keeps the state of an agent and reports whether it changed anything.
func (s *Store) PutAgent(ctx context.Context, a tidemark.Agent) (bool, error) {
	return s.replace(ctx, agentKey(a.Name), func(version int64) (tidemark.Record, error) { return s.agentRecord(ctx, a, version) })
}

// agentRecord makes the record of an agent, with its secrets masked.
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

func (s *Store) redactAgent(a *tidemark.Agent) vault.Values {
	return s.vault.Redact(a.Name, []*string{&a.ErrorMessage}, &a.Extra)
}

// AgentStates lists the agents with their current state: what runs, what is due
// next, and what they remember. What runs comes from the lanes, which change in
// the same commit as the jobs, so an agent never appears to run when it does not.
//
// It reads the lanes and the schedules of all agents at once, and the running
// jobs.
func (s *Store) AgentStates(ctx context.Context) ([]tidemark.Agent, error) {
	var all []tidemark.Agent
	for a, err := range s.Agents(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify names it
		}
		if err != nil {
			return all, err
		}
		all = append(all, a)
	}
	current, err := s.currentJobs(ctx)
	if err != nil {
		return nil, err
	}
	due, err := s.nextTriggers(ctx, "")
	if err != nil {
		return nil, err
	}
	for i := range all {
		s.fillCurrentState(ctx, &all[i], current[all[i].Name], due[all[i].Name])
	}
	slices.SortStableFunc(all, func(a, b tidemark.Agent) int { return text.Compare(a.Name, b.Name) })
	return all, nil
}

// Agent returns one agent with its current state, without reading the others:
// ErrNotFound.
func (s *Store) Agent(ctx context.Context, name string) (tidemark.Agent, error) {
	a, err := s.AgentRecord(ctx, name)
	if err != nil {
		return tidemark.Agent{}, err
	}
	running, err := s.Running(ctx, name)
	if err != nil {
		return tidemark.Agent{}, err
	}
	due, err := s.nextTriggers(ctx, name)
	if err != nil {
		return tidemark.Agent{}, err
	}
	current := ""
	if len(running) > 0 {
		current = running[len(running)-1]
	}
	s.fillCurrentState(ctx, &a, current, due[name])
	return a, nil
}

// AgentRecord returns what an agent remembers: ErrNotFound. Unlike Agent it does
// not look up what the agent does now.
func (s *Store) AgentRecord(ctx context.Context, name string) (tidemark.Agent, error) {
	var a tidemark.Agent
	if tidemark.CheckID(name) != nil { // no agent can have this name
		return a, tidemark.NotFoundf("agent %q: not found", name)
	}
	r, err := s.k.Get(ctx, agentKey(name), &a)
	if err == nil && r.Version == 0 {
		err = tidemark.NotFoundf("agent %q: not found", name)
	}
	return a, err
}

// fillCurrentState fills in what an agent does now and next.
func (s *Store) fillCurrentState(ctx context.Context, a *tidemark.Agent, current string, due tidemark.Schedule) {
	a.CurrentJob, a.ContainerID, a.Node, a.NextSchedule, a.NextTriggerAt = current, "", "", due.Name, due.NextRunAt
	switch {
	case current != "":
		a.Status = tidemark.Running
		if j, err := s.Job(ctx, current); err == nil {
			a.ContainerID, a.Node = j.ContainerID, j.Node
		}
	case a.ErrorMessage != "":
		a.Status = tidemark.Failing
	default:
		a.Status = tidemark.Idle
	}
}

// currentJobs returns, for each agent, the running job that started last.
func (s *Store) currentJobs(ctx context.Context) (map[string]string, error) {
	current := make(map[string]string)
	legacy, err := s.legacyRunning(ctx, fleetGroup)
	if err != nil {
		return nil, err
	}
	for _, id := range legacy {
		if j, err := s.Job(ctx, id); err == nil {
			current[j.Agent] = id
		}
	}
	all, err := s.lanes(ctx, "")
	for _, t := range all {
		if t.job != "" && t.group != fleetGroup {
			current[t.group] = t.job
		}
	}
	return current, err
}

// nextTriggers returns the schedule that is due first, by agent: for one agent,
// or for all when agent is "".
func (s *Store) nextTriggers(ctx context.Context, agent string) (map[string]tidemark.Schedule, error) {
	first := make(map[string]tidemark.Schedule)
	for d, err := range s.Schedules(ctx, agent) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if d.Status == tidemark.Disabled || d.NextRunAt.IsZero() {
			continue
		}
		if have, ok := first[d.Agent]; !ok || d.NextRunAt.Before(have.NextRunAt) {
			first[d.Agent] = d
		}
	}
	return first, nil
}

// ResetAgent forgets the session and the error of an agent: ErrNotFound.
func (s *Store) ResetAgent(ctx context.Context, name string) error {
	return records.Retry(ctx, func() error {
		var a tidemark.Agent
		r, err := s.k.Get(ctx, agentKey(name), &a)
		if err != nil {
			return err
		}
		if r.Version == 0 {
			return tidemark.NotFoundf("agent %q: not found", name)
		}
		a.Session, a.ErrorMessage, a.FailedJob, a.Status = nil, "", "", tidemark.Idle
		p, err := records.Put(r.Key, r.Version, a)
		if err != nil {
			return err
		}
		p.State = a.Status
		_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{p}})
		return err
	})
}
