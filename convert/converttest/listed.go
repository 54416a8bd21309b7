package converttest

import (
	"context"
	"io/fs"
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark/convert"
)

// opened is a file system that notes which files are opened.
type opened struct {
	fs.FS
	names map[string]bool
}

func (o opened) Open(name string) (fs.File, error) {
	o.names[name] = true
	return o.FS.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (o opened) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(o.FS, name) }

// Stat implements fs.StatFS.
func (o opened) Stat(name string) (fs.FileInfo, error) { return fs.Stat(o.FS, name) }

// ReadFile implements fs.ReadFileFS.
func (o opened) ReadFile(name string) ([]byte, error) {
	o.names[name] = true
	return fs.ReadFile(o.FS, name)
}

// watched returns a Source that is checked when the import has ended: a file that
// the tool opens and does not list may change without being read again.
func watched(t testing.TB, tool convert.Tool, p convert.Source) (convert.Source, func()) {
	t.Helper()
	if tool.Files == nil || p.Path != "." {
		return p, func() {}
	}
	read := opened{p.FS, map[string]bool{}}
	sql := p.SQL
	if p.FS = read; sql != nil {
		p.SQL = func(ctx context.Context, file string) (convert.Database, error) {
			read.names[file] = true
			return sql(ctx, file)
		}
	}
	return p, func() {
		t.Helper()
		var listed []string
		for f, err := range tool.Files(t.Context(), convert.Source{FS: read.FS, Path: "."}) {
			if err != nil {
				return // there is no ledger for it: everything is read each time
			}
			listed = append(listed, f.Path)
		}
		for name := range read.names {
			if len(listed) > 0 && convert.IsFile(read.FS, name) && !slices.Contains(listed, name) {
				t.Errorf("%s: opens %s, which is not among its Files", tool.Name, name)
			}
		}
	}
}
