package tidemark

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumBuffers hold the key that is hashed before a body. The hardware's CRC is
// called through a variable, so a buffer on the stack would escape to the heap
// each time.
var sumBuffers = sync.Pool{New: func() any { return new([512]byte) }}

// Checksum is the CRC-32C over the record's kind, id and body. It finds
// damage, not malice: sealed stores have a MAC for that.
func (r Record) Checksum() uint32 {
	buf := sumBuffers.Get().(*[512]byte)
	defer sumBuffers.Put(buf)
	n := appendSized(buf[:0], r.Kind)
	n = appendSized(n, r.ID)
	return crc32.Update(crc32.Update(0, castagnoli, n), castagnoli, r.Body)
}

// Checksum is the CRC-32C over the log's key and every field of the line that
// never changes after it is written.
func (l Line) Checksum(log Key) uint32 {
	buf := sumBuffers.Get().(*[512]byte)
	defer sumBuffers.Put(buf)
	n := buf[:0]
	for _, v := range [...]int64{l.Seq, l.At.UnixMicro(), l.Position.Parent, l.Position.Depth, l.Position.Nodes, l.Position.Turn} {
		n = binary.LittleEndian.AppendUint64(n, uint64(v))
	}
	n = appendSized(n, log.Kind)
	n = appendSized(n, log.ID)
	n = appendSized(n, l.Kind)
	n = appendSized(n, l.Key)
	n = appendSized(n, l.Chain)
	if len(n)+len(l.Body) <= len(buf) {
		return crc32.Update(0, castagnoli, append(n, l.Body...)) // one call is quicker than two
	}
	return crc32.Update(crc32.Update(0, castagnoli, n), castagnoli, l.Body)
}

// appendSized adds a string with its length in front, so that no two splits of
// the same bytes have the same sum.
func appendSized[T string | []byte](n []byte, s T) []byte {
	n = binary.LittleEndian.AppendUint16(n, uint16(len(s)))
	return append(n, s...)
}
