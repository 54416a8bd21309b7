package store_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func putFile(t *testing.T, w *store.Writer, name string, content []byte) {
	t.Helper()
	if _, err := w.PutFile(t.Context(), name, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

// keys counts everything that is kept under a kind.
func keys(t *testing.T, b tidemark.Backend, kind string) (n int) {
	t.Helper()
	for k, err := range b.Walk(t.Context(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		if k.Kind == kind {
			n++
		}
	}
	return n
}

func TestAFileComesBackAsItWasPut(t *testing.T) {
	disk, err := files.Open(t.Context(), t.TempDir(), &files.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	large := make([]byte, 1<<20+7)
	rand.Read(large)
	for name, b := range map[string]tidemark.Backend{"memory": memory.New(), "files": disk} {
		t.Run(name, func(t *testing.T) {
			s := store.New(b, nil)
			defer s.Close()
			w := begin(t, s, user("hello"))
			for name, content := range map[string][]byte{"memory/notes.md": []byte("remember"), "buffers/large": large, "meta/empty": {}} {
				putFile(t, w, name, []byte("an older one"))
				putFile(t, w, name, content)
				got, err := s.ReadFile(t.Context(), w.ID(), name)
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(content))
				}
			}
			all, err := s.Files(t.Context(), w.ID())
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range all {
				names = append(names, f.Name)
			}
			if d := cmp.Diff([]string{"buffers/large", "memory/notes.md", "meta/empty"}, names); d != "" {
				t.Error(d)
			}
			if n := keys(t, b, "file"); n != 5 { // three records and two logs: an empty file needs none
				t.Errorf("%d keys, want 5: what was replaced is gone", n)
			}
			if err := w.RemoveFile(t.Context(), "memory/notes.md"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.ReadFile(t.Context(), w.ID(), "memory/notes.md"); !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("after RemoveFile: %v", err)
			}
			if err := s.Purge(t.Context(), w.ID(), who("test")); err == nil {
				t.Error("a session that is held was purged")
			}
			if err := w.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Purge(t.Context(), w.ID(), who("test")); err != nil {
				t.Fatal(err)
			}
			if n := keys(t, b, "file"); n != 0 {
				t.Errorf("%d keys are left after the purge", n)
			}
		})
	}
}

// dying is a reader whose writer dies after a first part.
type dying struct{ n int }

func (d *dying) Read(p []byte) (int, error) {
	if d.n++; d.n > 300 {
		runtime.Goexit()
	}
	return copy(p, bytes.Repeat([]byte("x"), 1<<10)), nil
}

func TestAPurgeFindsTheFileThatAWriterDiedOver(t *testing.T) {
	b := memory.New()
	s := store.New(b, &store.Options{Dead: func(tidemark.Holder) bool { return true }})
	defer s.Close()
	w := begin(t, s, user("hello"))
	done := make(chan bool)
	go func() {
		defer close(done)
		w.PutFile(t.Context(), "buffers/large", &dying{})
	}()
	<-done
	if n := keys(t, b, "file"); n == 0 {
		t.Fatal("nothing of the file was written")
	}
	if all, err := s.Files(t.Context(), w.ID()); err != nil || len(all) != 0 {
		t.Errorf("files %v, %v; want none", all, err)
	}
	if err := s.Purge(t.Context(), w.ID(), tidemark.Holder{Program: "test", PID: 2}); err != nil {
		t.Fatal(err)
	}
	if n := keys(t, b, "file"); n != 0 {
		t.Errorf("%d keys of files are left", n)
	}
}

func TestAWriterThatLostItsLeaseKeepsNoFile(t *testing.T) {
	s := open(t)
	w := s.Create(tidemark.Session{}, who("dead"))
	add(t, w, user("hello"))
	attach(t, s, w.ID(), "another")
	if _, err := w.PutFile(t.Context(), "memory/a", strings.NewReader("late")); !errors.Is(err, tidemark.ErrHeld) && !errors.Is(err, tidemark.ErrConflict) {
		t.Fatalf("PutFile = %v", err)
	}
	if all, err := s.Files(t.Context(), w.ID()); err != nil || len(all) != 0 {
		t.Errorf("Files = %v, %v", all, err)
	}
}

func TestNamesThatLeadOutAreRefused(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("hello"))
	for _, name := range []string{"", ".", "..", "../a", "/a", "a/../b", "a//b", `a\b`, "a\x00b", "a\nb", strings.Repeat("x", 600)} {
		if _, err := w.PutFile(t.Context(), name, strings.NewReader("x")); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("PutFile(%q) = %v, want ErrInvalid", name, err)
		}
	}
}

func TestAFleetComesBackAsItWasKept(t *testing.T) {
	s := open(t)
	at := time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)
	agent := tidemark.Agent{Name: "ops.auditor", Status: tidemark.Idle, LastJob: "job-2026-11-15-abc123",
		Session: &tidemark.AgentSession{ID: "s1", CreatedAt: at, LastUsedAt: at, Jobs: 3, RunMode: "autonomous"}}
	schedule := tidemark.Schedule{Agent: "ops.auditor", Name: "every day, at noon", Status: tidemark.Idle, Cron: "0 12 * * *", NextRunAt: at}
	job := tidemark.Job{ID: "job-2026-11-15-abc123", Agent: "ops.auditor", Trigger: tidemark.TriggerManual, Status: tidemark.JobRunning, StartedAt: at}
	for i, want := range []bool{true, false} { // the same again changes nothing
		a, err1 := s.PutAgent(t.Context(), agent)
		d, err2 := s.PutSchedule(t.Context(), schedule)
		j, err3 := s.PutJob(t.Context(), job)
		if err := errors.Join(err1, err2, err3, s.PutFleet(t.Context(), tidemark.Fleet{StartedAt: at})); err != nil {
			t.Fatal(err)
		}
		if a != want || d != want || j != want {
			t.Errorf("round %d: changed %v %v %v, want %v", i, a, d, j, want)
		}
	}
	for got, err := range s.Agents(t.Context()) {
		if d := cmp.Diff(agent, got); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	for got, err := range s.Schedules(t.Context(), "ops.auditor") {
		if d := cmp.Diff(schedule, got); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	job.Status, job.ExitReason, job.FinishedAt = tidemark.JobCompleted, tidemark.ExitSuccess, at.Add(time.Minute)
	if changed, err := s.PutJob(t.Context(), job); !changed || err != nil {
		t.Errorf("PutJob = %v, %v", changed, err)
	}
	n := 0
	for got, err := range s.Jobs(t.Context(), store.JobFilter{Agent: "ops.auditor", Status: tidemark.JobCompleted}) {
		n++
		if d := cmp.Diff(job, got); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	if n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
	said := tidemark.Event{Type: tidemark.EventAssistant, Content: "done", Timestamp: at}
	if err := s.AppendOutput(t.Context(), job.ID, 0, said); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendOutput(t.Context(), job.ID, 0, said); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("the same output twice: %v, want ErrConflict", err)
	}
	for got, err := range s.Output(t.Context(), job.ID) {
		if d := cmp.Diff(said, got); d != "" || err != nil {
			t.Error(d, err)
		}
	}
	if _, err := s.PutAgent(t.Context(), tidemark.Agent{Name: "../x"}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("PutAgent = %v, want ErrInvalid", err)
	}
	if _, err := s.PutJob(t.Context(), tidemark.Job{ID: "a/b"}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("PutJob = %v, want ErrInvalid", err)
	}
	if err := s.AppendOutput(t.Context(), job.ID, 1, tidemark.Event{Type: "other"}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("an event of no type = %v, want ErrInvalid", err)
	}
}
