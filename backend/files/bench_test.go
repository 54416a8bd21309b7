package files_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

var benchLog = tidemark.Key{Kind: "session", ID: "7f3a0c1e-0000-4000-8000-000000000001"}

func fill(b testing.TB, be *files.Backend, log tidemark.Key, lines int) {
	b.Helper()
	body := fmt.Sprintf(`{"blocks":[{"type":"text","text":%q}]}`, fmt.Sprintf("%0100d", 7))
	for n := 0; n < lines; {
		a := tidemark.Append{Log: log}
		for range min(1000, lines-n) {
			n++
			a.Lines = append(a.Lines, backendtest.NewLine(log, int64(n), body))
		}
		batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: a.Lines[0].At, Appends: []tidemark.Append{a}}
		if _, err := be.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppend measures an append with a lease to check beside a plain
// write and sync of as many bytes, turn by turn, and reports the ratio.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	be := open(b, filepath.Join(dir, "store"), &files.Options{Create: true})
	lease := backendtest.NewRecord(tidemark.Key{Kind: "lease", ID: benchLog.ID}, 1, `{"holder":"bench"}`)
	if _, err := be.Commit(context.Background(), tidemark.Batch{ID: "lease", At: time.Unix(0, 0).UTC(), Puts: []tidemark.Record{lease}}); err != nil {
		b.Fatal(err)
	}
	fill(b, be, benchLog, 1)
	d, err := durable.OpenDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	plain, err := d.OpenFile("plain", os.O_RDWR|os.O_CREATE)
	if err != nil {
		b.Fatal(err)
	}
	defer plain.Close()
	info, err := os.Stat(filepath.Join(dir, "store", "logs", "session", benchLog.ID+".ndjson"))
	if err != nil {
		b.Fatal(err)
	}
	bytes := make([]byte, info.Size())
	body := fmt.Sprintf(`{"blocks":[{"type":"text","text":%q}]}`, fmt.Sprintf("%0100d", 7))
	var ours, limit time.Duration
	seq, off := int64(1), int64(0)
	for b.Loop() {
		seq++
		l := backendtest.NewLine(benchLog, seq, body)
		batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: l.At, Require: []tidemark.Precondition{{Key: lease.Key, Version: 1}},
			Appends: []tidemark.Append{{Log: benchLog, Lines: []tidemark.Line{l}}}}
		start := time.Now()
		if _, err := be.Commit(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
		ours += time.Since(start)
		start = time.Now()
		if _, err := plain.WriteAt(bytes, off); err != nil {
			b.Fatal(err)
		}
		if err := plain.Sync(); err != nil {
			b.Fatal(err)
		}
		limit += time.Since(start)
		off += int64(len(bytes))
	}
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "µs/append")
	b.ReportMetric(float64(limit.Microseconds())/float64(b.N), "µs/plain")
	b.ReportMetric(float64(ours)/float64(limit), "ratio")
}

func BenchmarkTail50(b *testing.B) {
	for _, size := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			be := open(b, b.TempDir(), &files.Options{Create: true})
			fill(b, be, benchLog, size)
			for b.Loop() {
				read50(b, be, tidemark.Span{Newest: 50})
			}
		})
	}
}

func BenchmarkRange50InTheMiddle(b *testing.B) {
	be := open(b, b.TempDir(), &files.Options{Create: true})
	fill(b, be, benchLog, 100_000)
	for b.Loop() {
		read50(b, be, tidemark.Span{From: 50_001, To: 50_050})
	}
}

func read50(b *testing.B, be *files.Backend, span tidemark.Span) {
	n := 0
	for _, err := range be.Lines(context.Background(), benchLog, span) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != 50 {
		b.Fatalf("%d lines", n)
	}
}

func BenchmarkNewest50Of10000Sessions(b *testing.B) {
	dir := b.TempDir()
	be := open(b, dir, &files.Options{Create: true})
	for i := range 10_000 {
		k := tidemark.Key{Kind: "session", ID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i)}
		writeSession(b, dir, k, i)
	}
	for b.Loop() {
		n := 0
		for _, err := range be.List(context.Background(), tidemark.Query{Kind: "session", Limit: 50}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 50 {
			b.Fatalf("%d sessions", n)
		}
	}
}

// writeSession copies the files of a first session: ten thousand durable
// commits would take longer than the measurement.
func writeSession(b *testing.B, dir string, k tidemark.Key, i int) {
	at := time.Unix(1_700_000_000+int64(i), 0).UTC()
	r := backendtest.NewRecord(k, 1, fmt.Sprintf(`{"title":"session %d"}`, i))
	for name, data := range files.FilesOf(k, r, backendtest.NewLine(k, 1, `{"blocks":[]}`), at) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
}
