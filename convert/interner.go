package convert

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// Interner numbers texts from 0 on, each once. It is for the ids of a transcript
// of millions of records: a UUID takes some 30 bytes in it, and nothing in it has to be
// looked at when garbage is collected. The zero Interner is empty.
type Interner struct {
	seed   maphash.Seed
	slots  []uint32 // open addressing: one more than the number of a text, 0 is free
	where  []uint32 // of each text, its block and where in that it begins
	blocks [][]byte
	packed []byte // of the text that was asked for last
}

const (
	internBits  = 16 // of the place in a block; the rest is the number of the block
	internBlock = 1 << internBits
	uuidBytes   = 16
)

// Len is how many texts there are.
func (n *Interner) Len() int { return len(n.where) }

// Intern returns the number of a text, which it gets if it has none.
func (n *Interner) Intern(text string) uint32 {
	slot, have, ok := n.find(text)
	if ok {
		return have
	}
	if len(n.where)*4 >= len(n.slots)*3 {
		n.grow()
		slot, _, _ = n.find(text)
	}
	last := len(n.blocks) - 1
	switch {
	case last < 0:
		n.blocks, last = make([][]byte, 1), 0 // most sessions are short: it grows
	case len(n.blocks[last])+len(n.packed) > internBlock:
		n.blocks, last = append(n.blocks, make([]byte, 0, max(internBlock, len(n.packed)))), last+1
	}
	n.where = append(n.where, uint32(last<<internBits|len(n.blocks[last])))
	n.blocks[last] = append(n.blocks[last], n.packed...)
	n.slots[slot] = uint32(len(n.where))
	return uint32(len(n.where) - 1)
}

// Find returns the number of a text that has one.
func (n *Interner) Find(text string) (number uint32, ok bool) {
	_, number, ok = n.find(text)
	return number, ok
}

// find returns where a text is among the slots, or where it would be.
func (n *Interner) find(text string) (slot, number uint32, ok bool) {
	n.packed = appendPacked(n.packed[:0], text)
	if len(n.slots) == 0 {
		return 0, 0, false
	}
	mask := uint32(len(n.slots) - 1)
	for slot = n.hash(n.packed) & mask; n.slots[slot] != 0; slot = (slot + 1) & mask {
		if number = n.slots[slot] - 1; string(n.at(number)) == string(n.packed) {
			return slot, number, true
		}
	}
	return slot, 0, false
}

func (n *Interner) hash(packed []byte) uint32 { return uint32(maphash.Bytes(n.seed, packed)) }

// grow doubles the slots.
func (n *Interner) grow() {
	if len(n.slots) == 0 {
		n.seed = maphash.MakeSeed()
	}
	n.slots = make([]uint32, max(2*len(n.slots), 64))
	mask := uint32(len(n.slots) - 1)
	for number := range n.where {
		slot := n.hash(n.at(uint32(number))) & mask
		for n.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		n.slots[slot] = uint32(number + 1)
	}
}

// at is a text as it is packed.
func (n *Interner) at(number uint32) []byte {
	where := n.where[number]
	from := n.blocks[where>>internBits][where&(internBlock-1):]
	if from[0] == 0 {
		return from[:1+uuidBytes]
	}
	size, head := binary.Uvarint(from)
	return from[:head+int(size)-1]
}

// Text returns the text of a number.
func (n *Interner) Text(number uint32) string { return string(n.appendText(nil, number)) }

func (n *Interner) appendText(to []byte, number uint32) []byte {
	packed := n.at(number)
	if packed[0] == 0 {
		return appendUUID(to, packed[1:])
	}
	_, head := binary.Uvarint(packed)
	return append(to, packed[head:]...)
}

// clone returns a copy.
func (n *Interner) clone() *Interner {
	c := &Interner{seed: n.seed, slots: slices.Clone(n.slots), where: slices.Clone(n.where)}
	for _, b := range n.blocks {
		c.blocks = append(c.blocks, slices.Clone(b))
	}
	return c
}

// appendPacked adds a text as it is kept: a UUID as a zero and its bytes, another one
// after one more than its length.
func appendPacked(to []byte, text string) []byte {
	if packed, ok := appendUUIDBytes(append(to, 0), text); ok {
		return packed
	}
	return append(binary.AppendUvarint(to, uint64(len(text))+1), text...)
}

// isDash reports whether a UUID has a dash at a place of its text.
func isDash(i int) bool { return i == 8 || i == 13 || i == 18 || i == 23 }

// appendUUIDBytes adds the bytes of a UUID in small letters, as all tools write it; ok
// is false for any other text.
func appendUUIDBytes(to []byte, text string) (_ []byte, ok bool) {
	if len(text) != 2*uuidBytes+4 {
		return nil, false
	}
	high, half := byte(0), false
	for i := range len(text) {
		c := text[i]
		switch {
		case isDash(i):
			if c != '-' {
				return nil, false
			}
			continue
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return nil, false
		}
		if half {
			to = append(to, high<<4|c)
		}
		high, half = c, !half
	}
	return to, true
}

func appendUUID(to, uuid []byte) []byte {
	const digits = "0123456789abcdef"
	for i, b := range uuid {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			to = append(to, '-')
		}
		to = append(to, digits[b>>4], digits[b&15])
	}
	return to
}
