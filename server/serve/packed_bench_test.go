package serve_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// BenchmarkPacked reads pages from the middle of sessions on PostgreSQL, and sessions
// whole: from rows, and from segments in the database that are not in memory. What the
// tables take is logged. Bodies are pieces of the sources of this repository.
func BenchmarkPacked(b *testing.B) {
	made := pgtest.Start(b).Database(b)
	if err := postgres.Migrate(b.Context(), made.Owner, made.Role); err != nil {
		b.Fatal(err)
	}
	db, err := postgres.Connect(b.Context(), made.Server, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	rows := db.For(tidemark.TenantOf("acme", "ada"))
	var logs []tidemark.Key
	lines, bytes := int64(0), 0
	for chunk := range sources(b) { // more than is kept in memory, so that each is read anew
		log := tidemark.Key{Kind: "session", ID: string(tidemark.NewSessionID())}
		a := tidemark.Append{Log: log}
		for i, body := range chunk {
			l := backendtest.NewLine(log, int64(i)+1, body)
			l.Key = tidemark.NewBatchID()
			l.Sum = l.Checksum(log)
			a.Lines = append(a.Lines, l)
			bytes += len(body)
		}
		batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Appends: []tidemark.Append{a}}
		if _, err := rows.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		logs, lines = append(logs, log), lines+int64(len(chunk))
	}
	over := cold.NewPlaces(nil).Lend(rows, cold.Here)
	run := func(name string) {
		for what, span := range map[string]tidemark.Span{"page": {From: 200, To: 249}, "all": {}} {
			b.Run(name+"/"+what, func(b *testing.B) {
				n, i := 0, 0
				for b.Loop() {
					i++
					for _, err := range over.Lines(b.Context(), logs[i%len(logs)], span) {
						if n++; err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/line")
			})
		}
	}
	size := sizeOf(b, made)
	b.Logf("%d lines, %d bytes a line, %d in the tables", lines, int64(bytes)/lines, size/lines)
	run("rows")
	for _, log := range logs {
		if _, err := over.Move(b.Context(), log); err != nil {
			b.Fatal(err)
		}
	}
	run("packed")
	size = sizeOf(b, made)
	b.Logf("%d in the tables when all but the newest 64 of each session are packed", size/lines)
}

// sources yields what is in sessions of 1,000 lines.
func sources(b *testing.B) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		var chunk []string
		walk := func() error {
			return filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
				if err != nil || !strings.HasSuffix(path, ".go") {
					return err
				}
				text, err := os.ReadFile(path)
				for ; len(text) > 0; text = text[min(len(text), 800):] {
					if chunk = append(chunk, `{"blocks":[{"type":"text","text":`+string(text[:min(len(text), 800)])+`}]}`); len(chunk) == 1000 {
						if !yield(chunk) {
							return filepath.SkipAll
						}
						chunk = nil
					}
				}
				return err
			})
		}
		for range 4 {
			if err := walk(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// sizeOf is what the tables of records, logs and lines take, without dead rows.
func sizeOf(b *testing.B, made *pgtest.Database) (n int64) {
	conn, err := pgx.Connect(b.Context(), made.Super)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, table := range []string{"tidemark.line", "tidemark.log", "tidemark.record"} {
		var size int64
		if _, err := conn.Exec(b.Context(), "vacuum full "+table); err != nil {
			b.Fatal(err)
		}
		if err := conn.QueryRow(b.Context(), "select pg_total_relation_size($1::text::regclass)", table).Scan(&size); err != nil {
			b.Fatal(err)
		}
		n += size
	}
	return n
}
