package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// searcher returns the ability to search, or nil: a backend without one has
// nothing to prove here.
func (b *bench) searcher() tidemark.Searcher {
	b.Helper()
	s, ok := b.backend().(tidemark.Searcher)
	if !ok || errors.Is(s.Unindex(context.Background()), tidemark.ErrUnsupported) {
		return nil
	}
	return s
}

// index adds the words of the lines of a log from a seq on.
func (b *bench) index(s tidemark.Searcher, log tidemark.Key, from int64, words ...[]string) {
	b.Helper()
	if err := s.Index(context.Background(), toIndex(log, from, words...)...); err != nil {
		b.Fatalf("Index = %v", err)
	}
}

func toIndex(log tidemark.Key, from int64, words ...[]string) (lines []tidemark.Indexed) {
	for i, w := range words {
		seq := from + int64(i)
		lines = append(lines, tidemark.Indexed{Log: log, Seq: seq, At: hourly(log, seq).At, Words: w})
	}
	return lines
}

// hourly is a line whose time distinguishes it from its neighbours in any index.
func hourly(log tidemark.Key, seq int64) tidemark.Line {
	l := NewLine(log, seq, fmt.Sprintf(`{"n":%d}`, seq))
	l.At = time.Date(2026, 1, 1, int(seq), 0, 0, 0, time.UTC)
	return sealed(log, l)
}

func hours(log tidemark.Key, from, to int64) tidemark.Append {
	a := tidemark.Append{Log: log}
	for s := from; s <= to; s++ {
		a.Lines = append(a.Lines, hourly(log, s))
	}
	return a
}

func (b *bench) found(s tidemark.Searcher, ask tidemark.IndexQuery) (hits []tidemark.Hit) {
	b.Helper()
	for h, err := range s.Search(context.Background(), ask) {
		if err != nil {
			b.Fatalf("Search(%+v) = %v", ask, err)
		}
		hits = append(hits, h)
	}
	return hits
}

func (b *bench) unindexed(s tidemark.Searcher, kinds ...string) (lags []tidemark.Lag) {
	b.Helper()
	for lag, err := range s.Unindexed(context.Background(), kinds...) {
		if err != nil {
			b.Fatalf("Unindexed = %v", err)
		}
		lags = append(lags, lag)
	}
	slices.SortFunc(lags, func(a, b tidemark.Lag) int { return compareKeys(a.Log, b.Log) })
	return lags
}

func compareKeys(a, b tidemark.Key) int {
	switch {
	case a == b:
		return 0
	case a.Kind < b.Kind, a.Kind == b.Kind && a.ID < b.ID:
		return -1
	}
	return 1
}

func all(words ...string) (terms [][]tidemark.Term) {
	for _, w := range words {
		terms = append(terms, []tidemark.Term{{Word: w}})
	}
	return terms
}

func searches(b *bench) {
	s := b.searcher()
	if s == nil {
		return
	}
	log := key("session", "s")
	b.keep(hours(log, 1, 4))
	b.index(s, log, 1, []string{"red", "fish"}, []string{"blue", "fish"}, []string{"red", "bird"}, []string{"fish"})
	for _, c := range []struct {
		ask  tidemark.IndexQuery
		want []int64
	}{
		{tidemark.IndexQuery{All: all("fish")}, []int64{4, 2, 1}},
		{tidemark.IndexQuery{All: all("fish"), Limit: 2}, []int64{4, 2}},
		{tidemark.IndexQuery{All: [][]tidemark.Term{{{Word: "fish"}}, {{Word: "red"}, {Word: "blue"}}}}, []int64{2, 1}},
		{tidemark.IndexQuery{All: [][]tidemark.Term{{{Word: "fish"}, {Word: "bird"}}}, None: []tidemark.Term{{Word: "red"}}}, []int64{4, 2}},
		{tidemark.IndexQuery{All: all("fis")}, nil},
		{tidemark.IndexQuery{All: [][]tidemark.Term{{{Word: "fis", Prefix: true}}}}, []int64{4, 2, 1}},
		{tidemark.IndexQuery{All: [][]tidemark.Term{{{Word: "blue", Prefix: true}, {Word: "bird"}}}}, []int64{3, 2}},
		{tidemark.IndexQuery{All: all("red"), None: []tidemark.Term{{Word: "fis", Prefix: true}}}, []int64{3}},
	} {
		var got []int64
		for _, h := range b.found(s, c.ask) {
			got = append(got, h.Seq)
			if want := (tidemark.Hit{Log: log, Seq: h.Seq, At: hourly(log, h.Seq).At}); h != want {
				b.Errorf("hit %+v, want %+v", h, want)
			}
		}
		if !slices.Equal(got, c.want) {
			b.Errorf("%+v: %v, want %v", c.ask, got, c.want)
		}
	}
}

// searchesInOrder has more lines of a minute than an index may want to hold back,
// in an order that is not that of their times. A caller that goes on behind a time
// would miss a line that came too late.
func searchesInOrder(b *bench) {
	s := b.searcher()
	if s == nil {
		return
	}
	const logs, lines = 4, 150
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for n := range logs {
		log := key("session", fmt.Sprint("s", n))
		a, words := tidemark.Append{Log: log}, []tidemark.Indexed(nil)
		for seq := int64(1); seq <= lines; seq++ {
			l := NewLine(log, seq, `{}`)
			l.At = start.Add(time.Duration(seq*7919%lines*logs+int64(n)) * 50 * time.Millisecond)
			a.Lines = append(a.Lines, sealed(log, l))
			words = append(words, tidemark.Indexed{Log: log, Seq: seq, At: l.At, Words: []string{"fish", "fished", "fishing"}})
		}
		b.keep(a)
		if err := s.Index(context.Background(), words...); err != nil {
			b.Fatalf("Index = %v", err)
		}
	}
	for _, term := range []tidemark.Term{{Word: "fish"}, {Word: "fis", Prefix: true}} {
		hits := b.found(s, tidemark.IndexQuery{All: [][]tidemark.Term{{term}}})
		if len(hits) != logs*lines {
			b.Errorf("%+v: %d hits, want %d", term, len(hits), logs*lines)
		}
		for i := 1; i < len(hits); i++ {
			if hits[i].At.After(hits[i-1].At) {
				b.Fatalf("%+v: hit %d, of %v, comes behind one of %v", term, i, hits[i].At, hits[i-1].At)
			}
		}
	}
}

// indexes also checks lines that come later but are older, as an import adds
// them.
func indexes(b *bench) {
	s := b.searcher()
	if s == nil {
		return
	}
	one, two, quiet := key("session", "one"), key("worker", "two"), key("job", "quiet")
	b.keep(hours(one, 1, 3), hours(two, 1, 1), hours(quiet, 1, 1))
	b.same(b.unindexed(s, "session", "worker"), []tidemark.Lag{{Log: one, From: 1, To: 3}, {Log: two, From: 1, To: 1}})
	b.index(s, one, 1, []string{"a"}, nil)
	b.same(b.unindexed(s, "session", "worker"), []tidemark.Lag{{Log: one, From: 3, To: 3}, {Log: two, From: 1, To: 1}})
	for what, lines := range map[string][]tidemark.Indexed{
		"again":      toIndex(one, 2, []string{"b"}, []string{"c"}),
		"with a gap": toIndex(two, 2, []string{"b"}),
		"past it":    toIndex(one, 3, []string{"b"}, []string{"c"}),
		"no log":     toIndex(key("session", "none"), 1, []string{"b"}),
	} {
		if err := s.Index(context.Background(), lines...); !errors.Is(err, tidemark.ErrConflict) {
			b.Errorf("Index %s = %v, want ErrConflict", what, err)
		}
	}
	b.same(len(b.found(s, tidemark.IndexQuery{All: all("b")})), 0)
	lines := append(toIndex(two, 1, []string{"a", "a", "worker"}), toIndex(one, 3, []string{"a"})...)
	if err := s.Index(context.Background(), lines...); err != nil {
		b.Fatalf("Index = %v", err)
	}
	b.same(len(b.unindexed(s, "session", "worker")), 0)
	b.same(b.unindexed(s, "job"), []tidemark.Lag{{Log: quiet, From: 1, To: 1}})
	b.keep(hours(one, 4, 4))
	b.same(b.unindexed(s, "session"), []tidemark.Lag{{Log: one, From: 4, To: 4}})
	other := b.open()
	defer other.Close()
	b.same(len(b.found(other.(tidemark.Searcher), tidemark.IndexQuery{All: all("a")})), 3)
	b.same(b.found(s, tidemark.IndexQuery{All: all("worker")}), []tidemark.Hit{{Log: two, Seq: 1, At: hourly(two, 1).At}})
}

func dropsAreNotFound(b *bench) {
	s := b.searcher()
	if s == nil {
		return
	}
	gone, stays := key("session", "gone"), key("session", "stays")
	b.keep(hours(gone, 1, 3), hours(stays, 1, 2))
	b.index(s, gone, 1, []string{"fish"}, []string{"fish"})
	b.index(s, stays, 1, []string{"fish"}, []string{"fish"})
	b.keep(tidemark.Batch{Drops: []tidemark.Key{gone}})
	b.same(b.found(s, tidemark.IndexQuery{All: all("fish")}), []tidemark.Hit{
		{Log: stays, Seq: 2, At: hourly(stays, 2).At}, {Log: stays, Seq: 1, At: hourly(stays, 1).At}})
	b.same(len(b.unindexed(s, "session")), 0)
	b.keep(hours(gone, 1, 1))
	b.same(b.unindexed(s, "session"), []tidemark.Lag{{Log: gone, From: 1, To: 1}})
	b.index(s, gone, 1, []string{"bird"})
	b.same(b.found(s, tidemark.IndexQuery{All: all("bird")}), []tidemark.Hit{{Log: gone, Seq: 1, At: hourly(gone, 1).At}})
}

func unindexes(b *bench) {
	s := b.searcher()
	if s == nil {
		return
	}
	log := key("session", "s")
	b.keep(hours(log, 1, 2))
	b.index(s, log, 1, []string{"fish"}, []string{"fish"})
	if err := s.Unindex(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.same(len(b.found(s, tidemark.IndexQuery{All: all("fish")})), 0)
	b.same(b.unindexed(s, "session"), []tidemark.Lag{{Log: log, From: 1, To: 2}})
	b.index(s, log, 1, []string{"fish"}, []string{"bird"})
	b.same(len(b.found(s, tidemark.IndexQuery{All: all("fish")})), 1)
}

// anyWords searches for words that a query language or a tokenizer might split.
func anyWords(b *bench) {
	s := b.searcher()
	if s == nil {
		return
	}
	words := []string{"a b", `"`, "*", "a*", "NEAR", "AND", "and", "A", "a", "^x", "-x", "x:y", "会", "会話", "é", "e\u0301", "\x00r:user", "it's", "(", "ß", "\\", "%41"}
	log := key("session", "s")
	b.keep(hours(log, 1, int64(len(words))))
	var each [][]string
	for _, w := range words {
		each = append(each, []string{w})
	}
	b.index(s, log, 1, each...)
	for i, w := range words {
		hits := b.found(s, tidemark.IndexQuery{All: all(w)})
		if len(hits) != 1 || hits[0].Seq != int64(i+1) {
			b.Errorf("word %q is found at %v, want line %d", w, hits, i+1)
		}
	}
}

func walks(b *bench) {
	w := b.backend()
	both, record, log := key("session", "both"), key("lease", "r"), key("notes", "l")
	b.keep(NewRecord(both, 1, `{}`), NewRecord(record, 1, `{}`), NewRecord(key("session", "gone"), 1, `{}`), run(both, 1, 1), run(log, 1, 2))
	b.keep(tidemark.Batch{Deletes: []tidemark.Precondition{{Key: key("session", "gone"), Version: 1}}})
	walk := func(after tidemark.Key) (keys []tidemark.Key) {
		for k, err := range w.Walk(context.Background(), after) {
			if err != nil {
				b.Fatalf("Walk = %v", err)
			}
			keys = append(keys, k)
		}
		return keys
	}
	b.same(walk(tidemark.Key{}), []tidemark.Key{record, log, both})
	b.same(walk(record), []tidemark.Key{log, both})
	b.same(walk(key("notes", "")), []tidemark.Key{log, both})
	b.same(len(walk(both)), 0)
}

func adopts(b *bench) {
	k := key("session", "s")
	r := NewRecord(k, 37, `{"a":1}`)
	r.UpdatedAt, r.Batch = time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC), "other-batch"
	r.Group, r.State, r.Due = "g", "live", time.Date(2031, 1, 2, 3, 4, 5, 6000, time.UTC)
	a := run(k, 1, 3)
	a.At = time.Date(2021, 1, 2, 3, 4, 5, 6000, time.UTC)
	for i := range a.Lines {
		a.Lines[i].Batch = fmt.Sprintf("batch-%d", i)
	}
	batch := b.batch(r, a)
	batch.Adopt = true
	if _, err := b.backend().Commit(context.Background(), batch); err != nil {
		b.Fatalf("Commit = %v", err)
	}
	want := r
	want.Head = tidemark.Head{Length: 3, UpdatedAt: a.At, Position: a.Lines[2].Position}
	b.same(b.get(k), want)
	b.same(b.lines(k), a.Lines)
	other := b.open()
	defer other.Close()
	got, err := other.Get(context.Background(), k)
	if err != nil {
		b.Fatal(err)
	}
	b.same(got, want)
	b.same(b.list(tidemark.Query{Kind: "session"}), []tidemark.Record{want})
	b.keep(NewRecord(k, 38, `{}`), run(k, 4, 4))
	b.same(ids(b.list(tidemark.Query{Kind: "session"})), []string{"s"})
}

func adoptConflicts(b *bench) {
	k := key("session", "s")
	first := b.keep(NewRecord(k, 1, `{}`), run(k, 1, 2))
	for what, parts := range map[string][]any{
		"a record": {NewRecord(k, 2, `{"other":1}`)},
		"a line":   {run(k, 2, 2)},
	} {
		batch := b.batch(parts...)
		batch.Adopt = true
		for i := range batch.Puts {
			batch.Puts[i].UpdatedAt, batch.Puts[i].Batch = batch.At, batch.ID
		}
		for i := range batch.Appends {
			batch.Appends[i].At = batch.At
			for j := range batch.Appends[i].Lines {
				batch.Appends[i].Lines[j].Batch = batch.ID
			}
		}
		if _, err := b.backend().Commit(context.Background(), batch); !errors.Is(err, tidemark.ErrConflict) {
			b.Errorf("adopting %s over one that stands = %v, want ErrConflict", what, err)
		}
	}
	bare := b.batch(NewRecord(key("session", "bare"), 5, `{}`))
	bare.Adopt = true
	if _, err := b.backend().Commit(context.Background(), bare); !errors.Is(err, tidemark.ErrInvalid) {
		b.Errorf("adopting a record without its time = %v, want ErrInvalid", err)
	}
	b.same(b.get(k).Batch, first.ID)
}
