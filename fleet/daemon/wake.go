package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// A fleet goes on by itself with two kinds of sessions: with what its own
// agents asked for while they ran, which it knows by a MAC under its key; and
// with chats of the person whose fleet it is, whose wakes that person granted.
// What anybody else wrote into the store wakes nobody. Schedules that are not in
// its file are known by the same key.

// wokenPrompt is what an agent is told whose timer fired.
const wokenPrompt = "The timer that you set has fired. Go on with what you were at."

// wakeAgents makes jobs of the wakes that agents of this fleet asked for: they
// run as every job does, with the permissions, the environment and the folder
// of their agent.
func (d *Daemon) wakeAgents(ctx context.Context, now time.Time) error {
	if d.o.Key == nil {
		return nil
	}
	due, err := d.o.Store.DueWakes(ctx, now)
	if err != nil {
		return err
	}
	for _, w := range due {
		// When the row says it is due is not signed, and the wake's own time is.
		if _, ok := d.agent(w.Agent); !ok || !d.o.Key.SignedWake(w) || w.At.After(now) {
			continue // that of another fleet, or of nobody, or not yet
		}
		j := tidemark.Job{Agent: w.Agent, Trigger: tidemark.TriggerSchedule, Prompt: wokenPrompt, SessionID: string(w.Session)}
		if d.wentOn(ctx, w) {
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

// wentOn reports whether a session was gone on with since its timer fired: then
// the wake was done, and is here once more because somebody put it back.
func (d *Daemon) wentOn(ctx context.Context, w fleet.Wake) bool {
	for j, err := range d.o.Store.Jobs(ctx, fleet.JobFilter{Agent: w.Agent, Limit: recentJobs}) {
		if err == nil && j.SessionID == string(w.Session) && !j.StartedAt.Before(w.At) {
			return true
		}
	}
	return false
}
