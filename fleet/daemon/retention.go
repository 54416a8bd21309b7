package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

// retainEvery is how often old jobs are removed. That is not urgent, and each time all
// jobs of an agent are read.
const retainEvery = time.Hour

// retain removes jobs that have ended and that the file's keep setting does not keep.
// Jobs of agents that are not in the file are left alone.
func (d *Daemon) retain(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	agents := d.file.Agents
	d.mu.Unlock()
	var errs []error
	for _, a := range agents {
		if a.Keep == (file.Keep{}) {
			continue
		}
		n, err := d.retainAgent(ctx, a, now)
		if n > 0 {
			d.o.Tell(a.Name, fmt.Sprintf("%d jobs that are not to be kept were removed", n))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("agent %s: keep: %w", a.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (d *Daemon) retainAgent(ctx context.Context, a file.Agent, now time.Time) (removed int, err error) {
	var old []string
	ended := 0
	for j, err := range d.o.Store.Jobs(ctx, fleet.JobFilter{Agent: a.Name}) { // the most recently changed first
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return 0, err
		}
		if j.Status == tidemark.JobPending || j.Status == tidemark.JobRunning {
			continue
		}
		ended++
		at := j.FinishedAt
		if at.IsZero() {
			at = j.StartedAt
		}
		if a.Keep.Jobs > 0 && ended > a.Keep.Jobs || a.Keep.Days > 0 && now.Sub(at) > time.Duration(a.Keep.Days)*24*time.Hour {
			old = append(old, j.ID)
		}
	}
	for _, id := range old {
		switch err := d.o.Store.RemoveJob(ctx, id); {
		case errors.Is(err, tidemark.ErrNotFound), errors.Is(err, tidemark.ErrConflict): // another daemon was quicker
		case err != nil:
			return removed, err
		default:
			removed++
		}
	}
	return removed, nil
}
