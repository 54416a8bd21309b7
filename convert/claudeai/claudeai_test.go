package claudeai_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/claudeai"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func message(id, parent string, at int, fields string) string {
	up := ""
	if parent != "" {
		up = fmt.Sprintf(`"parent_message_uuid":%q,`, parent)
	}
	return fmt.Sprintf(`{"uuid":%q,%s"created_at":"2026-01-02T03:04:%02d.123456Z",%s}`, id, up, at, fields)
}

func says(sender, text string) string {
	return fmt.Sprintf(`"sender":%q,"text":%q,"content":[{"type":"text","text":%q}],"attachments":[],"files":[]`, sender, text, text)
}

func conversation(id string, messages ...string) string {
	return fmt.Sprintf(`{"uuid":%q,"name":"tea","summary":"About tea.","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:05:05Z","account":{"uuid":"me"},"chat_messages":[%s]}`,
		id, strings.Join(messages, ","))
}

func export(conversations ...string) convert.Source {
	return convert.Source{Path: ".", FS: fstest.MapFS{"conversations.json": {Data: []byte("[" + strings.Join(conversations, ",") + "]")}, "users.json": {Data: []byte(`[{"email_address":"ada@example.org"}]`)}}}
}

const first = "00000000-0000-4000-8000-000000000000" // the parent of every first message

func TestATreeOfMessagesComesInWithAllItsBranches(t *testing.T) {
	got := converttest.ReadWhole(t, claudeai.Tool(), export(conversation("c1",
		message("a1", "u1", 2, says("assistant", "1.")), message("u1", first, 1, says("human", "One?")), message("a2", "u1", 3, says("assistant", "One.")),
		message("u2", first, 4, says("human", "Other?")), message("u3", "a1", 5, says("human", "Two?")))))
	s := got.Sessions[0]
	if d := cmp.Diff([]string{"u1< user One?", "a1<u1 assistant 1.", "a2<u1 assistant One.", "u2<root user Other?", "u3<a1 user Two?"}, converttest.Shape(s.Entries)); d != "" {
		t.Error(d)
	}
	if s.Title != "tea" || s.ForeignID != "c1" || !strings.Contains(string(s.Extra), "About tea.") || strings.Contains(string(s.Extra), "me") || s.UpdatedAt.Minute() != 5 {
		t.Errorf("session %+v", s.Session.Session)
	}
}

func TestAnOlderExportIsAChain(t *testing.T) {
	got := converttest.ReadWhole(t, claudeai.Tool(), export(conversation("c1", message("u1", "", 1, `"sender":"human","text":"One?"`), message("a1", "", 2, `"sender":"assistant","text":"1."`), message("", "", 3, `"sender":"human","text":"Two?"`))))
	if d := cmp.Diff([]string{"u1< user One?", "a1<u1 assistant 1.", "message.2<a1 user Two?"}, converttest.Shape(got.Sessions[0].Entries)); d != "" {
		t.Error(d)
	}
}

func TestCallsAndResultsInOneAnswerAreEntriesOfTheirOwn(t *testing.T) {
	content := `[{"type":"thinking","thinking":"Hm.","summaries":[]},{"type":"text","text":"I look."},{"type":"tool_use","name":"search","input":{"q":1}},{"type":"tool_use","id":"t2","name":"fetch","input":{}},
		{"type":"tool_result","name":"fetch","tool_use_id":"t2","content":[{"type":"text","text":"page"}],"is_error":false},{"type":"tool_result","name":"search","content":"none","is_error":true},{"type":"voice_note","text":"la"},{"type":"text","text":"Nothing."}]`
	got := converttest.ReadWhole(t, claudeai.Tool(), export(conversation("c1",
		message("u1", first, 1, `"sender":"human","text":"x","content":[],"attachments":[{"file_name":"a.txt","file_size":3,"extracted_content":"tea"}],"files":[{"file_uuid":"f"}]`),
		message("a1", "u1", 2, `"sender":"assistant","text":"I look.","content":`+content), message("u2", "a1", 3, says("human", "Thanks")))))
	entries := got.Sessions[0].Entries
	want := []string{"u1< user x+a.txt", "a1<u1 assistant Hm.+I look.+search+fetch", "a1.1< tool page+none", "a1.2< assistant la+Nothing.", "u2<a1.2 user Thanks"}
	if d := cmp.Diff(want, converttest.Shape(entries)); d != "" {
		t.Fatal(d)
	}
	if r := entries[2].Blocks; r[0].ToolUseID != "t2" || r[1].ToolUseID != "a1/2" || !r[1].IsError || entries[1].Blocks[2].ID != "a1/2" {
		t.Errorf("results %+v of calls %+v", r, entries[1].Blocks)
	}
	if b := entries[0].Blocks[1]; b.Type != tidemark.BlockFile || string(b.Data) != "tea" || !strings.Contains(string(entries[0].Extra), `"file_size":3`) || !strings.Contains(string(entries[0].Extra), `"file_uuid":"f"`) {
		t.Errorf("file %+v, extra %s", b, entries[0].Extra)
	}
	if b := entries[3].Blocks[0]; b.Raw != `{"type":"voice_note","text":"la"}` {
		t.Errorf("%+v", b)
	}
}

func TestBadConversationsAreSkippedAndTheOthersComeIn(t *testing.T) {
	good := conversation("c1", message("u1", first, 1, says("human", "One?")))
	got := converttest.Read(t, claudeai.Tool(), export(good, good, "7", conversation("../up"), conversation("c2", "7", "null", message("u1", "u1", 1, says("human", "x")), message("u1", "u1", 1, says("human", "y")))))
	if len(got.Sessions) != 2 || len(got.Skips) != 3 || len(got.Find("c2").Entries) != 4 {
		t.Errorf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
	if !claudeai.Tool().Detect(t.Context(), export(good)) || claudeai.Tool().Detect(t.Context(), export(`{"mapping":{},"id":"x"}`)) {
		t.Error("it is detected by something else than its fields")
	}
	converttest.CheckStops(t, claudeai.Tool(), export(good))
}

func FuzzConversation(f *testing.F) {
	f.Add([]byte(conversation("c1", message("u1", first, 1, says("human", "One?")), message("a1", "u1", 2, says("assistant", "1.")))))
	f.Add([]byte(`{"uuid":"c","chat_messages":[{"uuid":"a","parent_message_uuid":"b","content":[{"type":"tool_result"},{"type":"tool_use"},7],"attachments":[7,{}]},{"uuid":"b","parent_message_uuid":"a"}]}`))
	f.Fuzz(func(t *testing.T, one []byte) {
		p := export(string(one))
		claudeai.Tool().Detect(t.Context(), p)
		converttest.Read(t, claudeai.Tool(), p)
	})
}
