package agentzero

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"

	"github.com/tidemark-sessions/tidemark/convert"
)

// tree is the content of a tree file. No sample of AgentZero's own is known, so
// any shape that can be interpreted is accepted; what Tidemark writes is one of
// them.
type tree struct {
	nodes   []*node
	byID    map[string]*node
	current string
	fields  object // fields of the whole
}

// node is a conversation up to a point: that of its parent, and more.
type node struct {
	id, parent, label string
	children          []string // that are referenced, not nested
	raw               json.RawMessage

	messages []json.RawMessage // objects; nil: only their number is given
	count    int               // messages up to its end, 0: not given
	keeps    int               // messages of its parent that it begins with, -1: not given

	state int
	end   int // in the forest, when it is placed
}

const (
	unplaced = iota
	begun
	placed
)

// The keys under which a tree may hold each field.
var (
	nodesKeys   = []string{"nodes", "tree", "root"}
	currentKeys = []string{"current", "current_node", "current_id", "current_node_id", "active", "head"}
	parentKeys  = []string{"parent", "parent_id"}
	countKeys   = []string{"message_count", "msg_count", "messages_count", "count", "messages"}
)

// A hostile tree could cost the square of its size: by walks back to where a
// node begins, and by nested nodes, each of which is parsed again.
const (
	treeSteps = 50_000_000
	treeBytes = 1 << 30
)

func parseTree(file []byte) (*tree, error) {
	t := &tree{byID: map[string]*node{}, fields: object{}}
	raw := json.RawMessage(bytes.TrimSpace(file))
	if !json.Valid(raw) {
		return nil, tidemark.Invalidf("is not whole JSON")
	}
	if json.Unmarshal(raw, &t.fields) == nil {
		raw = nil
		for _, k := range nodesKeys {
			if v := t.fields[k]; raw == nil && len(v) > 0 && (v[0] == '[' || v[0] == '{') {
				raw = v
				delete(t.fields, k)
			}
		}
		for _, k := range currentKeys {
			if t.current == "" {
				t.current = name(t.fields[k])
				delete(t.fields, k)
			}
		}
	} else {
		t.fields = object{}
	}
	if err := t.collect(raw); err != nil {
		return nil, err
	}
	t.link()
	return t, nil
}

// collect reads the nodes from a list, a map by id, or nested nodes.
func (t *tree) collect(raw json.RawMessage) error {
	type found struct {
		raw        json.RawMessage
		id, parent string
	}
	var todo []found
	var list []json.RawMessage
	var byID object
	switch {
	case json.Unmarshal(raw, &list) == nil:
		for _, n := range list {
			todo = append(todo, found{raw: n})
		}
	case json.Unmarshal(raw, &byID) != nil:
	case byID["children"] != nil || byID["id"] != nil:
		todo = []found{{raw: raw}}
	default:
		for _, id := range slices.SortedFunc(maps.Keys(byID), byNumber) {
			todo = append(todo, found{raw: byID[id], id: id})
		}
	}
	parsed := 0
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		if parsed += len(next.raw); parsed > treeBytes {
			return tidemark.Invalidf("has nodes inside nodes, too many to follow")
		}
		var o object
		if json.Unmarshal(next.raw, &o) != nil || o == nil {
			continue
		}
		n := parseNode(o, next.raw)
		if n.id == "" {
			n.id = next.id
		}
		if n.id == "" {
			n.id = "n" + strconv.Itoa(len(t.nodes))
		}
		if n.parent == "" {
			n.parent = next.parent
		}
		t.nodes = append(t.nodes, n)
		if t.byID[n.id] == nil {
			t.byID[n.id] = n
		}
		var children []json.RawMessage
		if json.Unmarshal(o["children"], &children) == nil {
			for _, c := range children {
				if len(c) > 0 && c[0] == '{' {
					todo = append(todo, found{raw: c, parent: n.id})
				} else {
					n.children = append(n.children, name(c))
				}
			}
		}
	}
	return nil
}

// byNumber orders n2 before n10.
func byNumber(a, b string) int {
	if len(a) != len(b) && strings.HasPrefix(a, "n") && strings.HasPrefix(b, "n") {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func parseNode(o object, raw json.RawMessage) *node {
	n := &node{raw: raw, keeps: -1, end: nowhere}
	for _, k := range []string{"id", "node_id"} {
		if n.id == "" {
			n.id = name(o[k])
		}
	}
	for _, k := range parentKeys {
		if n.parent == "" {
			n.parent = name(o[k])
		}
	}
	n.label = o.Text("label")
	for _, k := range countKeys {
		if c, ok := number(o, k); ok && n.count == 0 && c > 0 {
			n.count = c
		}
	}
	if k, ok := number(o, "keeps"); ok && k >= 0 {
		n.keeps = k
	}
	for raw := range convert.Elements(o["messages"]) {
		if raw[0] == '{' {
			n.messages = append(n.messages, raw)
		}
	}
	return n
}

// name returns the name of a node, which may be a number.
func name(raw json.RawMessage) string {
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(raw, &s) == nil:
		return s
	case json.Unmarshal(raw, &n) == nil:
		return n.String()
	}
	return ""
}

// link finds the parents of nodes that are only listed as children, or only
// numbered.
func (t *tree) link() {
	for _, n := range t.nodes {
		for _, c := range n.children {
			if child := t.byID[c]; child != nil && child.parent == "" && child != n {
				child.parent = n.id
			}
		}
	}
	for _, n := range t.nodes {
		if t.byID[n.parent] == nil && t.byID["n"+n.parent] != nil {
			n.parent = "n" + n.parent
		}
	}
	if t.byID[t.current] == nil && t.byID["n"+t.current] != nil {
		t.current = "n" + t.current
	}
}

// grow adds the messages of the nodes to a forest, parents first.
func (t *tree) grow(f *forest) error {
	steps := 0
	for _, n := range t.nodes {
		var way []*node // from n up to one that is placed
		for at := n; at != nil && at.state == unplaced && at.messages != nil; at = t.byID[at.parent] {
			at.state = begun
			way = append(way, at)
		}
		if len(way) > 0 {
			if p := t.byID[way[len(way)-1].parent]; p != nil && p.state == begun {
				for _, w := range way {
					w.state = unplaced
					w.parent = ""
				}
				return tidemark.Invalidf("node %.40q is its own parent", n.id)
			}
		}
		for _, w := range slices.Backward(way) {
			if steps += t.place(f, w); steps > treeSteps {
				return tidemark.Invalidf("has more turns than can be followed")
			}
		}
	}
	return nil
}

// place adds one node to the forest, and returns how far it had to walk.
func (t *tree) place(f *forest, n *node) (steps int) {
	from := nowhere
	if p := t.byID[n.parent]; p != nil && p.state == placed {
		from = p.end
	} else if p != nil && n.count != len(n.messages) {
		n.state = unplaced // it continues from something that is missing
		return 0
	}
	before := f.depth(from)
	switch {
	case n.keeps >= 0:
		for ; f.depth(from) > n.keeps; steps++ {
			from = f.all[from].parent
		}
	case before > 0 && n.count == len(n.messages) && n.count >= before:
		from = nowhere // it repeats what its parent has
	case before > 0 && n.count == 0 && len(n.messages) > before && f.repeats(from, parseMessage(n.messages[0])):
		from = nowhere
	}
	for _, raw := range n.messages {
		from = f.add(from, parseMessage(raw))
	}
	n.state, n.end = placed, from
	return steps
}

func parseMessage(raw json.RawMessage) object {
	msg := object{}
	// It is an object: it was taken out of parsed JSON.
	_ = json.Unmarshal(raw, &msg)
	return msg
}

// repeats reports whether msg is the first message on the path to at.
func (f *forest) repeats(at int, msg object) bool {
	one := newForest()
	one.add(nowhere, msg)
	n, known := f.byPath[one.all[0].path]
	return known && f.all[at].root == n
}

// settle places the nodes that have only a count: those on the path to the
// current one are points of the conversation that ends at head.
func (t *tree) settle(f *forest, head int) (lost []string) {
	way := make([]int, f.depth(head)+1)
	for at := head; at != nowhere; at = f.all[at].parent {
		way[f.all[at].depth] = at
	}
	at := t.byID[t.current]
	for _, n := range t.nodes {
		if t.current == "" && n.count == f.depth(head) {
			at = n
		}
	}
	for range t.nodes {
		if at == nil {
			break
		}
		if at.state != placed && at.count > 0 && at.count < len(way) {
			at.state, at.end = placed, way[at.count]
		}
		at = t.byID[at.parent]
	}
	for _, n := range t.nodes {
		if n.state != placed {
			lost = append(lost, fmt.Sprintf("node %.40q of the tree: its messages are in none of the files", n.id))
		}
	}
	return lost
}

// labels returns the labels of the nodes that were placed.
func (t *tree) labels(f *forest) map[string]string {
	var all map[string]string
	for _, n := range t.nodes {
		if n.label != "" && n.state == placed && n.end != nowhere {
			if all == nil {
				all = map[string]string{}
			}
			all[f.id(n.end)] = n.label
		}
	}
	return all
}

// rest returns the fields of the tree that the session keeps.
func (t *tree) rest() object {
	rest := t.fields.Without("version", "session_id", "title", "created_at", "updated_at")
	var homeless []json.RawMessage
	for _, n := range t.nodes {
		if n.state != placed {
			homeless = append(homeless, n.raw)
		}
	}
	if len(homeless) > 0 && rest["unplaced"] == nil {
		rest.Set("unplaced", homeless)
	}
	return rest
}
