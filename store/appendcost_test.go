package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// mute is a Backend that keeps nothing of a batch, so that what is left is what the
// rules of the store cost.
type mute struct{ tidemark.Backend }

func (m mute) Commit(context.Context, tidemark.Batch) (tidemark.Receipt, error) {
	return tidemark.Receipt{}, nil
}

// Many writers of one process share its processors with the place that keeps their
// entries: each piece of memory that an append makes is time that they do not have.
func TestAnAppendMakesFewPiecesOfMemory(t *testing.T) {
	kept := memory.New()
	w := begin(t, store.New(kept, nil), user("first"))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w = attach(t, store.New(mute{kept}, nil), w.ID(), "test")
	e := assistant("the quick brown fox")
	// The seqs, the lines, the body, the list of appends, and the name of the batch.
	const most = 5
	if n := testing.AllocsPerRun(200, func() {
		if _, err := w.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}); n > most {
		t.Errorf("an append makes %.0f pieces of memory, want %d at most", n, most)
	}
}

// Of an append with keys that are there already, the rest is appended, and each entry
// gets the seq of its own.
func TestAnAppendOfWhichSomeIsThereAddsTheRest(t *testing.T) {
	w := begin(t, open(t), user("first"))
	keyed := func(n int) tidemark.Entry {
		e := assistant(fmt.Sprint("entry ", n))
		e.Key = fmt.Sprint("key-", n)
		return e
	}
	add(t, w, keyed(3), keyed(1))
	got := add(t, w, keyed(0), keyed(1), user("without a key"), keyed(2), keyed(3), keyed(4))
	if want := []int64{4, 3, 5, 6, 2, 7}; !slices.Equal(got, want) {
		t.Errorf("the seqs are %v, want %v", got, want)
	}
	if got := add(t, w, keyed(4), keyed(0)); !slices.Equal(got, []int64{7, 4}) || w.Head() != 7 {
		t.Errorf("again: %v, and the head is %d", got, w.Head())
	}
}
