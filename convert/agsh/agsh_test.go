package agsh_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/agsh"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

// place opens a folder as the program does.
func place(t testing.TB, dir, path string) convert.Source {
	return converttest.Disk(t, dir, path, sqlite.OpenForeign)
}

// out is a folder on disk to export into, which keeps its databases open.
type out struct {
	t   testing.TB
	dir string
	dbs map[string]convert.Database
}

func folder(t testing.TB, dir string) out { return out{t, dir, map[string]convert.Database{}} }

func (o out) Create(string) (convert.File, error) { return nil, tidemark.ErrUnsupported }
func (o out) Getenv(string) string                { return "" }
func (o out) There() fs.FS                        { return nil }

func (o out) SQL(_ context.Context, name string) (convert.Database, error) {
	if db := o.dbs[name]; db != nil {
		return db, nil
	}
	db, err := sqlite.OpenForeign(filepath.Join(o.dir, name), false)
	if err == nil {
		o.dbs[name] = db
		o.t.Cleanup(func() { db.Close() })
	}
	return db, err
}

// script makes a database from the statements in a file of testdata.
func script(t testing.TB, name, db string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	run(t, db, strings.Split(string(b), ";\n")...)
}

func run(t testing.TB, db string, statements ...string) {
	t.Helper()
	converttest.Exec(t, db, sqlite.OpenForeign, statements...)
}

func ask(t testing.TB, db, statement string) (rows []string) {
	t.Helper()
	f, err := sqlite.OpenForeign(db, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for row, err := range f.Query(t.Context(), statement) {
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		for i, v := range row {
			var parsed map[string]any
			if text, ok := v.(string); ok && json.Unmarshal([]byte(text), &parsed) == nil {
				row[i] = fmt.Sprint(parsed) // the order of fields makes no odds
			}
		}
		rows = append(rows, fmt.Sprint(row...))
	}
	return rows
}

// old is a store of agsh 0.1, and new one of meka.
func old(t testing.TB) convert.Source {
	dir := t.TempDir()
	script(t, "agsh.sql", filepath.Join(dir, "sessions.db"))
	return place(t, dir, ".")
}

func meka(t testing.TB) convert.Source {
	dir := t.TempDir()
	script(t, "meka.sql", filepath.Join(dir, "meka.db"))
	return place(t, dir, ".")
}

// outline is what was said, a line an entry.
func outline(entries []convert.Entry) (lines []string) {
	for _, e := range entries {
		line := e.ID + " <" + strings.ReplaceAll(e.Parent, convert.Root, "root") + " " + e.Kind + string(e.Role) + ":"
		for _, b := range e.Blocks {
			line += " " + b.Type + " " + b.Text + b.Name
			for _, in := range b.Blocks {
				line += "[" + in.Type + " " + in.Text + "]"
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func TestMessagesOfAgshComeIn(t *testing.T) {
	got := converttest.Read(t, agsh.Tool(), old(t))
	if len(got.Skips) != 1 || !strings.Contains(got.Skips[0], "message 9") {
		t.Errorf("skips = %q, want the tool results that are no JSON", got.Skips)
	}
	s := got.Find("11111111-1111-4111-8111-111111111111")
	if s == nil {
		t.Fatal("the first session did not come in")
	}
	want := []string{
		"1 <root user: text count the birds",
		"2 <1 assistant: text Looking. tool_use count",
		"3 <2 tool: tool_result 12",
		"4 <3 assistant: text Twelve birds.",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	if s.CreatedAt.Nanosecond() != 123456000 || s.UpdatedAt.IsZero() {
		t.Errorf("times %v, %v: want microseconds", s.CreatedAt, s.UpdatedAt)
	}
	if plain := got.Find("22222222-2222-4222-8222-222222222222"); plain.Entries[1].Text() != "not JSON at all" {
		t.Errorf("an answer that is no JSON is %q", plain.Entries[1].Text())
	}
}

func TestALiveLockMeansNotFinishedAndADeadOneNothing(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "sessions.db")
	script(t, "agsh.sql", db)
	for name, c := range map[string]struct {
		by   string
		open bool
	}{
		"this process": {strconv.Itoa(os.Getpid()), true},
		"no process":   {"2147483646", false},
		"no pid":       {"somebody", false},
		"a group":      {"-1", false},
		"nobody":       {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, db, "UPDATE sessions SET locked_by = '"+c.by+"' WHERE id LIKE '1111%'")
			s := converttest.Read(t, agsh.Tool(), place(t, dir, ".")).Find("11111111-1111-4111-8111-111111111111")
			if open := strings.Contains(strings.Join(s.Lost, "\n"), "not finished"); open != c.open || len(s.Entries) != 4 {
				t.Errorf("locked by %q: lost %q and %d entries", c.by, s.Lost, len(s.Entries))
			}
		})
	}
}

func TestEventsOfMekaBecomeATree(t *testing.T) {
	got := converttest.Read(t, agsh.Tool(), meka(t))
	if len(got.Skips) != 0 || len(got.Sessions) != 1 {
		t.Fatalf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
	s := got.Sessions[0]
	want := []string{
		"1c <root context: text <context>\nhost: here\n</context>\n\n",
		"1 <1c user: text one",
		"2 <1 assistant: thinking hm thinking  tool_use spawn",
		"3 <2 tool: tool_result [text started 44444444-4444-4444-8444-444444444444][image ]",
		"4 <3 user: text two",
		"5 <4 assistant: text second",
		"6 <5 compaction: text [Conversation summary from session compaction]\n\nCounted to two.",
		"9 <6 user: text wrong",
		"10 <9 assistant: text oh",
		"12 <6 user: text right image ",
		"13 <12 event:",
		"14 <13 assistant: text mended",
		"15 <14 assistant: text fork a",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	if s.Head != "14" {
		t.Errorf("head = %q, want the entry that the rewind went back to", s.Head)
	}
	if s.Project != "/home/ada/birds" {
		t.Errorf("project = %q", s.Project)
	}
	if d := cmp.Diff(map[string][]byte{"tool_outputs/out_1": []byte("large")}, s.Files); d != "" {
		t.Error(d)
	}
	if len(s.Workers) != 2 || s.Workers[0].Call != "u1" || s.Workers[0].Entries[0].Text() != "helper task" {
		t.Errorf("workers = %+v, want the helper at its call, and its own", s.Workers)
	}
	if raw := s.Entries[2].Blocks[0].Raw; raw != `{"type":"thinking","thinking":"hm","signature":"s=="}` {
		t.Errorf("signed thinking = %s, want it byte for byte", raw)
	}
	if strings.Contains(fmt.Sprint(s.Session), "fingerprint") {
		t.Error("the column token_id was read")
	}
}

func TestARepairPutsMessagesInPlaceOfOthers(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "meka.db")
	script(t, "meka.sql", db)
	repair := `INSERT INTO messages (session_id, role, content, created_at) VALUES ('55555555-5555-4555-8555-555555555555', 'repair', '%s', '')`
	run(t, db, "UPDATE sessions SET parent_session_id = NULL",
		fmt.Sprintf(repair, `{"Repair":{"replaced_count":1,"messages":[{"role":"user","content":[{"type":"text","text":"mended"}]}]}}`),
		fmt.Sprintf(repair, `{"Repair":{"replaced_count":1,"messages":[{"role":"user","content":[{"type":"text","text":"deeper"}]}]}}`))
	for _, dir := range []string{dir, again(t, place(t, dir, "."))} {
		s := converttest.Read(t, agsh.Tool(), place(t, dir, ".")).Find("55555555-5555-4555-8555-555555555555")
		if got := strings.Join(converttest.Texts(s.Entries, tidemark.User), ", "); got != "deeper, mended" || s.Head != s.Entries[0].ID {
			t.Errorf("%q and the head at %q, want both prompts once and the head back at the first", got, s.Head)
		}
	}
}

func again(t *testing.T, p convert.Source) string {
	dir := t.TempDir()
	twice(t, p, dir)
	return dir
}

func TestAnExportedFileOfMekaIsTheSameAsItsDatabase(t *testing.T) {
	s := converttest.Read(t, agsh.Tool(), place(t, "testdata", "meka.json")).Sessions[0]
	want := []string{
		"1 <root user: text one",
		"2 <1 assistant: text first",
		"4 <root user: text again",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	if len(s.Workers) != 1 || string(s.Files["tool_outputs/out"]) != "big" {
		t.Errorf("workers %d, files %v", len(s.Workers), s.Files)
	}
}

// dump is a database as text, without what an export need not give back.
func dump(t testing.TB, db string, meka bool) []string {
	statements := []string{"SELECT 's', * FROM sessions ORDER BY id"}
	if !meka {
		statements[0] = "SELECT id, created_at, updated_at, metadata FROM sessions ORDER BY id"
	}
	statements = append(statements, `SELECT session_id, role, content, CASE role WHEN 'repair' THEN '' ELSE created_at END FROM messages
		WHERE NOT (role = 'tool_results' AND NOT json_valid(content)) ORDER BY session_id, id`)
	if meka {
		statements[0] = `SELECT id, created_at, updated_at, parent_session_id, cwd, permission, subagent_spec_json, stat_turns, stat_input_tokens FROM sessions ORDER BY id`
		statements = append(statements, "SELECT session_id, name, content FROM tool_outputs ORDER BY 1, 2")
	}
	var all []string
	for _, st := range statements {
		all = append(all, ask(t, db, st)...)
	}
	return all
}

func TestExportGivesBackTheSameRows(t *testing.T) {
	for name, c := range map[string]struct {
		script, db string
		meka       bool
	}{"agsh": {"agsh.sql", "sessions.db", false}, "meka": {"meka.sql", "meka.db", true}} {
		t.Run(name, func(t *testing.T) {
			from, to := t.TempDir(), t.TempDir()
			script(t, c.script, filepath.Join(from, c.db))
			twice(t, place(t, from, "."), to)
			want, got := dump(t, filepath.Join(from, c.db), c.meka), dump(t, filepath.Join(to, c.db), c.meka)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			before := converttest.Read(t, agsh.Tool(), place(t, from, "."))
			after := converttest.Read(t, agsh.Tool(), place(t, to, "."))
			for _, s := range before.Sessions {
				if d := cmp.Diff(texts(s), texts(*after.Find(s.ForeignID))); d != "" {
					t.Errorf("%s: %s", s.ForeignID, d)
				}
			}
		})
	}
}

// texts is what of a session has to survive, however rows are numbered.
func texts(s converttest.Session) []string {
	var all []string
	for _, e := range converttest.Path(s.Entries, s.Head) {
		_, line, _ := strings.Cut(outline([]convert.Entry{e})[0], "<")
		_, line, _ = strings.Cut(line, " ")
		all = append(all, line+" "+e.At.String())
	}
	return append(all, fmt.Sprint(len(s.Entries), len(s.Workers), s.CreatedAt, s.UpdatedAt, s.Project))
}

// twice exports everything two times over: the second one replaces the first.
func twice(t *testing.T, p convert.Source, dir string) {
	t.Helper()
	to := folder(t, dir)
	for range 2 {
		for s, err := range agsh.Tool().Import(t.Context(), p) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := agsh.Tool().Export(t.Context(), to, s); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTheDocumentedStatementsWorkOnAnExport(t *testing.T) {
	dir := t.TempDir()
	twice(t, old(t), dir)
	db := filepath.Join(dir, "sessions.db")
	rows := ask(t, db, "SELECT id, created_at, updated_at FROM sessions ORDER BY updated_at DESC;")
	if len(rows) != 2 || !strings.HasPrefix(rows[0], "22222222") {
		t.Errorf("the list is %q", rows)
	}
	run(t, db, "DELETE FROM messages WHERE session_id = '11111111-1111-4111-8111-111111111111';",
		"DELETE FROM sessions WHERE id = '11111111-1111-4111-8111-111111111111';")
	if rows := ask(t, db, "SELECT id, locked_by FROM sessions"); len(rows) != 1 || !strings.Contains(rows[0], "<nil>") {
		t.Errorf("after a delete there is %q, want one session that nobody holds", rows)
	}
}

func TestASessionFromElsewhereIsWrittenForAgshToRead(t *testing.T) {
	say := func(id, parent string, e tidemark.Entry) convert.Entry {
		return convert.Entry{Entry: e, ID: id, Parent: parent}
	}
	answer := tidemark.Entry{Role: tidemark.Assistant, Model: "m", Usage: &tidemark.Usage{InputTokens: 1}, Blocks: []tidemark.Block{
		{Type: tidemark.BlockThinking, Text: "hm"}, tidemark.Text("reading"),
		{Type: tidemark.BlockToolUse, ID: "c1", Name: "read", Input: []byte(`{"a":1}`)}}}
	result := tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "c1",
		Blocks: []tidemark.Block{tidemark.Text("x"), {Type: tidemark.BlockImage, MediaType: "image/png", Data: []byte{1}}}}}}
	s := &convert.Session{Session: tidemark.Session{ForeignID: "ses_1", Title: "T"}, Head: "5", Entries: convert.All([]convert.Entry{
		say("1", convert.Root, tidemark.Say(tidemark.User, "do it")),
		say("2", "", answer), say("3", "", result),
		say("4", "", tidemark.Say(tidemark.User, "abandoned")),
		say("5", "3", tidemark.Say(tidemark.Assistant, "done")),
		say("6", "3", tidemark.Entry{Kind: "context", Blocks: []tidemark.Block{tidemark.Text("env")}}),
	})}
	dir := t.TempDir()
	lost, err := agsh.Tool().Export(t.Context(), folder(t, dir), s)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"user do it", `assistant [{"type":"text","text":"reading"},{"type":"tool_use","id":"c1","name":"read","input":{"a":1}}]`,
		`tool_results [{"type":"tool_result","tool_use_id":"c1","content":"x","is_error":false}]`, `assistant [{"type":"text","text":"done"}]`}
	rows := ask(t, filepath.Join(dir, "sessions.db"), "SELECT role || ' ' || content FROM messages ORDER BY id")
	if d := cmp.Diff(want, rows); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"1 entry of kind context", "1 image block", "1 message of another branch", "1 model of an answer",
		"1 thinking block", "1 title", "1 usage of an answer"}, lost); d != "" {
		t.Error(d)
	}
	if id := ask(t, filepath.Join(dir, "sessions.db"), "SELECT id FROM sessions")[0]; len(id) != 36 {
		t.Errorf("id %q: agsh wants a UUID", id)
	}
}

func TestOtherFilesAreNotTakenForAgsh(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("empty.db", "")
	write("text.db", "not a database, CREATE TABLE sessions")
	write("half.db", "SQLite format 3\x00CREATE TABLE sessions and then nothing")
	write("other.json", `{"format_version":1}`)
	write("half.json", `{"format_version":1,"meka_version":"0.41.0","sessions":[{`)
	run(t, filepath.Join(dir, "views.db"), "CREATE TABLE t (a)", "CREATE VIEW sessions AS SELECT 1 id, 2 created_at, 3 updated_at, 4 locked_by, 5 metadata",
		"CREATE VIEW messages AS SELECT 1 id, 2 session_id, 3 role, 4 content, 5 created_at")
	run(t, filepath.Join(dir, "columns.db"), "CREATE TABLE sessions (id, title)", "CREATE TABLE messages (id, session_id, role, parts)")
	for _, name := range []string{"empty.db", "text.db", "half.db", "other.json", "half.json", "views.db", "columns.db", "missing.db", "."} {
		p := place(t, dir, name)
		if name != "half.json" && agsh.Tool().Detect(t.Context(), p) {
			t.Errorf("%s is taken for agsh", name)
		}
		got := converttest.Read(t, agsh.Tool(), p)
		if len(got.Sessions) != 0 || len(got.Skips) == 0 {
			t.Errorf("%s: %d sessions, skips %q", name, len(got.Sessions), got.Skips)
		}
	}
}

func TestHostileRowsAreSkippedAndTheRestComesIn(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "meka.db")
	script(t, "meka.sql", db)
	run(t, db, "PRAGMA foreign_keys = OFF",
		"INSERT INTO sessions (id, created_at, updated_at, parent_session_id) VALUES ('a', 'x', 'y', 'b'), ('b', '', '', 'a'), ('c', '9999-01-01T00:00:00+00:00', '', 'gone'), ('', '', '', NULL)",
		"INSERT INTO messages (session_id, role, content, created_at) VALUES ('c', 'user', 'hi', 'never'), ('c', 'compact_boundary', '{}', ''), ('c', 'repair', '{\"Repair\":{\"replaced_count\":99,\"messages\":[]}}', ''), ('c', 'tool_results', '[1]', ''), ('c', 'user', x'6869', 5)",
		"INSERT INTO tool_outputs VALUES ('c', '../up', 'x', ''), ('c', '', 'x', '')")
	got := converttest.Read(t, agsh.Tool(), place(t, dir, "."))
	if len(got.Sessions) != 2 || len(got.Skips) != 5 {
		t.Errorf("%d sessions, %d skips: %q", len(got.Sessions), len(got.Skips), got.Skips)
	}
	c := got.Find("c")
	if d := cmp.Diff([]string{"1 <root user: text hi", "5 <root user: text hi"}, outline(c.Entries)); d != "" {
		t.Error(d)
	}
	if len(c.Files) != 0 || len(c.Lost) != 2 {
		t.Errorf("files %v, lost %q", c.Files, c.Lost)
	}
}
