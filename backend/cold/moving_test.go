package cold

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
)

// TestAReaderSeesEverythingWhileLinesMove reads a log again and again, both ways,
// while its lines go and come back.
func TestAReaderSeesEverythingWhileLinesMove(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) tidemark.Backend{
		"memory": func(*testing.T) tidemark.Backend { return memory.New() },
		"sqlite": func(t *testing.T) tidemark.Backend {
			b, err := sqlite.Open(t.Context(), t.TempDir()+"/tidemark.db", &sqlite.Options{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		"files": func(t *testing.T) tidemark.Backend {
			b, err := files.Open(t.Context(), t.TempDir(), &files.Options{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	} {
		for _, url := range []string{"shelf:", Here} {
			t.Run(name+" to "+url, func(t *testing.T) {
				t.Parallel()
				readWhileLinesMove(t, over(open(t), newShelf()).To(url))
			})
		}
	}
}

func readWhileLinesMove(t *testing.T, b *Backend) {
	defer b.Close()
	commit(t, b, func(x *tidemark.Batch) { x.Appends = []tidemark.Append{talk(1, 25)} })
	moved := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		defer close(moved)
		for range 12 {
			if _, err := b.Move(t.Context(), log); err != nil {
				t.Errorf("Move = %v", err)
			}
			if err := b.BringBack(t.Context(), log); err != nil {
				t.Errorf("BringBack = %v", err)
			}
		}
	})
	for reading, round := true, 0; reading; round++ {
		select {
		case <-moved:
			reading = false
		default:
		}
		span := tidemark.Span{Backwards: round%2 == 1}
		next, step := int64(1), int64(1)
		if span.Backwards {
			next, step = 25, -1
		}
		for l, err := range b.Lines(t.Context(), log, span) {
			if err != nil || l.Seq != next || l.Sum != l.Checksum(log) {
				t.Fatalf("round %d: line %d, want %d: %v", round, l.Seq, next, err)
			}
			next += step
		}
		if next != 26 && next != 0 {
			t.Fatalf("round %d: the reading ended before line %d", round, next)
		}
	}
	work.Wait()
}

// FuzzDecode wants that no bytes lead to lines that do not match their sums.
// overtaken is a Backend whose lines somebody moves just before they are read.
type overtaken struct {
	tidemark.Backend
	before func()
}

func (o *overtaken) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if before := o.before; before != nil {
		o.before = nil
		before()
	}
	return o.Backend.Lines(ctx, log, spans...)
}

func TestOfTwoWhoMoveTheSameLinesOneIsToldSo(t *testing.T) {
	t.Parallel()
	inner, s := memory.New(), newShelf()
	first := over(inner, s)
	commit(t, first, func(x *tidemark.Batch) { x.Appends = []tidemark.Append{talk(1, 25)} })
	second := over(&overtaken{inner, func() {
		if _, err := first.Move(t.Context(), log); err != nil {
			t.Error(err)
		}
	}}, s)
	if did, err := second.Move(t.Context(), log); !errors.Is(err, tidemark.ErrConflict) || did != (Moved{}) {
		t.Errorf("Move = %+v, %v, want ErrConflict", did, err)
	}
	n := int64(0)
	for l, err := range second.Lines(t.Context(), log, tidemark.Span{}) {
		if n++; err != nil || l.Seq != n {
			t.Fatalf("line %d, want %d: %v", l.Seq, n, err)
		}
	}
	if n != 25 {
		t.Errorf("%d lines, want 25", n)
	}
}

func FuzzDecode(f *testing.F) {
	p := packer{log: log}
	for _, l := range talk(1, 3).Lines {
		p.add(l)
	}
	data, err := p.pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(segmentBegin))
	var u unpacker
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, _, err := u.decode(data, log)
		for _, l := range lines {
			if err == nil && l.Sum != l.Checksum(log) {
				t.Errorf("line %d does not match its sum", l.Seq)
			}
		}
	})
}
