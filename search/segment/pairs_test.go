package segment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

func steps(words ...string) (of []tidemark.Step) {
	for i, w := range words {
		of = append(of, tidemark.Step{Term: tidemark.Term{Word: w}, Place: i})
	}
	return of
}

// ending is steps of which the last is a beginning of words.
func ending(words ...string) []tidemark.Step {
	of := steps(words...)
	of[len(of)-1].Term.Prefix = true
	return of
}

// counted is a segment that counts which blocks are read.
func counted(t *testing.T, b blocks, asked *int) *segment.Reader {
	t.Helper()
	r, err := segment.Open(t.Context(), func(ctx context.Context, numbers []int64) ([][]byte, error) {
		*asked += len(numbers)
		return b.fetch(ctx, numbers)
	}, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Words that each line has, in all orders but one: whoever looks for that order by
// single words goes through all lines.
func TestAPhraseThatStandsNowhereIsNotLookedForInAllLines(t *testing.T) {
	var docs []doc
	for i := range 40_000 {
		d := doc{Line: segment.Line{Log: "s", Seq: int64(i) + 1, At: int64(i)}}
		d.words = slices.Concat([]string{"ebb", "and", "flow"}, []string{"flow", "flow", "and"}, []string{"and", "ebb"}, []string{fmt.Sprintf("w%d", i%50), "ebb", "flow"})
		docs = append(docs, d)
	}
	docs[7].words = append(docs[7].words, "flow", "ebb", "and")
	asked := 0
	b := build(t, docs)
	r := counted(t, b, &asked)
	for _, of := range [][]tidemark.Step{steps("flow", "ebb"), steps("flow", "ebb", "and"), steps("ebb", "ebb"), steps("and", "flow", "ebb")} {
		q := segment.Query{Phrases: [][]tidemark.Step{of}}
		asked = 0
		found, _ := verified(t, docs, q, segment.Search(t.Context(), []*segment.Reader{r}, q))
		if diff := cmp.Diff(naive(docs, q), found); diff != "" {
			t.Errorf("%v (-want +got):\n%s", of, diff)
		}
		if most := 20; asked > most {
			t.Errorf("%v: %d blocks of %d were read, want at most %d", of, asked, len(b), most)
		}
	}
}

// A word of each line leads to none: it is looked up where the rest of a phrase stands,
// also where words with one beginning are the rest.
func TestAWordOfEachLineIsLookedUpWhereTheRestOfAPhraseStands(t *testing.T) {
	var docs []doc
	for i := range 60_000 {
		d := doc{Line: segment.Line{Log: "s", Seq: int64(i) + 1, At: int64(i)}, words: []string{"ebb", "flow", "ebb", "ebb"}}
		if i%20 == 0 {
			d.words = append(d.words, "x", "neap", fmt.Sprintf("x%d", i%100))
		}
		if i%9 == 0 {
			d.words = append(d.words, fmt.Sprintf("tide%d", i%5))
		}
		docs = append(docs, d)
	}
	for i := range 30 {
		docs[i*20].words = append(docs[i*20].words, "ebb", "neap", fmt.Sprintf("tide%d", i%3))
	}
	asked := 0
	b := build(t, docs)
	r := counted(t, b, &asked)
	if _, _, err := r.Count(t.Context(), segment.Query{All: [][]tidemark.Term{{{Word: "ebb"}}}}, 0); err != nil {
		t.Fatal(err)
	}
	all := asked
	q := segment.Query{Phrases: [][]tidemark.Step{ending("ebb", "neap", "tide")}}
	asked = 0
	found, _ := verified(t, docs, q, segment.Search(t.Context(), []*segment.Reader{r}, q))
	if diff := cmp.Diff(naive(docs, q), found); diff != "" || len(found) != 30 {
		t.Errorf("%d lines (-want +got):\n%s", len(found), diff)
	}
	if asked > all/2 {
		t.Errorf("%d blocks of %d were read, where the list of the word has %d", asked, len(b), all)
	}
}

// Thousands of words that begin alike are not looked through for a few lines.
func TestFewLinesAreOpenedInsteadOfLookedUpInManyLists(t *testing.T) {
	var docs []doc
	for i := range 40_000 {
		d := doc{Line: segment.Line{Log: "s", Seq: int64(i) + 1, At: int64(i)}, words: []string{fmt.Sprintf("w%d", i%400), fmt.Sprintf("w%d", i%173)}}
		if i%4000 == 17 {
			d.words = append(d.words, "neap", fmt.Sprintf("w%d", i%7))
		}
		docs = append(docs, d)
	}
	asked := 0
	b := build(t, docs)
	r := counted(t, b, &asked)
	q := segment.Query{Phrases: [][]tidemark.Step{ending("neap", "w")}}
	asked = 0
	found, opened := verified(t, docs, q, segment.Search(t.Context(), []*segment.Reader{r}, q))
	if diff := cmp.Diff(naive(docs, q), found); diff != "" || len(found) != 10 {
		t.Errorf("%d lines (-want +got):\n%s", len(found), diff)
	}
	if opened != 10 || asked > 60 {
		t.Errorf("%d lines were opened and %d blocks of %d were read", opened, asked, len(b))
	}
}

// The first list of a pair may begin in a block that a word has begun.
func TestLongListsOfPairsAreReadWhereverTheyBegin(t *testing.T) {
	defer segment.PairsFrom(1000, 1<<20)()
	for n := 6000; n < 12_000; n += 611 {
		var docs []doc
		for i := range n {
			docs = append(docs, doc{Line: segment.Line{Log: "s", Seq: int64(i) + 1, At: int64(i)}, words: []string{"ebb", "flow", fmt.Sprintf("w%d", i%3)}})
		}
		r := open(t, build(t, docs))
		if err := r.Verify(t.Context()); err != nil {
			t.Errorf("%d lines: %v", n, err)
		}
		for _, of := range [][]tidemark.Step{steps("ebb", "flow"), steps("flow", "w1"), steps("ebb", "flow", "w2")} {
			q := segment.Query{Phrases: [][]tidemark.Step{of}}
			if found, _, err := r.Count(t.Context(), q, 0); err != nil || found != len(naive(docs, q)) {
				t.Errorf("%v in %d lines: %d, %v", of, n, found, err)
			}
		}
	}
}

// Where a rare word leads through the list of a frequent one, the rows that it leads to
// are asked for together: far away each call is a round trip.
func TestRowsThatAreLedToAreReadTogether(t *testing.T) {
	var docs []doc
	for i := range 60_000 {
		d := doc{Line: segment.Line{Log: "s", Seq: int64(i) + 1, At: int64(i)}, words: []string{"ebb", "flow", "ebb"}}
		if i%3 == 0 {
			d.words = append(d.words, "tide", "tide", "tide")
		}
		if i%900 == 5 {
			d.words = append(d.words, "neap")
		}
		docs = append(docs, d)
	}
	b := build(t, docs)
	calls, asked := 0, 0
	r, err := segment.Open(t.Context(), func(ctx context.Context, numbers []int64) ([][]byte, error) {
		calls, asked = calls+1, asked+len(numbers)
		return b.fetch(ctx, numbers)
	}, int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	q := segment.Query{All: [][]tidemark.Term{{{Word: "neap"}}, {{Word: "tide"}}}}
	calls, asked = 0, 0
	n, _, err := r.Count(t.Context(), q, 0)
	if want := len(naive(docs, q)); err != nil || n != want {
		t.Fatalf("%d lines, %v; want %d", n, err, want)
	}
	if calls > 8 || asked < 20 {
		t.Errorf("%d blocks in %d calls, want many in few", asked, calls)
	}
}

// Where the places of a word are not known, no pair is missed.
func TestAPairIsFoundWhereThePlacesOfAWordAreNotKnown(t *testing.T) {
	defer segment.PairsFrom(1, 1000)()
	rare, often := many(9000, 300), []doc(nil)
	rare[5000].words = []string{"neap", "tide"} // once in so many lines: without places
	full := doc{Line: segment.Line{Log: "full", Seq: 1, At: 1}}
	for range 3000 { // more places than are kept
		full.words = append(full.words, "tide")
	}
	full.words = append(full.words, "neap", "tide", "spring")
	for i := range 3000 {
		often = append(often, doc{Line: segment.Line{Log: "often", Seq: int64(i) + 1, At: int64(i)}, words: [][]string{{"tide", "spring", "neap"}, {"neap", "spring", "tide"}, {"spring", "x"}}[i%3]})
	}
	docs := slices.Concat(rare, often, []doc{full})
	var b blocks
	if _, err := segment.Merge(t.Context(), []*segment.Reader{open(t, build(t, rare)), open(t, build(t, append(often, full)))}, b.emit); err != nil {
		t.Fatal(err)
	}
	if b[len(b)-1][1] != segment.Version {
		t.Fatal("the merged segment has no pairs")
	}
	r := open(t, b)
	for _, of := range [][]tidemark.Step{steps("neap", "tide"), steps("tide", "neap"), steps("tide", "tide"), steps("tide", "spring"), steps("neap", "tide", "spring")} {
		for _, prefix := range []bool{false, true} {
			if of = slices.Clone(of); prefix {
				last := &of[len(of)-1].Term
				last.Word, last.Prefix = last.Word[:2], true
			}
			q := segment.Query{Phrases: [][]tidemark.Step{of}}
			found, _ := verified(t, docs, q, segment.Search(t.Context(), []*segment.Reader{r}, q))
			if want := naive(docs, q); !slices.Equal(want, found) {
				t.Errorf("%v: %d lines, want %d", of, len(found), len(want))
			}
		}
	}
}

// Small segments, and large ones without frequent words, are in the format that earlier
// programs read.
func TestASegmentWithoutPairsIsOfTheFirstVersion(t *testing.T) {
	defer segment.PairsFrom(100, 1000)()
	sparse := make([]doc, 200)
	for i := range sparse {
		sparse[i] = doc{Line: segment.Line{Log: "s", Seq: int64(i) + 1}, words: []string{fmt.Sprint(i), fmt.Sprint(i + 1), "\x00r:user"}}
	}
	for name, tt := range map[string]struct {
		docs []doc
		want byte
	}{"small": {many(99, 20), 1}, "sparse": {sparse, 1}, "large": {many(100, 20), 2}} {
		b := build(t, tt.docs)
		if got := b[len(b)-1][1]; got != tt.want {
			t.Errorf("%s: version %d, want %d", name, got, tt.want)
		}
	}
}

func TestDamagedPairsAreReportedOrRead(t *testing.T) {
	defer segment.PairsFrom(1, 60)()
	whole := build(t, many(150, 40))
	if whole[len(whole)-1][1] != segment.Version {
		t.Fatal("there are no pairs")
	}
	pairs := 0
	for i := range whole {
		if whole[i][0] != 'P' && i < len(whole)-1 {
			continue
		}
		pairs++
		for j := i % 11; j < len(whole[i]); j += 11 {
			b := slices.Clone(whole)
			b[i] = slices.Clone(b[i])
			b[i][j] ^= 1 << (j % 8)
			everything(t, b)
		}
		b := slices.Clone(whole)
		b[i] = []byte("Pnothing")
		r, err := segment.Open(t.Context(), b.fetch, int64(len(b)))
		if err == nil {
			err = r.Verify(t.Context())
		}
		if !errors.Is(err, tidemark.ErrCorrupt) {
			t.Errorf("block %d of nothing: %v, want ErrCorrupt", i+1, err)
		}
	}
	if pairs < 3 {
		t.Errorf("%d blocks of pairs", pairs)
	}
}
