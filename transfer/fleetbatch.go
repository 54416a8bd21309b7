package transfer

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// fleetImport is the import of a fleet. New items are collected and committed
// together: a sync for each of thousands of jobs would take a minute. An
// interrupted import has kept whole commits; run again, it finds them and
// continues.
type fleetImport struct {
	*toolImport
	to        *fleet.Store // nil: the store is not there yet, and nothing is written
	from      string
	whole     bool // everything could be read
	agents    map[string]bool
	schedules map[[2]string]bool
	waiting   []pendingItem
	size      int
}

// pendingItem is a new item, and how to keep it if it turns out to exist.
type pendingItem struct {
	fleet.Imported
	result Result
	alone  func(context.Context) (Result, error)
}

const (
	// fleetChunk and fleetBytes bound what is collected for one commit.
	fleetChunk = 512
	fleetBytes = 4 << 20
)

// look reads which agents and schedules exist.
func (g *fleetImport) look(ctx context.Context) error {
	g.agents, g.schedules = map[string]bool{}, map[[2]string]bool{}
	if g.to == nil {
		return nil
	}
	for a, err := range g.to.Agents(ctx) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		g.agents[a.Name] = true
	}
	for d, err := range g.to.Schedules(ctx, "") {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		g.schedules[[2]string{d.Agent, d.Name}] = true
	}
	return nil
}

// agent imports the state of an agent, and its log. An existing one keeps
// its state unless all of it could be read.
func (g *fleetImport) agent(ctx context.Context, a convert.Agent) error {
	isNew := !g.agents[a.Name]
	alone := func(ctx context.Context) (result Result, err error) {
		result = Result{From: g.from, Kind: "agent", Title: a.Name}
		changed := isNew
		if !g.DryRun && (isNew || g.whole) {
			if changed, err = g.to.PutAgent(ctx, a.Agent); err != nil {
				return result, err
			}
		}
		result.Entries, err = g.events(ctx, eventLog{g.to, a.Name, (*fleet.Store).AgentLogLength, (*fleet.Store).AppendAgentLog}, a.Log)
		result.State = stateOf(isNew, changed, result.Entries)
		return result, err
	}
	result := Result{From: g.from, Kind: "agent", Title: a.Name, State: "new"}
	return g.arrive(ctx, isNew, pendingItem{fleet.Imported{Agent: &a.Agent, At: g.clock}, result, alone}, a.Log)
}

func (g *fleetImport) schedule(ctx context.Context, d tidemark.Schedule) error {
	isNew := !g.schedules[[2]string{d.Agent, d.Name}]
	result := Result{From: g.from, Kind: "schedule", Title: d.Agent + "/" + d.Name, State: "new"}
	alone := func(ctx context.Context) (Result, error) {
		changed := isNew
		var err error
		if !g.DryRun {
			changed, err = g.to.PutSchedule(ctx, d)
		}
		result := result
		result.State = stateOf(isNew, changed, 0)
		return result, err
	}
	return g.arrive(ctx, isNew, pendingItem{fleet.Imported{Schedule: &d, At: g.clock}, result, alone}, nil)
}

// job imports a job and its output. A job that waits or runs elsewhere is not
// run here; a later import tells how it ended.
func (g *fleetImport) job(ctx context.Context, j convert.Job) error {
	switch j.Status {
	case tidemark.JobPending:
		j.Status, j.ErrorMessage = tidemark.JobAbandoned, "it waited in "+g.tool.Title+" when it was imported, and is not run here"
	case tidemark.JobRunning:
		j.Status, j.ErrorMessage = tidemark.JobInterrupted, "it was running in "+g.tool.Title+" when it was imported, and does not run here"
	}
	g.setClock(j.FinishedAt, j.StartedAt) // listings show the newest first
	at, isNew := g.clock, true
	if g.to != nil {
		_, err := g.to.Job(ctx, j.ID)
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return g.keepItem(Result{}, err)
		}
		isNew = err != nil
	}
	alone := func(ctx context.Context) (result Result, err error) {
		result = Result{From: g.from, Kind: "job", Title: j.ID}
		g.setClock(at)
		if result.Entries, err = g.events(ctx, eventLog{g.to, j.ID, (*fleet.Store).OutputLength, (*fleet.Store).AppendOutput}, j.Output); err != nil {
			return result, err
		}
		changed := isNew
		if !g.DryRun {
			changed, err = g.to.PutJob(ctx, j.Job)
		}
		result.State = stateOf(isNew, changed, result.Entries)
		return result, err
	}
	result := Result{From: g.from, Kind: "job", Title: j.ID, State: "new"}
	return g.arrive(ctx, isNew, pendingItem{fleet.Imported{Job: &j.Job, At: at}, result, alone}, j.Output)
}

// arrive collects a new item for a common commit. Existing or long items are
// kept at once, after what was collected.
func (g *fleetImport) arrive(ctx context.Context, isNew bool, a pendingItem, events iter.Seq2[tidemark.Event, error]) error {
	size, ok := 0, isNew && !g.DryRun
	if ok {
		var err error
		a.Events, size, ok, err = g.short(events)
		if err != nil {
			return err
		}
	}
	if !ok {
		if err := g.flush(ctx); err != nil {
			return err
		}
		return g.keepItem(a.alone(ctx))
	}
	if j := a.Job; j != nil {
		size += len(j.Prompt) + len(j.Summary) + len(j.Extra)
	}
	a.result.Entries = len(a.Events)
	g.waiting = append(g.waiting, a)
	if g.size += size; len(g.waiting) < fleetChunk && g.size < fleetBytes {
		return nil
	}
	return g.flush(ctx)
}

// short returns the events of a log that is short enough to collect, and
// whether it is.
func (g *fleetImport) short(events iter.Seq2[tidemark.Event, error]) (all []tidemark.Event, size int, ok bool, err error) {
	if events == nil {
		return nil, 0, true, nil
	}
	var skips []error
	for e, err := range events {
		if convert.IsSkip(err) {
			skips = append(skips, err)
			continue
		}
		if err != nil {
			return nil, 0, false, err
		}
		all = append(all, e)
		if size += len(e.Content) + len(e.Input) + len(e.Result) + len(e.Message) + len(e.Extra); len(all) > importChunk || size > fleetBytes {
			return nil, 0, false, nil // skipped events are reported when it is read again
		}
	}
	for _, err := range skips {
		g.skip(err)
	}
	return all, size, true, nil
}

// flush keeps the collected items in one commit. If somebody else imported
// some of them meanwhile, or some exist already, each is kept by itself.
func (g *fleetImport) flush(ctx context.Context) error {
	waiting := g.waiting
	g.waiting, g.size = nil, 0
	if len(waiting) == 0 {
		return nil
	}
	all := make([]fleet.Imported, len(waiting))
	for i, a := range waiting {
		all[i] = a.Imported
	}
	g.setClock(time.Time{})
	err := g.to.Import(ctx, all...)
	for _, a := range waiting {
		switch {
		case err == nil:
			g.keep(a.result)
		case isItem(err) || errors.Is(err, tidemark.ErrExists):
			if err := g.keepItem(a.alone(ctx)); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}
