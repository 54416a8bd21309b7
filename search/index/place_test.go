package index_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/search/index"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must[T any](t fataler) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// place makes an empty store, and returns what is above and below its seal, which
// are the same where it has none.
type place func(t testing.TB) (above, below tidemark.Backend)

var places = map[string]place{
	"memory": func(testing.TB) (tidemark.Backend, tidemark.Backend) { b := memory.New(); return b, b },
	"files": func(t testing.TB) (tidemark.Backend, tidemark.Backend) {
		b := must[*files.Backend](t)(files.Open(context.Background(), t.TempDir(), &files.Options{Create: true}))
		t.Cleanup(func() { b.Close() })
		return b, b
	},
	"sqlite": func(t testing.TB) (tidemark.Backend, tidemark.Backend) {
		b := must[*sqlite.Backend](t)(sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "store.db"), &sqlite.Options{Create: true}))
		t.Cleanup(func() { b.Close() })
		return b, b
	},
}

// far reads lines of several logs together, but not always, and not all that there are.
type far struct {
	tidemark.Backend
	calls, logs atomic.Int64 // of LinesOf, and what was asked for in all of them
}

func (f *far) LinesOf(ctx context.Context, asked []tidemark.LogLines) ([][]tidemark.Line, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	f.logs.Add(int64(len(asked)))
	if f.calls.Add(1)%7 == 0 {
		return nil, tidemark.Storagef("far away")
	}
	all := make([][]tidemark.Line, len(asked))
	for i, a := range asked {
		for _, seq := range a.Seqs {
			for l, err := range f.Lines(ctx, a.Log, tidemark.Span{From: seq, To: seq}) {
				if err == nil && seq%5 != 0 {
					all[i] = append(all[i], l)
				}
			}
		}
	}
	return all, nil
}

func sealed(inner place) place {
	return func(t testing.TB) (tidemark.Backend, tidemark.Backend) {
		_, below := inner(t)
		slot := must[seal.NewSlot](t)(seal.FileSlot("test", seal.NewKeyFile()))
		return must[*seal.Backend](t)(seal.Create(context.Background(), below, slot)), below
	}
}

// onEach runs a test over every kind of store, plain and sealed.
func onEach(t *testing.T, test func(t *testing.T, p place)) {
	for name, p := range places {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, p) })
		t.Run(name+" sealed", func(t *testing.T) { t.Parallel(); test(t, sealed(p)) })
	}
}

// world is a store with logs of words, and what is in them, line by line.
type world struct {
	t     fataler
	be    tidemark.Backend
	k     *records.Kernel
	clock *clock
	mu    sync.Mutex
	lines map[tidemark.Key][]line
}

type line struct {
	at    time.Time
	words []string
}

// clock goes on by a few seconds whenever somebody looks.
type clock struct {
	mu   sync.Mutex
	time time.Time
}

func (c *clock) now() time.Time { return c.after(3 * time.Second) }

func (c *clock) after(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(d)
	return c.time
}

func newWorld(t fataler, be tidemark.Backend) *world {
	c := &clock{time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	return &world{t: t, be: be, k: records.New(be, records.Options{Now: c.now}), clock: c, lines: make(map[tidemark.Key][]line)}
}

var who = tidemark.Holder{Program: "test", PID: 1, Host: "here"}

// index returns another process's index over a Backend, which may be one that fails.
func (w *world) index(be tidemark.Backend, o index.Options) *index.Index {
	o.Holder = who
	return index.New(records.New(be, records.Options{Now: w.clock.now}), o)
}

func logKey(n int) tidemark.Key {
	return tidemark.Key{Kind: "session", ID: fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)}
}

// say appends lines to a log, and returns them.
func (w *world) say(log tidemark.Key, text ...string) []tidemark.Line {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	had := w.lines[log]
	var b tidemark.Batch
	a := tidemark.Append{Log: log}
	for i, s := range text {
		// Lines of one instant are told apart by their log and seq.
		at := records.Keepable(w.clock.now()).Truncate(10 * time.Second)
		l := tidemark.Line{Seq: int64(len(had) + i + 1), Kind: "word", At: at, Body: []byte(s)}
		l.Sum = l.Checksum(log)
		a.Lines = append(a.Lines, l)
		w.lines[log] = append(w.lines[log], line{at, strings.Fields(s)})
	}
	b.Appends = []tidemark.Append{a}
	if len(had) == 0 {
		b.Puts = append(b.Puts, must[tidemark.Record](w.t)(records.Put(log, 0, "a log")))
	}
	if _, err := w.k.Commit(context.Background(), b); err != nil {
		w.t.Fatal(err)
	}
	return a.Lines
}

// asSaid are the words of a line as it was appended, whatever became of it since.
func asSaid(l tidemark.Line, put func([]byte, int)) {
	for i, word := range bytes.Fields(l.Body) {
		put(word, i)
	}
}

// purge removes a log, and hides it from the index in the same commit.
func (w *world) purge(ix *index.Index, log tidemark.Key) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.lines, log)
	w.change(func() (tidemark.Batch, error) {
		r, err := ix.Leave(context.Background(), index.Lines{Log: log, From: 1})
		return tidemark.Batch{Puts: []tidemark.Record{r}, Deletes: []tidemark.Precondition{{Key: log, Version: 1}}, Drops: []tidemark.Key{log}}, err
	})
}

// mask changes what a line says. In the store that is a mark beside the log.
func (w *world) mask(ix *index.Index, log tidemark.Key, seq int64) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines[log][seq-1].words = []string{"masked"}
	w.change(func() (tidemark.Batch, error) {
		r, err := ix.Renew(context.Background(), index.Lines{Log: log, From: seq, To: seq})
		return tidemark.Batch{Puts: []tidemark.Record{r}}, err
	})
}

func (w *world) change(make func() (tidemark.Batch, error)) {
	w.t.Helper()
	err := records.Retry(context.Background(), func() error {
		b, err := make()
		if err == nil {
			_, err = w.k.Commit(context.Background(), b)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// Touched implements index.Source, by listing what changed last.
func (w *world) Touched(ctx context.Context, since time.Time) iter.Seq2[index.Log, error] {
	return func(yield func(index.Log, error) bool) {
		for r, err := range w.be.List(ctx, tidemark.Query{Kind: "session"}) {
			if err == nil && r.Touched().Before(since) {
				return
			}
			if !yield(index.Log{Key: r.Key, Length: r.Head.Length}, err) {
				return
			}
		}
	}
}

// Words implements index.Source.
func (w *world) Words(_ context.Context, log tidemark.Key) (index.Words, error) {
	return func(l tidemark.Line, put func([]byte, int)) {
		for i, word := range w.wordsOf(log, l) {
			put([]byte(word), i)
		}
	}, nil
}

// Length implements index.Source.
func (w *world) Length(ctx context.Context, log tidemark.Key) (int64, error) {
	r, err := w.be.Get(ctx, log)
	return r.Head.Length, err
}

// Lines implements index.Source.
func (w *world) Lines(ctx context.Context, log tidemark.Key, span tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return w.be.Lines(ctx, log, span)
}

func (w *world) wordsOf(log tidemark.Key, l tidemark.Line) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if lines := w.lines[log]; int(l.Seq) <= len(lines) {
		return lines[l.Seq-1].words
	}
	return strings.Fields(string(l.Body))
}

// naive answers by looking at every line.
func (w *world) naive(phrase ...string) (found []segment.Line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for log, lines := range w.lines {
		for i, l := range lines {
			if has(l.words, phrase) {
				found = append(found, index.LineOf(log, tidemark.Line{Seq: int64(i + 1), At: l.at}))
			}
		}
	}
	slices.SortFunc(found, func(a, b segment.Line) int { return b.Compare(a) })
	return found
}

func has(words, phrase []string) bool {
	for i := range words {
		if len(words)-i >= len(phrase) && slices.Equal(words[i:i+len(phrase)], phrase) {
			return true
		}
	}
	return false
}

func query(phrase ...string) segment.Query {
	if len(phrase) == 1 {
		return segment.Query{All: [][]tidemark.Term{{{Word: phrase[0]}}}}
	}
	var steps []tidemark.Step
	for i, word := range phrase {
		steps = append(steps, tidemark.Step{Term: tidemark.Term{Word: word}, Place: i})
	}
	return segment.Query{Phrases: [][]tidemark.Step{steps}}
}

// found answers as a store does: what is not indexed is read, the index is asked for
// the rest, and what it finds is opened.
func (w *world) found(v *index.View, phrase ...string) (found []segment.Line) {
	w.t.Helper()
	seen := make(map[segment.Line]bool)
	open := func(log tidemark.Key, from, to int64) {
		for l, err := range w.be.Lines(context.Background(), log, tidemark.Span{From: from, To: to}) {
			if err != nil {
				w.t.Fatal(err)
			}
			if line := index.LineOf(log, l); has(w.wordsOf(log, l), phrase) && !seen[line] {
				seen[line] = true
				found = append(found, line)
			}
		}
	}
	for lines, err := range index.Behind(context.Background(), w, v) {
		if err != nil {
			w.t.Fatal(err)
		}
		open(lines.Log, lines.From, lines.To)
	}
	var last *segment.Line
	for hit, err := range v.Search(context.Background(), query(phrase...)) {
		if err != nil {
			w.t.Fatal(err)
		}
		if last != nil && hit.Compare(*last) >= 0 {
			w.t.Fatalf("%v comes behind %v", hit.Line, *last)
		}
		last = &hit.Line
		open(index.LogOf(hit.Log), hit.Seq, hit.Seq)
	}
	slices.SortFunc(found, func(a, b segment.Line) int { return b.Compare(a) })
	return found
}

func (w *world) look(ix *index.Index) *index.View {
	w.t.Helper()
	return must[*index.View](w.t)(ix.Look(context.Background()))
}

// exact compares what an index finds with what is there.
func (w *world) exact(v *index.View, phrase ...string) {
	w.t.Helper()
	want, got := w.naive(phrase...), w.found(v, phrase...)
	if !slices.Equal(want, got) {
		w.t.Fatalf("%q: found %d lines, want %d\ngot  %v\nwant %v", phrase, len(got), len(want), got, want)
	}
}

func (w *world) catchUp(ix *index.Index, p index.Pace) {
	w.t.Helper()
	if _, err := ix.CatchUp(context.Background(), w, p); err != nil {
		w.t.Fatal(err)
	}
}

// caughtUp fails when the index lacks something.
func (w *world) caughtUp(v *index.View) {
	w.t.Helper()
	for lines, err := range index.Behind(context.Background(), w, v) {
		w.t.Fatalf("not indexed: %v, %v", lines, err)
	}
}

// clean fails when there are other segments than those that count, or keys of them.
func (w *world) clean(v *index.View, below tidemark.Backend) {
	w.t.Helper()
	count, _ := v.Segments()
	ids := make(map[string][]string)
	for k, err := range below.Walk(context.Background(), tidemark.Key{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		ids[k.Kind] = append(ids[k.Kind], k.ID)
	}
	if got := len(ids[tidemark.KindSegment]); got != count {
		w.t.Fatalf("%d segments are kept, %d count", got, count)
	}
	for _, id := range ids["datakey"] {
		if id != "store" && !slices.Contains(ids["session"], id) && !slices.Contains(ids[tidemark.KindSegment], id) {
			w.t.Fatalf("the key of %s is kept, which is gone", id)
		}
	}
}

// holds reports whether the words of a plain index hold some bytes.
func (w *world) holds(word string) bool {
	w.t.Helper()
	for r, err := range w.be.List(context.Background(), tidemark.Query{Kind: tidemark.KindSegment}) {
		if err != nil {
			w.t.Fatal(err)
		}
		for l, err := range w.be.Lines(context.Background(), r.Key) {
			if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
				w.t.Fatal(err)
			}
			if bytes.Contains(l.Body, []byte(word)) {
				return true
			}
		}
	}
	return false
}
