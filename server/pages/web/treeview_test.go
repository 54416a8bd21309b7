package web

import "testing"

func TestATreeShowsWhatTellsAndFoldsWhatDoesNot(t *testing.T) {
	var nodes []TreeNode
	for n := range int64(50) {
		nodes = append(nodes, TreeNode{Number: n, Parent: n - 1, Messages: 2 * n})
	}
	nodes[20].Label = "halfway"
	nodes = append(nodes, TreeNode{Number: 50, Parent: 30}, TreeNode{Number: 51, Parent: 50, Current: true})
	v := DrawTree(nodes, -1, false, 0)
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
	if shown := DrawTree(nodes, 49, false, 0); !shown.Nodes[4].Shown || shown.Nodes[6].Shown {
		t.Error("the node that was asked for is not the one that is shown")
	}
}

func TestALargeTreeIsCutUnlessAllIsAskedFor(t *testing.T) {
	nodes := []TreeNode{{Number: 0, Parent: -1}}
	for n := int64(1); n <= 500; n++ {
		nodes = append(nodes, TreeNode{Number: n, Parent: 0})
	}
	if v := DrawTree(nodes, -1, false, 0); len(v.Nodes) != maxDrawn || v.Cut != 501-maxDrawn || v.Total != 501 {
		t.Errorf("%d drawn, %d cut of %d", len(v.Nodes), v.Cut, v.Total)
	}
	if v := DrawTree(nodes, -1, true, 0); len(v.Nodes) != 501 || v.Cut != 0 {
		t.Errorf("all: %d drawn, %d cut", len(v.Nodes), v.Cut)
	}
	// A circle of parents ends.
	DrawTree([]TreeNode{{Number: 1, Parent: 2}, {Number: 2, Parent: 1}}, 1, true, 0)
	if v := DrawTree(nil, -1, true, 0); len(v.Nodes) != 0 {
		t.Errorf("nothing: %+v", v)
	}
}
