package sqlite

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
)

// Small spans, as an index asks for, are read in one snapshot; one without an end is cut
// to what is there when its turn comes.
func TestSmallSpansAreReadAtOnce(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	talk(t, b, log, 1, 5)
	var seqs []int64
	for l, err := range b.Lines(t.Context(), log, tidemark.Span{From: 1, To: 1}, tidemark.Span{From: 5, To: 6}, tidemark.Span{From: 3, To: 3}, tidemark.Span{From: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(seqs) == 0 {
			talk(t, b, log, 6, 7)
		}
		seqs = append(seqs, l.Seq)
	}
	if want := []int64{1, 5, 3, 5, 6, 7}; !slices.Equal(seqs, want) {
		t.Errorf("lines %v, want %v: those of one snapshot, then those of a later one", seqs, want)
	}
}

func TestManySpansAreWhatEachOfThemIs(t *testing.T) {
	b := made(t)
	log := key("session", "s")
	const length = 700
	talk(t, b, log, 1, length)
	someSpan := rapid.Custom(func(t *rapid.T) tidemark.Span {
		from := int64(rapid.IntRange(0, length+20).Draw(t, "from"))
		s := tidemark.Span{From: from, Backwards: rapid.Bool().Draw(t, "backwards")}
		switch rapid.IntRange(0, 5).Draw(t, "sort") {
		case 0:
		case 1:
			s = tidemark.Span{Newest: int(from), Backwards: s.Backwards}
		case 2:
			s.To = from + int64(rapid.IntRange(0, length).Draw(t, "length"))
		default:
			s.To = from + int64(rapid.IntRange(0, 3).Draw(t, "length"))
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		spans := rapid.SliceOfN(someSpan, 1, 30).Draw(t, "spans")
		read := func(spans ...tidemark.Span) (lines []string) {
			for l, err := range b.Lines(t.Context(), log, spans...) {
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, string(l.Body))
			}
			return lines
		}
		var want []string
		for _, s := range spans {
			want = append(want, read(s)...)
		}
		if got := read(spans...); !slices.Equal(got, want) {
			t.Errorf("%d lines of %v, want %d", len(got), spans, len(want))
		}
	})
}
