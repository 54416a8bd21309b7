package goose_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/goose"
)

const home = ".local/share/goose/sessions"

// tables are those of schema 9, as far as they are read.
const tables = `CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '', session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL,
	created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, accumulated_total_tokens INTEGER, provider_name TEXT, model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL, role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL,
	timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, tokens INTEGER, metadata_json TEXT)`

// store makes a home with a database, and files beside it.
func store(t testing.TB, statements string, files map[string]string) convert.Source {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(home)), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(home), name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if statements != "" {
		converttest.Exec(t, filepath.Join(dir, filepath.FromSlash(home), "sessions.db"), sqlite.OpenForeign, strings.Split(statements, ";")...)
	}
	return converttest.Disk(t, dir, ".", sqlite.OpenForeign)
}

func row(id, session, role, content string, at int, meta string) string {
	return fmt.Sprintf(`;INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json) VALUES ('%s', '%s', '%s', '%s', %d, %s)`, id, session, role, content, 1700000000+at, meta)
}

const one = `;INSERT INTO sessions VALUES ('20260102_1', 'tea', 'older', 'user', '/w/tea', '2026-01-02 03:04:05', '2026-01-02 03:05:05', 77, 'ollama', '{"model_name":"m-1","x":1}')`

func TestADatabaseComesInWhole(t *testing.T) {
	p := store(t, tables+one+
		row("u1", "20260102_1", "user", `[{"type":"text","text":"Look."},{"type":"image","data":"UE5H","mimeType":"image/png"}]`, 1, "NULL")+
		row("a1", "20260102_1", "assistant", `[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"toolRequest","id":"c1","toolCall":{"status":"success","value":{"name":"shell","arguments":{"a":1}}}},{"type":"toolRequest","id":"c2","toolCall":{"status":"error","error":"bad"}}]`, 2, `'{"userVisible":true,"agentVisible":false}'`)+
		row("r1", "20260102_1", "user", `[{"type":"toolResponse","id":"c1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"done"}],"isError":true}}},{"type":"toolResponse","id":"c2","toolResult":{"status":"error","error":"no call"}}]`, 2, `'{}'`)+
		row("", "20260102_1", "assistant", `[{"type":"text","text":"Done."},{"type":"systemNotification","notificationType":"inlineMessage","msg":"compacting"},{"type":"brandNew","x":1}]`, 3, `'{"userVisible":true}'`)+
		row("k", "20260102_1", "user", `[{"type":"text","text":"So far."}]`, 4, `'{"userVisible":false,"agentVisible":true,"more":1}'`)+
		row("u0", "20260102_1", "user", `[{"type":"toolResponse","id":"c9","toolResult":{"status":"success","value":[{"type":"text","text":"older"}]}},{"type":"text","text":"And now?"}]`, 5, "NULL"),
		map[string]string{"20260102_1.jsonl": `{"working_dir":"/w","description":"taken over","message_count":0}` + "\n"})
	if !goose.Tool().Detect(t.Context(), p) {
		t.Error("it is not detected")
	}
	got := converttest.ReadWhole(t, goose.Tool(), p)
	if len(got.Sessions) != 1 {
		t.Fatalf("%d sessions", len(got.Sessions))
	}
	s := got.Sessions[0]
	want := []string{"u1< user Look.+", "a1< assistant Hm.+shell+", "r1< tool done+no call", "row.4< assistant Done.+", "row.4.notice< notice compacting", "k< context So far.", "u0< tool older", "u0.user< user And now?"}
	if d := cmp.Diff(want, converttest.Shape(s.Entries)); d != "" {
		t.Fatal(d)
	}
	if s.Title != "tea" || s.Project != "/w/tea" || s.Model != "m-1" || s.Mode != tidemark.ModeLocal || s.CreatedAt.Minute() != 4 || s.UpdatedAt.Minute() != 5 || !strings.Contains(string(s.Extra), `"accumulated_total_tokens":77`) {
		t.Errorf("session %+v", s.Session.Session)
	}
	if b := s.Entries[0].Blocks[1]; string(b.Data) != "PNG" || b.MediaType != "image/png" {
		t.Errorf("image %+v", b)
	}
	if a, r := s.Entries[1].Blocks, s.Entries[2].Blocks; a[0].Raw == "" || string(a[1].Input) != `{"a":1}` || a[1].Raw != "" || !strings.Contains(a[2].Raw, "bad") || !r[0].IsError || !r[1].IsError {
		t.Errorf("answer %+v, results %+v", a, r)
	}
	if x := string(s.Entries[5].Extra); !strings.Contains(x, `"more":1`) || strings.Contains(x, "agentVisible") || s.Entries[3].Blocks[1].Raw != `{"type":"brandNew","x":1}` {
		t.Errorf("extra %s, blocks %+v", x, s.Entries[3].Blocks)
	}
	if got.Dump(t) != converttest.Read(t, goose.Tool(), p).Dump(t) {
		t.Error("a second import is not equal to the first")
	}
	converttest.CheckStops(t, goose.Tool(), p)
}

func TestRowsThatCannotBeReadAreSkipped(t *testing.T) {
	p := store(t, tables+one+";INSERT INTO sessions (id, working_dir) VALUES ('../up', '/w')"+
		row("u1", "20260102_1", "user", `[{"type":"text","text":"kept"}]`, 1, "NULL")+row("u2", "20260102_1", "user", `[half`, 2, "NULL")+row("u3", "20260102_1", "system", `[]`, 3, "'half'"), nil)
	got := converttest.Read(t, goose.Tool(), p)
	if len(got.Sessions) != 1 || len(got.Sessions[0].Entries) != 1 || len(got.Skips) != 3 {
		t.Errorf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
	other := store(t, "CREATE TABLE sessions (id TEXT, working_dir TEXT, created_at TEXT, updated_at TEXT); CREATE TABLE messages (id TEXT)", nil)
	if got := converttest.Read(t, goose.Tool(), other); len(got.Sessions) != 0 || len(got.Skips) != 1 || goose.Tool().Detect(t.Context(), other) {
		t.Errorf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
}

const head = `{"working_dir":"/w/tea","description":"tea","message_count":2,"total_tokens":5}` + "\n"

func line(id, text string) string {
	return fmt.Sprintf(`{"id":%q,"role":"user","created":1700000001,"content":[{"type":"text","text":%q}]}`, id, text) + "\n"
}

func file(data string) convert.Source {
	return convert.Source{Path: ".", FS: fstest.MapFS{home + "/20250102_030405.jsonl": {Data: []byte(data)}}}
}

func TestFilesOfEarlierVersionsComeIn(t *testing.T) {
	p := file(head + line("u1", "One?") + line("", "Two?"))
	s := converttest.ReadWhole(t, goose.Tool(), p).Sessions[0]
	if d := cmp.Diff([]string{"u1< user One?", "line.3< user Two?"}, converttest.Shape(s.Entries)); d != "" || s.Title != "tea" || s.ForeignID != "20250102_030405" || s.Project != "/w/tea" {
		t.Errorf("session %+v: %s", s.Session.Session, d)
	}
	converttest.CheckGrowth(t, goose.Tool(), p, func(name string) (bool, []string) { return strings.HasSuffix(name, ".jsonl"), nil })
	p.Path = home + "/20250102_030405.jsonl"
	converttest.CheckDamage(t, goose.Tool(), func(data string) convert.Source {
		p := file(data)
		p.Path = home + "/20250102_030405.jsonl"
		return p
	}, map[string]converttest.Damaged{
		"empty":      {Data: "", Skips: 1},
		"other tool": {Data: `{"type":"session","id":"x"}` + "\n", Skips: 1},
		"cut off":    {Data: head + line("u1", "One?") + `{"id":"u2","ro`, Skips: 1, Sessions: 1, Entries: 1},
		"no role":    {Data: head + `{"id":"u2"}` + "\n", Skips: 1, Sessions: 1},
		"a text":     {Data: head + `{"role":"user","content":"x"}` + "\n", Skips: 1, Sessions: 1},
	})
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(line("u1", "One?") + `{"role":"assistant","content":[{"type":"toolRequest","id":"c","toolCall":{"value":7}},7,null]}`))
	f.Add([]byte(`{"role":"user","created":1e300,"metadata":{"userVisible":false},"content":[{"type":"toolResponse","toolResult":{"value":[{"type":"toolResponse"}]}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := file(head + string(data))
		goose.Tool().Detect(t.Context(), p)
		converttest.Read(t, goose.Tool(), p)
	})
}
