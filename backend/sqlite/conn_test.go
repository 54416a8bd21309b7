package sqlite

import (
	"testing"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// width is how many columns a row has.
func (s *stmt) width() int { return int(lib.Xsqlite3_column_count(s.c.tls, s.p)) }

// Values are read past the calls of the library, and are the same as theirs.
func TestAValueIsWhatTheLibrarySaysItIs(t *testing.T) {
	c, err := openConn("values", inMemory)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.run(`CREATE TABLE kept (v)`); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"0", "-1", "7", "9223372036854775807", "-9223372036854775808", "NULL", "1.5", "-1e300", "''", "'text'", "'12'", "'12 monkeys'",
		"x''", "x'00ff'", "zeroblob(0)", "zeroblob(5)", "x'31' || zeroblob(2)", "'é' || char(0) || 'z'", "CAST('7' AS INTEGER)", "CAST(7 AS TEXT)", "CAST(7 AS REAL)"} {
		if err := c.run(`DELETE FROM kept; INSERT INTO kept VALUES (` + value + `)`); err != nil {
			t.Fatal(err)
		}
		for _, sql := range []string{`SELECT ` + value, `SELECT v FROM kept`, `SELECT v FROM (SELECT v FROM kept ORDER BY v LIMIT 1)`, `SELECT max(v) FROM kept`} {
			err := c.do(sql, nil, func(s *stmt) {
				number, bytes := s.int(0), string(s.view(0))
				wantNumber := lib.Xsqlite3_column_int64(c.tls, s.p, 0)
				if number != wantNumber {
					t.Errorf("%s of %s: %d, the library says %d", sql, value, number, wantNumber)
				}
				p, want := lib.Xsqlite3_column_blob(c.tls, s.p, 0), ""
				if n := lib.Xsqlite3_column_bytes(c.tls, s.p, 0); p != 0 {
					want = string(libc.GoBytes(p, int(n)))
				}
				if bytes != want {
					t.Errorf("%s of %s: %q, the library says %q", sql, value, bytes, want)
				}
				if again := s.int(0); again != wantNumber {
					t.Errorf("%s of %s, once its bytes were read: %d, the library says %d", sql, value, again, wantNumber)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := c.prepare(`SELECT 7`)
	if err != nil {
		t.Fatal(err)
	}
	if s.int(0) != 0 || s.view(0) != nil {
		t.Error("a statement that has not begun has a value")
	}
}
