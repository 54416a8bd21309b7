package segment_test

import (
	"context"
	"errors"
	"slices"
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
	if err := segment.Merge(t.Context(), []*segment.Reader{r, r}, segment.Without{"session 0001": {{From: 2, To: 4}}}, new(blocks).emit); damaged(err) != nil {
		t.Fatal(err)
	}
}

// FuzzBlock puts a forged block in the place of one.
func FuzzBlock(f *testing.F) {
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

// A segment in which any one byte is another is read to its end, or says that it
// is damaged.
func TestEveryFlippedByteIsReadOrReported(t *testing.T) {
	whole := build(t, many(150, 40))
	for i := range whole {
		for j := range whole[i] {
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

func TestASegmentOfANewerVersionIsRefused(t *testing.T) {
	whole := build(t, many(5, 5))
	whole[len(whole)-1][1] = segment.Version + 1
	if _, err := segment.Open(t.Context(), whole.fetch, int64(len(whole))); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("%v, want ErrUnsupported", err)
	}
}
