package segment

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// The list of a word says which lines have it, by their numbers, and where in
// them it stands. It is cut into chunks:
//
//	count, last number − last number before the chunk, bytes of numbers,
//	bytes of places (where the word has them), numbers, places
//
// Numbers are differences to the one before, at least 1; the first number of a
// list is a difference to −1. They are written by appendRice, or, in a chunk of fewer than
// riceFrom lines, as they are. Places are, first, a bit for each line that says
// that it has exactly one; then for each line that place, or else a code and the
// places: 0 not known, 1 none, n+1 for n of them. A place behind another is the
// difference to it.
//
// The value of a word begins with count << 2 | external << 1 | places. A short
// list follows it; one of fewer than riceFrom lines is a single chunk without its
// header. A long list is in rows: how many, the block of the first and where in it
// the row begins, the block of the second where there is one, how many blocks of skips, the first of them
// where there are any. A row is the last number before it + 1, the bytes of its
// chunks, and these. Rows of several words share a block; a second row of a list begins a
// block, and further ones are in the blocks behind that. Skips are the last number of each
// row, as differences. Few of them follow at once, others are in blocks of their own.

const (
	// chunkLines is how many numbers are decoded together.
	chunkLines = 128
	// chunkBytes is where a chunk of long places ends.
	chunkBytes = 700
	// maxInline is the longest list that stands beside its word, so that a block
	// has several words.
	maxInline = 500
	// maxPlaceBytes is the most that the places of a word in one line take; beyond
	// that they are not known. A line with so many has the word nearly everywhere.
	maxPlaceBytes = 1000
	// maxSkips is the most bytes of skips that follow a word at once.
	maxSkips = 256
)

// Words that few lines have keep no places: the lines can be opened instead.
// Which words these are is a share of the segment, so that a word that loses its
// places in the segments of a merge is one that would not keep them
// behind it; at most maxUnplaced lines of a large segment have to be opened for
// a phrase that is nowhere.
const (
	rareShare   = 4096
	maxUnplaced = 256
)

// keepsPlaces reports whether a word of count lines keeps its places in a segment
// of lines.
func keepsPlaces(count, lines int) bool { return count >= min(lines/rareShare, maxUnplaced) }

// placesUnknown is the code of places that are not kept.
const placesUnknown = 0

// listWriter encodes the list of one word after the other.
type listWriter struct {
	w      *writer
	places bool // whether the list under way keeps places

	count, in int   // lines of the list, of the chunk under way
	last      int64 // number added last
	before    int64 // last number before the chunk
	numbers   [chunkLines]uint32
	encoded   []byte // numbers of the chunk that has ended
	single    [chunkLines / 8]byte
	where     []byte // places of the chunk
	chunks    []byte // whole chunks that are in no row yet
	headless  int    // where the header of the first chunk ends
	beforeRow int64  // last number before chunks

	rows     int64
	firstRow int64  // block of the first row
	firstAt  int    // where it begins in it
	restRows int64  // block of the second
	rowEnds  []byte // skips
	lastEnd  int64
}

// begin starts a list.
func (l *listWriter) begin(places bool) {
	l.places = places
	l.count, l.in, l.last, l.before, l.beforeRow = 0, 0, -1, -1, -1
	l.where, l.chunks, l.headless = l.where[:0], l.chunks[:0], 0
	l.rows, l.rowEnds, l.lastEnd = 0, l.rowEnds[:0], -1
	l.single = [chunkLines / 8]byte{}
}

// add appends a number, with its places as encodePlaces has made them.
func (l *listWriter) add(number int64, single bool, where []byte) error {
	if l.in == chunkLines || l.in > 0 && len(l.where)+len(where) > chunkBytes {
		if err := l.chunk(); err != nil {
			return err
		}
	}
	l.numbers[l.in] = uint32(number)
	if l.places {
		if single {
			l.single[l.in>>3] |= 1 << (l.in & 7)
		}
		l.where = append(l.where, where...)
	}
	l.last = number
	l.count++
	l.in++
	return nil
}

// chunk ends the chunk under way, and the row when it is full.
func (l *listWriter) chunk() error {
	if l.in < riceFrom {
		l.encoded = l.encoded[:0]
		for i, last := 0, l.before; i < l.in; i++ {
			l.encoded = appendUint(l.encoded, uint64(int64(l.numbers[i])-last))
			last = int64(l.numbers[i])
		}
	} else {
		l.encoded = appendRice(l.encoded[:0], l.numbers[:l.in], l.before)
	}
	flags := (l.in + 7) / 8
	at := len(l.chunks)
	l.chunks = appendUint(l.chunks, uint64(l.in))
	l.chunks = appendUint(l.chunks, uint64(l.last-l.before))
	l.chunks = appendUint(l.chunks, uint64(len(l.encoded)))
	if l.places {
		l.chunks = appendUint(l.chunks, uint64(flags+len(l.where)))
	}
	header := len(l.chunks) - at
	if at == 0 {
		l.headless = header
	}
	size := header + len(l.encoded)
	l.chunks = append(l.chunks, l.encoded...)
	if l.places {
		size += flags + len(l.where)
		l.chunks = append(l.chunks, l.single[:flags]...)
		l.chunks = append(l.chunks, l.where...)
	}
	before := l.before
	l.in, l.before, l.where, l.single = 0, l.last, l.where[:0], [chunkLines / 8]byte{}
	switch {
	case l.rows == 0 && len(l.chunks) <= maxInline || len(l.chunks) <= l.space():
		return nil
	case l.rows == 0 && at <= maxInline:
		// What may have stood beside its word begins a block.
		return l.w.beginRows()
	}
	// The chunk that does not fit any more begins the next row.
	l.row(l.chunks[:at], before)
	l.chunks = append(l.chunks[:0], l.chunks[len(l.chunks)-size:]...)
	return l.w.beginRows()
}

// rowHead is the most that stands before the chunks of a row.
const rowHead = 8

// space is how many bytes of chunks fit into the block of rows under way.
func (l *listWriter) space() int {
	if l.w.rows == nil {
		return 0
	}
	return MaxBlockBytes - len(l.w.rows) - rowHead
}

// row writes chunks, for which there is space, as a row that ends with a number.
func (l *listWriter) row(chunks []byte, end int64) {
	if l.rows++; l.rows == 1 {
		l.firstRow, l.firstAt = l.w.rowsAt, len(l.w.rows)
	} else if l.rows == 2 {
		l.restRows = l.w.rowsAt
	}
	l.w.rows = appendUint(l.w.rows, uint64(l.beforeRow+1))
	l.w.rows = appendUint(l.w.rows, uint64(len(chunks)))
	l.w.rows = append(l.w.rows, chunks...)
	l.rowEnds = appendUint(l.rowEnds, uint64(end-l.lastEnd))
	l.lastEnd, l.beforeRow = end, end
}

// finish ends the list and appends the value of its word to b.
func (l *listWriter) finish(b []byte) ([]byte, error) {
	if l.in > 0 {
		if err := l.chunk(); err != nil {
			return b, err
		}
	}
	head := uint64(l.count) << 2
	if l.places {
		head |= 1
	}
	if l.rows == 0 && len(l.chunks) <= maxInline {
		chunks := l.chunks
		if l.count < riceFrom {
			chunks = chunks[l.headless:]
		}
		return append(appendUint(b, head), chunks...), nil
	}
	if len(l.chunks) > l.space() {
		if err := l.w.beginRows(); err != nil {
			return b, err
		}
	}
	l.row(l.chunks, l.last)
	b = appendUint(b, head|2)
	b = appendUint(b, uint64(l.rows))
	b = appendUint(b, uint64(l.firstRow))
	b = appendUint(b, uint64(l.firstAt))
	if l.rows > 1 {
		b = appendUint(b, uint64(l.restRows))
	}
	if len(l.rowEnds) <= maxSkips {
		return append(append(b, 0), l.rowEnds...), nil
	}
	// Behind the rows: nothing may wait, or the blocks would not follow each other.
	if err := l.w.endRows(); err != nil {
		return b, err
	}
	b = appendUint(b, uint64((len(l.rowEnds)+MaxBlockBytes-2)/(MaxBlockBytes-1)))
	b = appendUint(b, uint64(l.w.blocks+1))
	for skips := l.rowEnds; len(skips) > 0; {
		n := min(len(skips), MaxBlockBytes-1)
		if _, err := l.w.put(append([]byte{skipBlock}, skips[:n]...)); err != nil {
			return b, err
		}
		skips = skips[n:]
	}
	return b, nil
}

// appendPlaces encodes the places of a word in one line, which ascend.
func appendPlaces(b []byte, places []uint32) (where []byte, single bool) {
	if len(places) == 1 {
		return appendUint(b, uint64(places[0])), true
	}
	n := len(b)
	b = appendUint(b, uint64(len(places))+1)
	last := uint32(0)
	for _, p := range places {
		b = appendUint(b, uint64(p-last))
		if last = p; len(b)-n > maxPlaceBytes {
			return append(b[:n], placesUnknown), false
		}
	}
	return b, false
}

// list is a word of a segment: where its lines are.
type list struct {
	ordinal int64 // of the word
	count   int
	places  bool
	inline  []byte // the chunks, where they stand beside the word
	bare    bool   // a single chunk without its header

	rows       int64 // else: how many rows
	first      int64 // block of the first
	at         int64 // where it begins in it
	rest       int64 // block of the second
	skipBlocks int64
	firstSkip  int64
	skips      []byte // where there are no blocks of them
}

// parseList reads the value of a word.
func (r *Reader) parseList(number int64, value []byte) (list, error) {
	s := scan{rest: value}
	head := s.upTo(uint64(r.lines)<<2 | 3)
	l := list{count: int(head >> 2), places: head&1 != 0}
	if head&2 == 0 {
		l.inline, l.bare = s.rest, l.count < riceFrom
	} else {
		below := uint64(number - 1)
		l.rows, l.first, l.at = s.upTo(below), s.upTo(below), s.upTo(MaxBlockBytes)
		if l.rows > 1 {
			l.rest = s.upTo(below)
		}
		if l.skipBlocks = s.upTo(below); l.skipBlocks > 0 {
			l.firstSkip = s.upTo(below)
		}
		l.skips = s.rest
		if l.rows == 0 || l.first == 0 || l.rows > 1 && (l.rest <= l.first || l.rest+l.rows-1 > number) || l.firstSkip+l.skipBlocks > number {
			s.fail()
		}
	}
	if s.bad || l.count == 0 {
		return list{}, corrupt(number, "a word whose lines cannot be read")
	}
	return l, nil
}

// block returns the block of a row.
func (l *list) block(row int64) int64 {
	if row == 0 {
		return l.first
	}
	return l.rest + row - 1
}

// parseRow returns the last number before a row, and its chunks.
func (l *list) parseRow(row int64, block []byte, lines int64) (before int64, chunks []byte, err error) {
	at := 1
	if row == 0 {
		at = int(l.at)
	}
	s := scan{rest: block}
	kind := s.byte()
	s.bytes(at - 1)
	before = s.upTo(uint64(lines)) - 1
	chunks = s.bytes(int(s.upTo(MaxBlockBytes)))
	if s.bad || kind != rowBlock || at < 1 {
		return 0, nil, corrupt(l.block(row), "no row of a list")
	}
	return before, chunks, nil
}

// chunk is a piece of a list before it is decoded.
type chunk struct {
	before, last int64 // last number before it, last number in it
	count        int
	numbers      []byte
	where        []byte // single bits and places
}

// parseChunks reads the headers of chunks: of the list itself, or of one row.
func (l *list) parseChunks(chunks []chunk, number int64, b []byte, before, lines int64) ([]chunk, error) {
	s := scan{rest: b}
	if l.bare {
		c := chunk{before: before, last: -1, count: l.count}
		c.numbers, c.where = numbersOf(s.rest, l.count)
		if c.numbers == nil || !l.places && len(c.where) > 0 {
			return nil, corrupt(number, "a list that cannot be read")
		}
		return append(chunks, c), nil
	}
	for !s.done() {
		c := chunk{before: before, count: int(s.upTo(chunkLines))}
		c.last = before + s.upTo(uint64(lines-1-before))
		size := int(s.upTo(MaxBlockBytes))
		var where int
		if l.places {
			where = int(s.upTo(MaxBlockBytes))
		}
		c.numbers, c.where = s.bytes(size), s.bytes(where)
		if s.bad || c.count == 0 || c.last <= before {
			return nil, corrupt(number, "a list that cannot be read")
		}
		chunks, before = append(chunks, c), c.last
	}
	if len(chunks) == 0 {
		return nil, corrupt(number, "an empty list")
	}
	return chunks, nil
}

// numbersOf splits a chunk without a header behind its numbers; nil when it has
// less.
func numbersOf(b []byte, count int) (numbers, where []byte) {
	for i, c := range b {
		if c < 0x80 {
			if count--; count == 0 {
				return b[:i+1], b[i+1:]
			}
		}
	}
	return nil, nil
}

// decode returns the numbers of the chunk: false when they do not fit.
func (c *chunk) decode(numbers *[chunkLines]uint32, lines int64) bool {
	if c.count >= riceFrom {
		last, ok := readRice(c.numbers, numbers[:c.count], c.before, lines)
		return ok && last == c.last
	}
	s := scan{rest: c.numbers}
	last := c.before
	for i := range c.count {
		d := s.uint()
		if d == 0 || d > uint64(lines-1-last) {
			return false
		}
		last += int64(d)
		numbers[i] = uint32(last)
	}
	return !s.bad && s.done() && (c.last < 0 || last == c.last)
}

// split finds where the places of each line of the chunk begin: false when they
// do not fit.
func (c *chunk) split(at *[chunkLines + 1]uint16) bool {
	b := c.where
	i := (c.count + 7) / 8
	if len(b) < i {
		return false
	}
	ends := numberEnds()
	for line := range c.count {
		at[line] = uint16(i)
		n := 1
		if !c.single(line) {
			if i == len(b) {
				return false
			}
			code, size := uint64(b[i]), 1
			if code >= 0x80 {
				code, size = binary.Uvarint(b[i:])
			}
			if size <= 0 || code == 2 || code > MaxBlockBytes {
				return false
			}
			i += size
			n = max(int(code), 1) - 1
		}
		for len(b)-i >= 8 {
			// The last byte of each number has no highest bit: those of eight bytes side by side.
			last := ^binary.LittleEndian.Uint64(b[i:]) & 0x8080808080808080 >> 7 * 0x0102040810204080 >> 56
			if n <= 8 && ends[last][n] <= 8 {
				i += int(ends[last][n])
				n = 0
				break
			}
			n -= bits.OnesCount64(last)
			i += 8
		}
		for ; n > 0; i++ {
			if i == len(b) {
				return false
			}
			if b[i] < 0x80 {
				n--
			}
		}
	}
	at[c.count] = uint16(i)
	return i == len(b)
}

// numberEnds says behind how many of eight bytes so many numbers end, by which of the
// bytes are the last of a number: 9 where not so many end there.
var numberEnds = sync.OnceValue(func() *[256][9]uint8 {
	var ends [256][9]uint8
	for last := range ends {
		for n := range ends[last] {
			left, at := n, 0
			for ; left > 0 && at < 8; at++ {
				left -= last >> at & 1
			}
			if ends[last][n] = uint8(at); left > 0 {
				ends[last][n] = 9
			}
		}
	}
	return &ends
})

// single reports whether line i of the chunk has one place.
func (c *chunk) single(i int) bool { return c.where[i>>3]&(1<<(i&7)) != 0 }

// readPlaces decodes the places of one line behind what is in b: known is false
// where the segment does not have them.
func readPlaces(b []uint32, where []byte, single bool) (places []uint32, known bool) {
	if single && len(where) == 1 {
		return append(b, uint32(where[0])), true
	}
	s := scan{rest: where}
	n := uint64(2)
	if !single {
		n = s.uint()
	}
	if s.bad || n == placesUnknown {
		return b, false
	}
	last := uint64(0)
	for range n - 1 {
		last += s.uint()
		if s.bad || bits.Len64(last) > 32 {
			return b, false
		}
		b = append(b, uint32(last))
	}
	return b, true
}
