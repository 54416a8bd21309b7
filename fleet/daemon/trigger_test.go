package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

// incoming is a fleet whose webhooks and inboxes have an overlap.
func incoming(overlap string) *file.File {
	return &file.File{Agents: []file.Agent{{Name: "a", Limits: file.Limits{MaxConcurrent: 1}, Schedules: []file.Schedule{
		{Name: "push", Type: fleet.TypeWebhook, SecretEnv: "KEY", Overlap: overlap}, {Name: "mail", Type: fleet.TypeChat, Overlap: overlap}}}}}
}

// call posts a body to the webhook and returns the status and the answer.
func call(t *testing.T, g *endpoints, delivery, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/hooks/a/push", strings.NewReader(body))
	r.Header.Set(headerSignature, signature("hush", time.Now(), "/hooks/a/push", delivery, []byte(body)))
	r.Header.Set(headerDelivery, delivery)
	w := httptest.NewRecorder()
	g.Handler(secrets(keys)).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestACallWhileTheLastOneRunsIsSkippedWithItsReason(t *testing.T) {
	s := newStage(t)
	g, _ := s.endpointsOf(incoming(fleet.OverlapSkip), "one", nil)
	if code, answer := call(t, g, "1", "first"); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, answer)
	}
	first := s.jobs()[0]
	code, answer := call(t, g, "2", "second")
	if code != http.StatusOK || !strings.Contains(answer, `"skipped":"still running job `+first.ID) || len(s.jobs()) != 1 {
		t.Errorf("%d %s, %v", code, answer, s.jobs())
	}
	skips, err := s.store.Skips(t.Context(), "a", "push", 10)
	if err != nil || len(skips) != 1 || skips[0].Reason != "still running job "+first.ID || skips[0].Count != 1 || skips[0].Instant.IsZero() {
		t.Errorf("skips %+v, %v", skips, err)
	}
	// So is one that was skipped, also when nothing runs any more.
	defer func() {
		if code, again := call(t, g, "2", "second"); code != http.StatusOK || again != answer || len(s.jobs()) != 2 {
			t.Errorf("a skipped delivery, sent again: %d %s, %v", code, again, s.jobs())
		}
	}()
	// The delivery that made the job is still known, and is no overlap.
	if code, answer := call(t, g, "1", "first"); code != http.StatusOK || !strings.Contains(answer, first.ID) || strings.Contains(answer, "skipped") {
		t.Errorf("%d %s", code, answer)
	}
	if _, err := s.store.CancelJob(t.Context(), first.ID, tidemark.Holder{}); err != nil {
		t.Fatal(err)
	}
	if code, answer := call(t, g, "3", "third"); code != http.StatusAccepted {
		t.Errorf("after its end: %d %s", code, answer)
	}
}

func TestACallReplacesTheOneThatRuns(t *testing.T) {
	s := newStage(t)
	g, _ := s.endpointsOf(incoming(fleet.OverlapReplace), "one", nil)
	call(t, g, "1", "first")
	first := s.jobs()[0]
	run, err := s.store.StartJob(t.Context(), first.ID, tidemark.Holder{Program: "test", PID: 1}, fleet.SlotLimits{})
	if err != nil {
		t.Fatal(err)
	}
	if code, answer := call(t, g, "2", "second"); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, answer)
	}
	asked := make(chan tidemark.Holder, 1)
	go run.KeepAlive(t.Context(), func(by tidemark.Holder) { asked <- by })
	<-asked
	var second tidemark.Job
	for _, j := range s.jobs() {
		if j.ID != first.ID {
			second = j
		}
	}
	if code, answer := call(t, g, "3", "third"); code != http.StatusAccepted {
		t.Fatalf("%d %s", code, answer)
	}
	if j, err := s.store.Job(t.Context(), second.ID); err != nil || j.Status != tidemark.JobCancelled {
		t.Errorf("one that waited is %s, %v", j.Status, err)
	}
}

func TestWhatComesInWaitsUnlessTheFileSaysOtherwise(t *testing.T) {
	f, err := file.Parse("f", []byte("version: 1\nagents:\n  - name: a\n    schedules: [{name: mail, type: chat}, {name: tick, every: 1h, prompt: go}]\n"), nil)
	if err != nil || f.Agents[0].Schedules[0].Overlap != fleet.OverlapQueue || f.Agents[0].Schedules[1].Overlap != fleet.OverlapSkip {
		t.Fatalf("%+v, %v", f, err)
	}
	s := newStage(t)
	g, _ := s.endpointsOf(incoming(fleet.OverlapQueue), "one", nil)
	for _, d := range []string{"1", "2", "3"} {
		if code, answer := call(t, g, d, d); code != http.StatusAccepted {
			t.Errorf("%d %s", code, answer)
		}
	}
	if n := len(s.jobs()); n != 3 {
		t.Errorf("%d jobs", n)
	}
}

func TestAMessageWhileTheLastOneRunsIsSkipped(t *testing.T) {
	s, dir := newStage(t), t.TempDir()
	g, _ := s.endpointsOf(incoming(fleet.OverlapSkip), "one", nil)
	to, err := s.store.ChatSchedule(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	mail := fleet.Trigger{Agent: to.Agent, Schedule: to.Name, Type: tidemark.TriggerChat, Text: func(prompt string) string { return fleet.Message(prompt, "hello") }}
	got, err := s.store.Trigger(t.Context(), tidemark.Holder{}, time.Now(), mail)
	if err != nil || !got.New || got.Job.Trigger != tidemark.TriggerChat || got.Job.Prompt != "hello" {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := s.store.Trigger(t.Context(), tidemark.Holder{}, time.Now(), mail); err != nil || again.Skipped != "still running job "+got.Job.ID {
		t.Errorf("%+v, %v", again, err)
	}
	drop(t, dir, "a", "note.txt", "and here")
	look(t, g, dir)
	if ends := endings(t, dir, "a"); len(ends) != 1 || ends[0] != endSkipped || len(s.jobs()) != 1 {
		t.Errorf("%v, %v", ends, s.jobs())
	}
	if skips, err := s.store.Skips(t.Context(), "a", "mail", 10); err != nil || len(skips) != 2 {
		t.Errorf("%v, %v", skips, err)
	}
}
