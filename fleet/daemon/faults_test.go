package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
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
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
)

// Eighteen faults that were seen in a fleet of another house, each as a test
// that it is not one of this one.

func TestFault01ScheduledJobsRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.takes = time.Hour
		s.up(15*time.Second, s.daemon(&file.File{Agents: []file.Agent{every("a", 0, together), every("b", 0, together), every("c", 0, together)}}, "one"))
		if len(s.began) != 3 || s.began[0][2:] != s.began[1][2:] || s.began[0][2:] != s.began[2][2:] {
			t.Errorf("one waits for the other: %v", s.began)
		}
	})
}

func TestFault02AnIntervalCountsFromWhatTheFileSays(t *testing.T) {
	for from, want := range map[string]time.Duration{fleet.FromStart: 4 * time.Second, fleet.FromCompletion: 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.takes = 3 * time.Second
			s.up(40*time.Second, s.daemon(&file.File{Agents: []file.Agent{every("a", 4*time.Second, func(s *file.Schedule) { s.From = from })}}, "one"))
			jobs := s.jobs()
			slices.SortFunc(jobs, func(a, b tidemark.Job) int { return a.Occurrence.Compare(b.Occurrence) })
			for i := 1; i < len(jobs); i++ {
				if apart := jobs[i].Occurrence.Sub(jobs[i-1].Occurrence); apart < want || apart > want+2*lookEvery {
					t.Errorf("from %s: %s after the one before, want %s", from, apart, want)
				}
			}
			if len(jobs) < 4 {
				t.Errorf("from %s: %d jobs", from, len(jobs))
			}
		})
	}
}

func TestFault03ConcurrentChangesAllSurvive(t *testing.T) {
	b := memory.New()
	s := fleetOn(b, nil)
	if _, err := s.PutSchedule(t.Context(), tidemark.Schedule{Agent: "a", Name: "tick", Status: tidemark.Idle}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for {
				err := fleetOn(b, nil).ChangeSchedule(context.Background(), "a", "tick", func(d *tidemark.Schedule) error { d.Prompt += "x"; return nil })
				if !errors.Is(err, tidemark.ErrConflict) { // one that lost too often is told so, and asks again
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	if d, err := s.Schedule(t.Context(), "a", "tick"); err != nil || len(d.Prompt) != 50 {
		t.Errorf("%d of 50 changes survive, %v", len(d.Prompt), err)
	}
}

// counting counts what is written, and finds what a test says damaged.
type counting struct {
	tidemark.Backend
	mu      sync.Mutex
	commits int
	damaged string // a kind of records
}

func (c *counting) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	c.mu.Lock()
	c.commits++
	c.mu.Unlock()
	return c.Backend.Commit(ctx, b)
}

func (c *counting) harm(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.damaged = kind
}

func (c *counting) harmed(key tidemark.Key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if key.Kind == c.damaged {
		return &tidemark.Damage{Key: key}
	}
	return nil
}

func (c *counting) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if err := c.harmed(key); err != nil {
		return tidemark.Record{Key: key}, err
	}
	return c.Backend.Get(ctx, key)
}

func (c *counting) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		for r, err := range c.Backend.List(ctx, q) {
			if harm := c.harmed(r.Key); harm != nil {
				r, err = tidemark.Record{Key: r.Key}, harm
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// on runs a daemon of a stage over another backend, beside the test.
func (s *stage) on(b tidemark.Backend, f *file.File) (stop func()) {
	d := s.daemon(f, "one")
	d.o.Store = fleetOn(b, nil)
	d.o.Dispatch = inProcess{d.o.Store, d.Wake}
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
}

func TestFault04AnIdleFleetWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		c := &counting{Backend: s.backend}
		stop := s.on(c, &file.File{Agents: []file.Agent{every("a", 24*time.Hour, nil)}})
		time.Sleep(time.Minute)
		before := c.commits
		time.Sleep(time.Hour)
		if after := c.commits; after != before || before == 0 {
			t.Errorf("%d commits after a minute, %d after an hour", before, after)
		}
		stop()
	})
}

func TestFault05DamagedStateIsNotTakenForEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		c := &counting{Backend: s.backend}
		stop := s.on(c, &file.File{Agents: []file.Agent{every("a", time.Hour, nil)}})
		time.Sleep(time.Hour + time.Minute)
		was, err := s.store.Schedule(t.Context(), "a", "tick")
		if err != nil || len(s.began) != 1 {
			t.Fatalf("%v, %v", s.began, err)
		}
		c.harm("schedule")
		time.Sleep(30 * time.Minute)
		c.harm("")
		if is, err := s.store.Schedule(t.Context(), "a", "tick"); err != nil || !is.NextRunAt.Equal(was.NextRunAt) || len(s.began) != 1 {
			t.Errorf("it was replaced, or ran again: %+v, %v, %v", is, s.began, err)
		}
		time.Sleep(time.Hour)
		if len(s.began) != 2 {
			t.Errorf("it does not go on: %v", s.began)
		}
		stop()
	})
}

func TestFault06TwoFleetsOnOneStoreRunNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		f := &file.File{Agents: []file.Agent{every("a", 5*time.Second, nil)}}
		s.up(62*time.Second, s.daemon(f, "one"), s.daemon(f, "two"), s.daemon(f, "three"))
		seen := map[time.Time]bool{}
		for _, j := range s.jobs() {
			if seen[j.Occurrence] {
				t.Errorf("%s ran twice", j.Occurrence)
			}
			seen[j.Occurrence] = true
		}
		if len(seen) < 12 || len(seen) > 13 || len(s.began) != len(seen) {
			t.Errorf("%d instants, %d runs, want 12 or 13 of both", len(seen), len(s.began))
		}
		for _, pid := range []int{1, 2} { // and neither hides the other
			if err := s.store.AddDaemon(t.Context(), fleet.Daemon{Holder: tidemark.Holder{Host: "here", PID: pid}}); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := s.store.Daemons(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%v, %v", all, err)
		}
	})
}

func TestFault07AKilledFleetLeavesNoJobThatRunsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		j := mustAdd(t, s.store, tidemark.Job{Agent: "a", Trigger: tidemark.TriggerManual})
		dead, err := s.store.StartJob(t.Context(), j.ID, tidemark.Holder{Program: "dead"}, fleet.SlotLimits{Agent: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := dead.Note(t.Context(), func(j *tidemark.Job) { j.SessionID = "s1" }); err != nil {
			t.Fatal(err)
		}
		s.up(2*time.Second, s.daemon(&file.File{Agents: []file.Agent{every("a", time.Hour, nil)}}, "next"))
		got := s.jobs()[0]
		states, err := s.store.AgentStates(t.Context())
		if got.Status != tidemark.JobInterrupted || got.SessionID != "s1" || got.OutputFile == "" || got.FinishedAt.IsZero() || err != nil || states[0].Status != tidemark.Idle {
			t.Errorf("%+v, %+v, %v", got, states, err)
		}
	})
}

func mustAdd(t *testing.T, s *fleet.Store, j tidemark.Job) tidemark.Job {
	t.Helper()
	j, err := s.AddJob(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestFault08ACancelFromAnotherProcessEndsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.takes = time.Hour
		stop := s.on(s.backend, &file.File{Agents: []file.Agent{{Name: "a", Limits: file.Limits{MaxConcurrent: 1}, Retries: file.Retries{Attempts: 1}}}})
		j := mustAdd(t, s.store, tidemark.Job{Agent: "a", Trigger: tidemark.TriggerManual})
		time.Sleep(5 * time.Second)
		if ended, err := fleetOn(s.backend, nil).CancelJob(t.Context(), j.ID, tidemark.Holder{Program: "me"}); err != nil || ended {
			t.Fatalf("%v, %v", ended, err)
		}
		time.Sleep(5 * time.Second)
		if got := s.jobs()[0]; got.Status != tidemark.JobCancelled || s.at["a"] != 0 {
			t.Errorf("%+v; %d go on", got, s.at["a"])
		}
		stop()
	})
}

func TestFault09FourTriggersAtOnceRunOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		for range 4 {
			mustAdd(t, s.store, tidemark.Job{Agent: "a", Trigger: tidemark.TriggerManual})
		}
		f := &file.File{Agents: []file.Agent{{Name: "a", Limits: file.Limits{MaxConcurrent: 1}, Retries: file.Retries{Attempts: 1}}}}
		s.up(20*time.Second, s.daemon(f, "one"), s.daemon(f, "two"))
		if s.most["a"] != 1 || len(s.began) != 4 {
			t.Errorf("%d at once, %d in all", s.most["a"], len(s.began))
		}
	})
}

// taken puts another record where the first job would go.
type taken struct {
	tidemark.Backend
	first tidemark.Record
}

func (b *taken) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if at := slices.IndexFunc(batch.Puts, func(r tidemark.Record) bool { return r.Kind == "job" }); at >= 0 && b.first.ID == "" {
		b.first = batch.Puts[at]
		other := tidemark.Batch{ID: "other", At: batch.At, Puts: []tidemark.Record{b.first}}
		if _, err := b.Backend.Commit(ctx, other); err != nil {
			return tidemark.Receipt{}, err
		}
	}
	return b.Backend.Commit(ctx, batch)
}

func TestFault10AJobNeverTakesTheIDOfAnother(t *testing.T) {
	b := &taken{Backend: memory.New()}
	s := fleetOn(b, nil)
	j := mustAdd(t, s, tidemark.Job{Agent: "a"})
	if other, err := s.Job(t.Context(), b.first.ID); err != nil || other.ID == j.ID {
		t.Errorf("%s was replaced by %s, %v", other.ID, j.ID, err)
	}
}

// sayings is a job that says so much as it can before the power goes.
func sayings(ctx context.Context, b tidemark.Backend) (id string, said int, err error) {
	s := fleetOn(b, nil)
	j, err := s.AddJob(ctx, tidemark.Job{Agent: "a"})
	if err != nil {
		return "", 0, err
	}
	r, err := s.StartJob(ctx, j.ID, tidemark.Holder{Program: "one"}, fleet.SlotLimits{})
	for ; err == nil && said < 5; said++ {
		if err = r.Emit(ctx, tidemark.Event{Type: tidemark.EventAssistant, Content: fmt.Sprint("line ", said), Timestamp: time.Now().UTC()}); err != nil {
			break
		}
	}
	return j.ID, said, err
}

// cutAt cuts the power at one change of the disk, with a loss, lets another
// process say one thing more, and returns all lines.
func cutAt(t *testing.T, at int, loss crashfs.Loss) (over bool) {
	t.Helper()
	ctx, disk := t.Context(), crashfs.New()
	first, err := files.Open(ctx, "store", &files.Options{Create: true, FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	disk.StopAt(at)
	id, said, err := sayings(ctx, first)
	over = err == nil
	if id == "" {
		return over
	}
	next, err := files.Open(ctx, "store", &files.Options{FS: disk.Cut(loss, uint64(at))})
	if err != nil {
		t.Fatalf("cut at %d: %v", at, err)
	}
	s := fleetOn(next, nil)
	length, err := s.OutputLength(ctx, id)
	if err != nil || int(length) < said {
		t.Fatalf("cut at %d: %d lines were acknowledged, %d are there, %v", at, said, length, err)
	}
	more := tidemark.Event{Type: tidemark.EventSystem, Content: "fresh", Timestamp: time.Now().UTC()}
	if err := s.AppendOutput(ctx, id, length, more); err != nil {
		t.Fatalf("cut at %d: %v", at, err)
	}
	n := 0
	for e, err := range s.Output(ctx, id) {
		if want := fmt.Sprint("line ", n); err != nil || e.Content != want && (n != int(length) || e.Content != "fresh") {
			t.Errorf("cut at %d: line %d is %q, %v", at, n, e.Content, err)
		}
		n++
	}
	if n != int(length)+1 {
		t.Errorf("cut at %d: %d lines, want %d", at, n, length+1)
	}
	return over
}

func TestFault11ATornLineCostsNothingThatWasAcknowledged(t *testing.T) {
	for at := 1; !cutAt(t, at, crashfs.Loss{Data: crashfs.Torn, Names: crashfs.All}) && at < 1000; at++ {
	}
}

func TestFault12TheNewestOutputIsReadAndTheReadingEnds(t *testing.T) {
	s := fleetOn(memory.New(), nil)
	j := mustAdd(t, s, tidemark.Job{Agent: "a"})
	for n := range 10 {
		if err := s.AppendOutput(t.Context(), j.ID, int64(n), tidemark.Event{Type: tidemark.EventSystem, Content: fmt.Sprint(n), Timestamp: time.Now().UTC()}); err != nil {
			t.Fatal(err)
		}
	}
	var got string // the program itself is tried by faults.txtar
	for e, err := range s.Output(t.Context(), j.ID, tidemark.Span{Newest: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		got += e.Content
	}
	if got != "789" {
		t.Errorf("the newest three are %q", got)
	}
}

func TestFault13WhoeverFollowsAJobOfADeadOwnerLearnsThatItEnded(t *testing.T) {
	s := fleetOn(memory.New(), &store.Options{Dead: func(tidemark.Holder) bool { return true }})
	j := mustAdd(t, s, tidemark.Job{Agent: "a"})
	if _, err := s.StartJob(t.Context(), j.ID, tidemark.Holder{Program: "dead"}, fleet.SlotLimits{}); err != nil {
		t.Fatal(err)
	}
	// Before anybody sweeps, the lease tells; afterwards the job does.
	if l, err := s.JobLease(t.Context(), j.ID); err != nil || !l.Dead {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := s.Interrupt(t.Context(), fleet.Gone{}); err != nil {
		t.Fatal(err)
	}
	if j, err := s.Job(t.Context(), j.ID); err != nil || j.Status != tidemark.JobInterrupted {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestFault14AForkedJobReallyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		j := mustAdd(t, s.store, tidemark.Job{Agent: "a", Trigger: tidemark.TriggerFork, ForkedFrom: "job-1", SessionID: "s1"})
		s.up(5*time.Second, s.daemon(&file.File{Agents: []file.Agent{{Name: "a", Limits: file.Limits{MaxConcurrent: 1}, Retries: file.Retries{Attempts: 1}}}}, "one"))
		got, err := s.store.Job(t.Context(), j.ID)
		if err != nil || got.Status != tidemark.JobCompleted || got.ForkedFrom != "job-1" || got.SessionID == "s1" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestFault15NothingIsLeakedByTheTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		stop := s.on(s.backend, &file.File{Agents: []file.Agent{every("a", time.Minute, nil)}})
		time.Sleep(90 * time.Second)
		synctest.Wait()
		before := runtime.NumGoroutine()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before+5 { // other tests may have some
			t.Errorf("%d goroutines after a minute, %d after two hours", before, after)
		}
		stop()
	})
}

func TestFault16ToolCallsAreInTheOutputOfAJob(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the agent is a shell script")
	}
	s := fleetOn(memory.New(), nil)
	script := `echo '{"type":"tool_use","tool_name":"ls","tool_use_id":"1","input":{"path":"."}}'; echo '{"type":"tool_result","tool_use_id":"1","result":"a b","success":true}'`
	d := New(Options{Store: s, Holder: tidemark.Holder{Program: "one", PID: os.Getpid()}, File: &file.File{Agents: []file.Agent{{Name: "a", RunMode: fleet.RunAutonomous, Limits: file.Limits{OutputBytes: 1 << 20}}}},
		Environ: func(file.Agent) []string { return []string{"PATH=/usr/bin:/bin"} },
		Runner:  func(file.Agent) (runner.Runner, error) { return runner.Command([]string{"sh", "-c", script}), nil }})
	j := mustAdd(t, s, tidemark.Job{Agent: "a"})
	if err := d.start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	d.wg.Wait()
	var got []string
	for e, err := range s.Output(t.Context(), j.ID) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Type+e.ToolName+string(e.Input)+string(e.Result))
	}
	if want := []string{`tool_usels{"path":"."}`, `tool_result"a b"`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFault17NobodyElseReadsWhatJobsPutOut(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "store.db"), &sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	folder, err := files.Open(t.Context(), filepath.Join(dir, "store"), &files.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	for _, b := range []tidemark.Backend{db, folder} {
		if _, said, err := sayings(t.Context(), b); err != nil || said != 5 {
			t.Fatal(said, err)
		}
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %s", strings.TrimPrefix(path, dir), info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFault18WhatIsAcknowledgedOutlastsAPowerCut(t *testing.T) {
	for at := 1; !cutAt(t, at, crashfs.Loss{}) && at < 1000; at++ {
	}
}
