package hits_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// BenchmarkIndexInPostgres indexes entries of 30 words, so many at a time, merges
// included: what that writes ahead, what is kept, and how long it takes. Asked to catch
// up, an index is made under a lease, which is two commits more; behind a writer, as a
// server does it, it is not. There the time is that of gathering.
func BenchmarkIndexInPostgres(b *testing.B) {
	for _, one := range []struct {
		flush  int
		behind bool
	}{{10, false}, {50, false}, {2000, false}, {10, true}} {
		flush, name := one.flush, fmt.Sprint("flush=", one.flush)
		if one.behind {
			name += " behind a writer"
		}
		b.Run(name, func(b *testing.B) {
			made := pgtest.Start(b).Prepared(b, "", func(db *pgtest.Database) error {
				return postgres.Migrate(b.Context(), db.Owner, db.Role)
			})
			db, err := postgres.Connect(b.Context(), made.Server, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			super, err := pgx.Connect(b.Context(), made.Super)
			if err != nil {
				b.Fatal(err)
			}
			defer super.Close(b.Context())
			ask := func(sql string) (n int64) {
				if err := super.QueryRow(b.Context(), sql).Scan(&n); err != nil {
					b.Fatal(err)
				}
				return n
			}
			const written = `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`
			s := store.New(db.For(tidemark.TenantOf(tidemark.NewBatchID(), "ada")), &store.Options{Places: search.EachWord})
			words := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, 60_000)
			w := s.Create(tidemark.Session{}, store.Self("bench"))
			index := func() (int64, error) { return s.CatchUp(b.Context(), nil) }
			if one.behind {
				ctx, cancel := context.WithCancel(b.Context())
				var keeping sync.WaitGroup
				keeping.Go(func() { _ = s.KeepIndexed(ctx) }) // of which an error is that nothing is indexed any more
				defer keeping.Wait()
				defer cancel()
				index = func() (int64, error) {
					for {
						if n, err := s.Unindexed(b.Context(), 1); err != nil || n == 0 {
							return int64(flush), err
						}
						time.Sleep(10 * time.Millisecond)
					}
				}
			}
			var wal, lines int64
			var took time.Duration
			for b.Loop() {
				var entries []tidemark.Entry
				for range flush {
					text := make([]string, 30)
					for i := range text {
						text[i] = fmt.Sprintf("w%dx", words.Uint64())
					}
					entries = append(entries, tidemark.Say(tidemark.User, strings.Join(text, " ")))
				}
				if _, err := w.Append(b.Context(), entries...); err != nil {
					b.Fatal(err)
				}
				before, began := ask(written), time.Now()
				n, err := index()
				if err != nil {
					b.Fatal(err)
				}
				took += time.Since(began)
				wal, lines = wal+ask(written)-before, lines+n
			}
			live := ask(`select coalesce(sum(pg_column_size(n.*) + 28), 0)::bigint from tidemark.line n join tidemark.log l using (tenant, owner, log) where l.kind = 'segment'`)
			b.ReportMetric(float64(wal)/float64(lines), "WAL-B/entry")
			b.ReportMetric(float64(live)/float64(lines), "live-B/entry")
			if !one.behind {
				b.ReportMetric(float64(lines)/took.Seconds(), "entries/s")
			}
			b.ReportMetric(float64(lines), "entries")
			b.ReportMetric(0, "ns/op")
		})
	}
}
