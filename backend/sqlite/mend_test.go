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
	index(t, b, toIndex(key("session", "s"), 1, 3, "fish"))
	if said := mended(t, b); said != "" {
		t.Errorf("Mend said %s", said)
	}
	if n := len(foundBy(t, b, allOf("fish"))); n != 3 {
		t.Errorf("%d found, want 3", n)
	}
}

func TestDamagedSearchIndexIsFoundAndMadeAnew(t *testing.T) {
	for what, sql := range map[string]string{
		"lost pages":            `DELETE FROM word_data WHERE id > 10`,
		"changed pages":         `UPDATE word_data SET block = zeroblob(length(block)) WHERE id > 10`,
		"no structure":          `DELETE FROM word_data`,
		"a line too many":       `INSERT INTO hit VALUES (7, (1 << 32) + 999)`,
		"a line too few":        `DELETE FROM hit WHERE id = (SELECT min(id) FROM hit)`,
		"a line without words":  `DELETE FROM word_docsize WHERE id = (SELECT min(id) FROM hit)`,
		"progress beyond a log": `UPDATE log SET indexed = 99`,
		"progress that lags":    `UPDATE log SET indexed = 2, behind = 0`,
	} {
		t.Run(what, func(t *testing.T) {
			b := made(t)
			log := key("session", "s")
			talk(t, b, log, 1, 40)
			index(t, b, toIndex(log, 1, 40, "fish", "bird"))
			harm(t, b, sql)
			b = opened(t, b.path, nil)
			if found := faults(t, b); len(found) == 0 {
				t.Error("Check finds nothing")
			}
			if said := mended(t, b); !strings.Contains(said, "search index") {
				t.Errorf("Mend said %q", said)
			}
			if found := faults(t, b); found != nil {
				t.Errorf("Check after Mend: %v", found)
			}
			if n := len(linesOf(t, b, log)); n != 40 {
				t.Errorf("%d lines, want 40", n)
			}
			index(t, b, toIndex(log, 1, 40, "fish"))
			if n := len(foundBy(t, b, allOf("fish"))); n != 40 {
				t.Errorf("%d found, want 40", n)
			}
		})
	}
}

func TestDamagedSearchIndexKeepsNobodyFromCommittingAndPurging(t *testing.T) {
	b := made(t)
	log, other := key("session", "s"), key("session", "other")
	talk(t, b, log, 1, 40)
	talk(t, b, other, 1, 40)
	index(t, b, toIndex(log, 1, 20, "fish"))
	harm(t, b, `DELETE FROM word_data`)
	b = opened(t, b.path, nil)
	for _, err := range b.Search(t.Context(), allOf("fish")) {
		if !errors.Is(err, tidemark.ErrCorrupt) {
			t.Errorf("Search = %v, want ErrCorrupt", err)
		}
	}
	if err := b.Index(t.Context(), toIndex(log, 21, 40, "fish")...); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Index = %v, want ErrCorrupt", err)
	}
	talk(t, b, log, 41, 41)
	keep(t, b, tidemark.Batch{Drops: []tidemark.Key{log}})
	if found := faults(t, b); found != nil {
		t.Errorf("Check after the purge: %v", found)
	}
	index(t, b, toIndex(other, 1, 40, "fish"))
	if n := len(foundBy(t, b, allOf("fish"))); n != 40 {
		t.Errorf("%d found, want 40", n)
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
	index(t, b, toIndex(log, 1, 300, "fish"))
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
	if n := len(foundBy(t, b, allOf("fish"))); n != 300 {
		t.Errorf("%d found, want 300", n)
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
