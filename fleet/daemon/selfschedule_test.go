package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/tool"
)

// selfStage is a daemon with an agent a that may have two schedules.
func selfStage(t *testing.T) (*stage, *Daemon, func(name, input string) tool.Result) {
	s := newStage(t)
	a := every("a", time.Hour, nil)
	a.Runner = fleet.RunnerBuiltin
	a.SelfSchedule = file.SelfSchedule{Max: 2, MinInterval: 5 * time.Minute}
	d := s.daemon(&file.File{Agents: []file.Agent{a}}, "one")
	if err := d.sync(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	return s, d, func(name, input string) tool.Result {
		t.Helper()
		for _, o := range d.ScheduleTools(a) {
			if o.Name == name {
				r, err := o.Run(t.Context(), json.RawMessage(input))
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
		}
		t.Fatalf("no tool %s", name)
		return tool.Result{}
	}
}

func TestAnAgentKeepsItsOwnSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d, call := selfStage(t)
		prompt := "look: \"<b>\" # 'all'\n\tüber 🌊"
		text, _ := json.Marshal(prompt)
		if r := call(toolAdd, fmt.Sprintf(`{"name":"watch","every":"10m","prompt":%s}`, text)); r.IsError || !strings.Contains(r.Text, "first due at") {
			t.Fatal(r.Text)
		}
		have, err := s.store.Schedule(t.Context(), "a", "watch")
		if err != nil || have.By != fleet.ByAgent || have.Prompt != prompt || time.Until(have.NextRunAt) > 10*time.Minute || time.Until(have.NextRunAt) <= 9*time.Minute {
			t.Fatalf("%+v, %v", have, err)
		}
		s.up(25*time.Minute, d)
		if n := len(s.jobs()); n != 2 {
			t.Errorf("%d jobs in 25 minutes, want 2", n)
		}
		if r := call(toolChange, `{"name":"watch","prompt":"look again"}`); r.IsError {
			t.Fatal(r.Text)
		}
		same, err := s.store.Schedule(t.Context(), "a", "watch")
		if err != nil || same.Prompt != "look again" || same.Every != "10m0s" || !same.CreatedAt.Equal(have.CreatedAt) {
			t.Errorf("%+v, %v", same, err)
		}
		if r := call(toolChange, `{"name":"watch","cron":"0 3 * * *","zone":"Europe/Berlin"}`); r.IsError {
			t.Fatal(r.Text)
		}
		if r := call(toolList, `{}`); !strings.Contains(r.Text, `"by":"file"`) || !strings.Contains(r.Text, `"cron":"0 3 * * *","zone":"Europe/Berlin"`) {
			t.Error(r.Text)
		}
		if r := call(toolChange, `{"name":"watch","every":"5m"}`); r.IsError {
			t.Fatal(r.Text)
		}
		if r := call(toolRemove, `{"name":"watch"}`); r.IsError {
			t.Fatal(r.Text)
		}
		if _, err := s.store.Schedule(t.Context(), "a", "watch"); !errors.Is(err, tidemark.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestAnAgentSchedulesItselfWithinItsLimits(t *testing.T) {
	s, d, call := selfStage(t)
	for input, want := range map[string]string{
		`{"name":"x","every":"1m","prompt":"p"}`:                         "1m0s apart: want at least 5m0s",
		`{"name":"x","cron":"0,4 3 1 * *","prompt":"p"}`:                 "4m0s apart",
		`{"name":"x","cron":"* * * * *","prompt":"p"}`:                   "1m0s apart",
		`{"name":"x","cron":"0 0 30 2 *","prompt":"p"}`:                  "never fires",
		`{"name":"x","cron":"0 3 * * *","zone":"Moon/X","prompt":"p"}`:   "no time zone",
		`{"name":"x","every":"soon","prompt":"p"}`:                       "length of time",
		`{"name":"x","every":"10m"}`:                                     "no prompt",
		`{"name":"x","prompt":"p"}`:                                      "does not say when",
		`{"name":"x","every":"10m","cron":"0 3 * * *","prompt":"p"}`:     "one of the two",
		`{"name":"x/y","every":"10m","prompt":"p"}`:                      "a name has letters",
		`{"every":"10m","prompt":"p"}`:                                   "name is missing",
		`{"name":"x","type":"webhook","prompt":"p"}`:                     "unknown field",
		`{"name":"x","every":"10m","prompt":"p","secret_env":"A_TOKEN"}`: "unknown field",
		`{"name":"tick","every":"10m","prompt":"p"}`:                     "is there already",
		`[]`: "arguments",
	} {
		if r := call(toolAdd, input); !r.IsError || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %+v, want %q", input, r, want)
		}
	}
	for i := range 3 {
		r := call(toolAdd, fmt.Sprintf(`{"name":"own-%d","cron":"0 %d * * *","prompt":"p"}`, i, i))
		if r.IsError != (i == 2) {
			t.Errorf("schedule %d: %+v", i, r)
		}
	}
	if r := call(toolChange, `{"name":"own-0","every":"10s"}`); !r.IsError {
		t.Error(r.Text)
	}
	// What is the file's or a person's is not the agent's.
	if _, err := AddSchedule(t.Context(), s.store, nil, "a", file.Schedule{Name: "mine", Type: fleet.TypeInterval, Every: time.Hour}, fleet.ByPerson, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tick", "mine", "nothing"} {
		for _, tool := range []string{toolChange, toolRemove} {
			if r := call(tool, `{"name":"`+name+`"}`); !r.IsError {
				t.Errorf("%s %s: %s", tool, name, r.Text)
			}
		}
	}
	if tools := d.ScheduleTools(file.Agent{Name: "b"}); tools != nil {
		t.Errorf("an agent that may have none has %d tools", len(tools))
	}
	limited := file.Agent{Name: "b", RunMode: fleet.RunReview, SelfSchedule: file.SelfSchedule{Max: 1}, Permissions: file.Permissions{Deny: []file.Permission{{Tool: toolRemove}}}}
	for _, o := range d.ScheduleTools(limited) {
		if _, asks := o.Asks(nil); asks == (o.Name == toolList) || o.Name == toolRemove || !json.Valid(o.Schema) {
			t.Errorf("%s asks: %t, schema %s", o.Name, asks, o.Schema)
		}
	}
}

func TestAScheduleThatAPersonDisabledStaysSo(t *testing.T) {
	s, _, call := selfStage(t)
	if r := call(toolAdd, `{"name":"watch","every":"10m","prompt":"p"}`); r.IsError {
		t.Fatal(r.Text)
	}
	if err := s.store.ChangeSchedule(t.Context(), "a", "watch", func(s *tidemark.Schedule) error { s.Status = tidemark.Disabled; return nil }); err != nil {
		t.Fatal(err)
	}
	if r := call(toolChange, `{"name":"watch","every":"20m"}`); r.IsError {
		t.Fatal(r.Text)
	}
	if have, err := s.store.Schedule(t.Context(), "a", "watch"); err != nil || have.Status != tidemark.Disabled || have.Every != "20m0s" {
		t.Errorf("%+v, %v", have, err)
	}
}

func TestAScheduleOfTheFileIsRemovedThere(t *testing.T) {
	s, d, _ := selfStage(t)
	if err := RemoveSchedule(t.Context(), s.store, "a", "tick"); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("%v, want ErrInvalid", err)
	}
	add := file.Schedule{Name: "mine", Type: fleet.TypeInterval, Every: time.Hour}
	for i, want := range []error{nil, tidemark.ErrExists} {
		if _, err := AddSchedule(t.Context(), s.store, nil, "a", add, fleet.ByPerson, time.Now()); !errors.Is(err, want) {
			t.Errorf("time %d: %v, want %v", i, err, want)
		}
	}
	// It outlives files that do not have it.
	d.Reload(&file.File{Agents: []file.Agent{{Name: "a"}}})
	if err := d.sync(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, tidemark.ErrNotFound} {
		if err := RemoveSchedule(t.Context(), s.store, "a", "mine"); !errors.Is(err, want) {
			t.Errorf("time %d: %v, want %v", i, err, want)
		}
	}
}
