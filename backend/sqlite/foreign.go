package sqlite

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"sync"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
)

// Foreign is a database of another program, for packages that read or write its
// sessions. This package alone uses the SQLite engine, so others go through
// Foreign. Its methods may be called concurrently; one statement runs at a time.
type Foreign struct {
	mu       sync.Mutex
	c        *conn // nil: closed
	running  int   // statements
	closed   bool
	readOnly bool
}

// OpenForeign opens a database that this process owns: a copy, or a new one. A
// file that is not a database is ErrInvalid. With readOnly, Exec is
// ErrUnsupported.
//
// Nothing in the file is trusted: its schema may call only functions that do
// nothing but compute, and pages are checked as they are read.
func OpenForeign(path string, readOnly bool) (*Foreign, error) {
	return openForeign(path, forMaking, readOnly)
}

// ReadForeign opens a database where its program has it, to be read, and writes
// neither to it nor beside it. It sees what was committed before each statement. A
// database without a log takes a lock while a statement runs; with still, for one
// that nobody has open, it takes none. The caller has made sure that a database with
// a log has its -shm file, which would be made otherwise.
func ReadForeign(path string, still bool) (*Foreign, error) {
	how := forReading + "&readonly_shm=1"
	if still {
		how = unchanging
	}
	return openForeign(path, how, true)
}

func openForeign(path, how string, readOnly bool) (*Foreign, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, tidemark.Invalidf("%s: %w", path, err)
	}
	c, err := openConn(full, how, "trusted_schema=OFF", "cell_size_check=ON", "temp_store=MEMORY")
	if err == nil {
		if _, err = c.number("SELECT count(*) FROM sqlite_schema"); err != nil {
			c.close()
		}
	}
	if err != nil {
		return nil, tidemark.Invalidf("%s: %w", path, err)
	}
	return &Foreign{c: c, readOnly: readOnly}, nil
}

// Close closes the database.
func (f *Foreign) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.c != nil && f.running == 0 {
		f.c.close()
	}
	f.c, f.closed = nil, true
	return nil
}

// Query yields the rows of one statement: int64, float64, string, []byte, nil.
// The loop body may run further queries. A statement whose next row takes long ends
// when ctx does, and with it all others that are running.
func (f *Foreign) Query(ctx context.Context, statement string, args ...any) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		st, err := f.begin(statement, args)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.end(st)
		for {
			row, err := f.next(ctx, st)
			if err != nil {
				yield(nil, err)
				return
			}
			if row == nil || !yield(row, nil) {
				return
			}
		}
	}
}

// Exec runs one statement.
func (f *Foreign) Exec(ctx context.Context, statement string, args ...any) error {
	if f.readOnly {
		return tidemark.Unsupportedf("this database is only read")
	}
	for _, err := range f.Query(ctx, statement, args...) {
		if err != nil {
			return err
		}
	}
	return nil
}

// Moment tells two states of the database apart: it is another one after somebody
// else committed something.
func (f *Foreign) Moment(ctx context.Context) (string, error) {
	for row, err := range f.Query(ctx, "PRAGMA data_version") {
		if err != nil {
			return "", err
		}
		return fmt.Sprint(row...), nil
	}
	return "", nil
}

// begin prepares a statement of its own, so that the same one may run twice at
// the same time.
func (f *Foreign) begin(statement string, args []any) (*stmt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.c == nil {
		return nil, tidemark.Invalidf("the database is closed")
	}
	st, err := f.c.prepare(statement)
	if err != nil {
		return nil, tidemark.Invalidf("%w", err)
	}
	delete(f.c.stmts, statement)
	f.running++
	for i, a := range args {
		if !st.set(i+1, a) {
			f.finish(st)
			return nil, tidemark.Invalidf("argument %d is a %T", i+1, a)
		}
	}
	return st, nil
}

func (f *Foreign) end(st *stmt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finish(st)
}

// finish releases a statement; the last one closes a database that was closed
// while it ran.
func (f *Foreign) finish(st *stmt) {
	lib.Xsqlite3_finalize(st.c.tls, st.p)
	for _, sl := range st.slots {
		libc.Xfree(st.c.tls, sl.p)
	}
	if f.running--; f.running == 0 && f.closed {
		st.c.close()
	}
}

// next returns the next row, or nil at the end.
func (f *Foreign) next(ctx context.Context, st *stmt) ([]any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stop := st.c.interruptOn(ctx)
	more, err := st.step()
	stop()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, tidemark.Invalidf("%w", err)
	case !more:
		return nil, nil
	}
	row := make([]any, lib.Xsqlite3_column_count(st.c.tls, st.p))
	for i := range row {
		row[i] = st.value(i)
	}
	return row, nil
}

// set binds a value of any type that a column can have.
func (s *stmt) set(i int, v any) bool {
	switch v := v.(type) {
	case nil:
		s.setNull(i)
	case int:
		s.setInt(i, int64(v))
	case int64:
		s.setInt(i, v)
	case bool:
		s.setInt(i, map[bool]int64{true: 1}[v])
	case float64:
		s.bound(lib.Xsqlite3_bind_double(s.c.tls, s.p, int32(i), v))
	case string:
		s.setText(i, v)
	case []byte:
		s.setBytes(i, v, false)
	default:
		return false
	}
	return true
}

// value returns a column as the value that it holds.
func (s *stmt) value(i int) any {
	switch lib.Xsqlite3_column_type(s.c.tls, s.p, int32(i)) {
	case lib.SQLITE_INTEGER:
		return s.int(i)
	case lib.SQLITE_FLOAT:
		return lib.Xsqlite3_column_double(s.c.tls, s.p, int32(i))
	case lib.SQLITE_TEXT:
		return s.text(i)
	case lib.SQLITE_BLOB:
		return s.bytes(i)
	}
	return nil
}
