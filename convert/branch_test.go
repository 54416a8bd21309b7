package convert_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

func TestOneBranchIsToldFromItsRootToItsHead(t *testing.T) {
	entries := func(yield func(convert.Entry, error) bool) {
		for _, e := range []convert.Entry{{ID: "a"}, {ID: "b"}, {ID: "c", Parent: "a"}, {ID: "d"}, {ID: "e", Parent: convert.Root}, {ID: "f", Parent: "gone"}} {
			if !yield(e, nil) {
				return
			}
		}
		yield(convert.Entry{}, convert.Skipf("line 7", "is damaged"))
	}
	for head, want := range map[string][]string{"": {"e", "f"}, "gone": {"e", "f"}, "d": {"a", "c", "d"}, "b": {"a", "b"}} {
		b, err := convert.BranchTo(t.Context(), entries, head)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range b.Entries {
			got = append(got, e.ID)
		}
		if d := cmp.Diff(want, got); d != "" || b.Beside != 6-len(want) || b.Damaged != 1 {
			t.Errorf("to %q: %d beside, %d damaged: %s", head, b.Beside, b.Damaged, d)
		}
	}
}

func TestLossesAreCountedByWhatTheyAre(t *testing.T) {
	lost := convert.Losses{}
	lost.Add("times")
	text := lost.ResultText(tidemark.Block{Text: "a", Blocks: []tidemark.Block{tidemark.Text("b"), {Type: tidemark.BlockImage}, {Type: tidemark.BlockImage}}})
	if d := cmp.Diff([]string{"image blocks (2)", "times"}, lost.List()); d != "" || text != "a\nb" {
		t.Errorf("%q: %s", text, d)
	}
}
