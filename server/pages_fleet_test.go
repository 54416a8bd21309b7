package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/workshop/hostile"
)

// withFleetPages lets browsers in.
func withFleetPages(o *Options) {
	o.SignIn = auth.Local("0123456789abcdef0123", tidemark.TenantOf("a", "jo"))
}

// post sends a form as a browser does and does not go where it is sent.
func (s *testServer) post(t *testing.T, who, path string, form url.Values) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+who)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, body}
}

// sees fails unless a page has all texts, and none of those after "not".
func (a answer) sees(t *testing.T, texts ...string) {
	t.Helper()
	page, want := string(a.Body), true
	for _, text := range texts {
		if text == "not" {
			want = false
		} else if strings.Contains(page, text) != want {
			t.Errorf("%q in the page: %v, want %v\n%s", text, !want, want, page)
		}
	}
}

// askWrite makes a job of the agent coder that waits for an answer.
func askWrite(t *testing.T, st *fleet.Store) *fleet.JobRun {
	t.Helper()
	j, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder", Prompt: "Tidy <up>."})
	if err != nil {
		t.Fatal(err)
	}
	run := runJob(t, st, j.ID)
	err = st.AskReview(t.Context(), fleet.Review{Job: j.ID, Agent: "coder", Call: "call/1?", Tool: "write", Title: "Write a file",
		Input: json.RawMessage(`{"path":"a.txt","content":"one\n<script>two</script>\u202e","deep":{"x":[1]}}`)})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestAnEmptyFleetSaysHowToMakeOne(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	s.call(t, "reader-a", "GET", "/fleet", nil).want(t, 200).sees(t, "tidemark fleet init", "tidemark fleet up")
	s.call(t, "reader-a", "GET", "/fleet/jobs", nil).want(t, 200).sees(t, "tidemark run AGENT")
	s.call(t, "reader-a", "GET", "/fleet/jobs?view=timeline&status=failed", nil).want(t, 200).sees(t, "No job is like that")
}

func TestTheFleetPageShowsAgentsSchedulesSkipsAndWhatWaits(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s := newTestServer(t, change, withFleetPages)
		st := withAgent(t, s)
		next := time.Date(2026, 11, 16, 2, 0, 0, 0, time.UTC)
		d := tidemark.Schedule{Agent: "coder", Name: "berlin", Status: tidemark.Idle, Cron: "0 3 * * *", Zone: "Europe/Berlin", NextRunAt: next}
		if _, err := st.PutSchedule(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		_, err := st.ClaimOccurrence(t.Context(), fleet.Occurrence{Of: d, Next: next,
			Skipped: []fleet.Skipped{{Instant: next.Add(-24 * time.Hour), Count: 1, Reason: "the last run still went on"}}})
		if err != nil {
			t.Fatal(err)
		}
		run := askWrite(t, st)
		id := run.Job().ID
		s.call(t, "writer-a", "GET", "/fleet", nil).want(t, 200).sees(t, "Waits for your answer", "Write a file", "  one\n</span><span class=\"plain\">  &lt;script&gt;two", `href="/fleet/jobs/`+id+`"`,
			"Mon 2026-11-16 03:00:00 Europe/Berlin", "the last run still went on", `value="approve"`, `data-live="fleet"`, "Nobody runs this fleet now", "not", "<script>two", "\u202e")
		s.call(t, "reader-a", "GET", "/fleet", nil).want(t, 200).sees(t, "Waits for your answer", "not", `value="approve"`, `value="deny"`)
		s.call(t, "reader-b", "GET", "/fleet", nil).want(t, 200).sees(t, "There is no agent yet", "not", "coder", id)
		var v web.FleetView
		s.call(t, "reader-a", "GET", "/fleet.json", nil).want(t, 200).into(t, &v)
		if len(v.Agents) != 1 || v.Agents[0].Status != tidemark.Running || len(v.Waiting) != 1 || len(v.Schedules) != 3 || v.Schedules[0].Name != "berlin" || len(v.Schedules[0].Skips) != 1 {
			t.Errorf("view %+v", v)
		}
	})
}

func TestThePagesShowHostileCallsWholeAndAllowOne(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	run := askWrite(t, st)
	job := run.Job().ID
	n := 0
	for name, command := range hostile.Commands() {
		n++
		input, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		lines := render.ApprovalLines("bash", input, nil)
		call := fmt.Sprintf("h%02d", n)
		if err := st.AskReview(t.Context(), fleet.Review{Job: job, Agent: "coder", Call: call, Tool: "bash", Input: input, Text: render.ApprovalText(lines)}); err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		want.WriteString(`<pre class="plain approval" tabindex="0">`)
		for _, l := range lines {
			fmt.Fprintf(&want, "<span class=%q>%s %s\n</span>", l.Kind, strings.ReplaceAll(l.Sign(), "+", "&#43;"), html.EscapeString(l.Text))
		}
		want.WriteString("</pre>")
		page := string(s.call(t, "writer-a", "GET", "/fleet/jobs/"+job, nil).want(t, 200).Body)
		// Templates write some characters by their number that the library does not.
		if !strings.Contains(strings.ReplaceAll(page, "&#43;", "+"), strings.ReplaceAll(want.String(), "&#43;", "+")) {
			t.Errorf("%s is not on the page", name)
		}
		if strings.ContainsFunc(page, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }) {
			t.Errorf("%s: the page has what does not show", name)
		}
	}
	// One answer is for one call, and for what the page showed.
	before := must[[]fleet.Review](t)(st.WaitingReviews(t.Context(), job))
	s.post(t, "writer-a", "/fleet/jobs/"+job+"/answer", url.Values{"call": {"h01"}, "answer": {"approve"}, "shown": {strings.Repeat("0", 64)}})
	s.post(t, "writer-a", "/fleet/jobs/"+job+"/answer", url.Values{"call": {""}, "answer": {"approve"}, "shown": {before[0].Digest()}})
	s.post(t, "writer-a", "/fleet/jobs/"+job+"/answer", url.Values{"call": {"h01"}, "answer": {"approve"}})
	if now := must[[]fleet.Review](t)(st.WaitingReviews(t.Context(), job)); len(now) != len(before) {
		t.Errorf("%d wait, want %d: it was approved without being shown", len(now), len(before))
	}
	v := must[fleet.Review](t)(st.Review(t.Context(), job, "h01"))
	s.post(t, "writer-a", "/fleet/jobs/"+job+"/answer", url.Values{"call": {"h01"}, "answer": {"approve"}, "shown": {v.Digest()}}).want(t, 303)
	if now := must[[]fleet.Review](t)(st.WaitingReviews(t.Context(), job)); len(now) != len(before)-1 {
		t.Errorf("%d wait, want %d", len(now), len(before)-1)
	}
}

func TestWhatAPageShowsOfACallApprovesIt(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	job := askWrite(t, st).Job().ID
	for n, title := range []string{"", ".", "/", "docs", "the folder ../\u00fc"} { // where a call acts is its title, and often the agent's own folder
		r := fleet.Review{Job: job, Agent: "coder", Call: fmt.Sprintf("t%d", n), Tool: "write", Title: title, Input: json.RawMessage(`{"path":"a.txt"}`)}
		if err := st.AskReview(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	var v web.FleetView
	s.call(t, "writer-a", "GET", "/fleet.json", nil).want(t, 200).into(t, &v)
	if len(v.Waiting) != 6 {
		t.Fatalf("%d wait", len(v.Waiting))
	}
	page := string(s.call(t, "writer-a", "GET", "/fleet", nil).want(t, 200).Body)
	for _, w := range v.Waiting {
		if !strings.Contains(page, `name="shown" value="`+w.Shown+`"`) {
			t.Errorf("%s: the page does not have what the JSON has", w.Call)
		}
		s.post(t, "writer-a", "/fleet/jobs/"+job+"/answer", url.Values{"call": {w.Call}, "answer": {"approve"}, "shown": {w.Shown}}).want(t, 303)
	}
}

func TestJobsThatWaitForAnAnswerAreListedAlone(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	s.call(t, "reader-a", "GET", "/fleet/jobs?status=waits", nil).want(t, 200).sees(t, "No job is like that")
	waits := askWrite(t, st).Job().ID
	other, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/fleet/jobs?status=waits", "/fleet/jobs?status=waits&agent=coder&since=1h", "/fleet/jobs?status=waits&view=timeline"} {
		s.call(t, "reader-a", "GET", path, nil).want(t, 200).sees(t, `href="/fleet/jobs/`+waits+`#waiting"`, `<option value="waits" selected>`, "not", other.ID)
	}
	// On a page of its own, too, it does not merely run.
	s.call(t, "reader-a", "GET", "/fleet/jobs/"+waits, nil).want(t, 200).sees(t, `<a class="badge warn" href="#waiting">waits for your answer</a>`)
	s.call(t, "reader-a", "GET", "/fleet/jobs?status=waits&agent=nobody", nil).want(t, 200).sees(t, "No job is like that", "not", waits)
	s.call(t, "reader-b", "GET", "/fleet/jobs?status=waits", nil).want(t, 200).sees(t, "not", waits)
}

func TestAllJobsThatFailedSinceYesterdayAreCounted(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	for n := range 60 {
		j := tidemark.Job{ID: fmt.Sprintf("job-2026-11-01-%06d", n), Agent: "coder", Trigger: tidemark.TriggerManual, Status: tidemark.JobFailed, StartedAt: time.Now(), FinishedAt: time.Now()}
		if _, err := st.PutJob(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	s.call(t, "reader-a", "GET", "/", nil).want(t, 200).sees(t, "<b>60</b> failed since yesterday")
}

func TestJobsAreFilteredListedPageByPageAndDrawn(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	for range 50 + 3 {
		if _, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder"}); err != nil {
			t.Fatal(err)
		}
	}
	j, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	run := runJob(t, st, j.ID)

	seen := make(map[string]bool)
	for path := "/fleet/jobs.json"; path != ""; {
		var v web.JobsView
		s.call(t, "reader-a", "GET", path, nil).want(t, 200).into(t, &v)
		for _, j := range v.Items {
			if seen[j.ID] {
				t.Errorf("%s twice", j.ID)
			}
			seen[j.ID] = true
		}
		if path = ""; v.Next != "" {
			path = "/fleet/jobs.json?cursor=" + v.Next
		}
	}
	if len(seen) != 50+4 {
		t.Errorf("%d jobs, want %d", len(seen), 50+4)
	}
	s.call(t, "reader-a", "GET", "/fleet/jobs?agent=coder", nil).want(t, 200).sees(t, "Older jobs", "agent=coder&amp;cursor=", "changed, every 30s")
	s.call(t, "reader-a", "GET", "/fleet/jobs?status=running&since=1h", nil).want(t, 200).sees(t, j.ID, "not", "Older jobs")
	for _, by := range []string{"agent", "node"} {
		s.call(t, "reader-a", "GET", "/fleet/jobs?view=timeline&since=1h&by="+by, nil).want(t, 200).sees(t, "<svg", `class="bar running"`, `aria-label="coder: running`, `<td data-label="Job">`, "changed, every 30s")
	}
	endJob(t, run)
	s.call(t, "reader-a", "GET", "/fleet/jobs?view=timeline&status=completed", nil).want(t, 200).sees(t, `class="bar completed"`, "not", "every 30s")
	s.call(t, "reader-b", "GET", "/fleet/jobs", nil).want(t, 200).sees(t, "No job has run yet", "not", j.ID)
	for _, wrong := range []string{"view=pie", "view=timeline&by=colour", "since=1y", "status=odd", "agent=%2e%2e%2f", "cursor=made-up"} {
		s.call(t, "reader-a", "GET", "/fleet/jobs?"+wrong, nil).want(t, 400)
	}
}

func TestAJobIsRunAnsweredCancelledAndRepeatedFromThePages(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s := newTestServer(t, change, withFleetPages)
		st := withAgent(t, s)
		to := s.post(t, "writer-a", "/fleet/agents/coder/run", url.Values{"prompt": {"Fix\r\nit."}}).want(t, 303).Header.Get("Location")
		id := strings.TrimPrefix(to, "/fleet/jobs/")
		if j, err := st.Job(t.Context(), id); err != nil || j.Prompt != "Fix\nit." {
			t.Fatalf("job %+v, error %v", j, err)
		}
		s.call(t, "writer-a", "GET", to, nil).want(t, 200).sees(t, "/cancel", `data-key="x"`, "data-confirm", "not", "/retry")
		s.post(t, "writer-a", to+"/cancel", nil).want(t, 303)
		s.call(t, "writer-a", "GET", to, nil).want(t, 200).sees(t, "cancelled", "/retry", "/fork", "not", "/cancel")
		s.post(t, "writer-a", to+"/cancel", nil).want(t, 409)
		for _, do := range []string{"/retry", "/fork"} {
			again := s.post(t, "writer-a", to+do, url.Values{"prompt": {"Other " + do}}).want(t, 303).Header.Get("Location")
			s.call(t, "reader-a", "GET", again, nil).want(t, 200).sees(t, "Other "+do)
		}

		run := askWrite(t, st)
		asked := jobPage(run.Job().ID)
		s.call(t, "writer-a", "GET", asked, nil).want(t, 200).sees(t, "Tidy &lt;up&gt;.", "wants to use", `value="call/1?"`)
		s.post(t, "writer-a", asked+"/answer", url.Values{"call": {"call/1?"}, "answer": {"perhaps"}}).want(t, 400)
		s.post(t, "writer-a", asked+"/answer", url.Values{"call": {"another"}, "answer": {"approve"}, "shown": {"x"}}).want(t, 404)
		s.post(t, "writer-a", asked+"/answer", url.Values{"call": {"call/1?"}, "answer": {"approve"}}).want(t, 400)                       // nothing was shown
		s.post(t, "writer-a", asked+"/answer", url.Values{"call": {"call/1?"}, "answer": {"approve"}, "shown": {"another"}}).want(t, 409) // something else was
		next := s.post(t, "writer-a", asked+"/answer", url.Values{"call": {"call/1?"}, "answer": {"deny"}, "reason": {"too wide"}, "back": {"//elsewhere.example"}}).want(t, 303).Header.Get("Location")
		if next != asked {
			t.Errorf("goes to %q, want %q", next, asked)
		}
		v, err := st.Review(t.Context(), run.Job().ID, "call/1?")
		if err != nil || v.State != fleet.ReviewDenied || v.Reason != "too wide" || !strings.Contains(v.By.Program, "writer-a") {
			t.Errorf("review %+v, error %v", v, err)
		}
		s.post(t, "writer-a", asked+"/answer", url.Values{"call": {"call/1?"}, "answer": {"approve"}, "shown": {v.Digest()}}).want(t, 409)
	})
}

func TestAnAgentIsWrittenToResetAndScheduledFromItsPage(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	const page = "/fleet/agents/coder"
	s.call(t, "writer-a", "GET", page, nil).want(t, 200).sees(t, page+"/run", page+"/send", page+"/reset", `value="disable"`, "nightly", "inbox")
	s.call(t, "reader-a", "GET", page, nil).want(t, 200).sees(t, "nightly", "not", page+"/run", page+"/send", page+"/reset", `value="disable"`)
	s.post(t, "writer-a", page+"/send", url.Values{"text": {"hello"}}).want(t, 303)
	s.post(t, "writer-a", page+"/send", url.Values{"text": {" "}}).want(t, 400)
	s.post(t, "writer-a", page+"/schedules", url.Values{"schedule": {"nightly"}, "do": {"disable"}}).want(t, 303)
	if d, err := st.Schedule(t.Context(), "coder", "nightly"); err != nil || d.Status != tidemark.Disabled {
		t.Errorf("schedule %+v, error %v", d, err)
	}
	s.call(t, "writer-a", "GET", page, nil).want(t, 200).sees(t, `value="enable"`)
	s.post(t, "writer-a", page+"/schedules", url.Values{"schedule": {"nightly"}, "do": {"enable"}}).want(t, 303)
	to := s.post(t, "writer-a", page+"/schedules", url.Values{"schedule": {"nightly"}, "do": {"run"}}).want(t, 303).Header.Get("Location")
	s.call(t, "reader-a", "GET", to, nil).want(t, 200).sees(t, "Tidy up.")
	s.post(t, "writer-a", page+"/schedules", url.Values{"schedule": {"nightly"}, "do": {"eat"}}).want(t, 400)
	s.post(t, "writer-a", page+"/schedules", url.Values{"schedule": {"none"}, "do": {"run"}}).want(t, 404)
	if _, err := st.PutAgent(t.Context(), tidemark.Agent{Name: "coder", Status: tidemark.Failing, ErrorMessage: "it <b>broke</b>"}); err != nil {
		t.Fatal(err)
	}
	s.call(t, "reader-a", "GET", page, nil).want(t, 200).sees(t, "it &lt;b&gt;broke", "not", "<b>broke")
	s.post(t, "writer-a", page+"/reset", nil).want(t, 303)
	s.call(t, "reader-a", "GET", page, nil).want(t, 200).sees(t, "not", "broke")
	s.call(t, "reader-a", "GET", "/fleet/agents/nobody", nil).want(t, 404).sees(t, "Nothing is here")
}

func TestReadersAndOtherTenantsCannotActOnAFleet(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	run := askWrite(t, st)
	job := jobPage(run.Job().ID)
	for _, path := range []string{"/fleet/agents/coder/run", "/fleet/agents/coder/send", "/fleet/agents/coder/reset", "/fleet/agents/coder/schedules",
		job + "/cancel", job + "/retry", job + "/fork", job + "/answer"} {
		form := url.Values{"text": {"x"}, "schedule": {"nightly"}, "do": {"run"}, "call": {"call/1?"}, "answer": {"approve"}}
		s.post(t, "reader-a", path, form).want(t, 403)
		s.post(t, "writer-b", path, form).want(t, 404)
		s.post(t, "", path, form).want(t, 401)
	}
	for _, path := range []string{job, job + ".json", job + "/live", "/fleet/agents/coder", "/fleet/jobs/..%2f..", "/fleet/jobs/none"} {
		s.call(t, "reader-b", "GET", path, nil).want(t, 404)
	}
	if v, err := st.Review(t.Context(), run.Job().ID, "call/1?"); err != nil || v.State != fleet.ReviewWaiting {
		t.Errorf("review %+v, error %v", v, err)
	}
}

func TestOnlyFormsOfAnotherStateAreTakenOver(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	run := askWrite(t, st)
	path := jobPage(run.Job().ID)
	page := string(s.call(t, "writer-a", "GET", path, nil).want(t, 200).Body)
	_, after, _ := strings.Cut(page, `hx-get="`+path+"?was=")
	was, _, ok := strings.Cut(after, `"`)
	if !ok {
		t.Fatalf("the page does not ask for itself: %s", page)
	}
	s.call(t, "writer-a", "GET", path+"?was="+was, nil).want(t, 200).sees(t, "not", "hx-swap-oob")
	endJob(t, run)
	s.call(t, "writer-a", "GET", path+"?was="+was, nil).want(t, 200).sees(t, `id="job-actions" hx-swap-oob`, "not", "every 2s", `sse-connect="/fleet`)
}

// liveParts reads parts of a page from a stream until it ends or n came.
func liveParts(t *testing.T, s *testServer, path, last string, n int) (ids, parts []string, ended bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer reader-a")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	id, part, name := "", "", ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "id":
			id = value
		case field == "event":
			name = value
		case field == "data":
			part += value + "\n"
		case lines.Text() == "" && name == "end":
			return ids, parts, true
		case lines.Text() == "" && name == "state":
			part, name = "", "" // of the lists
		case lines.Text() == "" && part != "":
			ids, parts = append(ids, id), append(parts, part)
			if part, name = "", ""; len(ids) == n {
				return ids, parts, false
			}
		}
	}
	return ids, parts, false
}

func TestOutputIsFollowedAsPartsOfThePageAndGoneOnWith(t *testing.T) {
	everyStore(t, func(t *testing.T, change func(*Options)) {
		s := newTestServer(t, change, withFleetPages)
		st := withAgent(t, s)
		j, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		run := runJob(t, st, j.ID)
		put(t, run, "one", "two <img src=x onerror=alert(1)>")
		yes := true
		for _, e := range []tidemark.Event{
			{Type: tidemark.EventToolUse, ToolName: "bash<b>", ToolUseID: "1", Input: json.RawMessage(`{"command":"echo <script>alert(1)</script>"}`)},
			{Type: tidemark.EventToolResult, ToolUseID: "1", Result: json.RawMessage(`"<iframe src=//x>\u001b[31m"`), Success: &yes},
			{Type: tidemark.EventError, Message: "lost\r\ndata: <b>x</b>", Code: "odd"}} {
			e.Timestamp = time.Now()
			if err := run.Emit(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		path := jobPage(j.ID)
		s.call(t, "reader-a", "GET", path, nil).want(t, 200).sees(t, `sse-connect="`+path+`/live?after=5"`, `<details class="tool">`, `id="e2"`, "&lt;img src=x",
			"not", "<img src=x", "<script>alert", "<iframe", "<b>x", "\x1b")
		ids, parts, _ := liveParts(t, s, path+"/live?after=1", "", 4)
		if got := strings.Join(ids, " "); got != "2 3 4 5" {
			t.Errorf("ids %s", got)
		}
		all := strings.Join(parts, "")
		for _, bad := range []string{"<img", "<script", "<iframe", "<b>", "\x1b", "\r"} {
			if strings.Contains(all, bad) {
				t.Errorf("%q in %s", bad, all)
			}
		}
		endJob(t, run)
		ids, _, ended := liveParts(t, s, path+"/live?after=1", "4", 9)
		if got := strings.Join(ids, " "); got != "5" || !ended {
			t.Errorf("ids %s, ended %v", got, ended)
		}
		s.call(t, "reader-a", "GET", path, nil).want(t, 200).sees(t, "two &lt;img", "not", `sse-connect="/fleet`)
		s.call(t, "reader-a", "GET", path+"/live?after=x", nil).want(t, 400)
	})
}

func TestLongOutputIsShownFromItsEndInParts(t *testing.T) {
	s := newTestServer(t, withFleetPages)
	st := withAgent(t, s)
	j, err := st.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	run := runJob(t, st, j.ID)
	var events []tidemark.Event
	for range 200 + 50 {
		events = append(events, tidemark.Event{Type: tidemark.EventAssistant, Content: "line", Timestamp: time.Now()})
	}
	events = append(events, tidemark.Event{Type: tidemark.EventAssistant, Content: strings.Repeat("é", (16 << 10)), Timestamp: time.Now()})
	if err := run.Emit(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	endJob(t, run)
	var v web.JobView
	s.call(t, "reader-a", "GET", jobPage(j.ID)+".json", nil).want(t, 200).into(t, &v)
	if len(v.Output.Events) != 200 || v.Output.First != 52 || v.Output.Last != 251 || !v.Output.Events[200-1].Cut {
		t.Errorf("%d events from %d to %d", len(v.Output.Events), v.Output.First, v.Output.Last)
	}
	s.call(t, "reader-a", "GET", jobPage(j.ID), nil).want(t, 200).sees(t, "?before=52", "/output?offset=250&amp;limit=1")
	s.call(t, "reader-a", "GET", jobPage(j.ID)+".json?before=52", nil).want(t, 200).into(t, &v)
	if len(v.Output.Events) != 51 || v.Output.First != 1 || v.Output.Newest {
		t.Errorf("%d events from %d", len(v.Output.Events), v.Output.First)
	}
	s.call(t, "reader-a", "GET", jobPage(j.ID)+"?before=1", nil).want(t, 200)
	s.call(t, "reader-a", "GET", jobPage(j.ID)+"?before=0", nil).want(t, 400)
}

// jobPage is where the page of a job is.
func jobPage(id string) string { return "/fleet/jobs/" + url.PathEscape(id) }
