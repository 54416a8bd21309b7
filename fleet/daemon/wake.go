package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// A fleet wakes two kinds of sessions: those of its own agents, which set a timer
// while they ran and whose wakes have a MAC under the fleet's key; and chats of the
// fleet's owner, who granted that they be woken. Anything else in the store wakes
// nobody. Schedules that are not in the file have a MAC under the same key.

// wokenPrompt is the prompt for an agent whose timer fired.
const wokenPrompt = "The timer that you set has fired. Go on with what you were at."

// wakeAgents creates jobs for the due wakes of this fleet's agents. They run like
// any other job, with the permissions, the environment and the folder of their
// agent.
func (d *Daemon) wakeAgents(ctx context.Context, now time.Time) error {
	if d.o.Key == nil {
		return nil
	}
	due, err := d.o.Store.DueWakes(ctx, now)
	if err != nil {
		return err
	}
	for _, w := range due {
		// The record's Due is not signed, so the wake's own time is checked as well.
		if _, ok := d.agent(w.Agent); !ok || !d.o.Key.SignedWake(w) || w.At.After(now) {
			continue // from another fleet, forged, or not due yet
		}
		j := tidemark.Job{Agent: w.Agent, Trigger: tidemark.TriggerSchedule, Prompt: wokenPrompt, SessionID: string(w.Session)}
		if d.continuedSince(ctx, w) {
			j = tidemark.Job{}
		}
		j, err := d.o.Store.TakeWake(ctx, w, j)
		switch {
		case errors.Is(err, tidemark.ErrConflict):
			continue // another daemon was quicker
		case err != nil:
			return err
		case j.Agent == "":
			continue
		}
		d.o.Tell(w.Agent, fmt.Sprintf("session %.8s is woken as %s", w.Session, j.ID))
		if err := d.o.Dispatch.Added(ctx, []tidemark.Job{j}); err != nil {
			return err
		}
	}
	return nil
}

// continuedSince reports whether a job has continued the session since its timer
// fired. Then the wake is already done, and somebody has put its record back.
func (d *Daemon) continuedSince(ctx context.Context, w fleet.Wake) bool {
	for j, err := range d.o.Store.Jobs(ctx, fleet.JobFilter{Agent: w.Agent, Limit: recentJobs}) {
		if err == nil && j.SessionID == string(w.Session) && !j.StartedAt.Before(w.At) {
			return true
		}
	}
	return false
}
