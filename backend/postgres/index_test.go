package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// indexed returns what the index has to know of a log of n lines.
func indexed(log tidemark.Key, n int64) (lines []tidemark.Indexed) {
	for seq := int64(1); seq <= n; seq++ {
		lines = append(lines, tidemark.Indexed{Log: log, Seq: seq, At: at, Words: []string{"tide", fmt.Sprint("word", seq)}})
	}
	return lines
}

func logOf(t *testing.T, b *Backend, n int64) tidemark.Key {
	t.Helper()
	log := key("session", string(tidemark.NewSessionID()))
	var lines []tidemark.Line
	for seq := int64(1); seq <= n; seq++ {
		lines = append(lines, line(log, seq, "user", "{}"))
	}
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, "{}")}, Appends: []tidemark.Append{{Log: log, Lines: lines}}})
	return log
}

func checked(t *testing.T, b *Backend) {
	t.Helper()
	for err := range b.Check(t.Context()) {
		t.Error(err)
	}
}

// hitsOf counts the lines that have a word.
func hitsOf(t *testing.T, b *Backend, word string) int {
	t.Helper()
	return count(t, b.Search(t.Context(), tidemark.IndexQuery{All: [][]tidemark.Term{{{Word: word}}}}))
}

func TestWhileWordsAreAddedTheLogCanBeAppendedTo(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	b := db.For(ada)
	log := logOf(t, b, 3)
	x := &indexing{b: b, lines: indexed(log, 3)}
	begun := 0
	err := b.inTransaction(t.Context(), func(tx pgx.Tx) error {
		now, err := x.look(t.Context(), tx, x.lines)
		if err != nil {
			return err
		}
		x.begun = now
		if _, err := x.addWords(t.Context(), tx, x.lines, now); err != nil {
			return err
		}
		// Whoever appends takes the log; without waiting, to see that nobody has it.
		return b.inTransaction(t.Context(), func(other pgx.Tx) error {
			begun++
			_, err := other.Exec(t.Context(), `select from tidemark.log l where l.tenant = $1 and l.owner = $2 and l.kind = $3 and l.id = $4 for no key update nowait`,
				b.who.tenant, b.who.user, log.Kind, log.ID)
			return err
		})
	})
	if err != nil || begun != 1 {
		t.Errorf("the log was taken after %d tries: %v", begun, err)
	}
}

// What changes between the look at a log and the note of how far it is indexed
// makes the transaction start over, and nothing of the first try stays.
func TestIndexingStartsOverWhenTheLogChangesMeanwhile(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	b := db.For(ada)
	for name, change := range map[string]func(t *testing.T, log tidemark.Key){
		"indexed by another": func(t *testing.T, log tidemark.Key) {
			if err := b.Index(t.Context(), indexed(log, 2)[1]); err != nil {
				t.Error(err)
			}
		},
		"shared": func(t *testing.T, log tidemark.Key) {
			if err := b.Share(t.Context(), tidemark.SessionID(log.ID), tidemark.Scope{With: tidemark.InTenant}); err != nil {
				t.Error(err)
			}
		},
		"appended to": func(t *testing.T, log tidemark.Key) {
			keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 4, "user", "{}")}}}})
		},
		"dropped": func(t *testing.T, log tidemark.Key) {
			keep(t, b, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: log, Version: 1}}, Drops: []tidemark.Key{log}})
		},
		"made anew": func(t *testing.T, log tidemark.Key) {
			keep(t, b, tidemark.Batch{Deletes: []tidemark.Precondition{{Key: log, Version: 1}}, Drops: []tidemark.Key{log}})
			keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 1, "user", "{}")}}}})
		},
		"emptied": func(t *testing.T, _ tidemark.Key) {
			if err := b.Unindex(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := logOf(t, b, 3)
			from := 1
			if name == "made anew" {
				from = 0 // or the new log would differ in how far it is indexed, too
			}
			if err := b.Index(t.Context(), indexed(log, 3)[:from]...); err != nil {
				t.Fatal(err)
			}
			x := &indexing{b: b, lines: indexed(log, 3)[from:]}
			once := sync.OnceFunc(func() { change(t, log) })
			err := b.inTransaction(context.Background(), func(tx pgx.Tx) error {
				now, err := x.look(context.Background(), tx, x.lines)
				if err != nil {
					return err
				}
				if x.begun == nil {
					x.begun = now
				}
				once()
				return x.add(context.Background(), tx, x.lines, now)
			})
			if name == "emptied" { // line 2 is no longer the next
				if err == nil {
					t.Error("lines behind a gap were indexed")
				}
			} else if err != nil {
				t.Error(err)
			}
			checked(t, b)
		})
	}
}

func TestTwoWhoIndexTheSameLinesAddThemOnce(t *testing.T) {
	db := connected(t, ready(t, Migration{}).Server, nil)
	b := db.For(ada)
	const lines = 40
	logs := []tidemark.Key{logOf(t, b, lines), logOf(t, b, lines), logOf(t, b, lines)}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			all := slices.Concat(indexed(logs[0], lines), indexed(logs[1], lines), indexed(logs[2], lines))
			for len(all) > 0 {
				n := min(7, len(all))
				b.Index(context.Background(), all[:n]...) // the others were quicker: a conflict
				all = all[n:]
			}
		})
	}
	wg.Wait()
	for lag, err := range b.Unindexed(t.Context(), "session") {
		if err != nil {
			t.Fatal(err)
		}
		var left []tidemark.Indexed
		for _, l := range indexed(lag.Log, lines) {
			if l.Seq >= lag.From {
				left = append(left, l)
			}
		}
		if err := b.Index(t.Context(), left...); err != nil {
			t.Fatal(err)
		}
	}
	if n := hitsOf(t, b, "tide"); n != lines*len(logs) {
		t.Errorf("%d hits, want %d", n, lines*len(logs))
	}
	if n := tellOneAs[int64](t, b, `select count(*) from tidemark.word`); n != 2*lines*int64(len(logs)) {
		t.Errorf("%d rows of words, want %d", n, 2*lines*len(logs))
	}
	checked(t, b)
}

// tellOneAs asks as the principal of a Backend.
func tellOneAs[T any](t *testing.T, b *Backend, sql string) (v T) {
	t.Helper()
	err := b.query(t.Context(), namedLogs{}, func(batch *pgx.Batch) {
		batch.Queue(sql).QueryRow(func(row pgx.Row) error { return row.Scan(&v) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}
