package transfer

import (
	"context"
	"iter"
	"reflect"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// fleet imports the agents, schedules and jobs of a source.
func (b *toolImport) fleet(ctx context.Context, p convert.Source, from string) error {
	f, err := b.tool.Fleet(ctx, p)
	if err != nil || f == nil {
		return err
	}
	b.setClock()
	for _, skipped := range f.Skipped {
		b.skip(skipped)
	}
	for _, lost := range f.Lost {
		if b.Lost != nil {
			b.Lost(from, lost)
		}
	}
	// What could not be read this time is no reason to forget what exists.
	whole := len(f.Skipped) == 0
	if !b.DryRun && (whole || !reflect.DeepEqual(f.Fleet, tidemark.Fleet{})) {
		if err := fleet.Over(b.s).PutFleet(ctx, f.Fleet); err != nil {
			return err
		}
	}
	g := &fleetImport{toolImport: b, from: from, whole: whole}
	if b.s != nil {
		g.to = fleet.Over(b.s)
	}
	if err := g.look(ctx); err != nil {
		return err
	}
	for _, agent := range f.Agents {
		if err := g.agent(ctx, agent); err != nil {
			return err
		}
	}
	for _, schedule := range f.Schedules {
		if err := g.schedule(ctx, schedule); err != nil {
			return err
		}
	}
	for job, err := range f.Jobs {
		if err == nil {
			err = g.job(ctx, job)
		} else {
			err = b.keepItem(Result{}, err)
		}
		if err != nil {
			return err
		}
		b.progress(len(b.Results), "jobs")
	}
	if err := g.flush(ctx); err != nil {
		return err
	}
	for _, t := range f.Transcripts {
		tool, err := ToolNamed(t.Tool)
		if err != nil {
			return err
		}
		p.Path = t.Path
		if err := b.fromTool(ctx, tool, p, t.Path); err != nil {
			return err
		}
	}
	return nil
}

// keepItem records the outcome of one item; one that could not be imported is
// left out.
func (b *toolImport) keepItem(result Result, err error) error {
	if isItem(err) {
		b.skip(err)
		return nil
	}
	if err == nil {
		b.keep(result)
	}
	return err
}

// stateOf describes the outcome of an item in one word.
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

// eventLog is the log of a job or an agent.
type eventLog struct {
	s      *fleet.Store // nil: nothing is here
	id     string
	length func(*fleet.Store, context.Context, string) (int64, error)
	append func(*fleet.Store, context.Context, string, int64, ...tidemark.Event) error
}

// events adds the new part of a log, and returns how many events that were. A
// log only grows, so its beginning exists already.
func (b *toolImport) events(ctx context.Context, l eventLog, events iter.Seq2[tidemark.Event, error]) (int, error) {
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
		if !b.DryRun {
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
