package main

import (
	"context"
	"errors"
	"iter"
	"reflect"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/store"
)

// fleet brings the agents, schedules and jobs of a place.
func (b *bringer) fleet(ctx context.Context, p convert.Place, from string) error {
	f, err := b.tool.Fleet(ctx, p)
	if err != nil || f == nil {
		return err
	}
	b.setClock()
	for _, skipped := range f.Skipped {
		b.skip(skipped)
	}
	for _, lost := range f.Lost {
		b.say("%s: %s", from, lost)
	}
	// What could not be read this time is no reason to forget what is here.
	whole := len(f.Skipped) == 0
	if !b.dryRun && (whole || !reflect.DeepEqual(f.Fleet, tidemark.Fleet{})) {
		if err := b.s.PutFleet(ctx, f.Fleet); err != nil {
			return err
		}
	}
	for _, agent := range f.Agents {
		if err := b.keep(b.agent(ctx, agent, from, whole)); err != nil {
			return err
		}
	}
	for _, schedule := range f.Schedules {
		if err := b.keep(b.schedule(ctx, schedule, from)); err != nil {
			return err
		}
	}
	for job, err := range f.Jobs {
		row := brought{}
		if err == nil {
			row, err = b.job(ctx, job, from)
		}
		if err := b.keep(row, err); err != nil {
			return err
		}
		b.progress("%d jobs", len(b.rows))
	}
	for _, t := range f.Transcripts {
		tool, err := toolNamed(t.Tool)
		if err != nil {
			return err
		}
		p.Path = t.Path
		if err := b.bringAll(tool, p, t.Path); err != nil {
			return err
		}
	}
	return nil
}

// keep notes what came of one thing; what could not be taken is left out.
func (b *bringer) keep(row brought, err error) error {
	if isItem(err) {
		b.skip(err)
		return nil
	}
	if err == nil {
		b.rows = append(b.rows, row)
	}
	return err
}

// stateOf says in one word what came of a thing.
func stateOf(isNew, changed bool, events int) string {
	switch {
	case isNew:
		return "new"
	case events > 0:
		return "grown"
	case changed:
		return "changed"
	}
	return "known"
}

// agent brings the state of an agent, and what it logged. One that is here
// keeps its state unless the whole of it could be read.
func (b *bringer) agent(ctx context.Context, a convert.Agent, from string, whole bool) (brought, error) {
	row := brought{From: from, Kind: "agent", Title: a.Name}
	isNew := true
	if b.s != nil {
		for have, err := range b.s.Agents(ctx) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return row, err
			}
			isNew = isNew && have.Name != a.Name
		}
	}
	changed := isNew
	var err error
	if !b.dryRun && (isNew || whole) {
		if changed, err = b.s.PutAgent(ctx, a.Agent); err != nil {
			return row, err
		}
	}
	l := eventLog{b.s, a.Name, (*store.Store).AgentLogLength, (*store.Store).AppendAgentLog}
	row.Entries, err = b.events(ctx, l, a.Log)
	row.State = stateOf(isNew, changed, row.Entries)
	return row, err
}

func (b *bringer) schedule(ctx context.Context, d tidemark.Schedule, from string) (brought, error) {
	row := brought{From: from, Kind: "schedule", Title: d.Agent + "/" + d.Name}
	isNew := true
	if b.s != nil {
		for have, err := range b.s.Schedules(ctx, d.Agent) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return row, err
			}
			isNew = isNew && have.Name != d.Name
		}
	}
	changed := isNew
	var err error
	if !b.dryRun {
		changed, err = b.s.PutSchedule(ctx, d)
	}
	row.State = stateOf(isNew, changed, 0)
	return row, err
}

func (b *bringer) job(ctx context.Context, j convert.Job, from string) (brought, error) {
	row := brought{From: from, Kind: "job", Title: j.ID}
	b.setClock(j.FinishedAt, j.StartedAt) // listings have the newest first
	isNew := true
	if b.s != nil {
		_, err := b.s.Job(ctx, j.ID)
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return row, err
		}
		isNew = err != nil
	}
	l := eventLog{b.s, j.ID, (*store.Store).OutputLength, (*store.Store).AppendOutput}
	var err error
	if row.Entries, err = b.events(ctx, l, j.Output); err != nil {
		return row, err
	}
	changed := isNew
	if !b.dryRun {
		changed, err = b.s.PutJob(ctx, j.Job)
	}
	row.State = stateOf(isNew, changed, row.Entries)
	return row, err
}

// eventLog is the log of a job or an agent.
type eventLog struct {
	s      *store.Store
	id     string
	length func(*store.Store, context.Context, string) (int64, error)
	append func(*store.Store, context.Context, string, int64, ...tidemark.Event) error
}

// events adds what of a log is not here yet, and returns how many that were. A
// log only grows, so what comes first is here.
func (b *bringer) events(ctx context.Context, l eventLog, events iter.Seq2[tidemark.Event, error]) (int, error) {
	if events == nil {
		return 0, nil
	}
	known := int64(0)
	if l.s != nil {
		var err error
		if known, err = l.length(l.s, ctx, l.id); err != nil {
			return 0, err
		}
	}
	var pending []tidemark.Event
	n, end, added := int64(0), known, 0
	flush := func() error {
		if len(pending) == 0 {
			return nil
		}
		err := l.append(l.s, ctx, l.id, end, pending...)
		end += int64(len(pending))
		pending = pending[:0]
		return err
	}
	for e, err := range events {
		if convert.IsSkip(err) {
			b.skip(err)
			continue
		}
		if err != nil {
			return added, err
		}
		if n++; n <= known {
			continue
		}
		added++
		if !b.dryRun {
			pending = append(pending, e)
		}
		if len(pending) == importChunk {
			if err := flush(); err != nil {
				return added, err
			}
		}
	}
	return added, flush()
}
