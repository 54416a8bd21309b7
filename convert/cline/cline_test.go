package cline

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
	// One tool is all of them here.
	names := map[string][]string{"read": {"run_commands"}, "edit": {"run_commands"}, "bash": {"run_commands"}}
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/cline")) {
		t.Run(s.Name, func(t *testing.T) { s.Check(t, Tool(), names) })
	}
}

func home(t *testing.T) converttest.Taken {
	t.Helper()
	return converttest.ReadWhole(t, Tool(), convert.Source{FS: os.DirFS("testdata/home"), Path: "."})
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
				s = "call " + b.ID
			case tidemark.BlockToolResult:
				s = "result " + b.ToolUseID + " " + strings.Join(strings.Fields(b.Text), "")
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
	s := home(t).Find("100_a")
	if s == nil {
		t.Fatal("the session did not come in")
	}
	want := []string{
		"system context: You are a tool.",
		"u1 user: Run it. + image",
		"u1#context context: <workspace/>/",
		"a1 assistant: hm + Running. + call c1 + call c2",
		`r1 tool: result c1 [{"query":"ls","result":"no","error":"code1","success":false}]! + result c2 ab`,
		"r1#context context: <reminder/>",
		"a2 assistant: Done.",
		"u2 user: Thanks.",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	usage := &tidemark.Usage{InputTokens: 5, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 1, CostUSD: 0.25}
	if d := cmp.Diff(usage, s.Entries[3].Usage); d != "" {
		t.Error(d)
	}
	if b := s.Entries[3].Blocks[0]; b.Provider != "anthropic" || !strings.Contains(b.Raw, `"signature": "c2ln"`) {
		t.Errorf("thinking %+v", b)
	}
	if !strings.Contains(string(s.Entries[3].Extra), "strange") || !strings.Contains(string(s.Entries[1].Extra), `"mode":"act"`) {
		t.Errorf("extra %s, %s", s.Entries[3].Extra, s.Entries[1].Extra)
	}
	if s.Title != "Run it" || s.Project != "/home/ada/demo" || s.Model != "m-1" || s.CreatedAt.Hour() != 10 || s.UpdatedAt.Minute() != 6 {
		t.Errorf("session %+v", s.Session)
	}
}

func TestAHelperIsAWorkerOfItsSession(t *testing.T) {
	got := home(t)
	if len(got.Sessions) != 2 || len(got.Find("100_a").Workers) != 1 {
		t.Fatalf("%d sessions", len(got.Sessions))
	}
	if w := got.Find("100_a").Workers[0]; w.Name != "100_a__helper" || len(w.Entries) != 2 {
		t.Errorf("worker %+v", w)
	}
}

func TestASessionWithoutItsSecondFileComesIn(t *testing.T) {
	s := home(t).Find("200_b")
	if s == nil {
		t.Fatal("the session did not come in")
	}
	if d := cmp.Diff([]string{"u1 user: one + two"}, outline(s.Entries)); d != "" {
		t.Error(d)
	}
}

func TestEveryFolderOnTheWayIsDetected(t *testing.T) {
	sessions := ".cline/data/sessions"
	for dir, n := range map[string]int{".": 2, ".cline": 2, ".cline/data": 2, sessions: 2, sessions + "/200_b": 1,
		sessions + "/100_a/100_a.json": 1, sessions + "/100_a/100_a.messages.json": 1} {
		p := convert.Source{FS: os.DirFS("testdata/home"), Path: dir}
		if got := len(converttest.Read(t, Tool(), p).Sessions); got != n || !Tool().Detect(t.Context(), p) {
			t.Errorf("%s: %d sessions, want %d, detected", dir, got, n)
		}
	}
	if Tool().Detect(t.Context(), convert.Source{FS: fstest.MapFS{"a/a.messages.json": {Data: []byte(`[]`)}}, Path: "."}) {
		t.Error("a folder of another tool is detected")
	}
}

func TestDamageIsSkippedAndTheRestComesIn(t *testing.T) {
	place := func(data string) convert.Source {
		return convert.Source{FS: fstest.MapFS{"sessions/s/s.messages.json": {Data: []byte(data)}}, Path: "."}
	}
	converttest.CheckDamage(t, Tool(), place, map[string]converttest.Damaged{
		"a picture that is none": {Data: `{"version":1,"messages":[{"id":"a","role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"data":"?"}}]}]}`, Sessions: 1, Entries: 1},
		"zero bytes":             {Data: "", Skips: 1},
		"half a file":            {Data: `{"version":1,"messages":[{"id":`, Skips: 1},
		"another tool's":         {Data: `{"sessionId":"s","projectHash":"0"}`, Skips: 1},
		"messages of odd types":  {Data: `{"version":1,"messages":[7,{"role":"user","content":8,"ts":"x"},{"role":"user","content":[9,{"type":7}]},{"role":"user","content":"hi","ts":1e300}]}`, Skips: 1, Sessions: 1, Entries: 1},
		"an id twice":            {Data: `{"version":1,"messages":[{"id":"a","role":"user","content":"x"},{"id":"a","role":"user","content":"y"}]}`, Sessions: 1, Entries: 2},
	})
}

func TestAReaderMayStopAnywhere(t *testing.T) {
	converttest.CheckStops(t, Tool(), convert.Source{FS: os.DirFS("testdata/home"), Path: "."})
}

func FuzzImport(f *testing.F) {
	dir := "testdata/home/.cline/data/sessions/100_a/100_a"
	messages, err := os.ReadFile(dir + ".messages.json")
	if err != nil {
		f.Fatal(err)
	}
	about, err := os.ReadFile(dir + ".json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(messages, about)
	f.Fuzz(func(t *testing.T, messages, about []byte) {
		files := fstest.MapFS{"s.messages.json": {Data: messages}, "s.json": {Data: about}}
		converttest.Read(t, Tool(), convert.Source{FS: files, Path: "s.json"})
	})
}
