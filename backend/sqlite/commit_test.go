package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// stopped holds the lock file of a store, as a process does that was stopped
// in the middle of a commit.
func stopped(t *testing.T, b *Backend) (goOn func()) {
	t.Helper()
	l, err := durable.OpenLock(b.path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	goOn = func() { once.Do(func() { l.Release(); l.Close() }) }
	t.Cleanup(goOn)
	return goOn
}

// queued waits until n batches wait for the lock.
func queued(b *Backend, n int) {
	for {
		b.writer.mu.Lock()
		have := len(b.writer.queue)
		b.writer.mu.Unlock()
		if have == n {
			return
		}
		runtime.Gosched()
	}
}

func TestCommitGivenUpWhileItWaitsChangesNothing(t *testing.T) {
	b := made(t)
	goOn := stopped(t, b)
	answers := make([]chan error, 4)
	cancels := make([]context.CancelFunc, 4)
	for i := range answers {
		var ctx context.Context
		ctx, cancels[i] = context.WithCancel(t.Context())
		answers[i] = make(chan error, 1)
		r := record(key("agent", fmt.Sprint("a", i)), 1, `{}`)
		go func() {
			_, err := b.Commit(ctx, tidemark.Batch{ID: tidemark.NewBatchID(), At: at, Puts: []tidemark.Record{r}})
			answers[i] <- err
		}()
		queued(b, i+1)
	}
	for _, i := range []int{2, 0} { // one in the queue, and the one that leads it
		cancels[i]()
		if err := <-answers[i]; !errors.Is(err, context.Canceled) {
			t.Errorf("commit %d = %v, want context.Canceled", i, err)
		}
	}
	goOn()
	for _, i := range []int{1, 3} {
		if err := <-answers[i]; err != nil {
			t.Errorf("commit %d = %v", i, err)
		}
	}
	for i := range answers {
		_, err := b.Get(t.Context(), key("agent", fmt.Sprint("a", i)))
		if gone := errors.Is(err, tidemark.ErrNotFound); gone != (i == 0 || i == 2) {
			t.Errorf("record %d: %v", i, err)
		}
		cancels[i]()
	}
}

func TestLockIsNotKeptWhenEverybodyGaveUp(t *testing.T) {
	b := made(t)
	goOn := stopped(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() {
		_, err := b.Commit(ctx, tidemark.Batch{ID: tidemark.NewBatchID(), At: at, Puts: []tidemark.Record{record(key("agent", "a"), 1, `{}`)}})
		answer <- err
	}()
	queued(b, 1)
	cancel()
	<-answer
	goOn()
	other := opened(t, b.path, nil)
	keep(t, other, tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, `{}`)}})
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 2, `{}`)}})
}

func TestBatchesOfOneGroupAreAnsweredEachForItself(t *testing.T) {
	b := made(t)
	goOn := stopped(t, b)
	log := key("session", "s")
	keyed := line(log, 1, "user", `{}`)
	keyed.Key = "k"
	keyed.Sum = keyed.Checksum(log)
	again := keyed
	again.Seq = 2
	again.Sum = again.Checksum(log)
	add := func(l tidemark.Line) tidemark.Batch {
		return tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}}
	}
	batches := []struct {
		batch tidemark.Batch
		want  error
	}{
		{add(keyed), nil},
		{add(line(log, 1, "user", `{"late":true}`)), tidemark.ErrConflict},
		{add(again), tidemark.ErrExists},
		{tidemark.Batch{Puts: []tidemark.Record{record(log, 2, `{}`)}}, tidemark.ErrConflict},
		{tidemark.Batch{Puts: []tidemark.Record{record(log, 1, `{}`)}}, nil},
		{tidemark.Batch{Puts: []tidemark.Record{record(log, 2, `{}`)}}, nil},
		{add(line(log, 2, "user", `{}`)), nil},
	}
	answers := make([]chan error, len(batches))
	for i, x := range batches {
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- commit(b, x.batch) }()
		queued(b, i+1)
	}
	goOn()
	for i, x := range batches {
		if err := <-answers[i]; !errors.Is(err, x.want) {
			t.Errorf("batch %d: %v, want %v", i, err, x.want)
		}
	}
	if got, _ := b.Get(t.Context(), log); got.Version != 2 || got.Head.Length != 2 {
		t.Errorf("version %d, length %d", got.Version, got.Head.Length)
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
}

func TestDamageMetByOneBatchDoesNotHarmTheOthersOfItsGroup(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	talk(t, b, log, 1, 2)
	harm(t, b, `UPDATE line SET id = id + 1 WHERE id = (1 << 32) + 2`) // where line 3 shall go
	goOn := stopped(t, b)
	bad, good := make(chan error, 1), make(chan error, 1)
	go func() {
		bad <- commit(b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 3, "user", `{}`)}}}})
	}()
	queued(b, 1)
	go func() { good <- commit(b, tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, `{}`)}}) }()
	queued(b, 2)
	goOn()
	if err := <-bad; !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("the batch that meets damage: %v, want ErrCorrupt", err)
	}
	if err := <-good; err != nil {
		t.Errorf("the other: %v", err)
	}
}

func TestNothingIsAcknowledgedAfterACommitOfUnknownOutcome(t *testing.T) {
	b := made(t)
	put := func(version int64) tidemark.Batch {
		return tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), version, `{}`)}}
	}
	keep(t, b, put(1))
	for _, c := range []struct {
		code   int32
		sticky bool
	}{{lib.SQLITE_FULL, false}, {lib.SQLITE_BUSY, false}, {lib.SQLITE_IOERR_FSYNC, true}} {
		if err := b.writer.begin(); err != nil {
			t.Fatal(err)
		}
		b.writer.failed(&sqliteError{c.code, "made up"})
		err := commit(b, tidemark.Batch{Require: []tidemark.Precondition{{Key: key("agent", "a"), Version: 1}}, Puts: []tidemark.Record{record(key("agent", fmt.Sprint(c.code)), 1, `{}`)}})
		if errors.Is(err, tidemark.ErrStorage) != c.sticky {
			t.Errorf("commit after code %d: %v", c.code, err)
		}
	}
	again := opened(t, b.path, nil)
	keep(t, again, put(2))
	if err := commit(b, put(3)); !errors.Is(err, tidemark.ErrStorage) {
		t.Errorf("the handle that failed: %v, want ErrStorage", err)
	}
}

func TestCommitWaitsForAnotherProgramThatWrites(t *testing.T) {
	b := made(t)
	shell, err := openConn(b.path, forWriting)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.close()
	if err := shell.run("BEGIN IMMEDIATE; CREATE TABLE theirs (x)"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		answer <- commit(b, tidemark.Batch{Puts: []tidemark.Record{record(key("agent", "a"), 1, `{}`)}})
	}()
	queued(b, 1)
	if err := shell.run("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("Commit = %v", err)
	}
}

// A listing or a reading that its caller lingers in must not keep the -wal
// file from being written back.
func TestLoopsHoldNoTransaction(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	talk(t, b, log, 1, 600)
	for l, err := range b.Lines(t.Context(), log) {
		if err != nil {
			t.Fatal(err)
		}
		if l.Seq == 300 {
			var busy int64 = -1
			err := b.writer.c.do("PRAGMA wal_checkpoint(TRUNCATE)", nil, func(s *stmt) { busy = s.int(0) })
			if err != nil || busy != 0 {
				t.Errorf("checkpoint inside a loop: busy %d, %v", busy, err)
			}
		}
	}
}

func TestPurgedTextIsGoneFromTheFiles(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	const secret = "the-secret-word"
	a := tidemark.Append{Log: log}
	for seq := int64(1); seq <= 200; seq++ {
		a.Lines = append(a.Lines, line(log, seq, "user", `{"x":"`+secret+`"}`))
	}
	keep(t, b, tidemark.Batch{Appends: []tidemark.Append{a}})
	talk(t, b, key("session", "other"), 1, 50)
	keep(t, b, tidemark.Batch{Drops: []tidemark.Key{log}})
	for _, p := range []string{b.path, b.path + "-wal"} {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if n := countOf(data, secret); n != 0 {
			t.Errorf("%s still holds it %d times", p, n)
		}
	}
}

func countOf(data []byte, word string) (n int) {
	for i := 0; i+len(word) <= len(data); i++ {
		if string(data[i:i+len(word)]) == word {
			n++
		}
	}
	return n
}
