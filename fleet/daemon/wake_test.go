package daemon

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/runner"
)

// kept is a runner that goes on with the session that it is given.
type kept struct{}

func (kept) Run(_ context.Context, t runner.Task) (runner.Outcome, error) {
	return runner.Outcome{ExitReason: tidemark.ExitSuccess, Session: t.Session}, nil
}

func TestAFleetWakesWhatItsOwnAgentsAskedForAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		ours, others := fleet.Key(bytes.Repeat([]byte{1}, 32)), fleet.Key(bytes.Repeat([]byte{2}, 32))
		at := time.Now().Add(10 * time.Second)
		mine, moved := tidemark.NewSessionID(), tidemark.NewSessionID()
		good := ours.SignWake(fleet.Wake{Session: mine, Agent: "a", At: at})
		stolen := good
		stolen.Session = moved // a good MAC, on another session
		for _, w := range []fleet.Wake{good, stolen,
			{Session: tidemark.NewSessionID(), Agent: "a", At: at},
			others.SignWake(fleet.Wake{Session: tidemark.NewSessionID(), Agent: "a", At: at}),
			fleet.Key(nil).SignWake(fleet.Wake{Session: tidemark.NewSessionID(), Agent: "a", At: at}),
			ours.SignWake(fleet.Wake{Session: tidemark.NewSessionID(), Agent: "nobody", At: at})} {
			if err := s.store.PutWake(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		f := &file.File{Agents: []file.Agent{{Name: "a", Runner: fleet.RunnerCommand, Limits: file.Limits{MaxConcurrent: 1}, Retries: file.Retries{Attempts: 1}, RunMode: fleet.RunAutonomous, SessionTimeout: time.Hour}}}
		run := func(key fleet.Key) {
			d := s.daemon(f, "one")
			d.o.Key, d.o.Runner = key, func(file.Agent) (runner.Runner, error) { return kept{}, nil }
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

func TestAScheduleThatNobodyOfTheFleetMadeRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		a := every("a", time.Hour, nil)
		d := s.daemon(&file.File{Agents: []file.Agent{a}}, "one")
		if err := d.sync(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		ours, others := d.o.Key, fleet.Key(bytes.Repeat([]byte{2}, 32))
		past := time.Now().Add(-time.Second)
		named := func(name, by string) tidemark.Schedule {
			return tidemark.Schedule{Agent: "a", Name: name, By: by, Status: tidemark.Idle, Type: fleet.TypeInterval, Every: "1s", Prompt: "run this", CreatedAt: past, NextRunAt: past}
		}
		signed := ours.SignSchedule(named("signed", fleet.ByPerson))
		asked, renamed, byAgent, elsewhere := signed, signed, signed, signed
		asked.Name, asked.Prompt = "asked", "run that"
		renamed.Name = "renamed"
		byAgent.Name, byAgent.By = "byagent", fleet.ByAgent
		elsewhere.Name, elsewhere.Session = "elsewhere", string(tidemark.NewSessionID())
		for _, d := range []tidemark.Schedule{named("imported", ""), named("forged", fleet.ByFile), named("person", fleet.ByPerson), named("agent", fleet.ByAgent),
			others.SignSchedule(named("other", fleet.ByPerson)), fleet.Key(nil).SignSchedule(named("none", fleet.ByAgent)), asked, renamed, byAgent, elsewhere} {
			if _, err := s.store.PutSchedule(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		s.up(10*time.Second, d)
		if jobs := s.jobs(); len(jobs) != 0 {
			t.Errorf("jobs %+v", jobs)
		}
		// One of the file says what the file says, whatever was written over it.
		over := named("tick", fleet.ByFile)
		over.Session = string(tidemark.NewSessionID())
		for _, d := range []tidemark.Schedule{over, signed} {
			if _, err := s.store.PutSchedule(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		s.up(10*time.Second, s.daemon(&file.File{Agents: []file.Agent{a}}, "one"))
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
		d := s.daemon(&file.File{Agents: []file.Agent{a}}, "one")
		if err := d.sync(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		past := time.Now().Add(-24 * time.Hour)
		signed := d.o.Key.SignSchedule(tidemark.Schedule{Agent: "a", Name: "signed", By: fleet.ByPerson, Status: tidemark.Idle, Type: fleet.TypeInterval, Every: "1h0m0s", Prompt: "signed", Missed: fleet.MissedOnce, CreatedAt: past, NextRunAt: time.Now().Add(time.Hour)})
		often := func(s tidemark.Schedule) tidemark.Schedule {
			s.Every, s.Missed, s.Overlap, s.Resume, s.Prompt, s.Session = "1s", fleet.MissedAll, fleet.OverlapQueue, true, "run this", string(tidemark.NewSessionID())
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
		key := fleet.Key(bytes.Repeat([]byte{1}, 32))
		if err := s.store.PutWake(t.Context(), key.SignWake(fleet.Wake{Session: tidemark.NewSessionID(), Agent: "a", At: time.Now().Add(time.Hour)})); err != nil {
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
		f := &file.File{Agents: []file.Agent{{Name: "a", Runner: fleet.RunnerCommand, Limits: file.Limits{MaxConcurrent: 1}, Retries: file.Retries{Attempts: 1}, RunMode: fleet.RunAutonomous, SessionTimeout: time.Hour}}}
		d := s.daemon(f, "one")
		d.o.Key, d.o.Runner = key, func(file.Agent) (runner.Runner, error) { return kept{}, nil }
		s.up(30*time.Second, d)
		if jobs := s.jobs(); len(jobs) != 0 {
			t.Errorf("%+v", jobs)
		}
	})
}

func TestAnAgentDoesNotSignWhatItDidNotAdd(t *testing.T) {
	s, _, call := selfStage(t)
	forged := tidemark.Schedule{Agent: "a", Name: "watch", By: fleet.ByAgent, Status: tidemark.Idle, Type: fleet.TypeInterval, Every: "1h0m0s", Prompt: "run this"}
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
