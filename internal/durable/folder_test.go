package durable_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Whoever changes the names in a directory changes its Folder, and cannot set it back.
func TestAFolderTellsThatItsNamesChanged(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	inside := func(name string) string { return filepath.Join(dir, "a", name) }
	if err := d.Mkdir("a"); err != nil {
		t.Fatal(err)
	}
	if f, _ := durable.FolderOf(d, "b"); f != (durable.Folder{}) {
		t.Errorf("a directory that is not there is %v", f)
	}
	last, _ := durable.FolderOf(d, "a")
	if last == (durable.Folder{}) {
		t.Skip("this file system does not tell")
	}
	for _, c := range []struct {
		what   string
		change func() error
	}{
		{"made", func() error { return os.WriteFile(inside("x"), nil, 0o600) }},
		{"renamed", func() error { return os.Rename(inside("x"), inside("y")) }},
		{"removed", func() error { return os.Remove(inside("y")) }},
		{"set back", func() error { return os.Chtimes(filepath.Join(dir, "a"), time.Time{}, time.Unix(0, last.Changed)) }},
	} {
		for tells := false; !tells; { // the clock by which it is stamped has moved on
			last, tells = durable.FolderOf(d, "a")
		}
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if now, tells := durable.FolderOf(d, "a"); tells && now == last {
			t.Errorf("a name was %s, and the folder looks as before", c.what)
		}
	}
}
