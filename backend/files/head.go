package files

import (
	"bytes"
	"hash/crc32"
	"strconv"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// headBytes is the size of a head's file: one disk sector, written in place with
// one write.
const headBytes = 512

// head is what a log's head file says: how far the log is known to be durable.
// It is written after the sync of the lines it covers and is not synced itself,
// so it may lag behind the log but is never ahead of it.
type head struct {
	tidemark.Head
	end  int64  // where the newest line ends
	file bool   // there is a head file, readable or not
	life string // random, set when the file is made: tells a log from an earlier one of the same name
}

// appendHead writes h, padded to headBytes.
func appendHead(dst []byte, log tidemark.Key, h *head) []byte {
	start := len(dst)
	dst = append(dst, `{"length":`...)
	dst = strconv.AppendInt(dst, h.Length, 10)
	dst = append(dst, `,"end":`...)
	dst = strconv.AppendInt(dst, h.end, 10)
	dst = append(dst, `,"life":`...)
	dst = appendText(dst, h.life)
	if h.Trimmed > 0 {
		dst = append(dst, `,"trimmed":`...)
		dst = strconv.AppendInt(dst, h.Trimmed, 10)
	}
	dst = append(dst, `,"updated_at":`...)
	dst = appendTime(dst, h.UpdatedAt)
	dst = appendPosition(dst, h.Position, h.Chain)
	sum := headSum(log, dst[start:])
	dst = append(dst, `,"sum":"`...)
	dst = appendHex32(dst, sum)
	dst = append(dst, '"', '}')
	for len(dst)-start < headBytes-1 {
		dst = append(dst, ' ')
	}
	return append(dst, '\n')
}

func headSum(log tidemark.Key, b []byte) uint32 {
	room := sumRooms.Get().(*[]byte)
	defer sumRooms.Put(room)
	*room = append(append(append((*room)[:0], log.Kind...), '/'), log.ID...)
	return crc32.Update(crc32.Update(0, castagnoli, *room), castagnoli, b)
}

var sumRooms = sync.Pool{New: func() any { return new([]byte) }}

// parseHead reads what appendHead wrote. Anything else is ignored: a head is
// only a hint, and the log itself tells the same.
func parseHead(b []byte, log tidemark.Key, h *head) bool {
	*h = head{}
	s := scanner{b: b}
	if len(b) != headBytes || !s.literal(`{"length":`) || !s.number(&h.Length) || !s.literal(`,"end":`) || !s.number(&h.end) ||
		!s.literal(`,"life":"`) {
		return false
	}
	life, ok := s.text()
	if ok && s.literal(`,"trimmed":`) {
		ok = s.number(&h.Trimmed)
	}
	if !ok || !s.literal(`,"updated_at":"`) || !s.instant(&h.UpdatedAt) || !s.position(&h.Position, &h.Chain) {
		return false
	}
	h.life = string(life)
	sum, want := uint32(0), headSum(log, b[:s.i])
	if !s.literal(`,"sum":"`) || !s.hex32(&sum) || !s.literal(`"}`) {
		return false
	}
	return sum == want && h.Length >= 1 && h.end >= h.Length-h.Trimmed && string(bytes.TrimLeft(b[s.i:], " ")) == "\n"
}
