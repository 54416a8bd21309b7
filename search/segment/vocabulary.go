package segment

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
)

// vocabulary numbers words as they come. Go's map would cost half of the time
// that it takes to build a segment: here a slot tells all about a short word, and
// the bytes of all words are one piece.
type vocabulary struct {
	seed  maphash.Seed
	salt  [2]uint64 // of the hash of short words
	slots []slot
	bytes []byte
	ends  []uint32 // where each word ends in bytes
}

// slot is a word, so that what is asked for most is found by looking at one place in
// memory.
type slot struct {
	key  [2]uint64 // the bytes of a short word; the hash of a longer one, and where it begins in bytes
	word uint32    // number << 8 | length, 0: free
	uses uint32    // how often it was added
}

// numberBytes are the bytes of a number, below maxWords.
const numberBytes = 3

// shortWord is the length up to which the key of a word is its bytes.
const shortWord = 16

func newVocabulary() *vocabulary {
	v := &vocabulary{seed: maphash.MakeSeed(), slots: make([]slot, 1<<12)}
	v.salt = [2]uint64{maphash.String(v.seed, "a"), maphash.String(v.seed, "b")}
	return v
}

func (v *vocabulary) reset() {
	clear(v.slots)
	v.bytes, v.ends = v.bytes[:0], v.ends[:0]
}

// keyOf returns the key of a word: short words of one length have different ones. Of a
// longer word it is not known where it begins.
func (v *vocabulary) keyOf(word []byte) [2]uint64 {
	switch n := len(word); {
	case n > shortWord:
		return [2]uint64{maphash.Bytes(v.seed, word)}
	case n >= 8: // both ends, which overlap
		return [2]uint64{binary.LittleEndian.Uint64(word), binary.LittleEndian.Uint64(word[n-8:])}
	case n >= 4:
		return [2]uint64{uint64(binary.LittleEndian.Uint32(word)), uint64(binary.LittleEndian.Uint32(word[n-4:]))}
	default:
		return [2]uint64{uint64(word[0]) | uint64(word[n/2])<<8 | uint64(word[n-1])<<16}
	}
}

// slotOf returns where to look first for a word of a key and a length. What people
// write cannot be made to meet in one place: nobody knows the salt.
func (v *vocabulary) slotOf(key [2]uint64, length int) uint32 {
	hash := key[0]
	if length <= shortWord {
		high, low := bits.Mul64(key[0]^v.salt[0], key[1]^v.salt[1]^uint64(length)<<56)
		hash = high ^ low
	}
	return uint32(hash>>32) & uint32(len(v.slots)-1)
}

// number returns the number of a word, and counts the use.
func (v *vocabulary) number(word []byte) uint32 {
	key, mask := v.keyOf(word), uint32(len(v.slots)-1)
	i := v.slotOf(key, len(word))
	for ; v.slots[i].word != 0; i = (i + 1) & mask {
		s := &v.slots[i]
		if s.key[0] != key[0] || s.word&0xff != uint32(len(word)) {
			continue
		}
		if s.key[1] == key[1] && len(word) <= shortWord || len(word) > shortWord && string(v.bytes[s.key[1]:][:len(word)]) == string(word) {
			s.uses++
			return s.word >> 8
		}
	}
	n := uint32(len(v.ends))
	if n >= maxWords {
		return n
	}
	if len(word) > shortWord {
		key[1] = uint64(len(v.bytes))
	}
	v.slots[i] = slot{key, n<<8 | uint32(len(word)), 1}
	v.bytes = append(v.bytes, word...)
	v.ends = append(v.ends, uint32(len(v.bytes)))
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
		i := v.slotOf(s.key, int(s.word&0xff))
		for v.slots[i].word != 0 {
			i = (i + 1) & mask
		}
		v.slots[i] = s
	}
}

// uses returns how often each word was added.
func (v *vocabulary) uses() []uint32 {
	uses := make([]uint32, len(v.ends))
	for _, s := range v.slots {
		if s.word != 0 {
			uses[s.word>>8] = s.uses
		}
	}
	return uses
}

// sorted returns the numbers of the words in the order of the words.
func (v *vocabulary) sorted() []uint32 {
	// The first five bytes and the number are sorted as one: that is several times as
	// fast as comparing words, and leaves few to compare.
	heads := make([]uint64, len(v.ends))
	for n := range heads {
		var first [8]byte
		copy(first[:8-numberBytes], v.word(uint32(n)))
		heads[n] = binary.BigEndian.Uint64(first[:]) | uint64(n)
	}
	slices.Sort(heads)
	order := make([]uint32, len(heads))
	for i, h := range heads {
		order[i] = uint32(h & (maxWords - 1))
	}
	const head = 8 * numberBytes
	for from := 0; from < len(heads); {
		to := from + 1
		for to < len(heads) && heads[to]>>head == heads[from]>>head {
			to++
		}
		if to > from+1 {
			slices.SortFunc(order[from:to], func(a, b uint32) int { return bytes.Compare(v.word(a), v.word(b)) })
		}
		from = to
	}
	return order
}

// size is about how many bytes of memory the vocabulary takes.
func (v *vocabulary) size() int { return 24*len(v.slots) + len(v.bytes) + 4*len(v.ends) }
