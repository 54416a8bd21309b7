package sqlite

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
)

// The columns of every row, in the order in which the scans below read them.
const (
	headColumns = `number, length, updated, parent, depth, nodes, turn, chain, sum`
	lineColumns = `id, kind, "key", at, parent, depth, nodes, turn, chain, batch, sum, body`

	sqlHead = `SELECT ` + headColumns + ` FROM log WHERE kind = ?1 AND id = ?2`
	// The record and the head of its log at once, the head's columns first.
	sqlRecord = selectRecord + ` AND r.id = ?2`
	// Those of one kind from an id on, up to another. Each side has one bound alone:
	// of two, or of one that is only sometimes there, SQLite would look for the wrong
	// one and read the whole kind.
	sqlRecords = selectRecord + ` AND r.id >= ?2 AND r.id < ?3 ORDER BY r.id LIMIT ?4`

	selectRecord = `SELECT l.number, l.length, l.updated, l.parent, l.depth, l.nodes, l.turn, l.chain, l.sum,
  r.version, r."group", r.state, r.due, r.updated, r.batch, r.sum, r.body, r.id
  FROM record r LEFT JOIN log l ON l.kind = r.kind AND l.id = r.id WHERE r.kind = ?1`
)

func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// isText reports whether a body is stored as TEXT, so that SQL can parse it. The
// bytes are the same either way.
func isText(body []byte) bool {
	return len(body) > 0 && body[0] == '{' && utf8.Valid(body)
}

// head is a row of the table log.
type head struct {
	tidemark.Head
	number int64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumRooms: what is hashed escapes, since the processor's own instructions are called
// through a variable.
var sumRooms = sync.Pool{New: func() any { return new([256]byte) }}

// sum protects the head itself: a length with a flipped bit would hide lines.
func (h head) sum(key tidemark.Key) uint32 {
	room := sumRooms.Get().(*[256]byte)
	defer sumRooms.Put(room)
	b := room[:0]
	for _, v := range [...]int64{h.number, h.Length, h.UpdatedAt.UnixMicro(), h.Position.Parent, h.Position.Depth, h.Position.Nodes, h.Position.Turn} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	b = append(b, byte(len(key.Kind)))
	b = append(b, key.Kind...)
	b = append(b, byte(len(key.ID)))
	b = append(b, key.ID...)
	if h.Trimmed != 0 {
		b = binary.LittleEndian.AppendUint64(b, uint64(h.Trimmed))
	}
	return crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, h.Chain)
}

// mark is the column sum: the sum, and above it how many lines were trimmed. So a
// program that does not know of trimmed logs takes them for damaged, and does not
// append to them.
func (h head) mark(key tidemark.Key) int64 { return h.Trimmed<<seqBits | int64(h.sum(key)) }

// readHead returns the head of a log; its number is 0 when there is none. A
// head that does not match its sum comes with a *Damage.
func readHead(c *conn, key tidemark.Key) (h head, err error) {
	var sum int64
	err = c.do(sqlHead, func(s *stmt) {
		s.setText(1, key.Kind)
		s.setText(2, key.ID)
	}, func(s *stmt) { h, sum = scanHead(s) })
	if err != nil {
		return head{}, err
	}
	return h, h.check(key, sum)
}

func (h head) check(key tidemark.Key, sum int64) error {
	if h.number != 0 && sum != h.mark(key) {
		return &tidemark.Damage{Key: key, Place: fmt.Sprintf("head of log %d", h.number), What: "the head does not match its sum"}
	}
	return nil
}

func scanHead(s *stmt) (h head, sum int64) {
	h.number, h.Length, h.UpdatedAt = s.int(0), s.int(1), timeOf(s.int(2))
	h.Position = tidemark.Position{Parent: s.int(3), Depth: s.int(4), Nodes: s.int(5), Turn: s.int(6)}
	h.Chain = s.bytes(7)
	sum = s.int(8)
	h.Trimmed = int64(uint64(sum) >> seqBits)
	return h, sum
}

// readRecord returns a record with the head of its log; Version is 0 when
// there is no record. One that does not match its sum comes with a *Damage, and
// so does one whose head does not.
func readRecord(c *conn, key tidemark.Key) (r tidemark.Record, err error) {
	found := false
	var wrong error
	err = c.do(sqlRecord, func(s *stmt) {
		s.setText(1, key.Kind)
		s.setText(2, key.ID)
	}, func(s *stmt) {
		found = true
		r, wrong = scanRecord(s, key)
	})
	switch {
	case err == nil && !found:
		var h head
		h, err = readHead(c, key) // a log may have no record
		r = tidemark.Record{Key: key, Head: h.Head}
	case err == nil:
		err = wrong
	}
	if err != nil {
		return tidemark.Record{Key: key}, err
	}
	return r, nil
}

// scanRecord returns the record of a row, or a *Damage as readRecord does.
func scanRecord(s *stmt, key tidemark.Key) (tidemark.Record, error) {
	r := tidemark.Record{Key: key, Version: s.int(9), Group: s.text(10), State: s.text(11), UpdatedAt: timeOf(s.int(13)), Batch: s.text(14), Body: s.bytes(16)}
	if !s.null(12) {
		r.Due = timeOf(s.int(12))
	}
	if !s.null(0) {
		h, sum := scanHead(s)
		if err := h.check(key, sum); err != nil {
			return tidemark.Record{Key: key}, err
		}
		r.Head = h.Head
	}
	sum := s.int(15)
	if r.Sum = uint32(sum); sum != int64(r.Sum) || r.Sum != r.Checksum() || r.Version < 1 {
		return tidemark.Record{Key: key}, &tidemark.Damage{Key: key, Place: "table record", What: "the record does not match its sum"}
	}
	return r, nil
}

// scanner reads the rows of one page. Lines of one batch share its id, and there
// are few kinds, so these strings are allocated once; small bodies share memory.
type scanner struct {
	log   tidemark.Key
	kinds [4]string // the newest ones first
	batch string
	rows  int    // how many may still come
	chunk []byte // memory for the next bodies
}

// kind returns a text that many rows have.
func (sc *scanner) kind(v []byte) string {
	for i, kind := range sc.kinds {
		if kind == string(v) {
			return sc.kinds[i]
		}
	}
	copy(sc.kinds[1:], sc.kinds[:])
	sc.kinds[0] = string(v)
	return sc.kinds[0]
}

// Bodies up to smallBody bytes are kept in chunks of at most chunkBytes, which is as
// much as somebody keeps who keeps one of them.
const (
	smallBody  = 512
	chunkBytes = 4 << 10
)

// keep returns a copy of v; an empty value is nil.
func (sc *scanner) keep(v []byte) []byte {
	n := len(v)
	if n > cap(sc.chunk) {
		if n > smallBody || sc.rows <= 1 {
			return slices.Clone(v)
		}
		sc.chunk = make([]byte, 0, max(n, min(chunkBytes, n*sc.rows)))
	}
	if n == 0 {
		return nil
	}
	kept := append(sc.chunk[:0:n], v...)
	sc.chunk = sc.chunk[n:n:cap(sc.chunk)]
	return kept
}

// line returns the line of a row with lineColumns.
func (sc *scanner) line(s *stmt) (tidemark.Line, error) {
	f := s.fields()
	l, ok := sc.lineOf(s.int(0), &f)
	if !ok {
		return tidemark.Line{Seq: l.Seq}, sc.damage(s.int(0), "the line does not match its sum")
	}
	return l, nil
}

const sqlLine = `SELECT ` + lineColumns + ` FROM line WHERE id = ?1`

// next returns the line of a row of the statement of sqlPage.
func (sc *scanner) next(s *stmt) (l tidemark.Line, err error) {
	if s.c.standing {
		return sc.line(s)
	}
	id := s.int(0)
	if f, ok := fieldsOf(s.record()); ok {
		if l, ok = sc.lineOf(id, &f); ok {
			return l, nil
		}
	}
	failed := error(&sqliteError{lib.SQLITE_CORRUPT, "a line is not where it was"})
	again := s.c.do(sqlLine, func(s *stmt) { s.setInt(1, id) }, func(s *stmt) {
		l, err = sc.line(s)
		failed = nil
	})
	return l, cmp.Or(again, failed, err)
}

// lineOf reports false when the fields do not match their sum; then only Seq counts.
func (sc *scanner) lineOf(id int64, f *lineFields) (l tidemark.Line, ok bool) {
	if string(f.batch) != sc.batch {
		sc.batch = string(f.batch)
	}
	l = tidemark.Line{Seq: id & maxSeq, Kind: sc.kind(f.kind), Key: string(f.key), At: timeOf(f.at), Batch: sc.batch, Sum: uint32(f.sum),
		Position: tidemark.Position{Parent: f.parent, Depth: f.depth, Nodes: f.nodes, Turn: f.turn}}
	l.Chain, l.Body = sc.keep(f.chain), sc.keep(f.body)
	sc.rows--
	return l, f.sum == int64(l.Sum) && l.Sum == l.Checksum(sc.log)
}

func (sc *scanner) damage(id int64, what string) error {
	return &tidemark.Damage{Key: sc.log, Seq: id & maxSeq, Place: fmt.Sprintf("line %d of log %d", id&maxSeq, id>>seqBits), What: what}
}
