package fleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
)

func askReview(t *testing.T, s *fleet.Store, job, call string) {
	t.Helper()
	if err := s.AskReview(t.Context(), fleet.Review{Job: job, Call: call, Tool: "bash", Input: json.RawMessage(`{"command":"git push"}`)}); err != nil {
		t.Fatal(err)
	}
}

func reviewStates(t *testing.T, s *fleet.Store, job string) string {
	t.Helper()
	all, err := s.Reviews(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, v := range all {
		states = append(states, v.Call+" "+v.State)
	}
	return strings.Join(states, ", ")
}

func endJob(t *testing.T, s *fleet.Store, job string) {
	t.Helper()
	j := statusOf(t, s, job)
	j.Status = tidemark.JobCompleted
	if _, err := s.PutJob(t.Context(), j); err != nil {
		t.Fatal(err)
	}
}

func TestAReviewIsAnsweredOnce(t *testing.T) {
	s := open(t)
	j := addJob(t, s, "coder")
	startJob(t, s, j.ID, "daemon", fleet.SlotLimits{})
	askReview(t, s, j.ID, "c1")
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			n, err := s.AnswerReview(t.Context(), j.ID, "c1", i%2 == 0, who(fmt.Sprint("person", i)), "no")
			if err != nil && !errors.Is(err, tidemark.ErrConflict) {
				t.Error(err)
			}
			won.Add(int64(n))
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d answers were taken, want 1", won.Load())
	}
	v, err := s.Review(t.Context(), j.ID, "c1")
	if err != nil || v.State == fleet.ReviewWaiting || v.AnsweredAt.IsZero() || !strings.HasPrefix(v.By.Program, "person") {
		t.Errorf("%+v, %v", v, err)
	}
	if (v.Reason == "no") != (v.State == fleet.ReviewDenied) {
		t.Errorf("%s with the reason %q", v.State, v.Reason)
	}
}

func TestWithoutACallAllThatWaitsIsDeniedAndNothingApproved(t *testing.T) {
	s := open(t)
	j, other := addJob(t, s, "coder"), addJob(t, s, "coder")
	startJob(t, s, j.ID, "daemon", fleet.SlotLimits{})
	startJob(t, s, other.ID, "daemon", fleet.SlotLimits{})
	for _, call := range []string{"c1", "c2", "c3"} {
		askReview(t, s, j.ID, call)
	}
	askReview(t, s, other.ID, "c1")
	if n, err := s.AnswerReview(t.Context(), j.ID, "c2", false, who("ada"), ""); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := s.AnswerReview(t.Context(), j.ID, "", true, who("ada"), ""); n != 0 || !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("two calls were approved at once: %d, %v, want ErrInvalid", n, err)
	}
	if n, err := s.AnswerReview(t.Context(), j.ID, "", false, who("ada"), ""); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if got, want := reviewStates(t, s, j.ID), "c1 denied, c2 denied, c3 denied"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n, err := s.AnswerReview(t.Context(), j.ID, "", true, who("ada"), ""); n != 0 || !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("once more: %d, %v, want ErrNotFound", n, err)
	}
	waiting, err := s.WaitingReviews(t.Context(), "")
	if err != nil || len(waiting) != 1 || waiting[0].Job != other.ID {
		t.Errorf("waiting: %+v, %v", waiting, err)
	}
}

func TestANameOfACallIsNeverAskedTwice(t *testing.T) {
	s := open(t)
	j := addJob(t, s, "coder")
	startJob(t, s, j.ID, "daemon", fleet.SlotLimits{})
	askReview(t, s, j.ID, "c1")
	for _, answered := range []bool{false, true} {
		if err := s.AskReview(t.Context(), fleet.Review{Job: j.ID, Call: "c1", Tool: "bash"}); !errors.Is(err, tidemark.ErrExists) {
			t.Errorf("asked again, answered before: %t: %v, want ErrExists", answered, err)
		}
		if !answered {
			if _, err := s.AnswerReview(t.Context(), j.ID, "c1", true, who("ada"), ""); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestNobodyAsksOrAnswersForAJobThatDoesNotRun(t *testing.T) {
	s := open(t)
	j := addJob(t, s, "coder")
	if err := s.AskReview(t.Context(), fleet.Review{Job: j.ID, Call: "c1"}); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("asked before it runs: %v, want ErrConflict", err)
	}
	startJob(t, s, j.ID, "daemon", fleet.SlotLimits{})
	askReview(t, s, j.ID, "c1")
	if err := s.EndReviews(t.Context(), j.ID); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("removed while it runs: %v, want ErrConflict", err)
	}
	endJob(t, s, j.ID)
	if _, err := s.AnswerReview(t.Context(), j.ID, "c1", true, who("ada"), ""); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("answered after the end: %v, want ErrConflict", err)
	}
	if err := s.AskReview(t.Context(), fleet.Review{Job: j.ID, Call: "c2"}); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("asked after the end: %v, want ErrConflict", err)
	}
	if err := s.EndReviews(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	if got := reviewStates(t, s, ""); got != "" {
		t.Errorf("left behind: %s", got)
	}
	if _, err := s.AnswerReview(t.Context(), "job-of-nobody", "", true, who("ada"), ""); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("of no job: %v, want ErrNotFound", err)
	}
}

func TestAReviewIsBounded(t *testing.T) {
	s := open(t)
	j := addJob(t, s, "coder")
	startJob(t, s, j.ID, "daemon", fleet.SlotLimits{})
	long, err := json.Marshal(map[string]string{"command": strings.Repeat("ä", 50_000)})
	if err != nil {
		t.Fatal(err)
	}
	for call, input := range map[string]string{"long": string(long), "broken": `{"command":`, "none": ""} {
		v := fleet.Review{Job: j.ID, Call: call, Tool: "bash", Title: strings.Repeat("é", 5000), Input: json.RawMessage(input)}
		if err := s.AskReview(t.Context(), v); err != nil {
			t.Errorf("%s: %v", call, err)
			continue
		}
		got, err := s.Review(t.Context(), j.ID, call)
		if err != nil || len(got.Input) > 20_000 || len(got.Title) > 1024 || !strings.HasSuffix(got.Title, "é") {
			t.Errorf("%s: %d bytes of input, %d of title, %v", call, len(got.Input), len(got.Title), err)
		}
		if (got.InputBytes == len(long)) != (call == "long") {
			t.Errorf("%s: InputBytes = %d", call, got.InputBytes)
		}
	}
}

func TestAnApprovalIsForWhatWasShown(t *testing.T) {
	s := over(memory.New(), nil)
	if _, err := s.AddJob(t.Context(), tidemark.Job{Agent: "a", Trigger: tidemark.TriggerManual}); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.DueJobs(t.Context(), time.Now().Add(time.Hour), 0)
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	job := jobs[0].ID
	if _, err := s.StartJob(t.Context(), job, tidemark.Holder{Program: "d", PID: 1, Host: "here"}, fleet.SlotLimits{}); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"c1", "c2"} {
		if err := s.AskReview(t.Context(), fleet.Review{Job: job, Call: call, Tool: "bash", Input: json.RawMessage(`{"command": "rm -r build"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := s.Review(t.Context(), job, "c1")
	if err != nil || v.Shown == "" || v.Shown != v.Digest() {
		t.Fatalf("%+v, %v", v, err)
	}
	other := v
	other.Input = json.RawMessage(`{"command": "ls"}`)
	by := tidemark.Holder{Program: "test"}
	for _, shown := range []string{other.Digest(), "", "x"} {
		if err := s.ApproveShown(t.Context(), job, "c1", shown, by); err == nil {
			t.Errorf("approved as %q", shown)
		}
	}
	if _, err := s.AnswerReview(t.Context(), job, "", true, by, ""); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("two calls at once: %v", err)
	}
	if err := s.ApproveShown(t.Context(), job, "c1", v.Digest(), by); err != nil {
		t.Error(err)
	}
}
