package bundle

import (
	"slices"
	"time"
)

// Node is a message in a tree.
type Node struct {
	ID, Parent string // a Parent that is not there: it is a root
	At         time.Time
}

// Order returns the indexes of nodes so that each comes after its parent, and
// otherwise by time: what was said later comes later, on whatever branch. Of a
// circle, which only a damaged export has, one node is a root.
func Order(nodes []Node) []int {
	at := map[string]int{}
	for i, n := range nodes {
		if _, twice := at[n.ID]; !twice {
			at[n.ID] = i
		}
	}
	children := make([][]int, len(nodes))
	var roots []int
	for i, n := range nodes {
		if up, ok := at[n.Parent]; ok && up != i {
			children[up] = append(children[up], i)
		} else {
			roots = append(roots, i)
		}
	}
	order := make([]int, 0, len(nodes))
	when := make([]time.Time, len(nodes)) // never before that of the parent
	seen := make([]bool, len(nodes))
	walk := func(root int) {
		for stack := []int{root}; len(stack) > 0; {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[i] {
				continue
			}
			seen[i] = true
			order = append(order, i)
			if when[i].Before(nodes[i].At) {
				when[i] = nodes[i].At
			}
			for _, c := range slices.Backward(children[i]) {
				when[c] = when[i]
				stack = append(stack, c)
			}
		}
	}
	for _, r := range roots {
		walk(r)
	}
	for i := range nodes {
		walk(i) // of those in circles
	}
	slices.SortStableFunc(order, func(a, b int) int { return when[a].Compare(when[b]) })
	return order
}
