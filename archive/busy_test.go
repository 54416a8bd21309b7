package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

// busy is a store that is written to whenever somebody reads from it: sessions
// are made, each with a data key, get lines, tell in their record how long
// another log is, and are purged.
type busy struct {
	*memory.Backend
	*rand.Rand
	f    *filler
	made int
}

func (b *busy) id(n int) string { return fmt.Sprintf("s%03d", n) }

func (b *busy) write() {
	if b.IntN(3) == 0 {
		return
	}
	id := b.id(b.IntN(b.made + 1))
	k := key("session", id)
	record := func(k tidemark.Key, body string) tidemark.Record {
		r := tidemark.Record{Key: k, Version: b.f.at(k).Version + 1, Body: []byte(body)}
		r.Sum = r.Checksum()
		return r
	}
	switch n := b.IntN(60); {
	case n == 0:
		id = b.id(b.made)
		k = key("session", id)
		b.made++
		b.f.lines(k, "first")
		b.f.commit(tidemark.Batch{Puts: []tidemark.Record{record(key("datakey", id), "key"), record(key("worker", id), "w"), record(k, "")}})
	case b.f.at(k).Version == 0:
	case n == 1 && b.made > 3:
		b.f.commit(tidemark.Batch{
			Deletes: []tidemark.Precondition{{Key: k, Version: b.f.at(k).Version}, {Key: key("datakey", id), Version: 1}, {Key: key("worker", id), Version: 1}},
			Drops:   []tidemark.Key{k}})
	case n < 30:
		b.f.lines(k, "more", "and more")
	default:
		other := key("session", b.id(b.IntN(b.made)))
		if h := b.f.at(other).Head; h.Length > 0 && b.f.at(other).Version > 0 {
			b.f.put(k, fmt.Sprintf("%s %d", other.ID, h.Length))
		}
	}
}

func (b *busy) Get(ctx context.Context, k tidemark.Key) (tidemark.Record, error) {
	b.write()
	return b.Backend.Get(ctx, k)
}

func (b *busy) Lines(ctx context.Context, k tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	b.write()
	return b.Backend.Lines(ctx, k, spans...)
}

func (b *busy) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		for r, err := range b.Backend.List(ctx, q) {
			b.write()
			if !yield(r, err) {
				return
			}
		}
	}
}

func (b *busy) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		for k, err := range b.Backend.Walk(ctx, after) {
			if b.IntN(20) == 0 {
				b.write()
			}
			if !yield(k, err) {
				return
			}
		}
	}
}

func TestAStoreThatIsWrittenToMeanwhileIsWhole(t *testing.T) {
	for seed := range uint64(60) {
		kept := memory.New()
		src := &busy{Backend: kept, Rand: rand.New(rand.NewPCG(seed, 1)), f: fill(t, kept)}
		for range 300 {
			src.write()
		}
		dst := memory.New()
		data, m := write(t, src, nil)
		read(t, data, dst)
		makesSense(t, kept, dst)
		for range 3 {
			for range 50 {
				src.write()
			}
			data, m = write(t, src, &archive.WriteOptions{Since: &m})
			if _, err := archive.Read(ctx, bytes.NewReader(data), dst, nil); err != nil {
				t.Fatalf("seed %d: Read = %v", seed, err)
			}
			makesSense(t, kept, dst)
		}
		data, _ = write(t, kept, &archive.WriteOptions{Since: &m})
		read(t, data, dst)
		same(t, kept, dst)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// makesSense wants what a restored store needs to work.
func makesSense(t *testing.T, src, dst tidemark.Backend) {
	t.Helper()
	for r, err := range dst.List(ctx, tidemark.Query{Kind: "session", Order: tidemark.ByID}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"datakey", "worker"} {
			if _, err := dst.Get(ctx, key(kind, r.ID)); err != nil {
				t.Errorf("%s came without its %s", r.Key, kind)
			}
		}
		var id string
		var length int64
		if n, _ := fmt.Sscan(string(r.Body), &id, &length); n != 2 {
			continue
		}
		other, err := dst.Get(ctx, key("session", id))
		if errors.Is(err, tidemark.ErrNotFound) {
			if _, err := src.Get(ctx, other.Key); err == nil {
				t.Errorf("%s tells of %s, which did not come", r.Key, id)
			}
			continue
		}
		if err != nil || other.Head.Length < length {
			t.Errorf("%s tells of %d lines of %s, and %d came", r.Key, length, id, other.Head.Length)
		}
	}
}
