package fleet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestWhatIsImportedComesWholeAndAtItsOwnTime(t *testing.T) {
	s := over(memory.New(), nil)
	day := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	job := func(id string, at time.Time) fleet.Imported {
		return fleet.Imported{Job: &tidemark.Job{ID: id, Agent: "ops.a", Status: tidemark.JobCompleted, StartedAt: at}, At: at,
			Events: []tidemark.Event{{Type: tidemark.EventSystem, Content: id, Timestamp: at}}}
	}
	first := []fleet.Imported{job("job-2", day(2)), job("job-1", day(1)), job("job-3", day(3)),
		{Agent: &tidemark.Agent{Name: "ops.a", Status: tidemark.Idle}, At: day(4)}, {Schedule: &tidemark.Schedule{Agent: "ops.a", Name: "s", Status: tidemark.Idle}, At: day(4)}}
	if err := s.Import(t.Context(), first...); err != nil {
		t.Fatal(err)
	}
	var order string
	for j, err := range s.Jobs(t.Context(), fleet.JobFilter{Agent: "ops.a"}) {
		if err != nil {
			t.Fatal(err)
		}
		order += j.ID + " "
		for e, err := range s.Output(t.Context(), j.ID) {
			if err != nil || e.Content != j.ID {
				t.Errorf("%+v, %v", e, err)
			}
		}
	}
	if order != "job-3 job-2 job-1 " {
		t.Errorf("jobs in the order %s", order)
	}
	if _, err := s.Schedule(t.Context(), "ops.a", "s"); err != nil {
		t.Error(err)
	}
	if err := s.Import(t.Context(), job("job-4", day(4)), job("job-1", day(1))); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("Import of what is here = %v, want ErrConflict", err)
	}
	if _, err := s.Job(t.Context(), "job-4"); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("half of an import was kept: %v", err)
	}
	if err := s.Import(t.Context(), fleet.Imported{Job: &tidemark.Job{ID: "../x"}, At: day(1)}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("Import of a bad name = %v", err)
	}
}

func TestAnImportMayBeTheFirstThingInAStore(t *testing.T) {
	s := store.New(memory.New(), nil)
	if err := fleet.Over(s).Import(t.Context(), fleet.Imported{Agent: &tidemark.Agent{Name: "a"}, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Standing(t.Context()); err != nil {
		t.Error(err)
	}
}
