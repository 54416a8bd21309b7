package chat

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/rewind"
)

// caller says which call changes a file.
type caller struct{ call, worker string }

type callerKey struct{}

func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Keep keeps what a file was before a tool changes it, and what it becomes.
func (f *sessionFiles) Keep(ctx context.Context, root, name string, look func(most int64) (durable.FileState, error), to durable.FileState) error {
	c := f.c
	most := cmp.Or(c.o.SnapshotFile, store.DefaultSnapshotFile)
	now, err := look(most)
	if err != nil {
		return err
	}
	by, _ := ctx.Value(callerKey{}).(caller)
	change := tidemark.FileChange{Path: name, Before: rewind.Version(now), After: rewind.Version(to)}
	if change.After.Size > most {
		change.After.Lost = fmt.Sprintf("it has %d bytes, and at most %d are kept", change.After.Size, most)
	}
	if root != c.o.Root {
		// It is not put back, so nothing of it is kept.
		change.Before.Lost, change.After.Lost = notOfProject, notOfProject
	}
	kept, err := c.writer().KeepSnapshot(context.WithoutCancel(ctx), tidemark.Snapshot{Root: root, Call: by.call, Worker: by.worker, Files: []tidemark.FileChange{change}}, c.o.SnapshotSession)
	if err != nil {
		return err
	}
	c.emit(Event{Kept: &kept})
	if s, ok := tidemark.SnapshotOf(kept); ok && s.Files[0].Before.Lost != "" {
		c.emit(Event{Worker: by.worker, Notice: fmt.Sprintf("What %s was is not kept, and cannot be brought back: %s.", name, s.Files[0].Before.Lost)})
	}
	return nil
}

const notOfProject = "it is outside of the project"

// LookBack finds out what it would take to put the files of the project back to
// what they were when an entry was the newest. ErrNotFound: nothing was said yet.
// The caller closes the plan.
func (c *Chat) LookBack(ctx context.Context, seq int64) (*rewind.Plan, error) {
	if c.o.Root == "" {
		return nil, tidemark.Errorf(tidemark.ErrUnsupported, "this session has no project")
	}
	v, err := c.View(ctx)
	if err != nil {
		return nil, err
	}
	return rewind.Look(ctx, v, c.o.Root, seq)
}

// PutBack carries out a plan of LookBack between two turns; with force also over
// what somebody else made of a file, which is ErrConflict otherwise.
func (c *Chat) PutBack(ctx context.Context, p *rewind.Plan, force bool) error {
	c.main.turning.Lock()
	defer c.main.turning.Unlock()
	return p.Apply(ctx, c.writer(), &rewind.Options{Force: force, FileBytes: c.o.SnapshotFile, SessionBytes: c.o.SnapshotSession})
}
