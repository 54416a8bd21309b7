package open_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
)

func TestDatabasesAreReadFromAFileThatSaysNothingElse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "databases.yaml")
	for _, c := range []struct {
		text string
		want map[string]string // nil: refused
	}{
		{"b: postgres://r@db2/t\nc: \"postgresql://r@db3/t?sslmode=require\"\n", map[string]string{"b": "postgres://r@db2/t", "c": "postgresql://r@db3/t?sslmode=require"}},
		{"", map[string]string{}},
		{"b: sqlite:store.db\n", nil},
		{"b: [postgres://r@db2/t]\n", nil},
		{"- postgres://r@db2/t\n", nil},
		{"Not A Name: postgres://r@db2/t\n", nil},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := open.Databases([]string{open.DatabasesVariable + "=" + file})()
		if diff := cmp.Diff(c.want, got); diff != "" || (c.want == nil) != errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%q: %v, %v", c.text, got, err)
		}
	}
	if open.Databases(nil) != nil {
		t.Error("databases, though nothing names a file")
	}
	if _, err := open.ReadDatabases(file + ".missing"); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a file that is not there: %v", err)
	}
}
