package fleet

import (
	"context"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Imported is an agent, a schedule or a job of another tool, with its output.
// One of the pointers is set.
type Imported struct {
	Agent    *tidemark.Agent
	Schedule *tidemark.Schedule
	Job      *tidemark.Job
	Events   []tidemark.Event // of the agent or the job
	At       time.Time        // when it last changed
}

// Import adds everything in one commit, each with the time at which its tool
// changed it. ErrConflict when any of it is here already.
func (s *Store) Import(ctx context.Context, all ...Imported) error {
	b := tidemark.Batch{ID: tidemark.NewBatchID(), Adopt: true}
	for _, i := range all {
		r, err := s.importedRecord(ctx, i)
		if err != nil {
			return err
		}
		r.UpdatedAt, r.Batch = records.Keepable(i.At), b.ID
		b.Puts = append(b.Puts, r)
		if len(i.Events) == 0 {
			continue
		}
		lines, err := s.eventLines(ctx, r.Key, 0, i.Events)
		if err != nil {
			return err
		}
		lines.At = r.UpdatedAt
		for n := range lines.Lines {
			lines.Lines[n].Batch = b.ID
		}
		b.Appends = append(b.Appends, lines)
	}
	if len(b.Puts) == 0 {
		return nil
	}
	_, err := s.k.Commit(ctx, b)
	return err
}

// importedRecord makes the record of something new, with its secrets masked.
func (s *Store) importedRecord(ctx context.Context, i Imported) (tidemark.Record, error) {
	switch {
	case i.Agent != nil:
		return s.agentRecord(ctx, *i.Agent, 0)
	case i.Schedule != nil:
		d := *i.Schedule
		if err := s.checkSchedule(d); err != nil {
			return tidemark.Record{}, err
		}
		if err := s.vault.Keep(ctx, d.Agent, s.redactSchedule(&d)); err != nil {
			return tidemark.Record{}, err
		}
		return s.scheduleRecord(d, 0)
	}
	return s.importedJobRecord(ctx, *i.Job, 0)
}
