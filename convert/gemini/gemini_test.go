package gemini

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
	names := map[string][]string{"read": {"read_file"}, "edit": {"replace"}, "write": {"write_file"},
		"bash": {"run_shell_command"}, "task": {"invoke_agent"}, "todo": nil, "wait": nil}
	// The tool leaves out signs without width when it keeps a reply.
	bare := strings.NewReplacer("\u200b", "", "\u200c", "", "\u200d", "", "\ufeff", "")
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/gemini-cli")) {
		for i := range s.Want {
			for j, turn := range s.Want[i].Turns {
				s.Want[i].Turns[j].Reply = bare.Replace(turn.Reply)
			}
		}
		t.Run(s.Name, func(t *testing.T) { s.Check(t, Tool(), names) })
	}
}

func TestHowLongTheClientKeepsSessionsIsInItsSettings(t *testing.T) {
	for settings, days := range map[string]int{
		``:   0, // with a file that is no JSON it does not start
		`{}`: 30,
		`{"general":{"sessionRetention":{"enabled":false}}}`:                  0,
		`{"general":{"sessionRetention":{"enabled":true}}}`:                   30,
		`{"general":{"sessionRetention":{"maxAge":"7d"}}}`:                    7,
		`{"general":{"sessionRetention":{"enabled":true,"maxAge":"2w"}}}`:     14,
		`{"general":{"sessionRetention":{"maxAge":"36h"}}}`:                   1,
		`{"general":{"sessionRetention":{"maxAge":"3m"}}}`:                    90,
		`{"general":{"sessionRetention":{"maxAge":"d"}}}`:                     0,
		`{"general":{"sessionRetention":{"maxAge":"99999999999999999999d"}}}`: 0,
	} {
		for _, at := range []string{"settings.json", ".gemini/settings.json"} {
			if r := retention(convert.Source{FS: fstest.MapFS{at: {Data: []byte(settings)}}, Path: "."}); r.Days != days {
				t.Errorf("%s of %s: %d days, want %d", at, settings, r.Days, days)
			}
		}
	}
	if r := retention(convert.Source{FS: fstest.MapFS{}, Path: "."}); r.Days != 30 {
		t.Errorf("without settings: %d days", r.Days)
	}
}

func FuzzAge(f *testing.F) {
	f.Add("30d")
	f.Add("4w")
	f.Add("-1m")
	f.Fuzz(func(t *testing.T, age string) {
		if days := daysOf(age); days < 0 || days > 30*maxDays {
			t.Errorf("%q is %d days", age, days)
		}
	})
}

func home(t *testing.T) converttest.Taken {
	t.Helper()
	return converttest.ReadWhole(t, Tool(), convert.Source{FS: os.DirFS("testdata/home"), Path: "."})
}

// outline is one line for each entry: id, parent, who and what.
func outline(entries []convert.Entry) []string {
	var all []string
	for _, e := range entries {
		who := string(e.Role) + e.Kind
		var what []string
		for _, b := range e.Blocks {
			s := b.Type
			switch b.Type {
			case tidemark.BlockText, tidemark.BlockThinking:
				s = strings.ReplaceAll(b.Text, "\n", "/")
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
		parent := e.Parent
		if parent == convert.Root {
			parent = "root"
		}
		all = append(all, strings.Join([]string{e.ID, "<-", parent, who + ":", strings.Join(what, " + ")}, " "))
	}
	return all
}

func TestToolCallsResultsAndResumptionsComeInOnce(t *testing.T) {
	s := home(t).Find("s-tools")
	if s == nil {
		t.Fatal("the session did not come in")
	}
	want := []string{
		"ctx <- root context: <session_context>/hello/- **Workspace Directories:**/  - /home/ada/demo/</session_context>",
		"p1 <- ctx user: List the files.",
		"a1 <- p1 assistant: Plan/list first + Looking. + call c1",
		"r1 <- a1 tool: result c1 a.txt",
		"a2 <- r1 assistant: call c2 + call c3",
		"a2#results <- a2 tool: result c2 done + result c3 no such folder!",
		"a3 <- a2#results assistant: One file.",
		"p2 <- a3 user: What is this? @x.png + image",
		"p2#context <- p2 context: /--- Content ---",
		"a4 <- p2#context assistant: A picture.",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	usage := tidemark.Usage{InputTokens: 7, OutputTokens: 5, CacheReadTokens: 4}
	if d := cmp.Diff(&usage, s.Entries[2].Usage); d != "" {
		t.Error(d)
	}
	if s.Title != "Listing files" || s.Project != "/home/ada/demo" || s.Model != "m-1" || s.UpdatedAt.Minute() != 8 || s.CreatedAt.Minute() != 0 {
		t.Errorf("session %+v", s.Session.Session)
	}
	if len(s.Workers) != 1 || s.Workers[0].Call != "c2" || len(s.Workers[0].Entries) != 2 {
		t.Errorf("workers %+v", s.Workers)
	}
	if string(s.Files["tool-outputs/long.txt"]) != "a long output\n" {
		t.Errorf("files %v", s.Files)
	}
}

func TestARewindIsABranchAndACompactionKeepsWhatWasBefore(t *testing.T) {
	s := home(t).Find("s-rewind")
	if s == nil {
		t.Fatal("the session did not come in")
	}
	want := []string{
		"p1 <- ctx user: one", "a1 <- p1 assistant: ONE",
		"p2 <- a1 user: two", "a2 <- p2 assistant: TWO",
		"p3 <- a2 user: three", "a3 <- p3 assistant: THREE",
		"sum <- a3 compaction: <state_snapshot>one was said</state_snapshot>",
		"i1 <- sum notice: compressed",
		"p4 <- i1 user: four", "a4 <- p4 assistant: FOUR",
		"p5 <- a2 user: five", "a5 <- p5 assistant: FIVE",
		"p6 <- a5 user: six",
	}
	if d := cmp.Diff(want, outline(s.Entries)[1:]); d != "" {
		t.Error(d)
	}
	if s.Head != "a5" {
		t.Errorf("head %q, want a5: the last prompt was taken back", s.Head)
	}
}

func TestTheOldFormOfOneObjectComesIn(t *testing.T) {
	s := home(t).Find("s-old")
	if s == nil {
		t.Fatal("the session did not come in")
	}
	want := []string{
		"p1 <- root user: old question", "a1 <- p1 assistant: old answer + call c1",
		"a1#results <- a1 tool: result c1 x", "e1 <- a1#results notice: quota",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" || s.Title != "Old form" {
		t.Errorf("title %q\n%s", s.Title, d)
	}
}

func TestWhatIsSaidAlongWithAResultIsTheUsers(t *testing.T) {
	data := `{"sessionId":"s","projectHash":"0"}
{"id":"a","type":"gemini","content":"","toolCalls":[{"id":"c","name":"ls","args":{}}]}
{"id":"r","type":"user","content":[{"functionResponse":{"id":"c","response":{"output":"x"}}},{"text":"faster, please"}]}
{"id":"b","type":"gemini","content":"ok"}
`
	got := converttest.Read(t, Tool(), convert.Source{FS: fstest.MapFS{"session-x.jsonl": {Data: []byte(data)}}, Path: "session-x.jsonl"})
	want := []string{"a <- root assistant: call c", "r <- a tool: result c x", "r#text <- r user: faster, please", "b <- r#text assistant: ok"}
	if d := cmp.Diff(want, outline(got.Sessions[0].Entries)); d != "" {
		t.Error(d)
	}
}

func TestASessionInWhichNothingWasSaidIsNoSession(t *testing.T) {
	if home(t).Find("s-empty") != nil {
		t.Error("it came in")
	}
}

func TestOneFileAloneTellsItsProject(t *testing.T) {
	p := convert.Source{FS: os.DirFS("testdata/home/.gemini/tmp/demo/chats"), Path: "session-2026-03-01T10-10-srewi.jsonl"}
	if !Tool().Detect(t.Context(), p) {
		t.Error("not detected")
	}
	got := converttest.Read(t, Tool(), p)
	if len(got.Sessions) != 1 || got.Sessions[0].Project != "/home/ada/demo" {
		t.Errorf("%+v", got)
	}
}

func TestEveryFolderOnTheWayIsDetected(t *testing.T) {
	for _, dir := range []string{".", ".gemini", ".gemini/tmp", ".gemini/tmp/demo", ".gemini/tmp/demo/chats"} {
		p := convert.Source{FS: os.DirFS("testdata/home"), Path: dir}
		if !Tool().Detect(t.Context(), p) {
			t.Errorf("%s is not detected", dir)
		}
		if n := len(converttest.Read(t, Tool(), p).Sessions); n != 3 {
			t.Errorf("%s: %d sessions, want 3", dir, n)
		}
	}
	alone := converttest.Read(t, Tool(), convert.Source{FS: os.DirFS("testdata/home/.gemini/tmp/demo/chats"), Path: "."})
	if s := alone.Find("s-tools"); s == nil || len(s.Workers) != 1 {
		t.Errorf("chats alone: %+v", s)
	}
	if Tool().Detect(t.Context(), convert.Source{FS: fstest.MapFS{"chats/session-1.jsonl": {Data: []byte(`{"type":"user"}`)}}, Path: "."}) {
		t.Error("a file of another tool is detected")
	}
}

func TestDamageIsSkippedAndTheRestComesIn(t *testing.T) {
	head := `{"sessionId":"s","projectHash":"0","startTime":"2026-01-01T00:00:00Z"}` + "\n"
	say := `{"id":"p","timestamp":"2999-01-01T00:00:00Z","type":"user","content":"hi"}` + "\n"
	place := func(data string) convert.Source {
		return convert.Source{FS: fstest.MapFS{"chats/session-x.jsonl": {Data: []byte(data)}}, Path: "."}
	}
	converttest.CheckDamage(t, Tool(), place, map[string]converttest.Damaged{
		"a picture that is none": {Data: head + `{"id":"q","type":"user","content":[{"text":"see"},{"inlineData":{"data":"?","mimeType":"image/png"}}]}` + "\n", Sessions: 1, Entries: 1},
		"zero bytes":             {Data: "", Skips: 1},
		"another tool's":         {Data: `{"type":"session_meta"}` + "\n", Skips: 1},
		"no JSON":                {Data: "hello\n", Skips: 1},
		"a torn last line":       {Data: head + say + `{"id":"q","type":"us`, Skips: 1, Sessions: 1, Entries: 1},
		"a line that is none":    {Data: head + "}{\n" + say, Skips: 1, Sessions: 1, Entries: 1},
		"fields of odd types":    {Data: head + `{"id":"q","type":"gemini","content":{"a":1},"thoughts":"x","toolCalls":7,"tokens":[]}` + "\n" + say, Sessions: 1, Entries: 2},
		"a rewind to nothing":    {Data: head + say + `{"$rewindTo":"zzz"}` + "\n", Sessions: 1, Entries: 1},
		"a set of nonsense":      {Data: head + say + `{"$set":{"messages":[1,{},{"type":"user"}]}}` + "\n", Skips: 2, Sessions: 1, Entries: 2},
		"messages without ids":   {Data: head + `{"type":"user","content":"a"}` + "\n" + `{"type":"user","content":"b"}` + "\n", Sessions: 1, Entries: 2},
	})
}

func TestAReaderMayStopAnywhere(t *testing.T) {
	converttest.CheckStops(t, Tool(), convert.Source{FS: os.DirFS("testdata/home"), Path: "."})
}

func FuzzImport(f *testing.F) {
	for _, n := range []string{"session-2026-03-01T10-00-stools.jsonl", "session-2026-03-01T10-10-srewi.jsonl", "session-2026-03-01T10-30-sold.json"} {
		b, err := os.ReadFile("testdata/home/.gemini/tmp/demo/chats/" + n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, strings.HasSuffix(n, "l"))
	}
	f.Fuzz(func(t *testing.T, data []byte, lines bool) {
		name := "session-x.json"
		if lines {
			name += "l"
		}
		converttest.Read(t, Tool(), convert.Source{FS: fstest.MapFS{name: {Data: data}}, Path: name})
	})
}

func TestOnlyKeysTellsWhatDecodingTells(t *testing.T) {
	keys := []string{"a", "b"}
	for object, want := range map[string]bool{
		`{}`: true, `{"a":1}`: true, `{"a":{"c":1},"b":["c",{"d":"\",\"e\":"}]}`: true,
		`{"a":"\\","c":1}`: false, `{"c":1}`: false, `{ "a" : "x" , "c" : 2 }`: false, `{"a":",\"c\":"}`: true,
	} {
		if got := onlyKeys([]byte(object), keys); got != want {
			t.Errorf("onlyKeys(%s) = %v", object, got)
		}
	}
}

// The client writes an answer twice that calls tools and says nothing: without its
// calls, and with them.
func TestAnAnswerThatSaysNothingYetIsADraft(t *testing.T) {
	const (
		head   = `{"sessionId":"s","projectHash":"0","startTime":"2026-01-01T00:00:00Z"}` + "\n"
		prompt = `{"id":"p","timestamp":"2026-01-01T00:00:01Z","type":"user","content":"go"}` + "\n"
		empty  = `{"id":"a","timestamp":"2026-01-01T00:00:02Z","type":"gemini","content":"","thoughts":[],"tokens":{"input":3,"output":1},"model":"m"}` + "\n"
		set    = `{"$set":{"lastUpdated":"2026-01-01T00:00:02Z"}}` + "\n"
		calls  = `{"id":"a","timestamp":"2026-01-01T00:00:02Z","type":"gemini","content":"","tokens":{"input":3,"output":1},"model":"m","toolCalls":[{"id":"c","name":"ls","args":{},"status":"success"}]}` + "\n"
		more   = `{"id":"q","timestamp":"2026-01-01T00:00:03Z","type":"user","content":"well?"}` + "\n"
	)
	for data, want := range map[string][]bool{
		head + prompt + empty:               {false, true},
		head + prompt + empty + set:         {false, true},
		head + prompt + empty + set + calls: {false, false},
		head + prompt + empty + set + more:  {false, false, false}, // it was interrupted
	} {
		got := converttest.Read(t, Tool(), convert.Source{FS: fstest.MapFS{"session-x.jsonl": {Data: []byte(data)}}, Path: "session-x.jsonl"})
		var drafts []bool
		for _, e := range got.Sessions[0].Entries[:len(want)] {
			drafts = append(drafts, e.Draft)
		}
		if d := cmp.Diff(want, drafts); d != "" {
			t.Errorf("%s: %s", data, d)
		}
	}
}
