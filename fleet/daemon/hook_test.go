package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

// secrets looks up variables as a test has set them.
func secrets(of map[string]string) func(string) string {
	return func(name string) string { return of[name] }
}

// endpointsOf are the endpoints of a daemon that runs nothing, and what it tells.
func (s *stage) endpointsOf(f *file.File, name string, secret map[string]string) (*endpoints, *[]string) {
	d := s.daemon(f, name)
	var mu sync.Mutex
	told := new([]string)
	d.o.Tell = func(_, text string) {
		mu.Lock()
		*told = append(*told, text)
		mu.Unlock()
	}
	d.o.Environ = func(file.Agent) []string { return []string{"PATH=" + os.Getenv("PATH"), "GIVEN=yes"} }
	if err := d.sync(s.t.Context(), time.Now()); err != nil {
		s.t.Fatal(err)
	}
	return newEndpoints(d, secrets(secret)), told
}

// logged is what is in the log of an agent.
func (s *stage) logged(agent string) (all []string) {
	s.t.Helper()
	for e, err := range s.store.AgentLog(s.t.Context(), agent) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, e.Message)
	}
	return all
}

func ended(status string) tidemark.Job {
	return tidemark.Job{ID: "job-2026-11-15-abcdef", Agent: "a", Trigger: tidemark.TriggerManual, Status: status, Summary: "done",
		Process: json.RawMessage(`{"mark":"hidden"}`)}
}

func needShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
}

func TestACommandGetsTheJobOnItsStandardInput(t *testing.T) {
	needShell(t)
	s, dir := newStage(t), t.TempDir()
	a := file.Agent{Name: "a", Dir: dir, Hooks: file.Hooks{
		AfterRun: []file.Hook{{Command: []string{"sh", "-c", `cat > after; echo "$GIVEN $TIDEMARK_JOB" > given`}}},
		OnError:  []file.Hook{{Command: []string{"sh", "-c", "cat > failed"}}},
	}}
	g, told := s.endpointsOf(&file.File{Agents: []file.Agent{a}}, "one", nil)
	g.hooks(t.Context(), a, ended(tidemark.JobCompleted))
	b, err := os.ReadFile(filepath.Join(dir, "after"))
	if err != nil {
		t.Fatal(err)
	}
	var j tidemark.Job
	if err := json.Unmarshal(b, &j); err != nil || j.ID != "job-2026-11-15-abcdef" || j.Summary != "done" || j.Process != nil {
		t.Errorf("%s, %v", b, err)
	}
	if given, err := os.ReadFile(filepath.Join(dir, "given")); err != nil || string(given) != "yes job-2026-11-15-abcdef\n" {
		t.Errorf("%q, %v", given, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "failed")); err == nil {
		t.Error("on_error ran for a job that was completed")
	}
	g.hooks(t.Context(), a, ended(tidemark.JobFailed))
	if _, err := os.Stat(filepath.Join(dir, "failed")); err != nil || len(*told) != 0 {
		t.Errorf("%v, %v", err, *told)
	}
}

func TestAHookThatGoesWrongIsToldAndLoggedAndTheNextOneRuns(t *testing.T) {
	needShell(t)
	s, dir := newStage(t), t.TempDir()
	a := file.Agent{Name: "a", Dir: dir, Hooks: file.Hooks{AfterRun: []file.Hook{
		{Command: []string{"sh", "-c", "echo no way >&2; exit 3"}},
		{Command: []string{"no-such-program"}},
		{Command: []string{"sh", "-c", "sleep 600 & sleep 600"}, Timeout: 100 * time.Millisecond},
		{Command: []string{"sh", "-c", "cat > last"}},
	}}}
	g, told := s.endpointsOf(&file.File{Agents: []file.Agent{a}}, "one", nil)
	g.hooks(t.Context(), a, ended(tidemark.JobCompleted))
	if len(*told) != 3 || !strings.Contains((*told)[0], "after_run 1") || !strings.Contains((*told)[0], "no way") || !strings.Contains((*told)[2], "deadline") {
		t.Errorf("told %q", *told)
	}
	if log := s.logged("a"); !slices.Equal(log, *told) {
		t.Errorf("logged %q, told %q", log, *told)
	}
	if _, err := os.Stat(filepath.Join(dir, "last")); err != nil {
		t.Error(err)
	}
}

func TestAWebhookIsSigned(t *testing.T) {
	type call struct{ signature, path, delivery, body string }
	var calls []call
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		calls = append(calls, call{r.Header.Get(headerSignature), r.URL.RequestURI(), r.Header.Get(headerDelivery), string(body)})
	}))
	defer server.Close()
	s := newStage(t)
	a := file.Agent{Name: "a", Hooks: file.Hooks{AfterRun: []file.Hook{
		{Webhook: server.URL, SecretEnv: "KEY"}, {Webhook: server.URL}, {Webhook: server.URL + "/token-in-path", SecretEnv: "UNSET"},
	}}}
	g, told := s.endpointsOf(&file.File{Agents: []file.Agent{a}}, "one", map[string]string{"KEY": "hush"})
	g.hooks(t.Context(), a, ended(tidemark.JobCompleted))
	if len(calls) != 2 {
		t.Fatalf("%d calls: one has no secret to be signed with, and must not go out", len(calls))
	}
	at, inTime := signedAt(calls[0].signature, time.Now())
	if !inTime || calls[0].signature != signature("hush", at, calls[0].path, calls[0].delivery, []byte(calls[0].body)) || calls[1].signature != "" || calls[0].delivery == calls[1].delivery {
		t.Errorf("%+v", calls)
	}
	if len(*told) != 1 || !strings.Contains((*told)[0], "UNSET") || strings.Contains((*told)[0], "token-in-path") {
		t.Errorf("told %q", *told)
	}
}

// The value was made with another program:
//
//	printf '1800000000\n/hooks/a/push\nd-1\n{"ref":"main"}' | openssl dgst -sha256 -hmac hush
func TestTheSignatureIsWhatOthersMakeOfTheSame(t *testing.T) {
	got := signature("hush", time.Unix(1_800_000_000, 0), "/hooks/a/push", "d-1", []byte(`{"ref":"main"}`))
	if want := "t=1800000000,v1=329618a0fc207f62181f9c392b6e830ba5e83c2633350faf7c09624f236b36f7"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// answers is a host that answers with one status after the other.
type answers struct {
	codes []int
	seen  []string // the delivery of each call
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code := a.codes[min(len(a.seen), len(a.codes)-1)]
	a.seen = append(a.seen, r.Header.Get(headerDelivery))
	if code == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func TestAWebhookIsCalledAgainWhenThatMayHelp(t *testing.T) {
	for name, c := range map[string]struct {
		codes []int
		calls int
		wrong bool
	}{
		"works":                {[]int{204}, 1, false},
		"works the third time": {[]int{503, 429, 200}, 3, false},
		"never works":          {[]int{500}, 3, true},
		"is refused":           {[]int{403}, 1, true},
		"hangs":                {[]int{0}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				a := file.Agent{Name: "a", Hooks: file.Hooks{AfterRun: []file.Hook{{Webhook: "https://host.test/secret-path"}}}}
				g, told := s.endpointsOf(&file.File{Agents: []file.Agent{a}}, "one", nil)
				host := &answers{codes: c.codes}
				g.transport = host
				g.hooks(t.Context(), a, ended(tidemark.JobCompleted))
				if len(host.seen) != c.calls || len(slices.Compact(host.seen)) != 1 {
					t.Errorf("calls %q, want %d of one delivery", host.seen, c.calls)
				}
				if (len(*told) > 0) != c.wrong || len(s.logged("a")) != len(*told) {
					t.Errorf("told %q, logged %q", *told, s.logged("a"))
				}
				if strings.Contains(strings.Join(*told, ""), "secret-path") {
					t.Errorf("told %q", *told)
				}
			})
		})
	}
}

func TestARedirectToAnotherHostIsNotFollowed(t *testing.T) {
	var elsewhere, here int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	mux := http.NewServeMux()
	mux.Handle("/away", http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	mux.Handle("/bare", http.RedirectHandler("/there", http.StatusFound))
	mux.Handle("/moved", http.RedirectHandler("/there", http.StatusPermanentRedirect))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusTemporaryRedirect))
	mux.HandleFunc("/there", func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || len(body) == 0 || r.Method != http.MethodPost {
			t.Errorf("%s with %d bytes, %v", r.Method, len(body), err)
		}
		here++
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	s := newStage(t)
	a := file.Agent{Name: "a"}
	for _, path := range []string{"/away", "/bare", "/moved", "/loop"} {
		a.Hooks.AfterRun = append(a.Hooks.AfterRun, file.Hook{Webhook: server.URL + path})
	}
	g, told := s.endpointsOf(&file.File{Agents: []file.Agent{a}}, "one", nil)
	g.hooks(t.Context(), a, ended(tidemark.JobCompleted))
	if elsewhere != 0 || here != 1 || len(*told) != 3 {
		t.Errorf("%d elsewhere, %d here, told %q", elsewhere, here, *told)
	}
}

func TestHooksOfADaemonThatStopsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		hang := file.Hook{Webhook: "https://host.test/", Timeout: time.Hour}
		a := file.Agent{Name: "a", Hooks: file.Hooks{AfterRun: []file.Hook{hang, hang, hang}}}
		g, told := s.endpointsOf(&file.File{Agents: []file.Agent{a}}, "one", nil)
		g.transport = &answers{codes: []int{0}}
		began := time.Now()
		g.hooks(context.WithoutCancel(t.Context()), a, ended(tidemark.JobInterrupted))
		if took := time.Since(began); took >= stopTimeout || len(*told) != 3 || len(s.logged("a")) != 3 {
			t.Errorf("took %s, told %q", took, *told)
		}
	})
}
