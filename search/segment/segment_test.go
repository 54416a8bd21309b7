package segment_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// doc is a line with its words, by place; parts have none.
type doc struct {
	segment.Line
	words []string
	parts []string
}

// blocks is a segment in memory.
type blocks [][]byte

func (b *blocks) emit(block []byte) error {
	*b = append(*b, block)
	return nil
}

func (b blocks) fetch(_ context.Context, numbers []int64) ([][]byte, error) {
	got := make([][]byte, len(numbers))
	for i, n := range numbers {
		got[i] = b[n-1]
	}
	return got, nil
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func build(t fataler, docs []doc) blocks {
	t.Helper()
	var b blocks
	if err := builder(docs).Write(b.emit); err != nil {
		t.Fatal(err)
	}
	return b
}

func builder(docs []doc) *segment.Builder {
	b := segment.NewBuilder()
	add(b, docs)
	return b
}

func add(b *segment.Builder, docs []doc) {
	for _, d := range docs {
		b.Line(d.Line)
		for i, w := range d.words {
			place := i
			if w[0] == 0 {
				place = -1
			}
			b.Word([]byte(w), place)
		}
		for _, w := range d.parts {
			b.Word([]byte(w), -1)
		}
	}
}

func open(t fataler, b blocks) *segment.Reader {
	t.Helper()
	for i, block := range b {
		if len(block) > segment.MaxBlockBytes {
			t.Fatalf("block %d has %d bytes", i+1, len(block))
		}
	}
	r, err := segment.Open(context.Background(), b.fetch, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// has reports whether a line has a term.
func (d doc) has(t tidemark.Term) bool {
	is := func(w string) bool { return w == t.Word || t.Prefix && strings.HasPrefix(w, t.Word) }
	return slices.ContainsFunc(d.words, is) || slices.ContainsFunc(d.parts, is)
}

func (d doc) hasPhrase(steps []tidemark.Step) bool {
	for start := range d.words {
		all := true
		for _, s := range steps {
			at := start + s.Place
			all = all && at < len(d.words) && (d.words[at] == s.Term.Word || s.Term.Prefix && strings.HasPrefix(d.words[at], s.Term.Word))
		}
		if all {
			return true
		}
	}
	return false
}

// matches says what a query means, line by line.
func (d doc) matches(q segment.Query) bool {
	for _, group := range q.All {
		if !slices.ContainsFunc(group, d.has) {
			return false
		}
	}
	for _, p := range q.Phrases {
		if !d.hasPhrase(p) {
			return false
		}
	}
	return !slices.ContainsFunc(q.None, d.has) && (q.Before == nil || d.Compare(*q.Before) < 0) && d.At >= q.Since
}

// naive answers a query by looking at every line.
func naive(docs []doc, q segment.Query) (found []segment.Line) {
	for _, d := range docs {
		if d.matches(q) {
			found = append(found, d.Line)
		}
	}
	slices.SortFunc(found, func(a, b segment.Line) int { return b.Compare(a) })
	return found
}

// verified collects hits, and opens those that are not sure, as a caller does.
func verified(t fataler, docs []doc, q segment.Query, hits iter.Seq2[segment.Hit, error]) (found []segment.Line, opened int) {
	t.Helper()
	by := make(map[segment.Line]doc, len(docs))
	for _, d := range docs {
		by[d.Line] = d
	}
	for h, err := range hits {
		if err != nil {
			t.Fatal(err)
		}
		if want := slices.ContainsFunc(q.Mark, by[h.Line].has); h.Marked != want {
			t.Fatalf("%+v is marked: %t, want %t", h.Line, h.Marked, want)
		}
		if !h.Sure {
			opened++
			if !by[h.Line].matches(q) {
				continue
			}
		}
		found = append(found, h.Line)
	}
	return found, opened
}

// Words of the tests: few letters, so that beginnings and neighbours are shared.
var someWord = rapid.Custom(func(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
		return rapid.StringMatching(`[a-c]{1,5}`).Draw(t, "word")
	}
	return rapid.SampledFrom([]string{"a", "ab", "abc", "b", "ba", "c", "\x00r:user", "\x00r:tool"}).Draw(t, "word")
})

var someDoc = rapid.Custom(func(t *rapid.T) doc {
	return doc{
		Line: segment.Line{
			Log: rapid.SampledFrom([]string{"s1", "s2", "w1"}).Draw(t, "log"),
			Seq: int64(rapid.IntRange(1, 400).Draw(t, "seq")),
			At:  int64(rapid.IntRange(-5, 60).Draw(t, "at")),
		},
		words: rapid.SliceOfN(someWord, 0, 12).Draw(t, "words"),
		parts: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "ab", "abcd"}), 0, 2).Draw(t, "parts"),
	}
})

func someDocs(most int) *rapid.Generator[[]doc] {
	return rapid.Custom(func(t *rapid.T) []doc {
		docs := rapid.SliceOfN(someDoc, 0, most).Draw(t, "docs")
		seen := make(map[segment.Line]bool)
		return slices.DeleteFunc(docs, func(d doc) bool {
			twice := seen[d.Line]
			seen[d.Line] = true
			return twice
		})
	})
}

var someTerm = rapid.Custom(func(t *rapid.T) tidemark.Term {
	return tidemark.Term{Word: someWord.Draw(t, "term"), Prefix: rapid.IntRange(0, 3).Draw(t, "prefix") == 0}
})

var someQuery = rapid.Custom(func(t *rapid.T) segment.Query {
	q := segment.Query{
		All:   rapid.SliceOfN(rapid.SliceOfN(someTerm, 1, 3), 0, 3).Draw(t, "all"),
		None:  rapid.SliceOfN(someTerm, 0, 2).Draw(t, "none"),
		Mark:  rapid.SliceOfN(someTerm, 0, 2).Draw(t, "mark"),
		Since: int64(rapid.SampledFrom([]int{0, 0, 0, 7, 30, 70}).Draw(t, "since")),
	}
	if len(q.All) == 0 || rapid.Bool().Draw(t, "phrase") {
		var steps []tidemark.Step
		at := 0
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			w := rapid.SampledFrom([]string{"a", "ab", "abc", "b", "ba", "c", "cc"}).Draw(t, "step")
			steps = append(steps, tidemark.Step{Term: tidemark.Term{Word: w}, Place: at})
			at += rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "gap")
		}
		steps[len(steps)-1].Term.Prefix = rapid.Bool().Draw(t, "begins")
		q.Phrases = append(q.Phrases, steps)
	}
	if rapid.IntRange(0, 3).Draw(t, "cursor") == 0 {
		l := someDoc.Draw(t, "before").Line
		q.Before = &l
	}
	return q
})

// pairsFrom draws whether small segments have pairs, and how many lines their slabs have.
func pairsFrom(t *rapid.T) (undo func()) {
	return segment.PairsFrom(rapid.SampledFrom([]int{1, 20, segment.MaxLines}).Draw(t, "pairs from"), int64(rapid.SampledFrom([]int{4, 10, 1000}).Draw(t, "slab")))
}

func TestASegmentFindsWhatLookingAtEveryLineFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		defer pairsFrom(t)()
		docs := someDocs(40).Draw(t, "docs")
		r := open(t, build(t, docs))
		q := someQuery.Draw(t, "query")
		found, opened := verified(t, docs, q, segment.Search(context.Background(), []*segment.Reader{r}, q))
		if diff := cmp.Diff(naive(docs, q), found); diff != "" {
			t.Fatalf("%+v (-want +got):\n%s", q, diff)
		}
		if opened > 0 {
			t.Fatalf("%+v: %d hits are not sure, though a small segment keeps all places", q, opened)
		}
	})
}

func TestABuilderThatWasResetMakesWhatANewOneMakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := builder(someDocs(40).Draw(t, "before"))
		if rapid.Bool().Draw(t, "wrong") {
			b.Word(nil, 0)
		}
		if rapid.Bool().Draw(t, "written") {
			_ = b.Write(func([]byte) error { return nil }) // also one that failed can be reset
		}
		b.Reset()
		if b.Len() != 0 {
			t.Fatalf("%d lines are left", b.Len())
		}
		docs := someDocs(40).Draw(t, "docs")
		add(b, docs)
		var got blocks
		if err := b.Write(got.emit); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(build(t, docs), got); diff != "" {
			t.Fatalf("(-new +reset):\n%s", diff)
		}
	})
}

// atOnce is a segment.Together.
func atOnce(ctx context.Context, n int, do func(context.Context, int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { do(ctx, i) })
	}
	wait.Wait()
}

func TestSegmentsFindTogetherAndMergedWhatOneFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		defer pairsFrom(t)()
		docs := someDocs(60).Draw(t, "docs")
		parts := make([][]doc, rapid.IntRange(1, 5).Draw(t, "segments"))
		for _, d := range docs {
			i := rapid.IntRange(0, len(parts)-1).Draw(t, "segment")
			parts[i] = append(parts[i], d)
		}
		var readers []*segment.Reader
		for _, p := range parts {
			readers = append(readers, open(t, build(t, p)))
		}
		q := someQuery.Draw(t, "query")
		found, _ := verified(t, docs, q, segment.Search(context.Background(), readers, q))
		if diff := cmp.Diff(naive(docs, q), found); diff != "" {
			t.Fatalf("together, %+v (-want +got):\n%s", q, diff)
		}
		found, _ = verified(t, docs, q, segment.SearchTogether(context.Background(), readers, q, atOnce))
		if diff := cmp.Diff(naive(docs, q), found); diff != "" {
			t.Fatalf("asked at once, %+v (-want +got):\n%s", q, diff)
		}
		// What is left out of one segment may well be in another.
		var left []doc
		for i, p := range parts {
			without := segment.Without{}
			if rapid.Bool().Draw(t, "purge") {
				without["s1"] = []segment.Span{{From: 1, To: 1 << 40}}
			}
			if rapid.Bool().Draw(t, "mask") {
				without["w1"] = []segment.Span{{From: 50, To: 150}, {From: 300, To: 300}}
			}
			readers[i] = readers[i].Except(without)
			own := slices.DeleteFunc(slices.Clone(p), func(d doc) bool {
				return slices.ContainsFunc(without[d.Log], func(s segment.Span) bool { return s.From <= d.Seq && d.Seq <= s.To })
			})
			left = append(left, own...)
			n, _, err := readers[i].Count(context.Background(), q, 0)
			if err != nil || n != len(naive(own, q)) {
				t.Fatalf("%d lines of a segment match %+v, %v; want %d", n, q, err, len(naive(own, q)))
			}
		}
		if found, _ = verified(t, left, q, segment.Search(context.Background(), readers, q)); !cmp.Equal(naive(left, q), found) {
			t.Fatalf("what is left, %+v (-want +got):\n%s", q, cmp.Diff(naive(left, q), found))
		}
		var b blocks
		if _, err := segment.Merge(context.Background(), readers, b.emit); err != nil {
			t.Fatal(err)
		}
		// A merged segment is the one that would have been built at once.
		if diff := cmp.Diff(build(t, left), b); diff != "" {
			t.Fatalf("merged blocks (-want +got):\n%s", diff)
		}
		merged := open(t, b)
		if err := merged.Verify(context.Background()); err != nil {
			t.Fatal(err)
		}
		if found, _ = verified(t, left, q, segment.Search(context.Background(), []*segment.Reader{merged}, q)); !cmp.Equal(naive(left, q), found) {
			t.Fatalf("merged, %+v (-want +got):\n%s", q, cmp.Diff(naive(left, q), found))
		}
	})
}

func TestALineInSeveralSegmentsIsFoundOnceAndMergedOnce(t *testing.T) {
	old := []doc{{Line: segment.Line{Log: "s", Seq: 1, At: 5}, words: []string{"before"}}, {Line: segment.Line{Log: "s", Seq: 2, At: 6}, words: []string{"same"}}}
	now := []doc{{Line: segment.Line{Log: "s", Seq: 1, At: 5}, words: []string{"after", "same"}}, {Line: segment.Line{Log: "s", Seq: 2, At: 6}, words: []string{"same"}}}
	readers := []*segment.Reader{open(t, build(t, old)), open(t, build(t, now))}
	q := segment.Query{All: [][]tidemark.Term{{{Word: "same"}}}}
	found, _ := verified(t, now, q, segment.Search(t.Context(), readers, q))
	if diff := cmp.Diff(naive(now, q), found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var b blocks
	if _, err := segment.Merge(t.Context(), readers, b.emit); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(build(t, now), b); diff != "" {
		t.Errorf("the last segment does not count (-want +got):\n%s", diff)
	}
}

// many returns lines of a vocabulary in which few words are everywhere and most
// are rare, in no order.
func many(n, words int) []doc {
	rnd := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rnd, 1.2, 2, uint64(words-1))
	docs := make([]doc, n)
	for i := range docs {
		d := doc{Line: segment.Line{Log: fmt.Sprintf("session %04d", i%97), Seq: int64(i/97) + 1, At: int64(rnd.IntN(n)) * 1_000_000}}
		for range 10 + rnd.IntN(20) {
			d.words = append(d.words, fmt.Sprintf("w%03x", zipf.Uint64()))
		}
		d.words = append(d.words, "\x00r:"+[]string{"user", "tool"}[i%2])
		docs[i] = d
	}
	return docs
}

// Long lists, rows, skips, and words that lost their places appear only in larger
// segments.
func TestALargeSegmentFindsWhatLookingAtEveryLineFinds(t *testing.T) {
	docs := many(30_000, 3000)
	var readers []*segment.Reader
	for i := range 3 {
		readers = append(readers, open(t, build(t, docs[i*10_000:(i+1)*10_000])))
	}
	var b blocks
	if _, err := segment.Merge(t.Context(), readers, b.emit); err != nil {
		t.Fatal(err)
	}
	whole := open(t, b)
	word := func(rank int) tidemark.Term { return tidemark.Term{Word: fmt.Sprintf("w%03x", rank)} }
	phrase := func(ranks ...int) (steps []tidemark.Step) {
		for i, r := range ranks {
			steps = append(steps, tidemark.Step{Term: word(r), Place: i})
		}
		return steps
	}
	begins := phrase(0, 1, 2)
	begins[2].Term = tidemark.Term{Word: "w00", Prefix: true}
	ends := func(first, second int, beginning string) []tidemark.Step {
		return append(phrase(first, second), tidemark.Step{Term: tidemark.Term{Word: beginning, Prefix: true}, Place: 2})
	}
	middle := docs[15_000].Line
	opened := 0
	for _, q := range []segment.Query{
		{All: [][]tidemark.Term{{word(0)}}},
		{All: [][]tidemark.Term{{word(2999)}}},
		{All: [][]tidemark.Term{{word(5)}, {word(40)}}},
		{All: [][]tidemark.Term{{word(3), word(700)}, {word(9)}, {{Word: "\x00r:tool"}}}, None: []tidemark.Term{word(0)}},
		{All: [][]tidemark.Term{{{Word: "w0", Prefix: true}}}},
		{All: [][]tidemark.Term{{{Word: "w2b", Prefix: true}}}, Before: &middle},
		{All: [][]tidemark.Term{{{Word: "x", Prefix: true}}}},
		{All: [][]tidemark.Term{{{Word: "\xff\xff"}}}},
		{Phrases: [][]tidemark.Step{phrase(0, 1)}},
		{Phrases: [][]tidemark.Step{phrase(2, 0, 1)}, Since: docs[7].At},
		{Phrases: [][]tidemark.Step{phrase(0, 2500)}},
		{Phrases: [][]tidemark.Step{phrase(0, 2), phrase(1, 1)}},
		{Phrases: [][]tidemark.Step{begins}, Mark: []tidemark.Term{{Word: "\x00r:tool"}, word(7)}},
		{Phrases: [][]tidemark.Step{ends(0, 1, "w")}, All: [][]tidemark.Term{{{Word: "\x00r:tool"}, {Word: "\x00r:user"}}}},
		{Phrases: [][]tidemark.Step{ends(0, 1, "w03")}, None: []tidemark.Term{{Word: "\x00r:tool"}}},
		{Phrases: [][]tidemark.Step{ends(0, 40, "w02")}},
		{Phrases: [][]tidemark.Step{ends(40, 0, "w0")}, Before: &middle},
		{Phrases: [][]tidemark.Step{ends(0, 700, "w"), phrase(1, 0)}},
		{Phrases: [][]tidemark.Step{ends(90, 91, "w00")}, Mark: []tidemark.Term{word(0)}},
		{Phrases: [][]tidemark.Step{{{Term: tidemark.Term{Word: "w", Prefix: true}}}}, All: [][]tidemark.Term{{word(60)}}},
	} {
		for _, segments := range [][]*segment.Reader{readers, {whole}} {
			found, n := verified(t, docs, q, segment.Search(t.Context(), segments, q))
			opened += n
			if want := naive(docs, q); !slices.Equal(want, found) {
				t.Errorf("%+v: %d lines, want %d", q, len(found), len(want))
			}
			sum := 0
			for _, r := range segments {
				lines, unsure, err := r.Count(t.Context(), q, 0)
				if err != nil {
					t.Fatal(err)
				}
				if sum += lines; unsure > 0 {
					sum = len(found) // only who opens them can count
					break
				}
			}
			if sum != len(found) {
				t.Errorf("%+v: %d lines are counted, %d found", q, sum, len(found))
			}
		}
	}
	if opened == 0 {
		t.Error("no hit of a phrase with a rare word had to be opened: the test does not reach words without places")
	}
}

func TestReadingCanGoOnBehindAnyHit(t *testing.T) {
	docs := many(2000, 100)
	r := []*segment.Reader{open(t, build(t, docs[:900])), open(t, build(t, docs[900:]))}
	q := segment.Query{All: [][]tidemark.Term{{{Word: "w003"}}}}
	all, _ := verified(t, docs, q, segment.Search(t.Context(), r, q))
	var paged []segment.Line
	for {
		n := 0
		for h, err := range segment.Search(t.Context(), r, q) {
			if err != nil {
				t.Fatal(err)
			}
			paged = append(paged, h.Line)
			if n++; n == 7 {
				break
			}
		}
		if n < 7 {
			break
		}
		q.Before = &paged[len(paged)-1]
	}
	if diff := cmp.Diff(all, paged); diff != "" || len(all) < 100 {
		t.Errorf("%d lines at once; (-at once +in pages):\n%s", len(all), diff)
	}
}

func TestASegmentSaysWhichLinesItCovers(t *testing.T) {
	b := segment.NewBuilder()
	for _, seq := range []int64{7, 8, 9, 3, 4} {
		b.Line(segment.Line{Log: "s", Seq: seq, At: seq})
		b.Word([]byte("w"), 0)
	}
	b.Cover("s", segment.Span{From: 1, To: 2})
	b.Cover("empty", segment.Span{From: 1, To: 500})
	var one blocks
	if err := b.Write(one.emit); err != nil {
		t.Fatal(err)
	}
	b = segment.NewBuilder()
	b.Cover("s", segment.Span{From: 5, To: 6})
	var two blocks
	if err := b.Write(two.emit); err != nil {
		t.Fatal(err)
	}
	var merged blocks
	readers := []*segment.Reader{open(t, one), open(t, two)}
	less := readers[0].Except(segment.Without{"empty": {{From: 100, To: 100}}, "s": {{From: 1, To: 8}}})
	if _, err := segment.Merge(t.Context(), []*segment.Reader{readers[0].Except(segment.Without{"empty": {{From: 100, To: 100}}}), readers[1]}, merged.emit); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		r    *segment.Reader
		want []segment.Covered
	}{
		"one":    {readers[0], []segment.Covered{{Log: "empty", Spans: []segment.Span{{From: 1, To: 500}}}, {Log: "s", Spans: []segment.Span{{From: 1, To: 4}, {From: 7, To: 9}}}}},
		"less":   {less, []segment.Covered{{Log: "empty", Spans: []segment.Span{{From: 1, To: 99}, {From: 101, To: 500}}}, {Log: "s", Spans: []segment.Span{{From: 9, To: 9}}}}},
		"two":    {readers[1], []segment.Covered{{Log: "s", Spans: []segment.Span{{From: 5, To: 6}}}}},
		"merged": {open(t, merged), []segment.Covered{{Log: "empty", Spans: []segment.Span{{From: 1, To: 99}, {From: 101, To: 500}}}, {Log: "s", Spans: []segment.Span{{From: 1, To: 9}}}}},
	} {
		var got []segment.Covered
		for c, err := range tt.r.Logs(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, c)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, c := range tt.want {
			if spans, err := tt.r.Spans(t.Context(), c.Log); err != nil || !slices.Equal(spans, c.Spans) {
				t.Errorf("%s: Spans(%q) = %v, %v", name, c.Log, spans, err)
			}
		}
		if spans, err := tt.r.Spans(t.Context(), "nobody"); err != nil || spans != nil {
			t.Errorf("%s: Spans of an unknown log = %v, %v", name, spans, err)
		}
	}
}

func TestWhatNoSegmentCanHaveIsRefused(t *testing.T) {
	line := segment.Line{Log: "s", Seq: 1}
	for name, add := range map[string]func(b *segment.Builder){
		"a word before any line": func(b *segment.Builder) { b.Word([]byte("w"), 0) },
		"an empty word":          func(b *segment.Builder) { b.Line(line); b.Word(nil, 0) },
		"a long word":            func(b *segment.Builder) { b.Line(line); b.Word(make([]byte, segment.MaxKeyBytes+1), 0) },
		"a place too far":        func(b *segment.Builder) { b.Line(line); b.Word([]byte("w"), 1<<32) },
		"a line twice":           func(b *segment.Builder) { b.Line(line); b.Line(line) },
		"a log without a name":   func(b *segment.Builder) { b.Line(segment.Line{Seq: 1}) },
		"line 0":                 func(b *segment.Builder) { b.Line(segment.Line{Log: "s"}) },
	} {
		b := segment.NewBuilder()
		add(b)
		if err := b.Write(new(blocks).emit); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	r := open(t, build(t, many(1, 5)))
	for _, err := range segment.Search(t.Context(), []*segment.Reader{r}, segment.Query{None: []tidemark.Term{{Word: "w"}}}) {
		if !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("a query for nothing: %v, want ErrInvalid", err)
		}
	}
}

// A word that stands in a line more often than its places may take is still found
// there, and the hit says that it is not sure.
func TestALineFullOfOneWordIsFoundByAPhrase(t *testing.T) {
	d := doc{Line: segment.Line{Log: "s", Seq: 1, At: 1}}
	for range 3000 {
		d.words = append(d.words, "ha")
	}
	d.words = append(d.words, "end")
	docs := []doc{d, {Line: segment.Line{Log: "s", Seq: 2, At: 2}, words: []string{"ha", "no", "end"}}}
	r := open(t, build(t, docs))
	q := segment.Query{Phrases: [][]tidemark.Step{{{Term: tidemark.Term{Word: "ha"}}, {Term: tidemark.Term{Word: "end"}, Place: 1}}}}
	found, opened := verified(t, docs, q, segment.Search(t.Context(), []*segment.Reader{r}, q))
	if !slices.Equal(found, naive(docs, q)) || opened != 1 {
		t.Errorf("found %v, opened %d, want line 1, opened", found, opened)
	}
}

func TestEightOfASizeAreMerged(t *testing.T) {
	for _, tt := range []struct {
		lines, want []int
	}{
		{nil, nil},
		{[]int{1, 1, 1, 1, 1, 1, 1}, nil},
		{[]int{1, 60, 3000, 1, 1, 1, 1, 1, 1, 9}, []int{0, 1, 3, 4, 5, 6, 7, 8}},
		{[]int{500, 300, 300, 300, 300, 300, 300, 300, 1}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{slices.Repeat([]int{segment.MaxLines / 2}, 20), nil},
	} {
		if diff := cmp.Diff(tt.want, segment.Plan(tt.lines)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.lines, diff)
		}
	}
	// Whatever comes, a store has few segments, and no line is written often.
	var lines []int
	written := 0
	const all = 200_000
	for range all / 20 {
		lines = append(lines, 20)
		for of := segment.Plan(lines); of != nil; of = segment.Plan(lines) {
			sum := 0
			for _, i := range slices.Backward(of) {
				sum += lines[i]
				lines = slices.Delete(lines, i, i+1)
			}
			lines, written = append(lines, sum), written+sum
		}
	}
	if len(lines) > 7*5 || written > 6*all {
		t.Errorf("%d segments, each line written %.1f times", len(lines), float64(written)/all)
	}
}

const formatPage = "../../docs/formats/segment.md"

// The page of the format shows a segment; who changes the format changes the page,
// and the version.
func TestThePageOfTheFormatShowsASegment(t *testing.T) {
	docs := []doc{
		{Line: segment.Line{Log: "session one", Seq: 1, At: 1_000_000}, words: []string{"tide", "mark", "tide"}},
		{Line: segment.Line{Log: "session one", Seq: 2, At: 2_000_000}, words: []string{"tidemark", "\x00r:user"}, parts: []string{"mark"}},
	}
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	rest := string(page)
	for _, from := range []int{segment.MaxLines, 2} { // the second of them has pairs
		undo := segment.PairsFrom(from, segment.MaxLines)
		var shown strings.Builder
		for i, b := range build(t, docs) {
			fmt.Fprintf(&shown, "%d  %x\n", i+1, b)
		}
		undo()
		_, rest, _ = strings.Cut(rest, "```blocks\n")
		example, _, _ := strings.Cut(rest, "```")
		if diff := cmp.Diff(example, shown.String()); diff != "" {
			t.Errorf("%s (-page +built):\n%s", formatPage, diff)
		}
	}
}
