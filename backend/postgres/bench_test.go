package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

const benchBody = `{"blocks":[{"type":"text","text":"How deep is the water at the pier when the tide is in, and how does it change over the day?"}]}`

// contender is one of several ways to do the same. do is called by writers
// 0, 1, 2 … at once.
type contender struct {
	name string
	do   func(writer int) error
}

// race lets the contenders take turns, so that a busy machine is as busy for
// one as for the other. An operation of the benchmark is a round of them all;
// what is reported is the median, in microseconds, of what one call took of
// the time, and how many times as long as the first contender that is.
func race(b *testing.B, writers, calls int, all ...contender) {
	b.Helper()
	took := make([][]float64, len(all))
	turn := func(c contender) float64 {
		var wg sync.WaitGroup
		var left atomic.Int64
		left.Store(int64(calls))
		begin := time.Now()
		for w := range writers {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if err := c.do(w); err != nil {
						b.Errorf("%s: %v", c.name, err)
						return
					}
				}
			})
		}
		wg.Wait()
		return float64(time.Since(begin).Microseconds()) / float64(calls)
	}
	for _, c := range all { // connections, plans, first lines
		turn(c)
	}
	for b.Loop() {
		for i, c := range all {
			took[i] = append(took[i], turn(c))
		}
	}
	first := median(took[0])
	for i, c := range all {
		b.ReportMetric(median(took[i]), c.name+"-µs")
		if i > 0 {
			b.ReportMetric(median(took[i])/first, c.name+"/"+all[0].name)
		}
	}
	b.ReportMetric(0, "ns/op") // a round says nothing
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// durable starts a server that syncs, as one in use does.
func durable(b *testing.B) *pgtest.Database {
	b.Helper()
	db := pgtest.New(b, pgtest.Options{Synced: true, Settings: map[string]string{"max_connections": "250"}}).Database(b)
	if err := Migrate(context.Background(), db.Owner, db.Role); err != nil {
		b.Fatal(err)
	}
	return db
}

// bare is what PostgreSQL does at best: one INSERT of the same columns in one
// round trip, without rules, each in a transaction of its own.
func bare(b *testing.B, url string, writers int) contender {
	b.Helper()
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = int32(writers)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	for _, sql := range []string{`drop table if exists bare`, `create table bare (like tidemark.line, primary key (tenant, owner, log, seq))`} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			b.Fatal(err)
		}
	}
	who := connected(b, url, &Options{Unchecked: true}).For(ada).who
	logs, seqs := make([]id, writers), make([]int64, writers)
	for i := range logs {
		logs[i] = newLogID()
	}
	return contender{"bare", func(w int) error {
		seqs[w]++
		_, err := pool.Exec(ctx, `insert into bare values ($1, $2, $3, $4, 'user', null, $5, $4, $4, 0, 0, null, $6, 1, $7)`,
			who.tenant, who.user, logs[w], seqs[w], at, tidemark.NewBatchID(), []byte(benchBody))
		return err
	}}
}

// through appends one line a commit, each writer to a session of its own that
// it holds the lease of, as in use. Writers share the Backends.
func through(b *testing.B, name string, writers int, backends ...*Backend) contender {
	b.Helper()
	logs, seqs := make([]tidemark.Key, writers), make([]int64, writers)
	for i := range logs {
		logs[i], seqs[i] = key("session", string(tidemark.NewSessionID())), 1
		keep(b, backends[i%len(backends)], tidemark.Batch{Puts: []tidemark.Record{record(logs[i], 1, `{"title":"tides"}`), record(key("lease", logs[i].ID), 1, `{"token":1}`)},
			Appends: []tidemark.Append{{Log: logs[i], Lines: []tidemark.Line{line(logs[i], 1, "user", benchBody)}}}})
	}
	return contender{name, func(w int) error {
		seqs[w]++
		return commit(backends[w%len(backends)], tidemark.Batch{Require: []tidemark.Precondition{{Key: key("lease", logs[w].ID), Version: 1}},
			Appends: []tidemark.Append{{Log: logs[w], Lines: []tidemark.Line{line(logs[w], seqs[w], "user", benchBody)}}}})
	}}
}

// BenchmarkAppend compares an append as the server makes it with the same one
// as a superuser, whom no policy holds up, and with a bare INSERT.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			db := durable(b)
			race(b, writers, 200+20*writers, bare(b, db.Super, writers),
				through(b, "policies", writers, connected(b, db.Server, nil).For(ada)),
				through(b, "superuser", writers, connected(b, db.Super, &Options{Unchecked: true}).For(ada)))
		})
	}
}

// BenchmarkAppendOfManyPrincipals has a user of one tenant for each writer, in one
// process and in two.
func BenchmarkAppendOfManyPrincipals(b *testing.B) {
	const writers = 64
	db := durable(b)
	one, two, other := connected(b, db.Server, nil), connected(b, db.Server, nil), connected(b, db.Server, nil)
	var of1, of2 []*Backend
	for i := range writers {
		of1 = append(of1, one.For(tidemark.TenantOf("one", fmt.Sprint("ada-", i))))
		of2 = append(of2, []*Database{two, other}[i%2].For(tidemark.TenantOf("two", fmt.Sprint("ada-", i))))
	}
	race(b, writers, 20*writers, bare(b, db.Super, writers), through(b, "principals", writers, of1...), through(b, "two-nodes", writers, of2...))
}

// BenchmarkTail reads the newest 50 lines of logs of different lengths, and
// their heads.
func BenchmarkTail(b *testing.B) {
	made := ready(b, Migration{})
	db, super := connected(b, made.Server, nil), connected(b, made.Super, &Options{Unchecked: true})
	var all []contender
	for _, n := range []int64{100, 10_000, 100_000} {
		who := tidemark.TenantOf("acme", fmt.Sprint(n))
		log := key("session", string(tidemark.NewSessionID()))
		for from := int64(1); from <= n; from += 5000 {
			a := tidemark.Append{Log: log}
			for seq := from; seq < min(from+5000, n+1); seq++ {
				a.Lines = append(a.Lines, line(log, seq, "user", benchBody))
			}
			keep(b, db.For(who), tidemark.Batch{Appends: []tidemark.Append{a}})
		}
		all = append(all, tail(fmt.Sprint("policies-", n), db.For(who), log), tail(fmt.Sprint("superuser-", n), super.For(who), log))
		if n == 100_000 {
			be := db.For(who)
			all = append(all, contender{"head", func(int) error {
				_, err := be.Get(context.Background(), log)
				return err
			}})
		}
	}
	race(b, 1, 100, all...)
}

func tail(name string, be *Backend, log tidemark.Key) contender {
	return contender{name, func(int) error {
		lines := 0
		for _, err := range be.Lines(context.Background(), log, tidemark.Span{Newest: 50}) {
			if err != nil {
				return err
			}
			lines++
		}
		if lines != 50 {
			return fmt.Errorf("%d lines", lines)
		}
		return nil
	}}
}
