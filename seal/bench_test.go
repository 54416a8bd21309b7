package seal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/seal"
)

// What a seal costs is reported as a ratio to the same work on the same kind
// of store without one, measured turn by turn in the same run.

var places = map[string]backendtest.Place{"memory": inMemory, "files": inFiles, "sqlite": inSQLite}

var benchBody = fmt.Sprintf(`{"blocks":[{"type":"text","text":%q}],"model":"demo"}`, fmt.Sprintf("%0160d", 7))

var benchLease = tidemark.Precondition{Key: key("lease", one), Version: 1}

// pair returns a plain store and a sealed one, each with a session and a
// lease.
func pair(b *testing.B, place backendtest.Place) (plain, sealed tidemark.Backend) {
	b.Helper()
	slot, _ := fileKey(b)
	plain = place(b)()
	sealed = must[*seal.Backend](b)(seal.Create(ctx, place(b)(), slot))
	for _, be := range []tidemark.Backend{plain, sealed} {
		keep(b, be, put(benchLease.Key, 1, `{"holder":"bench"}`))
		keep(b, be, says(logOne, 1, benchBody))
	}
	return plain, sealed
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func report(b *testing.B, plain, sealed time.Duration) {
	b.ReportMetric(float64(plain.Nanoseconds())/1e3/float64(b.N), "µs/plain")
	b.ReportMetric(float64(sealed.Nanoseconds())/1e3/float64(b.N), "µs/sealed")
	b.ReportMetric(float64(sealed)/float64(plain), "ratio")
}

func BenchmarkAppend(b *testing.B) {
	for name, place := range places {
		b.Run(name, func(b *testing.B) {
			plain, sealed := pair(b, place)
			var costs [2]time.Duration
			seq := int64(1)
			for b.Loop() {
				seq++
				batch := says(logOne, seq, benchBody)
				batch.Require = []tidemark.Precondition{benchLease}
				for i, be := range []tidemark.Backend{plain, sealed} {
					costs[i] += timed(func() { keep(b, be, batch) })
				}
			}
			report(b, costs[0], costs[1])
		})
	}
}

func BenchmarkTail50(b *testing.B) {
	for name, place := range places {
		b.Run(name, func(b *testing.B) {
			plain, sealed := pair(b, place)
			for seq := int64(2); seq < 2000; seq += 100 {
				bodies := make([]string, 100)
				for i := range bodies {
					bodies[i] = benchBody
				}
				keep(b, plain, says(logOne, seq, bodies...))
				keep(b, sealed, says(logOne, seq, bodies...))
			}
			tail := func(be tidemark.Backend) func() {
				return func() {
					for _, err := range be.Lines(ctx, logOne, tidemark.Span{Newest: 50}) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			var costs [2]time.Duration
			for b.Loop() {
				costs[0] += timed(tail(plain))
				costs[1] += timed(tail(sealed))
			}
			report(b, costs[0], costs[1])
		})
	}
}

// BenchmarkListFirstPage measures a first page of sessions whose data keys are not
// opened yet.
func BenchmarkListFirstPage(b *testing.B) {
	for name, place := range places {
		b.Run(name, func(b *testing.B) {
			slot, opens := fileKey(b)
			open := place(b)
			made := must[*seal.Backend](b)(seal.Create(ctx, open(), slot))
			for i := range 200 {
				keep(b, made, put(key("session", sessionID(i)), 1, benchBody))
			}
			page := func(be tidemark.Backend) func() {
				return func() {
					for _, err := range be.List(ctx, tidemark.Query{Kind: "session", Limit: 50}) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			var costs [2]time.Duration
			inner := open()
			for b.Loop() {
				fresh := must[*seal.Backend](b)(seal.Open(ctx, inner, opens))
				costs[0] += timed(page(inner))
				costs[1] += timed(page(fresh))
			}
			report(b, costs[0], costs[1])
		})
	}
}
