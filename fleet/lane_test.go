package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

// far is a store that is a millisecond away, so that whoever works on it at the
// same time has read before the first of them has written. It counts what is
// undone because two met.
type far struct {
	tidemark.Backend
	met atomic.Int64
}

func (f *far) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	time.Sleep(time.Millisecond)
	return f.Backend.Get(ctx, key)
}

func (f *far) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	time.Sleep(time.Millisecond)
	r, err := f.Backend.Commit(ctx, b)
	if errors.Is(err, tidemark.ErrConflict) {
		f.met.Add(1)
	}
	return r, err
}

func TestJobsOfManyAgentsAreSeldomInEachOthersWay(t *testing.T) {
	const agents, rounds = 300, 3
	for _, c := range []struct {
		name   string
		limits fleet.SlotLimits
		most   float64 // conflicts a job
	}{
		{"without a limit of the fleet", fleet.SlotLimits{Agent: 1}, 0},
		{"with room for all", fleet.SlotLimits{Agent: 1, Fleet: agents}, 2},
		{"with more room than jobs", fleet.SlotLimits{Agent: 1, Fleet: 10 * agents}, 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &far{Backend: memory.New()}
				s := over(f, nil)
				for range rounds {
					var wg sync.WaitGroup
					for i := range agents {
						j := addJob(t, s, fmt.Sprint("agent-", i))
						wg.Go(func() {
							r, err := s.StartJob(t.Context(), j.ID, who("daemon"), c.limits)
							if err == nil {
								_, err = r.Finish(t.Context(), func(j *tidemark.Job) { j.Status = tidemark.JobCompleted },
									func(a *tidemark.Agent, j tidemark.Job) { a.LastJob = j.ID }, nil)
							}
							if err != nil {
								t.Error(err)
							}
						})
					}
					wg.Wait()
				}
				if each := float64(f.met.Load()) / (agents * rounds); each > c.most {
					t.Errorf("%.2f conflicts a job, want at most %.1f", each, c.most)
				}
			})
		})
	}
}

// crew is some daemons on one store, and what is known of their jobs.
type crew struct {
	t       *rapid.T
	backend tidemark.Backend
	dead    map[string]bool
	daemons int
	mu      sync.Mutex
	running map[string]*held // by job
}

type held struct {
	agent, daemon string
	run           *fleet.JobRun
}

func (c *crew) store() *fleet.Store {
	return over(c.backend, &store.Options{Dead: func(h tidemark.Holder) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.dead[h.Program]
	}})
}

func (c *crew) count(agent string) (n int) {
	for _, h := range c.running {
		if agent == "" || h.agent == agent {
			n++
		}
	}
	return n
}

// start lets daemons start jobs at the same time, and holds what was started to
// the limits. One that starts alone is busy only when there is no room.
func (c *crew) start(ctx context.Context, n int, limits fleet.SlotLimits) {
	triggers := []string{tidemark.TriggerManual, tidemark.TriggerSchedule, tidemark.TriggerWebhook, tidemark.TriggerChat, tidemark.TriggerFork, tidemark.TriggerSpawned}
	agents := []string{"a", "b", "c.d"}
	before := map[string]int{"": c.count("")}
	for _, a := range agents {
		before[a] = c.count(a)
	}
	var wg sync.WaitGroup
	started := 0
	var only string
	for range n {
		agent := rapid.SampledFrom(agents).Draw(c.t, "agent")
		daemon := fmt.Sprint("daemon-", c.daemons-rapid.IntRange(0, 1).Draw(c.t, "daemon"))
		only = agent
		s := c.store()
		j, err := s.AddJob(ctx, tidemark.Job{Agent: agent, Trigger: rapid.SampledFrom(triggers).Draw(c.t, "trigger")})
		if err != nil {
			c.t.Fatal(err)
		}
		wg.Go(func() {
			run, err := s.StartJob(ctx, j.ID, who(daemon), limits)
			c.mu.Lock()
			defer c.mu.Unlock()
			if err == nil {
				started++
				c.running[j.ID] = &held{agent, daemon, run}
			} else if !errors.Is(err, fleet.ErrBusy) {
				c.t.Errorf("start: %v", err)
			}
		})
	}
	wg.Wait()
	for of, limit := range map[string]int{"": limits.Fleet, "a": limits.Agent, "b": limits.Agent, "c.d": limits.Agent} {
		if now := c.count(of); limit > 0 && now > max(limit, before[of]) {
			c.t.Fatalf("%d jobs of %q run, %d are allowed, %d ran before", now, of, limit, before[of])
		}
	}
	room := (limits.Fleet == 0 || before[""] < limits.Fleet) && (limits.Agent == 0 || before[only] < limits.Agent)
	if n == 1 && (started == 1) != room {
		c.t.Fatalf("started %d of %q with %v, and before ran %v", started, only, limits, before)
	}
}

// end ends one job that runs, if there is one.
func (c *crew) end(ctx context.Context) {
	for id, h := range c.running {
		if c.dead[h.daemon] {
			continue
		}
		if _, err := h.run.Finish(ctx, func(j *tidemark.Job) { j.Status = tidemark.JobCompleted }, nil, nil); err != nil {
			c.t.Fatal(err)
		}
		delete(c.running, id)
		return
	}
}

// kill ends a daemon. Its jobs run, as far as anybody knows, until a living one
// looks.
func (c *crew) kill(ctx context.Context) {
	c.mu.Lock()
	c.dead[fmt.Sprint("daemon-", c.daemons-1)] = true
	c.daemons++
	c.mu.Unlock()
	ended, err := c.store().Interrupt(ctx, fleet.Gone{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, j := range ended {
		if h := c.running[j.ID]; h == nil || !c.dead[h.daemon] {
			c.t.Fatalf("%s was interrupted, and its daemon lives", j.ID)
		}
		delete(c.running, j.ID)
	}
}

func TestLimitsHoldOverDaemonsForEveryTriggerWhateverIsKilled(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		c := &crew{t: t, backend: memory.New(), dead: map[string]bool{}, daemons: 2, running: map[string]*held{}}
		limits := fleet.SlotLimits{}
		t.Repeat(map[string]func(*rapid.T){
			"limits": func(t *rapid.T) {
				limits = fleet.SlotLimits{Agent: rapid.IntRange(0, 3).Draw(t, "of an agent"), Fleet: rapid.IntRange(0, 4).Draw(t, "of the fleet")}
			},
			"start one":     func(*rapid.T) { c.start(ctx, 1, limits) },
			"start several": func(t *rapid.T) { c.start(ctx, rapid.IntRange(2, 6).Draw(t, "jobs"), limits) },
			"end":           func(*rapid.T) { c.end(ctx) },
			"kill":          func(*rapid.T) { c.kill(ctx) },
			"": func(t *rapid.T) {
				running, err := c.store().Running(ctx, "")
				if err != nil || len(running) != len(c.running) {
					t.Fatalf("%q run, %v; want %d", running, err, len(c.running))
				}
				for _, id := range running {
					of, err := c.store().Running(ctx, c.running[id].agent)
					if err != nil || !slices.Contains(of, id) {
						t.Fatalf("%s is not among %q, %v", id, of, err)
					}
				}
			},
		})
	})
}

func TestJobsOfAnEarlierProgramCountUntilTheyEnd(t *testing.T) {
	b := memory.New()
	s := over(b, &store.Options{Dead: func(h tidemark.Holder) bool { return h.Program == "earlier" }})
	old, next := addJob(t, s, "coder"), addJob(t, s, "writer")
	startJob(t, s, old.ID, "earlier", fleet.SlotLimits{})
	// As the program before lanes left it: in a list of its agent and one of all.
	lane, err := b.Get(t.Context(), tidemark.Key{Kind: "lane", ID: "coder." + old.ID})
	if err != nil {
		t.Fatal(err)
	}
	batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Deletes: []tidemark.Precondition{{Key: lane.Key, Version: lane.Version}}}
	for _, of := range []string{"coder", "-"} {
		r := tidemark.Record{Key: tidemark.Key{Kind: "slots", ID: of}, Version: 1, Body: fmt.Appendf(nil, `{"running":[%q]}`, old.ID)}
		r.Sum = r.Checksum()
		batch.Puts = append(batch.Puts, r)
	}
	if _, err := b.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Running(t.Context(), ""); err != nil || !slices.Equal(a, []string{old.ID}) {
		t.Errorf("running: %q, %v", a, err)
	}
	if _, err := s.StartJob(t.Context(), next.ID, who("new"), fleet.SlotLimits{Fleet: 1}); !errors.Is(err, fleet.ErrBusy) {
		t.Errorf("a start beside it = %v, want ErrBusy", err)
	}
	if _, err := s.StartJob(t.Context(), addJob(t, s, "coder").ID, who("new"), fleet.SlotLimits{Agent: 1}); !errors.Is(err, fleet.ErrBusy) {
		t.Errorf("a start of the same agent = %v, want ErrBusy", err)
	}
	if ended, err := s.Interrupt(t.Context(), fleet.Gone{}); err != nil || len(ended) != 1 || ended[0].ID != old.ID {
		t.Fatalf("interrupted: %v, %v", ended, err)
	}
	startJob(t, s, next.ID, "new", fleet.SlotLimits{Agent: 1, Fleet: 1})
	for _, of := range []string{"coder", "-"} {
		var left struct{ Running []string }
		r, err := b.Get(t.Context(), tidemark.Key{Kind: "slots", ID: of})
		if err := errors.Join(err, json.Unmarshal(r.Body, &left)); err != nil || len(left.Running) != 0 {
			t.Errorf("the list of %s: %s, %v", of, r.Body, err)
		}
	}
}

// counted counts the calls of a Backend.
type counted struct {
	tidemark.Backend
	calls, records int
}

func (c *counted) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	c.calls++
	c.records++
	return c.Backend.Get(ctx, key)
}

func (c *counted) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	c.calls++
	return func(yield func(tidemark.Record, error) bool) {
		for r, err := range c.Backend.List(ctx, q) {
			c.records++
			if !yield(r, err) {
				return
			}
		}
	}
}

func (c *counted) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	c.calls++
	return c.Backend.Commit(ctx, b)
}

func TestOneAgentIsReadAloneHoweverManyThereAre(t *testing.T) {
	type cost struct{ calls, records int }
	work := map[string]func(*fleet.Store) error{
		"Agent": func(s *fleet.Store) error {
			_, err := s.Agent(t.Context(), "agent-7")
			return err
		},
		"OrderJob": func(s *fleet.Store) error {
			_, err := s.RequestJob(t.Context(), fleet.JobRequest{Agent: "agent-7", Prompt: "go", Schedule: "hourly"})
			return err
		},
		"SendMessage": func(s *fleet.Store) error {
			_, err := s.SendMessage(t.Context(), who("ada"), "agent-7", "hello")
			return err
		},
		"ResetAgent": func(s *fleet.Store) error { return s.ResetAgent(t.Context(), "agent-7") },
		"an agent that is not there": func(s *fleet.Store) error {
			if _, err := s.RequestJob(t.Context(), fleet.JobRequest{Agent: "nobody"}); !errors.Is(err, tidemark.ErrNotFound) {
				return fmt.Errorf("order: %v", err)
			}
			return nil
		},
		"StartJob": func(s *fleet.Store) error {
			j, err := s.AddJob(t.Context(), tidemark.Job{Agent: "agent-7", Trigger: tidemark.TriggerManual})
			if err != nil {
				return err
			}
			_, err = s.StartJob(t.Context(), j.ID, who("daemon"), fleet.SlotLimits{Agent: 1, Fleet: 5})
			return err
		},
	}
	costs := map[int]map[string]cost{}
	for _, agents := range []int{10, 1000} {
		c := &counted{Backend: memory.New()}
		s := over(c, nil)
		for i := range agents {
			name := fmt.Sprint("agent-", i)
			_, err := s.PutAgent(t.Context(), tidemark.Agent{Name: name, Status: tidemark.Idle})
			for _, d := range []tidemark.Schedule{{Name: "hourly", Type: "interval", Every: "1h"}, {Name: "mail", Type: "chat"}} {
				d.Agent, d.Status = name, tidemark.Idle
				_, scheduleErr := s.PutSchedule(t.Context(), d)
				err = errors.Join(err, scheduleErr)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		costs[agents] = map[string]cost{}
		for name, do := range work {
			c.calls, c.records = 0, 0
			if err := do(s); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			costs[agents][name] = cost{c.calls, c.records}
		}
		c.calls = 0
		if all, err := s.AgentStates(t.Context()); err != nil || len(all) != agents || c.calls > 6 {
			t.Errorf("%d states of %d agents in %d calls, %v", len(all), agents, c.calls, err)
		}
	}
	for name := range work {
		few, many := costs[10][name], costs[1000][name]
		if many.calls > 16 || many.calls > few.calls+2 || many.records > few.records+4 {
			t.Errorf("%s: %+v of 1,000 agents, %+v of 10", name, many, few)
		}
	}
}
