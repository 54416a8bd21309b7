package fleet

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
)

// kept is a runner that goes on with the session that it is given.
type kept struct{}

func (kept) Run(_ context.Context, t runner.Task) (runner.Outcome, error) {
	return runner.Outcome{ExitReason: tidemark.ExitSuccess, Session: t.Session}, nil
}

func TestAFleetWakesWhatItsOwnAgentsAskedForAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		ours, others := Key(bytes.Repeat([]byte{1}, keyBytes)), Key(bytes.Repeat([]byte{2}, keyBytes))
		at := time.Now().Add(10 * time.Second)
		mine, moved := tidemark.NewSessionID(), tidemark.NewSessionID()
		good := ours.Sign(store.Wake{Session: mine, Agent: "a", At: at})
		stolen := good
		stolen.Session = moved // a good MAC, on another session
		for _, w := range []store.Wake{good, stolen,
			{Session: tidemark.NewSessionID(), Agent: "a", At: at},
			others.Sign(store.Wake{Session: tidemark.NewSessionID(), Agent: "a", At: at}),
			Key(nil).Sign(store.Wake{Session: tidemark.NewSessionID(), Agent: "a", At: at}),
			ours.Sign(store.Wake{Session: tidemark.NewSessionID(), Agent: "nobody", At: at})} {
			if err := s.store.PutWake(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		f := &File{Agents: []Agent{{Name: "a", Runner: RunnerCommand, Limits: Limits{MaxConcurrent: 1}, Retries: Retries{Attempts: 1}, RunMode: RunAutonomous, SessionTimeout: time.Hour}}}
		run := func(key Key) {
			d := s.daemon(f, "one")
			d.o.Key, d.o.Runner = key, func(Agent) (runner.Runner, error) { return kept{}, nil }
			s.up(30*time.Second, d)
		}
		run(nil)
		if jobs := s.jobs(); len(jobs) != 0 {
			t.Errorf("without a key: %+v", jobs)
		}
		run(ours)
		jobs := s.jobs()
		if len(jobs) != 1 || jobs[0].SessionID != string(mine) || jobs[0].Agent != "a" || jobs[0].Status != tidemark.JobCompleted {
			t.Fatalf("jobs %+v", jobs)
		}
		// The same row put back is not another wake.
		if err := s.store.PutWake(t.Context(), good); err != nil {
			t.Fatal(err)
		}
		run(ours)
		if jobs := s.jobs(); len(jobs) != 1 {
			t.Errorf("%d jobs after a replay", len(jobs))
		}
	})
}

func TestTheKeyOfAFleetIsMadeOnceAndForNobodyElse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	one, err := OpenKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	two, err := OpenKey(dir)
	if err != nil || !bytes.Equal(one, two) || len(one) != keyBytes {
		t.Errorf("%x and %x, %v", one, two, err)
	}
	name := filepath.Join(dir, keyFile)
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKey(dir); err == nil {
			t.Error("a key that others can read is taken")
		}
	}
	if err := os.WriteFile(name, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKey(dir); err == nil {
		t.Error("half a key is taken")
	}
}

func TestAScheduleThatNobodyOfTheFleetMadeRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		a := every("a", time.Hour, nil)
		d := s.daemon(&File{Agents: []Agent{a}}, "one")
		if err := d.sync(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		ours, others := d.o.Key, Key(bytes.Repeat([]byte{2}, keyBytes))
		past := time.Now().Add(-time.Second)
		named := func(name, by string) tidemark.Schedule {
			return tidemark.Schedule{Agent: "a", Name: name, By: by, Status: tidemark.Idle, Type: TypeInterval, Every: "1s", Prompt: "run this", CreatedAt: past, NextRunAt: past}
		}
		signed := ours.SignSchedule(named("signed", ByPerson))
		asked, renamed, byAgent, elsewhere := signed, signed, signed, signed
		asked.Name, asked.Prompt = "asked", "run that"
		renamed.Name = "renamed"
		byAgent.Name, byAgent.By = "byagent", ByAgent
		elsewhere.Name, elsewhere.Session = "elsewhere", string(tidemark.NewSessionID())
		for _, d := range []tidemark.Schedule{named("imported", ""), named("forged", ByFile), named("person", ByPerson), named("agent", ByAgent),
			others.SignSchedule(named("other", ByPerson)), Key(nil).SignSchedule(named("none", ByAgent)), asked, renamed, byAgent, elsewhere} {
			if _, err := s.store.PutSchedule(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		s.up(10*time.Second, d)
		if jobs := s.jobs(); len(jobs) != 0 {
			t.Errorf("jobs %+v", jobs)
		}
		// One of the file says what the file says, whatever was written over it.
		over := named("tick", ByFile)
		over.Session = string(tidemark.NewSessionID())
		for _, d := range []tidemark.Schedule{over, signed} {
			if _, err := s.store.PutSchedule(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		s.up(10*time.Second, s.daemon(&File{Agents: []Agent{a}}, "one"))
		ran := map[string]bool{}
		for _, j := range s.jobs() {
			ran[j.Schedule+": "+j.Prompt] = true
		}
		if len(ran) != 2 || !ran["tick: "+a.Schedules[0].Prompt] || !ran["signed: run this"] {
			t.Errorf("ran %v", ran)
		}
	})
}

// Where a schedule stands is not signed. Whoever writes to the store can have
// it run now; what it runs, and how often by itself, stays what was signed or is
// in the file.
func TestWhoeverWritesToTheStoreChangesNeitherWhatIsRunNorHowOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		a := every("a", time.Hour, nil)
		d := s.daemon(&File{Agents: []Agent{a}}, "one")
		if err := d.sync(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		past := time.Now().Add(-24 * time.Hour)
		signed := d.o.Key.SignSchedule(tidemark.Schedule{Agent: "a", Name: "signed", By: ByPerson, Status: tidemark.Idle, Type: TypeInterval, Every: "1h0m0s", Prompt: "signed", Missed: MissedOnce, CreatedAt: past, NextRunAt: time.Now().Add(time.Hour)})
		often := func(s tidemark.Schedule) tidemark.Schedule {
			s.Every, s.Missed, s.Overlap, s.Resume, s.Prompt, s.Session = "1s", MissedAll, OverlapQueue, true, "run this", string(tidemark.NewSessionID())
			s.NextRunAt = past
			return s
		}
		file, err := s.store.Schedule(t.Context(), "a", "tick")
		if err != nil {
			t.Fatal(err)
		}
		moved := signed
		moved.NextRunAt = past
		again := moved
		again.Name = "again"
		for _, c := range []tidemark.Schedule{often(file), moved, often(again)} {
			if _, err := s.store.PutSchedule(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		s.up(50*time.Second, d)
		ran := map[string]int{}
		for _, j := range s.jobs() {
			ran[j.Schedule+": "+j.Prompt]++
			if d.resumes(t.Context(), a, j) {
				t.Errorf("%s goes on with a session", j.Schedule)
			}
		}
		if len(ran) != 2 || ran["tick: "+a.Schedules[0].Prompt] != 1 || ran["signed: signed"] != 1 {
			t.Errorf("ran %v", ran)
		}
	})
}

func TestAWakeIsNotDueBeforeTheTimeThatWasSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		key := Key(bytes.Repeat([]byte{1}, keyBytes))
		if err := s.store.PutWake(t.Context(), key.Sign(store.Wake{Session: tidemark.NewSessionID(), Agent: "a", At: time.Now().Add(time.Hour)})); err != nil {
			t.Fatal(err)
		}
		for r, err := range s.backend.List(t.Context(), tidemark.Query{Kind: "wake"}) {
			if err != nil {
				t.Fatal(err)
			}
			r.Due, r.Version = time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond), r.Version+1
			if _, err := s.backend.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Millisecond), Puts: []tidemark.Record{r}}); err != nil {
				t.Fatal(err)
			}
		}
		if due, err := s.store.DueWakes(t.Context(), time.Now()); err != nil || len(due) != 1 {
			t.Fatalf("%+v, %v: the row does not say that it is due", due, err)
		}
		f := &File{Agents: []Agent{{Name: "a", Runner: RunnerCommand, Limits: Limits{MaxConcurrent: 1}, Retries: Retries{Attempts: 1}, RunMode: RunAutonomous, SessionTimeout: time.Hour}}}
		d := s.daemon(f, "one")
		d.o.Key, d.o.Runner = key, func(Agent) (runner.Runner, error) { return kept{}, nil }
		s.up(30*time.Second, d)
		if jobs := s.jobs(); len(jobs) != 0 {
			t.Errorf("%+v", jobs)
		}
	})
}

func TestAnAgentDoesNotSignWhatItDidNotAdd(t *testing.T) {
	s, _, call := selfStage(t)
	forged := tidemark.Schedule{Agent: "a", Name: "watch", By: ByAgent, Status: tidemark.Idle, Type: TypeInterval, Every: "1h0m0s", Prompt: "run this"}
	if _, err := s.store.PutSchedule(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	if r := call(toolChange, `{"name":"watch","every":"10m"}`); !r.IsError {
		t.Error(r.Text)
	}
	if r := call(toolRemove, `{"name":"watch"}`); r.IsError {
		t.Error(r.Text)
	}
}
