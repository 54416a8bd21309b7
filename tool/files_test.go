package tool

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/tidemark-sessions/tidemark"
)

// shelf is a durable storage in memory.
type shelf struct {
	mu    sync.Mutex
	files map[string][]byte
	fail  error
}

func newShelf(files map[string]string) *shelf {
	s := &shelf{files: make(map[string][]byte)}
	for k, v := range files {
		s.files[k] = []byte(v)
	}
	return s
}

func (s *shelf) ReadFile(_ context.Context, name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.files[name]
	if !ok && s.fail == nil {
		return nil, tidemark.NotFoundf("file %s", name)
	}
	return data, s.fail
}

func (s *shelf) WriteFile(_ context.Context, name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.files[name] = data
	}
	return s.fail
}

func (s *shelf) List(_ context.Context, prefix string) (names []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.files {
		if strings.HasPrefix(n, prefix) {
			names = append(names, n)
		}
	}
	return names, s.fail
}

// fileBox returns a box whose workspace has files.
func fileBox(t *testing.T, files map[string]string, o Options) *Box {
	t.Helper()
	b := newBox(t, o)
	for name, content := range files {
		put(t, filepath.Join(b.o.Root, name), content)
	}
	return b
}

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func contentOf(t *testing.T, b *Box, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(b.o.Root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func wantError(t *testing.T, res Result, parts ...string) {
	t.Helper()
	if !res.IsError {
		t.Errorf("no error: %+v", res)
	}
	wantHas(t, res, parts...)
}

func TestReadShowsNumberedLines(t *testing.T) {
	long := strings.Repeat("é", 3000)
	b := fileBox(t, map[string]string{"a.txt": "one\r\ntwo\nthree", "long": long + "\nnext\n", "empty": "", "latin": "caf\xe9\n"}, Options{})
	wantText(t, call(t, b, "read", m{"path": "a.txt"}), "     1\tone\n     2\ttwo\n     3\tthree\n")
	res := call(t, b, "read", m{"path": "a.txt", "offset": 2, "limit": 1})
	wantText(t, res, "     2\ttwo\n[there is more: go on with offset 3]\n")
	if !res.Truncated {
		t.Error("not marked as truncated")
	}
	wantText(t, call(t, b, "read", m{"path": filepath.Join(b.o.Root, "a.txt"), "offset": 3}), "     3\tthree\n")
	wantError(t, call(t, b, "read", m{"path": "a.txt", "offset": 9}), "only 3 lines")
	wantText(t, call(t, b, "read", m{"path": "long"}), "     1\t"+long[:2000]+" [… 4000 bytes more]\n     2\tnext\n")
	wantText(t, call(t, b, "read", m{"path": "empty"}), "(empty is empty)")
	wantText(t, call(t, b, "read", m{"path": "latin"}), "     1\tcaf\uFFFD\n")
}

func TestReadOfALargeFileIsBoundedAndGoesOn(t *testing.T) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "line %d\n", i+1)
	}
	b := fileBox(t, map[string]string{"big": text.String()}, Options{OutputBytes: 1000})
	offset, lines := 1, 0
	for range 1000 {
		res := call(t, b, "read", m{"path": "big", "offset": offset})
		if len(res.Text) > 1100 {
			t.Fatalf("%d bytes", len(res.Text))
		}
		lines += strings.Count(res.Text, "\tline ")
		if !res.Truncated {
			break
		}
		if _, err := fmt.Sscanf(res.Text[strings.LastIndex(res.Text, "offset"):], "offset %d", &offset); err != nil {
			t.Fatal(err)
		}
	}
	if lines != 10_000 {
		t.Errorf("%d lines were shown, want 10000", lines)
	}
}

func TestReadRefusesBinariesAndShowsImages(t *testing.T) {
	var img bytes.Buffer
	if err := png.Encode(&img, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	b := fileBox(t, map[string]string{"pic": img.String(), "prog": "\x7fELF\x00\x01", "dir/x": ""}, Options{})
	res := call(t, b, "read", m{"path": "pic"})
	want := []tidemark.Block{{Type: tidemark.BlockImage, MediaType: "image/png", Data: img.Bytes()}}
	if diff := cmp.Diff(want, res.Blocks); diff != "" || res.IsError {
		t.Errorf("%+v\n%s", res, diff)
	}
	wantError(t, call(t, b, "read", m{"path": "prog"}), "binary", "6 bytes")
	wantError(t, call(t, b, "read", m{"path": "dir"}), "folder", "ls")
	wantError(t, call(t, b, "read", m{"path": "nothing"}), "there is no nothing in the workspace")
}

func TestPathsOutsideAreAskedFor(t *testing.T) {
	out := t.TempDir()
	real, err := filepath.EvalSymlinks(out)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(out, "f"), "outside\n")
	b := fileBox(t, map[string]string{"in": "inside\n"}, Options{Files: newShelf(nil)})
	up, err := filepath.Rel(b.o.Root, filepath.Join(out, "f"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool, path, scope string
		ask               bool
	}{
		{"read", "in", "", false},
		{"read", filepath.Join(b.o.Root, "in"), "", false},
		{"read", "sub/../in", "", false},
		{"read", "session:memory/x", "", false},
		{"read", filepath.Join(out, "f"), real, true},
		{"read", up, real, true},
		{"ls", out, real, true},
		{"glob", out, real, true},
		{"grep", filepath.Join(out, "f"), real, true},
		{"ls", "", "", false},
		{"write", "in", ".", true},
		{"edit", "a/b/in", "./a/b", true},
		{"write", "session:memory/x", "session:", true},
		{"write", filepath.Join(out, "new"), real, true},
		{"write", "./session:/x", "./session:", true},
	} {
		input, _ := json.Marshal(m{"path": c.path})
		if scope, ask := b.Find(c.tool).Asks(input); scope != c.scope || ask != c.ask {
			t.Errorf("%s %s: scope %q, ask %v; want %q, %v", c.tool, c.path, scope, ask, c.scope, c.ask)
		}
	}
	wantText(t, call(t, b, "read", m{"path": up}), "     1\toutside\n")
	wantHas(t, call(t, b, "write", m{"path": filepath.Join(out, "new"), "content": "x"}), "outside of the workspace")
	wantHas(t, call(t, b, "glob", m{"path": out, "pattern": "*"}), filepath.Join(real, "new"))
}

func TestLinksOutOfTheWorkspaceAreRefused(t *testing.T) {
	out := t.TempDir()
	put(t, filepath.Join(out, "secret"), "secret\n")
	b := fileBox(t, map[string]string{"in": "inside\n"}, Options{})
	for link, target := range map[string]string{"file": filepath.Join(out, "secret"), "dir": out, "here": "in"} {
		if err := os.Symlink(target, filepath.Join(b.o.Root, link)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	wantError(t, call(t, b, "read", m{"path": "file"}), "leads out", "secret; use that path")
	wantError(t, call(t, b, "read", m{"path": "dir/secret"}), "leads out")
	wantError(t, call(t, b, "ls", m{"path": "dir"}), "leads out")
	wantError(t, call(t, b, "write", m{"path": "file", "content": "x"}), "leads out")
	wantError(t, call(t, b, "write", m{"path": "dir/new", "content": "x"}))
	wantError(t, call(t, b, "edit", m{"path": "file", "old_string": "secret", "new_string": "x"}), "leads out")
	wantText(t, call(t, b, "read", m{"path": "here"}), "     1\tinside\n")
	if res := call(t, b, "grep", m{"pattern": "secret"}); strings.Contains(res.Text, "secret") {
		t.Errorf("grep looked outside: %s", res.Text)
	}
	if data, _ := os.ReadFile(filepath.Join(out, "secret")); string(data) != "secret\n" {
		t.Errorf("the file outside holds %q", data)
	}
	if names, _ := os.ReadDir(out); len(names) != 1 {
		t.Errorf("%d files outside", len(names))
	}
}

func TestWriteMakesFoldersAndSaysWhere(t *testing.T) {
	s := newShelf(nil)
	b := fileBox(t, nil, Options{Files: s})
	wantText(t, call(t, b, "write", m{"path": "a/b/c.txt", "content": "hi"}), "Wrote 2 bytes to a/b/c.txt in the workspace.")
	if got := contentOf(t, b, "a/b/c.txt"); got != "hi" {
		t.Error(got)
	}
	wantText(t, call(t, b, "write", m{"path": "session:memory/n.md", "content": "note"}), "Wrote 4 bytes to session:memory/n.md in the durable storage of the session.")
	if string(s.files["memory/n.md"]) != "note" {
		t.Errorf("%v", s.files)
	}
	if _, err := os.Stat(filepath.Join(b.o.Root, "memory")); err == nil {
		t.Error("durable storage was written to the workspace")
	}
	for _, bad := range []string{"", ".", "a", "a/", "session:", "session:memory", "session:memory/", "session:other/x", "session:x", "session:../x", "session:memory/../../x", "a\x00b", "a\nb"} {
		wantError(t, call(t, b, "write", m{"path": bad, "content": "x"}))
	}
	none := fileBox(t, nil, Options{})
	wantError(t, call(t, none, "write", m{"path": "session:memory/x", "content": ""}), "no durable storage")
}

func TestWhatAnInterruptedChangeLeftIsTidied(t *testing.T) {
	left := ".tidemark-" + rand.Text()
	other := t.TempDir()
	put(t, filepath.Join(other, left), "half")
	b := fileBox(t, map[string]string{"sub/" + left: "half", left: "half"}, Options{})
	has := func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	}
	for _, c := range []struct{ tool, input string }{
		{"bash", `{"path":"a"}`}, {"read", `{"path":"a"}`}, {"gone", `{"path":"a"}`}, {"write", `{"path":`}, {"write", `{"path":"."}`},
		{"write", `{"path":"../a"}`}, {"edit", `{"path":"` + filepath.ToSlash(filepath.Join(other, "a")) + `"}`},
	} {
		b.Tidy(c.tool, json.RawMessage(c.input))
		if !has(filepath.Join(b.o.Root, left)) || !has(filepath.Join(other, left)) {
			t.Fatalf("%s %s swept", c.tool, c.input)
		}
	}
	b.Tidy("edit", json.RawMessage(`{"path":"sub/a"}`))
	if has(filepath.Join(b.o.Root, "sub", left)) || !has(filepath.Join(b.o.Root, left)) {
		t.Error("an edit in sub tidies sub alone")
	}
	b.Tidy("write", json.RawMessage(`{"path":"a"}`))
	if has(filepath.Join(b.o.Root, left)) {
		t.Error("a write tidies its folder")
	}
}

func TestEditReplacesExactMatchesAndKeepsAllElse(t *testing.T) {
	for _, c := range []struct {
		name, file string
		args       m
		want, says string
	}{
		{"one", "a b c", m{"old_string": "b", "new_string": "x"}, "a x c", "1 match (line 1)"},
		{"all", "b\nb\nb", m{"old_string": "b", "new_string": "x", "replace_all": true}, "x\nx\nx", "3 matches (lines 1, 2, 3)"},
		{"several", "b\nb\nb", m{"old_string": "b", "new_string": "x"}, "", "3 matches (lines 1, 2, 3)"},
		{"none", "a", m{"old_string": "b", "new_string": "x"}, "", "0 matches"},
		{"same", "a", m{"old_string": "a", "new_string": "a"}, "", "nothing to change"},
		{"empty old", "a", m{"old_string": "", "new_string": "a"}, "", "use write"},
		{"delete", "a\nb\n", m{"old_string": "a\n", "new_string": ""}, "b\n", "1 match"},
		{"CRLF", "a\r\nb\r\nc\r\n", m{"old_string": "a\nb", "new_string": "x\ny"}, "x\r\ny\r\nc\r\n", "1 match"},
		{"CRLF in new only", "a\r\nb\r\n", m{"old_string": "b", "new_string": "x\ny\r\nz"}, "a\r\nx\r\ny\r\nz\r\n", "1 match (line 2)"},
		{"mixed ends stay", "a\r\nb\n", m{"old_string": "b", "new_string": "x\ny"}, "a\r\nx\ny\n", "1 match"},
		{"BOM stays", "\ufeffa", m{"old_string": "a", "new_string": "b"}, "\ufeffb", "1 match"},
		{"other bytes stay", "caf\xe9 a", m{"old_string": "a", "new_string": "b", "replace_all": true}, "cbf\xe9 b", "2 matches"},
		{"binary", "a\x00b", m{"old_string": "a", "new_string": "x"}, "", "binary"},
		{"overlap counts once", "aaa", m{"old_string": "aa", "new_string": "b"}, "ba", "1 match"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf(map[string]string{"buffers/f": c.file})
			b := fileBox(t, map[string]string{"f": c.file}, Options{Files: s})
			for _, path := range []string{"f", "session:buffers/f"} {
				c.args["path"] = path
				res := call(t, b, "edit", c.args)
				wantHas(t, res, c.says)
				if res.IsError != (c.want == "") {
					t.Errorf("%+v", res)
				}
			}
			want := c.want
			if want == "" {
				want = c.file
			}
			if got := contentOf(t, b, "f"); got != want || string(s.files["buffers/f"]) != want {
				t.Errorf("the file holds %q, the stored one %q, want %q", got, s.files["buffers/f"], want)
			}
		})
	}
	b := fileBox(t, nil, Options{})
	wantError(t, call(t, b, "edit", m{"path": "f", "old_string": "a", "new_string": "b"}), "there is no f", "write")
}

func TestListGlobAndGrepSeeWorkspaceAndStorage(t *testing.T) {
	b := fileBox(t, map[string]string{
		"main.go": "package main\n\nfunc main() {\n\tprintln(1)\n}\n", "cmd/a/a.go": "package a // MAIN\n", "cmd/a/a_test.go": "x", ".git/config.go": "main",
		"bin": "main\x00", "docs/x.md": "one\ntwo main\nthree\nfour\nfive main\nsix\nseven\neight\nnine main\n",
	}, Options{Files: newShelf(map[string]string{"memory/notes.md": "remember main\n", "memory/deep/x.md": "", "artifacts/a.go": "main"})})
	wantText(t, call(t, b, "ls", m{}), ".git/\nbin\t5\ncmd/\ndocs/\nmain.go\t42\n")
	wantText(t, call(t, b, "ls", m{"path": "session:"}), "artifacts/\nbuffers/\nmemory/\nmeta/\n")
	wantText(t, call(t, b, "ls", m{"path": "session:memory/"}), "deep/\nnotes.md\t14\n")
	wantText(t, call(t, b, "ls", m{"path": "session:meta"}), "(session:meta is empty)")
	wantText(t, call(t, b, "glob", m{"pattern": "*.go"}), "cmd/a/a.go\ncmd/a/a_test.go\nmain.go\n")
	wantText(t, call(t, b, "glob", m{"pattern": "*/*.go", "path": "cmd"}), "cmd/a/a.go\ncmd/a/a_test.go\n")
	wantText(t, call(t, b, "glob", m{"pattern": "**/*.{md,go}", "path": "session:"}), "session:artifacts/a.go\nsession:memory/deep/x.md\nsession:memory/notes.md\n")
	wantText(t, call(t, b, "glob", m{"pattern": "*.nothing"}), "no file matches")
	wantError(t, call(t, b, "glob", m{"pattern": "[a"}), "[ without its ]")
	for _, p := range []string{"/x/*.go", "../*.go", "session:memory/*"} {
		wantError(t, call(t, b, "glob", m{"pattern": p}), "in path")
	}
	wantError(t, call(t, b, "glob", m{"pattern": "*", "path": "nothing"}), "there is no nothing")

	wantText(t, call(t, b, "grep", m{"pattern": `main\(`}), "main.go:3:func main() {\n")
	wantText(t, call(t, b, "grep", m{"pattern": "main$", "glob": "*.go", "ignore_case": true}), "cmd/a/a.go:1:package a // MAIN\nmain.go:1:package main\n")
	wantText(t, call(t, b, "grep", m{"pattern": "main", "files_only": true}), "docs/x.md\nmain.go\n")
	wantText(t, call(t, b, "grep", m{"pattern": "main", "path": "docs/x.md", "context": 1}),
		"docs/x.md-1-one\ndocs/x.md:2:two main\ndocs/x.md-3-three\ndocs/x.md-4-four\ndocs/x.md:5:five main\ndocs/x.md-6-six\n--\ndocs/x.md-8-eight\ndocs/x.md:9:nine main\n")
	wantText(t, call(t, b, "grep", m{"pattern": "main", "path": "docs/x.md", "context": 20}), call(t, b, "grep", m{"pattern": "main", "path": "docs/x.md", "context": 3}).Text)
	wantText(t, call(t, b, "grep", m{"pattern": "main", "path": "session:memory"}), "session:memory/notes.md:1:remember main\n")
	wantText(t, call(t, b, "grep", m{"pattern": "nowhere"}), "no line matches")
	wantError(t, call(t, b, "grep", m{"pattern": "(?=x)"}), "not a regular expression")
}

func TestSearchesAreBoundedAndCanBeStopped(t *testing.T) {
	b := fileBox(t, map[string]string{"f": strings.Repeat(strings.Repeat("x", 1000)+"\n", 5000)}, Options{OutputBytes: 2000})
	res := call(t, b, "grep", m{"pattern": "x"})
	if !res.Truncated || len(res.Text) > 2200 {
		t.Errorf("%d bytes, truncated %v", len(res.Text), res.Truncated)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, args := range map[string]m{"grep": {"pattern": "x"}, "glob": {"pattern": "*"}, "write": {"path": "never", "content": ""}} {
		if _, err := try(t, ctx, b, name, args); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailingStorageIsAnErrorOfTheBox(t *testing.T) {
	s := newShelf(nil)
	s.fail = tidemark.Storagef("no room left")
	b := fileBox(t, nil, Options{Files: s})
	for name, args := range map[string]m{
		"write": {"path": "session:memory/x", "content": "x"}, "read": {"path": "session:memory/x"}, "ls": {"path": "session:memory"},
		"edit": {"path": "session:memory/x", "old_string": "a", "new_string": "b"},
	} {
		if res, err := try(t, t.Context(), b, name, args); !errors.Is(err, tidemark.ErrStorage) || !res.IsError {
			t.Errorf("%s: %+v, %v; want ErrStorage", name, res, err)
		}
	}
}

func TestStorageIsAFileSystem(t *testing.T) {
	s := newShelf(map[string]string{"memory/a": "1", "memory/b/c": "2", "artifacts/x": ""})
	if err := fstest.TestFS(storedFS{t.Context(), s}, "memory/a", "memory/b/c", "artifacts/x", "meta", "buffers"); err != nil {
		t.Error(err)
	}
	if _, err := fs.Stat(storedFS{t.Context(), s}, "memory/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestReadDoesNotOpenWhatIsNoFile(t *testing.T) {
	b := shellBox(t, Options{})
	if res := sh(t, b, "mkfifo pipe"); res.IsError {
		t.Skip("no pipes here: ", res.Text)
	}
	wantError(t, call(t, b, "read", m{"path": "pipe"}), "not a regular file")
	wantError(t, call(t, b, "write", m{"path": "pipe", "content": "x"}), "not a regular file")
	wantText(t, call(t, b, "grep", m{"pattern": "x"}), "no line matches\n[1 files were left out: too large or not to be read]\n")
}

func TestWorkspaceBehindALinkIsOnePlaceByBothNames(t *testing.T) {
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Skip("no links here: ", err)
	}
	put(t, filepath.Join(real, "sub", "f"), "x\n")
	b := shellBox(t, Options{Root: link})
	for _, root := range []string{real, link} {
		path := filepath.Join(root, "sub", "f")
		input, _ := json.Marshal(m{"path": path})
		if scope, ask := b.Find("read").Asks(input); ask {
			t.Errorf("%s is asked for as %s", path, scope)
		}
		wantText(t, call(t, b, "read", m{"path": path}), "     1\tx\n")
		sh(t, b, "cd "+root+"/sub")
		if got := b.State().Dir; got != "sub" {
			t.Errorf("in %s the state says %q", path, got)
		}
	}
}
