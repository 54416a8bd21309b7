package fleet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

// over is the fleet of a store over b.
func over(b tidemark.Backend, o *store.Options) *fleet.Store { return fleet.Over(store.New(b, o)) }

func open(*testing.T) *fleet.Store {
	return over(memory.New(), &store.Options{Dead: func(h tidemark.Holder) bool { return h.Program == "dead" }})
}

func who(name string) tidemark.Holder { return tidemark.Holder{Program: name, PID: 1, Host: "here"} }

func same(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func wants(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestAFleetComesBackAsItWasKept(t *testing.T) {
	s := open(t)
	at := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	agent := tidemark.Agent{Name: "ops.auditor", Status: tidemark.Idle, LastJob: "job-2026-11-15-abc123",
		Session: &tidemark.AgentSession{ID: "s1", CreatedAt: at, LastUsedAt: at, Jobs: 3, RunMode: "autonomous"}}
	schedule := tidemark.Schedule{Agent: "ops.auditor", Name: "every day, at noon", Status: tidemark.Idle, Cron: "0 12 * * *", NextRunAt: at}
	job := tidemark.Job{ID: "job-2026-11-15-abc123", Agent: "ops.auditor", Trigger: tidemark.TriggerManual, Status: tidemark.JobRunning, StartedAt: at}
	for i, want := range []bool{true, false} { // the same again changes nothing
		a, err1 := s.PutAgent(t.Context(), agent)
		d, err2 := s.PutSchedule(t.Context(), schedule)
		j, err3 := s.PutJob(t.Context(), job)
		if err := errors.Join(err1, err2, err3, s.PutFleet(t.Context(), tidemark.Fleet{StartedAt: at})); err != nil {
			t.Fatal(err)
		}
		if a != want || d != want || j != want {
			t.Errorf("round %d: changed %v %v %v, want %v", i, a, d, j, want)
		}
	}
	for got, err := range s.Agents(t.Context()) {
		if d := cmp.Diff(agent, got); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	for got, err := range s.Schedules(t.Context(), "ops.auditor") {
		if d := cmp.Diff(schedule, got); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	job.Status, job.ExitReason, job.FinishedAt = tidemark.JobCompleted, tidemark.ExitSuccess, at.Add(time.Minute)
	if changed, err := s.PutJob(t.Context(), job); !changed || err != nil {
		t.Errorf("PutJob = %v, %v", changed, err)
	}
	n := 0
	for got, err := range s.Jobs(t.Context(), fleet.JobFilter{Agent: "ops.auditor", Status: tidemark.JobCompleted}) {
		n++
		if d := cmp.Diff(job, got); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	if n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
	said := tidemark.Event{Type: tidemark.EventAssistant, Content: "done", Timestamp: at}
	if err := s.AppendOutput(t.Context(), job.ID, 0, said); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendOutput(t.Context(), job.ID, 0, said); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("the same output twice: %v, want ErrConflict", err)
	}
	for got, err := range s.Output(t.Context(), job.ID) {
		if d := cmp.Diff(said, got); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	if _, err := s.PutAgent(t.Context(), tidemark.Agent{Name: "../x"}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("PutAgent = %v, want ErrInvalid", err)
	}
	if _, err := s.PutJob(t.Context(), tidemark.Job{ID: "a/b"}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("PutJob = %v, want ErrInvalid", err)
	}
	if err := s.AppendOutput(t.Context(), job.ID, 1, tidemark.Event{Type: "other"}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("an event of no type = %v, want ErrInvalid", err)
	}
}
