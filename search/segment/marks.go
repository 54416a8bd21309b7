package segment

import (
	"context"
	"math/bits"
)

// marks is a set of numbers with a bit for each line: what many short lists
// have together.
type marks struct {
	set   []uint64
	count int
}

func newMarks(lines int64) *marks { return &marks{set: make([]uint64, (lines+63)/64)} }

func (m *marks) add(number uint32) {
	m.set[number/64] |= 1 << (number % 64)
	m.count++
}

func (m *marks) remove(number uint32) {
	m.set[number/64] &^= 1 << (number % 64)
	m.count--
}

func (m *marks) has(number uint32) bool { return m.set[number/64]&(1<<(number%64)) != 0 }

func (m *marks) size() int { return m.count }

func (m *marks) coming() []uint32 { return nil }

// seek implements source.
func (m *marks) seek(_ context.Context, target int64) (int64, error) {
	if target < 0 {
		return -1, nil
	}
	i := int(target / 64)
	word := m.set[i] << (63 - target%64) >> (63 - target%64)
	for word == 0 {
		if i--; i < 0 {
			return -1, nil
		}
		word = m.set[i]
	}
	return int64(i)*64 + int64(bits.Len64(word)) - 1, nil
}
