package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/herdctl"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

// glass is a mirror with its store.
type glass struct {
	*mirrored
	t   *testing.T
	s   *stage
	dir string
}

func newGlass(t *testing.T) *glass {
	g := &glass{new(mirrored), t, newStage(t), filepath.Join(t.TempDir(), "ops", "mirror")}
	t.Cleanup(g.close)
	return g
}

func (g *glass) look() {
	g.t.Helper()
	if err := g.update(g.t.Context(), g.s.store, g.dir); err != nil {
		g.t.Fatal(err)
	}
}

func (g *glass) read(name string) string {
	g.t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, filepath.FromSlash(name)))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(b)
}

// files are what is in the mirror, by name.
func (g *glass) files() map[string]fs.FileInfo {
	g.t.Helper()
	all := make(map[string]fs.FileInfo)
	err := filepath.WalkDir(g.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		all[name] = info
		return err
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return all
}

// job runs a job of agent a up to where end says; "": it runs on.
func (g *glass) job(end string, lines ...string) *fleet.JobRun {
	g.t.Helper()
	j, err := g.s.store.AddJob(g.t.Context(), tidemark.Job{Agent: "a", Trigger: tidemark.TriggerManual, Prompt: "go\non"})
	if err != nil {
		g.t.Fatal(err)
	}
	run, err := g.s.store.StartJob(g.t.Context(), j.ID, tidemark.Holder{Program: "test", PID: 1}, fleet.SlotLimits{})
	if err != nil {
		g.t.Fatal(err)
	}
	g.emit(run, lines...)
	if end != "" {
		g.finish(run, end)
	}
	return run
}

func (g *glass) emit(run *fleet.JobRun, lines ...string) {
	g.t.Helper()
	for _, line := range lines {
		if err := run.Emit(g.t.Context(), tidemark.Event{Type: tidemark.EventAssistant, Content: line, Timestamp: time.Now()}); err != nil {
			g.t.Fatal(err)
		}
	}
}

func (g *glass) finish(run *fleet.JobRun, reason string) {
	g.t.Helper()
	_, err := run.Finish(g.t.Context(), func(j *tidemark.Job) {
		j.Status, j.ExitReason, j.SessionID, j.FinishedAt = statusFor(reason), reason, "s-1", time.Now()
	}, func(a *tidemark.Agent, j tidemark.Job) {
		a.LastJob = j.ID
		a.Session = &tidemark.AgentSession{ID: "s-1", CreatedAt: time.Now(), LastUsedAt: time.Now(), Jobs: 1, RunMode: fleet.RunAutonomous}
	}, nil)
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *glass) agent() {
	g.t.Helper()
	if _, err := g.s.store.PutAgent(g.t.Context(), tidemark.Agent{Name: "a", Status: tidemark.Idle}); err != nil {
		g.t.Fatal(err)
	}
}

func TestAMirrorIsWhatHerdctlWouldHaveWritten(t *testing.T) {
	g := newGlass(t)
	g.agent()
	if err := g.s.store.AppendAgentLog(t.Context(), "a", 0, tidemark.Event{Type: tidemark.EventSystem, Content: "hello", Timestamp: time.Now()}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{tidemark.ExitEndTurn: "completed success", tidemark.ExitStopSequence: "completed success", tidemark.ExitMaxTurns: "completed max_turns",
		tidemark.ExitTimeout: "failed timeout", tidemark.ExitCancelled: "cancelled cancelled", tidemark.ExitInterrupt: "failed error", tidemark.ExitError: "failed error"}
	ids := map[string]string{}
	for reason := range want {
		ids[g.job(reason, "one", "two").Job().ID] = reason
	}
	g.look()
	for id, reason := range ids {
		status, exit, _ := strings.Cut(want[reason], " ")
		if text := g.read("jobs/" + id + ".yaml"); !strings.Contains(text, "\nstatus: "+status+"\nexit_reason: "+exit+"\n") || !strings.Contains(text, "output_file: "+id+".jsonl\n") {
			t.Errorf("%s:\n%s", reason, text)
		}
		if text := g.read("jobs/" + id + ".jsonl"); strings.Count(text, "\n") != 2 {
			t.Errorf("%s:\n%s", reason, text)
		}
	}
	for _, key := range []string{"agent_name", "session_id", "created_at", "last_used_at", "job_count", "mode"} {
		if text := g.read("sessions/a.json"); !strings.Contains(text, `"`+key+`"`) {
			t.Errorf("no %s in\n%s", key, text)
		}
	}
	if text := g.read("logs/a.log"); !strings.Contains(text, "hello") {
		t.Error(text)
	}
	fleet, err := herdctl.Tool().Fleet(t.Context(), convert.Source{FS: os.DirFS(g.dir), Path: "."})
	if err != nil {
		t.Fatal(err)
	}
	jobs := 0
	for j, err := range fleet.Jobs {
		if err != nil || ids[j.ID] == "" {
			t.Errorf("%s: %v", j.ID, err)
		}
		jobs++
	}
	if jobs != len(want) || len(fleet.Agents) != 1 || fleet.Agents[0].Session == nil || len(fleet.Skipped) > 0 {
		t.Errorf("%d jobs, agents %+v, skipped %v", jobs, fleet.Agents, fleet.Skipped)
	}
}

func TestAnIdleFleetLeavesItsMirrorAlone(t *testing.T) {
	g := newGlass(t)
	g.agent()
	g.job(tidemark.ExitSuccess, "one")
	g.job("", "still")
	g.look()
	before := g.files()
	same := func(when string) {
		t.Helper()
		after := g.files()
		for name, info := range after {
			if old := before[name]; old == nil || !os.SameFile(old, info) || !old.ModTime().Equal(info.ModTime()) {
				t.Errorf("%s: %s was written", when, name)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%s: %d files, had %d", when, len(after), len(before))
		}
	}
	for range 3 {
		g.look()
	}
	same("idle")
	g.close()
	for j := range g.s.store.Jobs(t.Context(), fleet.JobFilter{Status: tidemark.JobRunning}) {
		// What still runs is written anew: nobody knows how its file was left.
		delete(before, filepath.Join(g.dir, "jobs", j.ID+".jsonl"))
	}
	g.look()
	after := g.files()
	for name, old := range before {
		if info := after[name]; info == nil || !os.SameFile(old, info) {
			t.Errorf("another process wrote %s", name)
		}
	}
}

func TestTheOutputOfARunGrowsInItsMirror(t *testing.T) {
	g := newGlass(t)
	g.agent()
	run := g.job("", "one")
	name := "jobs/" + run.Job().ID
	g.look()
	if text := g.read(name + ".yaml"); !strings.Contains(text, "\nstatus: running\n") {
		t.Error(text)
	}
	if text := g.read("state.yaml"); !strings.Contains(text, "status: running\n    current_job: "+run.Job().ID) {
		t.Error(text)
	}
	before := g.files()[filepath.Join(g.dir, filepath.FromSlash(name+".jsonl"))]
	g.emit(run, "two", "three")
	g.look()
	after := g.files()[filepath.Join(g.dir, filepath.FromSlash(name+".jsonl"))]
	if text := g.read(name + ".jsonl"); strings.Count(text, "\n") != 3 || !strings.HasSuffix(text, "}\n") || !os.SameFile(before, after) {
		t.Errorf("not three lines in the same file:\n%s", text)
	}
	// What somebody did to the file is made good with the next line.
	if err := os.WriteFile(filepath.Join(g.dir, filepath.FromSlash(name+".jsonl")), []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.emit(run, "four")
	g.finish(run, tidemark.ExitSuccess)
	g.look()
	if text := g.read(name + ".jsonl"); strings.Count(text, "\n") != 4 || strings.Contains(text, "mine") {
		t.Error(text)
	}
	if text := g.read(name + ".yaml"); !strings.Contains(text, "\nstatus: completed\n") {
		t.Error(text)
	}
}

func TestAMirrorForgetsWhatTheStoreForgot(t *testing.T) {
	g := newGlass(t)
	g.agent()
	g.job(tidemark.ExitSuccess)
	g.look()
	g.read("sessions/a.json")
	if err := g.s.store.ResetAgent(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	g.look()
	if _, err := os.Stat(filepath.Join(g.dir, "sessions", "a.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the session is still there: %v", err)
	}
	g.close()
	stale := []string{"sessions/gone.json", "jobs/job-2026-01-01-aaaaaa.yaml", "jobs/job-2026-01-01-aaaaaa.jsonl", "jobs/x.yaml.tmp"}
	for _, name := range stale {
		if err := os.WriteFile(filepath.Join(g.dir, filepath.FromSlash(name)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.look()
	for _, name := range stale {
		if _, err := os.Stat(filepath.Join(g.dir, filepath.FromSlash(name))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}

func TestAFolderThatIsNoMirrorIsNotTouched(t *testing.T) {
	g := newGlass(t)
	g.dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(g.dir, "state.yaml"), []byte("fleet: {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	before := g.files()
	if err := g.update(t.Context(), g.s.store, g.dir); !errors.Is(err, tidemark.ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
	for name, info := range g.files() {
		if old := before[name]; old == nil || old.Mode() != info.Mode() || !old.ModTime().Equal(info.ModTime()) {
			t.Errorf("%s was touched", name)
		}
	}
}

func TestAMirrorHasOneKeeper(t *testing.T) {
	g := newGlass(t)
	g.look()
	other := new(mirrored)
	defer other.close()
	if err := other.update(t.Context(), g.s.store, g.dir); !errors.Is(err, tidemark.ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
	g.close()
	if err := other.update(t.Context(), g.s.store, g.dir); err != nil {
		t.Error(err)
	}
}

func TestAMirrorIsForItsOwnerAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean little on Windows")
	}
	g := newGlass(t)
	g.agent()
	g.job(tidemark.ExitSuccess, "one")
	g.look()
	for name, info := range g.files() {
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %s", name, info.Mode())
		}
	}
}

func TestAMirrorThatWasTakenAwayComesBack(t *testing.T) {
	g := newGlass(t)
	g.agent()
	g.look()
	if err := os.RemoveAll(g.dir); err != nil {
		t.Fatal(err)
	}
	g.job(tidemark.ExitSuccess, "one")
	if err := g.update(t.Context(), g.s.store, g.dir); err == nil {
		t.Fatal("wrote into a folder that is gone")
	}
	g.look()
	g.read("state.yaml")
}

func TestADaemonKeepsTheMirrorThatItsFileNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGlass(t)
		f := &file.File{Agents: []file.Agent{every("a", 5*time.Second, nil)}, Mirror: file.Mirror{Dir: g.dir}}
		d := g.s.daemon(f, "one")
		g.s.takes = time.Hour
		ctx, stop := context.WithCancel(t.Context())
		last := d.keepMirror(ctx)
		time.AfterFunc(8*time.Second, func() {
			if text := g.read("state.yaml"); !strings.Contains(text, "      status: running") {
				t.Errorf("the schedule does not run:\n%s", text)
			}
			stop()
		})
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
		last()
		jobs := g.s.jobs()
		if len(jobs) != 1 {
			t.Fatalf("%v", jobs)
		}
		if text := g.read("jobs/" + jobs[0].ID + ".yaml"); !strings.Contains(text, "\nstatus: failed\nexit_reason: error\n") {
			t.Errorf("an interrupted job:\n%s", text)
		}
	})
}
