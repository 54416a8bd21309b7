package segment

import (
	"bytes"
	"context"
	"math"
	"sort"
)

// A tree finds values by keys, and by their ordinals, which count the keys from
// 0. Its leaves are blocks of front-coded keys with their values, in order:
//
//	kind, ordinal of the first key, then for each: key, length of value, value
//
// Inner nodes name the first key and its ordinal of each child:
//
//	N, level, then for each: key, ordinal, number of the child's block
//
// Children are written before their parents, in order. A reader insists on
// that, so that no forged tree makes it walk in a circle or twice over one block.

// maxLevels bounds the height of a tree; four levels hold more than a segment can.
const maxLevels = 8

// treeWriter writes a tree whose keys come in order.
type treeWriter struct {
	w       *writer
	kind    byte
	leaf    []byte
	first   []byte // key of the leaf
	last    []byte
	keys    int64
	atFirst int64 // ordinal of first
	levels  []*levelWriter
}

// levelWriter is the node under way at one level above the leaves.
type levelWriter struct {
	node, last, first []byte
	atFirst           int64
	children          int   // of the node under way
	only              int64 // the child, while there has been one
	more              bool  // there has been more than one
}

// add appends a key with its value, which fits into a block with it.
func (t *treeWriter) add(key, value []byte) error {
	if len(t.leaf) > 0 && len(t.leaf)+len(key)+len(value)+8 > MaxBlockBytes {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if len(t.leaf) == 0 {
		t.leaf = appendUint(append(t.leaf, t.kind), uint64(t.keys))
		t.first = append(t.first[:0], key...)
		t.atFirst, t.last = t.keys, t.last[:0]
	}
	t.leaf = appendKey(t.leaf, t.last, key)
	t.leaf = appendUint(t.leaf, uint64(len(value)))
	t.leaf = append(t.leaf, value...)
	t.last = append(t.last[:0], key...)
	t.keys++
	return nil
}

func (t *treeWriter) flush() error {
	number, err := t.w.put(t.leaf)
	if err != nil {
		return err
	}
	t.leaf = t.leaf[:0]
	return t.child(0, t.first, t.atFirst, number)
}

// child adds a child to the node under way at a level.
func (t *treeWriter) child(level int, key []byte, ordinal, number int64) error {
	if level == len(t.levels) {
		t.levels = append(t.levels, &levelWriter{only: number})
	} else {
		t.levels[level].more = true
	}
	l := t.levels[level]
	if l.children > 0 && len(l.node)+len(key)+24 > MaxBlockBytes {
		if err := t.node(level); err != nil {
			return err
		}
	}
	if l.children == 0 {
		l.node = append(l.node[:0], nodeBlock, byte(level+1))
		l.first, l.atFirst, l.last = append(l.first[:0], key...), ordinal, l.last[:0]
	}
	l.node = appendKey(l.node, l.last, key)
	l.node = appendUint(l.node, uint64(ordinal))
	l.node = appendUint(l.node, uint64(number))
	l.last = append(l.last[:0], key...)
	l.children++
	return nil
}

func (t *treeWriter) node(level int) error {
	l := t.levels[level]
	number, err := t.w.put(l.node)
	if err != nil {
		return err
	}
	l.children = 0
	return t.child(level+1, l.first, l.atFirst, number)
}

// finish returns the number of the root, 0 for a tree without keys.
func (t *treeWriter) finish() (root int64, err error) {
	if len(t.leaf) > 0 {
		if err := t.flush(); err != nil {
			return 0, err
		}
	}
	for level := 0; level < len(t.levels); level++ {
		if l := t.levels[level]; !l.more {
			return l.only, nil
		}
		if err := t.node(level); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// keyRange is the keys from one on up to another, which is not included; nil is
// no bound. A range of one key has exact set.
type keyRange struct {
	from, below []byte
	exact       bool
}

func oneKey(key []byte) keyRange { return keyRange{from: key, exact: true} }

// prefixed is the range of keys that begin with a prefix.
func prefixed(prefix []byte) keyRange {
	below := bytes.Clone(prefix)
	for n := len(below); n > 0; n-- {
		if below[n-1]++; below[n-1] != 0 {
			return keyRange{from: prefix, below: below[:n]}
		}
	}
	return keyRange{from: prefix}
}

func (k keyRange) has(key []byte) bool {
	if k.exact {
		return bytes.Equal(key, k.from)
	}
	return bytes.Compare(key, k.from) >= 0 && !k.before(key)
}

// before reports whether all of the range comes before key.
func (k keyRange) before(key []byte) bool {
	if k.exact {
		return bytes.Compare(k.from, key) < 0
	}
	return k.below != nil && bytes.Compare(k.below, key) <= 0
}

// child is what an inner node says about one block below it.
type child struct {
	key     []byte
	ordinal int64
	block   int64
}

// parseNode returns the children of an inner node.
func parseNode(number int64, block []byte, level int) ([]child, error) {
	s := scan{rest: block}
	if s.byte() != nodeBlock || int(s.byte()) != level {
		return nil, corrupt(number, "no node of level %d", level)
	}
	var children []child
	var last []byte
	for !s.done() {
		last = s.key(last)
		c := child{bytes.Clone(last), s.upTo(math.MaxInt64), s.upTo(uint64(number - 1))}
		if n := len(children); n > 0 && (bytes.Compare(children[n-1].key, c.key) >= 0 || children[n-1].ordinal >= c.ordinal || children[n-1].block >= c.block) {
			s.fail()
		}
		children = append(children, c)
	}
	if s.bad || len(children) == 0 {
		return nil, corrupt(number, "a node that cannot be read")
	}
	return children, nil
}

// covering returns which of the children may have keys of a range.
func (k keyRange) covering(children []child) []child {
	from := max(sort.Search(len(children), func(i int) bool { return bytes.Compare(children[i].key, k.from) > 0 })-1, 0)
	to := from + 1
	for to < len(children) && !k.before(children[to].key) {
		to++
	}
	return children[from:to]
}

// leaves returns, for each of the ranges, the leaves of a tree that may have keys
// of it, in order.
func (r *Reader) leaves(ctx context.Context, root int64, kind byte, ranges []keyRange) ([][]int64, error) {
	return r.descend(ctx, root, kind, len(ranges), func(i int, c []child) []child { return ranges[i].covering(c) })
}

// leavesOf returns, for each of some ordinals, the leaf with the key of it.
func (r *Reader) leavesOf(ctx context.Context, root int64, kind byte, ordinals []int64) ([][]int64, error) {
	return r.descend(ctx, root, kind, len(ordinals), func(i int, c []child) []child {
		at := max(sort.Search(len(c), func(j int) bool { return c[j].ordinal > ordinals[i] })-1, 0)
		return c[at : at+1]
	})
}

// descend goes down a tree for n questions at once; pick says which children
// matter for which of them. Each level is one call of fetch at most.
func (r *Reader) descend(ctx context.Context, root int64, kind byte, n int, pick func(int, []child) []child) ([][]int64, error) {
	at := make([][]int64, n)
	if root == 0 || n == 0 {
		return at, nil
	}
	for i := range at {
		at[i] = []int64{root}
	}
	block, err := r.node(ctx, root)
	if err != nil {
		return nil, err
	}
	level := 0
	if len(block) > 1 && block[0] == nodeBlock {
		level = int(block[1])
	}
	if level > maxLevels {
		return nil, corrupt(root, "a tree of %d levels", level)
	}
	for ; level > 0; level-- {
		children, err := r.nodes(ctx, at, level)
		if err != nil {
			return nil, err
		}
		for i := range at {
			var below []int64
			for _, number := range at[i] {
				for _, c := range pick(i, children[number]) {
					if len(below) > 0 && below[len(below)-1] >= c.block {
						return nil, corrupt(number, "its children are not in order")
					}
					below = append(below, c.block)
				}
			}
			at[i] = below
		}
	}
	return at, nil
}

// leaf reads the keys of a leaf, one after the other.
type leaf struct {
	number  int64
	s       scan
	key     []byte // valid until the next
	ordinal int64
	value   []byte
	began   bool
	room    [2][MaxKeyBytes]byte
	turn    int
}

// open begins with a block.
func (l *leaf) open(number int64, block []byte, kind byte) error {
	l.number, l.s, l.began = number, scan{rest: block}, false
	if l.s.byte() != kind {
		return corrupt(number, "no leaf of kind %c", kind)
	}
	l.ordinal = l.s.upTo(math.MaxInt32) - 1
	l.key = nil
	return nil
}

// next goes to the next key: false at the end, or with an error.
func (l *leaf) next() (bool, error) {
	if l.s.done() && !l.s.bad {
		return false, nil
	}
	l.turn ^= 1
	key := l.s.key(append(l.room[l.turn][:0], l.key...))
	l.value = l.s.bytes(int(l.s.upTo(MaxBlockBytes)))
	if l.s.bad || l.began && bytes.Compare(l.key, key) >= 0 {
		return false, corrupt(l.number, "a leaf that cannot be read")
	}
	l.key, l.began = key, true
	l.ordinal++
	return true, nil
}

// leafAhead is how many leaves are asked for at once where all are read.
const leafAhead = 16

// treeScan reads the keys of a range of a tree, in order.
type treeScan struct {
	leaf
	r      *Reader
	kind   byte
	within keyRange
	left   []int64  // leaves that are not read yet
	ahead  [][]byte // those of them that are here
	begun  bool
}

func (r *Reader) scanTree(ctx context.Context, root int64, kind byte, within keyRange) (*treeScan, error) {
	leaves, err := r.leaves(ctx, root, kind, []keyRange{within})
	if err != nil {
		return nil, err
	}
	return &treeScan{r: r, kind: kind, within: within, left: leaves[0]}, nil
}

// next goes to the next key of the range: false at the end, or with an error.
func (t *treeScan) next(ctx context.Context) (bool, error) {
	for {
		if t.begun {
			ok, err := t.leaf.next()
			if err != nil {
				return false, err
			}
			if ok && t.within.before(t.key) {
				return false, nil
			}
			if ok && t.within.has(t.key) {
				return true, nil
			}
			if ok {
				continue
			}
		}
		if len(t.left) == 0 {
			return false, nil
		}
		if len(t.ahead) == 0 {
			var err error
			if t.ahead, err = t.r.blocks(ctx, t.left[:min(leafAhead, len(t.left))]); err != nil {
				return false, err
			}
		}
		if err := t.leaf.open(t.left[0], t.ahead[0], t.kind); err != nil {
			return false, err
		}
		t.left, t.ahead, t.begun = t.left[1:], t.ahead[1:], true
	}
}
