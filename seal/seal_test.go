package seal_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/seal"
)

var ctx = context.Background()

type ctxT = context.Context

// cheap keeps Argon2id from being the longest part of a test.
var cheap = &seal.Cost{Time: 1, MemoryKiB: 64, Threads: 1}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// fileKey returns a fresh key file as a slot and as what opens it.
func fileKey(t testing.TB) (seal.NewSlot, seal.Unlocker) {
	t.Helper()
	contents := seal.NewKeyFile()
	return must[seal.NewSlot](t)(seal.FileSlot("test", contents)), must[seal.Unlocker](t)(seal.KeyFile(contents))
}

// sealedPlace makes places that are sealed when they are first opened.
func sealedPlace(inner backendtest.Place) backendtest.Place {
	return func(t testing.TB) func() tidemark.Backend {
		open := inner(t)
		slot, key := fileKey(t)
		create := sync.OnceFunc(func() {
			be := open()
			defer be.Close()
			must[*seal.Backend](t)(seal.Create(ctx, be, slot))
		})
		return func() tidemark.Backend {
			create()
			return must[*seal.Backend](t)(seal.Open(ctx, open(), key))
		}
	}
}

func inMemory(testing.TB) func() tidemark.Backend {
	b := memory.New()
	return func() tidemark.Backend { return b.Again() }
}

func inFiles(t testing.TB) func() tidemark.Backend {
	dir := t.TempDir()
	return func() tidemark.Backend {
		b := must[*files.Backend](t)(files.Open(ctx, dir, &files.Options{Create: true}))
		t.Cleanup(func() { b.Close() })
		return b
	}
}

func TestBackendOverMemory(t *testing.T) { backendtest.Run(t, sealedPlace(inMemory)) }
func TestBackendOverFiles(t *testing.T)  { backendtest.Run(t, sealedPlace(inFiles)) }

// made returns a sealed store in memory, what is under it, and its key.
func made(t testing.TB) (*seal.Backend, *memory.Backend, seal.Unlocker) {
	t.Helper()
	inner := memory.New()
	slot, key := fileKey(t)
	return must[*seal.Backend](t)(seal.Create(ctx, inner.Again(), slot)), inner, key
}

func reopened(t testing.TB, inner *memory.Backend, keys ...seal.Unlocker) *seal.Backend {
	t.Helper()
	return must[*seal.Backend](t)(seal.Open(ctx, inner.Again(), keys...))
}

const (
	one = "11111111-1111-4111-8111-111111111111"
	two = "22222222-2222-4222-8222-222222222222"
)

func key(kind, id string) tidemark.Key { return tidemark.Key{Kind: kind, ID: id} }

func commit(b tidemark.Backend, batch tidemark.Batch) error {
	batch.ID, batch.At = tidemark.NewBatchID(), time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	_, err := b.Commit(ctx, batch)
	return err
}

func keep(t testing.TB, b tidemark.Backend, batch tidemark.Batch) {
	t.Helper()
	if err := commit(b, batch); err != nil {
		t.Fatalf("Commit = %v", err)
	}
}

func put(k tidemark.Key, version int64, body string) tidemark.Batch {
	return tidemark.Batch{Puts: []tidemark.Record{backendtest.NewRecord(k, version, body)}}
}

func says(log tidemark.Key, seq int64, bodies ...string) tidemark.Batch {
	a := tidemark.Append{Log: log}
	for i, body := range bodies {
		a.Lines = append(a.Lines, backendtest.NewLine(log, seq+int64(i), body))
	}
	return tidemark.Batch{Appends: []tidemark.Append{a}}
}
