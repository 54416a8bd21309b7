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

// Integers are bound past the library where the one before was an integer, too.
func TestAParameterIsWhatWasBoundLast(t *testing.T) {
	c, err := openConn("parameters", inMemory)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	binds := map[string]func(*stmt){
		"integer 1":       func(s *stmt) { s.setInt(1, 1) },
		"integer -7":      func(s *stmt) { s.setInt(1, -7) },
		"integer 1 << 40": func(s *stmt) { s.setInt(1, 1<<40) },
		"null":            func(s *stmt) { s.setNull(1) },
		"text":            func(s *stmt) { s.setText(1, "seven") },
		"blob":            func(s *stmt) { s.setBytes(1, []byte{7, 0}, false) },
	}
	want := map[string]string{"integer 1": "integer 1", "integer -7": "integer -7", "integer 1 << 40": "integer 1099511627776", "null": "null ", "text": "text seven", "blob": "blob \a\x00"}
	for before, first := range binds {
		for now, second := range binds {
			for _, bound := range []struct {
				name string
				bind func(*stmt)
			}{{before, first}, {now, second}} {
				var got string
				err := c.do(`SELECT typeof(?1), ?1`, bound.bind, func(s *stmt) { got = s.text(0) + " " + s.text(1) })
				if err != nil || got != want[bound.name] {
					t.Errorf("%s, then %s: it is %q, %v; want %q", before, now, got, err, want[bound.name])
				}
			}
		}
	}
	s, err := c.prepare(`SELECT ?1`)
	if err != nil {
		t.Fatal(err)
	}
	if s.parameter(0) != nil || s.parameter(2) != nil || s.parameter(1) == nil {
		t.Error("a statement with one parameter has another")
	}
	if s.setInt(2, 7); s.err == nil {
		t.Error("a parameter that is not there was bound")
	}
}
