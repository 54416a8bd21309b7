package copilot

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
	names := map[string][]string{"read": {"view"}, "edit": {"edit"}, "write": {"create"}, "bash": {"bash"}, "task": {"task"}, "wait": {"read_agent"}}
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/copilot-cli")) {
		t.Run(s.Name, func(t *testing.T) { s.Check(t, Tool(), names) })
	}
}

func TestWhatIsFinalStaysAsEventsAreAdded(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/copilot-cli")) {
		drafts, entries := converttest.CheckGrowth(t, Tool(), s.Source, func(file string) (bool, []string) { return strings.HasSuffix(file, "/events.jsonl"), nil })
		if drafts != 0 || entries == 0 {
			t.Errorf("%d of %d entries are drafts", drafts, entries)
		}
	}
}

func home(t *testing.T) converttest.Taken {
	t.Helper()
	return converttest.ReadWhole(t, Tool(), convert.Source{FS: os.DirFS("testdata/home"), Path: "."})
}

// outline is one line for each entry: id, parent, who and what.
func outline(entries []convert.Entry) []string {
	var all []string
	for _, e := range entries {
		var what []string
		for _, b := range e.Blocks {
			s := b.Text
			switch b.Type {
			case tidemark.BlockToolUse:
				s = "call " + b.ID
			case tidemark.BlockToolResult:
				s = "result " + b.ToolUseID + " " + b.Text
			}
			if b.IsError {
				s += "!"
			}
			what = append(what, s)
		}
		parent := strings.TrimPrefix(e.Parent, "\x00")
		all = append(all, strings.Join([]string{e.ID, "<-", parent, string(e.Role) + e.Kind + ":", strings.Join(what, " + ")}, " "))
	}
	return all
}

func TestASessionAndItsHelperAreToldApart(t *testing.T) {
	s := home(t).Find("one")
	if s == nil {
		t.Fatal("the session did not come in")
	}
	want := []string{
		"e1 <- root user: Survey the project.",
		"e2 <- e1 context: You are a tool.",
		"e4 <- e2 assistant: hm + Delegating. + call t1",
		"e10 <- e4 tool: result t1 Two.",
		"e11 <- e10 context: internal",
		"e13 <- e11 assistant: call t2",
		"e14 <- e13 tool: result t2 exit 1!",
		"e15 <- e14 compaction: They counted.",
		"e17 <- e15 notice: user",
		"e18 <- e17 event: ",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	if len(s.Workers) != 1 || s.Workers[0].Call != "t1" {
		t.Fatalf("workers %+v", s.Workers)
	}
	if d := cmp.Diff([]string{"e7 <- root user: count", "e9 <- e7 assistant: Two."}, outline(s.Workers[0].Entries)); d != "" {
		t.Error(d)
	}
	usage := &tidemark.Usage{InputTokens: 5, OutputTokens: 3, CacheReadTokens: 4, CacheWriteTokens: 1}
	if d := cmp.Diff(usage, s.Entries[2].Usage); d != "" {
		t.Error(d)
	}
	thinking := s.Entries[2].Blocks[0]
	if thinking.Provider != "copilot" || thinking.Raw != `{"reasoningOpaque":"c2lnbmVk"}` {
		t.Errorf("thinking %+v", thinking)
	}
	if !strings.Contains(string(s.Entries[0].Extra), `"added":["\u003cnow\u003e10:00\u003c/now\u003e\n\n","\n\u003cnote/\u003e"]`) {
		t.Errorf("extra %s", s.Entries[0].Extra)
	}
	if s.Title != "Survey: the project" || s.Project != "/home/ada/demo" || s.Model != "m-1" || string(s.Files["plan.md"]) != "# Plan\n" {
		t.Errorf("session %+v, files %v", s.Session.Session, s.Files)
	}
}

func TestARewindIsABranch(t *testing.T) {
	s := home(t).Find("two")
	if s == nil {
		t.Fatal("the session did not come in")
	}
	want := []string{
		"e1 <- root user: one", "e2 <- e1 assistant: ONE",
		"e3 <- e2 user: two", "e4 <- e3 assistant: TWO",
		"e6 <- e2 user: other two", "e7 <- e6 assistant: OTHER",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" || s.Head != "e2" || s.Title != "A long title" {
		t.Errorf("head %q, title %q\n%s", s.Head, s.Title, d)
	}
}

func TestAFileThatBeginsWithAnotherSessionIsACopyOfIt(t *testing.T) {
	got := home(t)
	if s := got.Find("three"); s == nil || s.Copied != "two" || len(s.Entries) != 2 {
		t.Errorf("%+v", s)
	}
	if last := got.Sessions[len(got.Sessions)-1]; last.ForeignID != "three" {
		t.Errorf("the copy is not the last one, %s is", last.ForeignID)
	}
}

func TestEveryFolderOnTheWayIsDetected(t *testing.T) {
	for dir, n := range map[string]int{".": 3, ".copilot": 3, ".copilot/session-state": 3, ".copilot/session-state/one": 1, ".copilot/session-state/one/events.jsonl": 1} {
		p := convert.Source{FS: os.DirFS("testdata/home"), Path: dir}
		if got := len(converttest.Read(t, Tool(), p).Sessions); got != n || !Tool().Detect(t.Context(), p) {
			t.Errorf("%s: %d sessions, want %d, detected", dir, got, n)
		}
	}
	alone := convert.Source{FS: os.DirFS("testdata/home/.copilot/session-state/one"), Path: "events.jsonl"}
	if converttest.Read(t, Tool(), alone).Find("one") == nil {
		t.Error("a file alone does not tell its session")
	}
	if Tool().Detect(t.Context(), convert.Source{FS: fstest.MapFS{"a/events.jsonl": {Data: []byte(`{"type":"turn"}`)}}, Path: "."}) {
		t.Error("a file of another tool is detected")
	}
}

func TestDamageIsSkippedAndTheRestComesIn(t *testing.T) {
	head := `{"type":"session.start","data":{"sessionId":"s"},"id":"0"}` + "\n"
	say := `{"type":"user.message","data":{"content":"hi"},"id":"1","timestamp":"2999-01-01T00:00:00Z"}` + "\n"
	place := func(data string) convert.Source {
		return convert.Source{FS: fstest.MapFS{"session-state/s/events.jsonl": {Data: []byte(data)}}, Path: "."}
	}
	converttest.CheckDamage(t, Tool(), place, map[string]converttest.Damaged{
		"a picture that is none": {Data: head + `{"type":"user.message","data":{"content":"see","attachments":[{"data":"?"}]}}` + "\n", Sessions: 1, Entries: 1},
		"zero bytes":             {Data: "", Skips: 1},
		"another tool's":         {Data: `{"type":"session_meta"}` + "\n", Skips: 1},
		"a torn last line":       {Data: head + say + `{"type":"user.mess`, Skips: 1, Sessions: 1, Entries: 1},
		"an id twice":            {Data: head + say + say, Sessions: 1, Entries: 2},
		"fields of odd types":    {Data: head + `{"type":"user.message","data":7}` + "\n" + `{"type":"assistant.message","data":{"content":[],"toolRequests":{}}}` + "\n", Sessions: 1, Entries: 2},
		"a rewind to nothing":    {Data: head + say + `{"type":"session.snapshot_rewind","data":{"upToEventId":"z"}}` + "\n", Sessions: 1, Entries: 1},
	})
}

func TestAReaderMayStopAnywhere(t *testing.T) {
	converttest.CheckStops(t, Tool(), convert.Source{FS: os.DirFS("testdata/home"), Path: "."})
}

func FuzzImport(f *testing.F) {
	for _, n := range []string{"one", "two", "three"} {
		dir := "testdata/home/.copilot/session-state/" + n
		events, err := os.ReadFile(dir + "/events.jsonl")
		if err != nil {
			f.Fatal(err)
		}
		about, err := os.ReadFile(dir + "/workspace.yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(events, about)
	}
	f.Fuzz(func(t *testing.T, events, about []byte) {
		files := fstest.MapFS{"s/events.jsonl": {Data: events}, "s/workspace.yaml": {Data: about}}
		converttest.Read(t, Tool(), convert.Source{FS: files, Path: "."})
	})
}
