package index_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// mortal is a Backend of a process that dies at its nth commit: before it takes
// effect or right after, and nothing is answered any more.
type mortal struct {
	tidemark.Backend
	left  int
	after bool

	mu   sync.Mutex
	died bool
}

// Sealed says what the Backend underneath does.
func (m *mortal) Sealed() bool { return tidemark.IsSealed(m.Backend) }

var errDied = errors.New("the process was killed")

func (m *mortal) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	m.mu.Lock() // a lease is renewed, and segments are written, beside the rest
	m.left--
	lives := m.left > 0 && !m.died
	last := !lives && !m.died && m.after
	m.died = !lives
	m.mu.Unlock()
	if !lives && !last {
		return tidemark.Receipt{}, errDied
	}
	r, err := m.Backend.Commit(ctx, b)
	if last && err == nil {
		return tidemark.Receipt{}, errDied
	}
	return r, err
}

// A process that is killed between any two commits leaves an index that is exact,
// and nothing that stays.
func TestAKillBetweenAnyTwoCommitsLosesNothing(t *testing.T) {
	text := prose(60_000)
	life := func(w *world, ix *index.Index, bytes int) error {
		ctx := context.Background()
		if _, err := ix.CatchUp(ctx, w, index.Pace{Alone: true, Bytes: bytes}); err != nil {
			return err
		}
		if _, err := ix.CatchUp(ctx, w, index.Pace{}); err != nil {
			return err
		}
		handed, err := ix.Handed(ctx, 30_000)
		for i := 0; i < 3 && err == nil; i++ {
			err = handed.Add(ctx, logKey(21), asSaid, w.say(logKey(21), prose(8000)...))
		}
		if err == nil {
			err = handed.Put(ctx)
		}
		if err = errors.Join(err, handed.Close()); err != nil {
			return err
		}
		if _, err := ix.Merge(ctx, 0); err != nil {
			return err
		}
		return ix.Rewrite(ctx)
	}
	for _, name := range []string{"memory", "memory sealed", "memory, helped"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := places["memory"]
			if name == "memory sealed" {
				p = sealed(p)
			}
			deaths := 0
			for n := 1; ; n++ {
				died := false
				for _, after := range []bool{false, true} {
					be, below := p(t)
					w := newWorld(t, be)
					first := w.index(be, index.Options{})
					for i := range 7 {
						w.say(logKey(i), "tide mark", "ebb")
						w.catchUp(first, index.Pace{})
					}
					w.say(logKey(20), text...)
					w.mask(first, logKey(3), 1)
					m := &mortal{Backend: be, left: n, after: after}
					ix := w.index(m, index.Options{})
					ix.InBatchesOf(8 << 10)
					bytes := 200_000
					if name == "memory, helped" {
						ix.HelpedBy(2)
						bytes *= 4 // for two, of whom one writes
					}
					if err := life(w, ix, bytes); m.died {
						died = true
						deaths++
					} else if err != nil {
						t.Fatal(err)
					}
					next := w.index(be, index.Options{})
					w.exact(w.look(next), "tide", "mark")
					w.clock.after(2 * time.Hour)
					w.catchUp(next, index.Pace{Alone: true})
					if err := next.Rewrite(t.Context()); err != nil {
						t.Fatal(err)
					}
					v := w.look(next)
					w.caughtUp(v)
					for _, phrase := range [][]string{{"tide", "mark"}, {"ebb"}, {"masked"}, w.lines[logKey(20)][5].words[:2]} {
						w.exact(v, phrase...)
					}
					w.clean(v, below)
				}
				if !died {
					break
				}
			}
			if deaths < 20 {
				t.Errorf("only %d commits: the test does not reach what takes several", deaths)
			}
		})
	}
}

// spoilt is a Backend in which one line of each segment cannot be read.
type spoilt struct {
	tidemark.Backend
	log tidemark.Key
	seq int64
}

func (s *spoilt) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		for l, err := range s.Backend.Lines(ctx, log, spans...) {
			if log == s.log && (l.Seq == s.seq || s.seq == 0) {
				l, err = tidemark.Line{Seq: l.Seq}, &tidemark.Damage{Key: log, Seq: l.Seq, What: "planted"}
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

func TestASegmentThatCannotBeReadIsMadeAgain(t *testing.T) {
	for name, mend := range map[string]func(w *world, ix *index.Index) error{
		"catching up": func(w *world, ix *index.Index) error {
			w.say(logKey(1), "tide")
			_, err := ix.CatchUp(context.Background(), w, index.Pace{})
			return err
		},
		"looking": func(w *world, ix *index.Index) error {
			for range 2 { // it only looks
				if wrong, err := ix.Verify(context.Background()); len(wrong) != 1 || err != nil {
					return fmt.Errorf("Verify = %v, %v; want one that is damaged", wrong, err)
				}
			}
			return ix.Reset(context.Background())
		},
		"rewriting": func(w *world, ix *index.Index) error {
			w.mask(ix, logKey(1), 1)
			return ix.Rewrite(context.Background())
		},
		"merging": func(w *world, ix *index.Index) error {
			for range 7 {
				w.say(logKey(30), "ebb")
				if _, err := w.index(w.be, index.Options{}).CatchUp(context.Background(), w, index.Pace{}); err != nil {
					return err
				}
			}
			_, err := ix.Merge(context.Background(), 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			be, below := places["memory"](t)
			w := newWorld(t, be)
			for i := range 5 {
				w.say(logKey(i), "tide")
			}
			w.catchUp(w.index(be, index.Options{}), index.Pace{})
			var log tidemark.Key
			for r, err := range be.List(t.Context(), tidemark.Query{Kind: tidemark.KindSegment}) {
				if log = r.Key; err != nil {
					t.Fatal(err)
				}
			}
			ix := w.index(&spoilt{Backend: be, log: log}, index.Options{})
			for _, err := range w.look(ix).Search(t.Context(), query("tide")) {
				if !errors.Is(err, tidemark.ErrCorrupt) {
					t.Fatalf("a search of a damaged index = %v, want ErrCorrupt", err)
				}
			}
			if err := mend(w, ix); err != nil {
				t.Fatal(err)
			}
			w.catchUp(ix, index.Pace{})
			v := w.look(ix)
			w.caughtUp(v)
			w.exact(v, "tide")
			w.clean(v, below)
		})
	}
}

// FuzzFamily has somebody else write the record of the family.
func FuzzFamily(f *testing.F) {
	f.Add([]byte(`{"format":1,"segments":[{"id":"00000001-0000-4000-8000-000000000000","version":1,"blocks":3,"lines":2,"without":[{"log":"session x","from":1,"to":9}]}],"until":"2026-03-04T05:06:07Z","epoch":3,"again":["session y",""],"adopting":[{"id":"x","since":"2026-03-04T05:06:07Z"}]}`))
	f.Add([]byte(`{"format":1,"segments":[{"id":"x","version":-1,"blocks":0}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		be, _ := places["memory"](t)
		w := newWorld(t, be)
		w.say(logKey(1), "tide mark")
		r := tidemark.Record{Key: tidemark.Key{Kind: tidemark.KindIndex, ID: index.Own}, Version: 1, Body: body}
		r.Sum = r.Checksum()
		if _, err := w.k.Commit(t.Context(), tidemark.Batch{Puts: []tidemark.Record{r}}); err != nil {
			t.Skip(err)
		}
		ix := w.index(be, index.Options{})
		if v, err := ix.Look(t.Context()); err == nil {
			for _, err := range v.Search(t.Context(), query("tide")) {
				if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
					t.Fatal(err)
				}
			}
		}
		// What cannot be is dropped and made anew; what a newer program wrote is not.
		_, err := ix.CatchUp(t.Context(), w, index.Pace{})
		if errors.Is(err, tidemark.ErrUnsupported) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
