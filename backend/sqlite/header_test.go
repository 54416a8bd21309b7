package sqlite

import (
	"path/filepath"
	"testing"

	lib "modernc.org/sqlite/lib"
)

func TestTheHeaderIsReadWithoutGoingThroughTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	b, err := Open(t.Context(), path, &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, forWriting)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.run(`CREATE TABLE much (v); INSERT INTO much VALUES (zeroblob(8 << 20))`); err != nil {
		t.Fatal(err)
	}
	h, err := headerOf(c, path, fileStateOf(path))
	if err != nil || string(h.bytes[:15]) != "SQLite format 3" || !h.tree {
		t.Fatalf("the header is %q, its second page one of a tree: %v, %v", h.bytes[:15], h.tree, err)
	}
	s, err := c.prepare(sqlHeader)
	if err != nil {
		t.Fatal(err)
	}
	if n := lib.Xsqlite3_stmt_status(c.tls, s.p, lib.SQLITE_STMTSTATUS_VM_STEP, 0); n > 100 {
		t.Errorf("reading two pages of many took %d steps", n)
	}
}
