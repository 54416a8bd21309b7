package fleet_test

import (
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestADaemonOfAnotherMachineThatIsSilentIsGone(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	s := over(memory.New(), &store.Options{Now: func() time.Time { return now }, Dead: func(tidemark.Holder) bool { return false }})
	who := tidemark.Holder{Program: "fleet", PID: 7, Host: "elsewhere"}
	if err := s.AddDaemon(t.Context(), fleet.Daemon{Holder: who}); err != nil {
		t.Fatal(err)
	}
	dead := func() bool {
		t.Helper()
		all, err := s.Daemons(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%d daemons, %v", len(all), err)
		}
		return all[0].Dead
	}
	now = now.Add(time.Minute)
	if dead() {
		t.Error("gone after a minute")
	}
	if err := s.DaemonAlive(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	now = now.Add(100 * time.Second)
	if dead() {
		t.Error("gone although it was heard of")
	}
	now = now.Add(time.Minute)
	if !dead() {
		t.Error("still there after minutes of silence")
	}
}
