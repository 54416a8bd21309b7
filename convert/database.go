package convert

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// SQLiteMagic begins every SQLite file.
const SQLiteMagic = "SQLite format 3\x00"

// maxCell bounds a value of a session's row, which is small unless it is
// malicious.
const maxCell = 1 << 20

// SourceDatabase is a database of a Source that sessions are read from.
type SourceDatabase struct {
	Source Source
	Name   string   // in the Source
	db     Database // nil: closed
}

// Open opens the database. It is ErrUnsupported where databases cannot be read.
func (s *SourceDatabase) Open(ctx context.Context) error {
	if s.Source.SQL == nil {
		return tidemark.Unsupportedf("databases cannot be read here")
	}
	db, err := s.Source.SQL(ctx, s.Name)
	if err != nil {
		return err
	}
	s.db = db
	return nil
}

// Close closes the database. A Query after it still works.
func (s *SourceDatabase) Close() {
	if s.db != nil {
		s.db.Close()
	}
	s.db = nil
}

// Query runs a statement, and reopens the database when entries are read after
// the import has ended.
func (s *SourceDatabase) Query(ctx context.Context, statement string, args ...any) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		db := s.db
		if db == nil {
			var err error
			if db, err = s.Source.SQL(ctx, s.Name); err != nil {
				yield(nil, err)
				return
			}
			defer db.Close()
		}
		for row, err := range db.Query(ctx, statement, args...) {
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// Columns returns the columns of those of the tables that exist; versions of a
// tool differ in them. Views do not count.
func (s *SourceDatabase) Columns(ctx context.Context, tables ...string) (map[string][]string, error) {
	args := make([]any, len(tables))
	for i, t := range tables {
		args[i] = t
	}
	all := map[string][]string{}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(tables)), ", ")
	for row, err := range s.Query(ctx, `SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name IN (`+marks+`) ORDER BY t.name, c.cid`, args...) {
		if err != nil {
			return nil, err
		}
		all[CellText(row[0])] = append(all[CellText(row[0])], CellText(row[1]))
	}
	return all, nil
}

// BoundedColumns writes columns for a select, quoted; a value that is larger
// than a session's row may hold comes as NULL.
func BoundedColumns(names []string) string {
	var all []string
	for _, name := range names {
		quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		all = append(all, fmt.Sprintf("CASE WHEN octet_length(%s) <= %d THEN %s END", quoted, maxCell, quoted))
	}
	return strings.Join(all, ", ")
}

// CellText returns a value as text, whatever its stored type.
func CellText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}
