package agentsfleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/agentsfleet"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// folder returns a folder of sessions in memory.
func folder(files map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text), ModTime: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)}
	}
	return all
}

func place(fsys fs.FS) convert.Source { return convert.Source{FS: fsys, Path: "."} }

func read(t *testing.T, fsys fs.FS) converttest.Taken {
	t.Helper()
	return converttest.Read(t, agentsfleet.Tool(), place(fsys))
}

// said lists entries as "role text", the kind for what is no message.
func said(entries []convert.Entry) []string {
	var all []string
	for _, e := range entries {
		line := string(e.Role)
		if line == "" {
			line = e.Kind
		}
		for _, b := range e.Blocks {
			switch b.Type {
			case tidemark.BlockToolUse:
				line += " " + b.Name + string(b.Input)
			default:
				line += " " + b.Text
			}
		}
		all = append(all, line)
	}
	return all
}

const (
	hello = `{"role":"user","content":"hello","timestamp":"2026-03-01T10:00:00.000Z"}`
	hi    = `{"role":"assistant","content":"hi","timestamp":"2026-03-01T10:00:01.000Z"}`
	view  = `{"role":"tool","name":"view","args":{"path":"a.go"}}`
	bye   = `{"role":"user","content":"bye"}`
)

var helloHiView = []string{"user hello", "assistant hi", `tool view{"path":"a.go"}`}

func TestEverySchemaVersionIsRead(t *testing.T) {
	inline := `"transcript":[` + hello + "," + hi + "," + view + "]"
	for name, file := range map[string]string{
		"v1":              `{"sessionId":"a",` + inline + `}`,
		"v2":              `{"schemaVersion":2,` + inline + `,"workers":[]}`,
		"v3":              `{"schemaVersion":3,` + inline + `,"msgCount":99,"transcriptPath":"a.transcript.ndjson"}`,
		"newer":           `{"schemaVersion":7,"future":{"x":[1,2]},` + inline + `}`,
		"nothing else":    `{` + inline + `}`,
		"a byte too many": `{` + inline + "}\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, folder(map[string]string{"a.json": file}))
			if len(got.Skips) > 0 || len(got.Sessions) != 1 {
				t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
			}
			if d := cmp.Diff(helloHiView, said(got.Sessions[0].Entries)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestASplitTranscriptIsReadFromItsSibling(t *testing.T) {
	lines := hello + "\n" + hi + "\n" + view + "\n"
	for name, files := range map[string]map[string]string{
		"default path":        {"a.json": `{"schemaVersion":3,"transcript":[],"msgCount":1}`, "a.transcript.ndjson": lines},
		"named path":          {"a.json": `{"schemaVersion":3,"transcript":[],"transcriptPath":"other.ndjson"}`, "other.ndjson": lines},
		"no transcript":       {"a.json": `{"schemaVersion":4}`, "a.transcript.ndjson": lines},
		"null":                {"a.json": `{"schemaVersion":3,"transcript":null}`, "a.transcript.ndjson": lines},
		"no session file":     {"a.transcript.ndjson": lines},
		"both, sibling ahead": {"a.json": `{"transcript":[` + hello + `]}`, "a.transcript.ndjson": lines},
		"both, inline ahead":  {"a.json": `{"transcript":[` + hello + "," + hi + "," + view + `]}`, "a.transcript.ndjson": hello + "\n"},
		"both, other order":   {"a.json": `{"transcript":[{"content":"hello","role":"user","timestamp":"2026-03-01T10:00:00.000Z"}]}`, "a.transcript.ndjson": lines},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, folder(files))
			if len(got.Skips) > 0 || len(got.Sessions) != 1 {
				t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
			}
			if d := cmp.Diff(helloHiView, said(got.Sessions[0].Entries)); d != "" {
				t.Error(d)
			}
			if id := got.Sessions[0].Entries[2].ID; id != "m2" {
				t.Errorf("the third entry has id %s, wherever it is read", id)
			}
		})
	}
}

func TestTranscriptsThatPartAreBranches(t *testing.T) {
	for shared, first := range map[int]string{1: hello + "\n", 0: ""} {
		inline := strings.TrimSpace(strings.Join([]string{strings.TrimSpace(first), hi}, ","))
		got := read(t, folder(map[string]string{
			"a.json":              `{"transcript":[` + strings.TrimPrefix(inline, ",") + `]}`,
			"a.transcript.ndjson": first + bye + "\n" + view + "\n",
		}))
		s := got.Sessions[0]
		if len(s.Entries) != shared+3 {
			t.Fatalf("%d entries: %q", len(s.Entries), said(s.Entries))
		}
		way := converttest.Path(s.Entries, s.Head)
		if got := said(way); got[len(got)-1] != "assistant hi" || len(got) != shared+1 {
			t.Errorf("the head is at %q", got)
		}
	}
}

func TestUnsafeWorkersAreSkippedAndTheSessionLoads(t *testing.T) {
	files := folder(map[string]string{
		"a.json": `{"schemaVersion":2,"transcript":[` + hello + `],"workers":[
			{"agentId":"good","transcriptPath":"good.ndjson","toolCallId":"c1"},
			{"agentId":"named"},
			{"agentId":"absolute","transcriptPath":"/etc/passwd"},
			{"agentId":"drive","transcriptPath":"C:x.ndjson"},
			{"agentId":"dots","transcriptPath":"../b.json"},
			{"agentId":"inner dots","transcriptPath":"x..ndjson"},
			{"agentId":"separator","transcriptPath":"sub/x.ndjson"},
			{"agentId":"backslash","transcriptPath":"sub\\x.ndjson"},
			{"agentId":"link","transcriptPath":"link.ndjson"},
			{"agentId":"folder","transcriptPath":"sub"},
			{"agentId":"gone","transcriptPath":"gone.ndjson"},
			{"agentId":"number","transcriptPath":7},
			{"agentId":"again","transcriptPath":"good.ndjson"}
		]}`,
		"a.workers/good.ndjson":  hello + "\n" + hi + "\n",
		"a.workers/named.ndjson": hi + "\n",
		"a.workers/late.ndjson":  bye + "\n",
		"a.workers/sub/x.ndjson": hello + "\n",
		"b.json":                 `{"transcript":[]}`,
	})
	files["a.workers/link.ndjson"] = &fstest.MapFile{Data: []byte("../b.json"), Mode: fs.ModeSymlink}
	got := read(t, files)
	s := got.Find("a")
	if s == nil || len(s.Entries) != 1 {
		t.Fatal("the session did not load")
	}
	var names []string
	for _, w := range s.Workers {
		names = append(names, w.Name)
	}
	if d := cmp.Diff([]string{"good", "named", "late"}, names); d != "" {
		t.Error(d)
	}
	if s.Workers[0].Call != "c1" || len(s.Workers[0].Entries) != 2 {
		t.Errorf("worker good = %+v", s.Workers[0])
	}
	if len(got.Skips) != 11 {
		t.Errorf("%d skipped, want 11:\n%s", len(got.Skips), strings.Join(got.Skips, "\n"))
	}
	for _, bad := range []string{"absolute", "drive", "dots", "inner dots", "separator", "backslash", "link", "folder", "gone", "number", "again"} {
		if !slices.ContainsFunc(got.Skips, func(s string) bool { return strings.Contains(s, `worker "`+bad+`"`) }) {
			t.Errorf("nothing is said about worker %s", bad)
		}
	}
}

func TestAnUnsafeTranscriptPathIsSkippedAndTheSessionLoads(t *testing.T) {
	got := read(t, folder(map[string]string{
		"a.json":  `{"schemaVersion":3,"transcript":[` + hello + `],"transcriptPath":"../secret.ndjson"}`,
		"b.json":  `{"schemaVersion":3,"transcript":[],"msgCount":2}`,
		"x.jsonl": "",
	}))
	if len(got.Sessions) != 2 || len(got.Skips) != 2 || len(got.Find("a").Entries) != 1 {
		t.Errorf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
}

func TestDamagedLinesAreSkippedAlone(t *testing.T) {
	got := read(t, folder(map[string]string{
		"a.json": `{"schemaVersion":3,"transcript":[]}`,
		"a.transcript.ndjson": hello + "\nnot json\n[1]\n" + `{"role":"assistant","content":"torn tr` + hi + "\n" +
			`{"role":"odd","content":"kept","x":1}` + "\n" + `{"role":"assistant","content":"to`,
	}))
	if d := cmp.Diff([]string{"user hello", "assistant hi", "note kept"}, said(got.Sessions[0].Entries)); d != "" {
		t.Error(d)
	}
	if len(got.Skips) != 4 {
		t.Errorf("skipped %q", got.Skips)
	}
}

func TestALastLineWithoutItsNewlineCounts(t *testing.T) {
	got := read(t, folder(map[string]string{"a.json": `{"schemaVersion":3}`, "a.transcript.ndjson": hello + "\n" + bye}))
	if n := len(got.Sessions[0].Entries); n != 2 || len(got.Skips) > 0 {
		t.Errorf("%d entries, skipped %q", n, got.Skips)
	}
}

func TestWhatIsNoSessionIsSkipped(t *testing.T) {
	files := folder(map[string]string{
		"empty.json":    "",
		"half.json":     `{"schemaVersion":3,"transcript":[` + hello,
		"other.json":    `{"messages":[]}`,
		"list.json":     `[]`,
		"text.json":     `{"transcript":"long ago"}`,
		"twice.json":    `{"transcript":[],"transcript":[]}`,
		"behind.json":   `{"transcript":[]} {}`,
		"good.json":     `{"transcript":[` + hello + `]}`,
		".hidden.json":  `{"transcript":[]}`,
		"dir.json/a.go": "",
	})
	files["pipe.json"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	got := read(t, files)
	if len(got.Sessions) != 1 || got.Sessions[0].ForeignID != "good" || len(got.Skips) != 8 {
		t.Errorf("%d sessions, %d skipped:\n%s", len(got.Sessions), len(got.Skips), strings.Join(got.Skips, "\n"))
	}
}

func TestCountlessPartsAreRefused(t *testing.T) {
	many := "[" + strings.Repeat("{},", 400_000) + "{}]"
	keys := strings.Repeat(`"k":0,`, 400_000)
	var fields strings.Builder
	for i := range 11_000 {
		fmt.Fprintf(&fields, `"k%d":0,`, i)
	}
	for name, c := range map[string]struct {
		files    map[string]string
		sessions int
	}{
		"workers":   {map[string]string{"a.json": `{"transcript":[],"workers":` + many + `}`}, 1},
		"a line":    {map[string]string{"a.json": `{"schemaVersion":3}`, "a.transcript.ndjson": "{" + keys + `"role":"user"}` + "\n"}, 1},
		"an entry":  {map[string]string{"a.json": `{"transcript":[{` + keys + `"role":"user"}]}`}, 1},
		"fields":    {map[string]string{"a.json": `{` + fields.String() + `"transcript":[]}`}, 0},
		"one value": {map[string]string{"a.json": `{"transcript":[{"content":"` + strings.Repeat("x", 33<<20) + `"}]}`}, 0},
	} {
		got := read(t, folder(c.files))
		if len(got.Sessions) != c.sessions || len(got.Skips) != 1 {
			t.Errorf("%s: %d sessions, skipped %q", name, len(got.Sessions), got.Skips)
		}
	}
}

func TestWhatAToolLineSays(t *testing.T) {
	for line, want := range map[string][]tidemark.Block{
		`{"role":"tool","name":"view","args":{}}`: {{Type: "tool_use", ID: "call-m0", Name: "view", Input: json.RawMessage(`{}`)}},
		`{"role":"tool","name":"view"}`:           {{Type: "tool_use", ID: "call-m0", Name: "view"}},
		`{"role":"tool","name":"view","args":{"a":1},"content":"out","toolCallId":"c"}`: {
			{Type: "tool_use", ID: "c", Name: "view", Input: json.RawMessage(`{"a":1}`)}, {Type: "tool_result", ToolUseID: "c", Text: "out"}},
		`{"role":"tool","name":"view","content":"no","isError":true,"toolCallId":"c"}`: {{Type: "tool_result", ToolUseID: "c", Text: "no", IsError: true}},
		`{"role":"tool","name":"view","args":[],"result":"r","success":false}`: {
			{Type: "tool_use", ID: "call-m0", Name: "view", Input: json.RawMessage(`[]`)}, {Type: "tool_result", ToolUseID: "call-m0", Text: "r", IsError: true}},
		`{"role":"tool"}`: nil,
	} {
		got := read(t, folder(map[string]string{"a.json": `{"transcript":[` + line + `]}`}))
		if d := cmp.Diff(want, got.Sessions[0].Entries[0].Blocks); d != "" {
			t.Errorf("%s: %s", line, d)
		}
	}
}

func TestTimesAreReadAsTheyAreWritten(t *testing.T) {
	got := read(t, folder(map[string]string{"a.json": `{"createdAt":1777629600000,"transcript":[{"role":"user","content":"a"},
		{"role":"user","content":"b","timestamp":1777629601.5},{"role":"user","content":"c","ts":"2026-05-01T12:00:02.123456+02:00"},{"role":"user","content":"d","timestamp":"soon"}]}`}))
	noon := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	want := []time.Time{noon, noon.Add(1500 * time.Millisecond), noon.Add(2123456 * time.Microsecond), noon.Add(2123456 * time.Microsecond)}
	for i, e := range got.Sessions[0].Entries {
		if !e.At.Equal(want[i]) {
			t.Errorf("entry %d is of %v, want %v", i, e.At, want[i])
		}
	}
}

// env is a folder to export into, with one variable set.
type env struct {
	*converttest.Out
	name, value string
}

func (e env) Getenv(name string) string {
	if name == e.name {
		return e.value
	}
	return ""
}

// write exports what was read.
func write(t *testing.T, out convert.Out, s *converttest.Session) []string {
	t.Helper()
	again := *s.Session
	again.Entries = convert.All(s.Entries)
	again.Workers = nil
	for _, w := range s.Workers {
		again.Workers = append(again.Workers, convert.Worker{Name: w.Name, Call: w.Call, Entries: convert.All(w.Entries)})
	}
	lost, err := agentsfleet.Tool().Export(context.Background(), out, &again)
	if err != nil {
		t.Fatalf("export %s: %v", s.ForeignID, err)
	}
	return lost
}

func value(t *testing.T, b []byte) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

const full = `{"schemaVersion":2,"sessionId":"a","name":"auth fix","createdAt":"2026-03-01T10:00:00.000Z","updatedAt":"2026-03-01T10:05:00.123Z",
	"model":"big","cwd":"/src/app","roster":{"coder":[1,2.50,null]},"title":null,
	"transcript":[` + hello + `,{"role":"assistant","content":"<hi> & é","timestamp":"2026-03-01T10:00:01.000Z","model":"m","tokens":{"in":1}},` + view + `,
	{"role":"tool","name":"view","args":{"big":12345678901234567890},"content":"out","id":"c"},{"role":"tool","name":"sh","result":{"code":1}},{"role":"assistant","content":""},
	{"role":"assistant","content":[{"type":"text","text":"part"},{"type":"image"}],"timestamp":1777629600000},{"role":"banner","content":"x"},{"content":null},
	{"role":"user","content":"when","timestamp":"2026-03-01T10:00:01+01:00"},{"role":"system","content":"sum","kind":"compaction"}],
	"workers":[{"agentId":"w1","status":"done","transcriptPath":"w1.ndjson"},{"agentId":"bad","transcriptPath":"/etc/passwd"}]}`

func TestExportIsAdditiveAndKeepsUnknownFields(t *testing.T) {
	files := folder(map[string]string{"a.json": full, "a.workers/w1.ndjson": hello + "\n" + `{"role":"assistant","content":"hi","z":[]}` + "\n"})
	first := read(t, files)
	out := converttest.NewOut()
	if lost := write(t, out, &first.Sessions[0]); len(lost) > 0 {
		t.Errorf("lost %q", lost)
	}
	want, got := value(t, files["a.json"].Data), value(t, out.Files["a.json"].Data)
	want["schemaVersion"], want["msgCount"], want["transcriptPath"] = 3.0, 11.0, "a.transcript.ndjson"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var lines []any
	for line := range strings.Lines(string(out.Files["a.transcript.ndjson"].Data)) {
		lines = append(lines, value(t, []byte(line)))
	}
	if d := cmp.Diff(want["transcript"], lines); d != "" {
		t.Error("the sibling is not the inline transcript:", d)
	}
	if d := cmp.Diff(files["a.workers/w1.ndjson"].Data, out.Files["a.workers/w1.ndjson"].Data); d != "" {
		t.Error(d)
	}
	second := read(t, out.Files)
	if d := cmp.Diff(first.Sessions[0].Entries, second.Sessions[0].Entries); d != "" {
		t.Error("import, export, import is not equal:", d)
	}
	if d := cmp.Diff(first.Sessions[0].Session.Session, second.Sessions[0].Session.Session); d != "" {
		t.Error(d)
	}
}

func TestNoMigrateWritesTheInlineTranscriptOnly(t *testing.T) {
	s := read(t, folder(map[string]string{"a.json": `{"schemaVersion":3,"transcript":[],"transcriptPath":"a.transcript.ndjson"}`, "a.transcript.ndjson": hello + "\n" + hi + "\n"}))
	out := converttest.NewOut()
	write(t, env{out, "AGENTS_FLEET_NO_MIGRATE", "1"}, &s.Sessions[0])
	if names := slices.Collect(maps.Keys(out.Files)); len(names) != 1 {
		t.Errorf("wrote %q", names)
	}
	got := value(t, out.Files["a.json"].Data)
	if n := len(got["transcript"].([]any)); n != 2 || got["msgCount"] != 2.0 || got["transcriptPath"] != nil {
		t.Errorf("wrote %v", got)
	}
}

func TestASessionOfAnotherToolIsWrittenAsFarAsItGoes(t *testing.T) {
	at := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	entry := func(id, parent string, e tidemark.Entry) convert.Entry {
		e.At = at
		return convert.Entry{Entry: e, ID: id, Parent: parent}
	}
	call := tidemark.Entry{Role: tidemark.Assistant, Model: "m", Usage: &tidemark.Usage{InputTokens: 1}, Blocks: []tidemark.Block{
		{Type: "thinking", Text: "hm"}, tidemark.Text("let me look"), {Type: "tool_use", ID: "c", Name: "read", Input: json.RawMessage(`{"p":1}`)}}}
	result := tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: "tool_result", ToolUseID: "c", IsError: true,
		Blocks: []tidemark.Block{tidemark.Text("no such file"), {Type: "image"}}}}}
	s := &convert.Session{Entries: convert.All([]convert.Entry{
		entry("1", "", tidemark.Say(tidemark.User, "look")), entry("2", "", call), entry("3", "", result),
		entry("4", "1", tidemark.Say(tidemark.Assistant, "elsewhere")),
		entry("5", "3", tidemark.Entry{Kind: "compaction", Blocks: []tidemark.Block{tidemark.Text("in short")}}),
	}), Labels: map[string]string{"1": "start"}, Head: "5"}
	s.ID, s.ForeignID, s.Title, s.CreatedAt = "7f3a0c1e-0000-4000-8000-000000000000", "../../evil", "a title", at
	s.Workers = []convert.Worker{{Name: "a/b", Call: "c", Entries: convert.All(nil)}, {Name: "a:b", Entries: convert.All(nil)}}
	out := converttest.NewOut()
	lost, err := agentsfleet.Tool().Export(t.Context(), out, s)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"entries of other branches", "image blocks", "labels", "thinking blocks", "token counts"}, lost); d != "" {
		t.Error(d)
	}
	got := read(t, out.Files)
	if d := cmp.Diff([]string{"user look", "assistant let me look", `tool read{"p":1}`, "tool no such file", "compaction in short"}, said(got.Sessions[0].Entries)); d != "" {
		t.Error(d)
	}
	if w := got.Sessions[0].Workers; len(w) != 2 || w[0].Name != "a-b" || w[0].Call != "c" || w[1].Name != "a-b-2" {
		t.Errorf("workers %+v", w)
	}
	if got.Sessions[0].Title != "a title" || got.Sessions[0].ForeignID != string(s.ID) {
		t.Errorf("session %+v", got.Sessions[0].Session.Session)
	}
}

func TestExportWritesNoFileOfAnotherSession(t *testing.T) {
	s := read(t, folder(map[string]string{"a.json": `{"schemaVersion":3,"transcript":[` + hello + `],"transcriptPath":"victim.json"}`, "victim.json": `{"transcript":[]}`}))
	out := converttest.NewOut()
	write(t, out, s.Find("a"))
	if out.Files["victim.json"] != nil || out.Files["a.transcript.ndjson"] == nil {
		t.Errorf("wrote %q", slices.Collect(maps.Keys(out.Files)))
	}
}

func TestDetectIsFalseWhenInDoubt(t *testing.T) {
	fleet := `{"schemaVersion":3,"sessionId":"a","transcript":[]}`
	for name, c := range map[string]struct {
		files map[string]string
		path  string
		want  bool
	}{
		"a home folder":       {map[string]string{".fleet/sessions/a.json": fleet}, ".", true},
		"the .fleet folder":   {map[string]string{"sessions/a.json": fleet, "config.json": "{}"}, ".", true},
		"the sessions folder": {map[string]string{"a.json": fleet}, ".", true},
		"one file":            {map[string]string{"x/a.json": fleet}, "x/a.json", true},
		"half a file":         {map[string]string{"a.json": `{"schemaVersion":3,"transcript":[`}, "a.json", true},
		"split":               {map[string]string{"a.json": `{"schemaVersion":3,"msgCount":1,"transcriptPath":"a"}`}, "a.json", true},
		"a transcript":        {map[string]string{"a.transcript.ndjson": hello + "\n"}, "a.transcript.ndjson", true},
		"another .fleet":      {map[string]string{".fleet/fleet.db": "SQLite format 3"}, ".", false},
		"other JSON":          {map[string]string{"a.json": `{"messages":[],"session_id":"a"}`}, ".", false},
		"a text":              {map[string]string{"a.json": `{"transcript":"spoken words"}`}, "a.json", false},
		"zero bytes":          {map[string]string{"a.json": ``}, "a.json", false},
		"nothing":             {nil, ".", false},
		"no such file":        {nil, "a.json", false},
	} {
		if got := agentsfleet.Tool().Detect(t.Context(), convert.Source{FS: folder(c.files), Path: c.path}); got != c.want {
			t.Errorf("%s: Detect = %v", name, got)
		}
	}
}

// TestTheSample reads the larger sample, which has one bad file, four bad
// worker paths, and one torn line.
func TestTheSample(t *testing.T) {
	root := os.DirFS("../testdata/agents-fleet")
	checkStore(t, root, 6, map[string][]int{"sess-v1": {3}, "sess-v2": {3, 151, 4}, "sess-v3": {3, 5001}, "sess-v3split": {30}, "sess-future": {3}})
}

// TestOurOwnSample does the same with a small one.
func TestOurOwnSample(t *testing.T) {
	checkStore(t, os.DirFS("testdata"), 3, map[string][]int{"plain": {3}, "old": {1, 3, 1}, "new": {2, 1}, "newer": {1}})
}

// checkStore checks that a store comes in with so many entries in sessions and
// workers, twice the same, and that what is written is what was read.
func checkStore(t *testing.T, root fs.FS, skips int, want map[string][]int) {
	t.Helper()
	if !agentsfleet.Tool().Detect(t.Context(), place(root)) {
		t.Error("the sample is not detected")
	}
	got, again := read(t, root), read(t, root)
	if len(got.Sessions) != len(want) || len(got.Skips) != skips {
		t.Errorf("%d sessions, skipped:\n%s", len(got.Sessions), strings.Join(got.Skips, "\n"))
	}
	for i, s := range got.Sessions {
		counts := []int{len(s.Entries)}
		for _, w := range s.Workers {
			counts = append(counts, len(w.Entries))
		}
		if !slices.Equal(counts, want[s.ForeignID]) {
			t.Errorf("%s: %d entries, want %d", s.ForeignID, counts, want[s.ForeignID])
		}
		if d := cmp.Diff(s.Entries, again.Sessions[i].Entries); d != "" {
			t.Errorf("%s: a second import is not equal: %s", s.ForeignID, d)
		}
		checkWritten(t, root, &s)
	}
}

// checkWritten checks that a session is written as it was, and more.
func checkWritten(t *testing.T, root fs.FS, s *converttest.Session) {
	t.Helper()
	source, err := fs.ReadFile(root, path.Join(".fleet/sessions", s.ForeignID+".json"))
	if err != nil {
		t.Fatal(err)
	}
	was := value(t, source)
	out := converttest.NewOut()
	lost := write(t, out, s)
	if number, _ := was["schemaVersion"].(float64); (len(lost) > 0) != (number > 3) {
		t.Errorf("%s: lost %q", s.ForeignID, lost)
	}
	now := value(t, out.Files[s.ForeignID+".json"].Data)
	was["schemaVersion"], was["msgCount"], was["transcriptPath"] = 3.0, float64(len(s.Entries)), s.ForeignID+".transcript.ndjson"
	if len(was["transcript"].([]any)) == 0 {
		was["transcript"] = now["transcript"]
	}
	if was["workers"] == nil && len(s.Workers) > 0 {
		was["workers"] = now["workers"]
	}
	if d := cmp.Diff(was, now); d != "" {
		t.Errorf("%s: %s", s.ForeignID, d)
	}
	back := read(t, out.Files).Sessions[0]
	if d := cmp.Diff(s.Entries, back.Entries); d != "" {
		t.Errorf("%s: import, export, import is not equal: %s", s.ForeignID, d)
	}
	if d := cmp.Diff(s.Workers, back.Workers); d != "" {
		t.Errorf("%s: its workers are not equal: %s", s.ForeignID, d)
	}
}

func FuzzImport(f *testing.F) {
	f.Add(full, hello+"\n"+hi, `{"role":"tool","name":"x","args":{}}`)
	f.Add(`{"schemaVersion":3,"transcript":[`, "", "")
	f.Add(`{"transcript":[{"role":"user","content":"\ud800"}],"workers":[{"agentId":""},5,"w.ndjson",null]}`, `{"role":"a`+hello, "null")
	f.Fuzz(func(t *testing.T, file, sibling, worker string) {
		got := read(t, folder(map[string]string{"a.json": file, "a.transcript.ndjson": sibling, "a.workers/w1.ndjson": worker}))
		for _, s := range got.Sessions {
			out := converttest.NewOut()
			write(t, out, &s)
			again := read(t, out.Files)
			if len(again.Sessions) != 1 {
				t.Fatalf("what was written is not read: %q", again.Skips)
			}
			way := converttest.Path(s.Entries, s.Head)
			if d := cmp.Diff(said(way), said(again.Sessions[0].Entries)); d != "" {
				t.Error(d)
			}
		}
	})
}
