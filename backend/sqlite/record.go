package sqlite

import (
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// A tail reads 50 rows of 12 columns, and to hand one column over costs SQLite as much
// as to step to the next row. So a page of lines is read as whole records: a statement
// asks for one column, and the others are taken from the record where SQLite found it,
// in the format that https://sqlite.org/fileformat2.html#record_format lays down. What
// is not as expected there (a record that continues on other pages, a value of another
// type, a sum that does not match) is left to the columns: nothing is called damaged
// because of what is read here.

// lineFields are the values of a row of table line except its id. Texts and bytes are
// valid until the next step.
type lineFields struct {
	kind, key, chain, batch, body       []byte
	at, parent, depth, nodes, turn, sum int64
}

// fields reads the columns of lineColumns.
func (s *stmt) fields() lineFields {
	return lineFields{kind: s.view(1), key: s.view(2), at: s.int(3), parent: s.int(4), depth: s.int(5), nodes: s.int(6), turn: s.int(7),
		chain: s.view(8), batch: s.view(9), sum: s.int(10), body: s.view(11)}
}

// record returns the bytes of the row that step has reached in the table that s reads
// from, valid until the next step; nil when they do not lie on one page. A column of
// the row has to be among those that s returns, or SQLite has not looked for it.
func (s *stmt) record() []byte {
	v := *(**lib.TVdbe)(unsafe.Pointer(&s.p))
	if v.FnCursor < 1 || v.FapCsr == 0 {
		return nil
	}
	first := **(**uintptr)(unsafe.Pointer(&v.FapCsr))
	if first == 0 {
		return nil
	}
	c := *(**lib.TVdbeCursor)(unsafe.Pointer(&first))
	if c.FeCurType != lib.CURTYPE_BTREE || c.FisTable == 0 || c.FnullRow != 0 || c.FdeferredMoveto != 0 || c.FaRow == 0 || c.FszRow < c.FpayloadSize {
		return nil
	}
	return libc.GoBytes(c.FaRow, int(c.FpayloadSize))
}

// fieldsOf takes a record of table line apart. It reports false for one that only
// SQLite can read, or nobody.
func fieldsOf(record []byte) (f lineFields, ok bool) {
	var r recordReader
	if !r.open(record) || r.kind() != 0 {
		return f, false // instead of the id, which is the key of the row, the record has NULL
	}
	f.kind, f.key = r.bytes(), r.bytes()
	f.at, f.parent, f.depth, f.nodes, f.turn = r.int(), r.int(), r.int(), r.int(), r.int()
	f.chain, f.batch, f.sum, f.body = r.bytes(), r.bytes(), r.int(), r.bytes()
	return f, !r.odd && len(r.kinds) == 0 && len(r.values) == 0
}

// recordReader reads the columns of a record one after the other. A record is the kinds
// of its values, and then the values.
type recordReader struct {
	kinds, values []byte // those that are left
	odd           bool   // there was something that is not as expected
}

func (r *recordReader) open(record []byte) bool {
	r.kinds = record
	size := r.kind() // of itself and of the kinds
	before := len(record) - len(r.kinds)
	if r.odd || size < before || size > len(record) {
		return false
	}
	r.kinds, r.values = record[before:size], record[size:]
	return true
}

// kind reads a number of seven bits a byte, the highest first. Those of a record on one
// page have three bytes at most.
func (r *recordReader) kind() int {
	n := 0
	for i := 0; i < len(r.kinds) && i < 3; i++ {
		n = n<<7 | int(r.kinds[i]&0x7f)
		if r.kinds[i] < 0x80 {
			r.kinds = r.kinds[i+1:]
			return n
		}
	}
	r.odd = true
	return 0
}

func (r *recordReader) value(size int) []byte {
	if size > len(r.values) {
		r.odd = true
		return nil
	}
	v := r.values[:size:size]
	r.values = r.values[size:]
	return v
}

// bytes reads a text or a blob; an empty one, and NULL, is nil.
func (r *recordReader) bytes() []byte {
	const texts = 12 // from here on: twice the length, and one for a text
	kind := r.kind()
	if kind == 0 {
		return nil
	}
	if kind < texts {
		r.odd = true
		return nil
	}
	v := r.value((kind - texts) / 2)
	if len(v) == 0 {
		return nil
	}
	return v
}

// intBytes is how long integers of the kinds 1 to 6 are.
var intBytes = [...]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}

func (r *recordReader) int() int64 {
	const zero, one = 8, 9 // have no bytes
	kind := r.kind()
	if kind == zero || kind == one {
		return int64(kind - zero)
	}
	if kind == 0 || kind >= len(intBytes) {
		r.odd = true
		return 0
	}
	v := r.value(intBytes[kind])
	if r.odd {
		return 0
	}
	n := int64(int8(v[0]))
	for _, c := range v[1:] {
		n = n<<8 | int64(c)
	}
	return n
}
