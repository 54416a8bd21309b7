package archive

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// An archive is a run of items. Each is a type, a length, that many bytes, and
// a CRC-32C over all of them. Numbers are little-endian.
const (
	recordItem = 'R'
	linesItem  = 'L'
	goneItem   = 'G'
	keptItem   = 'K'

	itemFrameBytes = 1 + 4 + 4 // the type, the length and the sum
)

// A run of lines is cut at so many lines or bytes, so that a reader needs little
// memory. A longer line is a run of its own.
const (
	maxRunLines = 1000
	maxRunBytes = 1 << 20
)

// maxItemBytes is above the largest item: one body and everything around it.
const maxItemBytes = tidemark.MaxBodyBytes + 4<<10

// item is one of the fields below, depending on its type.
type item struct {
	kind   byte
	record tidemark.Record
	was    Mark // with record: what it replaces in the previous archive; zero: nothing
	lines  tidemark.Append
	kept   Kept // with goneItem: what was there
	gone   byte // with goneItem: what of it is gone
}

// What a gone item removes.
const (
	goneRecord = 1 << iota
	goneLog
	goneAnew // the log was begun again: its lines follow
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// never is the time of a record that is not due.
const never = math.MinInt64

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendInt(b []byte, v int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(v)) }

func appendBody(b, body []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(body))), body...)
}

func appendKey(b []byte, k tidemark.Key) []byte { return appendText(appendText(b, k.Kind), k.ID) }

// appendRecordHead writes all of a record except its body.
func appendRecordHead(b []byte, r *tidemark.Record) []byte {
	b = appendKey(b, r.Key)
	b = appendInt(b, r.Version)
	b = appendText(b, r.Group)
	b = appendText(b, r.State)
	due := int64(never)
	if !r.Due.IsZero() {
		due = r.Due.UnixMicro()
	}
	b = appendInt(b, due)
	b = appendInt(b, r.UpdatedAt.UnixMicro())
	b = appendText(b, r.Batch)
	return binary.LittleEndian.AppendUint32(b, r.Sum)
}

func appendLine(b []byte, l *tidemark.Line) []byte {
	for _, v := range [...]int64{l.At.UnixMicro(), l.Position.Parent, l.Position.Depth, l.Position.Nodes, l.Position.Turn} {
		b = appendInt(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, l.Sum)
	b = appendText(b, l.Kind)
	b = appendText(b, l.Key)
	b = appendText(b, l.Batch)
	b = appendText(b, l.Chain)
	return appendBody(b, l.Body)
}

func appendKept(b []byte, k *Kept) []byte {
	b = appendKey(b, k.Key)
	b = append(b, k.Mark[:]...)
	b = appendInt(b, k.Length)
	b = binary.LittleEndian.AppendUint32(b, k.Tail)
	return appendInt(b, k.At.UnixMicro())
}

// appendItem writes an item with its frame.
func appendItem(b []byte, it *item) []byte {
	start := len(b)
	b = append(b, it.kind, 0, 0, 0, 0)
	switch it.kind {
	case recordItem:
		b = append(b, it.was[:]...)
		b = appendRecordHead(b, &it.record)
		b = appendBody(b, it.record.Body)
	case linesItem:
		b = appendKey(b, it.lines.Log)
		b = appendInt(b, it.lines.At.UnixMicro())
		b = appendInt(b, it.lines.Lines[0].Seq)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(it.lines.Lines)))
		for i := range it.lines.Lines {
			b = appendLine(b, &it.lines.Lines[i])
		}
	case goneItem:
		b = append(b, it.gone)
		b = appendKept(b, &it.kept)
	case keptItem:
		b = appendKept(b, &it.kept)
	}
	binary.LittleEndian.PutUint32(b[start+1:], uint32(len(b)-start-5))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// lineBytes is roughly the size of a line in an item.
func lineBytes(l *tidemark.Line) int {
	return 5*8 + 4 + 4*2 + 4 + len(l.Kind) + len(l.Key) + len(l.Batch) + len(l.Chain) + len(l.Body)
}

// size is an upper bound of the item's size with its frame.
func (it *item) size() int {
	const around = 1 << 10 // keys, marks and numbers are well below it
	n := around + len(it.record.Body)
	for i := range it.lines.Lines {
		n += lineBytes(&it.lines.Lines[i])
	}
	return n
}

// parser parses items. It holds the first error, and returns zeros from then on,
// so that its callers check once.
type parser struct {
	b    []byte
	bad  bool
	kind string // the last one, usually the next one too
}

func (p *parser) take(n int) []byte {
	if p.bad || n > len(p.b) || n < 0 {
		p.bad = true
		return nil
	}
	t := p.b[:n:n]
	p.b = p.b[n:]
	return t
}

func (p *parser) uint32() uint32 {
	if t := p.take(4); t != nil {
		return binary.LittleEndian.Uint32(t)
	}
	return 0
}

func (p *parser) int() int64 {
	if t := p.take(8); t != nil {
		return int64(binary.LittleEndian.Uint64(t))
	}
	return 0
}

func (p *parser) time() time.Time { return time.UnixMicro(p.int()).UTC() }

func (p *parser) bytes() []byte {
	t := p.take(2)
	if t == nil {
		return nil
	}
	return p.take(int(binary.LittleEndian.Uint16(t)))
}

func (p *parser) text() string { return string(p.bytes()) }

// word is text that is usually the same as last time.
func (p *parser) word(last string) string {
	if t := p.bytes(); string(t) != last {
		return string(t)
	}
	return last
}

// body shares the memory of what is parsed; an empty one is nil, as a Backend
// returns it.
func (p *parser) body() []byte {
	t := p.take(int(p.uint32()))
	if len(t) == 0 {
		return nil
	}
	return t
}

func (p *parser) key() (k tidemark.Key) {
	p.kind = p.word(p.kind)
	k.Kind = p.kind
	k.ID = p.text()
	return k
}

func (p *parser) mark() (m Mark) {
	copy(m[:], p.take(len(m)))
	return m
}

func (p *parser) record() (r tidemark.Record) {
	r.Key = p.key()
	r.Version = p.int()
	r.Group = p.text()
	r.State = p.text()
	if due := p.int(); due != never {
		r.Due = time.UnixMicro(due).UTC()
	}
	r.UpdatedAt = p.time()
	r.Batch = p.text()
	r.Sum = p.uint32()
	r.Body = p.body()
	return r
}

func (p *parser) lines() (a tidemark.Append) {
	a.Log = p.key()
	a.At = p.time()
	first, n := p.int(), p.uint32()
	if n > maxRunLines || first < 1 || first > math.MaxInt64-maxRunLines {
		p.bad = true
		return a
	}
	a.Lines = make([]tidemark.Line, n)
	var last tidemark.Line
	for i := range a.Lines {
		l := &a.Lines[i]
		l.Seq = first + int64(i)
		l.At = p.time()
		l.Position = tidemark.Position{Parent: p.int(), Depth: p.int(), Nodes: p.int(), Turn: p.int()}
		l.Sum = p.uint32()
		l.Kind = p.word(last.Kind)
		l.Key = p.text()
		l.Batch = p.word(last.Batch)
		if l.Chain = p.bytes(); len(l.Chain) == 0 {
			l.Chain = nil
		}
		l.Body = p.body()
		last = *l
	}
	return a
}

func (p *parser) kept() (k Kept) {
	k.Key = p.key()
	k.Mark = p.mark()
	k.Length = p.int()
	k.Tail = p.uint32()
	k.At = p.time()
	return k
}

// next parses the next item. Its bodies share the parsed memory.
func (p *parser) next(it *item) error {
	all := p.b
	t := p.take(1)
	size := p.uint32()
	if p.bad || int64(size) > int64(len(p.b))-4 {
		return corruptf("an item reaches over the end of its block")
	}
	payload := p.take(int(size))
	if sum := crc32.Checksum(all[:5+size], castagnoli); p.uint32() != sum {
		return corruptf("an item does not match its sum")
	}
	in := parser{b: payload, kind: p.kind}
	*it = item{kind: t[0]}
	switch it.kind {
	case recordItem:
		it.was = in.mark()
		it.record = in.record()
	case linesItem:
		it.lines = in.lines()
	case goneItem:
		if t := in.take(1); t != nil {
			it.gone = t[0]
		}
		it.kept = in.kept()
	case keptItem:
		it.kept = in.kept()
	default:
		return corruptf("an item of the unknown type %q", it.kind)
	}
	p.kind = in.kind
	if in.bad || len(in.b) > 0 {
		return corruptf("an item of type %q is not as long as it says", it.kind)
	}
	return it.check()
}

// check refuses what no Write has written: keys that could name something else,
// sums that do not match, times that no Backend accepts.
func (it *item) check() error {
	var err error
	b := tidemark.Batch{ID: "archive", At: time.Unix(0, 0).UTC(), Adopt: true}
	switch it.kind {
	case recordItem:
		b.Puts = []tidemark.Record{it.record}
		err = b.Check()
	case linesItem:
		b.Appends = []tidemark.Append{it.lines}
		err = b.Check()
	default:
		if err = it.kept.Key.Check(); err == nil && it.kept.Length < 0 {
			err = tidemark.Invalidf("%s: a log of %d lines", it.kept.Key, it.kept.Length)
		}
	}
	if err != nil {
		return corruptf("%v", err)
	}
	return nil
}
