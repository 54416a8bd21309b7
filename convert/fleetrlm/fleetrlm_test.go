package fleetrlm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/fleetrlm"
	"github.com/tidemark-sessions/tidemark/store"
)

// place opens a folder as the program does: databases are copied first.
func place(t testing.TB, dir, path string) convert.Source {
	fsys := os.DirFS(dir)
	return convert.Source{FS: fsys, Path: path, SQL: func(_ context.Context, name string) (convert.Database, error) {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		copied := filepath.Join(t.TempDir(), "copy.db")
		if err := os.WriteFile(copied, b, 0o600); err != nil {
			return nil, err
		}
		db, err := sqlite.OpenForeign(copied, true)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { db.Close() })
		return db, nil
	}}
}

// sidecar makes the database of testdata in a folder, with more statements.
func sidecar(t testing.TB, dir string, more ...string) {
	t.Helper()
	b, err := os.ReadFile("testdata/sidecar.sql")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ".data"), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.OpenForeign(filepath.Join(dir, ".data", "local.db"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range append(strings.Split(string(b), ";\n"), more...) {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if err := db.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// files is a volume in memory.
func files(all map[string]string) convert.Source {
	fsys := fstest.MapFS{}
	for name, text := range all {
		fsys[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o600}
	}
	return convert.Source{FS: fsys, Path: "."}
}

func read(t testing.TB, p convert.Source) converttest.Taken {
	t.Helper()
	return converttest.Read(t, fleetrlm.Tool(), p)
}

// only returns the one session of a place, with nothing passed over.
func only(t testing.TB, p convert.Source) *converttest.Session {
	t.Helper()
	got := read(t, p)
	if len(got.Sessions) != 1 || len(got.Skips) > 0 {
		t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
	return &got.Sessions[0]
}

func checkpoint(t testing.TB, s *converttest.Session) store.Checkpoint {
	t.Helper()
	var c store.Checkpoint
	if err := json.Unmarshal(s.Checkpoint, &c); err != nil {
		t.Fatalf("checkpoint: %v", err)
	}
	return c
}

// imported is when a session came in.
var imported = time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC)

// again returns a session to be exported as it comes out of a store: encoded
// and decoded, with the defaults that it was given there.
func again(t testing.TB, s *converttest.Session) *convert.Session {
	t.Helper()
	c := *s.Session
	var entries []convert.Entry
	for i, e := range s.Entries {
		l, err := e.Line()
		if err == nil {
			l.Seq = int64(i + 1)
			e.Entry, err = tidemark.EntryOf(l)
		}
		if err != nil {
			t.Fatal(err)
		}
		if texts := converttest.Texts(s.Entries[:i+1], tidemark.User); c.Title == "" && len(texts) > 0 {
			c.Title = texts[0]
		}
		if e.At.IsZero() {
			e.At = imported
		}
		entries = append(entries, e)
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt, c.UpdatedAt = imported, imported
	}
	c.Entries, c.Agent, c.Mode = convert.All(entries), "fleet-rlm", tidemark.ModeLocal
	kept, err := json.Marshal(checkpoint(t, s))
	if err != nil {
		t.Fatal(err)
	}
	extra, err := json.Marshal(c.Extra)
	if err != nil {
		t.Fatal(err)
	}
	c.Checkpoint, c.Extra = kept, extra
	return &c
}

func export(t testing.TB, s *convert.Session) (convert.Source, []string) {
	t.Helper()
	out := converttest.NewOut()
	lost, err := fleetrlm.Tool().Export(t.Context(), out, s)
	if err != nil {
		t.Fatalf("export: %v", err)
	}
	return out.Source(), lost
}

func outline(entries []convert.Entry) (lines []string) {
	for _, e := range entries {
		lines = append(lines, fmt.Sprintf("%s%s %s: %s", strings.TrimPrefix(e.Kind, "message"), e.Role, e.At.Format("15:04:05.999999"), e.Text()))
	}
	return lines
}

// sameJSON tells how two texts differ as JSON.
func sameJSON(a, b []byte) string {
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		return err.Error()
	}
	return cmp.Diff(x, y)
}

// plain is a session without what is kept to write it again.
func plain(s *converttest.Session) (string, []convert.Entry) {
	c := *s.Session
	c.Entries, c.Extra, c.Checkpoint, c.Lost, c.Files = nil, nil, nil, nil, nil
	return fmt.Sprintf("%+v", c), s.Entries
}

const manifestOfTides = "meta/workspaces/lab/users/ada/react-session-tides.json"

func TestADocumentedVolumeComesInWhole(t *testing.T) {
	p := place(t, "testdata/volume", ".")
	if !fleetrlm.Tool().Detect(t.Context(), p) {
		t.Error("the volume is not detected")
	}
	s := only(t, p)
	if s.ForeignID != "tides" || s.Remote != "https://example.org/tides.git" || !s.UpdatedAt.Equal(time.Date(2026, 4, 2, 9, 5, 1, 0, time.UTC)) || !s.CreatedAt.Equal(time.Date(2026, 4, 2, 9, 0, 0, 0, time.UTC)) {
		t.Errorf("session %+v", s.Session)
	}
	want := []string{"user 09:00:00: When is high water?", "assistant 09:00:00: At 06:12 <local>.", "user 09:05:00.25: And tomorrow?", "assistant 09:05:00.25: At 07:01. 🌊"}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	if !strings.Contains(string(s.Entries[0].Extra), "tool_name_0") {
		t.Errorf("a field of a turn that is not known is gone: %s", s.Entries[0].Extra)
	}
	if s.Entries[2].Extra != nil {
		t.Errorf("a plain turn has %s", s.Entries[2].Extra)
	}
	c := checkpoint(t, s)
	if d := cmp.Diff(map[string]string{"persona": "A pilot.", "scratchpad": ""}, c.CoreMemory); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"/docs/almanac.pdf"}, c.DocumentPaths); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(store.Interpreter{SandboxID: "sbx-9", WorkspacePath: "/home/daytona/workspace", RepoURL: "https://example.org/tides.git",
		RepoRef: "main", ContextPaths: []string{"/docs"}, VolumeName: "tides", VolumeSubpath: "lab"}, c.Interpreter); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string][]byte{"memory/notes.md": []byte("high water comes later each day\n"), "artifacts/reports/tides.md": []byte("# Tides\n"),
		"buffers/raw.bin": {0, 1, 255}, "meta/index.json": []byte(`{"index": 1}`)}, s.Files); d != "" {
		t.Error(d)
	}
}

func TestEveryShapeIsWrittenAsItWas(t *testing.T) {
	real := "meta/workspaces/8716ee82c610619019da3d50c7a2a091fcdd0ef011e157fd875b04bbd503c218/users/lab/react-session-tides.json"
	for _, test := range []struct{ name, dir, path, source, written string }{
		{"documented", "testdata/volume", ".", manifestOfTides, manifestOfTides},
		{"really written", "testdata/real", ".", real, real},
		{"legacy", "testdata/legacy", ".", "workspaces/lab/users/ada/memory/react-session-old.json", "meta/workspaces/lab/users/ada/react-session-old.json"},
		{"exported alone", "testdata", "flat.json", "flat.json", "meta/workspaces/default/users/default/react-session-tides.json"},
		{"one manifest of a volume", "testdata/volume", manifestOfTides, manifestOfTides, manifestOfTides},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := place(t, test.dir, test.path)
			if !fleetrlm.Tool().Detect(t.Context(), p) {
				t.Error("is not detected")
			}
			first := only(t, p)
			if first.Checkpoint == nil {
				t.Error("there is no checkpoint: what was there before would stay")
			}
			if (first.Files != nil) != (test.path == ".") {
				t.Errorf("files %v", first.Files)
			}
			out, lost := export(t, again(t, first))
			if len(lost) > 0 {
				t.Errorf("lost: %q", lost)
			}
			source, err := fs.ReadFile(p.FS, test.source)
			if err != nil {
				t.Fatal(err)
			}
			written, err := fs.ReadFile(out.FS, test.written)
			if err != nil {
				t.Fatal(err)
			}
			if d := sameJSON(source, written); d != "" {
				t.Errorf("the manifest is not what it was:\n%s", d)
			}
			second := only(t, out)
			a, said := plain(first)
			b, saidAgain := plain(second)
			if d := cmp.Diff(a, b) + cmp.Diff(said, saidAgain) + sameJSON(first.Checkpoint, second.Checkpoint); d != "" {
				t.Errorf("import, export, import is not equal:\n%s", d)
			}
			if d := cmp.Diff(first.Files, second.Files); d != "" && test.path == "." {
				t.Error(d)
			}
		})
	}
}

func TestAPartOfAVolumeSaysNothingAboutItsFiles(t *testing.T) {
	for _, dir := range []string{"testdata/volume/meta", "testdata/volume/meta/workspaces/lab/users/ada"} {
		p := place(t, dir, ".")
		if s := only(t, p); s.ForeignID != "tides" || s.Files != nil || !fleetrlm.Tool().Detect(t.Context(), p) {
			t.Errorf("%s: session %s, files %v", dir, s.ForeignID, s.Files)
		}
	}
	if s := only(t, files(map[string]string{"memory/" + manifestOfTides: good, "memory/memory/a.md": "x"})); len(s.Files) != 1 {
		t.Errorf("the home of a sandbox: files %v", s.Files)
	}
}

func TestTheShortenedHistoryOfAManifestHasItsSummary(t *testing.T) {
	s := only(t, place(t, "testdata/real", "."))
	want := []string{"compaction 09:00:00: Earlier conversation summary:\nUser: Hello", "user 09:00:00: When is high water?", "assistant 09:00:00: At 06:12."}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	c := checkpoint(t, s)
	if c.Interpreter.SandboxID != "sbx-1" || !slices.Equal(c.DocumentPaths, []string{"/docs/a.md"}) {
		t.Errorf("checkpoint %+v", c)
	}
}

func TestATitleThatSomebodyGaveComesBack(t *testing.T) {
	s := only(t, place(t, "testdata", "flat.json"))
	for title, want := range map[string]string{"When": "When", "When is high water?": "", "When is hi…": "", "": ""} {
		x := again(t, s)
		x.Title = title
		out, _ := export(t, x)
		if back := only(t, out); back.Title != want {
			t.Errorf("title %q came back as %q", title, back.Title)
		}
	}
}

func TestAStateAloneIsAManifest(t *testing.T) {
	const state = `{"history": [{"user_request": "a", "assistant_response": "b"}], "documents": {}, "document_access_order": [], "active_alias": null, "core_memory": {"human": "Ada"}, "daytona": {"sandbox_id": "s"}}`
	for name, body := range map[string]string{"my backup.json": state, "x.json": `{"state": ` + state + `}`} {
		p := files(map[string]string{name: body})
		p.Path = name
		s := only(t, p)
		if c := checkpoint(t, s); !fleetrlm.Tool().Detect(t.Context(), p) || len(s.Entries) != 2 || c.CoreMemory["human"] != "Ada" || c.Interpreter.SandboxID != "s" {
			t.Errorf("%s: %+v, %q", name, c, outline(s.Entries))
		}
		out, _ := export(t, again(t, s))
		if d := sameJSON([]byte(body), manifestAt(t, out)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestWhatAManifestDoesNotMentionIsEmptyAfterwards(t *testing.T) {
	for _, body := range []string{`{}`, `{"rev": 7}`, `{"state": {}}`, `{"state": null}`, `{"state": {"core_memory": null, "daytona": []}}`, `{"turns": []}`} {
		s := only(t, files(map[string]string{manifestOfTides: body}))
		c := checkpoint(t, s)
		if len(c.CoreMemory)+len(c.DocumentPaths) > 0 || !cmp.Equal(c.Interpreter, store.Interpreter{}) || s.Files == nil || len(s.Files) > 0 || len(s.Entries) > 0 {
			t.Errorf("%s: %+v with files %v", body, c, s.Files)
		}
		out, _ := export(t, again(t, s))
		written, err := fs.ReadFile(out.FS, manifestOfTides)
		if err != nil {
			t.Fatal(err)
		}
		if d := sameJSON([]byte(body), written); d != "" {
			t.Errorf("%s: %s", body, d)
		}
	}
}

func TestAnEntryHasTheSameIDWhereTheHistoryWasCut(t *testing.T) {
	long := only(t, files(map[string]string{manifestOfTides: `{"turns": [{"user_message": "a", "response": "b"}, {"user_message": "c", "response": "d"}, {"user_message": "c", "response": "e"}]}`}))
	short := only(t, files(map[string]string{manifestOfTides: `{"state": {"history": [{"user_request": "c", "assistant_response": "d"}, {"user_request": "c", "assistant_response": "e"}]}}`}))
	if d := cmp.Diff(long.Entries[2:], short.Entries); d != "" {
		t.Error(d)
	}
}

func TestTheSidecarComesInAndOut(t *testing.T) {
	dir := t.TempDir()
	sidecar(t, dir)
	for _, path := range []string{".", ".data", ".data/local.db"} {
		p := place(t, dir, path)
		if !fleetrlm.Tool().Detect(t.Context(), p) {
			t.Errorf("%s is not detected", path)
		}
		got := read(t, p)
		if len(got.Sessions) != 2 || len(got.Skips) > 0 {
			t.Fatalf("%s: %d sessions, skipped %q", path, len(got.Sessions), got.Skips)
		}
	}
	got := read(t, place(t, dir, "."))
	tides, wrecks := got.Find("tides"), got.Find("wrecks")
	if tides.Title != "Tide tables" || tides.Model != "small-model" || tides.Checkpoint == nil || wrecks.Title != "" || !slices.Equal(wrecks.Tags, []string{"archived"}) {
		t.Errorf("sessions %+v, %+v", tides.Session, wrecks.Session)
	}
	want := []string{"user 08:59:00.000001: Hello", "assistant 08:59:00.000001: Good morning.", "user 09:00:00.000002: When is high water?",
		"assistant 09:00:00.000002: At 06:12.", "user 09:05:00.000003: Thanks"}
	if d := cmp.Diff(want, outline(tides.Entries)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&tidemark.Usage{InputTokens: 120, OutputTokens: 9}, tides.Entries[3].Usage); d != "" {
		t.Error(d)
	}
	for _, s := range got.Sessions {
		out, lost := export(t, again(t, &s))
		if len(lost) > 0 {
			t.Errorf("%s: lost %q", s.ForeignID, lost)
		}
		second := only(t, out)
		a, said := plain(&s)
		b, saidAgain := plain(second)
		if d := cmp.Diff(a, b) + cmp.Diff(said, saidAgain); d != "" {
			t.Errorf("%s: import, export, import is not equal:\n%s", s.ForeignID, d)
		}
		third, _ := export(t, again(t, second))
		if d := cmp.Diff(out.FS, third.FS); d != "" {
			t.Errorf("%s: a second export differs:\n%s", s.ForeignID, d)
		}
	}
}

func TestASessionInVolumeAndSidecarIsOne(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/real")); err != nil {
		t.Fatal(err)
	}
	sidecar(t, dir)
	got := read(t, place(t, dir, "."))
	if len(got.Sessions) != 2 || len(got.Skips) > 0 {
		t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
	s := got.Find("tides")
	want := []string{"user 08:59:00.000001: Hello", "assistant 08:59:00.000001: Good morning.",
		"compaction 08:59:00.000001: Earlier conversation summary:\nUser: Hello", "user 09:00:00: When is high water?", "assistant 09:00:00: At 06:12.",
		"user 09:05:00.000003: Thanks"}
	if d := cmp.Diff(want, outline(s.Entries)); d != "" {
		t.Error(d)
	}
	if s.Title != "Tide tables" || s.Entries[4].Usage.InputTokens != 120 || checkpoint(t, s).Interpreter.SandboxID != "sbx-1" {
		t.Errorf("session %+v", s.Session)
	}
}

func TestRowsThatDoNotFitTheManifestAreABranch(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/real")); err != nil {
		t.Fatal(err)
	}
	sidecar(t, dir, "UPDATE chat_turns SET user_message = 'Something else' WHERE session_id = 1")
	s := read(t, place(t, dir, ".")).Find("tides")
	if s.Head != s.Entries[2].ID || s.Entries[3].Parent != convert.Root || len(s.Entries) != 8 {
		t.Errorf("head %s in %q", s.Head, outline(s.Entries))
	}
	_, lost := export(t, again(t, s))
	if d := cmp.Diff([]string{"entries of other branches (5)"}, lost); d != "" {
		t.Error(d)
	}
}

func TestFilesBelongToTheirOwner(t *testing.T) {
	manifest := func(w, u, id string) string {
		return "meta/workspaces/" + w + "/users/" + u + "/react-session-" + id + ".json"
	}
	names := func(s *converttest.Session) (all []string) {
		for name := range s.Files {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	one := read(t, files(map[string]string{manifest("w", "ada", "a"): `{}`, manifest("w", "ada", "b"): `{}`,
		"memory/all.md": "x", "buffers/b/part.bin": "x", "artifacts/a.json": "x"}))
	if d := cmp.Diff([]string{"artifacts/a.json", "memory/all.md"}, names(one.Find("a"))) + cmp.Diff([]string{"buffers/b/part.bin", "memory/all.md"}, names(one.Find("b"))); d != "" {
		t.Error(d)
	}
	two := read(t, files(map[string]string{manifest("w", "ada", "a"): `{}`, manifest("w", "bob", "a"): `{}`, manifest("w", "bob", "c"): `{}`,
		"memory/all.md": "x", "buffers/a/x": "x", "buffers/c/x": "x", "memory/workspaces/w/users/bob/n.md": "x"}))
	if d := cmp.Diff([]string(nil), names(two.Find("w/ada/a"))) + cmp.Diff([]string{"memory/workspaces/w/users/bob/n.md"}, names(two.Find("w/bob/a"))) +
		cmp.Diff([]string{"buffers/c/x", "memory/workspaces/w/users/bob/n.md"}, names(two.Find("c"))); d != "" {
		t.Error(d)
	}
	if len(two.Skips) != 1 || !strings.Contains(two.Skips[0], "2 files") {
		t.Errorf("skipped %q", two.Skips)
	}
}

func TestLinksOnAVolumeAreNotFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/volume")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(elsewhere, "react-session-x.json"), []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, "meta/workspaces/lab/users")
	for from, to := range map[string]string{filepath.Join(users, "eve"): elsewhere, filepath.Join(users, "ada/react-session-x.json"): filepath.Join(elsewhere, "react-session-x.json"),
		filepath.Join(dir, "memory/link.md"): filepath.Join(elsewhere, "react-session-x.json"), filepath.Join(dir, "buffers/dir"): elsewhere} {
		if err := os.Symlink(to, from); err != nil {
			t.Skip(err)
		}
	}
	got := read(t, place(t, dir, "."))
	if len(got.Sessions) != 1 || len(got.Skips) != 1 || !strings.Contains(got.Skips[0], "react-session-x.json") {
		t.Fatalf("%d sessions, skipped %q", len(got.Sessions), got.Skips)
	}
	if s := got.Sessions[0]; len(s.Files) != 4 || len(s.Lost) != 4 {
		t.Errorf("files %d, lost %q", len(s.Files), s.Lost)
	}
}

func TestASessionOfAnotherToolIsWrittenInTheDocumentedShape(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 1000, time.UTC)
	s := &convert.Session{UpdatedAt: at.Add(time.Hour), Workers: []convert.Worker{{Name: "w"}}, Labels: map[string]string{"1": "x"},
		Files:      map[string][]byte{"memory/a.md": []byte("a"), "tool_outputs/b": nil, "meta/workspaces/x/users/y/react-session-z.json": nil, "memory/../b": nil},
		Checkpoint: json.RawMessage(`{"saved_at":"2026-05-01T12:00:00Z","approvals":[{"tool":"bash"}],"limits":{},"core_memory":{"human":"Ada","persona":""},"document_paths":["/d"],"interpreter_state":{"repo_url":"r","context_paths":["/c"]}}`)}
	s.Session = tidemark.Session{ID: "7f3a0c1e-0000-4000-8000-000000000000", Title: "A fix", Model: "m", Project: "/home/ada/x", CreatedAt: at, Tags: []string{"t"}}
	user, answer := tidemark.Say(tidemark.User, "fix it"), tidemark.Say(tidemark.Assistant, "looking")
	user.At, answer.At, answer.Usage = at, at.Add(time.Second), &tidemark.Usage{OutputTokens: 3}
	answer.Blocks = append(answer.Blocks, tidemark.Block{Type: tidemark.BlockToolUse, ID: "c", Name: "bash"})
	result := tidemark.Entry{Kind: "message", Role: tidemark.Tool, At: at, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "c"}}}
	done := tidemark.Say(tidemark.Assistant, "done")
	done.At, done.Usage = at.Add(2*time.Second), &tidemark.Usage{OutputTokens: 4}
	s.Entries = convert.All([]convert.Entry{{Entry: user, ID: "1"}, {Entry: answer, ID: "2"}, {Entry: result, ID: "3"}, {Entry: done, ID: "4"}, {Entry: done, ID: "5", Parent: "2"}})
	s.Head = "4"
	out, lost := export(t, s)
	want := []string{"calls of tools", "entries of other branches", "files outside of memory, artifacts, buffers, meta (3)", "labels", "of the checkpoint: approvals", "results of tools", "workers"}
	if d := cmp.Diff(want, lost); d != "" {
		t.Error(d)
	}
	b, err := fs.ReadFile(out.FS, "meta/workspaces/default/users/default/react-session-7f3a0c1e-0000-4000-8000-000000000000.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		State json.RawMessage `json:"state"`
	}
	if err := json.Unmarshal(b, &manifest); err != nil {
		t.Fatal(err)
	}
	interpreter := `{"repo_url":"r","context_paths":["/c"]`
	if d := sameJSON([]byte(`{"history":[{"user_request":"fix it","assistant_response":"looking\n\ndone"}],"core_memory":{"human":"Ada"},"document_paths":["/d"],
		"interpreter_state":`+interpreter+`},"daytona":`+interpreter+`,"loaded_document_paths":["/d"]}}`), manifest.State); d != "" {
		t.Error(d)
	}
	back := only(t, out)
	if d := cmp.Diff([]string{"user 12:00:00.000001: fix it", "assistant 12:00:02.000001: looking\n\ndone"}, outline(back.Entries)); d != "" {
		t.Error(d)
	}
	if back.Title != "A fix" || back.Model != "m" || back.Project != "/home/ada/x" || !slices.Equal(back.Tags, s.Tags) || back.Entries[1].Usage.OutputTokens != 7 ||
		!back.CreatedAt.Equal(s.CreatedAt) || !back.UpdatedAt.Equal(s.UpdatedAt) || len(back.Files) != 1 {
		t.Errorf("back: %+v", back.Session)
	}
}

func TestWhatChangedHereIsWrittenWhereItWas(t *testing.T) {
	for _, test := range []struct{ dir, path string }{{"testdata/volume", "."}, {"testdata/real", "."}, {"testdata", "flat.json"}, {"testdata/legacy", "."}} {
		s := only(t, place(t, test.dir, test.path))
		c := checkpoint(t, s)
		c.CoreMemory = map[string]string{"persona": "changed", "new": "n", "scratchpad": "s"}
		c.DocumentPaths = []string{"/new.md"}
		c.Interpreter = store.Interpreter{SandboxID: "sbx-new", ContextPaths: []string{"/new"}}
		x := again(t, s)
		var err error
		if x.Checkpoint, err = json.Marshal(c); err != nil {
			t.Fatal(err)
		}
		e := tidemark.Say(tidemark.User, "one more")
		e.At = time.Date(2026, 6, 1, 0, 0, 0, 5000, time.UTC)
		x.Entries, x.Head = convert.All(append(s.Entries, convert.Entry{Entry: e, ID: "9"})), ""
		out, _ := export(t, x)
		back := only(t, out)
		got := checkpoint(t, back)
		if d := cmp.Diff(c.CoreMemory, got.CoreMemory) + cmp.Diff(c.DocumentPaths, got.DocumentPaths) + cmp.Diff(c.Interpreter, got.Interpreter); d != "" {
			t.Errorf("%s: %s", test.dir, d)
		}
		if last := back.Entries[len(back.Entries)-1]; last.Text() != "one more" || !last.At.Equal(e.At) || !back.UpdatedAt.Equal(e.At) {
			t.Errorf("%s: %q, updated %s", test.dir, outline(back.Entries), back.UpdatedAt)
		}
	}
}
