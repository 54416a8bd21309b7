package sqlite

import (
	"context"
	"fmt"
	"iter"
	"os"
	"runtime"

	"github.com/tidemark-sessions/tidemark"
)

// checkFaults bounds what SQLite reports of one file.
const checkFaults = 100

// Check checks the pages and indexes of the file, at every head against its
// lines, at the column touched, and at the modes of the files. It reads everything
// once, in one read transaction.
func (b *Backend) Check(ctx context.Context) iter.Seq[error] {
	return func(yield func(error) bool) {
		var faults []error
		err := b.snapshot(ctx, func(c *conn) error {
			faults = nil
			defer c.interruptOn(ctx)()
			report := func(e error) { faults = append(faults, e) }
			if b.state != nil {
				faults = append(faults, b.state.faults...)
			}
			for _, look := range []func(*conn, func(error)) error{checkPages, checkHeads, checkArrived, checkStray, checkTouched} {
				err := look(c, report)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if isCorrupt(err) {
					report(&tidemark.Damage{Place: b.path, What: err.Error()})
				} else if err != nil {
					return err
				}
			}
			return nil
		})
		faults = append(faults, b.checkModes()...)
		if err != nil {
			faults = append(faults, err)
		}
		for _, e := range faults {
			if !yield(e) {
				return
			}
		}
	}
}

func checkPages(c *conn, report func(error)) error {
	if c.standing {
		return nil // everything that the schema does not know would look like damage
	}
	return c.do(fmt.Sprintf("PRAGMA integrity_check(%d)", checkFaults), nil, func(s *stmt) {
		if text := s.text(0); text != "ok" {
			report(&tidemark.Damage{Place: "the database file", What: text})
		}
	})
}

// checkHeads compares each head with its sum and with its lines: how many there
// are, and the fields of the newest.
func checkHeads(c *conn, report func(error)) error {
	type row struct {
		head
		key tidemark.Key
		sum int64
	}
	for from := int64(-1); ; {
		var rows []row
		err := c.do(`SELECT `+headColumns+`, kind, id FROM log WHERE number > ?1 AND kind <> '' ORDER BY number LIMIT 256`, func(s *stmt) { s.setInt(1, from) }, func(s *stmt) {
			h, sum := scanHead(s)
			rows = append(rows, row{h, tidemark.Key{Kind: s.text(9), ID: s.text(10)}, sum})
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			from = r.number
			what, err := headFault(c, r.head, r.key, r.sum)
			if err != nil {
				return err
			}
			if what != "" {
				report(&tidemark.Damage{Key: r.key, Place: fmt.Sprintf("head of log %d", r.number), What: what})
			}
		}
	}
}

func headFault(c *conn, h head, key tidemark.Key, sum int64) (what string, err error) {
	if sum != h.mark(key) {
		return "the head does not match its sum", nil
	}
	var count, last int64
	err = c.do(`SELECT count(*), ifnull(max(id), 0) FROM line WHERE id BETWEEN ?1 AND ?2`, func(s *stmt) {
		s.setInt(1, h.number<<seqBits)
		s.setInt(2, h.number<<seqBits|maxSeq)
	}, func(s *stmt) { count, last = s.int(0), s.int(1)&maxSeq })
	var newest tidemark.Line // that has arrived
	if err == nil && (count != h.Length-h.Trimmed || last != h.Length) {
		var more int64
		more, newest, err = notInPlace(c, h.number)
		count, last = count+more, max(last, newest.Seq)
	}
	if err != nil || count != h.Length-h.Trimmed || last != h.Length {
		return fmt.Sprintf("the head says %d lines, there are %d, the newest is %d", h.Length-h.Trimmed, count, last), err
	}
	compare := func(l tidemark.Line, damage error) {
		if damage == nil && (l.Position != h.Position || string(l.Chain) != string(h.Chain)) {
			what = "the head is not that of the newest line"
		}
	}
	sc := &scanner{log: key}
	if newest.Seq == last {
		f := sc.checked(h.number, newest)
		compare(f.line, f.err)
		return what, nil
	}
	err = c.do(sqlLine, func(s *stmt) { s.setInt(1, h.number<<seqBits|last) }, func(s *stmt) { compare(sc.line(s)) })
	return what, err
}

// checkStray looks for lines of logs that have no head, one step per log.
func checkStray(c *conn, report func(error)) error {
	for number := int64(-1); ; {
		next, known := int64(-1), false
		err := c.do(`SELECT n.id >> 32, l.number IS NOT NULL FROM line n LEFT JOIN log l ON l.number = n.id >> 32
  WHERE n.id >= ?1 ORDER BY n.id LIMIT 1`, func(s *stmt) { s.setInt(1, (number+1)<<seqBits) },
			func(s *stmt) { next, known = s.int(0), s.int(1) != 0 })
		if err != nil || next <= number {
			return err
		}
		number = next
		if number == arrivals {
			return nil // the last of all
		}
		if !known {
			report(&tidemark.Damage{Place: fmt.Sprintf("log %d", number), What: "there are lines of a log that has no head"})
		}
	}
}

// checkTouched looks for records that a listing would put in a wrong place.
func checkTouched(c *conn, report func(error)) error {
	return c.do(`SELECT r.kind, r.id, r.touched, max(r.updated, ifnull(l.updated, r.updated))
  FROM record r LEFT JOIN log l ON l.kind = r.kind AND l.id = r.id`, nil, func(s *stmt) {
		if stored, t := s.int(2), s.int(3); stored != t && stored != endOfSecond(t) {
			report(&tidemark.Damage{Key: tidemark.Key{Kind: s.text(0), ID: s.text(1)}, Place: "table record", What: "its column touched does not match"})
		}
	})
}

func (b *Backend) checkModes() (faults []error) {
	if runtime.GOOS == "windows" {
		return nil
	}
	for _, p := range []string{b.path, b.path + "-wal", b.path + "-shm", b.path + ".lock", b.path + reserveEnd} {
		if info, err := os.Stat(p); err == nil && info.Mode().Perm()&0o077 != 0 {
			faults = append(faults, &tidemark.Damage{Place: p, What: fmt.Sprintf("others may use the file (mode %04o, want 0600)", info.Mode().Perm())})
		}
	}
	return faults
}
