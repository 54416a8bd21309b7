package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
)

func TestBackend(t *testing.T) {
	backendtest.Run(t, func(t testing.TB) func() tidemark.Backend {
		path := filepath.Join(t.TempDir(), "store.db")
		return func() tidemark.Backend { return opened(t, path, &Options{Create: true}) }
	})
}

// opened opens a store that the test closes, if nothing else does.
func opened(t testing.TB, path string, o *Options) *Backend {
	t.Helper()
	b, err := Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func made(t testing.TB) *Backend {
	t.Helper()
	return opened(t, filepath.Join(t.TempDir(), "store.db"), &Options{Create: true})
}

func key(kind, id string) tidemark.Key { return tidemark.Key{Kind: kind, ID: id} }

func record(k tidemark.Key, version int64, body string) tidemark.Record {
	r := tidemark.Record{Key: k, Version: version, Body: []byte(body)}
	r.Sum = r.Checksum()
	return r
}

// at is the time of batches that name none.
var at = time.Date(2026, 3, 4, 5, 6, 7, 89_000, time.UTC)

func line(log tidemark.Key, seq int64, kind, body string) tidemark.Line {
	l := tidemark.Line{Seq: seq, Kind: kind, Body: []byte(body), At: at.Add(time.Duration(seq) * time.Second),
		Position: tidemark.Position{Parent: seq - 1, Depth: seq}}
	l.Sum = l.Checksum(log)
	return l
}

func commit(b tidemark.Backend, batch tidemark.Batch) error {
	if batch.ID == "" {
		batch.ID = tidemark.NewBatchID()
	}
	if batch.At.IsZero() {
		batch.At = at
	}
	_, err := b.Commit(context.Background(), batch)
	return err
}

func keep(t testing.TB, b tidemark.Backend, batch tidemark.Batch) {
	t.Helper()
	if err := commit(b, batch); err != nil {
		t.Fatalf("Commit = %v", err)
	}
}

// talk appends n lines to a log, in one batch.
func talk(t testing.TB, b tidemark.Backend, log tidemark.Key, from, to int64) {
	t.Helper()
	a := tidemark.Append{Log: log}
	for seq := from; seq <= to; seq++ {
		a.Lines = append(a.Lines, line(log, seq, "user", `{"blocks":[{"type":"text","text":"hello"}]}`))
	}
	keep(t, b, tidemark.Batch{Appends: []tidemark.Append{a}})
}
