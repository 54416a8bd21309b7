package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// A job may wait for an agent that no running daemon has: the agent was removed from
// the file, its name is misspelt, or its daemon is down. After a while such a job is
// abandoned, so that whoever requested it learns why it does not run.

// defaultAbandonAfter is how long a job waits for a daemon that has its agent:
// longer than a machine takes to restart, or a person to correct a file.
const defaultAbandonAfter = 10 * time.Minute

// absent are the agents that jobs wait for and that no daemon has. Daemon.mu guards
// it.
type absent struct {
	elsewhere map[string]bool      // agents of the other daemons that are up
	unsure    bool                 // one of those has not recorded its agents
	since     map[string]time.Time // by agent, when it was first missed
}

// missingAgent returns the error for a job whose agent is not in the file here:
// ErrUnsupported when another daemon may have it, fleet.ErrNobody when none has.
func (d *Daemon) missingAgent(agent string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.absent.unsure || d.absent.elsewhere[agent] {
		return tidemark.Unsupportedf("agent %s is not in the fleet file here", agent)
	}
	if _, ok := d.absent.since[agent]; !ok {
		d.absent.since[agent] = d.o.Now()
	}
	return fmt.Errorf("agent %s: %w", agent, fleet.ErrNobody)
}

// readOtherDaemons reads which agents the other daemons have.
func (d *Daemon) readOtherDaemons(ctx context.Context) error {
	all, err := d.o.Store.Daemons(ctx)
	if err != nil {
		return err
	}
	elsewhere, unsure := make(map[string]bool), false
	for _, other := range all {
		if other.Dead || other.Holder == d.o.Holder {
			continue
		}
		unsure = unsure || other.Agents == nil
		for _, name := range other.Agents {
			elsewhere[name] = true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.absent.elsewhere, d.absent.unsure = elsewhere, unsure
	for _, a := range d.file.Agents {
		delete(d.absent.since, a.Name)
	}
	for name := range d.absent.since {
		if unsure || elsewhere[name] {
			delete(d.absent.since, name)
		}
	}
	return nil
}

// abandon ends jobs that have waited too long for an agent that nobody has.
func (d *Daemon) abandon(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	abandonAfter := d.file.Limits.AbandonAfter
	if abandonAfter == 0 {
		abandonAfter = defaultAbandonAfter
	}
	var missed []string
	for name, since := range d.absent.since {
		if now.Sub(since) >= abandonAfter {
			missed = append(missed, name)
		}
	}
	d.mu.Unlock()
	for _, name := range missed {
		left, err := d.abandonJobs(ctx, name, now.Add(-abandonAfter), abandonAfter)
		if err != nil {
			return err
		}
		if left == 0 {
			d.mu.Lock()
			delete(d.absent.since, name)
			d.mu.Unlock()
		}
	}
	return nil
}

// abandonJobs abandons the jobs of one agent that were due before a time, and
// returns how many others of it still wait.
func (d *Daemon) abandonJobs(ctx context.Context, agent string, before time.Time, abandonAfter time.Duration) (left int, err error) {
	for j, err := range d.o.Store.Jobs(ctx, fleet.JobFilter{Agent: agent, Status: tidemark.JobPending}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return left, err
		}
		if later(j.StartedAt, j.NotBefore).After(before) {
			left++
			continue
		}
		why := fmt.Sprintf("agent %s was in no file of a fleet that is up for %s", agent, abandonAfter)
		switch j, err := d.o.Store.AbandonJob(ctx, j.ID, why); {
		case errors.Is(err, tidemark.ErrConflict), errors.Is(err, tidemark.ErrNotFound): // somebody was quicker
		case err != nil:
			return left, err
		default:
			d.count(j.Status)
			d.o.Tell(agent, fmt.Sprintf("%s is abandoned: %s", j.ID, why))
		}
	}
	return left, nil
}
