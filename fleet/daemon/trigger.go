package daemon

import (
	"context"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

const (
	// deliveriesKept is how many of an agent's newest jobs are searched for the
	// same delivery. Services repeat a call within hours.
	deliveriesKept = 1000
	// claimTries bounds how often an append that conflicts is tried.
	claimTries = 50
)

// receive creates a job for a trigger, or returns why there is none.
func (g *endpoints) receive(ctx context.Context, in fleet.Trigger) (fleet.Triggered, error) {
	if s, ok := g.of.trusted(tidemark.Schedule{Agent: in.Agent, Name: in.Schedule, By: fleet.ByFile}); ok {
		text := in.Text
		in.Text = func(string) string { return text(s.Prompt) } // the prompt of the file, whatever the store has
	}
	got, err := g.of.o.Store.Trigger(ctx, g.of.o.Holder, g.of.o.Now(), in)
	switch {
	case err != nil:
	case got.Skipped != "":
		g.of.o.Tell(in.Agent, fmt.Sprintf("schedule %s: what came in is skipped: %s", in.Schedule, got.Skipped))
	case got.New:
		if err := g.of.o.Dispatch.Added(ctx, []tidemark.Job{got.Job}); err != nil {
			g.of.o.Tell(in.Agent, fmt.Sprintf("%s waits: %s", got.Job.ID, err)) // the job is kept nevertheless
		}
	}
	return got, err
}
