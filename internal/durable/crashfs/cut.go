package crashfs

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
)

// How much of what was not synced a cut keeps.
type How int

const (
	Nothing How = iota
	All
	Some   // any part: single writes, single sectors of them, single names
	Sector // everything up to some write, and that one up to a sector
	Torn   // everything up to some write, and that one up to some byte
)

// sectorBytes is what a disk writes atomically.
const sectorBytes = 512

// Loss says how much of the unsynced data and names a cut keeps.
type Loss struct{ Data, Names How }

// Losses are the combinations that a test runs through.
var Losses = []Loss{
	{Nothing, Nothing}, {All, All}, {Nothing, All}, {All, Nothing},
	{Some, Some}, {Some, All}, {Some, Nothing}, {Sector, All}, {Torn, All}, {Torn, Some}, {Sector, Some},
}

// Copy returns the same state with unsynced changes still pending and without
// locks, as after killing every process. f itself is unchanged.
func (f *FS) Copy() *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &FS{ids: f.ids, clock: f.clock, boots: f.boots}
	seen := map[*node]*node{}
	var dup func(*node) *node
	names := func(m map[string]*node) map[string]*node {
		if m == nil {
			return nil
		}
		d := make(map[string]*node, len(m))
		for k, n := range m {
			d[k] = dup(n)
		}
		return d
	}
	dup = func(n *node) *node {
		if n == nil {
			return nil
		}
		if d := seen[n]; d != nil {
			return d
		}
		d := &node{id: n.id, changed: n.changed, data: n.data, synced: n.synced, writes: slices.Clip(n.writes), failed: n.failed}
		seen[n] = d
		d.names, d.kept = names(n.names), names(n.kept)
		for _, e := range n.pending {
			d.pending = append(d.pending, entry{e.name, dup(e.node)})
		}
		return d
	}
	c.root = dup(f.root)
	return c
}

// Cut returns what is on disk after a power cut now. f itself is unchanged.
func (f *FS) Cut(l Loss, seed uint64) *FS {
	c := f.Copy()
	c.boots++
	r := rand.New(rand.NewPCG(seed, 1))
	seen := map[*node]bool{}
	var cut func(*node)
	cut = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		if n.names == nil {
			n.data = survived(r, n, l.Data)
			n.synced, n.writes, n.failed = n.data, nil, false
			return
		}
		for _, e := range keptNames(r, n.pending, l.Names) {
			if e.node == nil {
				delete(n.kept, e.name)
			} else {
				n.kept[e.name] = e.node
			}
		}
		n.names, n.pending = make(map[string]*node, len(n.kept)), nil
		for _, name := range sorted(n.kept) { // in order: one seed means one state
			n.names[name] = n.kept[name]
			cut(n.kept[name])
		}
	}
	cut(c.root)
	return c
}

func sorted(m map[string]*node) (names []string) {
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func keptNames(r *rand.Rand, pending []entry, how How) (kept []entry) {
	switch how {
	case Nothing:
		return nil
	case All:
		return pending
	}
	for _, e := range pending {
		if r.IntN(2) == 0 {
			kept = append(kept, e)
		}
	}
	return kept
}

func survived(r *rand.Rand, n *node, how How) []byte {
	data := n.synced
	switch how {
	case Nothing:
		return data
	case All:
		return n.data
	case Some:
		for _, w := range n.writes {
			data = somePart(r, w, data)
		}
		return data
	}
	last := r.IntN(len(n.writes) + 1)
	for i, w := range n.writes {
		if i == last {
			if w.data != nil {
				data = firstPart(r, w, how).on(data)
			}
			break
		}
		data = w.on(data)
	}
	return data
}

// somePart keeps single sectors of a write; those between are zeros.
func somePart(r *rand.Rand, w write, data []byte) []byte {
	if w.data == nil {
		if r.IntN(2) == 0 {
			data = w.on(data)
		}
		return data
	}
	for i := int64(0); i < int64(len(w.data)); {
		stop := min((w.at+i)/sectorBytes*sectorBytes+sectorBytes-w.at, int64(len(w.data)))
		if r.IntN(2) == 0 {
			data = write{w.at + i, w.data[i:stop]}.on(data)
		}
		i = stop
	}
	return data
}

func firstPart(r *rand.Rand, w write, how How) write {
	n := int64(r.IntN(len(w.data) + 1))
	if how == Sector {
		n = max((w.at+n)/sectorBytes*sectorBytes-w.at, 0)
	}
	return write{w.at, w.data[:n:n]}
}

// Hash is equal for two states in which every file has the same name and
// content. If part is not nil, it says what of a file counts, so that random
// values do not make two states of one.
func (f *FS) Hash(part func(name string, data []byte) (string, []byte)) uint64 {
	h := fnv.New64a()
	var walk func(string, *node)
	walk = func(name string, n *node) {
		data := n.data
		if part != nil {
			name, data = part(name, data)
		}
		h.Write([]byte(name))
		h.Write([]byte{0})
		h.Write(data)
		h.Write([]byte{1})
		for _, child := range sorted(n.names) {
			walk(name+"/"+child, n.names[child])
		}
	}
	walk(".", f.root)
	return h.Sum64()
}
