package nodes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// built returns the real program.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidemark")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/tidemark").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// hall is a fleet of several daemons on one store.
type hall struct {
	*Place
	t    *testing.T
	file string
}

// halls are the same on a file and in a database.
func halls(t *testing.T, work func(*hall)) {
	if runtime.GOOS == "windows" {
		t.Skip("daemons are told to end by SIGTERM, which this system does not have")
	}
	path := built(t)
	for _, kept := range []string{"sqlite", "postgres"} {
		t.Run(kept, func(t *testing.T) {
			t.Parallel() // they mostly wait
			dir := t.TempDir()
			h := &hall{&Place{Program: path, Dir: dir, Env: os.Environ(), Store: "sqlite:" + filepath.Join(dir, "store.db"), Flags: []string{"--no-encrypt"}}, t, filepath.Join(dir, "fleet.yaml")}
			if kept == "postgres" {
				db := pgtest.Start(t).Database(t)
				h.Store = db.Server + "&tenant=t&as=ada"
				if err := h.Migrate(t.Context(), db.Owner); err != nil {
					t.Fatal(err)
				}
			}
			work(h)
		})
	}
}

func (h *hall) writes(file string) {
	h.t.Helper()
	if err := os.WriteFile(h.file, []byte(file), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// up starts daemons. Whatever comes of the test, none is left.
func (h *hall) up(n int) (all []*Daemon) {
	h.t.Helper()
	for range n {
		d, err := h.Fleet(h.t.Context(), h.file)
		if d != nil {
			h.t.Cleanup(func() { d.Kill() })
		}
		if err != nil {
			h.t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func (h *hall) says(args ...string) string {
	h.t.Helper()
	out, err := h.command(h.t.Context(), args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("tidemark %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (h *hall) jobs() (all []tidemark.Job) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.says("jobs", "-n", "0", "--json")), &all); err != nil {
		h.t.Fatal(err)
	}
	return all
}

// until waits until the jobs are as wanted.
func (h *hall) until(wanted func([]tidemark.Job) bool) {
	h.t.Helper()
	for !wanted(h.jobs()) {
		select {
		case <-h.t.Context().Done():
			h.t.Fatal(h.t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func count(all []tidemark.Job, status string) (n int) {
	for _, j := range all {
		if j.Status == status {
			n++
		}
	}
	return n
}

// allEnded looks at a fleet that is down.
func (h *hall) allEnded() {
	h.t.Helper()
	for _, j := range h.jobs() {
		if j.Status == tidemark.JobRunning {
			h.t.Errorf("%s of %s still runs", j.ID, j.Agent)
		}
		if strings.HasSuffix(j.ErrorMessage, "is gone") {
			h.t.Errorf("%s of %s is called %s: %s", j.ID, j.Agent, j.Status, j.ErrorMessage)
		}
	}
}

// busy is a fleet whose jobs start and end all the time, and some that last.
const busy = `version: 1
limits: {max_concurrent: 6}
agents:
  - {name: quick-1, runner: command, command: [sleep, "0.1"], schedules: [{name: s, every: 1s, prompt: go}]}
  - {name: quick-2, runner: command, command: [sleep, "0.2"], schedules: [{name: s, every: 1s, prompt: go}]}
  - {name: quick-3, runner: command, command: [sleep, "0.3"], schedules: [{name: s, every: 1s, from: completion, prompt: go}]}
  - {name: quick-4, runner: command, command: [sleep, "0.1"], limits: {max_concurrent: 3}, schedules: [{name: s, every: 1s, prompt: go}]}
  - {name: long, runner: command, command: [sleep, "600"], schedules: [{name: s, every: 2s, prompt: go}]}
`

func TestAfterACleanStopOfAllDaemonsNoJobRuns(t *testing.T) {
	halls(t, func(h *hall) {
		h.writes(busy)
		for round := 1; round <= 3; round++ {
			before := count(h.jobsOrNone(), tidemark.JobCompleted)
			all := h.up(3)
			h.until(func(jobs []tidemark.Job) bool {
				return count(jobs, tidemark.JobCompleted) >= before+4*round && count(jobs, tidemark.JobRunning) > 0
			})
			switch round {
			case 1: // all at once
				for _, d := range all {
					if err := d.Signal(syscall.SIGTERM); err != nil {
						t.Fatal(err)
					}
				}
			case 2: // one after the other, while the rest goes on
				for _, d := range all {
					if err := d.Signal(syscall.SIGTERM); err != nil {
						t.Fatal(err)
					}
					if err := d.Wait(); err != nil {
						t.Fatal(err)
					}
				}
			case 3:
				h.says("fleet", "down")
			}
			for _, d := range all {
				if err := d.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			h.allEnded()
		}
	})
}

// jobsOrNone is jobs of a store that may not be there yet.
func (h *hall) jobsOrNone() []tidemark.Job {
	if h.made == 0 {
		return nil
	}
	return h.jobs()
}

func TestADaemonThatIsStoppedEndsTheJobsOfOneThatWasKilled(t *testing.T) {
	halls(t, func(h *hall) {
		h.writes("version: 1\nagents:\n  - {name: long, runner: command, command: [sleep, \"600\"], limits: {max_concurrent: 4}}\n")
		all := h.up(2)
		for range 4 {
			h.says("run", "long", "-p", "go")
		}
		h.until(func(jobs []tidemark.Job) bool { return count(jobs, tidemark.JobRunning) == 4 })
		if err := all[0].Kill(); err != nil {
			t.Fatal(err)
		}
		if err := all[1].Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := all[1].Wait(); err != nil {
			t.Fatal(err)
		}
		if jobs := h.jobs(); count(jobs, tidemark.JobInterrupted) != 4 {
			t.Errorf("%+v", jobs)
		}
	})
}

func TestJobsOfAnAgentInNoFileAreAbandonedAndSayWhy(t *testing.T) {
	halls(t, func(h *hall) {
		file := "version: 1\nlimits: {abandon_after: 2s}\nagents:\n  - {name: here, runner: command, command: [\"true\"]}\n"
		elsewhere := "  - {name: elsewhere, runner: command, command: [\"true\"]}\n"
		h.writes(file + elsewhere + "  - {name: gone, runner: command, command: [\"true\"]}\n")
		first := h.up(1)
		if err := first[0].Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := first[0].Wait(); err != nil {
			t.Fatal(err)
		}
		for _, agent := range []string{"gone", "elsewhere", "here"} {
			h.says("run", agent, "-p", "go")
		}
		// One daemon has the one agent, another the other; nobody has the third.
		h.writes(file + elsewhere)
		h.up(1)
		h.writes(file)
		h.up(1)
		h.until(func(jobs []tidemark.Job) bool {
			return count(jobs, tidemark.JobPending) == 0 && count(jobs, tidemark.JobRunning) == 0
		})
		for _, j := range h.jobs() {
			want := tidemark.JobCompleted
			if j.Agent == "gone" {
				want = tidemark.JobAbandoned
			}
			if j.Status != want || (j.ErrorMessage != "") != (j.Agent == "gone") || j.FinishedAt.IsZero() {
				t.Errorf("%s of %s is %s: %q", j.ID, j.Agent, j.Status, j.ErrorMessage)
			}
		}
		if out := h.says("jobs", "--status", "abandoned"); !strings.Contains(out, "gone") {
			t.Errorf("tidemark jobs --status abandoned:\n%s", out)
		}
	})
}
