package sqlite

import lib "modernc.org/sqlite/lib"

// width is how many columns a row has.
func (s *stmt) width() int { return int(lib.Xsqlite3_column_count(s.c.tls, s.p)) }
