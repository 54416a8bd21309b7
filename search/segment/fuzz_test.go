package segment_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// damaged returns an error unless it is one that blocks of anybody may cause.
func damaged(err error) error {
	if errors.Is(err, tidemark.ErrCorrupt) || errors.Is(err, tidemark.ErrUnsupported) {
		return nil
	}
	return err
}

// everything asks a segment for all that can be asked. It fails for an error that
// does not say that blocks are damaged, and for answers without end.
func everything(t *testing.T, b blocks) {
	asked := 0
	r, err := segment.Open(t.Context(), func(ctx context.Context, numbers []int64) ([][]byte, error) {
		// Each question may read a block once or twice, and each line a few.
		if asked += len(numbers); asked > 200*(len(b)+segment.Fan) {
			t.Fatalf("%d blocks were asked for in a segment of %d", asked, len(b))
		}
		return b.fetch(ctx, numbers)
	}, int64(len(b)))
	if err != nil {
		if damaged(err) != nil {
			t.Fatal(err)
		}
		return
	}
	word := func(w string, prefix bool) []tidemark.Term { return []tidemark.Term{{Word: w, Prefix: prefix}} }
	for _, q := range []segment.Query{
		{All: [][]tidemark.Term{word("w000", false)}},
		{All: [][]tidemark.Term{word("w000", false), word("w001", false)}, None: word("w0ff", true)},
		{All: [][]tidemark.Term{word("w", true)}, Since: 1},
		{All: [][]tidemark.Term{word("w0f", true)}, Before: &segment.Line{Log: "session 0005", At: 500_000_000}},
		{Phrases: [][]tidemark.Step{{{Term: word("w000", false)[0]}, {Term: word("w00", true)[0], Place: 1}}}},
	} {
		n := 0
		for hit, err := range segment.Search(t.Context(), []*segment.Reader{r}, q) {
			if damaged(err) != nil {
				t.Fatal(err)
			}
			if n++; err == nil && n > r.Len() {
				t.Fatalf("%d hits in a segment of %d lines, the last %v", n, r.Len(), hit)
			}
		}
	}
	for _, err := range r.Logs(t.Context()) {
		if damaged(err) != nil {
			t.Fatal(err)
		}
	}
	asked = 0
	if _, err := segment.Merge(t.Context(), []*segment.Reader{r, r.Except(segment.Without{"session 0001": {{From: 2, To: 4}}})}, new(blocks).emit); damaged(err) != nil {
		t.Fatal(err)
	}
	asked = 0
	if err := r.Verify(t.Context()); damaged(err) != nil {
		t.Fatal(err)
	}
}

// FuzzBlock puts a forged block in the place of one.
func FuzzBlock(f *testing.F) {
	defer segment.PairsFrom(1, 200)()
	whole := build(f, many(450, 12))
	for i, b := range whole {
		f.Add(uint16(i), b)
	}
	f.Fuzz(func(t *testing.T, at uint16, block []byte) {
		b := slices.Clone(whole)
		b[int(at)%len(b)] = block
		everything(t, b)
	})
}

// FuzzSegment makes a segment of bytes alone.
func FuzzSegment(f *testing.F) {
	var seed []byte
	for _, b := range build(f, many(3, 5)) {
		seed = append(append(seed, byte(len(b)>>8), byte(len(b))), b...)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var b blocks
		for len(data) > 2 {
			n := min(int(data[0])<<8|int(data[1]), len(data)-2)
			b, data = append(b, data[2:2+n]), data[2+n:]
		}
		if len(b) > 0 {
			everything(t, b)
		}
	})
}

// A segment in which one byte is another is read to its end, or says that it is
// damaged.
func TestAFlippedByteIsReadOrReported(t *testing.T) {
	whole := build(t, many(150, 40))
	for i := range whole {
		for j := i % 17; j < len(whole[i]); j += 17 {
			b := slices.Clone(whole)
			b[i] = slices.Clone(b[i])
			b[i][j] ^= 1 << (j % 8)
			everything(t, b)
		}
	}
}

func TestACutSegmentIsReported(t *testing.T) {
	whole := build(t, many(500, 150))
	for n := range len(whole) {
		if n == 0 {
			continue
		}
		if _, err := segment.Open(t.Context(), whole[:n].fetch, int64(n)); !errors.Is(err, tidemark.ErrCorrupt) {
			t.Errorf("opened with %d of %d blocks: %v, want ErrCorrupt", n, len(whole), err)
		}
	}
}

// Nodes that share their children would be walked through again and again: with a
// few levels, for ever.
func TestATreeThatSharesItsLeavesIsReported(t *testing.T) {
	const width = 30
	var forged blocks
	node := func(level byte, first int64) {
		b := []byte{'N', level}
		for i := range int64(width) {
			b = append(b, 0, 2, 'k', byte('A'+i), byte(i)) // key, ordinal
			b = binary.AppendUvarint(b, uint64(first+i))
		}
		forged.emit(b)
	}
	for i := range width {
		forged.emit([]byte{'W', byte(i), 0, 2, 'k', byte('A' + i), 2, 4, 1})
	}
	forged.emit([]byte{'L', 0, 0, 0})
	for range width {
		node(1, 1)
	}
	node(2, width+2)
	forged.emit([]byte{'G', 0, 0, 1, 's', 0})
	forged.emit([]byte{'F', 1, 1, width, 1, byte(len(forged)), width + 1, byte(len(forged) - 1), 0, 0})
	r := open(t, forged)
	for _, err := range segment.Search(t.Context(), []*segment.Reader{r}, segment.Query{All: [][]tidemark.Term{{{Word: "k", Prefix: true}}}}) {
		if !errors.Is(err, tidemark.ErrCorrupt) || !strings.Contains(err.Error(), "not in order") {
			t.Errorf("%v, want ErrCorrupt for children that are not in order", err)
		}
		return
	}
	t.Error("nothing is reported")
}

func TestASegmentOfANewerVersionIsRefused(t *testing.T) {
	whole := build(t, many(5, 5))
	whole[len(whole)-1][1] = segment.Version + 1
	if _, err := segment.Open(t.Context(), whole.fetch, int64(len(whole))); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("%v, want ErrUnsupported", err)
	}
}
