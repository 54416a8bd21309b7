package render

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strconv"

	"github.com/tidemark-sessions/tidemark"
)

// Node is a node of a session's tree, as Tree draws it.
type Node struct {
	Number   int64
	Parent   int64 // the number of the node before it, -1: a root
	Messages int64 // on its path
	Seq      int64 // the entry that ends it, where HTML leads to; 0: nowhere
	Label    string
	Current  bool // where the session goes on; drawn with a * behind it
}

// treeLevels is how deep a tree moves to the right. A chain of a hundred
// thousand turns would else take forty gigabytes of blanks. The nodes below
// that level stand at one indentation, each behind a …, in the order in which
// they would be drawn: a node follows its parent, or says from which node it
// comes where another line stands between.
const treeLevels = 40

// Tree draws nodes, each below its parent, siblings and roots by number:
//
//	n0 (3 msgs)
//	├── n1 (5 msgs)
//	│   └── n2 [refactor approach] (8 msgs)
//	└── n3 (6 msgs)
//
// A node whose parent is not among the nodes is drawn as a root. Numbers that
// appear twice and circles of parents are ErrInvalid, and then nothing is
// written; other errors are those of w. Time and output grow with the number
// of nodes, whatever their shape.
func Tree(w io.Writer, nodes []Node) error {
	d := drawing{w: bufio.NewWriter(w)}
	d.name = d.plainName
	if err := d.drawAll(nodes); err != nil {
		return err
	}
	return d.w.Flush()
}

func (d *drawing) drawAll(nodes []Node) error {
	order, err := plant(nodes)
	if err != nil {
		return err
	}
	for i, p := range order {
		above := int64(-1)
		if i > 0 {
			above = order[i-1].node.Number
		}
		d.draw(p, above)
	}
	return nil
}

// placed is a node with its place in the picture.
type placed struct {
	node  *Node
	depth int
	last  bool // of its siblings
}

// plant returns the nodes in the order in which they are drawn. It keeps its
// own stack: a tree may be deeper than a goroutine's would like.
func plant(nodes []Node) ([]placed, error) {
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b Node) int { return cmp.Compare(a.Number, b.Number) })
	index := make(map[int64]int, len(sorted))
	for i, n := range sorted {
		if _, twice := index[n.Number]; twice {
			return nil, tidemark.Invalidf("tree: node n%d appears twice", n.Number)
		}
		index[n.Number] = i
	}
	// From the last to the first, so that each pile has its lowest number on
	// top: below[i] is the first child of i, beside[i] its next sibling.
	const none = -1
	below, beside := make([]int, len(sorted)), make([]int, len(sorted))
	for i := range below {
		below[i] = none
	}
	roots := none
	for i := len(sorted) - 1; i >= 0; i-- {
		pile := &roots
		if parent, ok := index[sorted[i].Parent]; ok && sorted[i].Parent >= 0 {
			pile = &below[parent]
		}
		beside[i], *pile = *pile, i
	}
	type todo struct{ i, depth int }
	order := make([]placed, 0, len(sorted))
	var stack []todo
	if roots != none {
		stack = append(stack, todo{roots, 0})
	}
	for len(stack) > 0 {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		order = append(order, placed{&sorted[t.i], t.depth, beside[t.i] == none})
		if beside[t.i] != none {
			stack = append(stack, todo{beside[t.i], t.depth})
		}
		if below[t.i] != none {
			stack = append(stack, todo{below[t.i], t.depth + 1})
		}
	}
	if len(order) != len(sorted) {
		return nil, tidemark.Invalidf("tree: %d nodes are their own ancestors", len(sorted)-len(order))
	}
	return order, nil
}

// drawing remembers the lines that run down from the ancestors of the node
// that is drawn next.
type drawing struct {
	w     *bufio.Writer
	name  func(*Node) // writes what a node is called
	trunk []byte
	ends  [treeLevels + 2]int // trunk[:ends[d]] stands before a node of depth d
}

func (d *drawing) draw(p placed, above int64) {
	level := min(p.depth, treeLevels+1)
	d.trunk = d.trunk[:d.ends[level]]
	d.w.Write(d.trunk)
	bend, goesOn := "├── ", "│   "
	if p.last {
		bend, goesOn = "└── ", "    "
	}
	from := false
	switch {
	case p.depth == 0:
		bend, goesOn = "", ""
	case p.depth > treeLevels:
		bend, from = "… ", p.node.Parent != above
	}
	d.w.WriteString(bend)
	d.label(p.node, from)
	if level <= treeLevels {
		d.trunk = append(d.trunk, goesOn...)
		d.ends[level+1] = len(d.trunk)
	}
}

func (d *drawing) label(n *Node, from bool) {
	d.name(n)
	var b [64]byte
	s := b[:0]
	if from {
		s = append(s, " from n"...)
		s = strconv.AppendInt(s, n.Parent, 10)
	}
	s = append(s, " ("...)
	s = strconv.AppendInt(s, n.Messages, 10)
	s = append(s, " msgs)"...)
	if n.Current {
		s = append(s, " *"...)
	}
	d.w.Write(append(s, '\n'))
}

func (d *drawing) plainName(n *Node) {
	d.w.WriteByte('n')
	d.w.WriteString(strconv.FormatInt(n.Number, 10))
	if n.Label != "" {
		d.w.WriteString(" [")
		d.w.WriteString(CleanLine(n.Label))
		d.w.WriteByte(']')
	}
}
