package herdctl

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// taken is a fleet that was read to its end.
type taken struct {
	Fleet       tidemark.Fleet
	Agents      []tidemark.Agent
	Logs        map[string][]tidemark.Event
	Schedules   []tidemark.Schedule
	Jobs        []tidemark.Job
	Output      map[string][]tidemark.Event
	Transcripts []convert.Transcript
	Lost        []string
	skips       []string
}

func (got taken) agent(name string) *tidemark.Agent {
	for i, a := range got.Agents {
		if a.Name == name {
			return &got.Agents[i]
		}
	}
	return nil
}

func (got taken) job(id string) *tidemark.Job {
	for i, j := range got.Jobs {
		if j.ID == id {
			return &got.Jobs[i]
		}
	}
	return nil
}

// take reads a fleet and checks what holds for every one.
func take(t testing.TB, p convert.Source) taken {
	t.Helper()
	f, err := Tool().Fleet(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	got := taken{Fleet: f.Fleet, Schedules: f.Schedules, Transcripts: f.Transcripts, Lost: f.Lost,
		Logs: map[string][]tidemark.Event{}, Output: map[string][]tidemark.Event{}}
	for _, s := range f.Skipped {
		got.skips = append(got.skips, s.Error())
	}
	events := func(what string, all func(func(tidemark.Event, error) bool)) (events []tidemark.Event) {
		for e, err := range all {
			if convert.IsSkip(err) {
				got.skips = append(got.skips, err.Error())
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if _, err := e.Line(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			events = append(events, e)
		}
		return events
	}
	for _, a := range f.Agents {
		got.Agents = append(got.Agents, a.Agent)
		if a.Log != nil {
			got.Logs[a.Name] = events("log of "+a.Name, a.Log)
		}
	}
	for j, err := range f.Jobs {
		if convert.IsSkip(err) {
			got.skips = append(got.skips, err.Error())
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got.job(j.ID) != nil || got.agent(j.Agent) == nil {
			t.Errorf("job %s: is there twice, or has no agent", j.ID)
		}
		if n := len(got.Jobs); n > 0 && got.Jobs[n-1].StartedAt.After(j.StartedAt) {
			t.Errorf("job %s: comes after a younger one", j.ID)
		}
		got.Jobs = append(got.Jobs, j.Job)
		got.Output[j.ID] = events(j.ID, j.Output)
	}
	return got
}

// give exports a fleet, and checks it against herdctl's schemas.
func give(t testing.TB, p convert.Source) (*converttest.Out, []string) {
	t.Helper()
	f, err := Tool().Fleet(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return giveFleet(t, f)
}

func giveFleet(t testing.TB, f *convert.Fleet) (*converttest.Out, []string) {
	t.Helper()
	out := converttest.NewOut()
	lost, err := Tool().ExportFleet(context.Background(), out, f)
	if err != nil {
		t.Fatal(err)
	}
	checkTree(t, out.Files)
	return out, lost
}

func herd(files map[string]string) convert.Source {
	all := fstest.MapFS{}
	for name, text := range files {
		all[path.Join(folder, name)] = &fstest.MapFile{Data: []byte(text), ModTime: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)}
	}
	return convert.Source{FS: all, Path: "."}
}

func own() convert.Source { return convert.Source{FS: os.DirFS("testdata/fleet"), Path: "."} }

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func TestDetectKnowsAFolderOfHerdctl(t *testing.T) {
	root := os.DirFS("testdata")
	for name, c := range map[string]struct {
		p    convert.Source
		want bool
	}{
		"the folder":             {convert.Source{FS: root, Path: "fleet/.herdctl"}, true},
		"what holds it":          {convert.Source{FS: root, Path: "fleet"}, true},
		"what holds it, as root": {own(), true},
		"the folder, as root":    {convert.Source{FS: os.DirFS("testdata/fleet/.herdctl"), Path: "."}, true},
		"its state":              {convert.Source{FS: root, Path: "fleet/.herdctl/state.yaml"}, true},
		"a job alone":            {convert.Source{FS: root, Path: "fleet/.herdctl/jobs/job-2026-03-01-aaaaaa.yaml"}, false},
		"further up":             {convert.Source{FS: root, Path: "."}, false},
		"nothing":                {convert.Source{FS: root, Path: "gone"}, false},
		"a state of zero bytes":  {herd(map[string]string{"state.yaml": ""}), true},
		"another state":          {convert.Source{FS: fstest.MapFS{"state.yaml": {Data: []byte("terraform: 1\n")}, "jobs/x": {}}, Path: "."}, false},
	} {
		if got := Tool().Detect(t.Context(), c.p); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestEverythingInTheFolderIsRead(t *testing.T) {
	got := take(t, own())
	if d := cmp.Diff(at("2026-03-01T10:00:00Z"), got.Fleet.StartedAt); d != "" {
		t.Error(d)
	}
	yes, no := true, false
	want := []tidemark.Agent{
		{Name: "helper", Status: "idle"},
		{Name: "lonely", Status: "idle", Session: &tidemark.AgentSession{ID: "s-1", CreatedAt: at("2026-03-01T08:00:00Z"), LastUsedAt: at("2026-03-01T08:00:00Z"), RunMode: "autonomous"}},
		{Name: "ops.auditor", Status: "error", CurrentJob: "job-2026-03-01-bbbbbb", ContainerID: "012345", ErrorMessage: "it broke\ntwice\n"},
		{Name: "writer", Status: "idle", LastJob: "job-2026-03-01-aaaaaa", NextSchedule: "daily", NextTriggerAt: at("2026-03-02T09:00:00Z"),
			Session: &tidemark.AgentSession{ID: "11111111-0000-4000-8000-000000000001", CreatedAt: at("2026-03-01T08:00:00Z"), LastUsedAt: at("2026-03-01T09:05:23.25Z"),
				Jobs: 15, RunMode: "review", WorkingDirectory: "/home/somebody/work"}},
	}
	plain := cmp.Options{cmpopts.IgnoreFields(tidemark.Agent{}, "Extra"), cmpopts.IgnoreFields(tidemark.AgentSession{}, "Extra"),
		cmpopts.IgnoreFields(tidemark.Schedule{}, "Extra"), cmpopts.IgnoreFields(tidemark.Job{}, "Extra"), cmpopts.IgnoreFields(tidemark.Event{}, "Extra")}
	if d := cmp.Diff(want, got.Agents, plain); d != "" {
		t.Error(d)
	}
	wake := tidemark.Schedule{Agent: "writer", Name: "cron_01", Status: "idle", Type: "cron", Cron: "30 9 * * 1-5", Prompt: "morning check",
		Session: "11111111-0000-4000-8000-000000000001", NextRunAt: at("2026-03-02T09:30:00Z"), CreatedAt: at("2026-03-01T10:04:15.536Z")}
	shot := wake
	shot.Name, shot.Cron, shot.Prompt, shot.Once, shot.NextRunAt = "wake_02", "15 23 31 12 *", "one shot", true, at("2026-12-31T23:15:00Z")
	if d := cmp.Diff([]tidemark.Schedule{
		{Agent: "writer", Name: "daily", Status: "idle", LastRunAt: at("2026-03-01T09:00:00Z"), NextRunAt: at("2026-03-02T09:00:00Z")},
		{Agent: "writer", Name: "every hour", Status: "disabled", LastError: "no: such file"},
		wake, shot,
	}, got.Schedules, plain); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]tidemark.Job{
		{ID: "job-2026-02-28-cccccc", Agent: "helper", Trigger: "fork", Status: "completed", ExitReason: "end_turn", SessionID: "0123",
			StartedAt: at("2026-02-28T10:00:00Z"), FinishedAt: at("2026-02-28T10:00:09Z"), DurationSeconds: 9.5,
			Prompt: "Long lines are folded by some.\n\nAnd have paragraphs.", OutputFile: "job-2026-02-28-cccccc.jsonl"},
		{ID: "job-2026-03-01-aaaaaa", Agent: "writer", Schedule: "daily", Trigger: "schedule", Status: "completed", ExitReason: "success",
			SessionID: "11111111-0000-4000-8000-000000000001", StartedAt: at("2026-03-01T09:00:00Z"), FinishedAt: at("2026-03-01T09:05:23.25Z"), DurationSeconds: 323,
			Prompt:     "Count the words.\nSay how many: there are.\n",
			Summary:    "There are more words than yesterday; the longest of them is written here so that this line is folded by who writes it, and read as one.",
			OutputFile: "job-2026-03-01-aaaaaa.jsonl", Turns: 3, CostUSD: 0.0421,
			Usage: map[string]tidemark.Usage{"big-model": {InputTokens: 1500, OutputTokens: 240, CacheWriteTokens: 120, CacheReadTokens: 900}}},
		{ID: "job-2026-03-01-bbbbbb", Agent: "ops.auditor", Trigger: "chat", Status: "running", ForkedFrom: "job-2026-03-01-aaaaaa",
			StartedAt: at("2026-03-01T10:00:00Z"), OutputFile: "job-2026-03-01-bbbbbb.jsonl"},
	}, got.Jobs, plain); d != "" {
		t.Error(d)
	}
	said := func(s string) time.Time { return at("2026-03-01T09:00:" + s) }
	if d := cmp.Diff([]tidemark.Event{
		{Type: "system", Subtype: "init", Content: "Session initialized", Timestamp: said("01Z")},
		{Type: "assistant", Content: "I count <all> of them…", Usage: &tidemark.Usage{InputTokens: 1500, OutputTokens: 200}, Timestamp: said("02Z")},
		{Type: "assistant", Timestamp: said("02.5Z")},
		{Type: "assistant", Timestamp: said("02.6Z")},
		{Type: "tool_use", ToolName: "Bash", ToolUseID: "toolu_1", Input: []byte(`{"command":"wc -w *"}`), Timestamp: said("03Z")},
		{Type: "tool_use", ToolName: "Bash", Input: []byte(`"wc -w"`), Timestamp: said("03.1Z")},
		{Type: "tool_result", ToolUseID: "toolu_1", Result: []byte(`"12"`), Success: &yes, Timestamp: said("04Z")},
		{Type: "tool_result", Result: []byte(`[1,{"a":null}]`), Success: &no, Error: "odd", Timestamp: said("05Z")},
		{Type: "error", Message: "it broke", Code: "TOOL_ERROR", Stack: "at wc", Timestamp: at("2026-03-01T08:00:06Z")},
	}, got.Output["job-2026-03-01-aaaaaa"], plain); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]tidemark.Event{
		{Type: "system", Subtype: "init", Timestamp: at("2026-03-01T10:00:01Z")},
		{Type: "tool_use", ToolName: "Bash", Input: []byte(`{"type":"x"}`), Timestamp: at("2026-03-01T10:00:02Z")},
	}, got.Output["job-2026-03-01-bbbbbb"], plain); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]tidemark.Event{
		{Type: "system", Subtype: "log", Content: "[2026-03-01T09:00:00.000Z] [INFO] started", Timestamp: at("2026-03-01T09:00:00Z")},
		{Type: "system", Subtype: "log", Content: "  at once", Timestamp: at("2026-03-01T09:00:00Z")},
		{Type: "system", Subtype: "log", Content: "2026-03-01T09:01:00Z stopped", Timestamp: at("2026-03-01T09:01:00Z")},
	}, got.Logs["writer"], plain); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]convert.Transcript{{Tool: "claude-code", Path: ".herdctl/docker-sessions/33333333-0000-4000-8000-000000000003.jsonl"}}, got.Transcripts); d != "" {
		t.Error(d)
	}
	for _, word := range []string{"colour", "customName", "sourceCwd", `"discord"`, `"slack"`, `"web"`} {
		if !strings.Contains(string(got.agent("writer").Extra), word) {
			t.Errorf("writer's extra lacks %s: %s", word, got.agent("writer").Extra)
		}
	}
	if len(got.skips) != 2 || len(got.Lost) != 1 {
		t.Errorf("skipped %q, lost %q", got.skips, got.Lost)
	}
}

func TestImportingTwiceIsTheSame(t *testing.T) {
	if d := cmp.Diff(take(t, own()), take(t, own()), cmpopts.IgnoreUnexported(taken{})); d != "" {
		t.Error(d)
	}
}

func TestWhatIsExportedIsImportedAgain(t *testing.T) {
	first := take(t, own())
	out, lost := give(t, own())
	second := take(t, out.Source())
	// The listed losses: an exit reason of the other page, a null that herdctl
	// does not take, and what is no part of the fleet.
	j := first.job("job-2026-02-28-cccccc")
	j.ExitReason, j.Extra = "success", second.job(j.ID).Extra
	first.Transcripts, first.Lost = nil, nil
	if d := cmp.Diff(first, second, cmpopts.IgnoreUnexported(taken{})); d != "" {
		t.Error(d)
	}
	if len(second.skips) > 0 {
		t.Errorf("skipped %q", second.skips)
	}
	want := []string{
		"job job-2026-02-28-cccccc: exit reason end_turn is written as success",
		"job job-2026-03-01-bbbbbb and 1 more: lines of its output that could not be read",
		"33333333-0000-4000-8000-000000000003.jsonl: a transcript of claude-code, to be exported on its own",
	}
	if d := cmp.Diff(want, lost); d != "" {
		t.Error(d)
	}
	again, _ := give(t, out.Source())
	if d := cmp.Diff(out.Files, again.Files); d != "" {
		t.Error(d)
	}
}

func TestWhatChangedMeanwhileIsNotOverwrittenByWhatWasKept(t *testing.T) {
	p := herd(map[string]string{
		"jobs/job-2026-03-01-aaaaaa.yaml": "id: job-2026-03-01-aaaaaa\nagent: a\ntrigger_type: slack\nstatus: running\nstarted_at: 2026-03-01T10:00:00+02:00\nsummary: ''\nfinished_at: 2026-03-01T11:00:00+02:00\n",
	})
	f, err := Tool().Fleet(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	jobs := f.Jobs
	f.Jobs = func(yield func(convert.Job, error) bool) {
		for j, err := range jobs {
			j.Status, j.Summary, j.FinishedAt = tidemark.JobInterrupted, "done", at("2026-03-01T12:00:00Z")
			yield(j, err)
		}
	}
	out, lost := giveFleet(t, f)
	text := string(out.Files[".herdctl/jobs/job-2026-03-01-aaaaaa.yaml"].Data)
	for _, line := range []string{`trigger_type: slack`, `status: failed`, `exit_reason: error`, `started_at: "2026-03-01T10:00:00+02:00"`, `finished_at: "2026-03-01T12:00:00.000Z"`, `summary: done`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	if d := cmp.Diff([]string{"job job-2026-03-01-aaaaaa: status interrupted is written as failed, exit reason error"}, lost); d != "" {
		t.Error(d)
	}
}

func TestExitReasonsAndTriggersOfBothPages(t *testing.T) {
	job := func(i int, trigger, status, exit string) (string, string) {
		id := fmt.Sprintf("job-2026-03-01-aaaa%02d", i)
		return "jobs/" + id + ".yaml", fmt.Sprintf("id: %s\nagent: a\ntrigger_type: %s\nstatus: %s\nexit_reason: %s\nstarted_at: \"2026-03-01T10:00:%02dZ\"\n", id, trigger, status, exit, i)
	}
	cases := []struct{ trigger, status, exit, trigger2, exit2, written string }{
		{"manual", "completed", "success", "manual", "success", "success"},
		{"schedule", "completed", "end_turn", "schedule", "end_turn", "success"},
		{"webhook", "completed", "stop_sequence", "webhook", "stop_sequence", "success"},
		{"chat", "failed", "timeout", "chat", "timeout", "timeout"},
		{"discord", "failed", "max_turns", "chat", "max_turns", "max_turns"},
		{"slack", "cancelled", "interrupt", "chat", "interrupt", "cancelled"},
		{"web", "failed", "interrupt", "chat", "interrupt", "error"},
		{"fork", "cancelled", "cancelled", "fork", "cancelled", "cancelled"},
		{"spawned", "failed", "error", "spawned", "error", "error"},
		{"manual", "pending", "null", "manual", "", ""},
	}
	files := map[string]string{}
	for i, c := range cases {
		name, text := job(i, c.trigger, c.status, c.exit)
		files[name] = text
	}
	got := take(t, herd(files))
	out, _ := give(t, herd(files))
	for i, c := range cases {
		if j := got.Jobs[i]; j.Trigger != c.trigger2 || j.ExitReason != c.exit2 {
			t.Errorf("%+v is read as %s, %s", c, j.Trigger, j.ExitReason)
		}
		name, _ := job(i, "", "", "")
		o, err := readDoc(out.Files, path.Join(folder, name))
		if err != nil || text(o["trigger_type"]) != c.trigger || text(o["exit_reason"]) != c.written {
			t.Errorf("%+v is written as %s, %s", c, o["trigger_type"], o["exit_reason"])
		}
	}
}

func TestWhatHerdctlHasNoPlaceForIsTold(t *testing.T) {
	events := func(yield func(tidemark.Event, error) bool) {
		for i, kind := range []string{"assistant", "tool_use", "error", "odd"} {
			if !yield(tidemark.Event{Type: kind, Content: "x", Timestamp: at("2026-03-01T10:00:00.000001Z").Add(time.Duration(i)),
				Usage: &tidemark.Usage{InputTokens: 1, CacheReadTokens: 2}}, nil) {
				return
			}
		}
		yield(tidemark.Event{}, convert.Skipf("x", "bad"))
	}
	jobs := []tidemark.Job{
		{ID: "job-2026-03-01-aaaaaa", Agent: "a", Trigger: "moon", Status: "interrupted", ExitReason: "interrupt", StartedAt: at("2026-03-01T10:00:00Z"), ForkedFrom: "../x",
			Usage: map[string]tidemark.Usage{"m": {CostUSD: 1}}, Extra: []byte(`{"codex":{"a":1}}`)},
		{ID: "job-2026-03-01-aaaaaa", Agent: "a", Status: "completed", StartedAt: at("2026-03-01T10:00:00Z")},
		{ID: "../../etc/passwd", Agent: "a", Status: "completed", StartedAt: at("2026-03-01T10:00:00Z")},
		{ID: "job-2026-03-01-bbbbbb", Status: "completed"},
	}
	f := &convert.Fleet{
		Agents: []convert.Agent{
			{Agent: tidemark.Agent{Name: "a", Status: "disabled", Session: &tidemark.AgentSession{ID: "s", RunMode: "wild", CreatedAt: at("2026-03-01T12:00:00+02:00")}}},
			{Agent: tidemark.Agent{Name: "../b", Status: "idle"}},
			{Agent: tidemark.Agent{Name: "end-", Status: "idle"}},
			{Agent: tidemark.Agent{Name: "c", Status: "idle", Session: &tidemark.AgentSession{ID: "s"}, Extra: []byte(`{"herdctl":{"adopted":{"../x":{}},"channels":{"a/b":{},"ok":7}}}`)}, Log: events},
		},
		Schedules: []tidemark.Schedule{
			{Agent: "a", Name: "nightly", Status: "idle", Type: "cron", Cron: "0 3 * * *", Zone: "Europe/Berlin", Prompt: "go"},
			{Agent: "new", Name: "n", Status: "odd", NextRunAt: at("2026-03-01T12:00:00Z")},
			{Agent: "a", Name: "wake", Type: "cron", Cron: "0 3 * * *", Session: "s", Prompt: "go", NextRunAt: at("2026-03-01T12:00:00Z"), Once: true},
			{Agent: "/", Name: "n"},
		},
		Jobs: func(yield func(convert.Job, error) bool) {
			for _, j := range jobs {
				if !yield(convert.Job{Job: j, Output: events}, nil) {
					return
				}
			}
			yield(convert.Job{}, convert.Skipf("job x", "damaged"))
		},
	}
	out, lost := giveFleet(t, f)
	all := strings.Join(lost, "\n")
	for _, want := range []string{`trigger "moon"`, "status interrupted", "id like job-", "id is there twice", "no agent, no start", "forked from", "cost of each model", "other tools",
		`event of type "odd"`, "lines of its output", "lines of its log", "damaged", "status disabled", `run mode "wild"`, `agent "../b" and 1 more: left out`, "no id or no time", `"../x"`, `"a/b"`, `"ok"`,
		"reads that from its configuration", `"/": left out`} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing is said of %s in\n%s", want, all)
		}
	}
	var names []string
	for name := range out.Files {
		names = append(names, strings.TrimPrefix(name, folder+"/"))
	}
	slices.Sort(names)
	if d := cmp.Diff([]string{"jobs/job-2026-03-01-aaaaaa.jsonl", "jobs/job-2026-03-01-aaaaaa.yaml", "logs/c.log", "sessions/a.json", "state.yaml"}, names); d != "" {
		t.Error(d)
	}
	got := take(t, out.Source())
	if len(got.Schedules) != 3 || got.agent("new") == nil || !got.Schedules[2].Once || got.Output["job-2026-03-01-aaaaaa"][0].Usage.InputTokens != 3 {
		t.Errorf("read again: %+v", got)
	}
}

func TestAnErrorThatIsNoSkipEndsTheExport(t *testing.T) {
	f := &convert.Fleet{Jobs: func(yield func(convert.Job, error) bool) { yield(convert.Job{}, fs.ErrPermission) }}
	out := converttest.NewOut()
	if _, err := Tool().ExportFleet(t.Context(), out, f); err == nil || len(out.Files) > 0 {
		t.Errorf("%v, with %d files", err, len(out.Files))
	}
}
