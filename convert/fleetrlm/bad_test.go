package fleetrlm_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/fleetrlm"
)

const good = `{"state": {"history": [{"user_request": "hi", "assistant_response": "ho"}]}}`

func TestABadManifestIsSkippedAndTheRestComesIn(t *testing.T) {
	for name, body := range map[string]string{
		"zero bytes":           "",
		"blanks":               " \n ",
		"half a file":          good[:40],
		"no JSON":              "SQLite format 3",
		"a list":               `[{"user_request": "hi"}]`,
		"null":                 "null",
		"NaN as Python writes": `{"timestamp": NaN}`,
		"deep nesting":         `{"state": ` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + "}",
		"many parts":           `{"turns": [` + strings.Repeat("0,", 700_000) + "0]}",
		"many bytes":           `{"turns": "` + strings.Repeat("x", 33<<20) + `"}`,
	} {
		p := files(map[string]string{"meta/workspaces/w/users/u/react-session-bad.json": body, "meta/workspaces/w/users/u/react-session-good.json": good})
		got := read(t, p)
		if len(got.Sessions) != 1 || got.Sessions[0].ForeignID != "good" || len(got.Skips) != 1 || !strings.HasPrefix(got.Skips[0], "meta/workspaces/w/users/u/react-session-bad.json: ") {
			t.Errorf("%s: %d sessions, skipped %.200q", name, len(got.Sessions), got.Skips)
		}
	}
}

func TestOddTurnsComeBackAsTheyWere(t *testing.T) {
	for _, history := range []string{`7`, `"x"`, `{}`, `{"messages": 1}`, `[]`, `[1, null, "x", [], {}]`, `[{"user_request": 7, "assistant_response": "a"}]`,
		`[{"user_request": "", "assistant_response": ""}]`, `[{"user_request": "a"}, {"assistant_response": "b"}, {"assistant_response": "c"}]`,
		`[{"user_request": "a", "assistant_response": null}, {"user_message": "a", "response": "b"}]`,
		`[{"user_request": "a", "user_message": "b", "response": "c", "assistant_response": "d"}]`,
		`[{"user_request": "[summary of earlier conversation]", "assistant_response": ""}, {"assistant_response": "x"}]`,
		`[{"user_request": "\ud800", "assistant_response": "\u0000"}]`,
		`{"messages": [{"user_request": "a", "assistant_response": "b"}], "kind": "History"}`,
		`[{"user_request": "a", "assistant_response": "b"}, {"user_request": "a", "assistant_response": "b"}]`} {
		for _, body := range []string{`{"state": {"history": ` + history + `}}`, `{"schema_version": "1", "turns": ` + history + `}`, `{"state": {}, "turns": ` + history + `}`} {
			s := only(t, files(map[string]string{manifestOfTides: body}))
			out, lost := export(t, again(t, s))
			written, err := fs.ReadFile(out.FS, manifestOfTides)
			if err != nil {
				t.Fatal(err)
			}
			if d := sameJSON([]byte(body), written); d != "" || len(lost) > 0 {
				t.Errorf("%s: lost %q, %s", body, lost, d)
			}
		}
	}
}

func TestNamesOfAnotherWorldLeadNowhere(t *testing.T) {
	dir := t.TempDir()
	sidecar(t, dir, `INSERT INTO chat_sessions VALUES (8, 'x', 'ACTIVE', NULL, '../../../etc/passwd', '', '', '../../up', 0, 'no time', '9999999')`,
		`INSERT INTO chat_sessions VALUES (9, 'x', 'ACTIVE', NULL, '..', NULL, '/', '/', 0, NULL, NULL)`,
		`INSERT INTO chat_sessions VALUES (10, 'x', 'ACTIVE', NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL)`,
		`INSERT INTO chat_turns VALUES (99, 10, 0, x'ff00', 7, 'many', -1, 'x', 'never')`)
	got := read(t, place(t, dir, "."))
	if len(got.Sessions) != 5 {
		t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
	for _, s := range got.Sessions {
		out, _ := export(t, again(t, &s))
		if names, _ := fs.Glob(out.FS, "meta/workspaces/*/users/*/react-session-*.json"); len(names) != 1 {
			t.Errorf("%s: written %v", s.ForeignID, out.FS)
		}
	}
	for _, name := range []string{"..", "../x", "a/b", `a\b`, "a:b", "\x00", ".", " ", strings.Repeat("x", 400)} {
		s := &convert.Session{Entries: convert.All(nil)}
		s.ForeignID = name
		s.Extra = []byte(`{"fleet-rlm": {"workspace": "../..", "user": "/", "history": {"key": "rev", "keys": {}}, "manifest": {"a": 1}, "turns": -4}}`)
		out, _ := export(t, s)
		if names, _ := fs.Glob(out.FS, "meta/workspaces/*/users/*/react-session-*.json"); len(names) != 1 {
			t.Errorf("%q: written %v", name, out.FS)
		}
	}
}

func TestTwoOwnersOfOneIDAreTwoSessions(t *testing.T) {
	got := read(t, files(map[string]string{"meta/workspaces/w/users/ada/react-session-x.json": good, "meta/workspaces/w/users/bob/react-session-x.json": `{}`,
		"meta/workspaces/w/users/ada/react-session-default-session.json": good, "workspaces/w/users/ada/memory/react-session-x.json": `{"rev": 1}`,
		"workspaces/w/users/ada/react-session-y.json": `{}`, "workspaces/w/users/ada/memory/react-session-y.json": `{"rev": 2}`}))
	var ids []string
	for _, s := range got.Sessions {
		ids = append(ids, s.ForeignID)
	}
	if strings.Join(ids, " ") != "w/ada/default-session w/ada/x y w/bob/x" || len(got.Skips) != 1 {
		t.Errorf("ids %q, skipped %q", ids, got.Skips)
	}
	if s := got.Find("w/ada/x"); len(s.Entries) != 2 || len(s.Lost) != 1 {
		t.Errorf("entries %q, lost %q", outline(s.Entries), s.Lost)
	}
	out, _ := export(t, again(t, got.Find("w/bob/x")))
	if _, err := fs.Stat(out.FS, "meta/workspaces/w/users/bob/react-session-x.json"); err != nil {
		t.Error(err)
	}
}

func TestADatabaseThatIsNoneIsSkipped(t *testing.T) {
	for name, body := range map[string]string{"empty": "", "text": "hello", "only a beginning": convert.SQLiteMagic + "and no more", "cut": cutDatabase(t)} {
		dir := t.TempDir()
		file := filepath.Join(dir, "local.db")
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{".", "local.db"} {
			p := place(t, dir, path)
			if fleetrlm.Tool().Detect(t.Context(), p) && name != "cut" {
				t.Errorf("%s is taken for a sidecar", name)
			}
			if got := read(t, p); len(got.Skips) == 0 {
				t.Errorf("%s: %d sessions, and nothing was skipped", name, len(got.Sessions))
			}
		}
	}
	p := files(map[string]string{"local.db": convert.SQLiteMagic})
	if got := read(t, p); len(got.Skips) != 1 {
		t.Errorf("where there are no databases: skipped %q", got.Skips)
	}
}

// cutDatabase is the first half of a database with more in it than one page.
func cutDatabase(t *testing.T) string {
	dir := t.TempDir()
	sidecar(t, dir, `INSERT INTO chat_turns VALUES (99, 1, 9, hex(zeroblob(30000)), NULL, NULL, NULL, NULL, NULL)`)
	b, err := os.ReadFile(filepath.Join(dir, ".data/local.db"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:len(b)/2])
}

func TestFilesOfOtherToolsAreNotTaken(t *testing.T) {
	p := files(map[string]string{"session.json": `{"session_id": "x", "messages": [], "mode": "default", "message_count": 0}`, "state.json": `{"state": {"agents": {}}}`,
		"react-session-x.json": `{"messages": []}`, "empty.json": "", "list.json": "[]", "turns.json": `{"turns": []}`, "package.json": `{"state": "history"}`})
	for _, p.Path = range []string{"session.json", "state.json", "react-session-x.json", "empty.json", "list.json", "turns.json", "package.json", "not-there", "."} {
		if fleetrlm.Tool().Detect(t.Context(), p) {
			t.Errorf("%s is taken for a manifest", p.Path)
		}
	}
	for _, p.Path = range []string{"session.json", "state.json", "empty.json", "list.json", "not-there"} {
		if got := read(t, p); len(got.Sessions) > 0 || len(got.Skips) != 1 {
			t.Errorf("%s: %d sessions, skipped %q", p.Path, len(got.Sessions), got.Skips)
		}
	}
	p = files(map[string]string{"x": "y"})
	if got := read(t, p); len(got.Skips) != 1 {
		t.Errorf("a folder without sessions: skipped %q", got.Skips)
	}
}

// endless is a file of one line that does not end before a gigabyte.
type endless struct {
	fs.FS
	name string
	read *int64
}

func (e endless) Open(name string) (fs.File, error) {
	f, err := e.FS.Open(name)
	if err != nil || name != e.name {
		return f, err
	}
	return &line{File: f, left: 1 << 30, read: e.read}, nil
}

func (e endless) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(e.FS, name) }
func (e endless) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(e.FS, name) }

type line struct {
	fs.File
	left int64
	read *int64
}

func (l *line) Read(b []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), l.left)
	for i := range b[:n] {
		b[i] = '['
	}
	l.left -= n
	*l.read += n
	return int(n), nil
}

func TestAGigabyteInOneLineIsNotHeld(t *testing.T) {
	for _, name := range []string{"meta/workspaces/w/users/u/react-session-x.json", "memory/large.bin"} {
		var n int64
		p := files(map[string]string{"meta/workspaces/w/users/u/react-session-x.json": good, "memory/large.bin": "x"})
		p.FS = endless{p.FS, name, &n}
		got := read(t, p)
		told := len(got.Skips)
		for _, s := range got.Sessions {
			told += len(s.Lost)
		}
		if told != 1 || n > 40<<20 {
			t.Errorf("%s: %d bytes were read, skipped %q", name, n, got.Skips)
		}
	}
}

func TestManyFilesAreBounded(t *testing.T) {
	fsys := fstest.MapFS{manifestOfTides: {Data: []byte(good)}, "memory/odd\nname": {Data: []byte("x")}}
	large := make([]byte, 31<<20)
	for _, name := range strings.Fields("a b c d e f g h i j") {
		fsys["artifacts/"+name] = &fstest.MapFile{Data: large}
	}
	s := only(t, convert.Source{FS: fsys, Path: "."})
	if len(s.Files) != 8 || len(s.Lost) != 3 {
		t.Errorf("%d files, lost %q", len(s.Files), s.Lost)
	}
}

func TestAFolderWithoutRightsIsSkipped(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("everything may be read here")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/volume")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"meta/workspaces/lab/users/eve", "memory/secret"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(filepath.Join(dir, name), 0o700) })
	}
	got := read(t, place(t, dir, "."))
	if len(got.Sessions) != 1 || len(got.Skips) != 1 || len(got.Sessions[0].Lost) != 2 {
		t.Errorf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
}

func TestAnImportThatIsStoppedEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	n := 0
	for s, err := range fleetrlm.Tool().Import(ctx, place(t, "testdata/volume", ".")) {
		if n++; s != nil || err == nil || convert.IsSkip(err) {
			t.Errorf("yields %v, %v", s, err)
		}
	}
	if n != 1 {
		t.Errorf("yields %d times", n)
	}
}

func TestADamagedEntryIsTold(t *testing.T) {
	s := &convert.Session{}
	s.Entries = func(yield func(convert.Entry, error) bool) {
		_ = yield(convert.Entry{}, convert.Skipf("entry 1", "damaged")) && yield(convert.Entry{Entry: tidemark.Entry{Kind: "strange", At: time.Now()}, ID: "2"}, nil)
	}
	if _, lost := export(t, s); strings.Join(lost, ", ") != "damaged entries, entries of kind strange" {
		t.Errorf("lost %q", lost)
	}
	s.Entries = func(yield func(convert.Entry, error) bool) { yield(convert.Entry{}, io.ErrUnexpectedEOF) }
	if _, err := fleetrlm.Tool().Export(t.Context(), converttest.NewOut(), s); err == nil {
		t.Error("an export of what cannot be read goes well")
	}
}
