package daemon

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

func TestOnlyJobsThatTheFileDoesNotKeepAreRemoved(t *testing.T) {
	day := 24 * time.Hour
	now := time.Now().UTC().Truncate(time.Second)
	for _, c := range []struct {
		keep file.Keep
		want []string
	}{
		{file.Keep{}, []string{"new", "mid", "old", "runs", "waits"}},
		{file.Keep{Jobs: 2}, []string{"new", "mid", "runs", "waits"}},
		{file.Keep{Days: 5}, []string{"new", "runs", "waits"}},
		{file.Keep{Jobs: 2, Days: 30}, []string{"new", "mid", "runs", "waits"}},
		{file.Keep{Jobs: 1, Days: 30}, []string{"new", "runs", "waits"}},
	} {
		s := newStage(t)
		ids := map[string]string{}
		add := func(name, agent, status string, age time.Duration) {
			j := tidemark.Job{ID: fmt.Sprintf("job-2026-01-01-%06d", len(ids)), Agent: agent, Status: status, StartedAt: now.Add(-age), Summary: name}
			if status == tidemark.JobCompleted {
				j.FinishedAt = now.Add(-age)
			}
			ids[j.ID] = name
			if _, err := s.store.PutJob(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			err := s.store.AppendOutput(t.Context(), j.ID, 0, tidemark.Event{Type: tidemark.EventAssistant, Content: name, Timestamp: now})
			if err != nil {
				t.Fatal(err)
			}
		}
		add("waits", "a", tidemark.JobPending, 300*day)
		add("runs", "a", tidemark.JobRunning, 200*day)
		add("old", "a", tidemark.JobCompleted, 100*day)
		add("mid", "a", tidemark.JobCompleted, 10*day)
		add("new", "a", tidemark.JobCompleted, day)
		add("else", "b", tidemark.JobCompleted, 900*day)
		d := s.daemon(&file.File{Agents: []file.Agent{{Name: "a", Keep: c.keep}, {Name: "b"}}}, "one")
		if err := d.retain(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		var got []string
		for id, name := range ids {
			_, err := s.store.Job(t.Context(), id)
			length, lengthErr := s.store.OutputLength(t.Context(), id)
			switch {
			case err == nil && lengthErr == nil && length == 1:
				got = append(got, name)
			case !errors.Is(err, tidemark.ErrNotFound) || length != 0:
				t.Errorf("%s: %v, and %d lines are left", name, err, length)
			}
		}
		want := append([]string{"else"}, c.want...)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%+v keeps %v, want %v", c.keep, got, want)
		}
	}
}
