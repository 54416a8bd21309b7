package wire

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

// FuzzBackendRequests sends any bytes to every call.
func FuzzBackendRequests(f *testing.F) {
	for _, seed := range []string{`{"kind":"session","id":"s"}`, `{"kind":"session","spans":[{"from":-1,"newest":-5}]}`, `{"kind":"job","order":"due","after":{"id":"x"},"limit":-1}`,
		`{"all":[[{"word":"a","prefix":true}]],"none":[{}]}`, `{"kinds":["session"]}`, `{"after":{"kind":"","id":""}}`, `{"session":"x","with":{"with":"tenant"}}`,
		`{"batch":{"id":"b","at":"2026-01-02T03:04:05Z"}}` + "\n" + `{"end":true}` + "\n", `{"line":{"log":{"kind":"session","id":"s"},"seq":1}}` + "\n" + `{"end":true}` + "\n"} {
		f.Add([]byte(seed))
	}
	log := tidemark.Key{Kind: "session", ID: "s"}
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := memory.New()
		backendKeep(t, kept, backendLine(log))
		h := Handler(func(*http.Request) (tidemark.Backend, error) { return kept, nil })
		for name, call := range calls {
			ctx, stop := context.WithCancel(t.Context())
			if name == "wait" {
				stop() // nobody has that long
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, api.BackendPath+name, bytes.NewReader(body))
			r.Header.Set("Content-Type", api.MediaJSON)
			if call.media != "" {
				r.Header.Set("Content-Type", call.media)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			stop()
			if w.Code >= 500 && w.Code != http.StatusNotImplemented {
				t.Errorf("%s: status %d: %s", name, w.Code, w.Body)
			}
		}
	})
}

// backendRoundTrip is the bare round trip on this machine: the same bytes to a
// server that does nothing.
func backendRoundTrip(b *testing.B, answer int) func(body []byte) {
	b.Helper()
	text := bytes.Repeat([]byte("x"), answer)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(text)
	}))
	b.Cleanup(s.Close)
	c := s.Client()
	return func(body []byte) {
		res, err := c.Post(s.URL, api.MediaLines, bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}

func backendBatch(log tidemark.Key, seq int64) tidemark.Batch {
	body := `{"blocks":[{"type":"text","text":"` + strings.Repeat("7", 160) + `"}],"model":"demo"}`
	return tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond),
		Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{backendtest.NewLine(log, seq, body)}}}}
}

// BenchmarkBackendAppend is one commit of one line over the wire, beside one
// in this process and a bare round trip of the same bytes.
func BenchmarkBackendAppend(b *testing.B) {
	here, log := memory.New(), tidemark.Key{Kind: "session", ID: "s"}
	far := backendOpened(b, backendServed(b, memory.New()).URL)
	bare := backendRoundTrip(b, 50)
	var wire, local, trip time.Duration
	n := 0
	for seq := int64(1); b.Loop(); seq++ {
		batch := backendBatch(log, seq)
		body, err := api.EncodeBatch(batch)
		if err != nil {
			b.Fatal(err)
		}
		t0 := time.Now()
		bare(body)
		t1 := time.Now()
		_, err1 := far.Commit(b.Context(), batch)
		t2 := time.Now()
		_, err2 := here.Commit(b.Context(), batch)
		t3 := time.Now()
		if err1 != nil || err2 != nil {
			b.Fatal(err1, err2)
		}
		trip, wire, local, n = trip+t1.Sub(t0), wire+t2.Sub(t1), local+t3.Sub(t2), n+1
	}
	backendReport(b, n, wire, local, trip)
}

// BenchmarkBackendTail reads the newest 50 lines of 10,000.
func BenchmarkBackendTail(b *testing.B) {
	kept, log := memory.New(), tidemark.Key{Kind: "session", ID: "s"}
	var size int
	for seq := int64(1); seq <= 10_000; seq++ {
		batch := backendBatch(log, seq)
		if _, err := kept.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		text, _ := api.Append(nil, api.Element{Line: api.LineOf(batch.Appends[0].Lines[0])})
		size = 50 * len(text)
	}
	far := backendOpened(b, backendServed(b, kept).URL)
	bare := backendRoundTrip(b, size)
	read := func(be tidemark.Backend) {
		n := 0
		for _, err := range be.Lines(b.Context(), log, tidemark.Span{Newest: 50}) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 50 {
			b.Fatalf("%d lines", n)
		}
	}
	var wire, local, trip time.Duration
	n := 0
	for b.Loop() {
		t0 := time.Now()
		bare([]byte(`{"kind":"session","id":"s","spans":[{"newest":50}]}`))
		t1 := time.Now()
		read(far)
		t2 := time.Now()
		read(kept)
		trip, wire, local, n = trip+t1.Sub(t0), wire+t2.Sub(t1), local+time.Since(t2), n+1
	}
	backendReport(b, n, wire, local, trip)
}

func backendReport(b *testing.B, n int, wire, local, trip time.Duration) {
	b.ReportMetric(float64(wire.Nanoseconds())/float64(n), "ns/remote")
	b.ReportMetric(float64(local.Nanoseconds())/float64(n), "ns/in-process")
	b.ReportMetric(float64(trip.Nanoseconds())/float64(n), "ns/round-trip")
	b.ReportMetric(float64(wire)/float64(trip), "x-of-round-trip")
}
