package fleet_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

func addJob(t *testing.T, s *fleet.Store, agent string) tidemark.Job {
	t.Helper()
	j, err := s.AddJob(t.Context(), tidemark.Job{Agent: agent, Trigger: tidemark.TriggerManual, Prompt: "go"})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func startJob(t *testing.T, s *fleet.Store, id, name string, limits fleet.SlotLimits) *fleet.JobRun {
	t.Helper()
	r, err := s.StartJob(t.Context(), id, who(name), limits)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func statusOf(t *testing.T, s *fleet.Store, id string) tidemark.Job {
	t.Helper()
	j, err := s.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestAJobRunsOnceAndSaysHowItEnded(t *testing.T) {
	s := open(t)
	j := addJob(t, s, "coder")
	if due, err := s.DueJobs(t.Context(), time.Now(), 0); err != nil || len(due) != 1 {
		t.Fatalf("DueJobs = %v, %v", due, err)
	}
	r := startJob(t, s, j.ID, "daemon", fleet.SlotLimits{})
	if _, err := s.StartJob(t.Context(), j.ID, who("another"), fleet.SlotLimits{}); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("a second start = %v, want ErrConflict", err)
	}
	at := time.Now().UTC().Truncate(time.Microsecond)
	said := tidemark.Event{Type: tidemark.EventAssistant, Content: "hello", Timestamp: at}
	err := errors.Join(r.Emit(t.Context(), said), r.Note(t.Context(), func(j *tidemark.Job) { j.SessionID = "s1" }), r.Emit(t.Context(), said))
	if err != nil {
		t.Fatal(err)
	}
	if got := statusOf(t, s, j.ID); got.Status != tidemark.JobRunning || got.SessionID != "s1" {
		t.Errorf("while it runs: %+v", got)
	}
	next, err := r.Finish(t.Context(), func(j *tidemark.Job) { j.Status, j.ExitReason = tidemark.JobCompleted, tidemark.ExitSuccess },
		func(a *tidemark.Agent, j tidemark.Job) { a.LastJob = j.ID }, &tidemark.Job{Agent: "coder", Prompt: "and then"})
	if err != nil || statusOf(t, s, next.ID).Status != tidemark.JobPending {
		t.Fatalf("%+v, %v", next, err)
	}
	got := statusOf(t, s, j.ID)
	if got.Status != tidemark.JobCompleted || got.FinishedAt.IsZero() || got.Attempt != 1 {
		t.Errorf("after: %+v", got)
	}
	for a, err := range s.Agents(t.Context()) {
		if err != nil || a.LastJob != j.ID {
			t.Errorf("agent %+v, %v", a, err)
		}
	}
	if running, err := s.Running(t.Context(), ""); err != nil || len(running) != 0 {
		t.Errorf("still running: %v, %v", running, err)
	}
	n := 0
	for e, err := range s.Output(t.Context(), j.ID) {
		if n++; err != nil || cmp.Diff(said, e) != "" {
			t.Error(e, err)
		}
	}
	if n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	if err := r.Emit(t.Context(), said); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("output after the end = %v, want ErrConflict", err)
	}
}

func TestLimitsHoldForEveryTriggerAndOverAllProcesses(t *testing.T) {
	b := memory.New()
	var ids []string
	for range 40 {
		ids = append(ids, addJob(t, over(b, nil), []string{"coder", "writer"}[len(ids)%2]).ID)
	}
	limits := fleet.SlotLimits{Agent: 3, Fleet: 5}
	var mu sync.Mutex
	var started []string
	var wg sync.WaitGroup
	for i := range 4 { // daemons
		wg.Go(func() {
			s := over(b, nil)
			for _, id := range ids {
				r, err := s.StartJob(context.Background(), id, who("daemon "+string(rune('a'+i))), limits)
				switch {
				case err == nil:
					mu.Lock()
					started = append(started, r.Job().Agent)
					mu.Unlock()
				case !errors.Is(err, fleet.ErrBusy) && !errors.Is(err, tidemark.ErrConflict) && !errors.Is(err, tidemark.ErrHeld):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	count := map[string]int{}
	for _, agent := range started {
		count[agent]++
	}
	if len(started) != 5 || count["coder"] > 3 || count["writer"] > 3 {
		t.Errorf("started %v, want 5 in all and at most 3 of an agent", count)
	}
}

func TestAJobWhoseOwnerDiedIsInterruptedAndItsSlotIsFree(t *testing.T) {
	s := open(t)
	limits := fleet.SlotLimits{Agent: 1}
	dead, alive := addJob(t, s, "coder"), addJob(t, s, "writer")
	r := startJob(t, s, dead.ID, "dead", limits)
	if err := r.Note(t.Context(), func(j *tidemark.Job) { j.SessionID = "s1" }); err != nil {
		t.Fatal(err)
	}
	startJob(t, s, alive.ID, "daemon", limits)
	waiting := addJob(t, s, "coder")
	if _, err := s.StartJob(t.Context(), waiting.ID, who("daemon"), limits); !errors.Is(err, fleet.ErrBusy) {
		t.Errorf("StartJob = %v, want ErrBusy", err)
	}
	ended, err := s.Interrupt(t.Context(), fleet.Gone{})
	if err != nil || len(ended) != 1 || ended[0].ID != dead.ID {
		t.Fatalf("Interrupt = %v, %v", ended, err)
	}
	got := statusOf(t, s, dead.ID)
	if got.Status != tidemark.JobInterrupted || got.ExitReason != tidemark.ExitInterrupt || got.SessionID != "s1" || got.FinishedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	if err := r.Emit(t.Context(), tidemark.Event{Type: tidemark.EventSystem}); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("the dead one still writes: %v", err)
	}
	startJob(t, s, waiting.ID, "daemon", limits)
	if again, err := s.Interrupt(t.Context(), fleet.Gone{}); err != nil || len(again) != 0 {
		t.Errorf("Interrupt again = %v, %v", again, err)
	}
}

func TestAJobCanBeCancelledFromAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		waiting, running := addJob(t, s, "coder"), addJob(t, s, "coder")
		if ended, err := s.CancelJob(t.Context(), waiting.ID, who("me")); err != nil || !ended {
			t.Errorf("a waiting one: %v, %v", ended, err)
		}
		if got := statusOf(t, s, waiting.ID); got.Status != tidemark.JobCancelled {
			t.Errorf("%+v", got)
		}
		r := startJob(t, s, running.ID, "daemon", fleet.SlotLimits{})
		asked := make(chan tidemark.Holder, 1)
		ctx, stop := context.WithCancel(t.Context())
		go r.KeepAlive(ctx, func(by tidemark.Holder) { asked <- by })
		synctest.Wait()
		if ended, err := s.CancelJob(t.Context(), running.ID, who("me")); err != nil || ended {
			t.Errorf("a running one: %v, %v", ended, err)
		}
		if by := <-asked; by.Program != "me" {
			t.Errorf("asked by %v", by)
		}
		stop()
		if _, err := r.Finish(t.Context(), func(j *tidemark.Job) { j.Status = tidemark.JobCancelled }, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CancelJob(t.Context(), running.ID, who("me")); !errors.Is(err, tidemark.ErrConflict) {
			t.Errorf("one that ended: %v", err)
		}
	})
}

func TestAJobThatCameInAsRunningCanBeCancelled(t *testing.T) {
	s := open(t)
	if _, err := s.PutJob(t.Context(), tidemark.Job{ID: "job-2026-11-15-hawlp2", Agent: "auditor", Status: tidemark.JobRunning}); err != nil {
		t.Fatal(err)
	}
	if ended, err := s.CancelJob(t.Context(), "job-2026-11-15-hawlp2", who("me")); err != nil || !ended {
		t.Errorf("CancelJob = %v, %v", ended, err)
	}
	if got := statusOf(t, s, "job-2026-11-15-hawlp2"); got.Status != tidemark.JobCancelled || got.FinishedAt.IsZero() {
		t.Errorf("%+v", got)
	}
}

func TestAnOccurrenceIsTakenOnce(t *testing.T) {
	b := memory.New()
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	s := over(b, nil)
	if _, err := s.PutSchedule(t.Context(), tidemark.Schedule{Agent: "coder", Name: "noon", Status: tidemark.Idle, NextRunAt: at}); err != nil {
		t.Fatal(err)
	}
	if due, err := s.DueSchedules(t.Context(), at.Add(-time.Second)); err != nil || len(due) != 0 {
		t.Errorf("too early: %v, %v", due, err)
	}
	if due, err := s.DueSchedules(t.Context(), at); err != nil || len(due) != 1 {
		t.Errorf("in time: %v, %v", due, err)
	}
	was, err := s.Schedule(t.Context(), "coder", "noon")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	won := make(chan []tidemark.Job, 8)
	for range 8 {
		wg.Go(func() {
			jobs, err := over(b, nil).ClaimOccurrence(context.Background(), fleet.Occurrence{Of: was,
				Jobs: []tidemark.Job{{Trigger: tidemark.TriggerSchedule, Occurrence: at}}, Next: at.Add(24 * time.Hour),
				Skipped: []fleet.Skipped{{Instant: at.Add(-time.Hour), Count: 1, Reason: "the daemon was down"}}})
			if err == nil {
				won <- jobs
			} else if !errors.Is(err, tidemark.ErrExists) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d daemons took it", len(won))
	}
	jobs := <-won
	if len(jobs) != 1 || jobs[0].Schedule != "noon" || !jobs[0].Occurrence.Equal(at) {
		t.Errorf("%+v", jobs)
	}
	n := 0
	for range s.Jobs(t.Context(), fleet.JobFilter{}) {
		n++
	}
	skips, err := s.Skips(t.Context(), "coder", "noon", 10)
	if err != nil || n != 1 || len(skips) != 1 || skips[0].Reason != "the daemon was down" {
		t.Errorf("%d jobs, skips %v, %v", n, skips, err)
	}
	d, err := s.Schedule(t.Context(), "coder", "noon")
	if err != nil || !d.NextRunAt.Equal(at.Add(24*time.Hour)) || !d.LastRunAt.Equal(at) {
		t.Errorf("%+v, %v", d, err)
	}
	if err := s.RemoveSchedule(t.Context(), "coder", "noon"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Schedule(t.Context(), "coder", "noon"); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("after RemoveSchedule: %v", err)
	}
}

func TestWhoRunsAJobHoldsNoSession(t *testing.T) {
	sessions := store.New(memory.New(), nil)
	s := fleet.Over(sessions)
	j := addJob(t, s, "coder")
	startJob(t, s, j.ID, "daemon", fleet.SlotLimits{})
	if l, err := s.JobLease(t.Context(), j.ID); err != nil || !l.Held || l.Holder.Program != "daemon" {
		t.Errorf("JobLease = %+v, %v", l, err)
	}
	for l, err := range sessions.Leases(t.Context()) {
		t.Errorf("Leases has %+v, %v", l, err)
	}
	w := sessions.Create(tidemark.Session{}, who("chat"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "hello")); err != nil {
		t.Fatal(err)
	}
	var held []tidemark.SessionID
	for l, err := range sessions.Leases(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l.Session())
	}
	same(t, held, []tidemark.SessionID{w.ID()})
}
