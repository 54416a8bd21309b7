package sqlite

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

// bare opens a store and returns a connection to it.
func bare(t *testing.T) *conn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	b, err := Open(t.Context(), path, &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, forWriting)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// anyRow inserts a row of table line with values of many sizes.
func anyRow(t *testing.T, c *conn, id int64) {
	t.Helper()
	number := func() int64 {
		edges := [...]int64{0, 1, 2, 127, 128, 255, 32767, 32768, 1<<23 - 1, 1 << 23, math.MaxInt32, math.MaxInt32 + 1, 1<<47 - 1, 1 << 47, math.MaxInt64}
		n := edges[rand.IntN(len(edges))]
		if rand.IntN(2) == 0 {
			n = -n - 1
		}
		return n
	}
	words := func(n int) []byte { return bytes.Repeat([]byte("tide\x00é"), n/7+1)[:n] }
	sizes := [...]int{0, 1, 57, 58, 59, 200, 1000, 8000, 8100, 9000, 40_000}
	if id > 1000 {
		sizes = [...]int{0, 1, 10, 57, 58, 59, 60, 100, 127, 128, 200} // many on a page
	}
	err := c.do(sqlAppend, func(s *stmt) {
		s.setInt(1, id)
		s.setText(2, strings.Repeat("k", rand.IntN(40)))
		if rand.IntN(2) == 0 {
			s.setNull(3)
		} else {
			s.setBytes(3, words(rand.IntN(200)), true)
		}
		for i := 4; i <= 8; i++ {
			s.setInt(i, number())
		}
		s.setChain(9, words(rand.IntN(3)*16))
		s.setText(10, strings.Repeat("b", rand.IntN(70)))
		s.setInt(11, number())
		s.setBytes(12, words(sizes[rand.IntN(len(sizes))]), rand.IntN(2) == 0)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func TestARecordHasTheValuesOfItsColumns(t *testing.T) {
	c := bare(t)
	if err := c.run("DROP INDEX line_key"); err != nil { // keys are made up
		t.Fatal(err)
	}
	const rows = 3000
	for i := range rows {
		anyRow(t, c, int64(i+1))
	}
	for _, sql := range []string{sqlForwards, sqlBackwards} {
		seen, whole, beside := 0, 0, 0
		err := c.do(sql, func(s *stmt) { s.setInt(1, 0); s.setInt(2, rows) }, func(s *stmt) {
			seen++
			record := s.record()
			if record == nil {
				return
			}
			whole++
			if leaf, ok := s.leaf(); ok {
				beside++
				if id, again := leaf.row(); id != s.int(0) || !bytes.Equal(again, record) {
					t.Fatalf("row %d: the page has row %d of %d bytes there, not of %d", s.int(0), id, len(again), len(record))
				}
			}
			got, ok := fieldsOf(record)
			if !ok {
				t.Fatalf("row %d: its record was not read", s.int(0))
			}
			err := c.do(sqlLine, func(again *stmt) { again.setInt(1, s.int(0)) }, func(again *stmt) {
				if d := cmp.Diff(again.fields(), got, cmp.AllowUnexported(lineFields{})); d != "" {
					t.Fatalf("row %d: %s", s.int(0), d)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		if err != nil || seen != rows || whole < rows/2 || whole == rows || beside < rows/4 {
			t.Errorf("%d rows, %d of them on one page and %d beside many, %v", seen, whole, beside, err)
		}
	}
}

// Lines of any length come as they were kept, in both directions, also those that
// continue on other pages.
func TestLinesOfEveryLengthAreRead(t *testing.T) {
	b := made(t)
	log := tidemark.Key{Kind: "session", ID: "s"}
	a := tidemark.Append{Log: log}
	for i := range 300 {
		l := tidemark.Line{Seq: int64(i + 1), Kind: "user", At: timeOf(int64(i)), Body: bytes.Repeat([]byte{byte(i)}, i%100*i/5)}
		if i%3 == 0 {
			l.Chain = bytes.Repeat([]byte{7}, i%64)
		}
		if len(l.Body) == 0 {
			l.Body = nil
		}
		if len(l.Chain) == 0 {
			l.Chain = nil
		}
		l.Sum = l.Checksum(log)
		a.Lines = append(a.Lines, l)
	}
	batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: timeOf(1), Appends: []tidemark.Append{a}}
	if _, err := b.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for _, backwards := range []bool{false, true} {
		i := 0
		for l, err := range b.Lines(t.Context(), log, tidemark.Span{Backwards: backwards}) {
			if err != nil {
				t.Fatal(err)
			}
			want := batch.StampLine(a.Lines[i])
			if backwards {
				want = batch.StampLine(a.Lines[len(a.Lines)-1-i])
			}
			if d := cmp.Diff(want, l); d != "" {
				t.Fatal(d)
			}
			i++
		}
		if i != len(a.Lines) {
			t.Errorf("%d lines came", i)
		}
	}
}

// The room of a page is used again: what was yielded from it stays, also while others
// are read.
func TestLinesThatAreKeptStayWhileOthersAreRead(t *testing.T) {
	b := made(t)
	var logs []tidemark.Key
	for _, id := range []string{"a", "b"} {
		log := tidemark.Key{Kind: "session", ID: id}
		a := tidemark.Append{Log: log}
		for seq := range int64(600) {
			l := tidemark.Line{Seq: seq + 1, Kind: "user", At: timeOf(seq), Body: fmt.Appendf(nil, "%s %d", id, seq+1)}
			l.Sum = l.Checksum(log)
			a.Lines = append(a.Lines, l)
		}
		keep(t, b, tidemark.Batch{Appends: []tidemark.Append{a}})
		logs = append(logs, log)
	}
	var kept []tidemark.Line
	for l, err := range b.Lines(t.Context(), logs[0], tidemark.Span{From: 1, To: 300}, tidemark.Span{Newest: 300, Backwards: true}) {
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, l)
		for other, err := range b.Lines(t.Context(), logs[1], tidemark.Span{Newest: 3}) {
			if err != nil || !bytes.HasPrefix(other.Body, []byte("b ")) {
				t.Fatalf("%q, %v", other.Body, err)
			}
		}
	}
	if len(kept) != 600 {
		t.Fatalf("%d lines", len(kept))
	}
	for i, l := range kept {
		seq := i + 1
		if i >= 300 {
			seq = 900 - i
		}
		if want := fmt.Sprint("a ", seq); string(l.Body) != want || l.Seq != int64(seq) || l.Sum != l.Checksum(logs[0]) {
			t.Fatalf("line %d is %d, %q; want %q", i, l.Seq, l.Body, want)
		}
	}
}

// A record is parsed wherever the file is damaged, so nothing that it holds may end
// the program.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{13, 0, 21, 0, 1, 1, 1, 1, 1, 0, 15, 4, 15})
	f.Add([]byte{0x81, 0x80, 0x80, 0})
	f.Add([]byte{2, 0x81})
	f.Fuzz(func(t *testing.T, record []byte) {
		fields, ok := fieldsOf(record)
		if n := len(fields.kind) + len(fields.key) + len(fields.chain) + len(fields.batch) + len(fields.body); ok && n > len(record) {
			t.Errorf("%d bytes out of a record of %d", n, len(record))
		}
		l := leaf{page: append(record, make([]byte, 1<<9)...)[:1<<9], mask: 1<<9 - 1, most: 1 << 9}
		for l.cells = l.page[:64]; l.move(1); {
			l.row()
		}
	})
}
