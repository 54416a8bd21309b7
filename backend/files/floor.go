package files

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// The record of the same key as a log keeps a floor: a number of lines that the
// log is known to have. It is raised whenever the record is written anyway, so
// it costs an append nothing, and it is durable where a head is not. A log that
// is shorter, because it was emptied, removed, rolled back or replaced by
// another log under this name, has lost lines.

// floorUnread stands for a floor that has not been read yet. It is read when
// there is no head to rely on.
const floorUnread = -1

// appendFloor writes a floor with a sum of its own: the record's sum is checked
// by earlier programs, which do not know of floors.
func appendFloor(dst []byte, key tidemark.Key, floor int64) []byte {
	dst = strconv.AppendInt(dst, floor, 10)
	return appendHex32(append(dst, ' '), floorSum(key, floor))
}

// parseFloor reads what appendFloor wrote; a floor below zero is none.
func parseFloor(b []byte, key tidemark.Key) (floor int64) {
	s := scanner{b: b}
	var sum uint32
	if !s.number(&floor) || !s.literal(" ") || !s.hex32(&sum) || !s.done() || floor < 1 || sum != floorSum(key, floor) {
		return -1
	}
	return floor
}

func floorSum(key tidemark.Key, floor int64) uint32 {
	return crc32.Checksum(strconv.AppendInt([]byte(key.String()+" "), floor, 10), castagnoli)
}

// floor returns the floor in the record of the log, 0 when it has none.
func (b *Backend) floor(log tidemark.Key) int64 {
	r, _, err := b.readRecord(log)
	if err != nil {
		return 0
	}
	return r.Head.Length
}

// setFloor writes the current length of the log into the record, if there is
// one.
func (b *Backend) setFloor(log tidemark.Key, floor int64) error {
	r, _, err := b.readRecord(log)
	if err != nil || r.Version == 0 || r.Head.Length == floor {
		return nil // a damaged record has no floor
	}
	r.Head.Length = floor
	return durable.Replace(b.fs, b.tmpName(), recordPath(log), appendRecord(nil, &r))
}

// raised returns the floor that a record gets when it is put, from the one that
// it had. Only lines that are durable count: those that the head covers, and
// those of this very batch.
func (c *commit) raised(key tidemark.Key, floor int64) int64 {
	for _, a := range c.batch.Appends {
		if a.Log == key {
			return a.Lines[len(a.Lines)-1].Seq
		}
	}
	if slices.Contains(c.batch.Drops, key) {
		return 0
	}
	if h, ok := c.b.readHead(key); ok {
		return max(floor, h.Length)
	}
	return max(floor, 0)
}

// atLeast marks a log as having lost lines when it is shorter than its floor. A
// head is created after the sync of the first lines, so where its file exists,
// readable or not, there were lines.
func (st *state) atLeast(log tidemark.Key, floor int64, head bool) {
	if head {
		floor = max(floor, 1)
	}
	if st.lost != nil || st.Length >= floor {
		return
	}
	st.lost = lostTail(log, st.Length, floor)
	st.lost.What = fmt.Sprintf("the log ends at line %d, and at least %d were kept", st.Length, floor)
	st.Length, st.end, st.synced = floor, st.size, st.size
}

// ofAnother reports whether a log without any readable line of its own begins
// with a whole line of another log: a torn line is not whole.
func ofAnother(f durable.File, log tidemark.Key, size int64) bool {
	r := forward{f: f, limit: size}
	row, err := r.next()
	var l line
	return err == nil && row.newline && parseLine(row.bytes, log, &l) == errSum && l.tie == l.tieTo(l.Sum)
}
