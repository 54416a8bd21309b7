package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func mended(t *testing.T, b *Backend) (said string) {
	t.Helper()
	for s, err := range b.Mend(context.Background()) {
		if err != nil {
			t.Fatalf("Mend = %v", err)
		}
		said += s + "\n"
	}
	return said
}

func TestNothingIsMendedWhereNothingIsWrong(t *testing.T) {
	b := made(t)
	talk(t, b, key("session", "s"), 1, 3)
	if said := mended(t, b); said != "" {
		t.Errorf("Mend said %s", said)
	}
}

func TestDamagedIndexOfATableIsRebuilt(t *testing.T) {
	b := made(t)
	for i := range 20 {
		r := record(key("agent", fmt.Sprint("a", i)), 1, `{}`)
		r.Due = at
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{r}})
	}
	b.Close()
	raw := func(sql string) {
		t.Helper()
		c, err := openConn(b.path, forWriting)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		if err := c.run(sql); err != nil {
			t.Fatal(err)
		}
	}
	// The index is hidden while the table changes.
	raw(`CREATE TABLE aside AS SELECT * FROM sqlite_schema WHERE name = 'record_due'; PRAGMA writable_schema=ON; DELETE FROM sqlite_schema WHERE name = 'record_due'`)
	raw(`UPDATE record SET due = due + 1000000 WHERE id > 'a15'`)
	raw(`PRAGMA writable_schema=ON; INSERT INTO sqlite_schema SELECT * FROM aside`)
	raw(`DROP TABLE aside`)
	b = opened(t, b.path, nil)
	if found := faults(t, b); len(found) == 0 {
		t.Fatal("Check finds nothing")
	}
	if said := mended(t, b); !strings.Contains(said, "record_due") {
		t.Errorf("Mend said %q", said)
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check after Mend: %v", found)
	}
}

func TestRecordsGetBackTheirPlaceAndDamagedHeadsAreLeft(t *testing.T) {
	b := made(t)
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(key("session", "s"), 1, `{}`)}})
	talk(t, b, key("session", "s"), 1, 3)
	talk(t, b, key("session", "t"), 1, 3)
	harm(t, b, `UPDATE record SET touched = 5`)
	harm(t, b, `DELETE FROM line WHERE id = (2 << 32) + 3`)
	b = opened(t, b.path, nil)
	said := mended(t, b)
	for _, want := range []string{"session/s: its column touched", "left as it is", "tidemark verify"} {
		if !strings.Contains(said, want) {
			t.Errorf("Mend did not say %q:\n%s", want, said)
		}
	}
	if found := faults(t, b); len(found) != 1 {
		t.Errorf("Check after Mend: %v", found)
	}
}

func TestCompactGivesFreeSpaceBackAndKeepsTheRest(t *testing.T) {
	b := made(t)
	log, big := key("session", "s"), key("session", "big")
	talk(t, b, log, 1, 300)
	a := tidemark.Append{Log: big}
	for seq := int64(1); seq <= 400; seq++ {
		a.Lines = append(a.Lines, line(big, seq, "user", strings.Repeat("x", 10_000)))
	}
	keep(t, b, tidemark.Batch{Appends: []tidemark.Append{a}})
	keep(t, b, tidemark.Batch{Drops: []tidemark.Key{big}})
	n, err := b.Compact(t.Context())
	if err != nil || n < 3<<20 {
		t.Errorf("Compact = %d, %v; want some 4 MB", n, err)
	}
	if n, err := b.Compact(t.Context()); err != nil || n != 0 {
		t.Errorf("Compact again = %d, %v; want nothing", n, err)
	}
	if n := len(linesOf(t, b, log)); n != 300 {
		t.Errorf("%d lines, want 300", n)
	}
	talk(t, b, log, 301, 301)
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
	temp, _ := b.writer.c.number("PRAGMA temp_store")
	full, _ := b.writer.c.number("PRAGMA synchronous")
	if temp != 2 || full != 2 {
		t.Errorf("temp_store %d, synchronous %d; want 2, 2", temp, full)
	}
	for name := range contents(t, strings.TrimSuffix(b.path, "/store.db")) {
		if !strings.HasPrefix(name, "store.db") {
			t.Errorf("left %s", name)
		}
	}
}

func TestCompactThatIsGivenUpChangesNothing(t *testing.T) {
	b := made(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Compact(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Compact = %v, want context.Canceled", err)
	}
	talk(t, b, key("session", "s"), 1, 1)
}
