package continuecli

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func TestSamplesOfTheToolComeInWhole(t *testing.T) {
	names := map[string][]string{"read": {"Read"}, "edit": {"Edit"}, "write": {"Write"}, "bash": {"Bash"}}
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/continue-cli")) {
		t.Run(s.Name, func(t *testing.T) { s.Check(t, Tool(), names) })
	}
}

func home(t *testing.T) converttest.Taken {
	t.Helper()
	return converttest.Read(t, Tool(), convert.Source{FS: os.DirFS("testdata/home"), Path: "."})
}

// outline is one line for each entry: id, who and what.
func outline(entries []convert.Entry) []string {
	var all []string
	for _, e := range entries {
		var what []string
		for _, b := range e.Blocks {
			s := b.Type
			switch b.Type {
			case tidemark.BlockText, tidemark.BlockThinking:
				s = strings.ReplaceAll(b.Text, "\n", "/")
			case tidemark.BlockToolUse:
				s = "call " + b.ID + " " + string(b.Input)
			case tidemark.BlockToolResult:
				s = "result " + b.ToolUseID + " " + b.Text
			}
			if b.IsError {
				s += "!"
			}
			what = append(what, s)
		}
		all = append(all, strings.Join([]string{e.ID, string(e.Role) + e.Kind + ":", strings.Join(what, " + ")}, " "))
	}
	return all
}

func TestMessagesCallsAndWhatTheClientAddedComeIn(t *testing.T) {
	got := home(t)
	s := got.Find("tools")
	if s == nil {
		t.Fatal("the session did not come in")
	}
	want := []string{
		"0 context: Be brief.",
		"1 user: Run it. + image",
		"1#context context: <rules/>/ + f.py/def f(): pass",
		"2 assistant: hm",
		`3 assistant: Running. + call c1 {"command":"ls"} + call c2 "{\"command\":" + call c3 {}`,
		"3#results tool: result c1 a.txt + result c2 bad arguments!",
		"4#summary compaction: They ran it.",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	if len(got.Skips) != 1 || !strings.Contains(got.Skips[0], "wizard") {
		t.Errorf("skips %v", got.Skips)
	}
	usage := &tidemark.Usage{InputTokens: 6, OutputTokens: 2, CacheReadTokens: 4, CostUSD: 0.5}
	if d := cmp.Diff(usage, s.Entries[4].Usage); d != "" {
		t.Error(d)
	}
	if b := s.Entries[3].Blocks[0]; b.Provider == "" || !strings.Contains(b.Raw, "c2ln") {
		t.Errorf("thinking %+v", b)
	}
	if s.Title != "Run it" || s.Project != "/home/ada/demo" || s.Model != "m-1" || s.CreatedAt.Year() != 2026 {
		t.Errorf("session %+v", s.Session.Session)
	}
}

func TestAForkIsKnownByTheTokensItDoesNotCount(t *testing.T) {
	got := home(t)
	for id, source := range map[string]string{"b-source": "", "a-fork": "b-source", "same-words": "", "second-fork": "b-source", "fork-of-fork": "a-fork"} {
		if s := got.Find(id); s == nil || s.Copied != source || s.Title != "" || len(s.Entries) < 4 {
			t.Errorf("%s: %+v, want a copy of %q", id, s, source)
		}
	}
}

func TestEveryFolderOnTheWayIsDetected(t *testing.T) {
	for dir, n := range map[string]int{".": 6, ".continue": 6, ".continue/sessions": 6, ".continue/sessions/tools.json": 1} {
		p := convert.Source{FS: os.DirFS("testdata/home"), Path: dir}
		if got := len(converttest.Read(t, Tool(), p).Sessions); got != n || !Tool().Detect(t.Context(), p) {
			t.Errorf("%s: %d sessions, want %d, detected", dir, got, n)
		}
	}
	other := fstest.MapFS{"package.json": {Data: []byte(`{"name":"x"}`)}}
	if Tool().Detect(t.Context(), convert.Source{FS: other, Path: "."}) {
		t.Error("a folder of another tool is detected")
	}
}

func TestDamageIsSkippedAndTheRestComesIn(t *testing.T) {
	place := func(data string) convert.Source {
		return convert.Source{FS: fstest.MapFS{"sessions/s.json": {Data: []byte(data)}, "sessions/sessions.json": {Data: []byte("[{]")}}, Path: "."}
	}
	converttest.CheckDamage(t, Tool(), place, map[string]converttest.Damaged{
		"zero bytes":           {Data: "", Skips: 1},
		"half a file":          {Data: `{"sessionId":"s","history":[{"message":`, Skips: 1},
		"another tool's":       {Data: `{"sessionId":"s","projectHash":"0"}`, Skips: 1},
		"no id":                {Data: `{"sessionId":7,"history":[]}`, Skips: 1},
		"items of odd types":   {Data: `{"sessionId":"s","history":[7,{"message":{"role":"user","content":8},"contextItems":"x"}]}`, Skips: 1, Sessions: 1, Entries: 1},
		"no history":           {Data: `{"sessionId":"s","workspaceDirectory":"/x"}`, Sessions: 1},
		"an answer and a tool": {Data: `{"sessionId":"s","history":[{"message":{"role":"assistant","content":"a","toolCalls":[{"id":"c","function":{"name":"n"}}]},"toolCallStates":[{"toolCallId":"c","status":"done"}]},{"message":{"role":"tool","toolCallId":"c","content":"again"}}]}`, Sessions: 1, Entries: 2},
	})
}

func TestAReaderMayStopAnywhere(t *testing.T) {
	converttest.CheckStops(t, Tool(), convert.Source{FS: os.DirFS("testdata/home"), Path: "."})
}

func FuzzImport(f *testing.F) {
	for _, n := range []string{"tools", "a-fork"} {
		b, err := os.ReadFile("testdata/home/.continue/sessions/" + n + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		converttest.Read(t, Tool(), convert.Source{FS: fstest.MapFS{"s.json": {Data: data}}, Path: "s.json"})
	})
}
