package segment

import "encoding/binary"

// scan reads the bytes of a block. After the first thing that does not fit it
// is bad, and everything further is zero; so that a caller may look once, at
// the end, before it believes what it read.
type scan struct {
	rest []byte
	bad  bool
}

func (s *scan) fail() {
	s.bad, s.rest = true, nil
}

func (s *scan) done() bool { return len(s.rest) == 0 }

func (s *scan) uint() uint64 {
	if len(s.rest) > 0 && s.rest[0] < 0x80 {
		v := s.rest[0]
		s.rest = s.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(s.rest)
	if n <= 0 {
		s.fail()
		return 0
	}
	s.rest = s.rest[n:]
	return v
}

// upTo reads a number that is at most limit.
func (s *scan) upTo(limit uint64) int64 {
	v := s.uint()
	if v > limit {
		s.fail()
		return 0
	}
	return int64(v)
}

func (s *scan) int() int64 {
	v := s.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (s *scan) byte() byte {
	if len(s.rest) == 0 {
		s.fail()
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

func (s *scan) bytes(n int) []byte {
	if n > len(s.rest) {
		s.fail()
		return nil
	}
	b := s.rest[:n]
	s.rest = s.rest[n:]
	return b
}

func appendUint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

func appendInt(b []byte, v int64) []byte { return appendUint(b, uint64(v<<1)^uint64(v>>63)) }

// front-coded keys: how many bytes a key shares with the one before, and what
// follows them.

func appendKey(b, last, key []byte) []byte {
	n := 0
	for n < len(last) && n < len(key) && last[n] == key[n] {
		n++
	}
	b = appendUint(b, uint64(n))
	b = appendUint(b, uint64(len(key)-n))
	return append(b, key[n:]...)
}

// key reads a front-coded key over the one before, in its place.
func (s *scan) key(last []byte) []byte {
	shared := int(s.upTo(uint64(len(last))))
	more := int(s.upTo(MaxKeyBytes))
	if shared+more > MaxKeyBytes {
		s.fail()
	}
	return append(last[:shared], s.bytes(more)...)
}
