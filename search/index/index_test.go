package index_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/index"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

var vocabulary = strings.Fields("tide mark ebb flow moon shore wave salt")

func TestRandomHistoriesFindWhatLookingAtEveryLineFinds(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		rapid.Check(t, func(r *rapid.T) {
			be, below := p(t)
			defer be.Close()
			w := newWorld(r, be)
			// Two processes, of which one keeps no blocks.
			of := []*index.Index{w.index(be, index.Options{}), w.index(be, index.Options{Cache: index.NewCache(0)})}
			of[0].HelpedBy(3)
			some := func() *index.Index { return of[rapid.IntRange(0, 1).Draw(r, "process")] }
			log := rapid.Map(rapid.IntRange(1, 4), logKey)
			word := rapid.SampledFrom(vocabulary)
			text := func(r *rapid.T) (text []string) {
				for range rapid.IntRange(1, 4).Draw(r, "lines") {
					text = append(text, strings.Join(rapid.SliceOfN(word, 0, 4).Draw(r, "words"), " "))
				}
				return text
			}
			var handed *index.Handed // by an import
			lost := func(err error) {
				if err != nil && !errors.Is(err, tidemark.ErrConflict) {
					r.Fatal(err)
				}
				if err != nil {
					handed = nil
				}
			}
			r.Repeat(map[string]func(*rapid.T){
				"say": func(r *rapid.T) { w.say(log.Draw(r, "log"), text(r)...) },
				"hand over": func(r *rapid.T) {
					if handed == nil {
						handed = must[*index.Handed](r)(some().Handed(context.Background(), rapid.SampledFrom([]int{1, 1 << 20}).Draw(r, "bytes")))
					}
					k := log.Draw(r, "log")
					lost(handed.Add(context.Background(), k, asSaid, w.say(k, text(r)...)))
					if handed != nil { // a history is the same each time
						lost(handed.Close())
					}
				},
				"put what was handed over": func(r *rapid.T) {
					if handed != nil {
						lost(handed.Put(context.Background()))
					}
				},
				"catch up": func(r *rapid.T) {
					ix := some()
					w.catchUp(ix, index.Pace{Alone: rapid.Bool().Draw(r, "alone"), Bytes: rapid.SampledFrom([]int{1, 1 << 20}).Draw(r, "bytes")})
					w.caughtUp(w.look(ix))
				},
				"merge": func(r *rapid.T) {
					if _, err := some().Merge(context.Background(), 0); err != nil {
						r.Fatal(err)
					}
				},
				"purge": func(r *rapid.T) {
					if k := log.Draw(r, "log"); len(w.lines[k]) > 0 {
						w.purge(some(), k)
					}
				},
				"mask": func(r *rapid.T) {
					if k := log.Draw(r, "log"); len(w.lines[k]) > 0 {
						w.mask(some(), k, int64(rapid.IntRange(1, len(w.lines[k])).Draw(r, "seq")))
					}
				},
				"rewrite": func(r *rapid.T) {
					ix := some()
					if err := ix.Rewrite(context.Background()); err != nil {
						r.Fatal(err)
					}
					w.clean(w.look(ix), below)
				},
				"reset": func(r *rapid.T) {
					if rapid.IntRange(0, 4).Draw(r, "seldom") > 0 {
						r.Skip()
					}
					if err := some().Reset(context.Background()); err != nil {
						r.Fatal(err)
					}
				},
				"time passes": func(*rapid.T) { w.clock.after(time.Hour) },
				"": func(r *rapid.T) {
					w.exact(w.look(some()), rapid.SliceOfN(word, 1, 2).Draw(r, "phrase")...)
				},
			})
		})
	})
}

// A log that is dropped and begun again while its lines are handed over: nothing of what
// was handed counts, and who handed it is told so.
func TestWhatIsHandedOverOfALogThatBeganAgainIsLeftToTheNext(t *testing.T) {
	be, below := places["memory"](t)
	w := newWorld(t, be)
	ix := w.index(be, index.Options{})
	w.catchUp(ix, index.Pace{})
	handed := must[*index.Handed](t)(ix.Handed(t.Context(), 1<<20))
	said := w.say(logKey(1), "moon")
	if err := handed.Add(t.Context(), logKey(1), asSaid, said); err != nil {
		t.Fatal(err)
	}
	w.purge(ix, logKey(1))
	again := w.say(logKey(1), "salt")
	again[0].At = said[0].At // as an import brings it
	err := handed.Add(t.Context(), logKey(1), asSaid, again)
	if err == nil {
		err = handed.Put(t.Context())
	}
	if !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("Put = %v, want ErrConflict", err)
	}
	w.catchUp(ix, index.Pace{})
	for _, word := range []string{"moon", "salt"} {
		w.exact(w.look(ix), word)
	}
	w.clean(w.look(ix), below)
}

func TestManySmallStepsBecomeFewSegments(t *testing.T) {
	be, below := places["memory"](t)
	w := newWorld(t, be)
	ix := w.index(be, index.Options{})
	for i := range 1000 {
		w.say(logKey(i%7), fmt.Sprintf("wave %d", i))
		w.catchUp(ix, index.Pace{})
		for merged := true; merged; {
			merged = must[bool](t)(ix.Merge(t.Context(), 0))
		}
	}
	v := w.look(ix)
	if n, lines := v.Segments(); n > 3*segment.Fan || lines != 1000 {
		t.Errorf("%d segments with %d lines, want fewer with 1000", n, lines)
	}
	w.exact(v, "wave")
	w.exact(v, "wave", "512")
	w.clean(v, below)
}

func TestAMergeThatIsTooLargeIsLeftToAnother(t *testing.T) {
	be, _ := places["memory"](t)
	w := newWorld(t, be)
	ix := w.index(be, index.Options{})
	for range segment.Fan {
		w.say(logKey(1), "one", "two", "three")
		w.catchUp(ix, index.Pace{})
	}
	if merged, err := ix.Merge(t.Context(), 3*segment.Fan-1); merged || err != nil {
		t.Errorf("a merge beyond the bound = %v, %v", merged, err)
	}
	if merged, err := ix.Merge(t.Context(), 3*segment.Fan); !merged || err != nil {
		t.Errorf("a merge within the bound = %v, %v", merged, err)
	}
}

// prose returns lines of so many bytes together.
func prose(bytes int) (text []string) {
	rnd := rand.New(rand.NewPCG(uint64(bytes), 1))
	for bytes > 0 {
		var s strings.Builder
		for s.Len() < 400 {
			fmt.Fprintf(&s, "w%05x ", rnd.IntN(1<<20))
		}
		text, bytes = append(text, s.String()), bytes-s.Len()
	}
	return text
}

func TestAStepCostsWhatWasAppendedAndNotWhatIsKept(t *testing.T) {
	be, _ := places["memory"](t)
	w := newWorld(t, be)
	ix := w.index(be, index.Options{})
	for i := range 300 {
		w.say(logKey(i), "shore")
	}
	w.clock.after(time.Hour)
	w.catchUp(ix, index.Pace{})
	w.clock.after(time.Hour)
	w.say(logKey(7), "tide")
	src := &counting{Source: w}
	if n, err := ix.CatchUp(t.Context(), src, index.Pace{}); n != 1 || err != nil {
		t.Errorf("CatchUp = %d, %v, want the one line", n, err)
	}
	if src.logs != 1 || src.words != 1 {
		t.Errorf("%d logs were looked at and %d read, want the one that grew", src.logs, src.words)
	}
	w.exact(w.look(ix), "tide")
}

// counting counts what is asked of a Source.
type counting struct {
	index.Source
	logs, words int
}

func (c *counting) Touched(ctx context.Context, since time.Time) iter.Seq2[index.Log, error] {
	return func(yield func(index.Log, error) bool) {
		for l, err := range c.Source.Touched(ctx, since) {
			if c.logs++; !yield(l, err) {
				return
			}
		}
	}
}

func (c *counting) Words(ctx context.Context, log tidemark.Key) (index.Words, error) {
	c.words++
	return c.Source.Words(ctx, log)
}

// noting is a Source of logs that were dated back: a note says so.
type noting struct {
	*world
	notes []index.Log
}

func (n *noting) Touched(_ context.Context, since time.Time) iter.Seq2[index.Log, error] {
	return func(yield func(index.Log, error) bool) {
		for _, l := range n.notes {
			if has, err := n.k.Has(context.Background(), l.Note.Key); has && !yield(l, err) {
				return
			}
		}
	}
}

func TestALogThatWasDatedBackIsIndexedAndItsNoteDeletedWithIt(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		be, _ := p(t)
		w := newWorld(t, be)
		ix := w.index(be, index.Options{})
		n := &noting{world: w}
		for i := range 3 {
			w.say(logKey(i), "salt")
			note := must[tidemark.Record](t)(records.Put(tidemark.Key{Kind: "note", ID: logKey(i).ID}, 0, "{}"))
			if _, err := w.k.Commit(t.Context(), tidemark.Batch{Puts: []tidemark.Record{note}}); err != nil {
				t.Fatal(err)
			}
			n.notes = append(n.notes, index.Log{Key: logKey(i), Length: 1, Note: tidemark.Precondition{Key: note.Key, Version: 1}})
		}
		if got, err := ix.CatchUp(t.Context(), n, index.Pace{}); got != 3 || err != nil {
			t.Fatalf("CatchUp = %d, %v", got, err)
		}
		for _, l := range n.notes {
			if has, err := w.k.Has(t.Context(), l.Note.Key); has || err != nil {
				t.Errorf("the note of %s is still there: %v", l.Key, err)
			}
		}
		w.exact(w.look(ix), "salt")
	})
}

func TestAReaderThatHoldsAnOldFamilyGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		be, below := p(t)
		w := newWorld(t, be)
		ix := w.index(be, index.Options{Cache: index.NewCache(0)})
		for i := range segment.Fan {
			for range 40 {
				w.say(logKey(i%3), "ebb flow", "moon")
			}
			w.catchUp(ix, index.Pace{})
		}
		old, want := w.look(ix), w.naive("ebb", "flow")
		var got []segment.Line
		for hit, err := range old.Search(t.Context(), query("ebb", "flow")) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, hit.Line); len(got) == 10 {
				if merged, err := ix.Merge(t.Context(), 0); !merged || err != nil {
					t.Fatalf("Merge = %v, %v", merged, err)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("found %d lines while segments were merged, want %d", len(got), len(want))
		}
		// Nobody knows what a family lacks that lines were taken out of.
		stale := w.look(ix)
		w.mask(ix, logKey(0), 1)
		if err := ix.Rewrite(t.Context()); err != nil {
			t.Fatal(err)
		}
		for hit, err := range stale.Search(t.Context(), query("ebb", "flow")) {
			if !errors.Is(err, tidemark.ErrConflict) {
				t.Fatalf("lines were taken out, and it goes on: %v, %v", hit, err)
			}
		}
		for lines, err := range index.Behind(t.Context(), w, stale) {
			if !errors.Is(err, tidemark.ErrConflict) {
				t.Fatalf("lines were taken out, and it tells what is not indexed: %v, %v", lines, err)
			}
		}
		w.exact(w.look(ix), "ebb", "flow")
		w.clean(w.look(ix), below)
	})
}

func TestWhatIsPurgedOrMaskedIsGoneWhenRewriteReturns(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		be, below := p(t)
		w := newWorld(t, be)
		ix := w.index(be, index.Options{})
		for i := range 5 {
			w.say(logKey(i), "wave", fmt.Sprintf("secret%d wave", i))
			w.catchUp(ix, index.Pace{})
		}
		if !w.holds("secret1") || !w.holds("secret2") {
			t.Fatal("the words are not in the index: the test looks for nothing")
		}
		w.purge(ix, logKey(1))
		w.mask(ix, logKey(2), 2)
		other := w.index(be, index.Options{})
		for _, ix := range []*index.Index{ix, other} {
			for hit, err := range w.look(ix).Search(t.Context(), query("secret1")) {
				t.Errorf("what is purged is found: %v, %v", hit, err)
			}
		}
		if err := ix.Rewrite(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.holds("secret1") || w.holds("secret2") || !w.holds("secret3") {
			t.Error("the words that were taken out are still there, or others are not")
		}
		w.clean(w.look(ix), below)
		w.catchUp(ix, index.Pace{})
		w.caughtUp(w.look(other))
		for _, word := range []string{"wave", "masked", "secret2", "secret3"} {
			w.exact(w.look(other), word)
		}
	})
}

// An indexer that read lines before they were purged may not put them afterwards.
func TestWhatIsPurgedWhileItIsIndexedIsNotPut(t *testing.T) {
	be, below := places["memory"](t)
	w := newWorld(t, be)
	ix := w.index(be, index.Options{})
	w.say(logKey(1), "secret")
	w.say(logKey(2), "wave")
	once := sync.OnceFunc(func() { w.purge(w.index(be, index.Options{}), logKey(1)) })
	src := &meddling{world: w, meddle: once}
	if _, err := ix.CatchUp(t.Context(), src, index.Pace{}); err != nil {
		t.Fatal(err)
	}
	if w.holds("secret") || !w.holds("wave") {
		t.Error("the index has what was purged, or lacks what was not")
	}
	w.clean(w.look(ix), below)
}

// dying is a Backend of a process that is killed after some commits of segments.
type dying struct {
	tidemark.Backend
	lives int
}

func (d *dying) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if slices.ContainsFunc(b.Appends, func(a tidemark.Append) bool { return a.Log.Kind == tidemark.KindSegment }) {
		d.lives--
	}
	if d.lives < 0 {
		return tidemark.Receipt{}, errKilled
	}
	return d.Backend.Commit(ctx, b)
}

// Sealed says what the Backend is.
func (d *dying) Sealed() bool { return tidemark.IsSealed(d.Backend) }

var errKilled = errors.New("killed")

// What a killed indexer left has words, too.
func TestWhatIsPurgedIsGoneFromUnfinishedSegments(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		be, below := p(t)
		w := newWorld(t, be)
		w.say(logKey(1), prose(4000)...)
		w.say(logKey(2), "wave")
		killed := w.index(&dying{Backend: be, lives: 2}, index.Options{})
		killed.InBatchesOf(1000)
		if _, err := killed.CatchUp(t.Context(), w, index.Pace{}); !errors.Is(err, errKilled) {
			t.Fatalf("CatchUp = %v", err)
		}
		ix := w.index(be, index.Options{})
		if count, _ := w.look(ix).Segments(); count != 0 || !w.anySegment() {
			t.Fatal("there is no unfinished segment: the test looks for nothing")
		}
		w.purge(ix, logKey(1))
		if err := errors.Join(ix.Rewrite(t.Context()), ix.DropUnfinished(t.Context())); err != nil {
			t.Fatal(err)
		}
		if w.anySegment() {
			t.Error("an unfinished segment is still there")
		}
		w.catchUp(ix, index.Pace{})
		w.exact(w.look(ix), "wave")
		w.clean(w.look(ix), below)
	})
}

// Whoever read a line before it was purged leaves nothing of it after the purge,
// killed or not.
func TestNothingOfAPurgedLineIsWrittenLater(t *testing.T) {
	for _, lives := range []int{2, 1 << 30} {
		be, below := places["memory"](t)
		w := newWorld(t, be)
		w.say(logKey(1), prose(4000)...)
		w.say(logKey(2), "wave")
		other := w.index(be, index.Options{})
		purged := false
		ix := w.index(&halfway{Backend: &dying{Backend: be, lives: lives}, then: func() {
			w.purge(other, logKey(1))
			if err := errors.Join(other.Rewrite(t.Context()), other.DropUnfinished(t.Context())); err != nil {
				t.Fatal(err)
			}
			purged = true
		}}, index.Options{})
		ix.InBatchesOf(1000)
		// Refused, it begins again, without what was purged.
		if _, err := ix.CatchUp(t.Context(), w, index.Pace{}); err != nil || !purged {
			t.Fatalf("CatchUp = %v, and the line was purged meanwhile: %v", err, purged)
		}
		w.exact(w.look(other), "wave")
		w.clean(w.look(other), below)
	}
}

func (w *world) anySegment() bool {
	for range w.be.List(context.Background(), tidemark.Query{Kind: tidemark.KindSegment}) {
		return true
	}
	return false
}

// meddling is a Source in which something happens after a log was read.
type meddling struct {
	*world
	meddle func()
}

func (m *meddling) Touched(ctx context.Context, since time.Time) iter.Seq2[index.Log, error] {
	return func(yield func(index.Log, error) bool) {
		for l, err := range m.world.Touched(ctx, since) {
			if !yield(l, err) {
				return
			}
		}
		m.meddle()
	}
}

func TestTwoWhoIndexTheSameLinesKeepThemOnce(t *testing.T) {
	be, below := places["memory"](t)
	w := newWorld(t, be)
	one, two := w.index(be, index.Options{}), w.index(be, index.Options{})
	w.say(logKey(1), "tide", "tide")
	w.say(logKey(2), "tide")
	src := &meddling{world: w, meddle: sync.OnceFunc(func() { w.catchUp(two, index.Pace{}) })}
	if n, err := one.CatchUp(t.Context(), src, index.Pace{}); n != 0 || err != nil {
		t.Errorf("who was slower indexed %d lines, %v", n, err)
	}
	v := w.look(one)
	if n, lines := v.Segments(); n != 1 || lines != 3 {
		t.Errorf("%d segments with %d lines, want one with 3", n, lines)
	}
	w.clean(v, below)
}

func TestWhoDoesNotGetTheLeaseDoesNothing(t *testing.T) {
	be, _ := places["memory"](t)
	w := newWorld(t, be)
	one, two := w.index(be, index.Options{}), w.index(be, index.Options{})
	w.say(logKey(1), "tide")
	var errs []error
	src := &meddling{world: w, meddle: func() {
		for _, p := range []index.Pace{{}, {Alone: true}} {
			_, err := two.CatchUp(t.Context(), w, p)
			errs = append(errs, err)
		}
	}}
	if n, err := one.CatchUp(t.Context(), src, index.Pace{Alone: true}); n != 1 || err != nil {
		t.Fatalf("CatchUp = %d, %v", n, err)
	}
	for _, err := range errs {
		if !index.IsBusy(err) {
			t.Errorf("the other = %v, want that it is busy", err)
		}
	}
	w.say(logKey(1), "tide")
	w.catchUp(two, index.Pace{Alone: true}) // the lease is free again
}

// adopt copies a log into the store, as old as it was elsewhere.
func (w *world) adopt(log tidemark.Key, text string) {
	w.t.Helper()
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	id := tidemark.NewBatchID()
	r := must[tidemark.Record](w.t)(records.Put(log, 0, "a log"))
	r.UpdatedAt, r.Batch = at, id
	l := tidemark.Line{Seq: 1, Kind: "word", At: at, Body: []byte(text), Batch: id}
	l.Sum = l.Checksum(log)
	b := tidemark.Batch{Adopt: true, Puts: []tidemark.Record{r}, Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}, At: at}}}
	if _, err := w.k.Commit(context.Background(), b); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines[log] = []line{{at, strings.Fields(text)}}
}

func TestWhatIsCopiedIntoTheStoreIsFoundWhoeverIndexesMeanwhile(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		be, _ := p(t)
		w := newWorld(t, be)
		ix, other := w.index(be, index.Options{}), w.index(be, index.Options{})
		w.say(logKey(1), "tide")
		w.catchUp(ix, index.Pace{})
		id := must[string](t)(ix.Adopting(t.Context()))
		w.adopt(logKey(2), "tide of old")
		w.exact(w.look(other), "tide")
		w.catchUp(other, index.Pace{})
		w.adopt(logKey(3), "tide of yore")
		w.exact(w.look(other), "tide") // also when nobody ever says that this was all
		src := &meddling{world: w, meddle: sync.OnceFunc(func() {
			w.adopt(logKey(4), "tide of yesterday")
			if err := ix.Adopted(t.Context(), id); err != nil {
				t.Error(err)
			}
		})}
		if _, err := other.CatchUp(t.Context(), src, index.Pace{}); err != nil {
			t.Fatal(err)
		}
		v := w.look(ix)
		w.exact(v, "tide")
		w.catchUp(ix, index.Pace{})
		v = w.look(ix)
		w.caughtUp(v)
		if _, lines := v.Segments(); lines != 4 {
			t.Errorf("%d lines are indexed, want 4", lines)
		}
		w.exact(v, "tide")
	})
}

func TestWhoDiedWhileCopyingIsNotWaitedForForEver(t *testing.T) {
	be, _ := places["memory"](t)
	w := newWorld(t, be)
	ix := w.index(be, index.Options{})
	w.say(logKey(1), "tide")
	w.catchUp(ix, index.Pace{})
	must[string](t)(ix.Adopting(t.Context()))
	src := &counting{Source: w}
	looked := func() int {
		src.logs = 0
		w.catchUp(ix, index.Pace{Alone: true})
		if _, err := ix.CatchUp(t.Context(), src, index.Pace{}); err != nil {
			t.Fatal(err)
		}
		return src.logs
	}
	w.clock.after(time.Hour)
	if n := looked(); n != 1 {
		t.Errorf("%d logs were looked at, want all", n)
	}
	w.clock.after(24 * time.Hour)
	if n := looked(); n != 0 {
		t.Errorf("%d logs were looked at a day later, want none", n)
	}
}

func TestAnIndexThatWasForgottenIsMadeAnew(t *testing.T) {
	onEach(t, func(t *testing.T, p place) {
		be, below := p(t)
		w := newWorld(t, be)
		ix := w.index(be, index.Options{})
		w.say(logKey(1), "tide")
		w.catchUp(ix, index.Pace{})
		// Somebody who listed the logs before does not put what it has after.
		w.say(logKey(2), "tide")
		src := &meddling{world: w, meddle: sync.OnceFunc(func() {
			w.adopt(logKey(3), "tide of old")
			if err := index.Forget(t.Context(), below, w.clock.now()); err != nil {
				t.Error(err)
			}
		})}
		if _, err := ix.CatchUp(t.Context(), src, index.Pace{}); err != nil {
			t.Fatal(err)
		}
		v := w.look(ix)
		w.caughtUp(v)
		w.exact(v, "tide")
		w.clock.after(2 * time.Hour)
		w.catchUp(ix, index.Pace{Alone: true})
		w.clean(w.look(ix), below)
	})
}

// halfway is a Backend in which something happens before the first block of a
// segment is kept.
type halfway struct {
	tidemark.Backend
	then func()
}

func (h *halfway) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	for _, a := range b.Appends {
		if then := h.then; a.Log.Kind == tidemark.KindSegment && then != nil {
			h.then = nil
			then()
		}
	}
	return h.Backend.Commit(ctx, b)
}

func TestLinesAreIndexedWhileAMergeTakesItsTime(t *testing.T) {
	be, below := places["memory"](t)
	w := newWorld(t, be)
	other := w.index(be, index.Options{})
	for i := range segment.Fan {
		w.say(logKey(i), slices.Repeat([]string{"tide"}, 2500)...)
		w.catchUp(other, index.Pace{})
	}
	happened := false
	ix := w.index(&halfway{Backend: be, then: func() {
		happened = true
		if merged, err := other.Merge(t.Context(), 0); merged || !index.IsBusy(err) {
			t.Errorf("a second merge of the same = %v, %v, want that it is busy", merged, err)
		}
		w.say(logKey(9), "tide and time")
		w.catchUp(other, index.Pace{})
		w.caughtUp(w.look(other))
	}}, index.Options{})
	if merged, err := ix.Merge(t.Context(), 0); !merged || err != nil || !happened {
		t.Fatalf("Merge = %v, %v, and something happened meanwhile: %v", merged, err, happened)
	}
	v := w.look(ix)
	if n, lines := v.Segments(); n != 2 || lines != 8*2500+1 {
		t.Errorf("%d segments with %d lines, want two with all", n, lines)
	}
	w.caughtUp(v)
	w.exact(v, "time")
	w.clean(v, below)
}

func TestManyWritersAndIndexersAtOnce(t *testing.T) {
	for _, name := range []string{"memory", "sqlite"} {
		for _, p := range []place{places[name], sealed(places[name])} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				be, below := p(t)
				w := newWorld(t, be)
				var all sync.WaitGroup
				for n := range 3 {
					all.Go(func() {
						for i := range 20 {
							w.say(logKey(10*n+i%4), "moon shore", "wave")
						}
					})
					all.Go(func() {
						ix := w.index(be, index.Options{})
						var handed *index.Handed
						for i := range 20 {
							if handed == nil {
								handed = must[*index.Handed](t)(ix.Handed(context.Background(), 1+i%2<<20))
							}
							log := logKey(10*n + 5 + i%4)
							err := handed.Add(context.Background(), log, asSaid, w.say(log, "moon shore", "wave"))
							if i == 19 && err == nil {
								err = handed.Put(context.Background())
							}
							if errors.Is(err, tidemark.ErrConflict) {
								handed, err = nil, nil
							}
							if err != nil {
								t.Error(err)
							}
						}
					})
					all.Go(func() {
						ix := w.index(be, index.Options{})
						ix.HelpedBy(1 + n)
						for i := range 10 {
							_, err := ix.CatchUp(context.Background(), w, index.Pace{Alone: i%3 == 0})
							if err == nil {
								_, err = ix.Merge(context.Background(), 0)
							}
							if err == nil && i%4 == n {
								err = ix.Rewrite(context.Background())
							}
							if err != nil && !index.IsBusy(err) && !errors.Is(err, tidemark.ErrConflict) {
								t.Error(err)
							}
							w.found(w.look(ix), "moon", "shore")
						}
					})
				}
				all.Wait()
				w.clock.after(2 * time.Hour)
				ix := w.index(be, index.Options{})
				w.catchUp(ix, index.Pace{Alone: true})
				v := w.look(ix)
				w.caughtUp(v)
				w.exact(v, "moon", "shore")
				w.exact(v, "wave")
				w.clean(v, below)
			})
		}
	}
}

func TestAnIndexOfANewerVersionIsLeftAlone(t *testing.T) {
	be := memory.New()
	w := newWorld(t, be)
	r := must[tidemark.Record](t)(records.Put(tidemark.Key{Kind: tidemark.KindIndex, ID: index.Own}, 0, map[string]any{"format": 99}))
	if _, err := w.k.Commit(t.Context(), tidemark.Batch{Puts: []tidemark.Record{r}}); err != nil {
		t.Fatal(err)
	}
	ix := w.index(be, index.Options{})
	w.say(logKey(1), "tide")
	if _, err := ix.CatchUp(t.Context(), w, index.Pace{}); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("CatchUp = %v, want ErrUnsupported", err)
	}
	if err := ix.Reset(t.Context()); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("Reset = %v, want ErrUnsupported", err)
	}
}

// What Behind leaves out because a newer family has it, Search has to find, also
// where it comes to nothing that is gone before somebody has enough.
func TestAViewThatWentOnIsAskedAsAWhole(t *testing.T) {
	be, _ := places["memory"](t)
	w := newWorld(t, be)
	ix, other := w.index(be, index.Options{Cache: index.NewCache(0)}), w.index(be, index.Options{})
	for range segment.Fan {
		w.say(logKey(1), "ebb")
		w.catchUp(other, index.Pace{})
	}
	w.say(logKey(2), slices.Repeat([]string{"salt"}, 100)...)
	w.catchUp(other, index.Pace{})
	v := w.look(ix)
	w.exact(v, "salt") // all segments are open, and none of their blocks is kept
	w.say(logKey(9), "salt")
	w.catchUp(other, index.Pace{})
	if merged, err := other.Merge(t.Context(), 0); !merged || err != nil {
		t.Fatalf("Merge = %v, %v", merged, err)
	}
	w.caughtUp(v)
	for hit, err := range v.Search(t.Context(), query("salt")) {
		if err != nil || index.LogOf(hit.Log) != logKey(9) {
			t.Errorf("the newest is %v, %v, want that of %s", hit, err, logKey(9))
		}
		break
	}
}

func TestWhatWasHandedOverDoesNotCountAfterSomethingWasTakenOut(t *testing.T) {
	be, below := places["memory"](t)
	w := newWorld(t, be)
	ix := w.index(be, index.Options{})
	handed := must[*index.Handed](t)(ix.Handed(t.Context(), 1<<20))
	if err := handed.Add(t.Context(), logKey(1), asSaid, w.say(logKey(1), "ebb", "flow")); err != nil {
		t.Fatal(err)
	}
	w.purge(ix, logKey(1))
	if err := handed.Put(t.Context()); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("lines that were purged are put: %v", err)
	}
	v := w.look(ix)
	w.exact(v, "ebb")
	w.clean(v, below)
}

func TestWhatWasHandedOverCountsAlthoughAnotherDeletedItsNotes(t *testing.T) {
	be, _ := places["memory"](t)
	w := newWorld(t, be)
	ix := w.index(be, index.Options{})
	handed := must[*index.Handed](t)(ix.Handed(t.Context(), 1<<20))
	var notes []tidemark.Precondition
	for n := range 3 {
		if err := handed.Add(t.Context(), logKey(n), asSaid, w.say(logKey(n), "ebb", "flow")); err != nil {
			t.Fatal(err)
		}
		r := tidemark.NoteUnindexed(tidemark.SessionID(logKey(n).ID))
		if _, err := w.k.Commit(t.Context(), tidemark.Batch{Puts: []tidemark.Record{r}}); err != nil {
			t.Fatal(err)
		}
		notes = append(notes, tidemark.Precondition{Key: r.Key, Version: r.Version})
	}
	if err := handed.Done(t.Context(), notes...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.k.Commit(t.Context(), tidemark.Batch{Deletes: notes[1:2]}); err != nil {
		t.Fatal(err)
	}
	if err := handed.Put(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range notes {
		if _, err := be.Get(t.Context(), n.Key); !errors.Is(err, tidemark.ErrNotFound) {
			t.Errorf("the note %s is left: %v", n.Key, err)
		}
	}
	v := w.look(ix)
	if n, lines := v.Segments(); n != 1 || lines != 6 {
		t.Errorf("%d segments with %d lines, want 1 with 6", n, lines)
	}
	w.exact(v, "ebb")
}
