package file

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

var update = flag.Bool("update", false, "write the golden files anew")

// inFolder has the surroundings of a file in /srv/fleet.
func inFolder() *Options {
	return &Options{
		Files: fstest.MapFS{"prompts/common.md": {Data: []byte("You work for the shipyard.\n")}, "prompts": {Mode: os.ModeDir}},
		Dir: func(written string) (string, error) {
			if path.IsAbs(written) {
				return path.Clean(written), nil
			}
			return path.Join("/srv/fleet", written), nil
		},
	}
}

func parsed(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse("fleet.yaml", []byte(text), inFolder())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLargeFileIsReadAsItsGoldenSays(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "large.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	dump(&b, "", reflect.ValueOf(*parsed(t, string(text))))
	golden := filepath.Join("testdata", "large.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("large.yaml (-golden +now):\n%s", diff)
	}
}

// dump writes every value that is not zero on a line of its own.
func dump(b *strings.Builder, at string, v reflect.Value) {
	switch {
	case v.IsZero():
		return
	case v.Type() == reflect.TypeFor[time.Duration]() || v.Type() == reflect.TypeFor[Permission]():
		fmt.Fprintf(b, "%s = %v\n", at, v.Interface())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		dump(b, at, v.Elem())
		if v.Elem().IsZero() {
			fmt.Fprintf(b, "%s = &%v\n", at, v.Elem().Interface())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				dump(b, strings.TrimPrefix(at+"."+field.Name, "."), v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			dump(b, fmt.Sprintf("%s[%d]", at, i), v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			dump(b, at+"."+k.String(), v.MapIndex(k))
		}
	default:
		fmt.Fprintf(b, "%s = %#v\n", at, v.Interface())
	}
}

func TestSmallestFileHasWhatIsBuiltIn(t *testing.T) {
	f := parsed(t, "agents:\n  - name: a\n    schedules:\n      - {name: s, every: 1m, prompt: p}\n      - {name: c, cron: '@hourly', prompt: p}\n")
	want := []Agent{{
		Name: "a", Runner: fleet.RunnerBuiltin, Dir: "/srv/fleet", RunMode: fleet.RunAutonomous, SessionTimeout: 24 * time.Hour,
		Limits: Limits{MaxConcurrent: 1}, Retries: Retries{Attempts: 1, Backoff: 30 * time.Second}, SelfSchedule: SelfSchedule{MinInterval: time.Minute},
		Schedules: []Schedule{
			{Name: "s", Type: fleet.TypeInterval, Every: time.Minute, Missed: fleet.MissedOnce, Overlap: fleet.OverlapSkip, From: fleet.FromStart, Prompt: "p"},
			{Name: "c", Type: fleet.TypeCron, Cron: "@hourly", Zone: "UTC", Missed: fleet.MissedOnce, Overlap: fleet.OverlapSkip, Prompt: "p"},
		},
	}}
	if diff := cmp.Diff(want, f.Agents); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	for _, s := range f.Agents[0].Schedules {
		if err := s.Timing(time.Unix(0, 0)).Check(); err != nil {
			t.Errorf("the timing of %s: %v", s.Name, err)
		}
	}
}

func TestDefaultsAreMergedKeyByKeyAndListsAreReplaced(t *testing.T) {
	f := parsed(t, `
defaults:
  model: m
  env: {A: "1", B: "2"}
  permissions: {allow: [read, grep], deny: [bash]}
  limits: {timeout: 1h, max_turns: 5}
  container: {image: i, memory: 1GB}
agents:
  - name: silent
  - name: own
    model: other
    env: {B: "3", C: "4"}
    permissions: {allow: [write]}
    limits: {timeout: 2h}
    container: {image: j}
  - name: none
    model:
    env: ~
    permissions: {deny: null}
    limits: {timeout: null}
    container: null
`)
	type some struct {
		Model       string
		Env         map[string]string
		Permissions string
		Limits      Limits
		Container   *Container
	}
	var got []some
	for _, a := range f.Agents {
		got = append(got, some{a.Model, a.Env, fmt.Sprint(a.Permissions), a.Limits, a.Container})
	}
	want := []some{
		{"m", map[string]string{"A": "1", "B": "2"}, "{[read grep] [bash]}", Limits{MaxConcurrent: 1, Timeout: time.Hour, MaxTurns: 5}, &Container{Engine: "docker", Image: "i", Memory: 1e9}},
		{"other", map[string]string{"A": "1", "B": "3", "C": "4"}, "{[write] [bash]}", Limits{MaxConcurrent: 1, Timeout: 2 * time.Hour, MaxTurns: 5}, &Container{Engine: "docker", Image: "j", Memory: 1e9}},
		{"", nil, "{[read grep] []}", Limits{MaxConcurrent: 1, MaxTurns: 5}, nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
}

func TestDefaultThatMeansNothingForAScheduleIsLeftOut(t *testing.T) {
	f := parsed(t, `
webhooks: {secret_env: S}
defaults:
  schedule: {zone: Asia/Tokyo, from: completion, missed: skip, jitter: 10m, resume: true}
agents:
  - name: a
    schedules:
      - {name: i, every: 1m, prompt: p}
      - {name: c, cron: "0 0 * * *", prompt: p}
      - {name: h, type: webhook}
      - {name: m, type: chat, resume: false}
`)
	want := []Schedule{
		{Name: "i", Type: fleet.TypeInterval, Every: time.Minute, Jitter: 30 * time.Second, Missed: fleet.MissedSkip, Overlap: fleet.OverlapSkip, From: fleet.FromCompletion, Prompt: "p", Resume: true},
		{Name: "c", Type: fleet.TypeCron, Cron: "0 0 * * *", Zone: "Asia/Tokyo", Jitter: 10 * time.Minute, Missed: fleet.MissedSkip, Overlap: fleet.OverlapSkip, Prompt: "p", Resume: true},
		{Name: "h", Type: fleet.TypeWebhook, Overlap: fleet.OverlapQueue, Resume: true, SecretEnv: "S"},
		{Name: "m", Type: fleet.TypeChat, Overlap: fleet.OverlapQueue},
	}
	if diff := cmp.Diff(want, f.Agents[0].Schedules); diff != "" {
		t.Errorf("schedules (-want +got):\n%s", diff)
	}
}

func TestSystemPromptIsReadFromTheFolderAlone(t *testing.T) {
	f := parsed(t, "agents: [{name: a, system: {file: ./prompts/common.md}}]")
	if got := f.Agents[0].System; got.Text != "You work for the shipyard.\n" || got.File != "./prompts/common.md" {
		t.Errorf("system = %+v", got)
	}
	for file, want := range map[string]string{
		"../x": "no file in the folder", "/etc/passwd": "no file in the folder", "prompts/none.md": "there is none", "prompts": "not a plain file",
		"bad": "not UTF-8", "long": "larger than",
	} {
		o := inFolder()
		o.Files.(fstest.MapFS)["bad"] = &fstest.MapFile{Data: []byte("\xff")}
		o.Files.(fstest.MapFS)["long"] = &fstest.MapFile{Data: make([]byte, maxPrompt+1)}
		_, err := Parse("f", []byte("agents: [{name: a, system: {file: "+file+"}}]"), o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("file %s: %v, want %q", file, err, want)
		}
	}
}

func TestFolderThatCannotBeResolvedIsAProblem(t *testing.T) {
	o := &Options{Dir: func(string) (string, error) { return "", errors.New("is outside") }}
	_, err := Parse("f", []byte("agents: [{name: a, dir: x}]"), o)
	if err == nil || !strings.Contains(err.Error(), "f:1:25: dir: is outside") {
		t.Errorf("Parse = %v", err)
	}
}

func TestScheduleIsAddedAtRunTimeWithTheDefaultsOfTheFile(t *testing.T) {
	f := parsed(t, "webhooks: {secret_env: S}\ndefaults: {schedule: {zone: Asia/Tokyo}}\nagents: [{name: a}]")
	s, err := f.ParseSchedule(f.Agents[0], []byte(`{"name": "own", "cron": "0 9 * * *", "prompt": "Look."}`))
	want := Schedule{Name: "own", Type: fleet.TypeCron, Cron: "0 9 * * *", Zone: "Asia/Tokyo", Missed: fleet.MissedOnce, Overlap: fleet.OverlapSkip, Prompt: "Look."}
	if diff := cmp.Diff(want, s); diff != "" || err != nil {
		t.Errorf("ParseSchedule: %v (-want +got):\n%s", err, diff)
	}
	if _, err := f.ParseSchedule(f.Agents[0], []byte(`{"name": "hook", "type": "webhook"}`)); err != nil {
		t.Errorf("a webhook with the secret of all: %v", err)
	}
	for _, bad := range []string{"", "[]", `{"name": "x"}`, `{"name": "x", "every": "1s", "prompt": ""}`, `{"name": "x", "every": "10ms", "prompt": "p"}`} {
		if _, err := f.ParseSchedule(f.Agents[0], []byte(bad)); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("ParseSchedule(%s) = %v, want ErrInvalid", bad, err)
		}
	}
}

func TestAnchorsAliasesAndMergeKeysWork(t *testing.T) {
	f := parsed(t, `
x-a: &a {model: m, limits: &l {timeout: 1h}}
x-b: &b {model: n, description: d}
agents:
  - <<: [*a, *b]
    name: one
  - {name: two, limits: *l, <<: *b}
`)
	if a := f.Agents[0]; a.Model != "m" || a.Description != "d" || a.Limits.Timeout != time.Hour {
		t.Errorf("one = %+v", a)
	}
	if a := f.Agents[1]; a.Model != "n" || a.Limits.Timeout != time.Hour {
		t.Errorf("two = %+v", a)
	}
}

func TestATabInATextStays(t *testing.T) {
	f := parsed(t, "agents:\n  - name: a\n    description: one\ttwo  three\n    schedules:\n      - {name: s, every: 1h, prompt: a\tb}\n      - name: t\n        every: 1h\n        prompt: a\t\tb # not this\n")
	a := f.Agents[0]
	if a.Description != "one\ttwo  three" || a.Schedules[0].Prompt != "a\tb" || a.Schedules[1].Prompt != "a\t\tb" {
		t.Errorf("%+v", a)
	}
}

func TestFileThatGrowsInMemoryIsRefused(t *testing.T) {
	aliases := "x-0: &x0 [a, b]\n"
	for i := range 30 {
		aliases += fmt.Sprintf("x-%d: &x%d [*x%d, *x%d]\n", i+1, i+1, i, i)
	}
	merges := "x-0: &x0 {"
	for i := range 900 {
		merges += fmt.Sprintf("k%d: v, ", i)
	}
	merges += "}\nx-m:\n" + strings.Repeat("  - {<<: *x0}\n", 900)
	env := "defaults:\n  env:\n"
	for i := range 900 {
		env += fmt.Sprintf("    K%d: v\n", i)
	}
	for name, text := range map[string]string{
		"aliases of aliases":  aliases + "agents: *x30\n",
		"merges of one":       merges,
		"defaults":            env + "agents:\n" + strings.Repeat("  - name: a\n", 2000),
		"a large file":        "agents: " + strings.Repeat(" ", maxFile),
		"lists in a line":     strings.Repeat("- ", 5000) + "a",
		"brackets":            "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"an indent":           deep(2000),
		"tokens":              strings.Repeat("-\n", maxFile/2),
		"keys of one mapping": manyKeys(5000),
		"anchors":             "a:\n" + strings.Repeat("  - &a b\n", 2000),
	} {
		f, err := Parse("f", []byte(text), nil)
		if f != nil || !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: Parse = %v, %v", name, f != nil, err)
		}
	}
}

func deep(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", min(i, 200)) + "a:\n")
	}
	return b.String()
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v\n", i)
	}
	return b.String()
}

// thousands is a file with 500 agents of 20 schedules each.
func thousands() []byte {
	var b strings.Builder
	b.WriteString("defaults: {schedule: {zone: Europe/Berlin, prompt: Go on.}}\nagents:\n")
	for a := range 500 {
		fmt.Fprintf(&b, "  - name: agent%d\n    schedules:\n", a)
		for s := range 20 {
			fmt.Fprintf(&b, "      - name: s%d\n        cron: \"%d %d * * *\"\n", s, a%60, s)
		}
	}
	return []byte(b.String())
}

func TestTenThousandSchedulesAreRead(t *testing.T) {
	f := parsed(t, string(thousands()))
	if len(f.Agents) != 500 || len(f.Agents[499].Schedules) != 20 {
		t.Errorf("%d agents", len(f.Agents))
	}
}

func BenchmarkParseTenThousandSchedules(b *testing.B) {
	text := thousands()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := Parse("f", text, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAnAgentKeepsWhatTheFileSaysUnlessItSaysOtherwise(t *testing.T) {
	f := parsed(t, "version: 1\nkeep: {jobs: 9}\nagents:\n  - name: a\n  - {name: b, keep: {days: 2}}\n  - name: c\n    keep:\n")
	if got := []Keep{f.Agents[0].Keep, f.Agents[1].Keep, f.Agents[2].Keep}; !slices.Equal(got, []Keep{{Jobs: 9}, {Days: 2}, {}}) {
		t.Errorf("%+v", got)
	}
}
