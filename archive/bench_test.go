package archive_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
)

// talk is text as agents write it: words that come again, and numbers.
func talk(n, size int) string {
	words := strings.Fields("the tide turns at noon func return error nil file path src main test run output line read write value index when where which while commit branch")
	var b strings.Builder
	b.WriteString(`{"blocks":[{"type":"text","text":"`)
	for i := n; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%s %d ", words[(i*7919+n*31)%len(words)], i*i%100003)
	}
	b.WriteString(`"}]}`)
	return b.String()
}

// sessions fills a store with so many bytes of text, some 400 KB a session. In
// a sealed store bodies are noise.
func sessions(b testing.TB, be tidemark.Backend, size int64, sealed bool) {
	f := fill(b, be)
	for n := 0; size > 0; n++ {
		k := key("session", fmt.Sprintf("%08x-0000-4000-8000-000000000000", n*2654435761%(1<<32)))
		var bodies []string
		for i := range 200 {
			body := talk(n*200+i, 2000)
			if sealed {
				noise := make([]byte, 2000)
				rand.Read(noise)
				body = string(noise)
			}
			bodies = append(bodies, body)
			size -= int64(len(body))
		}
		f.lines(k, bodies...)
		f.put(k, fmt.Sprintf(`{"title":"session %d"}`, n))
		f.put(key("lease", k.ID), `{}`)
		f.put(key("name", fmt.Sprint("n", n)), `{}`)
	}
}

// peak watches the memory of the process until it is stopped.
func peak() (stop func() uint64) {
	runtime.GC()
	var most atomic.Uint64
	done := make(chan struct{})
	go func() {
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse+m.StackInuse))
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() uint64 { close(done); return most.Load() }
}

// BenchmarkArchive writes and reads a store of TIDEMARK_ARCHIVE_MB megabytes
// of bodies, and reports the rates and the memory.
func BenchmarkArchive(b *testing.B) {
	mb := int64(100)
	fmt.Sscan(os.Getenv("TIDEMARK_ARCHIVE_MB"), &mb)
	for _, kind := range []string{"sqlite", "files"} {
		for _, sealed := range []bool{false, true} {
			name := kind + "/plain"
			if sealed {
				name = kind + "/sealed"
			}
			b.Run(name, func(b *testing.B) { benchmark(b, kind, mb<<20, sealed) })
		}
	}
}

func benchmark(b *testing.B, kind string, size int64, sealed bool) {
	src := open(b, kind)
	sessions(b, src, size, sealed)
	path := filepath.Join(b.TempDir(), "archive")
	var wrote, took, copied time.Duration
	var most uint64
	var packed int64
	for b.Loop() {
		f, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		stop := peak()
		start := time.Now()
		if _, err := archive.Write(ctx, f, src, nil); err != nil {
			b.Fatal(err)
		}
		wrote += time.Since(start)
		packed, _ = f.Seek(0, io.SeekEnd)
		f.Seek(0, io.SeekStart)
		dst := open(b, kind)
		start = time.Now()
		if _, err := archive.Read(ctx, f, dst, nil); err != nil {
			b.Fatal(err)
		}
		took += time.Since(start)
		f.Close()
		start = time.Now()
		if _, err := archive.Copy(ctx, src, open(b, kind), nil); err != nil {
			b.Fatal(err)
		}
		copied += time.Since(start)
		most = max(most, stop())
	}
	rate := func(d time.Duration) float64 { return float64(size) * float64(b.N) / 1e6 / d.Seconds() }
	b.ReportMetric(rate(wrote), "write-MB/s")
	b.ReportMetric(rate(took), "read-MB/s")
	b.ReportMetric(rate(copied), "copy-MB/s")
	b.ReportMetric(float64(most)/1e6, "peak-MB")
	b.ReportMetric(float64(packed)/float64(size), "ratio")
}

// BenchmarkWriteFromMemory measures the archive alone.
func BenchmarkWriteFromMemory(b *testing.B) {
	src := open(b, "memory")
	sessions(b, src, 50<<20, false)
	var out bytes.Buffer
	b.SetBytes(50 << 20)
	for b.Loop() {
		out.Reset()
		if _, err := archive.Write(ctx, &out, src, nil); err != nil {
			b.Fatal(err)
		}
	}
}
