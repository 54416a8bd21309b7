package fleet_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestAnOrderBecomesAJob(t *testing.T) {
	s := open(t)
	if _, err := s.PutAgent(t.Context(), tidemark.Agent{Name: "coder", Status: tidemark.Idle}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutSchedule(t.Context(), tidemark.Schedule{Agent: "coder", Name: "nightly", Prompt: "Tidy up."}); err != nil {
		t.Fatal(err)
	}
	id := tidemark.NewSessionID()
	for name, c := range map[string]struct {
		order fleet.JobRequest
		want  tidemark.Job
	}{
		"a prompt":   {fleet.JobRequest{Agent: "coder", Prompt: "Fix it."}, tidemark.Job{Trigger: tidemark.TriggerManual, Prompt: "Fix it."}},
		"a schedule": {fleet.JobRequest{Agent: "coder", Schedule: "nightly"}, tidemark.Job{Trigger: tidemark.TriggerManual, Schedule: "nightly", Prompt: "Tidy up."}},
		"a session":  {fleet.JobRequest{Agent: "coder", Resume: id}, tidemark.Job{Trigger: tidemark.TriggerManual, SessionID: string(id)}},
		"a copy":     {fleet.JobRequest{Agent: "coder", Fork: id}, tidemark.Job{Trigger: tidemark.TriggerFork, SessionID: string(id), ForkedFrom: string(id)}},
		"a point":    {fleet.JobRequest{Agent: "coder", Resume: id, Entry: 7}, tidemark.Job{Trigger: tidemark.TriggerManual, SessionID: string(id)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.RequestJob(t.Context(), c.order)
			if err != nil {
				t.Fatal(err)
			}
			same(t, [...]string{got.Agent, got.Status, got.Trigger, got.Schedule, got.Prompt, got.SessionID, got.ForkedFrom},
				[...]string{"coder", tidemark.JobPending, c.want.Trigger, c.want.Schedule, c.want.Prompt, c.want.SessionID, c.want.ForkedFrom})
			var named *tidemark.Resume
			if got.SessionID != "" {
				named = &tidemark.Resume{Session: got.SessionID, Entry: c.order.Entry, Fork: c.order.Fork != ""}
			}
			same(t, got.Resume, named)
			again, err := s.RepeatJob(t.Context(), got.ID, "", true)
			if err != nil {
				t.Fatal(err)
			}
			if named != nil {
				named.Fork = true
			}
			same(t, again.Resume, named)
			same(t, [...]string{again.Prompt, again.Trigger, again.ForkedFrom}, [...]string{got.Prompt, tidemark.TriggerFork, got.ID})
		})
	}
	_, err := s.RequestJob(t.Context(), fleet.JobRequest{Agent: "nobody"})
	wants(t, err, tidemark.ErrNotFound)
	_, err = s.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder", Schedule: "never"})
	wants(t, err, tidemark.ErrNotFound)
	_, err = s.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder", Resume: id, Fork: id})
	wants(t, err, tidemark.ErrInvalid)
}

func TestJobsAreListedPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		var all []string
		for range 7 {
			all = append([]string{addJob(t, s, "coder").ID}, all...)
			time.Sleep(time.Second)
		}
		var got []string
		var at fleet.Mark
		for pages := 0; pages < 10; pages++ {
			for j, err := range s.JobsAfter(t.Context(), fleet.JobFilter{Agent: "coder", Limit: 3}, at) {
				if err != nil {
					t.Fatal(err)
				}
				got, at = append(got, j.ID), j.Mark
			}
		}
		same(t, got, all)
		// All of them, also the one that changed last, in the same order.
		run := startJob(t, s, all[4], "owner", fleet.SlotLimits{})
		if _, err := run.Finish(t.Context(), func(j *tidemark.Job) { j.Status = tidemark.JobCompleted }, nil, nil); err != nil {
			t.Fatal(err)
		}
		want := append([]string{all[4]}, slices.Delete(slices.Clone(all), 4, 5)...)
		for _, list := range []iter.Seq2[tidemark.Job, error]{s.AllJobs(t.Context()), s.Jobs(t.Context(), fleet.JobFilter{}), s.Jobs(t.Context(), fleet.JobFilter{Agent: "coder"})} {
			got = nil
			for j, err := range list {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, j.ID)
			}
			same(t, got, want)
		}
	})
}

// follow gathers what a job puts out, until nothing follows.
func follow(t *testing.T, s *fleet.Store, id string, after int64) <-chan []string {
	done := make(chan []string, 1)
	go func() {
		var got []string
		for e, err := range s.FollowOutput(t.Context(), id, after) {
			if err != nil {
				got = append(got, err.Error())
				break
			}
			got = append(got, e.Content)
		}
		done <- got
	}()
	return done
}

func TestAFollowerOfOutputSeesAllOfItAndTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		j := addJob(t, s, "coder")
		all := follow(t, s, j.ID, 0)
		run := startJob(t, s, j.ID, "owner", fleet.SlotLimits{})
		say := func(text string) {
			if err := run.Emit(t.Context(), tidemark.Event{Type: tidemark.EventSystem, Content: text, Timestamp: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		say("one")
		time.Sleep(time.Second)
		rest := follow(t, s, j.ID, 1)
		say("two")
		if _, err := run.Finish(t.Context(), func(j *tidemark.Job) { j.Status = tidemark.JobCompleted }, nil, nil); err != nil {
			t.Fatal(err)
		}
		same(t, <-all, []string{"one", "two"})
		same(t, <-rest, []string{"two"})
	})
}

func TestAFollowerDoesNotWaitForAJobThatNobodyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		j := addJob(t, s, "coder")
		startJob(t, s, j.ID, "owner", fleet.SlotLimits{}) // and is never heard of again
		same(t, len(<-follow(t, s, j.ID, 0)), 0)
	})
}

func TestAJobGoesOnWhereTheLastOneIs(t *testing.T) {
	const here, copied = "here", "copied"
	for name, c := range map[string]struct {
		job  tidemark.Job
		want *tidemark.Resume
	}{
		"without a session":           {tidemark.Job{}, nil},
		"with one of its own":         {tidemark.Job{SessionID: here}, &tidemark.Resume{Session: here}},
		"in the one that was named":   {tidemark.Job{SessionID: here, Resume: &tidemark.Resume{Session: here, Entry: 3}}, &tidemark.Resume{Session: here, Entry: 3}},
		"in a copy":                   {tidemark.Job{SessionID: copied, Resume: &tidemark.Resume{Session: here, Entry: 3, Fork: true}}, &tidemark.Resume{Session: copied}},
		"in a copy that is not there": {tidemark.Job{SessionID: here, Resume: &tidemark.Resume{Session: here, Fork: true}}, &tidemark.Resume{Session: here, Fork: true}},
	} {
		t.Run(name, func(t *testing.T) { same(t, c.job.Next(), c.want) })
	}
}

func TestOnlyAnAgentThatNobodyHasIsRemoved(t *testing.T) {
	s := open(t)
	ctx, daemon := t.Context(), tidemark.Holder{Program: "tidemark fleet up", Host: "ada", PID: 7}
	for _, name := range []string{"coder", "other"} {
		if _, err := s.PutAgent(ctx, tidemark.Agent{Name: name}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutSchedule(ctx, tidemark.Schedule{Agent: name, Name: "nightly"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddDaemon(ctx, fleet.Daemon{Holder: daemon}); err != nil {
		t.Fatal(err)
	}
	has := func(agents ...string) {
		t.Helper()
		if err := s.DaemonAgents(ctx, daemon, agents); err != nil {
			t.Fatal(err)
		}
	}
	has("coder", "other")
	_, err := s.RemoveAgent(ctx, "coder", daemon)
	wants(t, err, tidemark.ErrConflict)
	has("other")
	j := addJob(t, s, "coder")
	gone, err := s.RemoveAgent(ctx, "coder", daemon)
	if err != nil {
		t.Fatal(err)
	}
	same(t, gone, fleet.Removed{Agent: "coder", Schedules: []string{"nightly"}, Cancelled: []string{j.ID}})
	_, err = s.Agent(ctx, "coder")
	wants(t, err, tidemark.ErrNotFound)
	_, err = s.Schedule(ctx, "coder", "nightly")
	wants(t, err, tidemark.ErrNotFound)
	if j, err = s.Job(ctx, j.ID); err != nil || j.Status != tidemark.JobCancelled {
		t.Errorf("its job is %s, %v", j.Status, err)
	}
	if _, err := s.Schedule(ctx, "other", "nightly"); err != nil {
		t.Errorf("the schedule of another agent: %v", err)
	}
	_, err = s.RemoveAgent(ctx, "coder", daemon)
	wants(t, err, tidemark.ErrNotFound)
}

func TestADisabledScheduleIsNotDue(t *testing.T) {
	s := open(t)
	next := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := s.PutSchedule(t.Context(), tidemark.Schedule{Agent: "coder", Name: "nightly", Status: tidemark.Disabled, NextRunAt: next}); err != nil {
		t.Fatal(err)
	}
	for d, err := range s.Schedules(t.Context(), "") {
		if err != nil || !d.NextRunAt.IsZero() {
			t.Errorf("listed: next at %s, %v", d.NextRunAt, err)
		}
	}
	d, err := s.Schedule(t.Context(), "coder", "nightly")
	if err != nil || !d.NextRunAt.IsZero() {
		t.Errorf("shown: next at %s, %v", d.NextRunAt, err)
	}
	err = s.ChangeSchedule(t.Context(), "coder", "nightly", func(d *tidemark.Schedule) error { d.Status = tidemark.Idle; return nil })
	if d, lookErr := s.Schedule(t.Context(), "coder", "nightly"); err != nil || lookErr != nil || !d.NextRunAt.Equal(next) {
		t.Errorf("enabled: next at %s, %v, %v", d.NextRunAt, err, lookErr)
	}
}

func TestAStatusThatNoJobHasIsAMistake(t *testing.T) {
	s := open(t)
	for _, err := range s.Jobs(t.Context(), fleet.JobFilter{Status: "bogus"}) {
		wants(t, err, tidemark.ErrInvalid)
	}
	for _, err := range s.JobsAfter(t.Context(), fleet.JobFilter{Status: "bogus"}, fleet.Mark{}) {
		wants(t, err, tidemark.ErrInvalid)
	}
}

func TestOfManyJobsEachThatCanBeReadIsListed(t *testing.T) {
	b := memory.New()
	s := over(b, &store.Options{})
	var want []string
	for i := range 300 {
		id := fmt.Sprintf("job-2026-11-15-%06d", i)
		if i == 130 {
			r := tidemark.Record{Key: tidemark.Key{Kind: "job", ID: id}, Version: 1, Body: []byte(`{"id":`)}
			r.Sum = r.Checksum()
			if _, err := b.Commit(t.Context(), tidemark.Batch{ID: "damage", Puts: []tidemark.Record{r}}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := s.PutJob(t.Context(), tidemark.Job{ID: id, Agent: "coder", Trigger: tidemark.TriggerManual, Status: tidemark.JobCompleted}); err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	var got []string
	damaged := 0
	for j, err := range s.AllJobs(t.Context()) {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			damaged++
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, j.ID)
		}
	}
	slices.Sort(got)
	same(t, got, want)
	if damaged != 1 {
		t.Errorf("%d damages were reported, want 1", damaged)
	}
}
