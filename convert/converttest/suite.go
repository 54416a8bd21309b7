package converttest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Damaged is the content of a bad file, and how much of it is imported all the
// same.
type Damaged struct {
	Data                     string
	Skips, Sessions, Entries int
}

// CheckDamage imports bad files, each in a Source of its own.
func CheckDamage(t *testing.T, tool convert.Tool, place func(data string) convert.Source, files map[string]Damaged) {
	t.Helper()
	for name, want := range files {
		t.Run(name, func(t *testing.T) {
			got := Read(t, tool, place(want.Data))
			entries := 0
			for _, s := range got.Sessions {
				entries += len(s.Entries)
			}
			if len(got.Skips) != want.Skips || len(got.Sessions) != want.Sessions || entries != want.Entries {
				t.Errorf("%d skips, %d sessions, %d entries; want %d, %d, %d: %v", len(got.Skips), len(got.Sessions), entries, want.Skips, want.Sessions, want.Entries, got.Skips)
			}
		})
	}
}

// CheckStops ends an import after every number of sessions and entries: a caller
// may stop at any of them.
func CheckStops(t *testing.T, tool convert.Tool, p convert.Source) {
	t.Helper()
	for stop, more := 0, true; more; stop++ {
		n := 0
		more = false
	sessions:
		for s, err := range tool.Import(t.Context(), p) {
			if n++; n > stop {
				more = true
				break
			}
			if err != nil {
				continue
			}
			for range s.Entries {
				if n++; n > stop {
					more = true
					break sessions
				}
			}
		}
	}
}

// Shape describes entries, one per line: the ID, its parent, the role or kind,
// and the texts and names in it.
func Shape(entries []convert.Entry) (all []string) {
	for _, e := range entries {
		var text []string
		for _, b := range e.Blocks {
			text = append(text, b.Text+b.Name)
		}
		parent := strings.Replace(e.Parent, convert.Root, "root", 1)
		all = append(all, fmt.Sprintf("%s<%s %s%s %s", e.ID, parent, e.Role, e.Kind, strings.Join(text, "+")))
	}
	return all
}

// Lines is a file of lines.
func Lines(lines ...string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n") + "\n"), Mode: 0o600}
}

// Locked is a file system with an unreadable folder: the one whose path ends in
// Folder.
type Locked struct {
	fstest.MapFS
	Folder string
}

// ReadDir implements fs.ReadDirFS.
func (l Locked) ReadDir(name string) ([]fs.DirEntry, error) {
	if strings.HasSuffix(name, l.Folder) {
		return nil, fs.ErrPermission
	}
	return l.MapFS.ReadDir(name)
}

// OpenDatabase opens a database on disk; the program has a driver for it, which
// this package does not know.
type OpenDatabase[D convert.Database] func(file string, readOnly bool) (D, error)

// Disk is a folder on disk, opened as the program does: databases are copied
// first, with their -wal files.
func Disk[D convert.Database](t testing.TB, dir, path string, open OpenDatabase[D]) convert.Source {
	fsys := os.DirFS(dir)
	return convert.Source{FS: fsys, Path: path, SQL: func(_ context.Context, name string) (convert.Database, error) {
		tmp := t.TempDir()
		to, err := durable.OpenDir(tmp)
		if err != nil {
			return nil, err
		}
		defer to.Close()
		for _, suffix := range []string{"", "-wal"} {
			b, err := fs.ReadFile(fsys, name+suffix)
			if errors.Is(err, fs.ErrNotExist) && suffix != "" {
				continue
			}
			if err == nil {
				err = durable.Create(to, "copy.db"+suffix, b)
			}
			if err != nil {
				return nil, err
			}
		}
		return open(filepath.Join(tmp, "copy.db"), true)
	}}
}

// Exec runs statements in a database on disk.
func Exec[D convert.Database](t testing.TB, file string, open OpenDatabase[D], statements ...string) {
	t.Helper()
	db, err := open(file, false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, st := range statements {
		if strings.TrimSpace(st) == "" {
			continue
		}
		if err := db.Exec(t.Context(), st); err != nil {
			t.Fatalf("%s: %v", st, err)
		}
	}
}
