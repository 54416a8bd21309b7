package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// standing is what the writer knows of one key: the record and the head of the
// log as the open transaction sees them.
type standing struct {
	record  bool  // the record has been read
	version int64 // 0: there is none
	updated int64
	touched int64

	log  bool // the head has been read
	head head // number 0: there is none
}

// maxStandings bounds what the writer remembers from one transaction to the
// next.
const maxStandings = 4096

// touchedAt is when the record or its log last changed.
func (s *standing) touchedAt() int64 {
	if s.head.number == 0 {
		return s.updated
	}
	return max(s.updated, s.head.UpdatedAt.UnixMicro())
}

// endOfSecond returns the last microsecond of the second that holds t.
func endOfSecond(t int64) int64 {
	const second = 1_000_000
	return t - (t%second+second)%second + second - 1
}

// nextTouched returns what the column touched becomes when a record was touched
// at t: t itself the first time in a second, and the end of that second from the
// second time on. So a session that is appended to many times a second moves in
// the three indexes at most twice, and most appends write two pages.
func nextTouched(stored, t int64) int64 {
	if stored != t && endOfSecond(stored) == endOfSecond(t) {
		return endOfSecond(t)
	}
	return t
}

// apply checks a batch against the current state and carries it out. The batch
// changed nothing when the error is one of the contract's; any other error
// leaves the transaction in an unknown state.
func (w *writer) apply(b *tidemark.Batch) (tidemark.Receipt, error) {
	if err := w.hidden(b); err != nil {
		return tidemark.Receipt{}, err
	}
	known, err := w.known(b)
	if err != nil {
		return tidemark.Receipt{}, err
	}
	if len(known) > 0 {
		return tidemark.Receipt{Duplicates: known}, fmt.Errorf("%s: key %q: %w", known[0].Log, known[0].Key, tidemark.ErrExists)
	}
	if err := w.stands(b); err != nil {
		return tidemark.Receipt{}, err
	}
	if err := w.write(b); err != nil {
		return tidemark.Receipt{}, &halfDone{err}
	}
	return tidemark.Receipt{}, nil
}

// halfDone is an error that occurred while a batch was being written: the
// transaction holds a part of it and must be rolled back.
type halfDone struct{ err error }

func (e *halfDone) Error() string { return e.err.Error() }
func (e *halfDone) Unwrap() error { return e.err }

func isDamage(err error) bool {
	var damage *tidemark.Damage
	return errors.As(err, &damage)
}

func (w *writer) standing(k tidemark.Key) *standing {
	s := w.standings[k]
	if s == nil {
		s = new(standing)
		w.standings[k] = s
	}
	return s
}

const sqlVersion = `SELECT version, updated, touched FROM record WHERE kind = ?1 AND id = ?2`

func (w *writer) recordOf(k tidemark.Key) (*standing, error) {
	s := w.standing(k)
	if s.record {
		return s, nil
	}
	err := w.c.do(sqlVersion, func(st *stmt) {
		st.setText(1, k.Kind)
		st.setText(2, k.ID)
	}, func(st *stmt) {
		s.version, s.updated, s.touched = st.int(0), st.int(1), st.int(2)
	})
	s.record = err == nil
	return s, err
}

const sqlStanding = `SELECT ` + headColumns + ` FROM log WHERE kind = ?1 AND id = ?2`

func (w *writer) logOf(k tidemark.Key) (*standing, error) {
	s := w.standing(k)
	if s.log {
		return s, nil
	}
	var h head
	var sum int64
	err := w.c.do(sqlStanding, func(st *stmt) {
		st.setText(1, k.Kind)
		st.setText(2, k.ID)
	}, func(st *stmt) { h, sum = scanHead(st) })
	if err == nil {
		err = h.check(k, sum)
	}
	if err == nil {
		s.head, s.log = h, true
	}
	return s, err
}

const sqlKey = `SELECT seq FROM line WHERE log = ?1 AND "key" = ?2`

func (w *writer) known(b *tidemark.Batch) (known []tidemark.Duplicate, err error) {
	for i := range b.Appends {
		a := &b.Appends[i]
		for j := range a.Lines {
			key := a.Lines[j].Key
			if key == "" {
				continue
			}
			s, err := w.logOf(a.Log)
			if err != nil {
				return nil, err
			}
			if s.head.number == 0 {
				break
			}
			seq := w.keyArrived(s.head.number, key)
			err = w.c.do(sqlKey, func(st *stmt) {
				st.setInt(1, s.head.number)
				st.setText(2, key)
			}, func(st *stmt) {
				seq = st.int(0)
			})
			if err != nil {
				return nil, err
			}
			if seq != 0 {
				known = append(known, tidemark.Duplicate{Log: a.Log, Key: key, Seq: seq})
			}
		}
	}
	return known, nil
}

// hidden returns an error when keys that the batch may repeat were trimmed.
func (w *writer) hidden(b *tidemark.Batch) error {
	for i := range b.Appends {
		s, err := w.logOf(b.Appends[i].Log)
		if err == nil && s.head.HidesKeys() {
			err = s.head.Appends(b.Appends[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) stands(b *tidemark.Batch) error {
	for n := range b.Preconditions() {
		s, err := w.recordOf(n.Key)
		if err != nil {
			return err
		}
		if s.version != n.Version {
			return tidemark.Conflictf("%s: is at version %d, not %d", n.Key, s.version, n.Version)
		}
	}
	for i := range b.Appends {
		a := &b.Appends[i]
		s, err := w.logOf(a.Log)
		if err != nil {
			return err
		}
		if err := s.head.Appends(*a); err != nil {
			return err
		}
		if a.Lines[len(a.Lines)-1].Seq > maxSeq {
			return fmt.Errorf("%s: more than %d lines: %w", a.Log, maxSeq, tidemark.ErrUnsupported)
		}
	}
	for _, t := range b.Trims {
		s, err := w.logOf(t.Log)
		if err == nil {
			err = s.head.Trims(t)
		}
		if err != nil {
			return err
		}
	}
	for _, a := range b.Fills {
		s, err := w.logOf(a.Log)
		if err == nil {
			err = s.head.Fills(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write carries out a batch whose preconditions hold. Logs come first, because a
// record that is put stores when it or its log was last touched.
func (w *writer) write(b *tidemark.Batch) error {
	for i := range b.Appends {
		if err := w.append(b, &b.Appends[i]); err != nil {
			return err
		}
	}
	for _, t := range b.Trims {
		if err := w.trim(t); err != nil {
			return err
		}
	}
	for i := range b.Fills {
		if err := w.fill(&b.Fills[i]); err != nil {
			return err
		}
	}
	for _, k := range b.Drops {
		if err := w.drop(k); err != nil {
			return err
		}
	}
	for i := range b.Puts {
		if err := w.put(b, &b.Puts[i]); err != nil {
			return err
		}
	}
	for i := range b.Deletes {
		if err := w.delete(b.Deletes[i].Key); err != nil {
			return err
		}
	}
	for i := range b.Appends {
		if err := w.touch(b.Appends[i].Log); err != nil {
			return err
		}
	}
	for _, k := range b.Drops {
		if err := w.touch(k); err != nil {
			return err
		}
	}
	return nil
}

const (
	// rowsAtOnce is how many lines of a long append are inserted by one statement: the
	// place where they go is looked for once.
	rowsAtOnce = 16
	lineValues = 12 // of a row
)

// sqlAppendRows: where a row fails, the whole transaction is undone, so SQLite need not
// keep what undoes the rows before it (OR FAIL).
var sqlAppendRows = `INSERT OR FAIL INTO line (` + lineColumns + `) VALUES ` + strings.Repeat(`(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), `, rowsAtOnce-1) + `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

var sqlMoveRows = sqlAppendRows + orIsThere

const (
	sqlBegin  = `INSERT INTO log (kind, id, length, updated, parent, depth, nodes, turn, sum) VALUES (?1, ?2, 0, 0, 0, 0, 0, 0, 0) RETURNING number`
	sqlAppend = `INSERT INTO line (` + lineColumns + `) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)`
	sqlGrow   = `UPDATE log SET length = ?2, updated = ?3, parent = ?4, depth = ?5, nodes = ?6, turn = ?7, chain = ?8, sum = ?9 WHERE number = ?1`
)

func (w *writer) append(b *tidemark.Batch, a *tidemark.Append) error {
	s := w.standing(a.Log)
	if s.head.number == 0 {
		err := w.c.do(sqlBegin, func(st *stmt) {
			st.setText(1, a.Log.Kind)
			st.setText(2, a.Log.ID)
		}, func(st *stmt) { s.head.number = st.int(0) })
		if err != nil {
			return err
		}
		if s.head.number >= arrivals {
			return tidemark.Storagef("store %s: more than %d logs", w.b.path, arrivals-1)
		}
	}
	if !w.arrive(s.head.number, b, a) {
		if err := w.insertAll(s.head.number, b, a.Lines); err != nil {
			return err
		}
	}
	l := &a.Lines[len(a.Lines)-1]
	s.head.Head = tidemark.Head{Length: l.Seq, UpdatedAt: b.HeadAt(*a), Position: l.Position, Chain: append([]byte(nil), l.Chain...), Trimmed: s.head.Trimmed}
	return w.c.do(sqlGrow, func(st *stmt) {
		st.setInt(1, s.head.number)
		st.setInt(2, l.Seq)
		st.setInt(3, s.head.UpdatedAt.UnixMicro())
		st.setInt(4, l.Position.Parent)
		st.setInt(5, l.Position.Depth)
		st.setInt(6, l.Position.Nodes)
		st.setInt(7, l.Position.Turn)
		st.setChain(8, l.Chain)
		st.setInt(9, s.head.mark(a.Log))
	}, nil)
}

// insertAll inserts the lines of an append.
func (w *writer) insertAll(number int64, b *tidemark.Batch, lines []tidemark.Line) error {
	for len(lines) >= rowsAtOnce {
		err := w.c.do(sqlAppendRows, func(st *stmt) {
			for i := range rowsAtOnce {
				st.setLine(i*lineValues, number, &lines[i], b.StampLine(lines[i]).Batch)
			}
		}, nil)
		if err != nil {
			return err
		}
		lines = lines[rowsAtOnce:]
	}
	for i := range lines {
		if err := w.insert(sqlAppend, number, &lines[i], b.StampLine(lines[i]).Batch); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) insert(sql string, number int64, l *tidemark.Line, batch string) error {
	return w.c.do(sql, func(st *stmt) { st.setLine(0, number, l, batch) }, nil)
}

// setLine binds a line to the parameters that follow the first n.
func (s *stmt) setLine(n int, number int64, l *tidemark.Line, batch string) {
	s.setInt(n+1, number<<seqBits|l.Seq)
	s.setText(n+2, l.Kind)
	s.setTextOrNull(n+3, l.Key)
	s.setInt(n+4, l.At.UnixMicro())
	s.setInt(n+5, l.Position.Parent)
	s.setInt(n+6, l.Position.Depth)
	s.setInt(n+7, l.Position.Nodes)
	s.setInt(n+8, l.Position.Turn)
	s.setChain(n+9, l.Chain)
	s.setText(n+10, batch)
	s.setInt(n+11, int64(l.Sum))
	s.setBytes(n+12, l.Body, isText(l.Body))
}

func (w *writer) trim(t tidemark.Trim) error {
	s := w.standing(t.Log)
	if err := w.settle(s.head.number, false); err != nil {
		return err
	}
	err := w.c.do(`DELETE FROM line WHERE id BETWEEN ?1 AND ?2`, func(st *stmt) {
		st.setInt(1, s.head.number<<seqBits|(s.head.Trimmed+1))
		st.setInt(2, s.head.number<<seqBits|t.Upto)
	}, nil)
	if err != nil {
		return err
	}
	return w.trimmed(t.Log, t.Upto)
}

func (w *writer) fill(a *tidemark.Append) error {
	s := w.standing(a.Log)
	if err := w.settle(s.head.number, false); err != nil {
		return err
	}
	for i := range a.Lines {
		if err := w.insert(sqlAppend, s.head.number, &a.Lines[i], a.Lines[i].Batch); err != nil {
			return err
		}
	}
	return w.trimmed(a.Log, a.Lines[0].Seq-1)
}

// trimmed notes in the head which lines are not there.
func (w *writer) trimmed(log tidemark.Key, upto int64) error {
	s := w.standing(log)
	s.head.Trimmed = upto
	return w.c.do(`UPDATE log SET sum = ?2 WHERE number = ?1`, func(st *stmt) {
		st.setInt(1, s.head.number)
		st.setInt(2, s.head.mark(log))
	}, nil)
}

func (s *stmt) setChain(i int, chain []byte) {
	if len(chain) == 0 {
		s.setNull(i)
	} else {
		s.setBytes(i, chain, false)
	}
}

func (w *writer) drop(k tidemark.Key) error {
	h, err := readHead(w.c, k)
	if err != nil && !isDamage(err) { // a log with a damaged head can be dropped
		return err
	}
	number := h.number
	if number == 0 {
		return nil
	}
	if err := w.settle(number, true); err != nil {
		return err
	}
	w.purged = true
	s := w.standing(k)
	s.head, s.log = head{}, true
	if w.sparing {
		return w.setAside(number)
	}
	err = w.c.do(`DELETE FROM line WHERE id BETWEEN ?1 AND ?2`, func(st *stmt) {
		st.setInt(1, number<<seqBits)
		st.setInt(2, number<<seqBits|maxSeq)
	}, nil)
	if err != nil {
		return err
	}
	return w.c.do(`DELETE FROM log WHERE number = ?1`, func(st *stmt) { st.setInt(1, number) }, nil)
}

const (
	sqlPutNew = `INSERT INTO record (kind, id, version, "group", state, due, updated, touched, batch, sum, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)`
	sqlPut    = `UPDATE record SET version = ?3, "group" = ?4, state = ?5, due = ?6, updated = ?7, touched = ?8, batch = ?9, sum = ?10, body = ?11 WHERE kind = ?1 AND id = ?2`
)

func (w *writer) put(b *tidemark.Batch, put *tidemark.Record) error {
	r := b.Stamp(*put)
	s, err := w.logOf(r.Key)
	if err != nil && !isDamage(err) { // a session with a damaged log can be moved to the trash
		return err
	}
	sql := sqlPut
	if s.version == 0 {
		sql = sqlPutNew
	}
	s.version, s.updated = r.Version, r.UpdatedAt.UnixMicro()
	s.touched = s.touchedAt()
	return w.c.do(sql, func(st *stmt) {
		st.setText(1, r.Kind)
		st.setText(2, r.ID)
		st.setInt(3, s.version)
		st.setText(4, r.Group)
		st.setText(5, r.State)
		if r.Due.IsZero() {
			st.setNull(6)
		} else {
			st.setInt(6, r.Due.UnixMicro())
		}
		st.setInt(7, s.updated)
		st.setInt(8, s.touched)
		st.setText(9, r.Batch)
		st.setInt(10, int64(r.Sum))
		st.setBytes(11, r.Body, isText(r.Body))
	}, nil)
}

func (w *writer) delete(k tidemark.Key) error {
	s := w.standing(k)
	s.version, s.updated, s.touched = 0, 0, 0
	return w.c.do(`DELETE FROM record WHERE kind = ?1 AND id = ?2`, func(st *stmt) {
		st.setText(1, k.Kind)
		st.setText(2, k.ID)
	}, nil)
}

// touch updates the touched column of the record of a log whose lines changed.
func (w *writer) touch(k tidemark.Key) error {
	s, err := w.recordOf(k)
	if err != nil || s.version == 0 {
		return err
	}
	next := nextTouched(s.touched, s.touchedAt())
	if next == s.touched {
		return nil
	}
	s.touched = next
	return w.c.do(`UPDATE record SET touched = ?3 WHERE kind = ?1 AND id = ?2`, func(st *stmt) {
		st.setText(1, k.Kind)
		st.setText(2, k.ID)
		st.setInt(3, next)
	}, nil)
}
