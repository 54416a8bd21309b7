package opencode_test

import (
	"encoding/json"
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
	"github.com/tidemark-sessions/tidemark/convert/opencode"
)

// place opens a folder as the program does.
func place(t testing.TB, dir, path string) convert.Source {
	return converttest.Disk(t, dir, path, sqlite.OpenForeign)
}

// run makes statements in a database.
func run(t testing.TB, db string, statements ...string) {
	t.Helper()
	converttest.Exec(t, db, sqlite.OpenForeign, statements...)
}

// made is a home with a database from the statements in testdata.
func made(t testing.TB) (dir, db string) {
	t.Helper()
	dir = t.TempDir()
	db = filepath.Join(dir, ".local", "share", "opencode", "opencode.db")
	if err := os.MkdirAll(filepath.Dir(db), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("testdata/opencode.sql")
	if err != nil {
		t.Fatal(err)
	}
	run(t, db, strings.Split(string(b), ";\n")...)
	return dir, db
}

// outline is what was said, a line an entry.
func outline(entries []convert.Entry) (lines []string) {
	for _, e := range entries {
		line := e.ID + " " + e.Kind + string(e.Role) + ":"
		for _, b := range e.Blocks {
			line += " " + b.Type + " " + b.Text + b.Name
			for _, in := range b.Blocks {
				line += "[" + in.Type + " " + in.Text + in.Name + "]"
			}
		}
		if e.Usage != nil {
			line += fmt.Sprintf(" (%d in, %d out, $%g)", e.Usage.InputTokens, e.Usage.OutputTokens, e.Usage.CostUSD)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestADatabaseComesIn(t *testing.T) {
	dir, _ := made(t)
	p := place(t, dir, ".")
	if !opencode.Tool().Detect(t.Context(), p) {
		t.Error("it is not detected")
	}
	got := converttest.Read(t, opencode.Tool(), p)
	if len(got.Skips) != 0 || len(got.Sessions) != 4 {
		t.Fatalf("%d sessions, skips %q", len(got.Sessions), got.Skips)
	}
	s := got.Find("ses_main")
	want := []string{
		"msg_01 user: text count the birds image bird.png",
		"msg_01c context: text Called the Read tool",
		"msg_02 assistant: thinking hm text Counting. tool_use bash (10 in, 5 out, $0.5)",
		"msg_02r tool: tool_result twelve",
		"msg_03 assistant: tool_use task tool_use read tool_use edit (20 in, 3 out, $0)",
		"msg_03r tool: tool_result [text done <task id=\"ses_kid\">][image p.png] tool_result no such file",
		"msg_03e error: text MessageAbortedError: stopped",
		"msg_04 event:",
		"msg_05 compaction: text We counted birds. (7 in, 1 out, $0)",
		"msg_06 context: text Continue if you have next steps",
		"msg_07 interrupted:",
	}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	b := s.Entries[2].Blocks[0]
	if b.Provider != "anthropic" || b.Raw != `{"signature":"s=="}` {
		t.Errorf("a signature is kept as %q of %q, want it byte for byte", b.Raw, b.Provider)
	}
	if s.Project != "/home/ada/birds" || s.Title != "Birds" || s.Model != "m-1" || s.CreatedAt.IsZero() || s.UpdatedAt.IsZero() {
		t.Errorf("session = %+v", s.Session.Session)
	}
	if len(s.Workers) != 2 || s.Workers[0].Name != "ses_kid" || s.Workers[0].Call != "call_2" || s.Workers[1].Name != "ses_grandkid" {
		t.Errorf("workers = %+v, want the helper at its call, and its own", s.Workers)
	}
	if !strings.Contains(string(s.Extra), "feed them") || strings.Contains(string(s.Extra), "share.example") {
		t.Errorf("extra = %s, want the todo list and no address of a share", s.Extra)
	}
}

func TestWhatOpencodeChangesLaterIsNoNewMessage(t *testing.T) {
	dir, db := made(t)
	before := converttest.Read(t, opencode.Tool(), place(t, dir, "."))
	run(t, db, `UPDATE message SET data = json_set(data, '$.summary.title', 'Birds', '$.summary.diffs', json('[{"file":"a"}]')) WHERE id = 'msg_01'`,
		`UPDATE part SET data = json_set(data, '$.state.time.compacted', 9999) WHERE id = 'prt_0204'`,
		`UPDATE session SET time_updated = 9999`)
	after := converttest.Read(t, opencode.Tool(), place(t, dir, "."))
	if d := cmp.Diff(before.Find("ses_main").Entries, after.Find("ses_main").Entries); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(before.Find("ses_main").Workers, after.Find("ses_main").Workers); d != "" {
		t.Error(d)
	}
}

func TestAForkIsLinkedToItsSource(t *testing.T) {
	dir, _ := made(t)
	got := converttest.Read(t, opencode.Tool(), place(t, dir, "."))
	if s := got.Find("ses_fork1"); s.Copied != "ses_main" {
		t.Errorf("the fork is copied from %q", s.Copied)
	}
	if s := got.Find("ses_fork2"); s.Copied != "ses_fork1" {
		t.Errorf("the fork of the fork is copied from %q", s.Copied)
	}
	if s := got.Find("ses_orphan"); len(s.Tags) != 1 || s.Tags[0] != "archived" {
		t.Errorf("tags of a session that was put away: %q", s.Tags)
	}
	if s := got.Find("ses_orphan"); s.Copied != "" || len(s.Lost) != 1 {
		t.Errorf("a helper whose session is gone: copied from %q, lost %q", s.Copied, s.Lost)
	}
}

func TestAnUndoMovesTheHead(t *testing.T) {
	for revert, want := range map[string]string{
		`{"messageID":"msg_03"}`:                     "msg_02r",
		`{"messageID":"msg_03","partID":"prt_0302"}`: "msg_03",
		`{"messageID":"msg_nothing"}`:                "",
		`{"messageID":"msg_01"}`:                     "",
		`broken`:                                     "",
	} {
		dir, db := made(t)
		run(t, db, "UPDATE session SET revert = '"+revert+"' WHERE id = 'ses_main'")
		s := converttest.Read(t, opencode.Tool(), place(t, dir, ".")).Find("ses_main")
		if s.Head != want || len(s.Entries) != 11 {
			t.Errorf("revert %s: head %q, want %q; %d entries", revert, s.Head, want, len(s.Entries))
		}
	}
}

func TestTheNewestRowsAreInTheLogOfTheDatabase(t *testing.T) {
	dir, db := made(t)
	f, err := sqlite.OpenForeign(db, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, err := range f.Query(t.Context(), "PRAGMA journal_mode = WAL") {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Exec(t.Context(), `INSERT INTO session (id, directory, title, time_created, time_updated) VALUES ('ses_new', '/', 'New', 5000, 5000)`); err != nil {
		t.Fatal(err)
	}
	if s := converttest.Read(t, opencode.Tool(), place(t, dir, ".")).Find("ses_new"); s == nil {
		t.Error("a session that is only in the log did not come in")
	}
}

func TestTreesOfFilesComeIn(t *testing.T) {
	for path, want := range map[string][]string{
		"tree":                                   {"ses_a", "ses_b", "ses_old"},
		"tree/storage":                           {"ses_a", "ses_b"},
		"tree/storage/session/global/ses_a.json": {"ses_a"},
	} {
		p := place(t, "testdata", path)
		if !opencode.Tool().Detect(t.Context(), p) {
			t.Errorf("%s is not detected", path)
		}
		got := converttest.Read(t, opencode.Tool(), p)
		var ids []string
		for _, s := range got.Sessions {
			ids = append(ids, s.ForeignID)
		}
		if d := cmp.Diff(want, ids); d != "" || len(got.Skips) != 0 {
			t.Errorf("%s: %s, skips %q", path, d, got.Skips)
		}
	}
	got := converttest.Read(t, opencode.Tool(), place(t, "testdata", "tree"))
	want := []string{
		"msg_1 user: text say \"hi\" twice",
		"msg_2 assistant: text first tool_use bash (1 in, 2 out, $0.1)",
		"msg_2r tool: tool_result ok, see file",
		"msg_2.3 assistant: text second (3 in, 4 out, $0.2)",
	}
	a := got.Find("ses_a")
	if d := cmp.Diff(want, outline(a.Entries)); d != "" {
		t.Error(d)
	}
	if a.Project != "/home/ada/birds" {
		t.Errorf("project %q, want that of its project file", a.Project)
	}
	if d := cmp.Diff(map[string][]byte{"tool-output/tool_1": []byte("the whole output\n")}, a.Files); d != "" {
		t.Error(d)
	}
	if texts := converttest.Texts(got.Find("ses_old").Entries, tidemark.User); len(texts) != 1 || texts[0] != "of old" {
		t.Errorf("the oldest form: %q", texts)
	}
}

func TestASessionIsTheSameInFilesAndInTheDatabaseThatTookItOver(t *testing.T) {
	dir, db := made(t)
	object := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata/tree/storage", name))
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		for _, column := range []string{"id", "sessionID", "messageID"} {
			delete(v, column)
		}
		if b, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(b), "'", "''")
	}
	run(t, db, "INSERT INTO session (id, directory, title, time_created, time_updated) VALUES ('ses_a', '/home/ada/birds', 'A', 1000, 2000)")
	for i, id := range []string{"msg_1", "msg_2"} {
		run(t, db, fmt.Sprintf("INSERT INTO message VALUES ('%s', 'ses_a', %d, 1, '%s')", id, i+1, object("message/ses_a/"+id+".json")))
		names, _ := filepath.Glob("testdata/tree/storage/part/" + id + "/*.json")
		for _, name := range names {
			part := filepath.Base(name)
			run(t, db, fmt.Sprintf("INSERT INTO part VALUES ('%s', '%s', 'ses_a', 1, 1, '%s')", strings.TrimSuffix(part, ".json"),
				id, object("part/"+id+"/"+part)))
		}
	}
	a := converttest.Read(t, opencode.Tool(), place(t, "testdata", "tree")).Find("ses_a")
	b := converttest.Read(t, opencode.Tool(), place(t, dir, ".")).Find("ses_a")
	if d := cmp.Diff(a.Entries, b.Entries); d != "" {
		t.Error(d)
	}
}

func TestADatabaseWinsOverTheTreeThatItReplaced(t *testing.T) {
	dir, db := made(t)
	if err := os.CopyFS(filepath.Join(filepath.Dir(db), "storage"), os.DirFS("testdata/tree/storage")); err != nil {
		t.Fatal(err)
	}
	run(t, db, `INSERT INTO session (id, directory, title, time_created, time_updated) VALUES ('ses_a', '/db', 'of the database', 5000, 5000)`)
	got := converttest.Read(t, opencode.Tool(), place(t, dir, "."))
	if s := got.Find("ses_a"); s == nil || s.Project != "/db" {
		t.Errorf("ses_a = %+v", s)
	}
	if got.Find("ses_b") == nil {
		t.Error("what only the tree has did not come in")
	}
}

func TestBadThingsAreSkippedAndTheRestComesIn(t *testing.T) {
	dir, db := made(t)
	run(t, db,
		"INSERT INTO session (id, parent_id, directory, title, time_created, time_updated) VALUES ('ses_x', 'ses_y', '', '', 1, 1), ('ses_y', 'ses_x', '', '', 1, 1), ('../up', NULL, '', '', 1, 1), ('ses_far', NULL, '', '', 99999999999999999, -5)",
		"INSERT INTO message VALUES ('msg_a', 'ses_far', 1, 1, 'torn {'), ('msg_b', 'ses_far', 2, 1, '{\"role\":\"alien\"}'), ('msg_c', 'ses_far', 3, 1, '{\"role\":\"user\",\"time\":{\"created\":1e300}}')",
		"INSERT INTO part VALUES ('prt_a', 'msg_c', 'ses_far', 1, 1, 'torn'), ('prt_b', 'msg_c', 'ses_far', 1, 1, '{\"type\":\"text\",\"text\":\"still here\"}')")
	got := converttest.Read(t, opencode.Tool(), place(t, dir, "."))
	if len(got.Sessions) != 5 || len(got.Skips) != 6 {
		t.Errorf("%d sessions, %d skips: %q", len(got.Sessions), len(got.Skips), got.Skips)
	}
	if s := got.Find("ses_far"); len(s.Entries) != 1 || s.Entries[0].Text() != "still here" || !s.CreatedAt.IsZero() {
		t.Errorf("ses_far = %+v", s)
	}
}

func TestMessagesInALaterFormAreNotPassedOverInSilence(t *testing.T) {
	dir, db := made(t)
	run(t, db, "CREATE TABLE session_message (id text, session_id text, type text, seq integer, data text)",
		"INSERT INTO session_message VALUES ('m', 'ses_grandkid', 'user', 1, '{}'), ('n', 'ses_main', 'user', 1, '{}')")
	got := converttest.Read(t, opencode.Tool(), place(t, dir, "."))
	if len(got.Skips) != 1 || !strings.Contains(got.Skips[0], "ses_grandkid") {
		t.Errorf("skips = %q, want the session whose messages are only there", got.Skips)
	}
}

func TestOtherFilesAreNotTakenForOpencode(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("empty/opencode.db", "")
	write("text/opencode.db", "not a database")
	write("other.json", `{"info":{"id":"x"}}`)
	write("a.txt", "hello")
	run(t, filepath.Join(dir, "other.db"), "CREATE TABLE session (id)")
	for _, path := range []string{"empty", "text", "other.json", "a.txt", "other.db", "missing", "."} {
		p := place(t, dir, path)
		if opencode.Tool().Detect(t.Context(), p) {
			t.Errorf("%s is taken for opencode", path)
		}
		got := converttest.Read(t, opencode.Tool(), p)
		if len(got.Sessions) != 0 || len(got.Skips) == 0 {
			t.Errorf("%s: %d sessions, skips %q", path, len(got.Sessions), got.Skips)
		}
	}
}

func TestAnAnswerIsADraftUntilItIsCompleted(t *testing.T) {
	message := func(id, role, more string) string {
		return `{"info":{"id":"msg_` + id + `","sessionID":"ses_a","role":"` + role + `","time":{"created":1` + more + `}},"parts":[{"id":"prt_` + id + `","messageID":"msg_` + id + `","sessionID":"ses_a","type":"text","text":"` + id + `"}]}`
	}
	const completed = `,"completed":2`
	asks, answers, done := message("1", "user", ""), message("2", "assistant", ""), message("2", "assistant", completed)
	more, answered := message("3", "user", ""), message("4", "assistant", completed)
	for _, c := range []struct {
		messages []string
		drafts   []bool
	}{
		{[]string{asks}, []bool{true}}, // its parts come after it
		{[]string{asks, answers}, []bool{false, true}},
		{[]string{asks, done}, []bool{false, false}},
		{[]string{asks, answers, more}, []bool{false, true, true}}, // a prompt that waits
		{[]string{asks, answers, more, answered}, []bool{false, false, false, false}},
		{[]string{asks, more}, []bool{false, true}},
	} {
		doc := `{"info":{"id":"ses_a","slug":"a","projectID":"p","directory":"/home/ada/birds","title":"Birds","version":"1.18.33","time":{"created":1,"updated":2}},"messages":[` + strings.Join(c.messages, ",") + `]}`
		got := converttest.Read(t, opencode.Tool(), convert.Source{FS: fstest.MapFS{"a.json": {Data: []byte(doc)}}, Path: "a.json"})
		if len(got.Sessions) != 1 {
			t.Fatalf("%d sessions, skips %q", len(got.Sessions), got.Skips)
		}
		var drafts []bool
		for _, e := range got.Sessions[0].Entries {
			drafts = append(drafts, e.Draft)
		}
		if d := cmp.Diff(c.drafts, drafts); d != "" {
			t.Errorf("%s: %s", doc, d)
		}
	}
}
