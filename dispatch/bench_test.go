package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/dispatch"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// BenchmarkJobs measures how long it takes from one job to the next when there
// is always one that waits and none has anything to do: in memory what handing
// out costs, on PostgreSQL what a fleet sees.
func BenchmarkJobs(b *testing.B) {
	for _, kept := range []string{"memory", "postgres"} {
		b.Run(kept+", in process", func(b *testing.B) { benchmarkJobs(b, kept, 1, false) })
		for _, nodes := range []int{1, 3} {
			b.Run(fmt.Sprintf("%s, river, %d nodes", kept, nodes), func(b *testing.B) { benchmarkJobs(b, kept, nodes, true) })
		}
	}
}

// opener returns what opens the fleet once more.
func opener(b *testing.B, kept string, db *pgtest.Database) func() *fleet.Store {
	if kept == "memory" {
		m := memory.New()
		return func() *fleet.Store { return fleet.Over(store.New(m, nil)) }
	}
	if err := postgres.Migrate(b.Context(), db.Owner, db.Role); err != nil {
		b.Fatal(err)
	}
	return func() *fleet.Store {
		p, err := postgres.Open(b.Context(), db.Server+"&tenant=bench", nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { p.Close() })
		return fleet.Over(store.New(p, nil))
	}
}

// idle is a runner whose agents have nothing to do.
type idle struct{ ended func() }

func (r idle) Run(context.Context, runner.Task) (runner.Outcome, error) {
	r.ended()
	return runner.Outcome{ExitReason: tidemark.ExitSuccess}, nil
}

func benchmarkJobs(b *testing.B, kept string, nodes int, byRiver bool) {
	db := river(b)
	open := opener(b, kept, db)
	s := open()
	f := &file.File{Limits: file.FleetLimits{MaxConcurrent: 8}}
	for i := range 4 {
		f.Agents = append(f.Agents, agent(fmt.Sprint("agent-", i), 4))
	}
	for i := range b.N {
		if _, err := s.AddJob(b.Context(), tidemark.Job{Agent: f.Agents[i%4].Name, Trigger: tidemark.TriggerManual}); err != nil {
			b.Fatal(err)
		}
	}
	var left sync.WaitGroup
	left.Add(b.N)
	ctx, cancel := context.WithCancel(context.Background())
	var up sync.WaitGroup
	b.ResetTimer()
	for i := range nodes {
		s := open()
		o := daemon.Options{Store: s, Holder: tidemark.Holder{Program: "bench", PID: 1, Host: fmt.Sprint("node-", i)}, File: f,
			Runner: func(file.Agent) (runner.Runner, error) { return idle{left.Done}, nil }}
		end := func() error { return nil }
		if byRiver {
			d, err := dispatch.New(ctx, db.Server, tidemark.TenantOf("bench", ""), s, nil)
			if err != nil {
				b.Fatal(err)
			}
			o.Dispatch, end = d, d.Close
		}
		up.Go(func() {
			if err := errors.Join(daemon.New(o).Run(ctx), end()); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	left.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	cancel()
	up.Wait()
}
