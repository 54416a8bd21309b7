package render

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Node is a node of a session's tree, as Tree draws it.
type Node struct {
	Number   int64
	Parent   int64 // the number of the node before it, -1 for a root
	Messages int64 // on its path
	Seq      int64 // the entry that ends it, which HTML links to; 0: none
	Label    string
	Current  bool      // where the session continues; drawn with a * after it
	At       time.Time // when its turn began; zero if unknown
	Text     string    // the first words of its turn
	Machine  string    // where it was written, if that is to be said
}

// TreeOptions say how a tree looks. A nil *TreeOptions is for programs: the
// details of a node follow after tabs, and nothing is cut.
type TreeOptions struct {
	Width    int                    // available columns; the details of the nodes are aligned, and cut to fit
	Relative func(time.Time) string // formats a time; nil: in UTC
}

// treeLevels is how far a tree indents, so that one with a branch at each of a
// hundred thousand turns does not take gigabytes of blanks. Deeper nodes are at one
// indentation, each after a …, in drawing order: a node follows its parent, or
// names the node that it comes from where another line is between.
const treeLevels = 40

// nameColumns is the width that a terminal reserves for the name of a node.
const nameColumns = 52

// maxLabel is how much of a label a terminal shows.
const maxLabel = 40

// Tree draws nodes, each below its parent, siblings and roots by number:
//
//	n0 (3 msgs)
//	├── n1 (5 msgs)
//	│   └── n2 [refactor approach] (8 msgs)
//	│       n4 (10 msgs)
//	│       n5 (12 msgs)
//	└── n3 (6 msgs)
//
// Only branches indent: a run of nodes that follow each other is one column,
// however long it is. Each node is followed by its time and the first words of
// its turn, where they are known.
//
// A node whose parent is not among the nodes is drawn as a root. Duplicate
// numbers and cycles of parents are ErrInvalid, and then nothing is written;
// other errors are those of w. Time and output grow with the number of nodes,
// whatever their shape.
func Tree(w io.Writer, nodes []Node, o *TreeOptions) error {
	d := newDrawing(bufio.NewWriter(w), o)
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
	if d.Width > 0 {
		for i := range order {
			d.column = max(d.column, 4*d.indent(&order[i])+Width(d.mark(&order[i])))
		}
		d.column = min(d.column, d.Width*3/5) + 2
	}
	for i := range order {
		d.draw(&order[i])
	}
	return nil
}

// way is how a node follows the one before it.
type way int

const (
	root   way = iota
	branch     // one of several
	onward     // the first after a branch
	level      // in the same column as the one before
)

// placed is a node with its position in the drawing.
type placed struct {
	node  *Node
	depth int
	way   way
	last  bool  // last of its siblings
	first bool  // first of all nodes
	above int64 // the number of the node drawn before it
}

// plant returns the nodes in drawing order. It keeps its own stack: a tree
// may be too deep for recursion.
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
	// From the last to the first, so that each stack has its lowest number
	// on top: below[i] is the first child of i, beside[i] its next sibling.
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
	type todo struct {
		i, depth int
		way      way
	}
	order := make([]placed, 0, len(sorted))
	var stack []todo
	if roots != none {
		stack = append(stack, todo{roots, 0, root})
	}
	above := int64(-1)
	for len(stack) > 0 {
		t := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		order = append(order, placed{node: &sorted[t.i], depth: t.depth, way: t.way, last: beside[t.i] == none, first: len(order) == 0, above: above})
		above = sorted[t.i].Number
		if beside[t.i] != none {
			stack = append(stack, todo{beside[t.i], t.depth, t.way})
		}
		switch child := below[t.i]; {
		case child == none:
		case beside[child] != none:
			stack = append(stack, todo{child, t.depth + 1, branch})
		case t.way == branch:
			stack = append(stack, todo{child, t.depth + 1, onward})
		default:
			stack = append(stack, todo{child, t.depth, level})
		}
	}
	if len(order) != len(sorted) {
		return nil, tidemark.Invalidf("tree: %d nodes are their own ancestors", len(sorted)-len(order))
	}
	return order, nil
}

// drawing tracks the lines that run down from the ancestors of the node
// that is drawn next.
type drawing struct {
	TreeOptions
	w      *bufio.Writer
	name   func(*Node)  // writes the name of a node
	text   func(string) // writes text of one line
	column int          // where the details of the nodes begin
	levels int          // at most treeLevels
	trunk  []byte
	ends   [treeLevels + 2]int // trunk[:ends[d]] comes before a node of depth d
}

func newDrawing(w *bufio.Writer, o *TreeOptions) *drawing {
	d := &drawing{w: w, levels: treeLevels}
	if o != nil && o.Width > 0 {
		d.TreeOptions = *o
		d.levels = min(treeLevels, max((o.Width-nameColumns)/4, 2))
	}
	d.name = func(n *Node) { d.w.WriteString(d.called(n)) }
	d.text = func(s string) { d.w.WriteString(s) }
	return d
}

// indent is how many steps a node is indented.
func (d *drawing) indent(p *placed) int { return min(p.depth, d.levels+1) }

func (d *drawing) draw(p *placed) {
	at := d.indent(p)
	bend, goesOn := "├── ", "│   "
	if p.last {
		bend, goesOn = "└── ", "    "
	}
	switch {
	case p.depth > d.levels:
		bend = "… "
	case p.way == root:
		bend, goesOn = "", ""
	case p.way == level:
		bend, goesOn = string(d.trunk[d.ends[at]:d.ends[at+1]]), ""
	}
	d.trunk = d.trunk[:d.ends[at]]
	d.w.Write(d.trunk)
	d.w.WriteString(bend)
	if p.way == level && p.depth <= d.levels {
		goesOn = bend
	}
	d.name(p.node)
	count := d.count(p)
	d.w.WriteString(count)
	d.about(p.node, Width(string(d.trunk))+Width(bend)+Width(d.called(p.node))+Width(count))
	d.w.WriteByte('\n')
	if at <= d.levels {
		d.trunk = append(d.trunk, goesOn...)
		d.ends[at+1] = len(d.trunk)
	}
}

// mark is everything that identifies a node.
func (d *drawing) mark(p *placed) string { return d.called(p.node) + d.count(p) }

func (d *drawing) called(n *Node) string {
	s := "n" + strconv.FormatInt(n.Number, 10)
	if n.Label != "" {
		s += " [" + d.labelOf(n) + "]"
	}
	return s
}

func (d *drawing) labelOf(n *Node) string {
	if d.Width == 0 {
		return CleanLine(n.Label)
	}
	return Truncate(CleanLine(n.Label), min(maxLabel, d.Width/3))
}

func (d *drawing) count(p *placed) string {
	var b [64]byte
	s := b[:0]
	switch {
	case p.way == root && !p.first:
		s = append(s, " from the start"...)
	case p.depth > d.levels && p.node.Parent != p.above:
		s = strconv.AppendInt(append(s, " from n"...), p.node.Parent, 10)
	}
	s = strconv.AppendInt(append(s, " ("...), p.node.Messages, 10)
	s = append(s, " msgs)"...)
	if p.node.Machine != "" {
		s = append(append(s, " on "...), Truncate(CleanLine(p.node.Machine), maxLabel)...)
	}
	if p.node.Current {
		s = append(s, " *"...)
	}
	return string(s)
}

// whenColumns is the width of a time, so that the words after it are in one
// column.
const whenColumns = len("2006-01-02 15:04")

// about writes the details of a node, after used columns.
func (d *drawing) about(n *Node, used int) {
	text := CleanLine(strings.TrimSpace(n.Text))
	switch {
	case n.At.IsZero() && text == "":
		return
	case d.Width == 0:
		at := ""
		if !n.At.IsZero() {
			at = n.At.UTC().Format(time.RFC3339)
		}
		d.text("\t" + at + "\t" + text)
		return
	}
	when, room := "", whenColumns
	switch {
	case d.Relative != nil:
		when, room = CleanLine(d.Relative(n.At)), len("59 days ago")
	case !n.At.IsZero():
		when = n.At.UTC().Format("2006-01-02 15:04")
	}
	s := strings.Repeat(" ", max(d.column-used, 2)) + when
	if text != "" {
		s += strings.Repeat(" ", max(room-Width(when), 0)+2) + text
	}
	d.text(strings.TrimRight(Truncate(s, max(d.Width-used, 0)), " "))
}
