package qwen_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/qwen"
)

func TestWhatWasDoneInQwenCodeComesIn(t *testing.T) {
	// The client has no list of things to do, and waits for its helpers itself.
	tools := map[string][]string{"read": {"read_file"}, "edit": {"edit"}, "write": {"write_file"}, "bash": {"run_shell_command"}, "task": {"agent", "task"},
		"todo": nil, "wait": nil}
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/qwen-code")) {
		t.Run(s.Name, func(t *testing.T) {
			got := s.Check(t, qwen.Tool(), tools)
			t.Logf("%d sessions", len(got.Sessions))
			if w := got.Find("6277a76c-339c-46ba-bb9d-6f1484eb3e00"); w != nil && (len(w.Workers) != 1 || w.Workers[0].Call != "call_fake000194_0") {
				t.Errorf("workers %+v", w.Workers)
			}
		})
	}
}

func TestWhatIsFinalStaysAsATranscriptGrows(t *testing.T) {
	for _, s := range converttest.Samples(t, os.DirFS("../testdata/qwen-code")) {
		drafts, entries := converttest.CheckGrowth(t, qwen.Tool(), s.Source, func(file string) (bool, []string) { return strings.Contains(file, "/chats/"), nil })
		if drafts != 0 || entries == 0 {
			t.Errorf("%d of %d entries are drafts", drafts, entries)
		}
	}
	answer := line(one, "a1", "u1", 2, say("assistant", "assistant_output", text("I look.")))
	got := read(t, fstest.MapFS{file(one): converttest.Lines(line(one, "u1", "", 1, prompt("go")), answer)}).Sessions[0].Entries
	if len(got) != 2 || got[0].Draft || !got[1].Draft {
		t.Errorf("an answer that says nothing of its tokens is final: %+v", got)
	}
}

// Ids of sessions.
const (
	one = "aaaaaaaa-0000-4000-8000-000000000001"
	two = "bbbbbbbb-0000-4000-8000-000000000002"
)

// line is one record: the uuid, its parent, its minute, and more fields as
// JSON.
func line(session, uuid, parent string, minute int, more string) string {
	up := "null"
	if parent != "" {
		up = `"` + parent + `"`
	}
	return fmt.Sprintf(`{"uuid":%q,"parentUuid":%s,"sessionId":%q,"timestamp":"2026-01-02T03:%02d:00.000Z","cwd":"/w/demo","version":"0.24.4",%s}`,
		uuid, up, session, minute, more)
}

func say(kind, provenance string, parts ...string) string {
	return `"type":"` + kind + `","provenance":"` + provenance + `","message":{"role":"x","parts":[` + strings.Join(parts, ",") + `]}`
}

func text(s string) string {
	b, _ := json.Marshal(s)
	return `{"text":` + string(b) + `}`
}

func prompt(s string) string { return say("user", "real_user", text(s)) }

func file(session string) string { return ".qwen/projects/-w-demo/chats/" + session + ".jsonl" }

func read(t testing.TB, files fstest.MapFS) converttest.Taken {
	t.Helper()
	return converttest.Read(t, qwen.Tool(), convert.Source{FS: files, Path: "."})
}

func TestATurnComesInWithoutItsTelemetry(t *testing.T) {
	call := `{"functionCall":{"id":"t1","name":"edit","args":{"a":1}}}`
	result := `{"functionResponse":{"id":"t1","name":"edit","response":{"error":"no such file"}}}`
	thought := `{"text":"hm","thought":true,"thoughtSignature":"c2ln"}`
	got := read(t, fstest.MapFS{file(one): converttest.Lines(
		line(one, "u1", "", 1, prompt("go")),
		line(one, "x1", "u1", 1, `"type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"response_text":"I look."}}`),
		line(one, "a1", "x1", 2, `"model":"m-1","usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3,"thoughtsTokenCount":2,"cachedContentTokenCount":4,"totalTokenCount":15},`+
			say("assistant", "assistant_output", thought, text("I look."))),
		line(one, "a1", "x1", 2, say("assistant", "assistant_output", call)), // the same message goes on
		line(one, "r1", "a1", 3, `"toolCallResult":{"status":"error"},`+say("tool_result", "tool_result", result)),
		line(one, "t1", "r1", 4, `"type":"system","subtype":"custom_title","systemPayload":{"customTitle":"tea"}`),
	)})
	s := got.Sessions[0]
	if d := cmp.Diff([]string{"u1< user go", "a1<u1 assistant hm+I look.+edit", "r1<a1 tool no such file", "t1<r1 custom_title "}, converttest.Shape(s.Entries)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&tidemark.Usage{InputTokens: 6, OutputTokens: 5, CacheReadTokens: 4}, s.Entries[1].Usage); d != "" {
		t.Error(d)
	}
	if b := s.Entries[1].Blocks[0]; b.Raw != thought || b.Type != tidemark.BlockThinking {
		t.Errorf("the signed thought is %+v", b)
	}
	if !s.Entries[2].Blocks[0].IsError || s.Title != "tea" || s.Model != "m-1" || s.Project != "/w/demo" || s.UpdatedAt.Minute() != 4 {
		t.Errorf("session = %+v", s.Session.Session)
	}
	if len(s.Lost) != 1 {
		t.Errorf("lost %q", s.Lost)
	}
}

func TestOnlyWhatTheUserTypedIsTheUsers(t *testing.T) {
	for name, c := range map[string]struct{ record, want string }{
		"prompt":        {prompt("hello"), "user hello"},
		"no provenance": {strings.Replace(prompt("hello"), `"provenance":"real_user",`, "", 1), "user hello"},
		"shown":         {`"systemPayload":{"displayText":"see @a.go"},` + prompt("see a.go\nand what a hook said"), "user see @a.go"},
		"files":         {say("user", "real_user", text("see @a.go"), text("\n"+"--- Content from referenced files ---"), text("package a")), "user see @a.go"},
		"mid turn":      {`"subtype":"mid_turn_user_message",` + prompt("and this"), "user and this"},
		"notification":  {`"subtype":"notification",` + say("user", "system", text("done")), "context done"},
		"goal":          {say("user", "goal_runtime", text("go on")), "context go on"},
		"command":       {`"type":"system","subtype":"slash_command","systemPayload":{"phase":"invocation","rawCommand":"/about"}`, "command /about"},
		"output":        {`"type":"system","subtype":"slash_command","systemPayload":{"phase":"result","rawCommand":"/about","outputHistoryItems":[{"type":"info","text":"v1"}]}`, "command_output v1"},
		"compression":   {`"type":"system","subtype":"chat_compression","systemPayload":{"compressedHistory":[{"role":"user","parts":[{"text":"so far"}]}]}`, "compaction so far"},
		"new type":      {`"type":"brand_new"`, "brand_new "},
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

func TestAForkComesAfterItsSource(t *testing.T) {
	from := `"forkedFrom":{"sessionId":"` + two + `","messageUuid":"u1"},`
	got := read(t, fstest.MapFS{
		file(one): converttest.Lines(line(one, "u1", "", 1, from+prompt("first")), line(one, "u2", "u1", 9, prompt("own"))),
		file(two): converttest.Lines(line(two, "u1", "", 1, prompt("first")), line(two, "u3", "", 2, prompt("from the start"))),
	})
	var is []string
	for _, s := range got.Sessions {
		is = append(is, fmt.Sprintf("%.4s of %.4s at %d: %s", s.ForeignID, s.Copied, s.CreatedAt.Minute(), strings.Join(converttest.Shape(s.Entries), ", ")))
	}
	if d := cmp.Diff([]string{"bbbb of  at 1: u1< user first, u3<root user from the start", "aaaa of bbbb at 9: u1< user first, u2<u1 user own"}, is); d != "" {
		t.Error(d)
	}
}

func TestForksInACircleComeInAllTheSame(t *testing.T) {
	from := func(id string) string { return `"forkedFrom":{"sessionId":"` + id + `"},` }
	got := read(t, fstest.MapFS{
		file(one): converttest.Lines(line(one, "u1", "", 1, from(two)+prompt("a"))),
		file(two): converttest.Lines(line(two, "u1", "", 1, from(one)+prompt("b"))),
	})
	if len(got.Sessions) != 2 {
		t.Errorf("%d sessions", len(got.Sessions))
	}
}

func TestDamageIsSkippedAndTheRestComesIn(t *testing.T) {
	good := line(one, "u1", "", 1, prompt("kept"))
	for name, c := range map[string]struct {
		data     string
		sessions int
		skip     string
	}{
		"empty":       {"", 0, "holds no message"},
		"other tool":  {`{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{}}` + "\n", 0, "no record of Qwen Code"},
		"binary":      {"\x00\xff\xfe\n\x00", 0, "is no record"},
		"torn":        {good + "\n" + good[:60], 1, "torn"},
		"not JSON":    {good + "\nhello\n", 1, "line 2 is no record"},
		"same uuid":   {good + "\n" + line(one, "u2", "u1", 1, prompt("x")) + "\n" + line(one, "u1", "", 1, prompt("other")) + "\n", 1, "another record has its uuid"},
		"twice":       {good + "\n" + good + "\n", 1, ""},
		"circle":      {good + "\n" + line(one, "u2", "u3", 1, prompt("x")) + "\n" + line(one, "u3", "u2", 1, prompt("y")) + "\n", 1, ""},
		"lost parent": {good + "\n" + line(one, "u2", "gone", 1, prompt("x")) + "\n", 1, ""},
		"odd fields":  {`{"uuid":"u1","type":"user","sessionId":7,"timestamp":[],"message":{"parts":[7,{"text":4},null]}}` + "\n", 1, ""},
		"long uuid":   {good + "\n" + line(one, strings.Repeat("u", 200), "", 1, prompt("x")) + "\n", 1, "200 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, fstest.MapFS{file(one): {Data: []byte(c.data)}, file(two): converttest.Lines(line(two, "v1", "", 1, prompt("other")))})
			if len(got.Sessions) != c.sessions+1 || got.Find(two) == nil {
				t.Errorf("%d sessions, want %d", len(got.Sessions), c.sessions+1)
			}
			if skips := strings.Join(got.Skips, "\n"); c.skip == "" && skips != "" || !strings.Contains(skips, c.skip) {
				t.Errorf("skipped %q, want %q", skips, c.skip)
			}
		})
	}
}

func TestDetectKnowsItsOwn(t *testing.T) {
	mine := converttest.Lines(line(one, "u1", "", 1, prompt("go")))
	cousin := converttest.Lines(`{"uuid":"u","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","content":"hi"}}`)
	for name, c := range map[string]struct {
		files fstest.MapFS
		path  string
		want  bool
	}{
		"home":         {fstest.MapFS{file(one): mine}, ".", true},
		"store":        {fstest.MapFS{file(one): mine}, ".qwen", true},
		"projects":     {fstest.MapFS{file(one): mine}, ".qwen/projects", true},
		"chats":        {fstest.MapFS{file(one): mine}, ".qwen/projects/-w-demo/chats", true},
		"file":         {fstest.MapFS{file(one): mine}, file(one), true},
		"nothing":      {fstest.MapFS{}, ".", false},
		"its cousin":   {fstest.MapFS{"a.jsonl": cousin}, "a.jsonl", false},
		"their folder": {fstest.MapFS{".claude/projects/-w/a.jsonl": cousin}, ".", false},
	} {
		if got := qwen.Tool().Detect(t.Context(), convert.Source{FS: c.files, Path: c.path}); got != c.want {
			t.Errorf("%s: Detect = %v, want %v", name, got, c.want)
		}
	}
}

func TestAHelperAgentBelongsToItsCall(t *testing.T) {
	dir := ".qwen/projects/-w-demo/subagents/" + one + "/"
	got := read(t, fstest.MapFS{
		file(one):                 converttest.Lines(line(one, "u1", "", 1, prompt("go"))),
		dir + "agent-x.jsonl":     converttest.Lines(line(one, "w1", "", 1, say("user", "", text("count")))),
		dir + "agent-x.meta.json": converttest.Lines(`{"agentId":"x","toolUseId":"t1"}`),
	})
	w := got.Sessions[0].Workers
	if len(w) != 1 || w[0].Name != "x" || w[0].Call != "t1" || !slices.Equal(converttest.Shape(w[0].Entries), []string{"w1< user count"}) {
		t.Errorf("workers %+v", w)
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(line(one, "u1", "", 1, prompt("a")) + "\n" + line(one, "u1", "", 1, prompt("b"))))
	f.Add([]byte(line(one, "u1", "u2", 1, prompt("a")) + "\n" + line(one, "u2", "u1", 1, `"type":"system","subtype":"ui_telemetry"`)))
	f.Add([]byte(line(one, "a", "", 1, say("assistant", "x", `{"inlineData":{"mimeType":"image/png","data":"AA=="}}`, `{"functionResponse":{"response":{"a":1}}}`))))
	f.Fuzz(func(t *testing.T, data []byte) {
		read(t, fstest.MapFS{file(one): {Data: data}, file(two): {Data: data}})
	})
}
