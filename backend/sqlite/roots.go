package sqlite

import "encoding/binary"

// When the schema cannot be trusted, the tables are found by their pages. Every
// page of a tree says what kind it is, and every row how many columns it has; a
// page that no other page refers to is the root of a tree.

// The kinds of pages of a tree, by their first byte.
const (
	innerIndex = 2
	innerTable = 5
	leafIndex  = 10
	leafTable  = 13
)

// treeKind returns b if a page of a tree may begin with it, else 0.
func treeKind(b byte) byte {
	switch b {
	case innerIndex, innerTable, leafIndex, leafTable:
		return b
	}
	return 0
}

// roots are the root pages of each table: one, unless a page above them is
// damaged.
type roots struct {
	record, log, line []int64
	logKey            []int64 // the index of log by kind and id
}

// page is what is known of one page of a tree.
type page struct {
	kind     byte
	children []int64
	columns  int    // of its first row; 0: no rows
	types    string // of the first three columns
}

// findRoots reads every page of the file once.
func findRoots(c *conn) (*roots, error) {
	pages := make(map[int64]*page)
	err := c.do(`SELECT pgno, data FROM sqlite_dbpage WHERE pgno > 1`, nil, func(s *stmt) {
		if p := parsePage(s.view(1)); p != nil {
			pages[s.int(0)] = p
		}
	})
	if err != nil {
		return nil, err
	}
	skip, err := freePages(c)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		for _, child := range p.children {
			skip[child] = true
		}
	}
	return sortRoots(pages, skip), nil
}

// freePages are the pages that hold nothing any more, whatever they look like:
// true, unless a page is part of the free list itself. A damaged list that loops
// ends where it meets itself.
func freePages(c *conn) (map[int64]bool, error) {
	free := make(map[int64]bool)
	at := func(page []byte, i int) int64 {
		if i+4 > len(page) {
			return 0
		}
		return int64(binary.BigEndian.Uint32(page[i:]))
	}
	for page, next := int64(1), 32; ; next = 0 {
		var data []byte
		err := c.do(`SELECT data FROM sqlite_dbpage WHERE pgno = ?1`, func(s *stmt) { s.setInt(1, page) }, func(s *stmt) { data = s.bytes(0) })
		if err != nil {
			return nil, err
		}
		if next == 0 {
			if len(data) < 8 || treeKind(data[0]) != 0 {
				return free, nil
			}
			free[page] = false
			for i := range min(at(data, 4), int64(len(data)/4-2)) {
				free[at(data, 8+4*int(i))] = true
			}
		}
		page = at(data, next)
		if _, met := free[page]; met || page == 0 {
			return free, nil
		}
	}
}

// sortRoots assigns each tree to a table by the columns of its first row. No two
// tables and indexes of ours have the same number of columns where it matters.
func sortRoots(pages map[int64]*page, skip map[int64]bool) *roots {
	r := new(roots)
	for number, p := range pages {
		if skip[number] {
			continue
		}
		switch leaf := firstRow(pages, number); {
		case leaf == nil:
		case leaf.kind == leafTable && leaf.columns == 12:
			r.line = append(r.line, number)
		case leaf.kind == leafTable && (leaf.columns == 11 || leaf.columns == 13):
			r.log = append(r.log, number)
		case p.kind == leafIndex || p.kind == innerIndex:
			switch {
			case leaf.columns == 11:
				r.record = append(r.record, number)
			case leaf.columns == 3 && leaf.types == "tti":
				r.logKey = append(r.logKey, number)
			}
		}
	}
	return r
}

// firstRow descends to the first page that has a row.
func firstRow(pages map[int64]*page, number int64) *page {
	for range 20 { // no tree is deeper
		p := pages[number]
		if p == nil || p.columns > 0 {
			return p
		}
		if len(p.children) == 0 {
			return nil
		}
		number = p.children[0]
	}
	return nil
}

// parsePage returns nil for a page that is not part of a tree.
func parsePage(data []byte) *page {
	if len(data) < 512 || treeKind(data[0]) == 0 {
		return nil
	}
	p := &page{kind: data[0]}
	cells, at := int(binary.BigEndian.Uint16(data[3:])), 8
	inner := p.kind == innerIndex || p.kind == innerTable
	if inner {
		at = 12
	}
	if at+2*cells > len(data) || data[7] > 60 {
		return nil
	}
	for i := range cells {
		cell := int(binary.BigEndian.Uint16(data[at+2*i:]))
		if cell < at+2*cells || cell+4 > len(data) {
			return nil
		}
		if inner {
			p.children = append(p.children, int64(binary.BigEndian.Uint32(data[cell:])))
			cell += 4
		}
		if i == 0 && p.kind != innerTable {
			p.columns, p.types = row(data[cell:], p.kind == leafTable)
		}
	}
	if inner {
		p.children = append(p.children, int64(binary.BigEndian.Uint32(data[8:])))
	}
	return p
}

// row tells how many columns the row of a cell has, and the types of the first
// three: t for text, i for an integer, ? for anything else.
func row(cell []byte, keyed bool) (columns int, types string) {
	_, n := number(cell) // of bytes
	cell = cell[n:]
	if keyed {
		_, n = number(cell)
		cell = cell[n:]
	}
	size, n := number(cell)
	if n == 0 || size < uint64(n) || size > uint64(len(cell)) {
		return 0, ""
	}
	for head := cell[n:size]; len(head) > 0; columns++ {
		t, n := number(head)
		if n == 0 {
			return 0, ""
		}
		head = head[n:]
		if columns < 3 {
			switch {
			case t >= 13 && t%2 == 1:
				types += "t"
			case t >= 1 && t <= 6 || t == 8 || t == 9:
				types += "i"
			default:
				types += "?"
			}
		}
	}
	return columns, types
}

// number reads an integer of one to nine bytes, as SQLite writes them, and
// returns how many it had; 0 when they end too early.
func number(b []byte) (v uint64, n int) {
	for n = range min(len(b), 9) {
		if n == 8 {
			return v<<8 | uint64(b[n]), 9
		}
		v = v<<7 | uint64(b[n]&0x7f)
		if b[n] < 0x80 {
			return v, n + 1
		}
	}
	return 0, 0
}
