package transfer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// rowTool is how a tool keeps sessions in a database.
type rowTool struct {
	file   string
	tables []string
	// session has a new session, say its n-th message, unsay takes that back, as it is
	// the last one, and rename another title.
	session func(id int) []string
	say     func(id, n int) []string
	unsay   func(id, n int) []string
	rename  func(id int) []string
	remove  func(id int) []string
}

func opencodeRows(file string, events bool) rowTool {
	event := func(id int) (statements []string) {
		if events {
			statements = append(statements, fmt.Sprintf("INSERT INTO event_sequence VALUES ('ses_%03d', 1) ON CONFLICT DO UPDATE SET seq = seq + 1", id))
		}
		return statements
	}
	tool := rowTool{file: file, tables: []string{
		"CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL, title text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL)",
		"CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL)",
		"CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL)",
		"CREATE INDEX message_session ON message (session_id, time_created, id)", "CREATE INDEX part_message ON part (message_id, id)", "CREATE INDEX part_session ON part (session_id)"},
		session: func(id int) []string {
			return append(event(id), fmt.Sprintf("INSERT INTO session VALUES ('ses_%03d', NULL, '/w', 'title %d', %d, 1)", id, id, 1000+id))
		},
		say: func(id, n int) []string {
			role := `{"role":"user","time":{"created":%d}}`
			if n%2 == 1 {
				role = `{"role":"assistant","modelID":"m","time":{"created":%[1]d,"completed":%[1]d}}`
			}
			at := 2000 + 1000*id + n
			return append(event(id), fmt.Sprintf("INSERT INTO message VALUES ('msg_%03d_%03d', 'ses_%03d', %d, %d, '%s')", id, n, id, at, at, fmt.Sprintf(role, at)),
				fmt.Sprintf("INSERT INTO part VALUES ('prt_%03d_%03d', 'msg_%03d_%03d', 'ses_%03d', %d, %d, '{\"type\":\"text\",\"text\":\"%s\"}')", id, n, id, n, id, at, at, longText(n)))
		},
		unsay: func(id, n int) []string {
			return append(event(id), fmt.Sprintf("DELETE FROM part WHERE id = 'prt_%03d_%03d'", id, n), fmt.Sprintf("DELETE FROM message WHERE id = 'msg_%03d_%03d'", id, n),
				fmt.Sprintf("UPDATE session SET time_updated = time_updated + 1 WHERE id = 'ses_%03d'", id))
		},
		rename: func(id int) []string {
			return append(event(id), fmt.Sprintf("UPDATE session SET title = 'another', time_updated = time_updated + 1 WHERE id = 'ses_%03d'", id))
		},
		remove: func(id int) []string {
			return []string{fmt.Sprintf("DELETE FROM part WHERE session_id = 'ses_%03d'", id), fmt.Sprintf("DELETE FROM message WHERE session_id = 'ses_%03d'", id), fmt.Sprintf("DELETE FROM session WHERE id = 'ses_%03d'", id)}
		}}
	if events {
		tool.tables = append(tool.tables, "CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL)")
	}
	return tool
}

// rowTools are the tools that keep sessions in databases.
var rowTools = map[string]rowTool{
	"opencode": opencodeRows("opencode.db", false),
	"kilo-cli": opencodeRows("kilo.db", true),
	"goose": {file: "sessions.db", tables: []string{
		"CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, description TEXT, working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP)",
		"CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, metadata_json TEXT)",
		"CREATE INDEX idx_messages_session ON messages (session_id)"},
		session: func(id int) []string {
			return []string{fmt.Sprintf("INSERT INTO sessions VALUES ('20261101_%d', 'title %d', '', '/w', '2026-11-01 10:00:00', '2026-11-01 10:00:00')", id, id)}
		},
		say: func(id, n int) []string {
			role := "user"
			if n%2 == 1 {
				role = "assistant"
			}
			return []string{fmt.Sprintf(`INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp) VALUES ('m%d_%d', '20261101_%d', '%s', '[{"type":"text","text":"%s"}]', %d)`, id, n, id, role, longText(n), 1790000000+n)}
		},
		unsay: func(id, n int) []string {
			return []string{fmt.Sprintf("DELETE FROM messages WHERE message_id = 'm%d_%d'", id, n)}
		},
		rename: func(id int) []string {
			return []string{fmt.Sprintf("UPDATE sessions SET name = 'another' WHERE id = '20261101_%d'", id)}
		},
		remove: func(id int) []string {
			return []string{fmt.Sprintf("DELETE FROM messages WHERE session_id = '20261101_%d'", id), fmt.Sprintf("DELETE FROM sessions WHERE id = '20261101_%d'", id)}
		}},
	"cursor": {file: "state.vscdb", tables: []string{"CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)"},
		session: func(id int) []string { return cursorChat(id, 0, "title") },
		say: func(id, n int) []string {
			return append(cursorChat(id, n+1, "title"), fmt.Sprintf(`INSERT INTO cursorDiskKV VALUES ('bubbleId:c%d:b%d', '{"bubbleId":"b%d","type":%d,"text":"%s","createdAt":"%s"}')`, id, n, n, 1+n%2, longText(n), longTime(n)))
		},
		unsay: func(id, n int) []string {
			return append(cursorChat(id, n, "title"), fmt.Sprintf("DELETE FROM cursorDiskKV WHERE key = 'bubbleId:c%d:b%d'", id, n))
		},
		rename: func(id int) []string { return cursorChat(id, 4, "another") },
		remove: func(id int) []string {
			return []string{fmt.Sprintf("DELETE FROM cursorDiskKV WHERE key = 'composerData:c%d' OR key LIKE 'bubbleId:c%d:%%'", id, id)}
		}},
}

// cursorChat has a chat with so many bubbles.
func cursorChat(id, bubbles int, title string) []string {
	var headers []string
	for n := range bubbles {
		headers = append(headers, fmt.Sprintf(`{"bubbleId":"b%d"}`, n))
	}
	return []string{fmt.Sprintf(`INSERT INTO cursorDiskKV VALUES ('composerData:c%d', '{"composerId":"c%d","name":"%s","createdAt":%d,"fullConversationHeadersOnly":[%s]}')`, id, id, title, 1700000000000+id, strings.Join(headers, ","))}
}

// rowHome is a home with such a database, which its tool has open.
func rowHome(t *testing.T, name string, sessions int) (h *home, by *otherTool) {
	t.Helper()
	how := rowTools[name]
	dir, by := foreignDatabase(t, "WAL")
	for _, end := range []string{"", "-wal", "-shm"} { // a link is not opened in place
		if err := os.Link(filepath.Join(dir, "a.db"+end), filepath.Join(dir, how.file+end)); err != nil {
			t.Fatal(err)
		}
	}
	by.does(how.tables...)
	by.does("BEGIN")
	for id := range sessions {
		by.does(how.session(id)...)
		for n := range 4 {
			by.does(how.say(id, n)...)
		}
	}
	by.does("COMMIT")
	return &home{tool: name, dir: dir, s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}, by
}

func TestOfADatabaseOnlySessionsThatChangedAreRead(t *testing.T) {
	const sessions = 12
	for name, how := range rowTools {
		t.Run(name, func(t *testing.T) {
			h, by := rowHome(t, name, sessions)
			h.want(t, "at first", h.read(t, false), sessions, 0)
			by.does("CREATE TABLE other (n)")
			h.want(t, "after a commit of something else", h.read(t, false), 0, sessions)
			by.does(how.say(5, 4)...)
			one := h.read(t, false)
			h.want(t, "after a message", one, 1, sessions-1)
			if one.Results[0].Entries+one.Results[0].Drafts == 0 {
				t.Errorf("of a message nothing came: %+v", one.Results[0])
			}
			by.does(how.say(5, 5)...)
			by.does(how.rename(7)...)
			h.want(t, "after another one, and a title", h.read(t, false), 2, sessions-2)
			by.does(how.remove(3)...)
			h.want(t, "without a session", h.read(t, false), 0, sessions-1)
			by.does(how.session(sessions)...)
			by.does(how.say(sessions, 0)...)
			h.want(t, "with a new one", h.read(t, false), 1, sessions-1)
			h.want(t, "with again", h.read(t, true), sessions, 0)

			gone := 0
			for i, err := range h.s.Sessions(t.Context(), store.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if !i.Gone.IsZero() {
					gone++
				}
			}
			if gone != 1 {
				t.Errorf("%d sessions are gone at their source, want the one that was removed", gone)
			}
			by.does(how.session(3)...)
			for n := range 4 {
				by.does(how.say(3, n)...)
			}
			h.read(t, false)
			whole := &home{tool: name, dir: h.dir, s: store.New(memory.New(), nil), machine: "one"}
			whole.read(t, false)
			ignored := cmp.FilterValues(func(a, b string) bool { return strings.Contains(a, `"interrupted"`) }, cmp.Ignore())
			if diff := cmp.Diff(whole.kept(t), h.kept(t), ignored); diff != "" {
				t.Errorf("at once - and in steps +\n%.3000s", diff)
			}
		})
	}
}

// Of a session that goes on only the rows behind its last answer are read. A change that
// shows before it costs a reading of all of it.
func TestOfASessionInADatabaseOnlyRowsThatWereAddedAreRead(t *testing.T) {
	opencode := [2]string{"UPDATE part SET data = replace(data, 'message 0', 'UNSEEN  0') WHERE id = 'prt_001_000'", // no time, no length
		"UPDATE part SET time_updated = time_updated + 1 WHERE id = 'prt_001_000'"}
	for name, changes := range map[string][2]string{"opencode": opencode, "kilo-cli": opencode,
		"goose": {"UPDATE messages SET content_json = replace(content_json, 'message 0', 'UNSEEN  0') WHERE message_id = 'm1_0'",
			"UPDATE messages SET content_json = replace(content_json, 'UNSEEN  0', 'UNSEEN 0') WHERE message_id = 'm1_0'"},
		"cursor": {"UPDATE cursorDiskKV SET value = replace(value, 'message 0', 'UNSEEN  0') WHERE key = 'bubbleId:c1:b0'",
			"INSERT INTO cursorDiskKV SELECT key, value FROM cursorDiskKV WHERE key = 'bubbleId:c1:b0'"}} {
		t.Run(name, func(t *testing.T) {
			how := rowTools[name]
			h, by := rowHome(t, name, 2)
			h.read(t, false)
			by.does(changes[0])
			texts := func() (all string) {
				for id, lines := range h.kept(t) {
					if id == "ses_001" || id == "20261101_1" || id == "c1" {
						all = strings.Join(lines, "\n")
					}
				}
				return all
			}
			for n := 4; n < 9; n++ {
				by.does(how.say(1, n)...)
				if i := h.read(t, false); len(i.Results) != 1 || i.Results[0].Entries+i.Results[0].Drafts == 0 {
					t.Fatalf("message %d: %+v", n, i.Results)
				}
			}
			if all := texts(); strings.Contains(all, "UNSEEN") || strings.Count(all, `"key":"`+name+":") != 9 {
				t.Errorf("after what was added:\n%.3000s", all)
			}
			by.does(changes[1])
			by.does(how.say(1, 9)...)
			h.read(t, false)
			if all := texts(); !strings.Contains(all, "UNSEEN") {
				t.Errorf("after a change that shows:\n%.3000s", all)
			}
		})
	}
}

// A session in a database that is imported after each commit ends as one that is
// imported at once.
func TestRowsThatAreImportedAsTheyComeEndAsAtOnce(t *testing.T) {
	for name, how := range rowTools {
		t.Run(name, func(t *testing.T) {
			h, by := rowHome(t, name, 2)
			h.read(t, false)
			for n := 4; n < 12; n++ {
				by.does(how.say(1, n)...)
				h.read(t, false)
			}
			whole := &home{tool: name, dir: h.dir, s: store.New(memory.New(), nil), machine: "one"}
			whole.read(t, false)
			if diff := cmp.Diff(whole.kept(t), h.kept(t)); diff != "" {
				t.Errorf("at once - and in steps +\n%.3000s", diff)
			}
		})
	}
}

// An answer of Cursor is written again while it comes, and a call gets its result. What
// was complete before is not read again, and in the end all is as if imported at once.
func TestAChatThatIsBeingAnsweredEndsAsAtOnce(t *testing.T) {
	h, by := rowHome(t, "cursor", 2)
	h.read(t, false)
	by.does("UPDATE cursorDiskKV SET value = replace(value, 'message 0', 'UNSEEN  0') WHERE key = 'bubbleId:c1:b0'")
	step := func(status, bubble, fields string, bubbles int) {
		t.Helper()
		chat := strings.Replace(cursorChat(1, bubbles, "title")[0], `"name"`, `"status":"`+status+`","name"`, 1)
		by.does(chat, fmt.Sprintf(`INSERT INTO cursorDiskKV VALUES ('bubbleId:c1:%s', '{"bubbleId":"%s","type":2,"createdAt":"%s",%s}')`, bubble, bubble, longTime(bubbles), fields))
		h.read(t, false)
	}
	const call = `"toolFormerData":{"name":"run","toolCallId":"t","rawArgs":"{}","status":"%s"%s}`
	for n := 4; n < 40; n += 2 {
		one, two := fmt.Sprintf("b%d", n), fmt.Sprintf("b%d", n+1)
		step("generating", one, fmt.Sprintf(call, "loading", ""), n+1)
		step("generating", one, fmt.Sprintf(call, "completed", `,"result":"done"`), n+1)
		step("generating", two, `"text":"I am"`, n+2)
		step("generating", two, `"text":"I am at it"`, n+2)
		step("completed", two, `"text":"I am at it. Done."`, n+2)
	}
	all := strings.Join(h.kept(t)["c1"], "\n")
	if strings.Contains(all, "UNSEEN") || strings.Count(all, "I am at it. Done.") != 18 || strings.Count(all, `"done"`) != 18 {
		t.Errorf("what was added:\n%.3000s", all)
	}
	by.does("UPDATE cursorDiskKV SET value = replace(value, 'UNSEEN  0', 'message 0') WHERE key = 'bubbleId:c1:b0'")
	whole := &home{tool: "cursor", dir: h.dir, s: store.New(memory.New(), nil), machine: "one"}
	whole.read(t, false)
	if diff := cmp.Diff(whole.kept(t), h.kept(t)); diff != "" {
		t.Errorf("at once - and in steps +\n%.3000s", diff)
	}
}
