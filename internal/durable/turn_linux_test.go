package durable

import (
	"path/filepath"
	"testing"
	"time"
)

func fairLocks(t *testing.T, n int) (all []*Lock) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock")
	for range n {
		l, err := OpenFairLock(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
		all = append(all, l)
	}
	return all
}

func acquire(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.Acquire(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhoComesBackAtOnceLetsPassWhoWaits(t *testing.T) {
	all := fairLocks(t, 2)
	busy, waits := all[0], all[1]
	busy.letPass = time.Hour
	for range 20 {
		order := make(chan string, 2)
		acquire(t, busy)
		done := make(chan struct{})
		go func() {
			defer close(done)
			acquire(t, waits)
			order <- "who waits"
			waits.Release()
		}()
		for !turnTaken(busy.f) {
			time.Sleep(passStep)
		}
		busy.Release()
		acquire(t, busy)
		order <- "who comes back"
		busy.Release()
		<-done
		if first := <-order; first != "who waits" {
			t.Fatalf("the lock went to %s", first)
		}
	}
}

// It was stopped, or another program has the first byte locked.
func TestWhoTakesTheTurnAndDoesNotComeHoldsUpNobody(t *testing.T) {
	all := fairLocks(t, 2)
	if !takeTurn(all[1].f) || takeTurn(all[0].f) {
		t.Fatal("the turn is not that of one")
	}
	all[0].letPass = time.Millisecond
	for range 3 {
		acquire(t, all[0])
		all[0].Release()
	}
	if all[0].inVain.IsZero() {
		t.Error("it is not remembered that nobody came")
	}
	leaveTurn(all[1].f)
	if turnTaken(all[0].f) {
		t.Error("the turn is still taken")
	}
}
