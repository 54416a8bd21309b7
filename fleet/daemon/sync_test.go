package daemon

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

func agents(all ...file.Agent) *file.File { return &file.File{Agents: all} }

func (s *stage) has(agent string) bool {
	s.t.Helper()
	_, err := s.store.Schedule(s.t.Context(), agent, "tick")
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		s.t.Fatal(err)
	}
	return err == nil
}

func TestDaemonsWithDifferentFilesKeepTheirOwnSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.up(35*time.Second, s.daemon(agents(every("a", 0, together)), "one"), s.daemon(agents(every("b", 0, together)), "two"))
		count := map[string]int{}
		for _, j := range s.jobs() {
			count[j.Agent]++
		}
		if count["a"] != 3 || count["b"] != 3 {
			t.Errorf("jobs in 35 s, every ten seconds: %v", count)
		}
	})
}

func TestAFleetThatIsDownKeepsItsSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.up(5*time.Second, s.daemon(agents(every("a", time.Hour, nil)), "one"))
		s.up(5*time.Second, s.daemon(agents(every("b", time.Hour, nil)), "two"))
		if !s.has("a") || !s.has("b") {
			t.Errorf("a: %t, b: %t", s.has("a"), s.has("b"))
		}
	})
}

func TestAScheduleThatWasTakenOutOfTheFileGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.up(5*time.Second, s.daemon(agents(every("a", time.Hour, nil), every("b", time.Hour, nil)), "one"))
		bare := every("a", time.Hour, nil)
		bare.Schedules = nil
		s.up(5*time.Second, s.daemon(agents(bare), "one"))
		if s.has("a") {
			t.Error("the schedule that the file no longer has is there")
		}
	})
}

func TestAnAgentThatAnotherDaemonHasKeepsItsSchedulesAfterAReload(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			one, daemons := s.known(agents(every("a", time.Hour, nil), every("b", time.Hour, nil)), "one"), []*Daemon(nil)
			if daemons = append(daemons, one); shared {
				daemons = append(daemons, s.known(agents(every("b", time.Hour, nil)), "two"))
			}
			go func() {
				time.Sleep(20 * time.Second)
				one.Reload(agents(every("a", time.Hour, nil)))
			}()
			s.up(30*time.Second, daemons...)
			if s.has("b") != shared || !s.has("a") {
				t.Errorf("another daemon has it: %t, and it is there: %t", shared, s.has("b"))
			}
		})
	}
}
