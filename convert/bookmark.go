package convert

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
)

// Bookmark is where a later reading of a file that only grows goes on, so that it
// costs what was added and not all of the file.
type Bookmark struct {
	Mark
	// After is the ID of the last entry that was yielded before the Mark.
	After string `json:"after"`
	// State is what the converter knows at the Mark.
	State json.RawMessage `json:"state"`
	// Caller is what the caller of the converter wants back.
	Caller json.RawMessage `json:"caller,omitempty"`
}

// Mark is a place in a file: the beginning of a line.
type Mark struct {
	Offset int64 `json:"offset"`
	Lines  int   `json:"lines"` // before it
}

// ErrWhole is the error of entries that go on at a Bookmark when they refer to
// what it does not have any more: the whole file has to be read.
var ErrWhole = errors.New("it takes a reading of the whole file")

// Growth is a unit whose file became longer, and in which nothing else changed but
// what is Beside.
type Growth struct {
	Bookmark
	Known  []byte // the State of the Unit that the Bookmark was left with
	Beside bool   // something Beside changed
}

// Grown decodes the state of the Bookmark of a unit; false if there is none.
func (p Source) Grown(unit string, state any) (g Growth, ok bool) {
	if p.Growth == nil {
		return g, false
	}
	g, ok = p.Growth(unit)
	return g, ok && json.Unmarshal(g.State, state) == nil
}

// Marker makes the Bookmark of a file that is read twice: at the Mark at which the
// first reading ended, whatever was added until the second.
type Marker struct {
	End  Mark // of the first reading
	made *Bookmark
}

// At is called by the second reading before each line, and at its end, with where
// that is, the ID of the last entry that it yielded, and what it knows.
func (m *Marker) At(at Mark, after string, state func() any) {
	if m == nil || m.made != nil || m.End.Offset == 0 || at.Offset < m.End.Offset || after == "" {
		return
	}
	raw, err := json.Marshal(state())
	if err != nil {
		raw = nil
	}
	m.made = &Bookmark{Mark: m.End, After: after, State: raw}
}

// Exactly is At for a reading that knows all at some places only: the first reading
// has to have ended at one of these.
func (m *Marker) Exactly(at Mark, after string, state func() any) {
	if m != nil && at.Offset == m.End.Offset {
		m.At(at, after, state)
	}
}

// Bookmark is that of a Unit.
func (m *Marker) Bookmark() (at Bookmark, ok bool) {
	if m.made == nil || m.made.State == nil {
		return at, false
	}
	return *m.made, true
}

// Memory is a map that a converter fills while it reads a file. A Bookmark has its
// newest pairs, and of the others only that they were there: who asks for one of
// those has Missed something, and needs the whole file. The zero Memory is empty. It
// is small, because a session may have millions of names.
type Memory struct {
	texts  *Interner // names and values
	slots  []uint32  // open addressing: one more than the number of a pair, 0 is free
	pairs  []memoryPair
	kinds  []byte   // of the pairs
	recent []uint32 // the pairs that were set last, in order; one may be there again
	old    []uint32 // sums of keys of which there are no values any more, sorted
	missed bool
}

// memoryPair is a name and its value, by their numbers; the names of different things
// are of different kinds.
type memoryPair struct{ name, value uint32 }

// noValue is the value of a pair that was taken back.
const noValue = math.MaxUint32

// remembered is how many pairs a Bookmark has: tools refer to what they wrote last.
const remembered = 192

// MemoryOf returns an empty Memory that has its names in common with others.
func MemoryOf(texts *Interner) Memory { return Memory{texts: texts} }

// Get returns the value of a name.
func (m *Memory) Get(kind byte, name string) (value string, ok bool) {
	if p := m.pair(kind, name); p != nil {
		return m.texts.Text(p.value), true
	}
	return "", false
}

// Has reports whether a name has a value.
func (m *Memory) Has(kind byte, name string) bool { return m.pair(kind, name) != nil }

// pair returns the pair of a name, nil if it has no value.
func (m *Memory) pair(kind byte, name string) *memoryPair {
	if m.texts != nil {
		if number, ok := m.texts.Find(name); ok {
			if at := m.slots; len(at) > 0 {
				if n := at[m.slot(kind, number)]; n != 0 && m.pairs[n-1].value != noValue {
					return &m.pairs[n-1]
				}
			}
		}
	}
	if len(m.old) > 0 {
		if _, was := slices.BinarySearch(m.old, keySum(kind, []byte(name))); was {
			m.missed = true
		}
	}
	return nil
}

// slot is where a pair is among the slots, or would be.
func (m *Memory) slot(kind byte, name uint32) uint32 {
	mask := uint32(len(m.slots) - 1)
	at := spread(uint64(name)<<8|uint64(kind)) & mask
	for ; m.slots[at] != 0; at = (at + 1) & mask {
		if n := m.slots[at] - 1; m.pairs[n].name == name && m.kinds[n] == kind {
			break
		}
	}
	return at
}

// spread is a hash of a number.
func spread(n uint64) uint32 { return uint32((n * 0x9e3779b97f4a7c15) >> 32) }

// Set gives a name a value.
func (m *Memory) Set(kind byte, name, value string) {
	if m.texts == nil {
		m.texts = new(Interner)
	}
	if 4*len(m.pairs) >= 3*len(m.slots) {
		m.grow()
	}
	number := m.texts.Intern(name)
	at := m.slot(kind, number)
	if m.slots[at] == 0 {
		m.pairs, m.kinds = append(m.pairs, memoryPair{name: number}), append(m.kinds, kind)
		m.slots[at] = uint32(len(m.pairs))
	}
	n := m.slots[at] - 1
	m.pairs[n].value = m.texts.Intern(value)
	if len(m.recent) >= 4*remembered {
		m.recent = slices.Delete(m.recent, 0, 2*remembered)
	}
	m.recent = append(m.recent, n)
}

// grow doubles the slots.
func (m *Memory) grow() {
	m.slots = make([]uint32, max(2*len(m.slots), 16))
	for n, p := range m.pairs {
		m.slots[m.slot(m.kinds[n], p.name)] = uint32(n + 1)
	}
}

// Of is EntryIDs.Of, among the names of a kind.
func (m *Memory) Of(kind byte, own, fallback string) string {
	own = freeID(own, fallback, func(id string) bool { return m.Has(kind, id) })
	m.Set(kind, own, "")
	return own
}

// Forget takes back the newest pair, if it is of a name.
func (m *Memory) Forget(kind byte, name string) {
	p, last := m.pair(kind, name), len(m.recent)-1
	if p != nil && last >= 0 && p == &m.pairs[m.recent[last]] {
		p.value, m.recent = noValue, m.recent[:last]
	}
}

// Clone returns a copy.
func (m *Memory) Clone() *Memory {
	c := &Memory{slots: slices.Clone(m.slots), pairs: slices.Clone(m.pairs), kinds: slices.Clone(m.kinds), recent: slices.Clone(m.recent), old: m.old, missed: m.missed}
	if m.texts != nil {
		c.texts = m.texts.clone()
	}
	return c
}

// Missed reports whether somebody asked for what is not there any more.
func (m *Memory) Missed() bool { return m.missed }

// Len is how many names were set so far.
func (m *Memory) Len() int { return len(m.pairs) }

// sumBits is how much of a hash is kept of a key. Two keys with the same sum cost
// a reading of the whole file, and nothing else.
const sumBits = 28

// keySum is a hash of a name and its kind.
func keySum(kind byte, name []byte) uint32 {
	h := uint64(14695981039346656037) ^ uint64(kind)
	for _, c := range name {
		h = (h * 1099511628211) ^ uint64(c)
	}
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	return uint32(h >> (64 - sumBits))
}

// keptMemory is a Memory in a Bookmark.
type keptMemory struct {
	Kinds string   `json:"kinds,omitempty"` // of the pairs, the newest first
	Pairs []string `json:"pairs,omitempty"` // names and values
	Old   []byte   `json:"old,omitempty"`   // distances between sums
}

// MarshalJSON encodes the Memory as it is now.
func (m Memory) MarshalJSON() ([]byte, error) { return m.Until(len(m.pairs)) }

// Until encodes the Memory as it was when Len was n, but for values that were
// replaced since.
func (m *Memory) Until(n int) (json.RawMessage, error) {
	var k keptMemory
	kept := make(map[uint32]bool, remembered)
	keep := func(i uint32) {
		p := m.pairs[i]
		if len(kept) < remembered && int(i) < n && p.value != noValue && !kept[i] {
			kept[i] = true
			k.Kinds += string(rune(m.kinds[i]))
			k.Pairs = append(k.Pairs, m.texts.Text(p.name), m.texts.Text(p.value))
		}
	}
	for _, i := range slices.Backward(m.recent) {
		keep(i)
	}
	for i := n - 1; i >= 0 && len(kept) < remembered; i-- {
		keep(uint32(i))
	}
	sums := slices.Grow(slices.Clone(m.old), max(n-len(kept), 0))
	var name []byte
	for i, p := range m.pairs[:n] {
		if !kept[uint32(i)] && p.value != noValue {
			name = m.texts.appendText(name[:0], p.name)
			sums = append(sums, keySum(m.kinds[i], name))
		}
	}
	slices.Sort(sums)
	last := uint32(0)
	for _, sum := range slices.Compact(sums) {
		k.Old = binary.AppendUvarint(k.Old, uint64(sum-last))
		last = sum
	}
	return json.Marshal(k)
}

// UnmarshalJSON decodes a Memory of a Bookmark.
func (m *Memory) UnmarshalJSON(b []byte) error {
	var k keptMemory
	if err := json.Unmarshal(b, &k); err != nil {
		return err
	}
	if len(k.Pairs) != 2*len(k.Kinds) {
		return errors.New("names without values")
	}
	*m = Memory{}
	for i, kind := range slices.Backward([]byte(k.Kinds)) {
		m.Set(kind, k.Pairs[2*i], k.Pairs[2*i+1])
	}
	last := uint64(0)
	for len(k.Old) > 0 {
		step, n := binary.Uvarint(k.Old)
		if n <= 0 || last+step >= 1<<sumBits {
			return errors.New("a sum that is none")
		}
		last += step
		m.old, k.Old = append(m.old, uint32(last)), k.Old[n:]
	}
	return nil
}
