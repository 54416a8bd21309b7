package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Speed is reported as ratios to the physical limit, measured in the same run:
// a plain write with a sync, or a plain read, of the same bytes.

var benchBody = []byte(`{"blocks":[{"type":"text","text":"` + fmt.Sprintf("%0160d", 7) + `"}],"model":"demo"}`)

func benchStore(b *testing.B) *Backend {
	b.Helper()
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "store.db"), &Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func benchLine(log tidemark.Key, seq int64) tidemark.Line {
	l := tidemark.Line{Seq: seq, Kind: "user", Body: benchBody, At: time.UnixMicro(1_790_000_000_000_000 + seq).UTC(),
		Position: tidemark.Position{Parent: seq - 1, Depth: seq, Nodes: seq, Turn: seq}}
	l.Sum = l.Checksum(log)
	return l
}

// benchSession makes a session with a lease, as an append meets it.
func benchSession(b *testing.B, s *Backend, id string) (log tidemark.Key, need tidemark.Precondition) {
	b.Helper()
	log, lease := tidemark.Key{Kind: "session", ID: id}, tidemark.Key{Kind: "lease", ID: id}
	keep(b, s, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, `{}`), record(lease, 1, `{}`)}})
	return log, tidemark.Precondition{Key: lease, Version: 1}
}

func benchAppend(b *testing.B, s *Backend, log tidemark.Key, need tidemark.Precondition, seq int64) {
	batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Require: []tidemark.Precondition{need},
		Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{benchLine(log, seq)}}}}
	if _, err := s.Commit(context.Background(), batch); err != nil {
		b.Error(err)
	}
}

// each returns the time of one of n calls, the median of five rounds.
func each(n int, call func(i int)) float64 {
	var rounds []float64
	for r := range 5 {
		start := time.Now()
		for i := range max(n/5, 1) {
			call(r*max(n/5, 1) + i)
		}
		rounds = append(rounds, float64(time.Since(start).Nanoseconds())/float64(max(n/5, 1)))
	}
	return median(rounds)
}

func median(v []float64) float64 {
	for i := range v {
		for j := i; j > 0 && v[j] < v[j-1]; j-- {
			v[j], v[j-1] = v[j-1], v[j]
		}
	}
	return v[len(v)/2]
}

// plainAppend is the limit of a durable append.
func plainAppend(b *testing.B) func(int) {
	f, err := os.Create(filepath.Join(b.TempDir(), "plain"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return func(int) {
		f.Write(benchBody)
		syncPlain(f)
	}
}

func BenchmarkAppend(b *testing.B) {
	s := benchStore(b)
	log, need := benchSession(b, s, "s")
	plain := plainAppend(b)
	var limit, ours []float64
	seq := int64(0)
	for b.Loop() {
		start := time.Now()
		plain(0)
		mid := time.Now()
		seq++
		benchAppend(b, s, log, need, seq)
		limit, ours = append(limit, float64(mid.Sub(start))), append(ours, float64(time.Since(mid)))
	}
	b.ReportMetric(mean(ours), "ns/append")
	b.ReportMetric(mean(ours)/mean(limit), "x-of-write+fdatasync")
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x
	}
	return m / float64(len(v))
}

func BenchmarkWriters(b *testing.B) {
	for _, writers := range []int{8, 64, 256} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			s := benchStore(b)
			logs, needs, seqs := make([]tidemark.Key, writers), make([]tidemark.Precondition, writers), make([]int64, writers)
			for w := range writers {
				logs[w], needs[w] = benchSession(b, s, fmt.Sprintf("7f3a0c1e-%04d", w))
			}
			var alone, together []float64
			for b.Loop() {
				alone = append(alone, each(100, func(i int) {
					seqs[i%writers]++
					benchAppend(b, s, logs[i%writers], needs[i%writers], seqs[i%writers])
				}))
				const rounds = 30
				start := time.Now()
				var wg sync.WaitGroup
				for w := range writers {
					wg.Go(func() {
						for range rounds {
							seqs[w]++
							benchAppend(b, s, logs[w], needs[w], seqs[w])
						}
					})
				}
				wg.Wait()
				together = append(together, float64(time.Since(start))/float64(rounds*writers))
			}
			b.ReportMetric(median(together), "ns/append")
			b.ReportMetric(median(alone)/median(together), "x-faster-than-alone")
		})
	}
}

func fillLog(b *testing.B, s *Backend, log tidemark.Key, lines int64) {
	b.Helper()
	for seq := int64(1); seq <= lines; {
		a := tidemark.Append{Log: log}
		for ; seq <= lines && len(a.Lines) < 10_000; seq++ {
			a.Lines = append(a.Lines, benchLine(log, seq))
		}
		keep(b, s, tidemark.Batch{Appends: []tidemark.Append{a}})
	}
}

func benchRead(b *testing.B, s *Backend, log tidemark.Key, span tidemark.Span) {
	n := 0
	for _, err := range s.Lines(context.Background(), log, span) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != 50 {
		b.Fatalf("%d lines", n)
	}
}

// BenchmarkRead also compares a tail with a pread of as many bytes.
func BenchmarkRead(b *testing.B) {
	for _, lines := range []int64{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			s := benchStore(b)
			log := tidemark.Key{Kind: "session", ID: "s"}
			fillLog(b, s, log, lines)
			f, err := os.Open(s.path + "-wal")
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			buf := make([]byte, 50*len(benchBody))
			var tail, middle, limit []float64
			for b.Loop() {
				tail = append(tail, each(50, func(int) { benchRead(b, s, log, tidemark.Span{Newest: 50}) }))
				middle = append(middle, each(50, func(i int) {
					from := (lines/2 + int64(i)*7919) % (lines - 60)
					benchRead(b, s, log, tidemark.Span{From: from + 1, To: from + 50})
				}))
				limit = append(limit, each(50, func(int) { f.ReadAt(buf, 0) }))
			}
			b.ReportMetric(median(tail), "ns/tail")
			b.ReportMetric(median(tail)/median(limit), "x-of-pread")
			b.ReportMetric(median(middle)/median(tail), "middle-x-of-tail")
		})
	}
}

func BenchmarkNewest50(b *testing.B) {
	for _, records := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			s := benchStore(b)
			for i := 0; i < records; {
				batch := tidemark.Batch{At: time.UnixMicro(1_790_000_000_000_000 + int64(i)).UTC()}
				for ; i < records && len(batch.Puts) < 1000; i++ {
					key := tidemark.Key{Kind: "session", ID: string(tidemark.NewSessionID())}
					r := record(key, 1, `{"title":"`+key.ID+`","created_at":"2026-01-02T03:04:05Z"}`)
					r.State, r.Group = []string{"open", "done", "done"}[i%3], fmt.Sprint("agent", i%7)
					batch.Puts = append(batch.Puts, r)
					batch.Appends = append(batch.Appends, tidemark.Append{Log: key, Lines: []tidemark.Line{benchLine(key, 1)}})
				}
				keep(b, s, batch)
			}
			list := func(q tidemark.Query) func(int) {
				return func(int) {
					q.Kind, q.Limit = "session", 50
					n := 0
					for _, err := range s.List(context.Background(), q) {
						if err != nil {
							b.Fatal(err)
						}
						n++
					}
					if n != 50 {
						b.Fatalf("%d records", n)
					}
				}
			}
			var all, state, group []float64
			for b.Loop() {
				all = append(all, each(20, list(tidemark.Query{})))
				state = append(state, each(20, list(tidemark.Query{State: "open"})))
				group = append(group, each(20, list(tidemark.Query{Group: "agent3", State: "done"})))
			}
			b.ReportMetric(median(all), "ns/all")
			b.ReportMetric(median(state), "ns/state")
			b.ReportMetric(median(group), "ns/group+state")
		})
	}
}
