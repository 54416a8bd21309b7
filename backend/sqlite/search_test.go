package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

// found returns what a search for all of some words yields, as log/seq.
func foundBy(t testing.TB, b tidemark.Searcher, a tidemark.IndexQuery) (hits []string) {
	t.Helper()
	for h, err := range b.Search(context.Background(), a) {
		if err != nil {
			t.Fatalf("Search(%+v) = %v", a, err)
		}
		hits = append(hits, fmt.Sprintf("%s/%d", h.Log.ID, h.Seq))
	}
	return hits
}

func allOf(words ...string) (a tidemark.IndexQuery) {
	for _, w := range words {
		a.All = append(a.All, []tidemark.Term{{Word: w}})
	}
	return a
}

// toIndex gives the lines of talk words.
func toIndex(log tidemark.Key, from, to int64, words ...string) (lines []tidemark.Indexed) {
	for seq := from; seq <= to; seq++ {
		lines = append(lines, tidemark.Indexed{Log: log, Seq: seq, At: line(log, seq, "", "").At, Words: words})
	}
	return lines
}

func index(t testing.TB, b tidemark.Searcher, lines []tidemark.Indexed) {
	t.Helper()
	if err := b.Index(context.Background(), lines...); err != nil {
		t.Fatalf("Index = %v", err)
	}
}

func lagging(t testing.TB, b tidemark.Searcher, kinds ...string) (lags []tidemark.Lag) {
	t.Helper()
	for lag, err := range b.Unindexed(context.Background(), kinds...) {
		if err != nil {
			t.Fatalf("Unindexed = %v", err)
		}
		lags = append(lags, lag)
	}
	return lags
}

// first is the program that knew version 1 alone.
func first() setting {
	set := here
	set.upgrades = nil
	return set
}

// version1 makes a store as the first program did, with what another holds.
func version1(t *testing.T, from *Backend) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "version1.db")
	if err := makeStore(path, first()); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, forWriting, writing...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	const head = "number, kind, id, length, updated, parent, depth, nodes, turn, chain, sum"
	if err := c.run("ATTACH '" + from.path + "' AS v2; INSERT INTO record SELECT * FROM v2.record; INSERT INTO log (" + head + ") SELECT " + head +
		" FROM v2.log; INSERT INTO line (" + lineColumns + ") SELECT " + lineColumns + " FROM v2.line"); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStoreOfVersion1IsReadAsItIsAndUpgradedWhenItIsWritten(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, `{"a":1}`)}})
	talk(t, b, log, 1, 5)
	path := version1(t, b)

	r := opened(t, path, &Options{ReadOnly: true})
	if n := len(linesOf(t, r, log)); n != 5 {
		t.Errorf("%d lines, want 5", n)
	}
	for _, err := range r.Search(t.Context(), allOf("fish")) {
		if !errors.Is(err, tidemark.ErrUnsupported) {
			t.Errorf("Search = %v, want ErrUnsupported", err)
		}
	}
	for _, err := range r.Unindexed(t.Context(), "session") {
		if !errors.Is(err, tidemark.ErrUnsupported) {
			t.Errorf("Unindexed = %v, want ErrUnsupported", err)
		}
	}
	if found := faults(t, r); found != nil {
		t.Errorf("Check: %v", found)
	}

	w := opened(t, path, nil)
	if copies, _ := filepath.Glob(path + ".bak-v1-*"); len(copies) != 1 {
		t.Errorf("backups: %v", copies)
	}
	if d := cmp.Diff([]tidemark.Lag{{Log: log, From: 1, To: 5}}, lagging(t, w, "session")); d != "" {
		t.Errorf("unindexed:\n%s", d)
	}
	index(t, w, toIndex(log, 1, 5, "fish"))
	talk(t, w, log, 6, 6)
	for _, s := range []*Backend{w, r} { // the reader sees that it was upgraded
		if got := foundBy(t, s, allOf("fish")); len(got) != 5 {
			t.Errorf("found %v", got)
		}
	}
	if found := faults(t, w); found != nil {
		t.Errorf("Check: %v", found)
	}
	for _, o := range []*Options{nil, {ReadOnly: true}} {
		if _, err := open(t.Context(), path, o, first()); !errors.Is(err, tidemark.ErrUnsupported) {
			t.Errorf("the first program opens it: %v, want ErrUnsupported", err)
		}
	}
}

func TestStoreOpenedForReadingIsSearchedAndNotIndexed(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	talk(t, b, log, 1, 3)
	index(t, b, toIndex(log, 1, 2, "fish"))
	b.Close()
	for _, end := range []string{"", "-shm"} { // and as it lies
		if end != "" {
			os.Remove(b.path + end)
		}
		r := opened(t, b.path, &Options{ReadOnly: true})
		if got := foundBy(t, r, allOf("fish")); !slices.Equal(got, []string{"s/2", "s/1"}) {
			t.Errorf("found %v", got)
		}
		for _, err := range []error{r.Index(t.Context(), toIndex(log, 3, 3, "x")...), r.Unindex(t.Context())} {
			if !errors.Is(err, tidemark.ErrStorage) {
				t.Errorf("changing the index = %v, want ErrStorage", err)
			}
		}
		r.Close()
	}
}

func TestSearchWalksTheIndexAndSortsNothing(t *testing.T) {
	b := made(t)
	err := b.snapshot(t.Context(), func(c *conn) error {
		for _, sql := range []string{sqlSearch, sqlUnindexed, sqlWalk} {
			err := c.do("EXPLAIN QUERY PLAN "+sql, nil, func(s *stmt) {
				if plan := s.text(3); strings.Contains(plan, "TEMP B-TREE") || strings.HasPrefix(plan, "SCAN") && !strings.Contains(plan, "VIRTUAL") {
					t.Errorf("%s\nis carried out with %s", sql, plan)
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An import brings lines that are older than what is indexed, and many of one
// instant.
func TestNewestAreFoundFirstWhateverOrderTheyCameIn(t *testing.T) {
	b := made(t)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	add := func(id string, times ...time.Time) {
		t.Helper()
		log := key("session", id)
		a, ix := tidemark.Append{Log: log}, []tidemark.Indexed(nil)
		for i, at := range times {
			l := line(log, int64(i+1), "user", `{}`)
			l.At = at
			l.Sum = l.Checksum(log)
			a.Lines = append(a.Lines, l)
			ix = append(ix, tidemark.Indexed{Log: log, Seq: l.Seq, At: at, Words: []string{"fish"}})
		}
		keep(t, b, tidemark.Batch{Appends: []tidemark.Append{a}})
		index(t, b, ix)
	}
	var burst []time.Time
	for i := range 3*bucketIDs + 7 {
		burst = append(burst, start.Add(time.Duration(i)*time.Millisecond))
	}
	add("new", start.Add(48*time.Hour), start.Add(49*time.Hour))
	add("burst", burst...)
	add("zero", time.Time{}.UTC())
	add("late", time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))
	add("between", start.Add(4*time.Minute), start.Add(24*time.Hour)) // where the burst had to go
	got := foundBy(t, b, allOf("fish"))
	want := []string{"late/1", "new/2", "new/1", "between/2", "between/1"}
	for i := len(burst); i > 0; i-- {
		want = append(want, fmt.Sprint("burst/", i))
	}
	want = append(want, "zero/1")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	for n := range want {
		a := allOf("fish")
		a.Limit = n + 1
		if got := foundBy(t, b, a); !slices.Equal(got, want[:n+1]) {
			t.Fatalf("the first %d: %v", n+1, got)
		}
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
}

func TestIndexOfManyLinesGoesOnWhereAnotherProgramWasQuicker(t *testing.T) {
	b := made(t)
	log, gone := key("session", "s"), key("session", "gone")
	const lines = 2*indexLines + 10
	talk(t, b, log, 1, lines)
	talk(t, b, gone, 1, 5)
	all := append(toIndex(log, 1, lines, "fish"), toIndex(gone, 1, 5, "fish")...)
	x := &indexing{lines: all}
	step := func() {
		t.Helper()
		if err := b.runJob(t.Context(), &job{do: x.next}); err != nil {
			t.Fatal(err)
		}
	}
	step()
	other := opened(t, b.path, nil)
	index(t, other, toIndex(log, indexLines+1, indexLines+20, "fish"))
	keep(t, other, tidemark.Batch{Drops: []tidemark.Key{gone}})
	talk(t, other, gone, 1, 5)
	for x.done < len(all) {
		step()
	}
	if n := len(foundBy(t, b, allOf("fish"))); n != lines {
		t.Errorf("%d lines found, want %d", n, lines)
	}
	if d := cmp.Diff([]tidemark.Lag{{Log: gone, From: 1, To: 5}}, lagging(t, b, "session")); d != "" {
		t.Errorf("unindexed:\n%s", d)
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
}

func TestWordsOfPurgedLinesAreGoneFromTheFilesAfterCompact(t *testing.T) {
	b := made(t)
	log, other := key("session", "s"), key("session", "other")
	const secret = "the-secret-word"
	talk(t, b, log, 1, 300)
	talk(t, b, other, 1, 300)
	index(t, b, toIndex(other, 1, 150, "fish"))
	index(t, b, toIndex(log, 1, 300, "fish", secret))
	index(t, b, toIndex(other, 151, 300, "fish"))
	keep(t, b, tidemark.Batch{Drops: []tidemark.Key{log}})
	if got := foundBy(t, b, allOf(secret)); got != nil {
		t.Errorf("found %v", got)
	}
	if _, err := b.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, data := range contents(t, filepath.Dir(b.path)) {
		if strings.Contains(data, secret) || strings.Contains(data, "secret-w") {
			t.Errorf("%s still holds it", name)
		}
	}
	if n := len(foundBy(t, b, allOf("fish"))); n != 300 {
		t.Errorf("%d others found, want 300", n)
	}
}

func TestIndexIsAskedWithTheStatementOfItsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats", "sqlite.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, sql, ok := strings.Cut(string(page), "\n```\nSELECT l.id, n.seq FROM word")
	sql, _, _ = strings.Cut(sql, "```")
	if !ok {
		t.Fatal("the page has no such statement")
	}
	b := made(t)
	log := key("session", "s")
	talk(t, b, log, 1, 3)
	index(t, b, toIndex(log, 1, 2, "tide"))
	var got []int64
	err = b.snapshot(t.Context(), func(c *conn) error {
		return c.do("SELECT l.id, n.seq FROM word"+sql, nil, func(s *stmt) { got = append(got, s.int(1)) })
	})
	if err != nil || !slices.Equal(got, []int64{2, 1}) {
		t.Errorf("%v, %v; want [2 1]", got, err)
	}
}

func TestQuestionsMayBeLong(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	talk(t, b, log, 1, 2)
	var words []string
	for i := range 600 {
		words = append(words, fmt.Sprint("w", i))
	}
	long := strings.Repeat("X", 40_000)
	index(t, b, append(toIndex(log, 1, 1, append(words, long)...), toIndex(log, 2, 2, "w1", "w2", long+"x")...))
	var any []tidemark.Term
	for _, w := range words {
		any = append(any, tidemark.Term{Word: w})
	}
	for _, c := range []struct {
		ask  tidemark.IndexQuery
		want []string
	}{
		{allOf(words...), []string{"s/1"}},
		{tidemark.IndexQuery{All: [][]tidemark.Term{any}}, []string{"s/2", "s/1"}},
		{tidemark.IndexQuery{All: [][]tidemark.Term{any}, None: any[3:]}, []string{"s/2"}},
		{allOf(long), []string{"s/1"}},
		{tidemark.IndexQuery{All: [][]tidemark.Term{any, {}}}, nil},
		{tidemark.IndexQuery{}, nil},
	} {
		if got := foundBy(t, b, c.ask); !slices.Equal(got, c.want) {
			t.Errorf("%.60v: %v, want %v", c.ask, got, c.want)
		}
	}
	for _, word := range []string{"", long} {
		for _, err := range b.Search(t.Context(), tidemark.IndexQuery{All: [][]tidemark.Term{{{Word: word, Prefix: true}}}}) {
			if !errors.Is(err, tidemark.ErrInvalid) {
				t.Errorf("a beginning of %d bytes: %v, want ErrInvalid", len(word), err)
			}
		}
	}
}

// An append writes the page of its line and the page of its head, and nothing
// for the index.
func TestAppendToALogThatIsNotIndexedWritesNoPageForTheIndex(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(log, 1, `{}`)}})
	talk(t, b, log, 1, 1)
	talk(t, b, log, 2, 2)
	frames := func() (n int64) {
		t.Helper()
		if err := b.writer.c.do("PRAGMA wal_checkpoint(NOOP)", nil, func(s *stmt) { n = s.int(1) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := frames()
	for seq := int64(3); seq <= 7; seq++ {
		talk(t, b, log, seq, seq)
	}
	if n := frames() - before; n != 10 {
		t.Errorf("5 appends wrote %d pages, want 10", n)
	}
}

// The search of random histories is compared with that of package memory.
func TestSearchAnswersLikeTheModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		model, real := memory.New(), made(t)
		defer real.Close()
		words := rapid.SampledFrom([]string{"a", "A", "ab", "", "b c", `"`, "%", "^a", "é", "\xff"})
		lengths, done := make(map[string]int64), make(map[string]int64)
		both := func(do func(tidemark.Backend, tidemark.Searcher) error) {
			want, got := do(model, model), do(real, real)
			if errors.Is(want, tidemark.ErrConflict) != errors.Is(got, tidemark.ErrConflict) || (want == nil) != (got == nil) {
				r.Fatalf("%v, the model says %v", got, want)
			}
		}
		someLog := func(r *rapid.T) tidemark.Key {
			return key("session", rapid.SampledFrom([]string{"x", "y"}).Draw(r, "log"))
		}
		r.Repeat(map[string]func(*rapid.T){
			"append": func(r *rapid.T) {
				log := someLog(r)
				n := rapid.Int64Range(1, 4).Draw(r, "lines")
				both(func(b tidemark.Backend, _ tidemark.Searcher) error {
					talk(t, b, log, lengths[log.ID]+1, lengths[log.ID]+n)
					return nil
				})
				lengths[log.ID] += n
			},
			"drop": func(r *rapid.T) {
				log := someLog(r)
				both(func(b tidemark.Backend, _ tidemark.Searcher) error {
					return commit(b, tidemark.Batch{Drops: []tidemark.Key{log}})
				})
				lengths[log.ID], done[log.ID] = 0, 0
			},
			"index": func(r *rapid.T) {
				log := someLog(r)
				from := done[log.ID] + rapid.SampledFrom([]int64{1, 1, 1, 0, 2}).Draw(r, "from")
				lines := toIndex(log, from, from+rapid.Int64Range(0, 3).Draw(r, "lines"))
				for i := range lines {
					lines[i].Words = rapid.SliceOfN(words, 0, 3).Draw(r, "words")
				}
				ok := false
				both(func(_ tidemark.Backend, s tidemark.Searcher) error {
					err := s.Index(context.Background(), lines...)
					ok = err == nil
					return err
				})
				if ok {
					done[log.ID] += int64(len(lines))
				}
			},
			"unindex": func(r *rapid.T) {
				if rapid.IntRange(0, 5).Draw(r, "rarely") == 0 {
					both(func(_ tidemark.Backend, s tidemark.Searcher) error { return s.Unindex(context.Background()) })
					clear(done)
				}
			},
			"": func(r *rapid.T) {
				a := allOf(words.Draw(r, "word"))
				if more := words.Draw(r, "other"); more != "" {
					a.All[0] = append(a.All[0], tidemark.Term{Word: more, Prefix: true})
				}
				if rapid.Bool().Draw(r, "without") {
					a.None = []tidemark.Term{{Word: words.Draw(r, "none")}}
				}
				if d := cmp.Diff(foundBy(t, model, a), foundBy(t, real, a)); d != "" {
					r.Fatalf("%+v (-model +got):\n%s", a, d)
				}
				if d := cmp.Diff(lagging(t, model, "session"), lagging(t, real, "session"), cmp.Transformer("sorted", sortedLags)); d != "" {
					r.Fatalf("unindexed (-model +got):\n%s", d)
				}
			},
		})
		if found := faults(t, real); found != nil {
			r.Fatalf("Check: %v", found)
		}
	})
}

func sortedLags(lags []tidemark.Lag) string {
	var all []string
	for _, l := range lags {
		all = append(all, fmt.Sprint(l))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func FuzzNoTwoWordsAreWrittenAlike(f *testing.F) {
	for _, w := range []string{"", "a", "A", "^a", "%41", `a"b`, "a b", "\x00", "é", "\xff", strings.Repeat("x", maxTokenBytes+1)} {
		f.Add(w, "a")
		f.Add(w, w+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := string(appendToken(nil, a)), string(appendToken(nil, b))
		if (a == b) != (x == y) {
			t.Errorf("%q and %q are written %q and %q", a, b, x, y)
		}
		// One that is too long is a hash, which may begin like any word: what the
		// index finds is looked at. It ends in %, as does the empty word.
		whole := !strings.HasSuffix(x, "%") && !strings.HasSuffix(y, "%")
		if whole && strings.HasPrefix(a, b) != strings.HasPrefix(x, y) {
			t.Errorf("%q begins with %q, but they are written %q and %q", a, b, x, y)
		}
		if strings.ContainsFunc(x, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f || r >= 'A' && r <= 'Z' }) {
			t.Errorf("%q is written %q, which is not one token", a, x)
		}
	})
}
