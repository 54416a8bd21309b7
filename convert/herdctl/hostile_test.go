package herdctl

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

const (
	goodJob   = "id: job-2026-03-01-aaaaaa\nagent: good\ntrigger_type: manual\nstatus: completed\nstarted_at: 2026-03-01T10:00:00.000Z\n"
	goodState = "fleet: {}\nagents:\n  good:\n    status: idle\n"
)

// bomb is a text of nine aliases each, a level inside of the other.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 lol\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return b.String() + "fleet: {}\nagents: *a9\n"
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v\n", i)
	}
	return b.String()
}

func TestABadFileIsSkippedAndTheRestComesIn(t *testing.T) {
	for name, text := range map[string]string{
		"zero bytes":       "",
		"null":             "null\n",
		"a comment":        "# nothing\n",
		"a text":           "just words",
		"a list":           "- a\n- b\n",
		"half a file":      "agents:\n  a:\n    status: \"id",
		"other brackets":   "agents: {a: [}",
		"two documents":    "fleet: {}\n---\nfleet: {}\n",
		"a bomb":           bomb(),
		"a long alias":     "a: &a " + strings.Repeat("x", 1<<16) + "\nb: [" + strings.Repeat("*a,", 900) + "1]\n",
		"itself":           "a: &a [*a]\n",
		"no anchor":        "agents: *gone\n",
		"many anchors":     strings.Repeat("- &a x\n", 2000),
		"brackets":         "a: " + strings.Repeat("[", 10_000),
		"braces":           "a: " + strings.Repeat("{a: ", 10_000),
		"dashes":           strings.Repeat("- ", 10_000) + "x",
		"questions":        strings.Repeat("? ", 10_000) + "x",
		"steps":            deep(500),
		"many keys":        manyKeys(10_100),
		"many keys inside": "a: {" + strings.ReplaceAll(manyKeys(10_100), "\n", ",") + "}",
		"many questions":   strings.Repeat("? k\n", 10_100),
		"many parts":       "a: [" + strings.Repeat("1,", 250_000) + "1]",
		"a key twice":      "agents: {}\nagents: {}\n",
		"a key as a list":  "? [a]\n: b\n",
		"not UTF-8":        "fleet: {}\nagents:\n  \"\xff\": {}\n",
		"too large":        "a: " + strings.Repeat("x", maxDoc),
		"zeros":            strings.Repeat("\x00", 4096),
	} {
		t.Run(name, func(t *testing.T) {
			good := map[string]string{"sessions/good.json": `{"session_id":"s","created_at":"2026-03-01T10:00:00Z","last_used_at":"2026-03-01T10:00:00Z","job_count":1,"mode":"autonomous"}`,
				"jobs/job-2026-03-01-aaaaaa.yaml": goodJob, "state.yaml": goodState}
			good["jobs/job-2026-03-01-bbbbbb.yaml"] = text
			good["adopted-sessions/x.yaml"] = text
			got := take(t, herd(good))
			if len(got.Jobs) != 1 || len(got.Agents) != 1 || len(got.skips) != 2 {
				t.Errorf("%d jobs, %d agents, skipped %q", len(got.Jobs), len(got.Agents), got.skips)
			}
			delete(good, "adopted-sessions/x.yaml")
			delete(good, "jobs/job-2026-03-01-bbbbbb.yaml")
			good["state.yaml"], good["sessions/bad.json"] = text, text
			got = take(t, herd(good))
			if len(got.Jobs) != 1 || len(got.Agents) != 1 || got.Agents[0].Session == nil || len(got.skips) != 2 {
				t.Errorf("%d jobs, %d agents, skipped %q", len(got.Jobs), len(got.Agents), got.skips)
			}
			for _, s := range got.skips {
				if len(s) > 400 {
					t.Errorf("a reason of %d bytes", len(s))
				}
			}
		})
	}
}

// deep is a mapping inside of a mapping, and so on.
func deep(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestAliasesThatAreNoBombAreReplaced(t *testing.T) {
	got := take(t, herd(map[string]string{"state.yaml": "fleet: {}\nagents:\n  a: &a\n    status: running\n    container_id: !!str 12\n  b: *a\n"}))
	if b := got.agent("b"); b == nil || b.Status != "running" || b.ContainerID != "12" || len(got.skips) > 0 {
		t.Errorf("%+v, skipped %q", b, got.skips)
	}
}

func TestTextsKeepTheirWhiteSpace(t *testing.T) {
	got := take(t, herd(map[string]string{"jobs/job-2026-03-01-aaaaaa.yaml": goodJob + "prompt: a\tb\tc\nsummary: |-\n  \tone\u2028\n  two\x7f\n"}))
	if len(got.skips) > 0 || got.Jobs[0].Prompt != "a\tb\tc" || got.Jobs[0].Summary != "\tone\u2028\ntwo\x7f" {
		t.Errorf("%+v, skipped %q", got.Jobs, got.skips)
	}
}

func TestHostileNamesAndValuesAreSkippedAlone(t *testing.T) {
	long := strings.Repeat("x", 200)
	p := herd(map[string]string{
		"state.yaml": "fleet: 7\nagents:\n  ../up: {status: idle}\n  good: {status: dancing, schedules: {\"a\\u0007\": {}, " + long + ": {}, ok: ~, bad: 7}}\n  seven: 7\n  " + long + ": {}\n  none: ~\n  \"\": {}\n" +
			"session_wakes:\n  ok: {id: ok, agent: good, sessionId: s, schedule: '* * * * *', recurring: false, prompt: p, nextRunAt: 2026-03-01T10:00:00Z, createdAt: x}\n  w: {agent: ../up, sessionId: s, schedule: x, nextRunAt: 2026-03-01T10:00:00Z}\n  v: {agent: good}\n  u: 7\n",
		"sessions/..x.json":                   `{}`,
		"sessions/good.json":                  `{"session_id":""}`,
		"sessions/list.json":                  `[]`,
		"adopted-sessions/s.yaml":             "agentName: ../up\n",
		"adopted-sessions/t.yaml":             "version: 1\n",
		"discord-sessions/sp ace.yaml":        "version: 1\n",
		"logs/sp ace.log":                     "x\n",
		"logs/dir.log/x":                      "",
		"jobs/job-2026-03-01-aaaaaa.yaml":     goodJob,
		"jobs/copy.yaml":                      goodJob,
		"jobs/up.yaml":                        "id: ../../up\nagent: good\nstatus: completed\nstarted_at: 2026-03-01T10:00:00Z\n",
		"jobs/noagent.yaml":                   "id: noagent\nstatus: completed\nstarted_at: 2026-03-01T10:00:00Z\n",
		"jobs/nostatus.yaml":                  "id: nostatus\nagent: good\nstatus: dancing\nstarted_at: 2026-03-01T10:00:00Z\n",
		"jobs/nostart.yaml":                   "id: nostart\nagent: good\nstatus: completed\nstarted_at: yesterday\n",
		"jobs/dir.yaml/x":                     "",
		"jobs/orphan.jsonl":                   "{}",
		"jobs/.job.yaml.tmp.0123456789abcdef": "id: x",
		"jobs/future.yaml":                    "agent: good\nstatus: completed\nstarted_at: 9999-12-31T23:59:59-01:00\n",
		"jobs/later.yaml":                     "agent: good\nstatus: completed\nstarted_at: 2999-01-01T00:00:00Z\nduration_seconds: -5\nusage: 7\noutput_file: ../../../etc/passwd\n",
	})
	p.FS.(fstest.MapFS)[".herdctl/jobs/pipe.yaml"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	got := take(t, p)
	for _, want := range []string{"fleet: is no mapping", `agent "../up"`, `agent "seven"`, `agent "xxxx`, `agent ""`, `schedule "a\a"`, `schedule "xxxx`, `schedule "bad"`, `wake "ok": has the name of a schedule`, `wake "w"`, `wake "v"`, `wake "u"`,
		"sessions/good.json", "sessions/list.json", "adopted-sessions/s.yaml", "adopted-sessions/t.yaml", "discord-sessions/sp ace.yaml", "logs/sp ace.log", "logs/dir.log",
		"jobs/copy.yaml: has the id of", "jobs/up.yaml", "jobs/noagent.yaml", "jobs/nostatus.yaml", "jobs/nostart.yaml", "jobs/dir.yaml", "jobs/orphan.jsonl", "jobs/future.yaml", "jobs/pipe.yaml"} {
		if !strings.Contains(strings.Join(got.skips, "\n"), want) {
			t.Errorf("nothing is said of %s", want)
		}
	}
	if len(got.skips) != 28 {
		t.Errorf("%d skipped:\n%s", len(got.skips), strings.Join(got.skips, "\n"))
	}
	var agents, jobs []string
	for _, a := range got.Agents {
		agents = append(agents, a.Name)
	}
	for _, j := range got.Jobs {
		jobs = append(jobs, j.ID)
	}
	if d := cmp.Diff([]string{"good", "none"}, agents); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"job-2026-03-01-aaaaaa", "later"}, jobs); d != "" {
		t.Error(d)
	}
	give(t, p)
}

func TestAStateThatIsAFolderIsSkipped(t *testing.T) {
	got := take(t, herd(map[string]string{"state.yaml/x": "", "jobs/job-2026-03-01-aaaaaa.yaml": goodJob}))
	if len(got.Jobs) != 1 || got.agent("good") == nil || len(got.skips) != 1 {
		t.Errorf("%+v, skipped %q", got.Jobs, got.skips)
	}
}

func TestAFolderThatIsNotThereIsAnError(t *testing.T) {
	for _, at := range []string{"gone", "../x"} {
		if _, err := Tool().Fleet(t.Context(), convert.Source{FS: fstest.MapFS{"a": {}}, Path: at}); err == nil {
			t.Error("no error")
		}
	}
}

func TestLines(t *testing.T) {
	const said = `{"type":"system","content":"x","timestamp":"2026-03-01T10:00:00.000Z"}`
	for name, c := range map[string]struct {
		line          string
		events, skips int
	}{
		"whole":                   {said, 1, 0},
		"two in a line":           {said + said, 2, 0},
		"torn, then whole":        {`{"type":"assistant","content":"a` + said, 1, 1},
		"torn twice, then whole":  {`{"type":"assis{"type":"tool_use","input":{` + said, 1, 1},
		"whole, then torn":        {said + `{"type":"assis`, 1, 1},
		"torn in what it holds":   {`{"type":"system","x":[{"type":"system","text":"a"},{"ty`, 0, 1},
		"not JSON":                {`hello`, 0, 1},
		"a list":                  {`[1]`, 0, 1},
		"null":                    {`null`, 0, 1},
		"no type":                 {`{"content":"x"}`, 0, 1},
		"another type":            {`{"type":"result","content":"x","timestamp":"2026-03-01T10:00:00.000Z"}`, 1, 0},
		"no time":                 {`{"type":"system"}`, 1, 0},
		"nulls":                   {`{"type":"assistant","content":null,"partial":null,"usage":null,"success":null,"error":null,"input":null,"timestamp":null}`, 1, 0},
		"wrong kinds":             {`{"type":"assistant","content":[{"a":1}],"partial":"yes","usage":7,"success":"no","error":{},"code":5,"timestamp":12}`, 1, 0},
		"not UTF-8":               {"{\"type\":\"system\",\"content\":\"\xff\"}", 0, 1},
		"very deep":               {`{"type":"system","x":` + strings.Repeat("[", 50_000), 0, 1},
		"countless begins":        {strings.Repeat(`{"type":"x",`, 100_000), 0, 1},
		"countless parts":         {`{"type":"system","x":[` + strings.Repeat("1,", 600_000) + `1]}`, 0, 1},
		"a null at the beginning": {"\x00" + said, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := herd(map[string]string{"jobs/job-2026-03-01-aaaaaa.yaml": goodJob, "jobs/job-2026-03-01-aaaaaa.jsonl": said + "\n" + c.line + "\n" + said + "\n"})
			got := take(t, p)
			if n := len(got.Output["job-2026-03-01-aaaaaa"]); n != c.events+2 || len(got.skips) != c.skips {
				t.Errorf("%d events, skipped %q", n, got.skips)
			}
			out, _ := give(t, p)
			again := take(t, out.Source())
			if n := len(again.Output["job-2026-03-01-aaaaaa"]); n != c.events+2 || len(again.skips) > 0 {
				t.Errorf("exported: %d events, skipped %q", n, again.skips)
			}
		})
	}
}

func TestTextsOfAnyKindSurviveYAML(t *testing.T) {
	for _, s := range []string{"a", "", " ", "\n", "a\n", "a\n\n", "\na", " a\nb", "a \nb", "a\n b\n", "a\n\n\nb", "a\tb", "a\r\nb", "- a\n- b\n", "a: b", "a #b", "#a\nb", "null", "true", "Yes", "~", "123", "1e3", "0x1F", "012",
		"2026-03-01T10:00:00Z", "2026-03-01", "'a'", `"a"`, `\`, "a\\\nb", "|\n>", "--- \na", "---\na", "a\n---\nb\n", "...\n", "\u0085", "a\u0085b", "\x7f", "\uffff\ufffe", "\ufffd\nx", "a\u2028b\nc", "\ufeffa\nb", "\x07\n", "é\n✓\n😀", strings.Repeat("long ", 100), "{a}\n[b]", "&a\n*b", "!a\n%b", "@\n`",
		"?", "? a\nb", "<<", "=", "a:\nb:", "\u00a0\nx", "%YAML 1.1\n", "-", "x\n\t\ny", "{{ .Values }}\n"} {
		o := object{"before": quoted("x"), s + "k": quoted(s), "in": form(nil).marshal(object{s + "k": quoted(s), "list": json.RawMessage(`[1,{"a":null,"b:":"- c"}]`), "none": json.RawMessage("{}")}), "z": quoted("end")}
		b := appendYAML(nil, form(nil).marshal(o), 0)
		got, err := parseYAML(b)
		if err != nil {
			t.Errorf("%q: %v\n%s", s, err, b)
			continue
		}
		if len(kept(o, got)) > 0 || len(kept(got, o)) > 0 {
			t.Errorf("%q is read as %s\n%s", s, got, b)
		}
	}
}

// endless is a file of lines that are made as they are read.
type endless struct {
	fs.FS
	name string
	n    int
}

type endlessFile struct {
	line  []byte
	rest  []byte
	lines int
}

func (e endless) Open(name string) (fs.File, error) {
	if name == e.name {
		return &endlessFile{line: []byte(`{"type":"assistant","content":"` + strings.Repeat("word ", 40) + `","timestamp":"2026-03-01T10:00:00.000Z"}` + "\n"), lines: e.n}, nil
	}
	return e.FS.Open(name)
}

// Stat says of the file what the folder does.
func (e endless) Stat(name string) (fs.FileInfo, error) { return fs.Stat(e.FS, name) }

func (f *endlessFile) Read(b []byte) (int, error) {
	if len(f.rest) == 0 {
		if f.lines == 0 {
			return 0, io.EOF
		}
		f.lines--
		f.rest = f.line
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *endlessFile) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }
func (f *endlessFile) Close() error               { return nil }

func TestOutputIsReadAndWrittenInBoundedMemory(t *testing.T) {
	const n = 100_000
	p := herd(map[string]string{"jobs/job-2026-03-01-aaaaaa.yaml": goodJob, "jobs/job-2026-03-01-aaaaaa.jsonl": ""})
	p.FS = endless{p.FS, path.Join(folder, "jobs/job-2026-03-01-aaaaaa.jsonl"), n}
	f, err := Tool().Fleet(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	jobs := f.Jobs
	var begin, most uint64
	seen := 0
	f.Jobs = func(yield func(convert.Job, error) bool) {
		for j, err := range jobs {
			events := j.Output
			j.Output = func(yield func(tidemark.Event, error) bool) {
				for e, err := range events {
					if seen++; seen%20_000 == 1 {
						var m runtime.MemStats
						runtime.GC()
						runtime.ReadMemStats(&m)
						if most = max(most, m.HeapAlloc); begin == 0 {
							begin = m.HeapAlloc
						}
					}
					if !yield(e, err) {
						return
					}
				}
			}
			yield(j, err)
		}
	}
	out := &discard{}
	if _, err := Tool().ExportFleet(t.Context(), out, f); err != nil {
		t.Fatal(err)
	}
	if seen != n || out.bytes < n*200 {
		t.Errorf("%d events, %d bytes", seen, out.bytes)
	}
	if grown := int64(most) - int64(begin); grown > 4<<20 {
		t.Errorf("%d bytes more are held in between", grown)
	}
}

// discard counts what is written.
type discard struct {
	convert.Out
	bytes int
}

func (d *discard) Create(string) (convert.File, error) { return d, nil }
func (d *discard) Write(b []byte) (int, error)         { d.bytes += len(b); return len(b), nil }
func (d *discard) Close() error                        { return nil }
func (d *discard) CloseWithError(err error) error      { return err }

func FuzzYAML(f *testing.F) {
	for _, s := range []string{goodJob, goodState, "a: &a [1]\nb: *a\n", "a: >-\n  x\n\n  y\n", "? a\n: b\n", "{a: \"b\\n\"}", "a: |2+\n\n", "!!str 1: 2\n", "- a", "<<: {a: b}\n", "a:\n  - b: c\n    d: e\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseYAML(b)
		if err != nil {
			return
		}
		again, err := parseYAML(appendYAML(nil, form(nil).marshal(o), 0))
		if err != nil {
			t.Fatalf("%q is written as what cannot be read: %v", o, err)
		}
		if len(kept(o, again)) > 0 || len(kept(again, o)) > 0 {
			t.Fatalf("%q is read again as %q", o, again)
		}
	})
}

// sameAgain exports a job and reads it again: but for what herdctl has no word
// for, it is the same.
func sameAgain(t *testing.T, yaml, lines []byte) {
	t.Helper()
	p := herd(map[string]string{"jobs/job-2026-03-01-aaaaaa.yaml": string(yaml), "jobs/job-2026-03-01-aaaaaa.jsonl": string(lines)})
	first := take(t, p)
	out, _ := give(t, p)
	second := take(t, out.Source())
	if len(first.Jobs) == 0 || !isJobID(first.Jobs[0].ID) {
		return
	}
	if len(second.Jobs) != 1 || len(second.skips) > 0 {
		t.Fatalf("%+v is read again as %+v, skipped %q", first.Jobs, second.Jobs, second.skips)
	}
	a, b := first.Jobs[0], second.Jobs[0]
	a.Status, a.ExitReason, a.ForkedFrom, a.Extra = b.Status, b.ExitReason, b.ForkedFrom, b.Extra
	if d := cmp.Diff(a, b, cmpopts.EquateEmpty()); d != "" {
		t.Fatal(d)
	}
	if d := cmp.Diff(first.Output[a.ID], second.Output[a.ID], cmpopts.IgnoreFields(tidemark.Event{}, "Extra")); d != "" {
		t.Fatal(d)
	}
}

func FuzzJob(f *testing.F) {
	f.Add([]byte(goodJob))
	f.Add([]byte(goodJob + "usage: {per_model: {m: {input_tokens: 1}}, num_turns: 0}\nexit_reason: end_turn\noutput_file: C:\\x\\y.jsonl\n"))
	f.Add([]byte(goodJob + "finished_at: 2026-03-01\nduration_seconds: 1e400\nforked_from: x\nprompt: |\n  a\n  b\nsummary: [1]\nx: {y: ~}\n"))
	f.Add([]byte(goodJob + "finished_at: 2026-03-01\nduration_seconds: 11e00\nforked_from: x\nprompt: |\n  a\n  b\nsummary: [1]\nx: {y: ~}\n"))
	f.Add([]byte(goodJob + "finished_at: 2026-03-01\nduration_seconds: 5e-9\nforked_from: x\nprompt: |\n  a\n  b\nsummary: [1]\nx: {y: ~}\n"))
	f.Fuzz(func(t *testing.T, yaml []byte) {
		sameAgain(t, yaml, []byte(`{"type":"system","timestamp":"2026-03-01T10:00:00Z"}`))
	})
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte(`{"type":"system","subtype":"init","timestamp":"2026-03-01T10:00:00Z"}`))
	f.Add([]byte(`{"type":"error","message":1,"x":{}}{"type":"to`))
	f.Add([]byte(`{"type":"tool_result","usage":{"input_tokens":-1},"success":null,"error":null,"result":{"a":[]}}` + "\n" + `{"type":"assistant","content":"a{"type":"tool_use","tool_name":"x","input":7,"timestamp":"2026-03-01T10:00:00+02:00"}`))
	f.Fuzz(func(t *testing.T, lines []byte) { sameAgain(t, []byte(goodJob), lines) })
}
