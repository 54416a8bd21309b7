package segment

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// vocabulary numbers words as they come. Go's map would cost half of the time
// that it takes to build a segment: here the hash stands beside the number, and
// the bytes of all words are one piece.
type vocabulary struct {
	seed  maphash.Seed
	slots []slot
	bytes []byte
	ends  []uint32 // where each word ends in bytes
	uses  []uint32 // how often each word was added
}

// slot tells enough about a word to compare it without looking anywhere else but
// at its bytes.
type slot struct {
	hash uint32
	word uint32 // number + 1, 0: free
	from uint32
	size uint32
}

func newVocabulary() *vocabulary {
	return &vocabulary{seed: maphash.MakeSeed(), slots: make([]slot, 1<<12)}
}

func (v *vocabulary) reset() {
	clear(v.slots)
	v.bytes, v.ends, v.uses = v.bytes[:0], v.ends[:0], v.uses[:0]
}

// number returns the number of a word, and counts the use.
func (v *vocabulary) number(word []byte) uint32 {
	h := maphash.Bytes(v.seed, word)
	hash, mask := uint32(h), uint32(len(v.slots)-1)
	i := uint32(h>>32) & mask
	for ; v.slots[i].word != 0; i = (i + 1) & mask {
		if s := &v.slots[i]; s.hash == hash && bytes.Equal(v.bytes[s.from:s.from+s.size], word) {
			v.uses[s.word-1]++
			return s.word - 1
		}
	}
	n := uint32(len(v.ends))
	v.slots[i] = slot{hash, n + 1, uint32(len(v.bytes)), uint32(len(word))}
	v.bytes = append(v.bytes, word...)
	v.ends = append(v.ends, uint32(len(v.bytes)))
	v.uses = append(v.uses, 1)
	if len(v.ends) > len(v.slots)/2 {
		v.grow()
	}
	return n
}

func (v *vocabulary) word(n uint32) []byte {
	from := uint32(0)
	if n > 0 {
		from = v.ends[n-1]
	}
	return v.bytes[from:v.ends[n]]
}

func (v *vocabulary) grow() {
	old := v.slots
	v.slots = make([]slot, 2*len(old))
	mask := uint32(len(v.slots) - 1)
	for _, s := range old {
		if s.word == 0 {
			continue
		}
		i := uint32(maphash.Bytes(v.seed, v.word(s.word-1))>>32) & mask
		for v.slots[i].word != 0 {
			i = (i + 1) & mask
		}
		v.slots[i] = s
	}
}

// sorted returns the numbers of the words in the order of the words.
func (v *vocabulary) sorted() []uint32 {
	type head struct {
		first  uint64 // the first eight bytes, which nearly always decide
		number uint32
	}
	heads := make([]head, len(v.ends))
	for n := range heads {
		var first [8]byte
		copy(first[:], v.word(uint32(n)))
		heads[n] = head{binary.BigEndian.Uint64(first[:]), uint32(n)}
	}
	slices.SortFunc(heads, func(a, b head) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		return bytes.Compare(v.word(a.number), v.word(b.number))
	})
	order := make([]uint32, len(heads))
	for i, h := range heads {
		order[i] = h.number
	}
	return order
}

// size is about how many bytes of memory the vocabulary takes.
func (v *vocabulary) size() int { return 16*len(v.slots) + len(v.bytes) + 8*len(v.ends) }
