package sqlite

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// The lines of a log lie beside each other in table line. A commit of 64 sessions
// therefore writes 64 pages for 64 lines, and these pages are most of its cost. So
// where several sessions commit at once, their lines are first written in the order of
// their arrival: many to a row, in rows of table line under a log number that no log
// has. The mover takes them to their places behind the writers, many lines of a
// session at a time.
//
// A line is in its place, or it has arrived, or both: then they are the same, because
// the mover died in between. Heads are always exact. What changes lines that have
// arrived (a purge, a trim) first moves everything, in the same transaction.
//
// While lines wait, the format of the store has waitingBit, so that a program that
// would not find them refuses the store. This program looks for them whatever the
// format says.

const (
	// arrivals is the number under which rows of arrived lines are kept: behind those
	// of all logs, where adding a row is cheapest.
	arrivals     = maxNumber
	firstArrival = arrivals << seqBits
	arrivalKind  = "arrived"

	waitingBit = 0x80
)

// schemaVersion is the version of the schema of a store.
func schemaVersion(c *conn) (int64, error) {
	have, err := c.number("PRAGMA user_version")
	return have &^ waitingBit, err
}

// arrivedLine is a line that has arrived. Its bytes may be those of the row.
type arrivedLine struct {
	number int64
	tidemark.Line
}

// A row is a salt, frames, and the salt again; a frame is the length of its head, the sum of its head, the
// head, and the texts and bytes of the line.
const (
	saltBytes   = 4
	prefixBytes = 6
)

// appendFrame adds a line to those of a row. The head of a frame has a sum of its
// own, so that a damaged frame does not hide the ones behind it. The sum begins with the salt: the
// body of a line cannot be made to look like a frame, for whoever looks for the next one.
func appendFrame(b []byte, salt uint32, number int64, l *tidemark.Line, batch string) []byte {
	start := len(b)
	b = append(b, make([]byte, prefixBytes)...)
	for _, v := range [...]int64{number, l.Seq, l.At.UnixMicro(), l.Position.Parent, l.Position.Depth, l.Position.Nodes, l.Position.Turn, int64(l.Sum),
		int64(len(l.Kind)), int64(len(l.Key)), int64(len(l.Chain)), int64(len(batch)), int64(len(l.Body))} {
		b = binary.AppendVarint(b, v)
	}
	head := b[start+prefixBytes:]
	binary.LittleEndian.PutUint16(b[start:], uint16(len(head)))
	binary.LittleEndian.PutUint32(b[start+2:], crc32.Update(salt, castagnoli, head))
	b = append(append(b, l.Kind...), l.Key...)
	return append(append(append(b, l.Chain...), batch...), l.Body...)
}

// parseFrame returns the line of a frame and the length of the frame, 0 when no frame
// begins there.
func parseFrame(b []byte, salt uint32) (a arrivedLine, size int) {
	if len(b) < prefixBytes {
		return a, 0
	}
	n := int(binary.LittleEndian.Uint16(b))
	if n == 0 || prefixBytes+n > len(b) || crc32.Update(salt, castagnoli, b[prefixBytes:prefixBytes+n]) != binary.LittleEndian.Uint32(b[2:]) {
		return a, 0
	}
	head, rest := b[prefixBytes:prefixBytes+n], b[prefixBytes+n:]
	var v [13]int64
	for i := range v {
		x, n := binary.Varint(head)
		if n <= 0 {
			return a, 0
		}
		v[i], head = x, head[n:]
	}
	take := func(n int64) (part []byte, ok bool) {
		if n < 0 || n > int64(len(rest)) {
			return nil, false
		}
		part, rest = rest[:n:n], rest[n:]
		return part, true
	}
	var parts [5][]byte
	for i := range parts {
		part, ok := take(v[8+i])
		if !ok {
			return a, 0
		}
		parts[i] = part
	}
	a.number = v[0]
	a.Line = tidemark.Line{Seq: v[1], At: timeOf(v[2]), Position: tidemark.Position{Parent: v[3], Depth: v[4], Nodes: v[5], Turn: v[6]}, Sum: uint32(v[7]),
		Kind: string(parts[0]), Key: string(parts[1]), Chain: parts[2], Batch: string(parts[3]), Body: parts[4]}
	if len(a.Chain) == 0 {
		a.Chain = nil
	}
	if len(a.Body) == 0 {
		a.Body = nil
	}
	return a, len(b) - len(rest)
}

// frames calls use with each line of a row, and reports whether there was nothing
// else in it. Where a frame is damaged, it looks for the next.
func frames(body []byte, use func(arrivedLine)) (whole bool) {
	end := len(body) - saltBytes
	if end < saltBytes {
		return false
	}
	salt, again := binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint32(body[end:])
	whole = framesOf(body[saltBytes:end], salt, use)
	if salt != again {
		framesOf(body[saltBytes:end], again, use) // one of the two finds nothing
		return false
	}
	return whole
}

func framesOf(body []byte, salt uint32, use func(arrivedLine)) (whole bool) {
	whole = true
	for len(body) > 0 {
		a, size := parseFrame(body, salt)
		if size == 0 {
			whole = false
			body = body[1:]
			continue
		}
		use(a)
		body = body[size:]
	}
	return whole
}

const (
	sqlArrived     = `SELECT id, body FROM line WHERE id >= ?1 ORDER BY id`
	sqlAnyArrived  = `SELECT ifnull(max(id), 0) FROM line WHERE id >= ?1`
	sqlRowsArrived = `DELETE FROM line WHERE id BETWEEN ?1 AND ?2`
	orIsThere      = ` ON CONFLICT (id) DO NOTHING`
	sqlMove        = sqlAppend + orIsThere
	sqlIsInPlace   = `SELECT 1 FROM line WHERE id = ?1`
	sqlArrivedSums = `SELECT id, sum, body FROM line WHERE id >= ?1 ORDER BY id`
)

func fromArrivals(s *stmt) { s.setInt(1, firstArrival) }

// lastArrival is the id of the newest row of arrived lines, 0 when there is none.
func lastArrival(c *conn) (id int64, err error) {
	err = c.do(sqlAnyArrived, fromArrivals, func(s *stmt) { id = s.int(0) })
	return id, err
}

// eachArrival calls use with each row of arrived lines; the body is valid during the
// call. An unreadable page ends the scan from one end, and what is behind it is reached
// from the other; the error then comes after them.
func eachArrival(c *conn, use func(id int64, body []byte)) error {
	newest := int64(0)
	err := c.do(sqlArrived, fromArrivals, func(s *stmt) {
		if id := s.int(0); id > newest {
			newest = id
			use(id, s.view(1))
		}
	})
	if !isCorrupt(err) {
		return err
	}
	oldest := int64(-1)
	back := c.do(sqlArrived+` DESC`, fromArrivals, func(s *stmt) {
		if id := s.int(0); id > newest && (oldest < 0 || id < oldest) {
			oldest = id
			use(id, s.view(1))
		}
	})
	if back != nil && !isCorrupt(back) {
		return back
	}
	return err
}

// arrivedOf returns the lines of a log that have arrived, by their seq. Some may be in
// their places, too. Rows that SQLite cannot read are left out: their lines are missing.
func arrivedOf(c *conn, number int64) (map[int64]tidemark.Line, error) {
	found := make(map[int64]tidemark.Line)
	err := eachArrival(c, func(_ int64, body []byte) {
		frames(body, func(a arrivedLine) {
			if a.number == number {
				a.Chain, a.Body = slices.Clone(a.Chain), slices.Clone(a.Body)
				found[a.Seq] = a.Line
			}
		})
	})
	if isCorrupt(err) {
		err = nil
	}
	return found, err
}

// checked returns a line that has arrived as one in its place is returned.
func (sc *scanner) checked(number int64, l tidemark.Line) found {
	if l.Sum != l.Checksum(sc.log) {
		return found{tidemark.Line{Seq: l.Seq}, sc.damage(number<<seqBits|l.Seq, "the line does not match its sum")}
	}
	return found{l, nil}
}

// checkArrived looks for rows of arrived lines that are damaged.
func checkArrived(c *conn, report func(error)) error {
	return c.do(sqlArrivedSums, fromArrivals, func(s *stmt) {
		body := s.view(2)
		if s.int(1) != int64(crc32.Checksum(body, castagnoli)) || !frames(body, func(arrivedLine) {}) {
			report(&tidemark.Damage{Place: fmt.Sprintf("row %d of the lines that have arrived", s.int(0)&maxSeq), What: "the row does not match its sum"})
		}
	})
}

// notInPlace counts the lines of a log that have arrived and are not in their places,
// and returns the newest of all that have arrived.
func notInPlace(c *conn, number int64) (count int64, newest tidemark.Line, err error) {
	arrived, err := arrivedOf(c, number)
	for seq, l := range arrived {
		there := false
		if err == nil {
			err = c.do(sqlIsInPlace, func(s *stmt) { s.setInt(1, number<<seqBits|seq) }, func(*stmt) { there = true })
		}
		if !there {
			count++
		}
		if seq > newest.Seq {
			newest = l
		}
	}
	return count, newest, err
}
