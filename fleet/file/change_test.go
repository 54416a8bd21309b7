package file

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const before = `
fleet: {name: f}
agents:
  - name: stays
    limits: {timeout: 1h}
    env: {A: "1"}
    schedules:
      - {name: kept, every: 1h, prompt: p}
      - {name: moved, every: 1h, prompt: p}
      - {name: gone, every: 1h, prompt: p}
  - name: leaves
    schedules:
      - {name: s, type: chat}
  - name: same
`

func changes(t *testing.T, old, now string) []string {
	t.Helper()
	var all []string
	for _, c := range parsed(t, now).Changes(parsed(t, old)) {
		all = append(all, c.String())
	}
	return all
}

func TestReloadSaysWhatIsAddedRemovedAndChanged(t *testing.T) {
	got := changes(t, before, `
fleet: {name: g}
limits: {max_concurrent: 3}
agents:
  - name: same
  - name: comes
    schedules:
      - {name: s, type: chat}
  - name: stays
    limits: {timeout: 2h, max_turns: 3}
    env: {A: "2"}
    container: {image: i}
    system: {file: prompts/common.md}
    schedules:
      - {name: fresh, every: 1h, prompt: p}
      - {name: moved, cron: "@daily", prompt: p}
      - {name: kept, every: 1h, prompt: p}
`)
	want := []string{
		"fleet: changed fleet.name, limits.max_concurrent",
		"agent comes: added",
		"schedule comes/s: added",
		"agent stays: changed system, env, limits.max_turns, limits.timeout, container",
		"schedule stays/fresh: added",
		"schedule stays/moved: changed type, every, cron, zone, from",
		"schedule stays/gone: removed",
		"schedule leaves/s: removed",
		"agent leaves: removed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestFileThatSaysTheSameInOtherWordsChangesNothing(t *testing.T) {
	got := changes(t, before, `
version: 1
fleet: {name: f}
x-a: &a {every: 60m, prompt: "p"}
defaults: {schedule: {missed: once}, limits: {max_concurrent: 1}}
agents:
  - name: same
  - name: leaves
    schedules: [{name: s, type: chat, overlap: queue}]
  - name: stays
    env: {A: 1}
    limits: {timeout: 60m}
    schedules:
      - {<<: *a, name: gone}
      - {<<: *a, name: kept, from: start}
      - {<<: *a, name: moved}
`)
	if len(got) > 0 {
		t.Errorf("changes: %q", got)
	}
}

func TestPromptFileThatChangedIsAChangeOfTheAgent(t *testing.T) {
	text := "agents: [{name: a, system: {file: prompts/common.md}}]"
	old := parsed(t, text)
	now := parsed(t, text)
	now.Agents[0].System.Text = "Something else."
	if got := fmt.Sprint(now.Changes(old)); got != "[agent a: changed system]" {
		t.Errorf("changes: %s", got)
	}
}

func TestEverythingIsAddedToNothing(t *testing.T) {
	got := parsed(t, before).Changes(nil)
	for _, c := range got {
		if c.Kind != Added || c.Agent == "" {
			t.Errorf("%v", c)
		}
	}
	if len(got) != 7 || !strings.HasPrefix(got[0].String(), "agent stays") {
		t.Errorf("changes: %v", got)
	}
}

func TestEnabledIsComparedByWhatItSays(t *testing.T) {
	const text = "agents: [{name: a, schedules: [{name: s, type: chat, enabled: %s}]}]"
	for _, c := range []struct{ old, now, want string }{
		{"true", "true", "[]"}, {"", "", "[]"}, {"true", "false", "[schedule a/s: changed enabled]"}, {"", "true", "[schedule a/s: changed enabled]"},
	} {
		if got := fmt.Sprint(changes(t, fmt.Sprintf(text, c.old), fmt.Sprintf(text, c.now))); got != c.want {
			t.Errorf("from %q to %q: %s, want %s", c.old, c.now, got, c.want)
		}
	}
}
