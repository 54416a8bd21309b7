package sqlite

import (
	"testing"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
)

// cached is how much a connection has in its cache.
func (c *conn) cached() int32 {
	lib.Xsqlite3_db_status(c.tls, c.db, lib.SQLITE_DBSTATUS_CACHE_USED, c.out, c.out+4, 0)
	return libc.AtomicLoadPInt32(c.out)
}

func TestAStoreThatRestsGivesItsMemoryBack(t *testing.T) {
	b, log := made(t), tidemark.Key{Kind: "log", ID: "1"}
	talk(t, b, log, 1, 200)
	var all []*conn
	for range 3 {
		c, _, _, err := b.readers.take()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.number("SELECT count(*) FROM sqlite_schema"); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, c := range all {
		b.readers.give(c, b.readers.age)
	}
	linesOf(t, b, log)
	cached := func() int32 { return b.writer.c.cached() + all[2].cached() }
	before := cached()

	b.rest.uses.Store(fewUses + 1)
	b.rest.look()
	if n := len(b.readers.idle); n != 3 || cached() != before {
		t.Errorf("a store that is in use has %d connections of 3, and %d bytes cached of %d", n, cached(), before)
	}
	b.rest.look() // nobody used it since
	if n := len(b.readers.idle); n != 1 || b.readers.idle[0] != all[2] {
		t.Errorf("%d connections are left, want the one that was used last", n)
	}
	if after := cached(); after > before/4 {
		t.Errorf("%d bytes are cached, and %d were before the rest", after, before)
	}
	talk(t, b, log, 201, 202)
	if n := len(linesOf(t, b, log)); n != 202 {
		t.Errorf("after the rest there are %d lines, want 202", n)
	}
}
