package web

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// maxDrawn is how many nodes of a tree are drawn by default: a picture that a
// person can still take in.
const maxDrawn = 60

// The dimensions of the picture, in pixels.
const (
	laneWidth = 18
	rowHeight = 40 // two lines: its words, and when it began
	treeEdge  = 20
	charWidth = 7.4
	maxLabel  = 24 // letters of a label
)

// TreeNode is a node of a session's tree.
type TreeNode struct {
	Number, Parent int64
	Label          string
	Current        bool   // the session continues here
	Machine        string // where it was written, if that is to be said

	// Known of those that are shown.
	Messages int64
	First    int64
	At       time.Time
	Text     string // its first words
	Rest     bool   // for people, it belongs to the turn before
}

// TreeView is the tree of a session as a picture: a row for each significant
// node, a lane for each branch. Of a straight run only the number of nodes is
// shown.
type TreeView struct {
	Width, Height int
	Edges         []TreeEdge
	Nodes         []DrawnNode
	Total         int
	Cut           int // nodes that are neither drawn nor in a run
	All           bool
	Branched      bool // it is more than one turn after the other: there is a choice, or a name

	Asked   string       // the node whose branch was asked for
	Outline []OutlineRow // the turns of the shown branch
	Earlier *OutlineLink // those before them; nil: there are none
	Later   *OutlineLink // those after them
}

// maxOutline is how many turns are listed beside a session.
const maxOutline = 200

// OutlineLink leads to other turns of a long list: how many there are on that
// side, and how many of the newest are skipped to get there.
type OutlineLink struct{ Turns, Skip int }

// OutlineRow is a turn in the list beside a session.
type OutlineRow struct {
	Name string
	Seq  int64
	Text string
	At   time.Time

	Machine string // where it was written, if that is to be said
}

// TreeEdge is a line from a node to the one that follows it.
type TreeEdge struct {
	D   string
	On  bool // it is on the shown branch
	Gap bool // nodes in between are not drawn
}

// DrawnNode is one row of the picture.
type DrawnNode struct {
	TreeNode
	X, Y, TextX, TextY int
	Name               string
	Short              string // of the label
	On                 bool   // it is on the shown branch
	Shown              bool   // it is the end of that branch
	Skipped            int    // nodes between this one and its parent in the picture
}

// DrawTree draws a tree. shown is the number of the node that ends the
// shown branch, -1 for the current one; skipped is how many of the newest turns
// the list leaves out. describe completes the nodes that are shown, of which it gets the
// places.
func DrawTree(nodes []TreeNode, shown int64, all bool, skipped int, describe func(places []int) error) (*TreeView, error) {
	t := drawing{byNumber: make(map[int64]int, len(nodes)), children: make(map[int64]int), nodes: nodes}
	for i, n := range nodes {
		t.byNumber[n.Number] = i
		t.children[n.Parent]++
		if n.Current && shown < 0 {
			shown = n.Number
		}
	}
	t.shown, t.on = shown, make(map[int64]bool)
	for n := shown; n >= 0 && !t.on[n]; {
		t.on[n] = true
		i, ok := t.byNumber[n]
		if !ok {
			break
		}
		n = nodes[i].Parent
	}
	v := &TreeView{Total: len(nodes), All: all, Branched: t.branched()}
	rows, turns := t.rows(v), v.turns(t.path(), skipped)
	if err := describe(append(slices.Clone(rows), turns...)); err != nil {
		return nil, err
	}
	for _, i := range turns {
		if n := &nodes[i]; !n.Rest {
			v.Outline = append(v.Outline, OutlineRow{Name: n.name(), Seq: n.First, Text: n.Text, At: n.At, Machine: n.Machine})
		}
	}
	t.draw(v, rows)
	return v, nil
}

// turns leaves as many turns of a path as a page lists at once.
func (v *TreeView) turns(path []int, skipped int) []int {
	end := max(len(path)-skipped, min(len(path), maxOutline))
	begin := max(end-maxOutline, 0)
	if begin > 0 {
		v.Earlier = &OutlineLink{Turns: begin, Skip: len(path) - begin}
	}
	if later := len(path) - end; later > 0 {
		v.Later = &OutlineLink{Turns: later, Skip: max(later-maxOutline, 0)}
	}
	return path[begin:end]
}

func (n *TreeNode) name() string { return "n" + strconv.FormatInt(n.Number, 10) }

type drawing struct {
	nodes    []TreeNode
	byNumber map[int64]int
	children map[int64]int
	on       map[int64]bool
	shown    int64
}

// telling reports whether a node gets a row: where something begins, ends,
// branches or has a name.
func (t *drawing) telling(n TreeNode) bool {
	_, follows := t.byNumber[n.Parent]
	return !follows || t.children[n.Number] != 1 || t.children[n.Parent] > 1 || n.Label != "" || n.Machine != "" || n.Current || n.Number == t.shown
}

// branched reports whether there is more to see than one turn after the other.
func (t *drawing) branched() bool {
	roots := 0
	for _, n := range t.nodes {
		if _, follows := t.byNumber[n.Parent]; !follows {
			roots++
		}
		if t.children[n.Number] > 1 || roots > 1 || n.Label != "" || n.Machine != "" || n.Number == t.shown && t.children[n.Number] > 0 {
			return true
		}
	}
	return false
}

// path is the places of the nodes of the shown branch, oldest first.
func (t *drawing) path() (places []int) {
	for i, n := range t.nodes {
		if t.on[n.Number] {
			places = append(places, i)
		}
	}
	return places
}

// rows is the places of the nodes that get a row.
func (t *drawing) rows(v *TreeView) (places []int) {
	for i, n := range t.nodes {
		if t.telling(n) {
			places = append(places, i)
		}
	}
	if !v.All && len(places) > maxDrawn {
		v.Cut = len(places) - maxDrawn
		places = places[v.Cut:]
	}
	return places
}

func (t *drawing) draw(v *TreeView, rows []int) {
	lanes, widest := 0, 0
	at := make(map[int64]*DrawnNode, len(rows))
	taken := make(map[int64]bool) // lanes that continue already, by the node they come from
	v.Nodes = make([]DrawnNode, len(rows))
	for i, place := range rows {
		n, d := t.nodes[place], &v.Nodes[i]
		*d = DrawnNode{TreeNode: n, Name: n.name(), Short: Shorten(cmp.Or(n.Label, n.Text)), On: t.on[n.Number], Shown: n.Number == t.shown}
		at[n.Number] = d
		above, skipped := t.above(n, at)
		d.Skipped = skipped
		d.Y = treeEdge + i*rowHeight
		if above != nil && !taken[above.Number] {
			taken[above.Number] = true
			d.X = above.X
		} else {
			d.X = treeEdge + lanes*laneWidth
			lanes++
		}
		if above != nil {
			v.Edges = append(v.Edges, TreeEdge{D: curve(above, d), On: d.On, Gap: skipped > 0})
		}
	}
	for i := range v.Nodes {
		d := &v.Nodes[i]
		d.TextX, d.TextY = treeEdge+lanes*laneWidth+4, d.Y-2
		widest = max(widest, len(d.Name)+len([]rune(d.Short))+6, len([]rune(d.Machine))+36)
	}
	v.Width = treeEdge + lanes*laneWidth + int(float64(widest)*charWidth)
	v.Height = 2*treeEdge + (len(rows)-1)*rowHeight
}

// above is the nearest drawn node on the way to the root, and how many are
// skipped on the way.
func (t *drawing) above(n TreeNode, at map[int64]*DrawnNode) (*DrawnNode, int) {
	for skipped := 0; skipped <= len(t.nodes); skipped++ {
		if d := at[n.Parent]; d != nil {
			return d, skipped
		}
		i, ok := t.byNumber[n.Parent]
		if !ok {
			return nil, 0
		}
		n = t.nodes[i]
	}
	return nil, 0
}

func curve(from, to *DrawnNode) string {
	if from.X == to.X {
		return fmt.Sprintf("M%d %dV%d", from.X, from.Y, to.Y)
	}
	// Move to the side at once: the lane of a branch is its own all the way.
	return fmt.Sprintf("M%d %dQ%d %d %d %dV%d", from.X, from.Y, to.X, from.Y, to.X, from.Y+rowHeight/2, to.Y)
}

// Shorten cuts a label, or the name of a machine, to what the picture has room for.
func Shorten(label string) string {
	if r := []rune(label); len(r) > maxLabel {
		return string(r[:maxLabel-1]) + "…"
	}
	return label
}

// TreePage is only the picture of the branches of a session.
type TreePage struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"` // as in links
	Title string    `json:"title,omitempty"`
	Tree  *TreeView `json:"tree"`
}
