package sqlite

import (
	"encoding/binary"
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

// cursor returns where s stands in the table that it reads from; nil when it does not.
func (s *stmt) cursor() *lib.TVdbeCursor {
	v := *(**lib.TVdbe)(unsafe.Pointer(&s.p))
	if v.FnCursor < 1 || v.FapCsr == 0 {
		return nil
	}
	first := **(**uintptr)(unsafe.Pointer(&v.FapCsr))
	if first == 0 {
		return nil
	}
	c := *(**lib.TVdbeCursor)(unsafe.Pointer(&first))
	if c.FeCurType != lib.CURTYPE_BTREE || c.FisTable == 0 || c.FnullRow != 0 || c.FdeferredMoveto != 0 {
		return nil
	}
	return c
}

// record returns the bytes of the row that step has reached in the table that s reads
// from, valid until the next step; nil when they do not lie on one page. A column of
// the row has to be among those that s returns, or SQLite has not looked for it.
func (s *stmt) record() []byte {
	c := s.cursor()
	if c == nil || c.FaRow == 0 || c.FszRow < c.FpayloadSize {
		return nil
	}
	return libc.GoBytes(c.FaRow, int(c.FpayloadSize))
}

// leaf is a page of a table, and a row of it. The format is that of
// https://sqlite.org/fileformat2.html#b_tree_pages.
type leaf struct {
	page  []byte
	cells []byte // where each row begins, two bytes
	mask  int
	most  int // of what is longer, a part is on other pages
	at    int
}

// manyRows is how many rows a leaf has when they are read from it, and the next leaf is
// looked for: to step to the next row is quicker with fewer.
const manyRows = 12

// leaf returns the page of the row that step has reached, valid until the next step. It
// reports false where there are few rows on it.
func (s *stmt) leaf() (l leaf, ok bool) {
	c := s.cursor()
	if c == nil {
		return l, false
	}
	b := *(**lib.TBtCursor)(unsafe.Pointer(&c.Fuc.FpCursor))
	if b == nil || b.FeState != lib.CURSOR_VALID || b.FpPage == 0 {
		return l, false
	}
	p := *(**lib.TMemPage)(unsafe.Pointer(&b.FpPage))
	size := int(p.FmaskPage) + 1
	index := int(p.FaCellIdx - p.FaData)
	if p.FisInit == 0 || p.Fleaf == 0 || p.FintKeyLeaf == 0 || p.FnOverflow != 0 || p.FnCell < manyRows || b.Fix >= p.FnCell || p.FaData == 0 ||
		p.FaDataEnd != p.FaData+uintptr(size) || index < 0 || index+2*int(p.FnCell) > size {
		return l, false
	}
	l.page = libc.GoBytes(p.FaData, size)
	l.cells = l.page[index : index+2*int(p.FnCell)]
	l.mask, l.most, l.at = int(p.FmaskPage), int(p.FmaxLocal), int(b.Fix)
	return l, true
}

// move goes to the next row, in either direction; false: it is on another page.
func (l *leaf) move(step int) bool {
	l.at += step
	return l.at >= 0 && 2*l.at < len(l.cells)
}

// row returns the id of the row and its record; no record where it cannot be read here.
func (l *leaf) row() (id int64, record []byte) {
	b := l.page[int(binary.BigEndian.Uint16(l.cells[2*l.at:]))&l.mask:]
	size, n := varint(b)
	if n == 0 || size < 0 || size > int64(l.most) {
		return 0, nil
	}
	b = b[n:]
	if id, n = varint(b); n == 0 || int(size) > len(b)-n {
		return 0, nil
	}
	return id, b[n : n+int(size)]
}

// varint reads a number of up to nine bytes, and returns how many it has, 0: too few are
// there. Each but the ninth has seven bits, the highest first.
func varint(b []byte) (n int64, size int) {
	for i := 0; i < len(b); i++ {
		if i == 8 {
			return n<<8 | int64(b[i]), 9
		}
		if n = n<<7 | int64(b[i]&0x7f); b[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

// recordColumns is how many columns a record of table line has. The first is NULL: the
// id is the key of the row.
const recordColumns = 12

// fieldsOf takes a record of table line apart. It reports false for one that only
// SQLite can read, or nobody.
func fieldsOf(record []byte) (f lineFields, ok bool) {
	// A record is its kinds of values, behind the length of this part, and the values.
	size, at := kindAt(record, 0)
	if at == 0 || size < at || size > len(record) {
		return f, false
	}
	kinds, r := record[:size], recordReader{values: record[size:]}
	for i := range r.kinds {
		next := 0
		if r.kinds[i], next = kindAt(kinds, at); next == 0 {
			return f, false
		}
		at = next
	}
	if at != size || r.kinds[0] != 0 {
		return f, false
	}
	f.kind, f.key = r.bytes(1), r.bytes(2)
	f.at, f.parent, f.depth, f.nodes, f.turn = r.int(3), r.int(4), r.int(5), r.int(6), r.int(7)
	f.chain, f.batch, f.sum, f.body = r.bytes(8), r.bytes(9), r.int(10), r.bytes(11)
	return f, !r.odd && len(r.values) == 0
}

// kindAt reads a number of seven bits a byte, the highest first, and returns where the
// next begins; 0 when there is none. Those of a record on one page have three bytes at
// most.
func kindAt(b []byte, at int) (n, next int) {
	for i := at; i < len(b) && i < at+3; i++ {
		if n = n<<7 | int(b[i]&0x7f); b[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

// recordReader reads the columns of a record one after the other.
type recordReader struct {
	kinds  [recordColumns]int
	values []byte // those that are left
	odd    bool   // there was something that is not as expected
}

// bytes reads a text or a blob; an empty one, and NULL, is nil.
func (r *recordReader) bytes(column int) []byte {
	const texts = 12 // from here on: twice the length, and one for a text
	kind := r.kinds[column]
	n := (kind - texts) / 2
	if kind < texts || n > len(r.values) {
		r.odd = r.odd || kind != 0
		return nil
	}
	if n == 0 {
		return nil
	}
	v := r.values[:n:n]
	r.values = r.values[n:]
	return v
}

func (r *recordReader) int(column int) (n int64) {
	const zero, one = 8, 9 // have no bytes
	v, size := r.values, 0
	switch kind := r.kinds[column]; {
	case kind == zero || kind == one:
		return int64(kind - zero)
	case kind < 1 || kind > 6:
		r.odd = true
		return 0
	default:
		size = int([...]uint8{0, 1, 2, 3, 4, 6, 8}[kind])
	}
	if size > len(v) {
		r.odd = true
		return 0
	}
	r.values = v[size:]
	switch n = int64(int8(v[0])); size {
	case 2:
		return n<<8 | int64(v[1])
	case 4:
		return int64(int32(binary.BigEndian.Uint32(v)))
	case 8:
		return int64(binary.BigEndian.Uint64(v))
	}
	for _, c := range v[1:size] {
		n = n<<8 | int64(c)
	}
	return n
}
