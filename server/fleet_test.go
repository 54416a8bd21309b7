package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/process"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/store"
)

// everyStore runs a test over stores in memory and on disk.
func everyStore(t *testing.T, test func(t *testing.T, change func(*Options))) {
	t.Run("memory", func(t *testing.T) { test(t, func(*Options) {}) })
	t.Run("sqlite", func(t *testing.T) {
		dir, stores, over := t.TempDir(), make(map[string]*store.Store), false
		var mu sync.Mutex
		t.Cleanup(func() {
			mu.Lock()
			defer mu.Unlock()
			over = true
			for _, st := range stores {
				st.Close()
			}
		})
		test(t, func(o *Options) {
			o.Open = func(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
				mu.Lock()
				defer mu.Unlock()
				name := p.Tenant + p.User
				if over {
					return nil, tidemark.ErrNoStore
				}
				if stores[name] == nil {
					b, err := sqlite.Open(ctx, filepath.Join(dir, name+".db"), &sqlite.Options{Create: true})
					if err != nil {
						return nil, err
					}
					stores[name] = store.New(b, nil)
				}
				return stores[name], nil
			}
		})
	})
}

// fleetOf is the fleet of a tenant.
func (s *testServer) fleetOf(t *testing.T, tenant string) *fleet.Store {
	t.Helper()
	st, err := s.stores.Of(t.Context(), tidemark.TenantOf(tenant, ""))
	if err != nil {
		t.Fatal(err)
	}
	return fleet.Over(st)
}

// withAgent gives tenant a the agent coder with two schedules.
func withAgent(t *testing.T, s *testServer) *fleet.Store {
	t.Helper()
	st := s.fleetOf(t, "a")
	if _, err := st.PutAgent(t.Context(), tidemark.Agent{Name: "coder", Status: tidemark.Idle}); err != nil {
		t.Fatal(err)
	}
	for _, d := range []tidemark.Schedule{{Agent: "coder", Name: "nightly", Status: tidemark.Idle, Cron: "0 3 * * *", Prompt: "Tidy up."},
		{Agent: "coder", Name: "inbox", Status: tidemark.Idle, Type: "chat"}} {
		if _, err := st.PutSchedule(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

func runJob(t *testing.T, st *fleet.Store, id string) *fleet.JobRun {
	t.Helper()
	run, err := st.StartJob(t.Context(), id, process.Self("test"), fleet.SlotLimits{})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func put(t *testing.T, run *fleet.JobRun, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := run.Emit(t.Context(), tidemark.Event{Type: tidemark.EventSystem, Content: text, Timestamp: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
}

func endJob(t *testing.T, run *fleet.JobRun) {
	t.Helper()
	if _, err := run.Finish(t.Context(), func(j *tidemark.Job) { j.Status, j.ExitReason = tidemark.JobCompleted, tidemark.ExitSuccess }, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func TestAJobIsOrderedWatchedAndRepeatedOverHTTP(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s := newTestServer(t, change)
		st := withAgent(t, s)
		var j tidemark.Job
		s.call(t, "writer-a", "POST", "/api/v1/agents/coder/run", api.RunAgent{Prompt: "Fix it."}).want(t, 201).into(t, &j)
		if j.Status != tidemark.JobPending || j.Prompt != "Fix it." {
			t.Fatalf("job %+v", j)
		}
		run := runJob(t, st, j.ID)
		put(t, run, "one", "two", "three")

		var agent api.Agent
		s.call(t, "reader-a", "GET", "/api/v1/agents/coder", nil).want(t, 200).into(t, &agent)
		host := process.Self("test").Host
		if agent.CurrentJob != j.ID || agent.Node != host {
			t.Errorf("agent %+v, want job %s on %s", agent, j.ID, host)
		}
		var about api.Fleet
		s.call(t, "reader-a", "GET", "/api/v1/fleet", nil).want(t, 200).into(t, &about)
		if len(about.Running) != 1 || about.Running[0].Node != host || about.Agents != 1 {
			t.Errorf("fleet %+v", about)
		}

		var out api.JobOutput
		s.call(t, "reader-a", "GET", "/api/v1/jobs/"+j.ID+"/output?offset=1&limit=1", nil).want(t, 200).into(t, &out)
		if len(out.Items) != 1 || out.Items[0].Content != "two" || out.Next != 2 || out.Length != 3 {
			t.Errorf("output %+v", out)
		}
		s.call(t, "reader-a", "GET", "/api/v1/jobs/"+j.ID+"/output?newest=2", nil).want(t, 200).into(t, &out)
		if len(out.Items) != 2 || out.Items[0].Seq != 2 {
			t.Errorf("newest output %+v", out)
		}
		out = api.JobOutput{}
		s.call(t, "reader-a", "GET", "/api/v1/jobs/"+j.ID+"/output?offset=9", nil).want(t, 200).into(t, &out)
		if len(out.Items) != 0 || out.Next != 0 {
			t.Errorf("output behind the end %+v", out)
		}

		var cancelled api.Cancelled
		s.call(t, "writer-a", "POST", "/api/v1/jobs/"+j.ID+"/cancel", nil).want(t, 200).into(t, &cancelled)
		if cancelled.Ended {
			t.Error("a job that runs was said to have ended")
		}
		endJob(t, run)
		s.call(t, "writer-a", "POST", "/api/v1/jobs/"+j.ID+"/cancel", nil).want(t, 409).problem(t)

		got := s.call(t, "reader-a", "GET", "/api/v1/jobs/"+j.ID, nil).want(t, 200)
		if again := s.call(t, "reader-a", "GET", "/api/v1/jobs/"+j.ID, nil, "If-None-Match: "+got.Header.Get("ETag")); again.Status != 304 || len(again.Body) != 0 {
			t.Errorf("with its own tag: %d %s", again.Status, again.Body)
		}
		for path, trigger := range map[string]string{"/retry": tidemark.TriggerManual, "/fork": tidemark.TriggerFork} {
			var next tidemark.Job
			s.call(t, "writer-a", "POST", "/api/v1/jobs/"+j.ID+path, api.RepeatJob{Prompt: "Again."}).want(t, 201).into(t, &next)
			if next.Trigger != trigger || next.Prompt != "Again." || next.ID == j.ID {
				t.Errorf("%s: %+v", path, next)
			}
			s.call(t, "writer-a", "POST", "/api/v1/jobs/"+next.ID+"/cancel", nil).want(t, 200).into(t, &cancelled)
			if !cancelled.Ended {
				t.Errorf("%s: a job that waits did not end", path)
			}
		}
		s.call(t, "writer-a", "POST", "/api/v1/jobs/"+j.ID+"/retry", nil).want(t, 201)
	})
}

func TestJobsHavePagesThatEndAndCursorsThatNobodyElseMakes(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s := newTestServer(t, change)
		withAgent(t, s)
		want := make(map[string]bool)
		for range 7 {
			var j tidemark.Job
			s.call(t, "writer-a", "POST", "/api/v1/agents/coder/run", api.RunAgent{Prompt: "x"}).want(t, 201).into(t, &j)
			want[j.ID] = true
		}
		next, first := "", ""
		for range 10 {
			var page routes.Page[tidemark.Job]
			s.call(t, "reader-a", "GET", "/api/v1/jobs?agent=coder&status=pending&limit=3&cursor="+next, nil).want(t, 200).into(t, &page)
			for _, j := range page.Items {
				if !want[j.ID] {
					t.Errorf("%s came twice, or is nobody's", j.ID)
				}
				delete(want, j.ID)
			}
			if next = page.Next; first == "" {
				first = next
			}
			if next == "" {
				break
			}
		}
		if len(want) != 0 || first == "" {
			t.Errorf("%d jobs never came", len(want))
		}
		s.call(t, "reader-b", "GET", "/api/v1/jobs?cursor="+first, nil).want(t, 400).problem(t)
		s.call(t, "reader-a", "GET", "/api/v1/jobs?cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", nil).want(t, 400).problem(t)
	})
}

// events reads a stream until it ends.
func events(t *testing.T, s *testServer, who, path string, headers ...string) string {
	t.Helper()
	return string(s.call(t, who, "GET", path, nil, headers...).want(t, 200).Body)
}

func TestOutputIsStreamedUntilTheJobEnds(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s := newTestServer(t, change)
		st := withAgent(t, s)
		j, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder", Prompt: "x"})
		if err != nil {
			t.Fatal(err)
		}
		run := runJob(t, st, j.ID)
		put(t, run, "one")
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/api/v1/jobs/"+j.ID+"/output/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer reader-a")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && !strings.Contains(lines.Text(), `"one"`) {
		}
		put(t, run, "two")
		endJob(t, run)
		var rest []string
		for lines.Scan() {
			rest = append(rest, lines.Text())
		}
		all := strings.Join(rest, "\n")
		if !strings.Contains(all, "id: 2\n") || !strings.Contains(all, `"two"`) || !strings.Contains(all, "event: end") {
			t.Errorf("stream ended with %q", all)
		}
		again := events(t, s, "reader-a", "/api/v1/jobs/"+j.ID+"/output/stream", "Last-Event-ID: 1")
		if strings.Contains(again, `"one"`) || !strings.Contains(again, `"two"`) {
			t.Errorf("resumed behind 1: %q", again)
		}
		s.call(t, "reader-a", "GET", "/api/v1/jobs/"+j.ID+"/output/stream", nil, "Last-Event-ID: x").want(t, 400).problem(t)
	})
}

func TestAStreamOfAJobWhoseOwnerDiedEnds(t *testing.T) {
	s := newTestServer(t)
	st := withAgent(t, s)
	j, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder", Prompt: "x"})
	if err != nil {
		t.Fatal(err)
	}
	dead := process.Self("test")
	dead.PID, dead.StartedAt = 1<<22+1, "never"
	if _, err := st.StartJob(t.Context(), j.ID, dead, fleet.SlotLimits{}); err != nil {
		t.Fatal(err)
	}
	if got := events(t, s, "reader-a", "/api/v1/jobs/"+j.ID+"/output/stream"); !strings.Contains(got, "event: end") {
		t.Errorf("the stream ended with %q", got)
	}
}

func TestWhatAJobAsksIsAnsweredOnce(t *testing.T) {
	s := newTestServer(t)
	st := withAgent(t, s)
	j, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder", Prompt: "x"})
	if err != nil {
		t.Fatal(err)
	}
	runJob(t, st, j.ID)
	for _, call := range []string{"c1", "c2"} {
		if err := st.AskReview(t.Context(), fleet.Review{Job: j.ID, Agent: "coder", Call: call, Tool: "bash"}); err != nil {
			t.Fatal(err)
		}
	}
	path := "/api/v1/jobs/" + j.ID + "/reviews"
	s.call(t, "reader-a", "POST", path+"/c1", api.ReviewAnswer{Answer: "approve"}).want(t, 403).problem(t)
	s.call(t, "writer-a", "POST", path+"/c1", api.ReviewAnswer{Answer: "maybe"}).want(t, 422).problem(t)
	s.call(t, "writer-a", "POST", path+"/c1", api.ReviewAnswer{Answer: "approve"}).want(t, 200)
	s.call(t, "writer-a", "POST", path+"/c1", api.ReviewAnswer{Answer: "deny"}).want(t, 409).problem(t)
	s.call(t, "writer-a", "POST", path+"/c2", api.ReviewAnswer{Answer: "deny", Reason: "Use a branch."}).want(t, 200)
	s.call(t, "writer-a", "POST", path+"/c3", api.ReviewAnswer{Answer: "deny"}).want(t, 404).problem(t)
	var page routes.Page[fleet.Review]
	s.call(t, "reader-a", "GET", path, nil).want(t, 200).into(t, &page)
	got := ""
	for _, v := range page.Items {
		got += fmt.Sprintln(v.Call, v.State, v.Reason, v.By.Program)
	}
	if want := "c1 approved  tidemark serve, for writer-a\nc2 denied Use a branch. tidemark serve, for writer-a\n"; got != want {
		t.Errorf("reviews:\n%swant:\n%s", got, want)
	}
}

func TestSchedulesAreTurnedOffOnAndRunNow(t *testing.T) {
	s := newTestServer(t)
	withAgent(t, s)
	var page routes.Page[tidemark.Schedule]
	s.call(t, "reader-a", "GET", "/api/v1/schedules?agent=coder&limit=1", nil).want(t, 200).into(t, &page)
	if len(page.Items) != 1 || page.Next == "" {
		t.Fatalf("first page %+v", page)
	}
	s.call(t, "reader-a", "GET", "/api/v1/schedules?agent=coder&limit=1&cursor="+page.Next, nil).want(t, 200).into(t, &page)
	const path = "/api/v1/schedules/coder/nightly"
	var d tidemark.Schedule
	s.call(t, "writer-a", "POST", path+"/disable", nil).want(t, 200).into(t, &d)
	if d.Status != tidemark.Disabled {
		t.Errorf("schedule %+v", d)
	}
	s.call(t, "writer-a", "POST", path+"/enable", nil).want(t, 200)
	s.call(t, "reader-a", "GET", path, nil).want(t, 200).into(t, &d)
	if d.Status != tidemark.Idle || d.Prompt != "Tidy up." {
		t.Errorf("schedule %+v", d)
	}
	var j tidemark.Job
	s.call(t, "writer-a", "POST", path+"/run-now", nil).want(t, 201).into(t, &j)
	if j.Schedule != "nightly" || j.Prompt != "Tidy up." {
		t.Errorf("job %+v", j)
	}
	s.call(t, "reader-a", "GET", path+"/skips", nil).want(t, 200)
	s.call(t, "writer-a", "POST", "/api/v1/schedules/coder/never/enable", nil).want(t, 404).problem(t)
}

func TestMessagesBecomeJobs(t *testing.T) {
	s := newTestServer(t)
	withAgent(t, s)
	var j tidemark.Job
	s.call(t, "writer-a", "POST", "/api/v1/agents/coder/messages", api.AgentMessage{Text: "Is it green?"}).want(t, 201).into(t, &j)
	if j.Trigger != tidemark.TriggerChat || j.Prompt != "Is it green?" || j.Schedule != "inbox" {
		t.Errorf("job %+v", j)
	}
	s.call(t, "writer-a", "POST", "/api/v1/agents/coder/messages", api.AgentMessage{Text: " "}).want(t, 400).problem(t)
	s.call(t, "writer-a", "POST", "/api/v1/agents/nobody/messages", api.AgentMessage{Text: "x"}).want(t, 404).problem(t)
	s.call(t, "writer-a", "POST", "/api/v1/agents/coder/messages", `{"text":"`+strings.Repeat("x", 2<<20)+`"}`).want(t, 422)
	s.call(t, "writer-a", "POST", "/api/v1/schedules/coder/inbox/disable", nil).want(t, 200)
	s.call(t, "writer-a", "POST", "/api/v1/agents/coder/messages", api.AgentMessage{Text: "x"}).want(t, 409).problem(t)
}

func TestTheFleetOfAnotherTenantIsNotThere(t *testing.T) {
	s := newTestServer(t)
	st := withAgent(t, s)
	j, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder", Prompt: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{"GET /api/v1/agents/coder", "POST /api/v1/agents/coder/reset", "DELETE /api/v1/agents/coder", "POST /api/v1/agents/coder/run", "GET /api/v1/agents/coder/log",
		"GET /api/v1/jobs/ID", "POST /api/v1/jobs/ID/cancel", "POST /api/v1/jobs/ID/retry", "POST /api/v1/jobs/ID/fork", "GET /api/v1/jobs/ID/output",
		"GET /api/v1/jobs/ID/output/stream", "GET /api/v1/jobs/ID/reviews", "GET /api/v1/schedules/coder/nightly", "POST /api/v1/schedules/coder/nightly/enable",
		"POST /api/v1/schedules/coder/nightly/run-now", "GET /api/v1/schedules/coder/nightly/skips"} {
		t.Run(c, func(t *testing.T) {
			method, path, _ := strings.Cut(c, " ")
			var body any
			if strings.HasSuffix(path, "/run") {
				body = api.RunAgent{Prompt: "x"}
			}
			foreign := s.call(t, "admin-b", method, strings.ReplaceAll(path, "ID", j.ID), body).want(t, 404).problem(t)
			absent := s.call(t, "admin-b", method, strings.ReplaceAll(path, "ID", "job-2026-01-01-absent"), body).want(t, 404).problem(t)
			if foreign.Code != absent.Code || foreign.Title != absent.Title {
				t.Errorf("a foreign one answers %+v, an absent one %+v", foreign, absent)
			}
			if method != "GET" {
				s.call(t, "reader-a", method, strings.ReplaceAll(path, "ID", j.ID), body).want(t, 403).problem(t)
			}
		})
	}
	for _, path := range []string{"/api/v1/agents", "/api/v1/jobs", "/api/v1/schedules"} {
		if got := s.call(t, "admin-b", "GET", path, nil).want(t, 200); strings.Contains(string(got.Body), "coder") {
			t.Errorf("%s: %s", path, got.Body)
		}
	}
}

func TestASessionToGoOnWithHasToBeThere(t *testing.T) {
	s := newTestServer(t)
	withAgent(t, s)
	s.call(t, "writer-a", "POST", "/api/v1/agents/coder/run", api.RunAgent{Resume: string(tidemark.NewSessionID())}).want(t, 404).problem(t)
	s.call(t, "writer-a", "POST", "/api/v1/agents/coder/run", api.RunAgent{Fork: "x"}).want(t, 400).problem(t)
	s.call(t, "writer-a", "POST", "/api/v1/agents/coder/reset", nil).want(t, 200)
}

func TestAJobGoesOnFromAPointOfASession(t *testing.T) {
	s := newTestServer(t)
	withAgent(t, s)
	w := must[*store.Store](t)(s.stores.Of(t.Context(), tidemark.TenantOf("a", ""))).Create(tidemark.Session{}, tidemark.Holder{Program: "test"})
	for _, text := range []string{"an apple", "a pear"} {
		if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, text)); err != nil {
			t.Fatal(err)
		}
	}
	id := string(w.ID())
	var j tidemark.Job
	s.call(t, "writer-a", "POST", "/api/v1/agents/coder/run", api.RunAgent{Resume: id + "@n0"}).want(t, 201).into(t, &j)
	if want := (tidemark.Resume{Session: id, Entry: 1}); j.Resume == nil || *j.Resume != want {
		t.Errorf("it goes on with %+v, want %+v", j.Resume, want)
	}
	s.call(t, "writer-a", "POST", "/api/v1/agents/coder/run", api.RunAgent{Fork: id + "@n9"}).want(t, 404).problem(t)
}

func TestAnAgentIsRemoved(t *testing.T) {
	s := newTestServer(t)
	st := withAgent(t, s)
	who := tidemark.Holder{Program: "tidemark fleet up", Host: "ada", PID: 7}
	if err := st.AddDaemon(t.Context(), fleet.Daemon{Holder: who}); err != nil {
		t.Fatal(err)
	}
	for _, has := range [][]string{{"coder"}, {}} {
		if err := st.DaemonAgents(t.Context(), who, has); err != nil {
			t.Fatal(err)
		}
		if len(has) > 0 {
			s.call(t, "writer-a", "DELETE", "/api/v1/agents/coder", nil).want(t, 409).problem(t)
		}
	}
	var gone api.RemovedAgent
	s.call(t, "writer-a", "DELETE", "/api/v1/agents/coder", nil).want(t, 200).into(t, &gone)
	if gone.Agent != "coder" || len(gone.Schedules) == 0 {
		t.Errorf("removed %+v", gone)
	}
	s.call(t, "reader-a", "GET", "/api/v1/agents/coder", nil).want(t, 404).problem(t)
	s.call(t, "writer-a", "DELETE", "/api/v1/agents/coder", nil).want(t, 404).problem(t)
}

func TestWordsThatAreNoneOfASetAreMistakes(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	withAgent(t, s)
	for _, path := range []string{"/api/v1/jobs?status=bogus", "/api/v1/search?q=word&role=bogus", "/fleet/jobs?status=bogus"} {
		if got := s.call(t, "reader-a", "GET", path, nil); got.Status != 400 && got.Status != 422 {
			t.Errorf("%s: %d", path, got.Status)
		}
	}
}

func TestAFailedAgentNamesItsJob(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	if _, err := st.PutAgent(t.Context(), tidemark.Agent{Name: "coder", Status: tidemark.Failing, ErrorMessage: "no quota", FailedJob: "job-2026-01-01-abcdef"}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/fleet", "/fleet/agents/coder", "/api/v1/agents/coder", "/api/v1/agents"} {
		s.call(t, "reader-a", "GET", path, nil).want(t, 200).sees(t, "no quota", "job-2026-01-01-abcdef")
	}
}

func TestHooksNeedNoToken(t *testing.T) {
	s := newTestServer(t, func(o *Options) {
		o.Hooks = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hook "+r.URL.Path) })
	})
	if got := s.call(t, "", "POST", "/hooks/coder/nightly", "{}").want(t, 200); string(got.Body) != "hook /hooks/coder/nightly" {
		t.Errorf("got %s", got.Body)
	}
}
