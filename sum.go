package tidemark

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC-32C over the record's kind, id and body. It finds
// damage, not malice: sealed stores have a MAC for that.
func (r Record) Checksum() uint32 {
	c := sumString(0, r.Kind)
	c = sumString(c, r.ID)
	return crc32.Update(c, castagnoli, r.Body)
}

// Checksum is the CRC-32C over the log's key and everything of the line that
// stays as it was written.
func (l Line) Checksum(log Key) uint32 {
	var b [64]byte
	n := b[:0]
	n = binary.LittleEndian.AppendUint64(n, uint64(l.Seq))
	n = binary.LittleEndian.AppendUint64(n, uint64(l.At.UnixMicro()))
	n = binary.LittleEndian.AppendUint64(n, uint64(l.Place.Parent))
	n = binary.LittleEndian.AppendUint64(n, uint64(l.Place.Depth))
	n = binary.LittleEndian.AppendUint64(n, uint64(l.Place.Nodes))
	n = binary.LittleEndian.AppendUint64(n, uint64(l.Place.Turn))
	c := crc32.Update(0, castagnoli, n)
	c = sumString(c, log.Kind)
	c = sumString(c, log.ID)
	c = sumString(c, l.Kind)
	c = sumString(c, l.Key)
	c = sumString(c, string(l.Chain))
	return crc32.Update(c, castagnoli, l.Body)
}

// sumString adds a string with its length in front, so that no two splits of
// the same bytes have the same sum.
func sumString(c uint32, s string) uint32 {
	var b [160]byte
	n := binary.LittleEndian.AppendUint16(b[:0], uint16(len(s)))
	n = append(n, s...)
	return crc32.Update(c, castagnoli, n)
}
