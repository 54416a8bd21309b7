package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
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
		order store.Order
		want  tidemark.Job
	}{
		"a prompt":   {store.Order{Agent: "coder", Prompt: "Fix it."}, tidemark.Job{Trigger: tidemark.TriggerManual, Prompt: "Fix it."}},
		"a schedule": {store.Order{Agent: "coder", Schedule: "nightly"}, tidemark.Job{Trigger: tidemark.TriggerManual, Schedule: "nightly", Prompt: "Tidy up."}},
		"a session":  {store.Order{Agent: "coder", Resume: id}, tidemark.Job{Trigger: tidemark.TriggerManual, SessionID: string(id)}},
		"a copy":     {store.Order{Agent: "coder", Fork: id}, tidemark.Job{Trigger: tidemark.TriggerFork, SessionID: string(id), ForkedFrom: string(id)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.OrderJob(t.Context(), c.order)
			if err != nil {
				t.Fatal(err)
			}
			same(t, [...]string{got.Agent, got.Status, got.Trigger, got.Schedule, got.Prompt, got.SessionID, got.ForkedFrom},
				[...]string{"coder", tidemark.JobPending, c.want.Trigger, c.want.Schedule, c.want.Prompt, c.want.SessionID, c.want.ForkedFrom})
			again, err := s.RepeatJob(t.Context(), got.ID, "", true)
			if err != nil {
				t.Fatal(err)
			}
			same(t, [...]string{again.Prompt, again.Trigger, again.ForkedFrom}, [...]string{got.Prompt, tidemark.TriggerFork, got.ID})
		})
	}
	_, err := s.OrderJob(t.Context(), store.Order{Agent: "nobody"})
	wants(t, err, tidemark.ErrNotFound)
	_, err = s.OrderJob(t.Context(), store.Order{Agent: "coder", Schedule: "never"})
	wants(t, err, tidemark.ErrNotFound)
	_, err = s.OrderJob(t.Context(), store.Order{Agent: "coder", Resume: id, Fork: id})
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
		var at store.Mark
		for pages := 0; pages < 10; pages++ {
			for j, err := range s.JobsAfter(t.Context(), store.JobFilter{Agent: "coder", Limit: 3}, at) {
				if err != nil {
					t.Fatal(err)
				}
				got, at = append(got, j.ID), j.Mark
			}
		}
		same(t, got, all)
	})
}

// follow gathers what a job puts out, until nothing follows.
func follow(t *testing.T, s *store.Store, id string, after int64) <-chan []string {
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
		run := startJob(t, s, j.ID, "owner", store.SlotLimits{})
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
		startJob(t, s, j.ID, "owner", store.SlotLimits{}) // and is never heard of again
		same(t, len(<-follow(t, s, j.ID, 0)), 0)
	})
}
