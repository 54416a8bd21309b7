package daemon

import (
	"context"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

const (
	// deliveriesKept is how far back a delivery is known again. Services that
	// call again do so within hours.
	deliveriesKept = 1000
	// claimTries bounds how often somebody else may be quicker.
	claimTries = 50
)

// receive makes a job of what came in, or says why there is none.
func (g *endpoints) receive(ctx context.Context, in fleet.Trigger) (fleet.Triggered, error) {
	if s, ok := g.of.held(tidemark.Schedule{Agent: in.Agent, Name: in.Schedule, By: fleet.ByFile}); ok {
		text := in.Text
		in.Text = func(string) string { return text(s.Prompt) } // the file says it, whatever was written over it
	}
	got, err := g.of.o.Store.Trigger(ctx, g.of.o.Holder, g.of.o.Now(), in)
	switch {
	case err != nil:
	case got.Skipped != "":
		g.of.o.Tell(in.Agent, fmt.Sprintf("schedule %s: what came in is skipped: %s", in.Schedule, got.Skipped))
	case got.New:
		if err := g.of.o.Dispatch.Added(ctx, []tidemark.Job{got.Job}); err != nil {
			g.of.o.Tell(in.Agent, fmt.Sprintf("%s waits: %s", got.Job.ID, err)) // it is kept all the same
		}
	}
	return got, err
}
