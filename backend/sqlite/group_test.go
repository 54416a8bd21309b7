package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// Who waits for the lock file waits for one large batch, not for those of everybody.
func TestALargeBatchHasItsOwnTransaction(t *testing.T) {
	batch := func(bytes int) *pending {
		log := key("session", "s")
		body := strings.Repeat("x", bytes)
		return &pending{batch: &tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{line(log, 1, "user", body)}}}}}
	}
	for _, c := range []struct {
		sizes []int
		taken int
	}{
		{[]int{groupBytes * 3, 10}, 1},
		{[]int{10, groupBytes, 10}, 1},
		{[]int{groupBytes / 4, groupBytes / 4, groupBytes / 4, groupBytes / 2}, 3},
		{slices.Repeat([]int{300}, 64), 64},
	} {
		w := new(writer)
		for _, n := range c.sizes {
			w.queue = append(w.queue, batch(n))
		}
		if n := len(w.takeQueue()); n != c.taken || len(w.queue) != len(c.sizes)-n {
			t.Errorf("of batches of %d bytes a group has %d and %d are left, want %d in it", c.sizes, n, len(w.queue), c.taken)
		}
	}
}

// longLines are enough for several statements of many rows, and for some of one.
func longLines(log tidemark.Key, from, to int64) (all []tidemark.Line) {
	for seq := from; seq <= to; seq++ {
		l := line(log, seq, "user", fmt.Sprintf(`{"n":%d,"x":"%s"}`, seq, strings.Repeat("tide ", int(seq%7)*100)))
		if seq%3 == 0 {
			l.Key = fmt.Sprint("key-", seq)
		}
		if seq%5 == 0 {
			l.Body = []byte{0, byte(seq), 0xff}
		}
		if seq%4 == 0 {
			l.Chain = []byte{byte(seq), 1, 2, 3}
		}
		l.Sum = l.Checksum(log)
		all = append(all, l)
	}
	return all
}

func TestALongAppendIsKeptAsItIs(t *testing.T) {
	b, log := made(t), key("session", "s")
	want := longLines(log, 1, 2*rowsAtOnce+5)
	keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: want}}})
	n := 0
	for l, err := range b.Lines(t.Context(), log, tidemark.Span{}) {
		if err != nil {
			t.Fatal(err)
		}
		w := want[n]
		if l.Seq != w.Seq || l.Key != w.Key || string(l.Body) != string(w.Body) || string(l.Chain) != string(w.Chain) || l.Sum != w.Sum || !l.At.Equal(w.At) {
			t.Errorf("line %d is %+v, want %+v", n+1, l, w)
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d lines of %d", n, len(want))
	}
}

// The statement that stops in the middle of its rows has inserted some of them.
func TestALongAppendThatMeetsARowLeavesNothing(t *testing.T) {
	b, log := made(t), key("session", "s")
	keep(t, b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: longLines(log, 1, 1)}}})
	w := b.writer
	if err := w.insert(sqlAppend, 1, &longLines(log, 20, 20)[0], ""); err != nil {
		t.Fatal(err)
	}
	before, err := w.c.number("SELECT count(*) FROM line")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: at, Appends: []tidemark.Append{{Log: log, Lines: longLines(log, 2, 40)}}})
	if !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Commit = %v, want ErrCorrupt", err)
	}
	if after, err := w.c.number("SELECT count(*) FROM line"); err != nil || after != before {
		t.Errorf("%d rows before, %d after, %v", before, after, err)
	}
	if r, err := b.Get(t.Context(), log); err != nil || r.Head.Length != 1 {
		t.Errorf("the log has %d lines, %v", r.Head.Length, err)
	}
}

// What waits in the queue is used again for the next batch: nobody gets the answer of
// another, also where some give up waiting.
func TestEachWriterOfManyGetsItsOwnAnswer(t *testing.T) {
	b := made(t)
	const writers, rounds = 16, 30
	var all sync.WaitGroup
	for n := range writers {
		log := key("session", fmt.Sprintf("s%d", n))
		batch := func(seq int64, lineKey string) tidemark.Batch {
			l := line(log, seq, "user", fmt.Sprintf(`{"n":%d,"seq":%d}`, n, seq))
			l.Key = lineKey
			l.Sum = l.Checksum(log)
			return tidemark.Batch{ID: tidemark.NewBatchID(), At: l.At, Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}}
		}
		all.Go(func() {
			for seq := int64(1); seq <= rounds; seq++ {
				gone, giveUp := context.WithCancel(t.Context())
				all.Go(giveUp)
				// Whatever became of it, it is a batch that changes nothing.
				if _, err := b.Commit(gone, batch(seq+1, "")); !errors.Is(err, tidemark.ErrConflict) && !errors.Is(err, context.Canceled) {
					t.Errorf("log %d, a line too far: %v", n, err)
				}
				name := fmt.Sprintf("key-%d", seq)
				if receipt, err := b.Commit(t.Context(), batch(seq, name)); err != nil || len(receipt.Duplicates) > 0 {
					t.Errorf("log %d, line %d: %v, %v", n, seq, receipt, err)
				}
				receipt, err := b.Commit(t.Context(), batch(seq+1, name))
				if want := (tidemark.Duplicate{Log: log, Key: name, Seq: seq}); !errors.Is(err, tidemark.ErrExists) || !slices.Equal(receipt.Duplicates, []tidemark.Duplicate{want}) {
					t.Errorf("log %d, line %d again: %v, %v", n, seq, receipt, err)
				}
			}
		})
	}
	all.Wait()
	for n := range writers {
		if got := len(linesOf(t, b, key("session", fmt.Sprintf("s%d", n)))); got != rounds {
			t.Errorf("log %d has %d lines, want %d", n, got, rounds)
		}
	}
}
