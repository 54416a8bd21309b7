package daemon

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

// called is a fleet with an agent that can be called.
func called() *file.File {
	return &file.File{Webhooks: file.Webhooks{SecretEnv: "ALL"}, Agents: []file.Agent{{Name: "a", Limits: file.Limits{MaxConcurrent: 1}, Schedules: []file.Schedule{
		{Name: "push", Type: fleet.TypeWebhook, Prompt: "Look at this push.", SecretEnv: "KEY"},
		{Name: "bare", Type: fleet.TypeWebhook},
		{Name: "unset", Type: fleet.TypeWebhook, SecretEnv: "UNSET"},
		{Name: "tick", Type: fleet.TypeInterval, Every: time.Hour, Missed: fleet.MissedOnce, From: fleet.FromStart, Prompt: "go"},
	}}}}
}

var keys = map[string]string{"KEY": "hush", "ALL": "all"}

// post calls a webhook and returns the status and the job of the answer.
func post(t *testing.T, h http.Handler, path, key, delivery, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	if delivery == "" {
		delivery = rand.Text()
	}
	r.Header.Set(headerDelivery, delivery)
	r.Header.Set(headerSignature, signature(key, time.Now(), path, delivery, []byte(body)))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var answer struct{ Job string }
	if w.Code < 300 {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Job == "" {
			t.Errorf("answer %q: %v", w.Body, err)
		}
	}
	return w.Code, answer.Job
}

func TestACallMakesAJobWithTheBodyAsData(t *testing.T) {
	s := newStage(t)
	g, _ := s.endpointsOf(called(), "one", nil)
	server := httptest.NewServer(g.Handler(secrets(keys)))
	defer server.Close()
	body := `{"ref":"main"}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/hooks/a/push", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(headerDelivery, "1")
	req.Header.Set(headerSignature, signature("hush", time.Now(), "/hooks/a/push", "1", []byte(body)))
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	jobs := s.jobs()
	if resp.StatusCode != http.StatusAccepted || len(jobs) != 1 {
		t.Fatalf("%d, %v", resp.StatusCode, jobs)
	}
	j := jobs[0]
	if j.Trigger != tidemark.TriggerWebhook || j.Schedule != "push" || j.Status != tidemark.JobPending ||
		!strings.HasPrefix(j.Prompt, "Look at this push.\n\n") || !strings.HasSuffix(j.Prompt, "\n\n"+body) {
		t.Errorf("%+v", j)
	}
	if code, id := post(t, g.Handler(secrets(keys)), "/hooks/a/bare", "all", "", "\xffraw"); code != http.StatusAccepted {
		t.Errorf("the secret of all: %d", code)
	} else if j, err := s.store.Job(t.Context(), id); err != nil || j.Prompt != "\uFFFDraw" {
		t.Errorf("%q, %v", j.Prompt, err)
	}
}

func TestWhoHasNoRightSignatureLearnsNothing(t *testing.T) {
	s := newStage(t)
	g, told := s.endpointsOf(called(), "one", nil)
	h := g.Handler(secrets(keys))
	large := strings.Repeat("x", maxIncoming+1)
	var answers []string
	now := time.Now()
	sign := func(key, path, body string) string { return signature(key, now, path, "1", []byte(body)) }
	push := "/hooks/a/push"
	plain := hmac.New(sha256.New, []byte("hush"))
	plain.Write([]byte("x"))
	for name, c := range map[string]struct {
		method, path, signature, body string
		want                          int
	}{
		"wrong signature":    {"POST", push, sign("wrong", push, "x"), "x", 401},
		"no signature":       {"POST", push, "", "x", 401},
		"of another body":    {"POST", push, sign("hush", push, "y"), "x", 401},
		"of another one":     {"POST", push, sign("all", push, "x"), "x", 401},
		"for another path":   {"POST", push, sign("hush", "/hooks/a/bare", "x"), "x", 401},
		"with a query":       {"POST", push + "?x=1", sign("hush", push, "x"), "x", 401},
		"another delivery":   {"POST", push, signature("hush", now, push, "2", []byte("x")), "x", 401},
		"too old":            {"POST", push, signature("hush", now.Add(-signedFor-time.Minute), push, "1", []byte("x")), "x", 401},
		"too early":          {"POST", push, signature("hush", now.Add(signedFor+time.Minute), push, "1", []byte("x")), "x", 401},
		"another time":       {"POST", push, strings.Replace(sign("hush", push, "x"), "t=", "t=0", 1), "x", 401},
		"of the body alone":  {"POST", push, "sha256=" + hex.EncodeToString(plain.Sum(nil)), "x", 401},
		"unknown schedule":   {"POST", "/hooks/a/nothing", sign("all", "/hooks/a/nothing", "x"), "x", 401},
		"unknown agent":      {"POST", "/hooks/b/push", sign("hush", "/hooks/b/push", "x"), "x", 401},
		"no agent's name":    {"POST", "/hooks/..%2F..%2Fa/push", sign("hush", "/hooks/..%2F..%2Fa/push", "x"), "x", 401},
		"not a webhook":      {"POST", "/hooks/a/tick", sign("all", "/hooks/a/tick", "x"), "x", 401},
		"secret not set":     {"POST", "/hooks/a/unset", sign("", "/hooks/a/unset", "x"), "x", 401},
		"not set, once more": {"POST", "/hooks/a/unset", sign("", "/hooks/a/unset", "x"), "x", 401},
		"large":              {"POST", push, sign("hush", push, large), large, 413},
		"large, unknown":     {"POST", "/hooks/b/push", "", large, 413},
		"read":               {"GET", push, "", "", 405},
		"read, unknown":      {"GET", "/hooks/b/push", "", "", 405},
		"elsewhere":          {"POST", "/hooks/a", "", "x", 404},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set(headerDelivery, "1")
		r.Header.Set(headerSignature, c.signature)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", name, w.Code, c.want)
		}
		if w.Code == http.StatusUnauthorized {
			answers = append(answers, w.Body.String())
		}
	}
	for _, a := range answers {
		if a != answers[0] {
			t.Errorf("answers differ: %q and %q", a, answers[0])
		}
	}
	if jobs := s.jobs(); len(jobs) != 0 {
		t.Errorf("%v", jobs)
	}
	if len(*told) != 1 || !strings.Contains((*told)[0], "UNSET") {
		t.Errorf("told %q", *told)
	}
}

func TestADeliveryMakesOneJobOverAllDaemons(t *testing.T) {
	s := newStage(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, fresh := map[string]int{}, 0
	for _, name := range []string{"one", "two"} {
		g, _ := s.endpointsOf(called(), name, nil)
		h := g.Handler(secrets(keys))
		for range 4 {
			wg.Go(func() {
				code, id := post(t, h, "/hooks/a/push", "hush", "delivery-1", "x")
				mu.Lock()
				defer mu.Unlock()
				ids[id]++
				if code == http.StatusAccepted {
					fresh++
				}
			})
		}
	}
	wg.Wait()
	if len(ids) != 1 || fresh != 1 || len(s.jobs()) != 1 {
		t.Errorf("%v, %d new, %d jobs", ids, fresh, len(s.jobs()))
	}
	g, _ := s.endpointsOf(called(), "three", nil)
	for _, c := range []struct{ path, key, delivery string }{
		{"/hooks/a/push", "hush", "delivery-2"}, {"/hooks/a/bare", "all", "delivery-1"}, {"/hooks/a/push", "hush", ""}, {"/hooks/a/push", "hush", ""},
	} {
		if code, _ := post(t, g.Handler(secrets(keys)), c.path, c.key, c.delivery, "x"); code != http.StatusAccepted {
			t.Errorf("%+v: %d", c, code)
		}
	}
	if code, _ := post(t, g.Handler(secrets(keys)), "/hooks/a/push", "hush", strings.Repeat("x", maxDelivery+1), "x"); code != http.StatusBadRequest {
		t.Errorf("a long delivery: %d", code)
	}
	if n := len(s.jobs()); n != 5 {
		t.Errorf("%d jobs", n)
	}
}

func TestACallWithoutADeliveryIsNotTaken(t *testing.T) {
	s := newStage(t)
	g, _ := s.endpointsOf(called(), "one", nil)
	r := httptest.NewRequest(http.MethodPost, "/hooks/a/push", strings.NewReader("x"))
	r.Header.Set(headerSignature, signature("hush", time.Now(), "/hooks/a/push", "", []byte("x")))
	w := httptest.NewRecorder()
	g.Handler(secrets(keys)).ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized || len(s.jobs()) != 0 {
		t.Errorf("%d, %v", w.Code, s.jobs())
	}
}

func TestADisabledWebhookMakesNoJob(t *testing.T) {
	s := newStage(t)
	g, _ := s.endpointsOf(called(), "one", nil)
	if err := s.store.ChangeSchedule(t.Context(), "a", "push", func(d *tidemark.Schedule) error { d.Status = tidemark.Disabled; return nil }); err != nil {
		t.Fatal(err)
	}
	if code, _ := post(t, g.Handler(secrets(keys)), "/hooks/a/push", "hush", "", "x"); code != http.StatusConflict || len(s.jobs()) != 0 {
		t.Errorf("%d, %v", code, s.jobs())
	}
}

func TestLimitsHoldForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		d := s.daemon(called(), "one")
		if err := d.sync(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		h := newEndpoints(d, nil).Handler(secrets(keys))
		for range 4 {
			post(t, h, "/hooks/a/push", "hush", "", "x")
		}
		s.up(20*time.Second, d)
		if s.most["a"] != 1 || len(s.began) != 4 {
			t.Errorf("%d at once, %v", s.most["a"], s.began)
		}
	})
}

func get(h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestADaemonIsHealthyWhileItGoesRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		g, _ := s.endpointsOf(called(), "one", nil)
		h := g.Handler(secrets(keys))
		if code, _ := get(h, "/healthz"); code != http.StatusServiceUnavailable {
			t.Errorf("before the first round: %d", code)
		}
		g.lastRound.Store(time.Now().UnixNano())
		time.Sleep(healthyFor - time.Second)
		if code, _ := get(h, "/healthz"); code != http.StatusOK {
			t.Errorf("soon after a round: %d", code)
		}
		time.Sleep(time.Second)
		if code, _ := get(h, "/healthz"); code != http.StatusServiceUnavailable {
			t.Errorf("long after a round: %d", code)
		}
	})
}

func TestMetricsCountWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		g, _ := s.endpointsOf(called(), "one", nil)
		h := g.Handler(secrets(keys))
		post(t, h, "/hooks/a/push", "hush", "", "x")
		g.hooks(t.Context(), file.Agent{Name: "a"}, ended(tidemark.JobFailed))
		g.hooks(t.Context(), file.Agent{Name: "a"}, ended(tidemark.JobFailed))
		g.lastRound.Store(time.Unix(1_700_000_000, 500_000_000).UnixNano())
		code, text := get(h, "/metrics")
		for _, want := range []string{
			"# TYPE tidemark_jobs_ended_total counter\n", "tidemark_jobs_ended_total{status=\"failed\"} 2\n", "tidemark_jobs_ended_total{status=\"completed\"} 0\n",
			"tidemark_jobs_running 0\n", "tidemark_jobs_due 1\n", "tidemark_agents{status=\"idle\"} 1\n", "tidemark_last_round_timestamp_seconds 1700000000.5\n",
		} {
			if code != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%d: no %q in\n%s", code, want, text)
			}
		}
	})
}

func TestMetricsAreNotServedWhereOnlyWebhooksComeIn(t *testing.T) {
	s := newStage(t)
	g, _ := s.endpointsOf(called(), "one", nil)
	for _, c := range []struct {
		hooks, metrics string
		at             string
		call, measure  int
	}{
		{"x:1", "x:2", "x:1", http.StatusAccepted, http.StatusNotFound},
		{"x:1", "x:2", "x:2", http.StatusNotFound, http.StatusOK},
		{"x:1", "x:1", "x:1", http.StatusAccepted, http.StatusOK},
		{"x:1", "", "x:1", http.StatusAccepted, http.StatusNotFound},
		{"", "x:2", "x:2", http.StatusNotFound, http.StatusOK},
	} {
		all := g.handlers(c.hooks, c.metrics, secrets(keys))
		call, _ := post(t, all[c.at], "/hooks/a/push", "hush", "", "x")
		measure, _ := get(all[c.at], "/metrics")
		if call != c.call || measure != c.measure || all[""] != nil {
			t.Errorf("%+v: %d and %d", c, call, measure)
		}
	}
}

func TestServeEndsWithItsContextAndNamesAWrongAddress(t *testing.T) {
	s := newStage(t)
	f := called()
	f.Webhooks.Listen = "127.0.0.1:0"
	f.Metrics.Listen = "localhost:no-such-port"
	g, _ := s.endpointsOf(f, "one", nil)
	if err := g.Serve(t.Context(), secrets(keys)); err == nil || !strings.Contains(err.Error(), "no-such-port") {
		t.Errorf("an address that is none: %v", err)
	}
	f.Metrics.Listen = ""
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- g.Serve(ctx, secrets(keys)) }()
	stop()
	if err := <-served; err != nil {
		t.Errorf("told to end: %v", err)
	}
}

func FuzzACallThatIsNotSignedMakesNoJob(f *testing.F) {
	f.Add("a", "push", "sha256=", []byte("{}"))
	f.Add("a", "unset", signature("", time.Now(), "/", "", nil), []byte{})
	f.Add("../a", "push", "sha256=zz", []byte("\x00"))
	f.Fuzz(func(t *testing.T, agent, name, signed string, body []byte) {
		s := newStage(t)
		g, _ := s.endpointsOf(called(), "one", nil)
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.SetPathValue("agent", agent)
		r.SetPathValue("name", name)
		r.Header.Set(headerSignature, signed)
		w := httptest.NewRecorder()
		g.hookHandler(secrets(keys)).ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || len(s.jobs()) != 0 {
			t.Errorf("%d, %v", w.Code, s.jobs())
		}
	})
}
