package convert_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func TestFilesLikeListsWhatItsPatternsMatch(t *testing.T) {
	file := &fstest.MapFile{}
	fsys := fstest.MapFS{"a/one.jsonl": file, "a/two.txt": file, "a/b/three.jsonl": file, "a/b/c/four.txt": file, "state.db": file, "state.db-wal": file, "state.db-shm": file}
	for patterns, want := range map[string]string{
		"a/*.jsonl":     "a/one.jsonl",
		"a/**":          "a/b/c/four.txt a/b/three.jsonl a/one.jsonl a/two.txt",
		"*/*/*.jsonl":   "a/b/three.jsonl",
		"a":             "",
		"missing/**":    "",
		"a/one.jsonl/*": "",
		strings.Join(convert.DatabaseFiles("state.db"), " "): "state.db state.db-wal",
		strings.Join(convert.DatabaseFiles("*.db"), " "):     "state.db state.db-wal",
	} {
		var got []string
		for f, err := range convert.FilesLike(strings.Fields(patterns)...)(t.Context(), convert.Source{FS: fsys, Path: "."}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f.Path)
		}
		if slices.Sort(got); strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", patterns, got, want)
		}
	}
}

func TestFilesLikeDoesNotHideWhatItCannotList(t *testing.T) {
	locked := converttest.Locked{MapFS: fstest.MapFS{"a/locked/file": &fstest.MapFile{}}, Folder: "locked"}
	deep := fstest.MapFS{strings.Repeat("d/", 20) + "file": &fstest.MapFile{}}
	for name, fsys := range map[string]fs.FS{"a folder that cannot be read": locked, "folders without an end": deep} {
		failed := false
		for _, err := range convert.FilesLike("**")(t.Context(), convert.Source{FS: fsys, Path: "."}) {
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("%s: it ends without an error", name)
		}
	}
}
