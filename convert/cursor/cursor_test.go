package cursor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/cursor"
)

const home = ".config/Cursor/User/globalStorage"

// store makes a home with a database of these keys and values.
func store(t testing.TB, rows ...[2]string) convert.Source {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(home)), 0o700); err != nil {
		t.Fatal(err)
	}
	statements := []string{"CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)", "CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"}
	for _, r := range rows {
		statements = append(statements, fmt.Sprintf("INSERT INTO cursorDiskKV VALUES ('%s', '%s')", r[0], strings.ReplaceAll(r[1], "'", "''")))
	}
	converttest.Exec(t, filepath.Join(dir, filepath.FromSlash(home), "state.vscdb"), sqlite.OpenForeign, statements...)
	return converttest.Disk(t, dir, ".", sqlite.OpenForeign)
}

// chat is a chat with the headers of these bubbles.
func chat(id, more string, bubbles ...string) [2]string {
	var headers []string
	for _, b := range bubbles {
		headers = append(headers, fmt.Sprintf(`{"bubbleId":%q,"type":2}`, b))
	}
	return [2]string{"composerData:" + id, fmt.Sprintf(`{"_v":17,"composerId":%q,"name":"tea","createdAt":1700000000000,"lastUpdatedAt":1700000009000,"modelConfig":{"modelName":"m-1"},"workspaceIdentifier":{"id":"w","uri":{"fsPath":"/w/tea"}},
		"unifiedMode":"agent","todos":[],"fullConversationHeadersOnly":[%s]%s}`, id, strings.Join(headers, ","), more)}
}

func bubble(chat, id, fields string) [2]string {
	return [2]string{"bubbleId:" + chat + ":" + id, fmt.Sprintf(`{"_v":3,"bubbleId":%q,"createdAt":"2026-01-02T03:04:05.678Z","context":{},"codebaseContextChunks":[],%s}`, id, fields)}
}

func TestAChatComesInBubbleByBubble(t *testing.T) {
	p := store(t,
		chat("c1", `,"status":"completed"`, "u1", "t1", "a1", "k1", "k2", "k3", "a2"),
		bubble("c1", "u1", `"type":1,"text":"Look.","images":[{"uuid":"i"}]`),
		bubble("c1", "t1", `"type":2,"text":"","thinking":{"text":"Hm.","signature":"s"}`),
		bubble("c1", "a1", `"type":2,"text":"I look.","modelInfo":{"modelName":"m-2"}`),
		bubble("c1", "k1", `"type":2,"capabilityType":15,"toolFormerData":{"tool":5,"name":"read_file","toolCallId":"c","rawArgs":"{\"a\":1}","params":"{\"b\":2}","result":"{\"contents\":\"x\"}","status":"completed"}`),
		bubble("c1", "k2", `"type":2,"toolFormerData":{"name":"run","params":"{\"b\":2}","error":"refused","status":"error"}`),
		bubble("c1", "k3", `"type":2,"toolFormerData":{"name":"run","rawArgs":"{","status":"loading"}`),
		bubble("c1", "a2", `"type":2,"text":"Done."`),
		bubble("c1", "gone", `"type":2,"text":"deleted"`),
		[2]string{"composerData:empty", `{"composerId":"empty","fullConversationHeadersOnly":[]}`}, [2]string{"checkpointId:c1:x", "huge"})
	if !cursor.Tool().Detect(t.Context(), p) {
		t.Error("it is not detected")
	}
	got := converttest.ReadWhole(t, cursor.Tool(), p)
	if len(got.Sessions) != 1 {
		t.Fatalf("%d sessions", len(got.Sessions))
	}
	s := got.Sessions[0]
	want := []string{"u1< user Look.", "t1< assistant Hm.", "a1< assistant I look.", "k1< assistant read_file", `k1.result< tool {"contents":"x"}`, "k2< assistant run", "k2.result< tool refused", "k3< assistant run", "a2< assistant Done."}
	if d := cmp.Diff(want, converttest.Shape(s.Entries)); d != "" {
		t.Fatal(d)
	}
	if s.Title != "tea" || s.Project != "/w/tea" || s.Model != "m-1" || s.CreatedAt.UnixMilli() != 1700000000000 || s.UpdatedAt.UnixMilli() != 1700000009000 || !strings.Contains(string(s.Extra), "unifiedMode") || strings.Contains(string(s.Extra), "todos") {
		t.Errorf("session %+v", s.Session.Session)
	}
	call, refused := s.Entries[3].Blocks[0], s.Entries[6].Blocks[0]
	if string(call.Input) != `{"a":1}` || call.ID != "c" || s.Entries[4].Blocks[0].ToolUseID != "c" || !strings.Contains(string(s.Entries[4].Extra), "params") || !refused.IsError || refused.ToolUseID != "k2" || string(s.Entries[5].Blocks[0].Input) != `{"b":2}` {
		t.Errorf("call %+v, refused %+v, extra %s", call, refused, s.Entries[4].Extra)
	}
	if s.Entries[1].Blocks[0].Raw == "" || s.Entries[2].Model != "m-2" || s.Entries[0].At.Second() != 5 || !strings.Contains(string(s.Entries[0].Extra), `"images"`) || strings.Contains(string(s.Entries[0].Extra), "codebase") {
		t.Errorf("entries %+v", s.Entries[:3])
	}
	if got.Dump(t) != converttest.Read(t, cursor.Tool(), p).Dump(t) {
		t.Error("a second import is not equal to the first")
	}
	converttest.CheckStops(t, cursor.Tool(), p)
}

func TestHelpersAreWorkersAndAnOlderChatHasItsBubblesInside(t *testing.T) {
	p := store(t,
		chat("c1", `,"status":"generating","subagentComposerIds":["h1","gone"],"subComposerIds":["h1"]`, "u1", "a1"), bubble("c1", "u1", `"type":1,"text":"Go."`), bubble("c1", "a1", `"type":2,"text":"I g"`),
		chat("h1", `,"subagentComposerIds":["h2"]`, "u1"), bubble("h1", "u1", `"type":1,"text":"task"`),
		chat("h2", `,"subagentComposerIds":["h2"]`, "u1"), bubble("h2", "u1", `"type":1,"text":"deeper"`),
		chat("x1", `,"subagentComposerIds":["x2"]`, "u1"), bubble("x1", "u1", `"type":1,"text":"circle"`), chat("x2", `,"subagentComposerIds":["x1"]`, "u1"), bubble("x2", "u1", `"type":1,"text":"circle"`),
		[2]string{"composerData:old", `{"composerId":"old","createdAt":1600000000000,"conversation":[{"type":1,"bubbleId":"b1","text":"One?"},{"type":2,"bubbleId":"b1","text":"1."}]}`})
	got := converttest.ReadWhole(t, cursor.Tool(), p)
	var is []string
	for _, s := range got.Sessions {
		line := s.ForeignID
		for _, w := range s.Workers {
			line += " " + w.Name
		}
		is = append(is, line)
	}
	if d := cmp.Diff([]string{"old", "c1 h1 h2", "x1", "x2"}, is); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"b1< user One?", "bubble.1< assistant 1."}, converttest.Shape(got.Find("old").Entries)); d != "" {
		t.Error(d)
	}
	if e := got.Find("c1").Entries; e[0].Draft || !e[1].Draft {
		t.Errorf("an answer that is being written: %+v", e)
	}
}

func TestRowsThatCannotBeReadAreSkipped(t *testing.T) {
	p := store(t, chat("c1", "", "u1", "lost", "half"), bubble("c1", "u1", `"type":1,"text":"kept"`), [2]string{"bubbleId:c1:half", "{"}, [2]string{"composerData:c2", "{"}, [2]string{"composerData:../up", "{}"})
	got := converttest.Read(t, cursor.Tool(), p)
	if len(got.Sessions) != 1 || len(got.Sessions[0].Entries) != 1 || len(got.Skips) != 4 || got.Sessions[0].Entries[0].Role != tidemark.User {
		t.Errorf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
	dir := t.TempDir()
	converttest.Exec(t, filepath.Join(dir, "state.vscdb"), sqlite.OpenForeign, "CREATE TABLE ItemTable (key TEXT, value BLOB)")
	other := converttest.Disk(t, dir, ".", sqlite.OpenForeign)
	if got := converttest.Read(t, cursor.Tool(), other); len(got.Sessions) != 0 || len(got.Skips) != 1 || cursor.Tool().Detect(t.Context(), other) {
		t.Errorf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
	if got := converttest.Read(t, cursor.Tool(), converttest.Disk(t, t.TempDir(), ".", sqlite.OpenForeign)); len(got.Skips) != 1 {
		t.Errorf("skips %q", got.Skips)
	}
}

// FuzzRows reads any values as a chat and a bubble.
func FuzzRows(f *testing.F) {
	f.Add(chat("c1", "", "u1")[1], bubble("c1", "u1", `"type":1,"text":"x"`)[1])
	f.Add(`{"conversation":[{"type":2,"toolFormerData":{"rawArgs":"{","result":{"a":1}}},7]}`, `null`)
	f.Add(`{"fullConversationHeadersOnly":[{"bubbleId":"u1"},7],"createdAt":1e300,"subagentComposerIds":["c1",7]}`, `{"type":"1","thinking":{"text":"x"},"toolFormerData":{"status":"error"}}`)
	f.Fuzz(func(t *testing.T, chat, bubble string) {
		if strings.ContainsRune(chat+bubble, 0) { // a statement ends there
			return
		}
		p := store(t, [2]string{"composerData:c1", chat}, [2]string{"bubbleId:c1:u1", bubble})
		converttest.Read(t, cursor.Tool(), p)
	})
}
