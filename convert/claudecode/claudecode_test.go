package claudecode_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/claudecode"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// Ids of sessions.
const (
	one   = "aaaaaaaa-0000-4000-8000-000000000001"
	two   = "bbbbbbbb-0000-4000-8000-000000000002"
	three = "cccccccc-0000-4000-8000-000000000003"
)

// line is one record: the uuid, its parent, its minute, and more fields as
// JSON.
func line(session, uuid, parent string, minute int, more string) string {
	up := "null"
	if parent != "" {
		up = `"` + parent + `"`
	}
	return fmt.Sprintf(`{"uuid":%q,"parentUuid":%s,"sessionId":%q,"timestamp":"2026-01-02T03:%02d:00.000Z","cwd":"/w/demo","version":"2.1.0",%s}`,
		uuid, up, session, minute, more)
}

func prompt(text string) string {
	b, _ := json.Marshal(text)
	return `"type":"user","message":{"role":"user","content":` + string(b) + `}`
}

func answer(id, block string) string {
	return `"type":"assistant","message":{"id":"` + id + `","role":"assistant","model":"m-1","content":[` + block +
		`],"usage":{"input_tokens":7,"output_tokens":3,"cache_read_input_tokens":2,"cache_creation_input_tokens":1}}`
}

func text(s string) string { return `{"type":"text","text":"` + s + `"}` }
func call(id string) string {
	return `{"type":"tool_use","id":"` + id + `","name":"Bash","input":{"command":"ls"}}`
}
func result(id string) string {
	return `"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"out of ` + id + `"}]}`
}

func file(session string) string { return ".claude/projects/-w-demo/" + session + ".jsonl" }

func read(t testing.TB, files fstest.MapFS) converttest.Taken {
	t.Helper()
	return converttest.Read(t, claudecode.Tool(), convert.Source{FS: files, Path: "."})
}

func TestRecordsOfOneReplyAreOneEntryAndPaidOnce(t *testing.T) {
	got := read(t, fstest.MapFS{file(one): converttest.Lines(
		`{"type":"mode","mode":"normal","sessionId":"`+one+`"}`,
		line(one, "u1", "", 1, prompt("list twice")),
		line(one, "a1", "u1", 2, answer("msg1", `{"type":"thinking","thinking":"hm","signature":"c2ln"}`)),
		line(one, "a2", "a1", 2, answer("msg1", text("I look."))),
		line(one, "a3", "a2", 2, answer("msg1", call("t1"))),
		line(one, "r1", "a3", 3, result("t1")), // before the reply is complete
		line(one, "a4", "a3", 3, answer("msg1", call("t2"))),
		line(one, "r2", "a4", 3, result("t2")),
		line(one, "a5", "r1", 4, answer("msg2", text("Done."))),
	)})
	s := got.Sessions[0]
	if d := cmp.Diff([]string{
		"u1< user list twice",
		"a1<u1 assistant hm+I look.+Bash+Bash",
		"r1<a1 tool out of t1",
		"r2<r1 tool out of t2",
		"a5<r2 assistant Done.",
	}, converttest.Shape(s.Entries)); d != "" {
		t.Error(d)
	}
	want := &tidemark.Usage{InputTokens: 7, OutputTokens: 3, CacheReadTokens: 2, CacheWriteTokens: 1}
	if d := cmp.Diff(want, s.Entries[1].Usage); d != "" {
		t.Error(d)
	}
	thinking := s.Entries[1].Blocks[0]
	if thinking.Provider != "anthropic" || thinking.Raw != `{"type":"thinking","thinking":"hm","signature":"c2ln"}` {
		t.Errorf("the signed thought is %q of %q", thinking.Raw, thinking.Provider)
	}
	if s.Model != "m-1" || s.Project != "/w/demo" || s.CreatedAt.Minute() != 1 || s.UpdatedAt.Minute() != 4 {
		t.Errorf("session = %+v", s.Session.Session)
	}
}

func TestOnlyWhatTheUserTypedIsTheUsers(t *testing.T) {
	reminder := "<system-reminder>be kind</system-reminder>"
	for name, c := range map[string]struct{ record, want string }{
		"prompt":           {prompt("hello"), "user hello"},
		"reminder around":  {prompt(reminder + "\nhello\n" + reminder), "user hello"},
		"reminder quoted":  {prompt("what is " + reminder + " for?"), "user what is " + reminder + " for?"},
		"reminder alone":   {prompt(reminder), "context " + reminder},
		"blocks":           {`"type":"user","message":{"role":"user","content":[` + text(reminder) + `,` + text("hello") + `]}`, "user hello"},
		"editor":           {`"type":"user","message":{"role":"user","content":[` + text("<ide_opened_file>a.go</ide_opened_file>") + `,` + text("hello") + `]}`, "user hello"},
		"meta":             {`"isMeta":true,` + prompt("go on"), "context go on"},
		"notification":     {`"origin":{"kind":"task-notification"},` + prompt("done"), "context done"},
		"person":           {`"origin":{"kind":"human"},` + prompt("done"), "user done"},
		"summary":          {`"isCompactSummary":true,` + prompt("so far"), "compaction so far"},
		"command":          {prompt("<command-name>/compact</command-name>\n<command-message>compact</command-message>\n<command-args>keep a</command-args>"), "user /compact keep a"},
		"older command":    {prompt("<command-message>init is running</command-message>\n<command-name>/init</command-name>"), "user /init"},
		"shell":            {prompt("<bash-input>ls -l</bash-input>"), "user !ls -l"},
		"shell output":     {prompt("<bash-stdout>a</bash-stdout>"), "command_output <bash-stdout>a</bash-stdout>"},
		"interruption":     {prompt("[Request interrupted by user]"), "interrupted [Request interrupted by user]"},
		"queued":           {`"type":"attachment","attachment":{"type":"queued_command","prompt":"and this","commandMode":"prompt"}`, "user and this"},
		"queued by a task": {`"type":"attachment","attachment":{"type":"queued_command","prompt":"x","commandMode":"task-notification"}`, "context "},
		"attachment":       {`"type":"attachment","attachment":{"type":"date"},"rendered":[{"content":"It is May."}]`, "context It is May."},
		"error":            {`"isApiErrorMessage":true,` + answer("e", text("API Error")), "error API Error"},
		"made up":          {strings.Replace(answer("e", text("No response requested.")), "m-1", "<synthetic>", 1), "context No response requested."},
		"local command":    {`"type":"system","subtype":"local_command","content":"<command-name>/rename</command-name><command-args>b</command-args>"`, "command /rename b"},
		"new type":         {`"type":"Fancy-new thing"`, "fancy_newthing "},
		"a role's name":    {`"type":"tool"`, "other "},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, fstest.MapFS{file(one): converttest.Lines(line(one, "u1", "", 1, prompt("first")), line(one, "x", "u1", 2, c.record))})
			e := got.Sessions[0].Entries[1]
			if is := string(e.Role) + e.Kind + " " + e.Text(); is != c.want {
				t.Errorf("got %q, want %q", is, c.want)
			}
		})
	}
}

func TestARewindIsABranchAndTheNotedLeafIsTheHead(t *testing.T) {
	records := []string{
		line(one, "u1", "", 1, prompt("first")),
		line(one, "a1", "u1", 2, answer("m1", text("one"))),
		line(one, "u2", "a1", 3, prompt("second")),
		line(one, "a2", "u2", 4, answer("m2", text("two"))),
		line(one, "u3", "a1", 5, prompt("instead")),
		line(one, "a3", "u3", 6, answer("m3", text("three"))),
		line(one, "u4", "", 7, prompt("from the start")),
	}
	leaf := `{"type":"last-prompt","leafUuid":"a3","sessionId":"` + one + `"}`
	got := read(t, fstest.MapFS{file(one): converttest.Lines(append(records, leaf)...)})
	if d := cmp.Diff([]string{"u1< user first", "a1<u1 assistant one", "u2<a1 user second", "a2<u2 assistant two",
		"u3<a1 user instead", "a3<u3 assistant three", "u4<root user from the start"}, converttest.Shape(got.Sessions[0].Entries)); d != "" {
		t.Error(d)
	}
	if head := got.Sessions[0].Head; head != "a3" {
		t.Errorf("head %q, want a3", head)
	}
	older := slices.Insert(slices.Clone(records), 4, leaf)
	if head := read(t, fstest.MapFS{file(one): converttest.Lines(older...)}).Sessions[0].Head; head != "" {
		t.Errorf("head %q after a later record, want the last entry", head)
	}
}

func TestACopyOfATranscriptIsAForkOfIt(t *testing.T) {
	note := `{"type":"mode","mode":"normal"}`
	queued := func(minute int) string {
		return fmt.Sprintf(`{"type":"queue-operation","operation":"enqueue","timestamp":"2026-01-02T03:%02d:00.000Z"}`, minute)
	}
	shared := func(id string) []string {
		return []string{
			line(id, "u1", "", 1, prompt("first")), line(id, "a1", "u1", 2, answer("m1", text("one"))),
			line(id, "u2", "a1", 3, prompt("second")), line(id, "a2", "u2", 4, answer("m2", text("two"))),
		}
	}
	source := slices.Insert(shared(one), 2, note)
	source = append(source, note, line(one, "u9", "a2", 30, prompt("the source goes on later")))
	fork := append([]string{queued(10)}, shared(two)...)
	fork = append(fork, line(two, "u3", "a2", 10, prompt("fork")), note, line(two, "a3", "u3", 11, answer("m3", text("three"))), note,
		line(two, "u8", "a3", 40, prompt("and so does the fork")))
	again := append([]string{queued(20)}, shared(three)...)
	again = append(again, line(three, "u3", "a2", 10, prompt("fork")), line(three, "a3", "u3", 11, answer("m3", text("three"))),
		line(three, "u4", "a3", 20, prompt("fork of the fork")), note)
	// The names are such that a fork comes first by name.
	got := read(t, fstest.MapFS{
		".claude/projects/-z/" + one + ".jsonl":   converttest.Lines(source...),
		".claude/projects/-b/" + two + ".jsonl":   converttest.Lines(fork...),
		".claude/projects/-a/" + three + ".jsonl": converttest.Lines(again...),
	})
	var is []string
	for _, s := range got.Sessions {
		is = append(is, fmt.Sprintf("%.4s of %.4s at %d with %d", s.ForeignID, s.Copied, s.CreatedAt.Minute(), len(s.Entries)))
	}
	if d := cmp.Diff([]string{"aaaa of  at 1 with 5", "bbbb of aaaa at 10 with 7", "cccc of bbbb at 20 with 7"}, is); d != "" {
		t.Error(d)
	}
}

func TestAForkOfOneTurnIsToldByItsNotes(t *testing.T) {
	turn := func(id string) []string {
		return []string{line(id, "u1", "", 1, prompt("first")), line(id, "a1", "u1", 2, answer("m1", text("one")))}
	}
	late := `{"type":"queue-operation","operation":"enqueue","timestamp":"2026-01-02T03:10:00.000Z"}`
	fork := append(append([]string{late}, turn(one)...), line(one, "u2", "a1", 10, prompt("fork")))
	source := append(turn(two), late, line(two, "u3", "a1", 20, prompt("goes on later")))
	got := read(t, fstest.MapFS{file(one): converttest.Lines(fork...), file(two): converttest.Lines(source...)})
	if got.Sessions[0].ForeignID != two || got.Sessions[1].Copied != two || got.Sessions[0].Copied != "" {
		t.Errorf("%s of %q, %s of %q", got.Sessions[0].ForeignID, got.Sessions[0].Copied, got.Sessions[1].ForeignID, got.Sessions[1].Copied)
	}
}

func TestAForkNamesASourceThatIsNotThere(t *testing.T) {
	from := `"forkedFrom":{"sessionId":"` + two + `","messageUuid":"u1"},`
	got := read(t, fstest.MapFS{file(one): converttest.Lines(line(one, "u1", "", 1, from+prompt("first")), line(one, "u2", "u1", 1, prompt("own")))})
	if got.Sessions[0].Copied != two {
		t.Errorf("copied from %q, want %q", got.Sessions[0].Copied, two)
	}
}

func TestACompactionKeepsWhatCameBefore(t *testing.T) {
	got := read(t, fstest.MapFS{file(one): converttest.Lines(
		line(one, "u1", "", 1, prompt("first")),
		line(one, "b1", "", 2, `"type":"system","subtype":"compact_boundary","content":"Compacted","logicalParentUuid":"u1"`),
		line(one, "s1", "b1", 2, `"isCompactSummary":true,`+prompt("the story so far")),
		line(one, "u2", "s1", 3, prompt("next")),
	)})
	if d := cmp.Diff([]string{"u1< user first", "b1<u1 compaction_cut Compacted", "s1<b1 compaction the story so far", "u2<s1 user next"},
		converttest.Shape(got.Sessions[0].Entries)); d != "" {
		t.Error(d)
	}
}

func TestHelperAgentsBelongToTheirCalls(t *testing.T) {
	aside := func(uuid, parent, agent, more string) string {
		return line(one, uuid, parent, 3, `"isSidechain":true,"agentId":"`+agent+`",`+more)
	}
	task := `{"type":"tool_use","id":"t3","name":"Task","input":{"prompt":"count"}}`
	dir := strings.TrimSuffix(file(one), ".jsonl")
	got := read(t, fstest.MapFS{
		file(one): converttest.Lines(
			line(one, "u1", "", 1, prompt("go")),
			line(one, "a1", "u1", 2, answer("m1", task)),
			line(one, "x1", "", 3, `"isSidechain":true,`+prompt("count")), // as older versions wrote them
			line(one, "x2", "x1", 3, `"isSidechain":true,`+answer("m9", text("3"))),
			line(one, "r3", "a1", 4, result("t3")),
			line(one, "r4", "r3", 4, `"toolUseResult":{"agentId":"near"},`+result("t4")),
		),
		dir + "/subagents/agent-deep.jsonl":                converttest.Lines(aside("d1", "", "deep", prompt("dig"))),
		dir + "/subagents/agent-deep.meta.json":            converttest.Lines(`{"toolUseId":"t2"}`),
		".claude/projects/-w-demo/agent-near.jsonl":        converttest.Lines(aside("n1", "", "near", prompt("look"))),
		".claude/projects/-w-demo/agent-stranger.jsonl":    converttest.Lines(strings.ReplaceAll(aside("s1", "", "stranger", prompt("?")), one, two)),
		".claude/projects/-w-demo/" + one + "/notes.jsonl": converttest.Lines("not a transcript"),
	})
	if len(got.Sessions) != 1 || len(got.Skips) != 0 {
		t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
	var is []string
	for _, w := range got.Sessions[0].Workers {
		is = append(is, fmt.Sprintf("%s by %s: %s", w.Name, w.Call, strings.Join(converttest.Shape(w.Entries), ", ")))
	}
	if d := cmp.Diff([]string{
		"x1 by t3: x1< user count, x2<x1 assistant 3",
		"deep by t2: d1< user dig",
		"near by t4: n1< user look",
	}, is); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"u1< user go", "a1<u1 assistant Task", "r3<a1 tool out of t3", "r4<r3 tool out of t4"},
		converttest.Shape(got.Sessions[0].Entries)); d != "" {
		t.Error(d)
	}
}

func TestFilesBesideTheTranscriptComeIn(t *testing.T) {
	got := read(t, fstest.MapFS{
		file(one): converttest.Lines(line(one, "u1", "", 1, prompt("go"))),
		".claude/projects/-w-demo/" + one + "/tool-results/r.txt": converttest.Lines("long"),
		".claude/tasks/" + one + "/1.json":                        converttest.Lines("{}"),
		".claude/file-history/" + one + "/f@v1":                   converttest.Lines("was"),
		".claude/.credentials.json":                               converttest.Lines("secret"),
	})
	want := map[string][]byte{"tool-results/r.txt": []byte("long\n"), "tasks/1.json": []byte("{}\n"), "file-history/f@v1": []byte("was\n")}
	if d := cmp.Diff(want, got.Sessions[0].Files); d != "" {
		t.Error(d)
	}
}

func TestTitlesAreTakenInOrder(t *testing.T) {
	summary := `{"type":"summary","summary":"from a summary","leafUuid":"u1"}`
	auto := `{"type":"ai-title","aiTitle":"by the model","sessionId":"` + one + `"}`
	custom := `{"type":"custom-title","customTitle":"by hand","sessionId":"` + one + `"}`
	for want, notes := range map[string][]string{
		"":               {},
		"from a summary": {summary},
		"by the model":   {auto, summary},
		"by hand":        {custom, auto, summary},
	} {
		got := read(t, fstest.MapFS{file(one): converttest.Lines(append(notes, line(one, "u1", "", 1, prompt("go")))...)})
		if got.Sessions[0].Title != want {
			t.Errorf("title %q, want %q", got.Sessions[0].Title, want)
		}
	}
}

func TestDamageIsSkippedAndTheRestComesIn(t *testing.T) {
	good := line(one, "u1", "", 1, prompt("kept"))
	for name, c := range map[string]struct {
		data     string
		sessions int
		skip     string
	}{
		"empty":           {"", 0, "holds no message"},
		"other tool":      {`{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{}}` + "\n", 0, "holds no message"},
		"only notes":      {`{"type":"mode","mode":"normal","sessionId":"` + one + `"}` + "\n", 0, "holds no message"},
		"binary":          {"\x00\xff\xfe\n\x00", 0, "holds no message"},
		"torn":            {good + "\n" + good[:60], 1, "torn"},
		"not JSON":        {good + "\nhello\n", 1, "line 2 is no record"},
		"no message":      {good + "\n" + line(one, "u2", "u1", 1, `"type":"user","message":"?"`) + "\n", 1, "line 2 has no message"},
		"same uuid":       {good + "\n" + line(one, "u1", "", 1, prompt("other")) + "\n", 1, "another record has its uuid"},
		"written twice":   {good + "\n" + good + "\n", 1, ""},
		"no newline":      {good, 1, ""},
		"long uuid":       {good + "\n" + line(one, strings.Repeat("u", 200), "", 1, prompt("x")) + "\n", 1, "200 bytes"},
		"circle":          {good + "\n" + line(one, "u2", "u3", 1, prompt("x")) + "\n" + line(one, "u3", "u2", 1, prompt("y")) + "\n", 1, ""},
		"own parent":      {good + "\n" + line(one, "u2", "u2", 1, prompt("x")) + "\n", 1, ""},
		"lost parent":     {good + "\n" + line(one, "u2", "gone", 1, prompt("x")) + "\n", 1, ""},
		"no time":         {strings.Replace(good, "2026-01", "tomorrow", 1) + "\n", 1, ""},
		"far future":      {strings.Replace(good, "2026-01", "9999-01", 1) + "\n", 1, ""},
		"odd fields":      {`{"uuid":"u1","type":"user","sessionId":7,"timestamp":[],"isMeta":"no","message":{"content":"kept"}}` + "\n", 1, ""},
		"content is none": {line(one, "u1", "", 1, `"type":"user","message":{"content":7}`) + "\n", 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, fstest.MapFS{
				file(one): {Data: []byte(c.data)},
				file(two): converttest.Lines(line(two, "v1", "", 1, prompt("the other session"))),
			})
			if len(got.Sessions) != c.sessions+1 || got.Find(two) == nil {
				t.Errorf("%d sessions, want %d", len(got.Sessions), c.sessions+1)
			}
			if skips := strings.Join(got.Skips, "\n"); c.skip == "" && skips != "" || !strings.Contains(skips, c.skip) {
				t.Errorf("skipped %q, want %q", skips, c.skip)
			}
		})
	}
}

func TestASessionThatGrewBeginsAsItDid(t *testing.T) {
	all := []string{
		line(one, "u1", "", 1, prompt("first")),
		`{"type":"mode","mode":"normal"}`,
		line(one, "a1", "u1", 2, answer("m1", text("one"))),
		`{"type":"last-prompt","leafUuid":"a1"}`,
		line(one, "u2", "a1", 3, prompt("second")),
		line(one, "a2", "u2", 4, answer("m2", call("t1"))),
		line(one, "r1", "a2", 5, result("t1")),
	}
	whole := read(t, fstest.MapFS{file(one): converttest.Lines(all...)}).Sessions[0]
	for n := 1; n <= len(all); n++ {
		part := read(t, fstest.MapFS{file(one): converttest.Lines(all[:n]...)}).Sessions[0]
		if d := cmp.Diff(whole.Entries[:len(part.Entries)], part.Entries, cmpopts.IgnoreFields(convert.Entry{}, "Draft")); d != "" {
			t.Errorf("after %d lines:\n%s", n, d)
		}
	}
}

func TestASessionThatIsThereTwiceComesOnce(t *testing.T) {
	got := read(t, fstest.MapFS{
		".claude/projects/-a/" + one + ".jsonl": converttest.Lines(line(one, "u1", "", 1, prompt("a"))),
		".claude/projects/-b/" + one + ".jsonl": converttest.Lines(line(one, "u2", "", 1, prompt("b"))),
	})
	if len(got.Sessions) != 1 || len(got.Skips) != 1 {
		t.Errorf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
}

func TestDetectKnowsItsOwn(t *testing.T) {
	mine := converttest.Lines(line(one, "u1", "", 1, prompt("go")))
	fork := converttest.Lines(`{"uuid":"u","parentUuid":null,"sessionId":"s","type":"user","provenance":"real_user","message":{"role":"user","parts":[]}}`)
	for name, c := range map[string]struct {
		files fstest.MapFS
		path  string
		want  bool
	}{
		"home":          {fstest.MapFS{file(one): mine}, ".", true},
		"store":         {fstest.MapFS{file(one): mine}, ".claude", true},
		"projects":      {fstest.MapFS{file(one): mine}, ".claude/projects", true},
		"project":       {fstest.MapFS{file(one): mine}, ".claude/projects/-w-demo", true},
		"file":          {fstest.MapFS{file(one): mine}, file(one), true},
		"nothing":       {fstest.MapFS{}, ".", false},
		"empty file":    {fstest.MapFS{"a.jsonl": converttest.Lines()}, "a.jsonl", false},
		"another name":  {fstest.MapFS{"a.txt": mine}, "a.txt", false},
		"a fork of it":  {fstest.MapFS{"a.jsonl": fork}, "a.jsonl", false},
		"its folder":    {fstest.MapFS{".qwen/projects/-w/chats/a.jsonl": fork}, ".", false},
		"another tool":  {fstest.MapFS{"a.jsonl": converttest.Lines(`{"type":"session_meta","payload":{}}`)}, "a.jsonl", false},
		"no such place": {fstest.MapFS{}, "gone", false},
	} {
		if got := claudecode.Tool().Detect(t.Context(), convert.Source{FS: c.files, Path: c.path}); got != c.want {
			t.Errorf("%s: Detect = %v, want %v", name, got, c.want)
		}
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(line(one, "u1", "", 1, prompt("a")) + "\n" + line(one, "a1", "u1", 1, answer("m", call("t"))) + "\n" + line(one, "r1", "a1", 1, result("t"))))
	f.Add([]byte(line(one, "u1", "u2", 1, prompt("a")) + "\n" + line(one, "u2", "u1", 1, `"isSidechain":true,`+prompt("b"))))
	f.Add([]byte(line(one, "b", "", 1, `"type":"system","subtype":"compact_boundary","logicalParentUuid":"b"`) + "\n{\"type\":\"last-prompt\",\"leafUuid\":\"b\"}\n"))
	f.Add([]byte(`{"uuid":"u","type":"attachment","attachment":{"type":"queued_command","prompt":[{"type":"image","source":{"type":"base64","data":"AA=="}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got := read(t, fstest.MapFS{file(one): {Data: data}, file(two): {Data: data}})
		out := converttest.NewOut()
		for _, s := range got.Sessions {
			if _, err := claudecode.Tool().Export(t.Context(), out, s.Session); err != nil {
				t.Fatal(err)
			}
		}
		again := converttest.Read(t, claudecode.Tool(), out.Source())
		for _, s := range got.Sessions {
			back := again.Find(s.ForeignID)
			if len(s.Entries) > 0 && (back == nil || len(back.Entries) != len(s.Entries)) {
				t.Errorf("%d entries went out, not all came back", len(s.Entries))
			}
		}
	})
}
