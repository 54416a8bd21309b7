package convert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
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

// Live is a Database that its tool may write to while it is read.
type Live interface {
	Database
	// Moment tells two states of it apart. Each statement reads one; it is
	// ErrConflict where that is not possible.
	Moment(ctx context.Context) (string, error)
}

// steadyTries is how often rows are read until nothing changed meanwhile.
const steadyTries = 10

// Steady calls read until nothing was committed meanwhile, so that what its
// statements returned was there at one moment. It is ErrConflict if that does not
// succeed. No transaction is open between two statements, so nobody waits.
func (s *SourceDatabase) Steady(ctx context.Context, read func() error) (err error) {
	live, ok := s.db.(Live)
	if !ok {
		return read()
	}
	for range steadyTries {
		before, momentErr := live.Moment(ctx)
		if momentErr != nil {
			return momentErr
		}
		if err = read(); err != nil && !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
		after, momentErr := live.Moment(ctx)
		if err == nil && momentErr == nil && before == after {
			return nil
		}
		if err = cmp.Or(momentErr, ctx.Err()); err != nil {
			return err
		}
	}
	return tidemark.Conflictf("it changes all the time; import it again")
}

// rowsAtOnce is how many rows EachRow reads in one statement.
const rowsAtOnce = 200

// EachRow yields columns of all rows of a table, which is called s, in the order in
// which they were made. It takes many short statements.
func (s *SourceDatabase) EachRow(ctx context.Context, table, columns string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		statement := fmt.Sprintf("SELECT s.rowid, %s FROM %s s WHERE s.rowid > ? ORDER BY s.rowid LIMIT %d", columns, table, rowsAtOnce)
		for after, n := any(int64(math.MinInt64)), rowsAtOnce; n == rowsAtOnce; {
			n = 0
			for row, err := range s.Query(ctx, statement, after) {
				if err != nil {
					yield(nil, err)
					return
				}
				after = row[0]
				if n++; !yield(row[1:], nil) {
					return
				}
			}
		}
	}
}

// Stamp is a hash of the values of rows.
func Stamp(rows ...[]any) string {
	sum := sha256.New()
	for _, row := range rows {
		for _, v := range row {
			text := CellText(v)
			fmt.Fprintf(sum, "%T %d %s\n", v, len(text), text)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// ShortColumns writes columns for a select, quoted; of a value that is long only the
// length comes.
func ShortColumns(names []string) string {
	var all []string
	for _, name := range names {
		quoted := quoteName(name)
		all = append(all, fmt.Sprintf("CASE WHEN octet_length(%s) <= %d THEN %s ELSE octet_length(%s) END", quoted, shortCell, quoted, quoted))
	}
	return strings.Join(all, ", ")
}

// shortCell bounds a value of which more than the length is compared.
const shortCell = 1 << 10

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// SameRows reports whether the rows that a session is made of are as they were when
// it was last imported, and what it left then.
func (s *SourceDatabase) SameRows(session, stamp string) (state []byte, same bool) {
	if s.Source.Left == nil || stamp == "" {
		return nil, false
	}
	was, state, ok := s.Source.Left(SessionUnit + session)
	return state, ok && was == stamp
}

// RowUnits are the Units of a session that is rows of a database; nil without a
// stamp.
func RowUnits(session, stamp string, state []byte) []Unit {
	if stamp == "" {
		return nil
	}
	return []Unit{{Name: SessionUnit + session, Stamp: stamp, State: state}}
}

// SameSession is a session whose rows did not change.
func SameSession(id, stamp string) *Session {
	return &Session{Session: tidemark.Session{ForeignID: id}, Unchanged: true, Units: RowUnits(id, stamp, nil)}
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
		quoted := quoteName(name)
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
