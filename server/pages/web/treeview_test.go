package web

import (
	"slices"
	"testing"
)

// wholeTree is a picture of a tree of which everything is known.
func wholeTree(t *testing.T, nodes []TreeNode, shown int64, all bool, skipped int) *TreeView {
	t.Helper()
	v, err := DrawTree(nodes, shown, all, skipped, func([]int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestATreeShowsWhatTellsAndFoldsWhatDoesNot(t *testing.T) {
	var nodes []TreeNode
	for n := range int64(50) {
		nodes = append(nodes, TreeNode{Number: n, Parent: n - 1, Messages: 2 * n})
	}
	nodes[20].Label = "halfway"
	nodes = append(nodes, TreeNode{Number: 50, Parent: 30}, TreeNode{Number: 51, Parent: 50, Current: true})
	v := wholeTree(t, nodes, -1, false, 0)
	var names []string
	for _, n := range v.Nodes {
		names = append(names, n.Name)
	}
	want := []string{"n0", "n20", "n30", "n31", "n49", "n50", "n51"}
	if len(names) != len(want) {
		t.Fatalf("drawn are %v, want %v", names, want)
	}
	for i, n := range v.Nodes {
		if n.Name != want[i] {
			t.Errorf("row %d is %s, want %s", i, n.Name, want[i])
		}
	}
	if n := v.Nodes[1]; n.Skipped != 19 || !n.On || n.X != v.Nodes[0].X {
		t.Errorf("n20: %+v", n)
	}
	if n := v.Nodes[3]; n.On || n.X != v.Nodes[0].X {
		t.Errorf("n31 is on the branch that is not shown, in the first lane: %+v", n)
	}
	if n := v.Nodes[6]; !n.Shown || !n.On || n.X == v.Nodes[0].X {
		t.Errorf("n51 is the end of the branch that is shown, in a lane of its own: %+v", n)
	}
	if shown := wholeTree(t, nodes, 49, false, 0); !shown.Nodes[4].Shown || shown.Nodes[6].Shown {
		t.Error("the node that was asked for is not the one that is shown")
	}
}

func TestALargeTreeIsCutUnlessAllIsAskedFor(t *testing.T) {
	nodes := []TreeNode{{Number: 0, Parent: -1}}
	for n := int64(1); n <= 500; n++ {
		nodes = append(nodes, TreeNode{Number: n, Parent: 0})
	}
	if v := wholeTree(t, nodes, -1, false, 0); len(v.Nodes) != maxDrawn || v.Cut != 501-maxDrawn || v.Total != 501 {
		t.Errorf("%d drawn, %d cut of %d", len(v.Nodes), v.Cut, v.Total)
	}
	if v := wholeTree(t, nodes, -1, true, 0); len(v.Nodes) != 501 || v.Cut != 0 {
		t.Errorf("all: %d drawn, %d cut", len(v.Nodes), v.Cut)
	}
	// A circle of parents ends.
	wholeTree(t, []TreeNode{{Number: 1, Parent: 2}, {Number: 2, Parent: 1}}, 1, true, 0)
	if v := wholeTree(t, nil, -1, true, 0); len(v.Nodes) != 0 {
		t.Errorf("nothing: %+v", v)
	}
}

// Only what is shown is described, and what a turn put out is listed with it.
func TestOnlyWhatIsShownOfATreeIsDescribed(t *testing.T) {
	var nodes []TreeNode
	for n := range int64(1000) {
		nodes = append(nodes, TreeNode{Number: n, Parent: n - 1})
	}
	nodes[999].Current = true
	for skipped, first := range map[int]int{0: 800, 300: 500, 5000: 0} {
		var described []int
		v, err := DrawTree(nodes, -1, false, skipped, func(places []int) error {
			described = places
			for _, i := range places {
				nodes[i].Text, nodes[i].Rest = nodes[i].name(), i == first+10
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []int{0, 999} // the ends of the picture
		for i := range maxOutline {
			want = append(want, first+i)
		}
		if !slices.Equal(described, want) {
			t.Errorf("described are %v", described)
		}
		if v.Branched || len(v.Outline) != maxOutline-1 || v.Outline[0].Text != nodes[first].name() || v.Outline[10].Text != nodes[first+11].name() {
			t.Errorf("listed are %+v", v.Outline)
		}
		if v.Earlier.count() != first || v.Later.count() != 1000-maxOutline-first {
			t.Errorf("%d turns before, %d behind", v.Earlier.count(), v.Later.count())
		}
	}
}

func (l *OutlineLink) count() int {
	if l == nil {
		return 0
	}
	return l.Turns
}
