package index_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// noted gives each log of a world a note.
func (w *world) noted(t *testing.T) *noting {
	n := &noting{world: w}
	for log, lines := range w.lines {
		note := must[tidemark.Record](t)(records.Put(tidemark.Key{Kind: "note", ID: log.ID}, 0, "{}"))
		if _, err := w.k.Commit(t.Context(), tidemark.Batch{Puts: []tidemark.Record{note}}); err != nil {
			t.Fatal(err)
		}
		n.notes = append(n.notes, index.Log{Key: log, Length: int64(len(lines)), Note: tidemark.Precondition{Key: note.Key, Version: 1}})
	}
	return n
}

// manyLogs makes a long log among short ones.
func (w *world) manyLogs() (lines int64) {
	for i := range 12 {
		said := prose(1000 + i)
		if i == 4 {
			said = prose(60_000)
		}
		w.say(logKey(i), append(said, "tide mark")...)
		lines += int64(len(said)) + 1
	}
	return lines
}

func TestWhatSeveralGatherIsThereOnceAndTheNotesAreGone(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		for _, bytes := range []int{1 << 20, 0} {
			be, below := p(t)
			w := newWorld(t, be)
			want := w.manyLogs()
			n := w.noted(t)
			ix := w.index(be, index.Options{})
			ix.HelpedBy(3)
			told := int64(0)
			got, err := ix.CatchUp(t.Context(), n, index.Pace{Alone: true, Bytes: bytes, Progress: func(lines int64) { told = lines }})
			if err != nil || got != want || told != want {
				t.Fatalf("CatchUp = %d, %v, and told of %d; want %d", got, err, told, want)
			}
			for _, l := range n.notes {
				if has, err := w.k.Has(t.Context(), l.Note.Key); has || err != nil {
					t.Errorf("the note of %s is still there: %v", l.Key, err)
				}
			}
			v := w.look(ix)
			if _, lines := v.Segments(); int64(lines) != want {
				t.Errorf("the segments have %d lines, want %d", lines, want)
			}
			w.exact(v, "tide", "mark")
			w.exact(v, w.lines[logKey(4)][20].words[:2]...)
			w.clean(v, below)
			be.Close()
		}
	})
}

// A note is all that tells of a log that was dated back: where it is gone, the lines are
// indexed, whenever the process died.
func TestNoNoteIsGoneBeforeItsLinesAreIndexed(t *testing.T) {
	for n := 1; ; n += 2 {
		be, _ := places["memory"](t)
		w := newWorld(t, be)
		w.manyLogs()
		src := w.noted(t)
		m := &mortal{Backend: be, left: n, after: n%4 == 1}
		ix := w.index(m, index.Options{})
		ix.InBatchesOf(16 << 10)
		ix.HelpedBy(3)
		_, err := ix.CatchUp(t.Context(), src, index.Pace{Alone: true, Bytes: 1 << 20})
		if err != nil && !m.died {
			t.Fatal(err)
		}
		w.clock.after(2 * time.Hour)
		next := w.index(be, index.Options{})
		if _, err := next.CatchUp(t.Context(), src, index.Pace{Alone: true}); err != nil {
			t.Fatal(err)
		}
		w.exact(w.look(next), "tide", "mark")
		w.exact(w.look(next), w.lines[logKey(4)][20].words[:2]...)
		if !m.died {
			break
		}
	}
}

// failing is a Source of which one log cannot be read.
type failing struct {
	*world
	log tidemark.Key
	err error
}

func (f *failing) Lines(ctx context.Context, log tidemark.Key, span tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if log == f.log && span.From > 20 {
		return func(yield func(tidemark.Line, error) bool) { yield(tidemark.Line{}, f.err) }
	}
	return f.world.Lines(ctx, log, span)
}

func TestAnErrorEndsAllWhoGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails when a goroutine stays
		be, below := places["memory"](t)
		w := newWorld(t, be)
		w.manyLogs()
		ix := w.index(be, index.Options{})
		ix.HelpedBy(3)
		broke := errors.New("the disk is gone")
		if _, err := ix.CatchUp(t.Context(), &failing{w, logKey(4), broke}, index.Pace{Alone: true, Bytes: 50_000}); !errors.Is(err, broke) {
			t.Errorf("CatchUp = %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := ix.CatchUp(ended, w, index.Pace{Alone: true}); !errors.Is(err, context.Canceled) {
			t.Errorf("CatchUp of a caller who left = %v", err)
		}
		w.catchUp(ix, index.Pace{Alone: true})
		w.exact(w.look(ix), "tide", "mark")
		w.clean(w.look(ix), below)
	})
}
