package fleet_test

import (
	"context"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

// A job is asked for by one process, and run by whichever starts it first.
func ExampleOver() {
	ctx := context.Background()
	sessions := store.New(memory.New(), nil)
	defer sessions.Close()
	jobs := fleet.Over(sessions)
	if _, err := jobs.PutAgent(ctx, tidemark.Agent{Name: "coder", Status: tidemark.Idle}); err != nil {
		fmt.Println(err)
		return
	}
	asked, err := jobs.RequestJob(ctx, fleet.JobRequest{Agent: "coder", Prompt: "Tidy up."})
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := jobs.StartJob(ctx, asked.ID, store.Self("example"), fleet.SlotLimits{Agent: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	end := func(j *tidemark.Job) { j.Status, j.Summary = tidemark.JobCompleted, "It is tidy." }
	if _, err := run.Finish(ctx, end, nil, nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Job().Status, run.Job().Summary)
	// Output: completed It is tidy.
}
