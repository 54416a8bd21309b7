package sqlite

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	_ "modernc.org/sqlite" // patches the library for some processors when it starts
	lib "modernc.org/sqlite/lib"
)

// conn is one connection to SQLite, used by one goroutine at a time. It calls
// the library directly: through database/sql and its driver, each statement
// costs 1.5 µs more and each integer read an allocation, which for an append or
// a tail is as much as the work itself.
type conn struct {
	tls   *libc.TLS
	db    uintptr
	out   uintptr // receives a pointer that a call returns
	stmts map[string]*stmt

	standing bool // temporary tables replace those of the schema

	understood bool   // what the store had at data is in a format that the program knows
	data       uint32 // see dataVersion
}

// stmt is a prepared statement. Every parameter is bound before each run.
type stmt struct {
	c     *conn
	p     uintptr
	slots []slot
	err   error // of the first bind that failed
}

// slot is memory outside of Go that holds one text or blob while it is bound.
type slot struct {
	p    uintptr
	size int
}

// keepSlotBytes is how large a slot may be and still be kept for the next run.
const keepSlotBytes = 64 << 10

// sqliteError is an error of the library.
type sqliteError struct {
	code int32 // extended
	text string
}

func (e *sqliteError) Error() string { return e.text }

// How a file is opened.
const (
	forWriting = "mode=rw"
	forReading = "mode=ro"
	unchanging = "mode=ro&immutable=1" // takes no lock and needs no -shm; the file must not change
	forMaking  = "mode=rwc"
	inMemory   = "mode=memory"
)

func openConn(path, how string, pragmas ...string) (*conn, error) {
	c := &conn{tls: libc.NewTLS(), stmts: make(map[string]*stmt)}
	c.out = libc.Xcalloc(c.tls, 1, 16)
	name, err := libc.CString(uri(path, how))
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, name)
	const flags = lib.SQLITE_OPEN_READWRITE | lib.SQLITE_OPEN_CREATE | lib.SQLITE_OPEN_NOMUTEX | lib.SQLITE_OPEN_URI
	rc := lib.Xsqlite3_open_v2(c.tls, name, c.out, flags, 0)
	c.db = libc.AtomicLoadPUintptr(c.out)
	if rc != lib.SQLITE_OK {
		err := c.fault(rc)
		c.close()
		return nil, err
	}
	lib.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	c.planOnce()
	for _, p := range pragmas {
		if err := c.run("PRAGMA " + p); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// planOnce has a statement keep its plan whatever values it is given. Otherwise SQLite
// plans many of ours anew each time, in case it had statistics about the values; it
// has none.
func (c *conn) planOnce() {
	const slot = 8 // of an argument of a function with many
	args := c.tls.Alloc(2 * slot)
	defer c.tls.Free(2 * slot)
	lib.Xsqlite3_db_config(c.tls, c.db, lib.SQLITE_DBCONFIG_ENABLE_QPSG, libc.VaList(args, int32(1), uintptr(0)))
}

// uri names a file so that no character of its path is special.
func uri(path, how string) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Path: p, RawQuery: how}).String()
}

func (c *conn) close() {
	for _, s := range c.stmts {
		lib.Xsqlite3_finalize(c.tls, s.p)
		for _, sl := range s.slots {
			libc.Xfree(c.tls, sl.p)
		}
	}
	lib.Xsqlite3_close_v2(c.tls, c.db)
	libc.Xfree(c.tls, c.out)
	c.tls.Close()
}

func (c *conn) fault(rc int32) error {
	text := libc.GoString(lib.Xsqlite3_errstr(c.tls, rc))
	if c.db != 0 {
		if more := libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db)); more != text && more != "not an error" {
			text += ": " + more
		}
	}
	return &sqliteError{rc, text}
}

// run executes statements whose result does not matter.
func (c *conn) run(sql string) error {
	text, err := libc.CString(sql)
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, text)
	if rc := lib.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0); rc != lib.SQLITE_OK {
		return c.fault(rc)
	}
	return nil
}

// prepare returns the statement for sql, made once and kept.
func (c *conn) prepare(sql string) (*stmt, error) {
	if s := c.stmts[sql]; s != nil {
		return s, nil
	}
	text, err := libc.CString(sql)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, text)
	if rc := lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, lib.SQLITE_PREPARE_PERSISTENT, c.out, 0); rc != lib.SQLITE_OK {
		return nil, c.fault(rc)
	}
	s := &stmt{c: c, p: libc.AtomicLoadPUintptr(c.out)}
	s.slots = make([]slot, lib.Xsqlite3_bind_parameter_count(c.tls, s.p))
	c.stmts[sql] = s
	return s, nil
}

// do runs one statement with the parameters that bind sets, and calls row for
// each row.
func (c *conn) do(sql string, bind func(*stmt), row func(*stmt)) error {
	s, err := c.prepare(sql)
	if err != nil {
		return err
	}
	if bind != nil {
		bind(s)
	}
	defer s.reset()
	for {
		more, err := s.step()
		if err != nil || !more {
			return err
		}
		if row != nil {
			row(s)
		}
	}
}

// number returns the first column of the first row.
func (c *conn) number(sql string) (n int64, err error) {
	err = c.do(sql, nil, func(s *stmt) { n = s.int(0) })
	return n, err
}

// autocommit reports whether no transaction is open.
func (c *conn) autocommit() bool { return lib.Xsqlite3_get_autocommit(c.tls, c.db) != 0 }

func (c *conn) busyTimeout(ms int32) { lib.Xsqlite3_busy_timeout(c.tls, c.db, ms) }

// dataVersion changes when what the connection sees of the store does, and never else: it
// is that of the newest read transaction. PRAGMA data_version would be a statement.
func (c *conn) dataVersion() uint32 {
	lib.Xsqlite3_file_control(c.tls, c.db, 0, lib.SQLITE_FCNTL_DATA_VERSION, c.out)
	return uint32(libc.AtomicLoadPInt32(c.out))
}

// mainFile is the file of the store as it lies there, whatever is in the -wal file. It is
// read through the connection, past its pages.
type mainFile struct{ c *conn }

// ReadAt returns 0 and io.EOF where the file ends before p is full.
func (f mainFile) ReadAt(p []byte, at int64) (int, error) {
	c := f.c
	if rc := lib.Xsqlite3_file_control(c.tls, c.db, 0, lib.SQLITE_FCNTL_FILE_POINTER, c.out); rc != lib.SQLITE_OK {
		return 0, c.fault(rc)
	}
	file := libc.AtomicLoadPUintptr(c.out)
	methods := (*(**lib.Tsqlite3_file)(unsafe.Pointer(&file))).FpMethods
	read := (*(**lib.Tsqlite3_io_methods)(unsafe.Pointer(&methods))).FxRead
	data := libc.Xmalloc(c.tls, types.Size_t(len(p)))
	if data == 0 {
		return 0, &sqliteError{lib.SQLITE_NOMEM, fmt.Sprintf("no memory for %d bytes", len(p))}
	}
	defer libc.Xfree(c.tls, data)
	// A function of the library is known by a pointer, as it is in C.
	switch rc := (*(*func(*libc.TLS, uintptr, uintptr, int32, int64) int32)(unsafe.Pointer(&struct{ uintptr }{read})))(c.tls, file, data, int32(len(p)), at); rc {
	case lib.SQLITE_OK:
		return copy(p, libc.GoBytes(data, len(p))), nil
	case lib.SQLITE_IOERR_SHORT_READ:
		return 0, io.EOF
	default:
		return 0, &sqliteError{rc, libc.GoString(lib.Xsqlite3_errstr(c.tls, rc))}
	}
}

// keepWAL keeps the -wal and -shm files, emptied, when the last connection
// closes, so that a later reader need not make them.
func (c *conn) keepWAL() error {
	name, err := libc.CString("main")
	if err != nil {
		return err
	}
	defer libc.Xfree(c.tls, name)
	libc.AtomicStorePInt32(c.out, 1)
	if rc := lib.Xsqlite3_file_control(c.tls, c.db, name, lib.SQLITE_FCNTL_PERSIST_WAL, c.out); rc != lib.SQLITE_OK {
		return c.fault(rc)
	}
	return nil
}

// leaveWAL makes close leave the store and its -wal file unchanged.
func (c *conn) leaveWAL() error {
	if err := c.keepWAL(); err != nil {
		return err
	}
	list := libc.NewVaList(int32(1), uintptr(0))
	defer libc.Xfree(c.tls, list)
	if rc := lib.Xsqlite3_db_config(c.tls, c.db, lib.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, list); rc != lib.SQLITE_OK {
		return c.fault(rc)
	}
	return nil
}

// interruptOn stops a running statement when ctx ends. The returned function
// ends that; after it, no interrupt can hit another statement.
func (c *conn) interruptOn(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(done)
		tls := libc.NewTLS()
		lib.Xsqlite3_interrupt(tls, c.db)
		tls.Close()
	})
	return func() {
		if !cancel() {
			<-done
		}
	}
}

// setInt binds an integer. Where the parameter was one in the run before, its value is
// replaced in place, as the library would after its checks: the head of a log is eight of
// them for each append. Between two runs the statement is reset, and nothing reads it.
func (s *stmt) setInt(i int, v int64) {
	if m := s.parameter(i); m != nil && m.Fflags == lib.MEM_Int {
		*(*int64)(unsafe.Pointer(&m.Fu)) = v
		return
	}
	s.bound(lib.Xsqlite3_bind_int64(s.c.tls, s.p, int32(i), v))
}

// parameter returns the memory of a parameter, nil where there is none.
func (s *stmt) parameter(i int) *lib.TMem {
	v := *(**lib.TVdbe)(unsafe.Pointer(&s.p))
	if i < 1 || i > int(v.FnVar) {
		return nil
	}
	at := v.FaVar + uintptr(i-1)*unsafe.Sizeof(lib.TMem{})
	return *(**lib.TMem)(unsafe.Pointer(&at))
}

func (s *stmt) setNull(i int) { s.bound(lib.Xsqlite3_bind_null(s.c.tls, s.p, int32(i))) }

func (s *stmt) setText(i int, v string) {
	if p, ok := s.room(i, len(v)); ok {
		copy(libc.GoBytes(p, len(v)), v)
		s.bound(lib.Xsqlite3_bind_text(s.c.tls, s.p, int32(i), p, int32(len(v)), 0))
	}
}

// setTextOrNull binds "" as NULL.
func (s *stmt) setTextOrNull(i int, v string) {
	if v == "" {
		s.setNull(i)
	} else {
		s.setText(i, v)
	}
}

// setBytes binds v as text or as a blob; the bytes are the same.
func (s *stmt) setBytes(i int, v []byte, text bool) {
	p, ok := s.room(i, len(v))
	if !ok {
		return
	}
	copy(libc.GoBytes(p, len(v)), v)
	if text {
		s.bound(lib.Xsqlite3_bind_text(s.c.tls, s.p, int32(i), p, int32(len(v)), 0))
	} else {
		s.bound(lib.Xsqlite3_bind_blob(s.c.tls, s.p, int32(i), p, int32(len(v)), 0))
	}
}

func (s *stmt) bound(rc int32) {
	if rc != lib.SQLITE_OK && s.err == nil {
		s.err = s.c.fault(rc)
	}
}

// room returns memory for n bytes at parameter i.
func (s *stmt) room(i, n int) (uintptr, bool) {
	sl := &s.slots[i-1]
	if sl.size < n || sl.p == 0 {
		libc.Xfree(s.c.tls, sl.p)
		sl.size = max(n, 64)
		if sl.p = libc.Xmalloc(s.c.tls, types.Size_t(sl.size)); sl.p == 0 {
			sl.size = 0
			s.err = &sqliteError{lib.SQLITE_NOMEM, fmt.Sprintf("no memory for %d bytes", n)}
			return 0, false
		}
	}
	return sl.p, true
}

// step reports whether there is a row.
func (s *stmt) step() (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	switch rc := lib.Xsqlite3_step(s.c.tls, s.p); rc {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		return false, nil
	default:
		return false, s.c.fault(rc)
	}
}

// reset makes s ready for its next run and frees large slots.
func (s *stmt) reset() {
	s.err = nil
	lib.Xsqlite3_reset(s.c.tls, s.p)
	for i := range s.slots {
		if sl := &s.slots[i]; sl.size > keepSlotBytes {
			lib.Xsqlite3_bind_null(s.c.tls, s.p, int32(i+1))
			libc.Xfree(s.c.tls, sl.p)
			*sl = slot{}
		}
	}
}

// column returns a value of the row that step has reached, nil where there is none. It
// looks for it where the calls of the library look: a tail of 50 lines reads 600
// values, and each call costs as much as all else that is done with the value.
func (s *stmt) column(i int) *lib.TMem {
	v := *(**lib.TVdbe)(unsafe.Pointer(&s.p))
	if v.FpResultRow == 0 || i >= int(v.FnResColumn) {
		return nil
	}
	at := v.FpResultRow + uintptr(i)*unsafe.Sizeof(lib.TMem{})
	return *(**lib.TMem)(unsafe.Pointer(&at))
}

func (s *stmt) int(i int) int64 {
	if m := s.column(i); m != nil && m.Fflags&lib.MEM_Int != 0 {
		return *(*int64)(unsafe.Pointer(&m.Fu))
	}
	return lib.Xsqlite3_column_int64(s.c.tls, s.p, int32(i))
}

func (s *stmt) null(i int) bool {
	return lib.Xsqlite3_column_type(s.c.tls, s.p, int32(i)) == lib.SQLITE_NULL
}

// view returns the bytes of a text or blob, valid until the next step.
func (s *stmt) view(i int) []byte {
	var p uintptr
	var n int32
	const bytes = lib.MEM_Str | lib.MEM_Blob
	switch m := s.column(i); {
	case m != nil && m.Fflags&lib.MEM_Null != 0:
		return nil
	case m != nil && m.Fflags&bytes != 0 && m.Fflags&lib.MEM_Zero == 0:
		p, n = m.Fz, m.Fn
	default: // it has to be made: of a number, or of a blob whose zeros are only counted
		p = lib.Xsqlite3_column_blob(s.c.tls, s.p, int32(i))
		n = lib.Xsqlite3_column_bytes(s.c.tls, s.p, int32(i))
	}
	if p == 0 || n == 0 {
		return nil
	}
	return libc.GoBytes(p, int(n))
}

func (s *stmt) text(i int) string { return string(s.view(i)) }

// bytes returns a copy; an empty value is nil.
func (s *stmt) bytes(i int) []byte {
	v := s.view(i)
	if len(v) == 0 {
		return nil
	}
	return append(make([]byte, 0, len(v)), v...)
}
