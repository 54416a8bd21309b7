package convert_test

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func store(names ...string) fstest.MapFS {
	files := fstest.MapFS{}
	for _, name := range names {
		files[name] = &fstest.MapFile{Data: []byte("text of " + name)}
	}
	return files
}

func TestTheHeadOfAFileIsAllThatIsRead(t *testing.T) {
	files := fstest.MapFS{"a": {Data: []byte("abcdef")}, "blank": {Data: []byte(" \n\t")}}
	if b, err := convert.Head(files, "a", 3); string(b) != "abc" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := convert.Head(files, "blank", 3); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a blank file: %v", err)
	}
	if _, err := convert.Head(files, "none", 3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// shut is a store in which one folder may not be looked at.
type shut struct{ fstest.MapFS }

func (s shut) Stat(name string) (fs.FileInfo, error) {
	if strings.HasPrefix(name, "shut/") {
		return nil, fs.ErrPermission
	}
	return s.MapFS.Stat(name)
}

func TestTheFirstFolderThatIsThereIsTaken(t *testing.T) {
	files := shut{store("a/b/x", "c", "d/x")}
	for want, below := range map[string][]string{
		"a/b":    {"none", "c", "a/b", "d"}, // c is a file
		".":      {"none", "c"},
		"shut/b": {"shut/b", "d"}, // to read it tells why not
	} {
		if got := convert.Folder(files, ".", below...); got != want {
			t.Errorf("of %q: %q, want %q", below, got, want)
		}
	}
}

func TestAFolderNamedLikeAPatternIsNone(t *testing.T) {
	files := store("a[1]*/x/s.json", "a[1]*/y/s.json", "a1b/x/s.json")
	if got := convert.Glob(files, "a[1]*", "*/s.json"); !slices.Equal(got, []string{"a[1]*/x/s.json", "a[1]*/y/s.json"}) {
		t.Errorf("%q", got)
	}
	if got := convert.Glob(files, "../x", "*"); got != nil {
		t.Errorf("above the place: %q", got)
	}
}

func TestSessionsAreFoundByTheirNames(t *testing.T) {
	files := store(".x/sessions/b.json", ".x/sessions/a.json", ".x/sessions/a.log", ".x/sessions/c.txt")
	idOf := func(name string) (string, bool) {
		id, _, ok := strings.Cut(strings.ReplaceAll(name, ".log", ".json"), ".json")
		return id, ok
	}
	for at, want := range map[string][]string{".": {"a", "b"}, ".x": {"a", "b"}, ".x/sessions": {"a", "b"}, ".x/sessions/a.log": {"a"}} {
		dir, ids, err := convert.Source{FS: files, Path: at}.IDs(idOf, ".x/sessions", "sessions")
		if d := cmp.Diff(want, ids); d != "" || dir != ".x/sessions" || err != nil {
			t.Errorf("at %s: in %s, %v: %s", at, dir, err, d)
		}
	}
	for at, want := range map[string]error{".x/sessions/c.txt": tidemark.ErrInvalid, "none": fs.ErrNotExist} {
		if _, _, err := (convert.Source{FS: files, Path: at}).IDs(idOf); !errors.Is(err, want) {
			t.Errorf("at %s: %v", at, err)
		}
	}
}

func TestFilesAreTakenAlongAsFarAsThereIsRoom(t *testing.T) {
	files := store("plan.md")
	files["large"] = &fstest.MapFile{Data: make([]byte, convert.MaxFiles)}
	var s convert.Session
	s.Take(files, "plan.md", "plan.md")
	s.Take(files, "large", "as/large")
	s.Take(files, "none", "none")
	if got := slices.Sorted(maps.Keys(s.Files)); !slices.Equal(got, []string{"plan.md"}) {
		t.Errorf("took %q", got)
	}
	if len(s.Lost) != 1 || !strings.HasPrefix(s.Lost[0], "as/large: ") {
		t.Errorf("lost %q", s.Lost)
	}
}

// full is a disk that is full.
type full struct{ *converttest.Out }

type fullFile struct{ convert.File }

func (fullFile) Write([]byte) (int, error) { return 0, errors.New("no room") }

func (f full) Create(name string) (convert.File, error) {
	file, err := f.Out.Create(name)
	return fullFile{file}, err
}

func TestHalfAFileIsNotLeftBehind(t *testing.T) {
	out := converttest.NewOut()
	if err := convert.WriteFile(full{out}, "a", []byte("x")); err == nil || len(out.Files) != 0 {
		t.Errorf("%v, files %v", err, out.Files)
	}
	if err := convert.WriteFile(out, "a", []byte("x")); err != nil || string(out.Files["a"].Data) != "x" {
		t.Errorf("%v, files %v", err, out.Files)
	}
}

func TestAPatternNamesTheFoldersThatCannotBeRead(t *testing.T) {
	files := store("home/a*/one/x.json", "home/b/one/x.json", "home/b/two/y.json", "home/locked/one/x.json", "home/file")
	fsys := converttest.Locked{MapFS: files, Folder: "locked"}
	for pattern, want := range map[string][]string{
		"*/one/x.json": {"home/a*/one/x.json", "home/b/one/x.json", "home/locked/one/x.json"},
		"b/*/?.json":   {"home/b/one/x.json", "home/b/two/y.json"},
		"./b/two":      {"home/b/two"},
		"nothing/*":    nil,
	} {
		names, skips := convert.Match(fsys, "home", pattern)
		if d := cmp.Diff(want, names); d != "" || len(skips) != 0 {
			t.Errorf("%s: skips %v: %s", pattern, skips, d)
		}
	}
	names, skips := convert.Match(fsys, "home", "*/*/x.json")
	if len(names) != 2 || len(skips) != 1 || !convert.IsSkip(skips[0]) || !errors.Is(skips[0], fs.ErrPermission) {
		t.Errorf("%q, skips %v", names, skips)
	}
}
