package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

// Node is one turn, the end of which is a point to branch from. It covers the
// entries First to Last; its number is the count of nodes begun before it.
type Node struct {
	Number   int64  `json:"number"`
	Parent   int64  `json:"parent"` // the number of the node that it follows, -1: none
	First    int64  `json:"first"`
	Last     int64  `json:"last"`
	Messages int64  `json:"messages"` // on the path that ends here
	Label    string `json:"label,omitempty"`
	Current  bool   `json:"current,omitempty"` // the head is here
	Machine  string `json:"machine,omitempty"` // that it was first written on, if the store shares sessions

	// When the turn began, and its first words, to show to people.
	At   time.Time `json:"-"`
	Text string    `json:"-"`

	// Nobody said anything in it: it is a summary of what was before, and so are its words.
	Summary bool `json:"-"`

	// It was not written on the same machine as the node before it or, of a first
	// one, not here.
	Moved bool `json:"-"`
}

// maxText bounds Node.Text, in bytes.
const maxText = 200

// describe sets At and Text of the node from its first entry that has them.
func (n *Node) describe(e tidemark.Entry) {
	if n.At.IsZero() {
		n.At = e.At
	}
	summary := e.Kind == tidemark.KindCompaction && n.Text == ""
	if !summary && (n.Text != "" && !n.Summary || e.Context() || e.Kind != tidemark.KindMessage) {
		return
	}
	line := strings.Join(strings.Fields(text.Clip(e.Said(), 4*maxText)), " ")
	if line != "" || summary {
		n.Text, n.Summary = text.Clip(line, maxText), summary
	}
}

// Tree returns the nodes of the session, in order of their numbers. Entries
// that cannot be read are left out; Verify reports them.
func (v *View) Tree(ctx context.Context) ([]Node, error) {
	nodes, _, err := v.treeFrom(ctx, 0, 1, 0)
	return nodes, err
}

// TreePage returns at most limit nodes of the Tree, from a number on, and whether
// there are more. It reads these nodes and a few lines, however long the session
// is; of a fork it reads everything.
func (v *View) TreePage(ctx context.Context, from int64, limit int) (nodes []Node, more bool, err error) {
	start := int64(1)
	switch {
	case v.Base != nil:
		all, err := v.Tree(ctx)
		if err != nil {
			return nil, false, err
		}
		first := sort.Search(len(all), func(i int) bool { return all[i].Number >= from })
		end := min(first+limit, len(all))
		return all[first:end], end < len(all), nil
	case from >= max(v.Nodes, 1):
		return nil, false, nil
	case from > 0:
		before, err := v.NodeEnd(ctx, from-1)
		if err != nil {
			return nil, false, err
		}
		start = before + 1
	}
	return v.treeFrom(ctx, from, start, limit)
}

// treeFrom returns at most limit nodes, 0: all, from a number on, whose first
// entry is start or behind it.
func (v *View) treeFrom(ctx context.Context, from, start int64, limit int) (nodes []Node, more bool, err error) {
	labels, err := v.Labels(ctx)
	if err != nil {
		return nil, false, err
	}
	nodes, newest, more, err := v.readNodes(ctx, from, start, limit)
	if err != nil {
		return nil, false, err
	}
	if len(nodes) == 0 && newest.Seq > 0 && from == 0 {
		nodes = []Node{{Parent: -1, First: 1, Last: newest.Seq, Messages: newest.Depth}}
	}
	for _, seq := range slices.Sorted(maps.Keys(labels)) { // of two in a node the later one counts
		if i := indexAt(nodes, seq); i >= 0 {
			nodes[i].Label = labels[seq]
		}
	}
	tip := newest.Seq
	if newest.Kind == tidemark.KindBranch {
		tip = newest.Parent
	}
	if more || start > 1 {
		if tip, err = v.Head(ctx); err != nil {
			return nil, false, err
		}
	}
	if i := indexAt(nodes, tip); i >= 0 {
		nodes[i].Current = true
	}
	return nodes, more, v.setMachines(ctx, nodes)
}

// readNodes reads at most limit nodes, 0: all, from a number on, whose first entry is start or behind it.
// newest is the last entry that was looked at.
func (v *View) readNodes(ctx context.Context, from, start int64, limit int) (nodes []Node, newest tidemark.Entry, more bool, err error) {
	for e, err := range v.LogRange(ctx, start, 0) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, newest, false, err
		}
		newest = e
		if structural(e) {
			continue
		}
		n := len(nodes)
		if n == 0 || nodes[n-1].Number != e.Nodes-1 {
			if e.Nodes <= from {
				continue // before the first turn: a system prompt
			}
			if more = limit > 0 && n == limit; more {
				break
			}
			parent, err := v.parentOf(ctx, nodes, e, start)
			if err != nil {
				return nil, newest, false, err
			}
			nodes = append(nodes, Node{Number: e.Nodes - 1, Parent: parent, First: e.Seq})
			n++
		}
		nodes[n-1].Last, nodes[n-1].Messages = e.Seq, e.Depth
		nodes[n-1].describe(e)
	}
	return nodes, newest, more, nil
}

// parentOf returns the number of the node that e, the first entry of another one,
// follows, -1: none. What is before start is not among nodes.
func (v *View) parentOf(ctx context.Context, nodes []Node, e tidemark.Entry, start int64) (int64, error) {
	if e.Turn == 0 || e.Turn >= start {
		return numberAt(nodes, e.Turn), nil
	}
	p, err := v.Position(ctx, e.Turn)
	if errors.Is(err, tidemark.ErrCorrupt) {
		return -1, nil // as if it were left out
	}
	return p.Nodes - 1, err
}

// indexAt returns the index of the node that covers seq, -1 when none does.
func indexAt(nodes []Node, seq int64) int {
	i := sort.Search(len(nodes), func(i int) bool { return nodes[i].Last >= seq })
	if i == len(nodes) || nodes[i].First > seq {
		return -1
	}
	return i
}

func numberAt(nodes []Node, seq int64) int64 {
	if i := indexAt(nodes, seq); i >= 0 {
		return nodes[i].Number
	}
	return -1
}

// NodeEnd returns the seq of the last entry of node number: ErrNotFound. It
// reads only a few lines, however long the session is, unless one of these is
// damaged: then it reads the whole session.
func (v *View) NodeEnd(ctx context.Context, number int64) (int64, error) {
	seq, err := v.nodeEnd(ctx, number)
	if !errors.Is(err, tidemark.ErrCorrupt) {
		return seq, err
	}
	nodes, err := v.Tree(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range nodes {
		if n.Number == number {
			return n.Last, nil
		}
	}
	return 0, tidemark.NotFoundf("session %s: there is no node n%d", v.ID, number)
}

func (v *View) nodeEnd(ctx context.Context, number int64) (int64, error) {
	segments, err := v.trail(ctx)
	if err != nil {
		return 0, err
	}
	head, err := v.head(ctx)
	if err != nil {
		return 0, err
	}
	if head.Seq > 0 && head.Kind == "" {
		return 0, tidemark.ErrCorrupt
	}
	if head.Seq == 0 || number < 0 || number >= max(head.Position.Nodes, 1) {
		return 0, tidemark.NotFoundf("session %s: there is no node n%d", v.ID, number)
	}
	shared := v.sharedUpTo()
	past := tidemark.Line{}
	if shared > 0 {
		if past, err = v.line(ctx, segments, shared); err != nil {
			return 0, err
		}
	}
	if number < past.Position.Nodes {
		return v.sharedNodeEnd(ctx, segments, past, number)
	}
	// Find the first entry of the next node by bisection: the count of nodes
	// never decreases along the log.
	low, high := shared+1, head.Seq+1
	for low < high {
		mid := low + (high-low)/2
		l, err := v.line(ctx, segments, mid)
		if err != nil {
			return 0, err
		}
		if l.Position.Nodes > number+1 {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return v.skipMarkers(ctx, segments, low-1)
}

// sharedNodeEnd is nodeEnd on the path that a fork shares, which ends with l.
func (v *View) sharedNodeEnd(ctx context.Context, segments []segment, l tidemark.Line, number int64) (int64, error) {
	for {
		if l.Kind != tidemark.KindBranch && l.Position.Nodes == number+1 {
			return l.Seq, nil
		}
		if l.Position.Turn == 0 {
			return 0, tidemark.NotFoundf("session %s: node n%d is on a branch that this fork does not share", v.ID, number)
		}
		var err error
		if l, err = v.line(ctx, segments, l.Position.Turn); err != nil {
			return 0, err
		}
	}
}

// skipMarkers steps back over branch markers, which belong to no node.
func (v *View) skipMarkers(ctx context.Context, segments []segment, seq int64) (int64, error) {
	for {
		l, err := v.line(ctx, segments, seq)
		if err != nil {
			return 0, err
		}
		if l.Kind != tidemark.KindBranch || seq == 1 {
			return seq, nil
		}
		seq--
	}
}

// Up returns the seq of the end of the turn that is n turns before the one that
// seq is in: ErrNotFound when there are not that many.
func (v *View) Up(ctx context.Context, seq int64, n int) (int64, error) {
	segments, err := v.trail(ctx)
	if err != nil {
		return 0, err
	}
	for range n {
		l, err := v.line(ctx, segments, seq)
		if err != nil {
			return 0, err
		}
		if l.Kind == tidemark.KindBranch {
			if l, err = v.line(ctx, segments, l.Position.Turn); err != nil {
				return 0, err
			}
		}
		if seq = l.Position.Turn; seq == 0 {
			return 0, tidemark.NotFoundf("session %s: there are not %d turns above", v.ID, n)
		}
	}
	return seq, nil
}

// Position returns the position of an entry in the tree: ErrNotFound.
func (v *View) Position(ctx context.Context, seq int64) (tidemark.Position, error) {
	segments, err := v.trail(ctx)
	if err != nil {
		return tidemark.Position{}, err
	}
	l, err := v.line(ctx, segments, seq)
	return l.Position, err
}
