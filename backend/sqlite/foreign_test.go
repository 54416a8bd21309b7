package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
)

func TestAForeignDatabaseIsWrittenAndRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f.db")
	f, err := sqlite.OpenForeign(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range []string{"CREATE TABLE a (n, t, f, b, z)", "CREATE TABLE c (n)"} {
		if err := f.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if err := f.Exec(t.Context(), "INSERT INTO a VALUES (?, ?, ?, ?, ?)", i, "x\x00y", 1.5, []byte{0, 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for row, err := range f.Query(t.Context(), "SELECT * FROM a ORDER BY n") {
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]any{int64(n), "x\x00y", 1.5, []byte{0, 1}, nil}, row); d != "" {
			t.Error(d)
		}
		for inner, err := range f.Query(t.Context(), "SELECT * FROM a ORDER BY n") {
			if err != nil || inner[0] != int64(0) {
				t.Errorf("inside the loop: %v, %v", inner, err)
			}
			break
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
	for _, err := range f.Query(t.Context(), "SELECT nothing FROM a") {
		if !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("a wrong statement is %v, want ErrInvalid", err)
		}
	}
	if err := f.Exec(t.Context(), "INSERT INTO c VALUES (?)", struct{}{}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("a wrong argument is %v, want ErrInvalid", err)
	}
	only, err := sqlite.OpenForeign(name, true)
	if err != nil {
		t.Fatal(err)
	}
	defer only.Close()
	if err := only.Exec(t.Context(), "DROP TABLE a"); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("a change of what is only read is %v, want ErrUnsupported", err)
	}
	f.Close()
	for _, err := range f.Query(t.Context(), "SELECT 1") {
		if err == nil {
			t.Error("a closed database answers")
		}
	}
}

func TestAFileThatIsNoDatabaseIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f.db")
	if err := os.WriteFile(name, []byte("this is not a database, and long enough to look like one: 0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.OpenForeign(name, true); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("OpenForeign = %v, want ErrInvalid", err)
	}
}
