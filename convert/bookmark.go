package convert

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
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
// those has Missed something, and needs the whole file. The zero Memory is empty.
type Memory struct {
	pairs  map[memoryKey]string
	order  []memoryKey
	old    []uint32 // sums of keys of which there are no values any more, sorted
	missed bool
}

// memoryKey is a key; the names of different things are of different kinds.
type memoryKey struct {
	kind byte
	name string
}

// remembered is how many pairs a Bookmark has: tools refer to what they wrote last.
const remembered = 192

// Get returns the value of a name.
func (m *Memory) Get(kind byte, name string) (value string, ok bool) {
	k := memoryKey{kind, name}
	if value, ok = m.pairs[k]; !ok && len(m.old) > 0 {
		if _, was := slices.BinarySearch(m.old, k.sum()); was {
			m.missed = true
		}
	}
	return value, ok
}

// Has reports whether a name has a value.
func (m *Memory) Has(kind byte, name string) bool {
	_, ok := m.Get(kind, name)
	return ok
}

// Set gives a name a value.
func (m *Memory) Set(kind byte, name, value string) {
	if m.pairs == nil {
		m.pairs = make(map[memoryKey]string)
	}
	k := memoryKey{kind, name}
	m.pairs[k] = value
	m.order = append(m.order, k)
}

// Of is EntryIDs.Of, among the names of a kind.
func (m *Memory) Of(kind byte, own, fallback string) string {
	own = freeID(own, fallback, func(id string) bool { return m.Has(kind, id) })
	m.Set(kind, own, "")
	return own
}

// Forget takes back the newest pair, if it is of a name.
func (m *Memory) Forget(kind byte, name string) {
	k := memoryKey{kind, name}
	if n := len(m.order); n > 0 && m.order[n-1] == k {
		m.order = m.order[:n-1]
		delete(m.pairs, k)
	}
}

// Clone returns a copy.
func (m *Memory) Clone() *Memory {
	return &Memory{maps.Clone(m.pairs), slices.Clip(slices.Clone(m.order)), m.old, m.missed}
}

// Missed reports whether somebody asked for what is not there any more.
func (m *Memory) Missed() bool { return m.missed }

// Len is how often something was set so far.
func (m *Memory) Len() int { return len(m.order) }

// sumBits is how much of a hash is kept of a key. Two keys with the same sum cost
// a reading of the whole file, and nothing else.
const sumBits = 28

func (k memoryKey) sum() uint32 {
	h := uint64(14695981039346656037) ^ uint64(k.kind)
	for i := range len(k.name) {
		h = (h * 1099511628211) ^ uint64(k.name[i])
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
func (m Memory) MarshalJSON() ([]byte, error) { return m.Until(len(m.order)) }

// Until encodes the Memory as it was when Len was n, but for values that were
// replaced since.
func (m *Memory) Until(n int) (json.RawMessage, error) {
	var k keptMemory
	seen := make(map[memoryKey]bool, n)
	sums := slices.Clone(m.old)
	for _, key := range slices.Backward(m.order[:n]) {
		if seen[key] {
			continue
		}
		if seen[key] = true; len(k.Kinds) < remembered {
			k.Kinds += string(rune(key.kind))
			k.Pairs = append(k.Pairs, key.name, m.pairs[key])
		} else {
			sums = append(sums, key.sum())
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
