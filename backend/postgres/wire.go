package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// wire is the parameters of one of the statements that append, as they are sent. The
// driver would look up how each is written, by reflection, and make the buffer anew each
// time: a third of what it costs a program to append beside others.
type wire struct {
	buf    []byte
	ends   []int    // where each parameter ends in buf; below 0: it is null
	oids   []uint32 // 0: the server finds out
	values [][]byte // parts of buf
}

// maxWire is how large a buffer may be to be kept for the next append.
const maxWire = 256 << 10

var wires = sync.Pool{New: func() any { return new(wire) }}

// binaryFormat says that all parameters, or columns, are binary.
var binaryFormat = []int16{pgtype.BinaryFormatCode}

// sendAppend sends a statement that appends, and reports whether it answered before an error.
func (db *Database) sendAppend(ctx context.Context, c *pgxpool.Conn, sql string, args []any) (answered bool, err error) {
	w := wires.Get().(*wire)
	defer w.release()
	for _, a := range args {
		w.add(a)
	}
	var r *pgconn.ResultReader
	if db.pooled { // where nothing that is named outlives its transaction
		r = c.Conn().PgConn().ExecParams(ctx, sql, w.all(), w.oids, binaryFormat, binaryFormat)
	} else {
		known, err := c.Conn().Prepare(ctx, sql, sql) // once in a connection
		if err != nil {
			return false, err
		}
		r = c.Conn().PgConn().ExecStatement(ctx, known, w.all(), binaryFormat, binaryFormat)
	}
	answered = r.NextRow()
	_, err = r.Close()
	return answered, err
}

func (w *wire) release() {
	if cap(w.buf) > maxWire {
		return
	}
	clear(w.values)
	w.buf, w.ends, w.oids, w.values = w.buf[:0], w.ends[:0], w.oids[:0], w.values[:0]
	wires.Put(w)
}

// all are the parameters.
func (w *wire) all() [][]byte {
	from := 0
	for _, end := range w.ends {
		if end < 0 {
			w.values = append(w.values, nil)
			continue
		}
		w.values, from = append(w.values, w.buf[from:end:end]), end
	}
	return w.values
}

// add puts a parameter behind the others. It has one of the types that the statements
// which append need.
func (w *wire) add(a any) {
	oid := uint32(0)
	null := false
	switch a := a.(type) {
	case nil:
		null = true
	case *string:
		if oid, null = pgtype.TextOID, a == nil; !null {
			w.buf = append(w.buf, *a...)
		}
	case *int64:
		if oid, null = pgtype.Int8OID, a == nil; !null {
			w.buf = binary.BigEndian.AppendUint64(w.buf, uint64(*a))
		}
	case []byte:
		oid, null, w.buf = pgtype.ByteaOID, a == nil, append(w.buf, a...)
	case id:
		oid, w.buf = pgtype.UUIDOID, append(w.buf, a[:]...)
	case string:
		oid, w.buf = pgtype.TextOID, append(w.buf, a...)
	case int64:
		oid, w.buf = pgtype.Int8OID, binary.BigEndian.AppendUint64(w.buf, uint64(a))
	case time.Time:
		oid, w.buf = pgtype.TimestamptzOID, appendTime(w.buf, a)
	default:
		oid = w.addList(a)
	}
	end := len(w.buf)
	if null {
		end = -1
	}
	w.ends, w.oids = append(w.ends, end), append(w.oids, oid)
}

// addList is add for an array.
func (w *wire) addList(a any) (oid uint32) {
	switch a := a.(type) {
	case []id:
		w.list(pgtype.UUIDOID, len(a), false)
		for i := range a {
			w.buf = append(sized(w.buf, 16), a[i][:]...)
		}
		return pgtype.UUIDArrayOID
	case []string:
		w.list(pgtype.TextOID, len(a), false)
		for _, s := range a {
			w.buf = append(sized(w.buf, len(s)), s...)
		}
		return pgtype.TextArrayOID
	case []*string:
		w.list(pgtype.TextOID, len(a), slices.Contains(a, nil))
		for _, s := range a {
			if s == nil {
				w.buf = sized(w.buf, -1)
			} else {
				w.buf = append(sized(w.buf, len(*s)), *s...)
			}
		}
		return pgtype.TextArrayOID
	case []int64:
		w.list(pgtype.Int8OID, len(a), false)
		for _, n := range a {
			w.buf = binary.BigEndian.AppendUint64(sized(w.buf, 8), uint64(n))
		}
		return pgtype.Int8ArrayOID
	case []*int64:
		w.list(pgtype.Int8OID, len(a), slices.Contains(a, nil))
		for _, n := range a {
			if n == nil {
				w.buf = sized(w.buf, -1)
			} else {
				w.buf = binary.BigEndian.AppendUint64(sized(w.buf, 8), uint64(*n))
			}
		}
		return pgtype.Int8ArrayOID
	case []int32:
		w.list(pgtype.Int4OID, len(a), false)
		for _, n := range a {
			w.buf = binary.BigEndian.AppendUint32(sized(w.buf, 4), uint32(n))
		}
		return pgtype.Int4ArrayOID
	case []time.Time:
		w.list(pgtype.TimestamptzOID, len(a), false)
		for _, t := range a {
			w.buf = appendTime(sized(w.buf, 8), t)
		}
		return pgtype.TimestamptzArrayOID
	case []bool:
		w.list(pgtype.BoolOID, len(a), false)
		for _, is := range a {
			w.buf = append(sized(w.buf, 1), 0)
			if is {
				w.buf[len(w.buf)-1] = 1
			}
		}
		return pgtype.BoolArrayOID
	case [][]byte:
		w.list(pgtype.ByteaOID, len(a), slices.ContainsFunc(a, func(b []byte) bool { return b == nil }))
		for _, b := range a {
			if b == nil {
				w.buf = sized(w.buf, -1)
			} else {
				w.buf = append(sized(w.buf, len(b)), b...)
			}
		}
		return pgtype.ByteaArrayOID
	}
	panic(fmt.Sprintf("postgres: a parameter of type %T", a))
}

// list is the beginning of an array of n.
func (w *wire) list(of uint32, n int, nulls bool) {
	w.buf = binary.BigEndian.AppendUint32(w.buf, 1) // dimension
	w.buf = binary.BigEndian.AppendUint32(w.buf, 0)
	if nulls {
		w.buf[len(w.buf)-1] = 1
	}
	w.buf = binary.BigEndian.AppendUint32(w.buf, of)
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(n))
	w.buf = binary.BigEndian.AppendUint32(w.buf, 1) // the first is a[1]
}

// sized is the length of an element; -1: it is null.
func sized(buf []byte, n int) []byte { return binary.BigEndian.AppendUint32(buf, uint32(int32(n))) }

// appendTime adds the microseconds since the beginning of 2000.
func appendTime(buf []byte, t time.Time) []byte {
	const since = 946_684_800 * 1_000_000
	return binary.BigEndian.AppendUint64(buf, uint64(t.UnixMicro()-since))
}
