package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestAPersonAddsAndRemovesSchedules(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("LOCALAPPDATA", t.TempDir())
	a := newApp()
	var out bytes.Buffer
	a.out, a.err, a.opened = &out, io.Discard, &open.Opened{Store: store.New(memory.New(), nil)}
	if _, err := a.opened.Fleet().PutAgent(t.Context(), tidemark.Agent{Name: "coder", Status: tidemark.Idle}); err != nil {
		t.Fatal(err)
	}
	ofFile := file.Schedule{Name: "file", Type: fleet.TypeInterval, Every: time.Hour}
	if _, err := daemon.AddSchedule(t.Context(), a.opened.Fleet(), nil, "coder", ofFile, fleet.ByFile, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args string
		want error
		says string
	}{
		{"add coder/watch --every 5m --prompt look", nil, ""},
		{"add coder/watch --every 6m --prompt look", tidemark.ErrExists, "there already"},
		{"add coder/nightly --cron @daily --zone Europe/Berlin --prompt look --missed all --resume", nil, ""},
		{"add coder/none --every 5m --prompt=", nil, ""},
		{"add coder/x --every 5m", tidemark.ErrInvalid, "what the agent should do"},
		{"add coder/x --prompt look", tidemark.ErrInvalid, "one of the two"},
		{"add coder/x --every 5m --cron @daily --prompt look", tidemark.ErrInvalid, "one of the two"},
		{"add coder/x --every often --prompt look", tidemark.ErrInvalid, "length of time"},
		{"add coder/x --every 5m --zone UTC --prompt look", tidemark.ErrInvalid, "zone means nothing"},
		{"add coder/x --cron @daily --zone Moon/X --prompt look", tidemark.ErrInvalid, "no time zone"},
		{"add coder/x/y --every 5m --prompt look", tidemark.ErrInvalid, "the schedule's name"},
		{"add coder --every 5m --prompt look", tidemark.ErrInvalid, "AGENT/NAME"},
		{"add nobody/x --every 5m --prompt look", tidemark.ErrNotFound, "nobody"},
		{"remove coder/watch", nil, ""},
		{"remove coder/watch", tidemark.ErrNotFound, "not found"},
		{"remove coder/file", tidemark.ErrInvalid, "in the fleet file"},
	} {
		cmd := scheduleAddCommand(a)
		args := strings.Fields(step.args)
		if args[0] == "remove" {
			cmd = scheduleRemoveCommand(a)
		}
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetContext(t.Context())
		cmd.SetArgs(args[1:])
		if err := cmd.Execute(); !errors.Is(err, step.want) || err != nil && !strings.Contains(err.Error(), step.says) {
			t.Errorf("%s: %v, want %v", step.args, err, step.want)
		}
	}
	have, err := a.opened.Fleet().Schedule(t.Context(), "coder", "nightly")
	if err != nil || have.By != fleet.ByPerson || have.Zone != "Europe/Berlin" || have.Missed != fleet.MissedAll || !have.Resume || !have.NextRunAt.After(time.Now()) {
		t.Errorf("%+v, %v", have, err)
	}
	if !strings.Contains(out.String(), "coder/nightly is first due at ") {
		t.Error(out.String())
	}
}
