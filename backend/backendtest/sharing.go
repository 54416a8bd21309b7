package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// Several handles, several writers, and the abilities that only some have.

func oneWins(b *bench) {
	log := key("session", "s")
	second := b.open()
	defer second.Close()
	handles := []tidemark.Backend{b.backend(), second}
	const writers, rounds = 8, 20
	won := make([]int, rounds+1)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for seq := int64(1); seq <= rounds; {
				_, err := handles[w%2].Commit(context.Background(), b.batch(run(log, seq, seq)))
				switch {
				case err == nil:
					mu.Lock()
					won[seq]++
					mu.Unlock()
					seq++
				case errors.Is(err, tidemark.ErrConflict):
					seq++
					if head, err := handles[w%2].Get(context.Background(), log); err == nil {
						seq = head.Head.Length + 1
					}
				default:
					b.Errorf("Commit = %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for seq := 1; seq <= rounds; seq++ {
		if won[seq] != 1 {
			b.Errorf("line %d was acknowledged to %d writers", seq, won[seq])
		}
	}
	if got := b.lines(log); len(got) != rounds {
		b.Errorf("%d lines, want %d", len(got), rounds)
	}
}

func manyWriters(b *bench) {
	second := b.open()
	defer second.Close()
	handles := []tidemark.Backend{b.backend(), second}
	var wg sync.WaitGroup
	for w := range 16 {
		log := key("session", fmt.Sprint("s", w))
		wg.Go(func() {
			for seq := int64(1); seq <= 20; seq++ {
				if _, err := handles[w%2].Commit(context.Background(), b.batch(run(log, seq, seq))); err != nil {
					b.Errorf("Commit = %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	for w := range 16 {
		if got := b.lines(key("session", fmt.Sprint("s", w))); len(got) != 20 {
			b.Errorf("writer %d: %d lines, want 20", w, len(got))
		}
	}
}

func handlesAgree(b *bench) {
	second := b.open()
	defer second.Close()
	log := key("session", "s")
	for i := int64(1); i <= 20; i++ {
		b.keep(run(log, i, i), NewRecord(log, i, fmt.Sprintf(`{"v":%d}`, i)))
		got, err := second.Get(context.Background(), log)
		if err != nil || got.Version != i || got.Head.Length != i {
			b.Fatalf("second handle: version %d, length %d, %v; want %d", got.Version, got.Head.Length, err, i)
		}
		b.be, second = second, b.be
	}
}

func reopen(b *bench) {
	log := key("session", "s")
	b.keep(NewRecord(log, 1, `{}`), run(log, 1, 3))
	want := b.get(log)
	b.be.Close()
	b.be = nil
	b.same(b.get(log), want)
	b.same(seqs(b.lines(log)), []int64{1, 2, 3})
	b.keep(NewRecord(log, 2, `{}`), run(log, 4, 4))
}

func loopsAreFree(b *bench) {
	log := key("session", "s")
	b.keep(run(log, 1, 600))
	for i := range 10 {
		b.keep(NewRecord(key("agent", fmt.Sprint("a", i)), 1, `{}`))
	}
	for l, err := range b.backend().Lines(context.Background(), log) {
		if err != nil {
			b.Fatal(err)
		}
		if l.Seq%100 == 0 {
			b.keep(run(log, 600+l.Seq/100, 600+l.Seq/100))
		}
		if l.Seq == 400 {
			break
		}
	}
	n := int64(0)
	for r, err := range b.backend().List(context.Background(), tidemark.Query{Kind: "agent", Order: tidemark.ByID}) {
		if err != nil {
			b.Fatal(err)
		}
		b.keep(NewRecord(r.Key, 2, `{}`))
		if n++; n == 5 {
			break
		}
	}
	b.same(b.get(log).Head.Length, int64(604))
}

func cancelled(b *bench) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	log := key("session", "s")
	if _, err := b.backend().Commit(ctx, b.batch(run(log, 1, 1))); !errors.Is(err, context.Canceled) {
		b.Errorf("Commit = %v, want context.Canceled", err)
	}
	if _, err := b.backend().Get(ctx, log); !errors.Is(err, context.Canceled) {
		b.Errorf("Get = %v, want context.Canceled", err)
	}
	for _, err := range b.backend().Lines(ctx, log) {
		if !errors.Is(err, context.Canceled) {
			b.Errorf("Lines = %v, want context.Canceled", err)
		}
	}
	for _, err := range b.backend().List(ctx, tidemark.Query{Kind: "session"}) {
		if !errors.Is(err, context.Canceled) {
			b.Errorf("List = %v, want context.Canceled", err)
		}
	}
	if got := b.lines(log); got != nil {
		b.Errorf("a cancelled commit left %v", got)
	}
}

func closed(b *bench) {
	log := key("session", "s")
	b.keep(run(log, 1, 1))
	other := b.open()
	for range 2 {
		if err := other.Close(); err != nil {
			b.Errorf("Close = %v", err)
		}
	}
	if _, err := other.Get(context.Background(), log); err == nil {
		b.Error("Get after Close succeeded")
	}
	if _, err := other.Commit(context.Background(), b.batch(run(log, 2, 2))); err == nil {
		b.Error("Commit after Close succeeded")
	}
	b.keep(run(log, 2, 2))
}

func watches(b *bench) {
	w := b.backend()
	second := b.open()
	defer second.Close()
	log := key("session", "s")
	for seq := int64(1); seq <= 3; seq++ {
		woken := make(chan error, 1)
		go func() {
			for {
				if err := w.Wait(context.Background(), log, seq-1); err != nil {
					woken <- err
					return
				}
				if r, err := b.backend().Get(context.Background(), log); err == nil && r.Head.Length >= seq {
					woken <- nil
					return
				}
			}
		}()
		if _, err := second.Commit(context.Background(), b.batch(run(log, seq, seq))); err != nil {
			b.Fatal(err)
		}
		if err := <-woken; err != nil {
			b.Fatalf("Wait = %v", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Wait(ctx, log, 3); !errors.Is(err, context.Canceled) {
		b.Errorf("Wait = %v, want context.Canceled", err)
	}
}

func checks(b *bench) {
	log := key("session", "s")
	b.keep(NewRecord(log, 1, `{}`), run(log, 1, 50))
	b.keep(tidemark.Append{Log: log, Lines: []tidemark.Line{NewLine(log, 51, string(bytes.Repeat([]byte{0}, 5000)))}})
	c, ok := b.backend().(tidemark.Checker)
	if !ok {
		return
	}
	for err := range c.Check(context.Background()) {
		b.Errorf("Check: %v", err)
	}
}
