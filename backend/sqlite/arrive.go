package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
)

// How lines arrive, and how the mover takes them to their places; what they look like
// until then is in arrived.go.

const (
	// leastLogs is how many logs a group has when its lines arrive first. With fewer,
	// the pages that this saves do not pay for the move.
	leastLogs = 4
	// mostLinesAtOnce is how many lines of a log arrive in one append: more of them
	// share a page in their place as well.
	mostLinesAtOnce = 8
	// moveBytes is how much has arrived when the mover begins at once: then a page
	// takes several lines of each of some hundred sessions.
	moveBytes = 1 << 20
	// mostArrived bounds what has arrived. Beyond it lines go to their places, until
	// the mover has caught up.
	mostArrived = 4 << 20
	// moveAfter is how long less than moveBytes waits.
	moveAfter = 250 * time.Millisecond
	// moveLines and moveRows bound one transaction of the mover to some two
	// milliseconds, for which an append may wait.
	moveLines = 512
	moveRows  = 256
	// closeWait is how long closing waits for another process that writes.
	closeWait = time.Second
)

// waiting is what the writer knows of the lines that have arrived.
type waiting struct {
	last   int64 // the id of the newest row, 0 for none
	bytes  int
	broken bool // a row is damaged
	counts map[int64]int
	keys   map[waitingKey]int64 // to the seq
	salt   uint32               // of the frames in buffer
	buffer []byte               // frames that are not in a row yet
	begins []int                // of the frames in buffer
	row    []byte               // room for one
}

type waitingKey struct {
	number int64
	key    string
}

func newWaiting() *waiting {
	return &waiting{counts: make(map[int64]int), keys: make(map[waitingKey]int64)}
}

func (n *waiting) add(number, seq int64, key string) {
	n.counts[number]++
	if key != "" {
		n.keys[waitingKey{number, key}] = seq
	}
}

// loadWaiting reads what has arrived, after somebody else has written or a transaction
// was undone.
func (w *writer) loadWaiting() error {
	n := newWaiting()
	err := eachArrival(w.c, func(id int64, body []byte) {
		n.last = max(n.last, id)
		n.bytes += len(body)
		n.broken = !frames(body, func(a arrivedLine) { n.add(a.number, a.Seq, a.Key) }) || n.broken
	})
	if isCorrupt(err) {
		// What cannot be read is reported to those who read it.
		n.broken, w.stuck, err = true, true, nil
	}
	if err == nil && w.rowBytes == 0 {
		var page int64
		page, err = w.c.number("PRAGMA page_size")
		w.rowBytes = int(page) - 2*saltBytes - 128 // the other columns, and SQLite's own bytes: a row is on one page
	}
	if err != nil {
		return err
	}
	w.waiting = n
	if n.last != 0 {
		w.b.mover.later()
	}
	return nil
}

// mayArrive reports whether the lines of a group are written in the order of their
// arrival.
func (w *writer) mayArrive(group []*pending) bool {
	if w.sparing || w.stuck || w.b.state != nil || w.waiting.bytes > mostArrived {
		return false
	}
	logs := make([]tidemark.Key, 0, leastLogs)
	for _, p := range group {
		for i := range p.batch.Appends {
			if k := p.batch.Appends[i].Log; !slices.Contains(logs, k) {
				logs = append(logs, k)
			}
			if len(logs) >= w.leastLogs {
				return true
			}
		}
	}
	return false
}

// arrive takes the lines of an append, unless they are too many or too large.
func (w *writer) arrive(number int64, b *tidemark.Batch, a *tidemark.Append) bool {
	if !w.arriving || len(a.Lines) > mostLinesAtOnce {
		return false
	}
	const headBytes = 13 * binary.MaxVarintLen64
	for i := range a.Lines {
		l := &a.Lines[i]
		if prefixBytes+headBytes+len(l.Kind)+len(l.Key)+len(l.Chain)+len(b.ID)+len(l.Body) > w.rowBytes {
			return false
		}
	}
	n := w.waiting
	if len(n.buffer) == 0 {
		n.salt = rand.Uint32()
	}
	for i := range a.Lines {
		l := &a.Lines[i]
		n.begins = append(n.begins, len(n.buffer))
		n.buffer = appendFrame(n.buffer, n.salt, number, l, b.StampLine(*l).Batch)
		n.add(number, l.Seq, l.Key)
	}
	return true
}

// flushArrived writes the lines that have arrived in this transaction, as many to a
// row as fit on its page.
func (w *writer) flushArrived() error {
	n := w.waiting
	if len(n.buffer) == 0 {
		return nil
	}
	if n.last == 0 {
		n.last = firstArrival
		if err := w.mark(waitingBit); err != nil {
			return err
		}
	}
	for len(n.begins) > 0 {
		start, end, fits := n.begins[0], 0, 0
		for i := range n.begins {
			next := len(n.buffer)
			if i+1 < len(n.begins) {
				next = n.begins[i+1]
			}
			if i > 0 && next-start > w.rowBytes {
				break
			}
			end, fits = next, i+1
		}
		if err := w.insertArrival(n.buffer[start:end]); err != nil {
			return err
		}
		n.begins = n.begins[fits:]
	}
	n.bytes += len(n.buffer)
	n.buffer, n.begins = n.buffer[:0], n.begins[:0]
	return nil
}

func (w *writer) insertArrival(body []byte) error {
	if w.waiting.last++; w.waiting.last < firstArrival { // rows are numbered anew long before
		return &sqliteError{lib.SQLITE_FULL, "no number is left for lines that arrive"}
	}
	w.waiting.row = salted(w.waiting.row[:0], body, w.waiting.salt)
	body = w.waiting.row
	row := tidemark.Line{Seq: w.waiting.last & maxSeq, Kind: arrivalKind, At: timeOf(0), Body: body, Sum: crc32.Checksum(body, castagnoli)}
	return w.insert(sqlAppend, arrivals, &row, "")
}

func salted(row, frames []byte, salt uint32) []byte {
	row = binary.LittleEndian.AppendUint32(row, salt)
	return binary.LittleEndian.AppendUint32(append(row, frames...), salt)
}

// mark sets the format of the store to its version with or without waitingBit.
func (w *writer) mark(bit int64) error {
	return w.c.run(fmt.Sprintf("PRAGMA user_version=%d", w.version|bit))
}

// keyArrived returns the seq of the line with a key that has arrived, 0 for none.
func (w *writer) keyArrived(number int64, key string) int64 {
	return w.waiting.keys[waitingKey{number, key}]
}

// settle moves everything that has arrived, if lines of the log have: whatever then
// changes them finds them in their places. Rows that are damaged go with it when the
// log is dropped, because they may hold what is to be destroyed.
func (w *writer) settle(number int64, dropped bool) error {
	n := w.waiting
	if n.counts[number] == 0 && !(dropped && n.broken) {
		return nil
	}
	if err := w.flushArrived(); err != nil {
		return err
	}
	m, err := readMove(w.c)
	if err != nil {
		return err
	}
	if err := w.putMoved(m, len(m.order)); err != nil {
		return err
	}
	if dropped {
		m.rows = append(m.rows, m.broken...)
	}
	if err := w.dropArrivals(m.rows); err != nil {
		return err
	}
	return w.afterMove()
}

// move is a move under way: what is left to do of it.
type move struct {
	of     *waiting // it is valid as long as the writer's is the same
	lines  []arrivedLine
	order  []place // of those of lines that are left, sorted
	rows   []int64 // to delete once the lines are in their places
	broken []int64 // rows that stay, because not everything in them can be read
}

// place is where the line at a number of move.lines goes. They are sorted in place of
// the lines, which are fifteen times as large.
type place struct {
	id int64
	at int
}

// readMove reads what has arrived, sorted by log and seq.
func readMove(c *conn) (*move, error) {
	m := new(move)
	err := eachArrival(c, func(id int64, body []byte) {
		body = slices.Clone(body)
		if frames(body, func(a arrivedLine) { m.lines = append(m.lines, a) }) {
			m.rows = append(m.rows, id)
		} else {
			m.broken = append(m.broken, id)
		}
	})
	m.order = make([]place, len(m.lines))
	for i := range m.lines {
		m.order[i] = place{m.lines[i].number<<seqBits | m.lines[i].Seq, i}
	}
	slices.SortFunc(m.order, func(a, b place) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at)) })
	return m, err
}

// putMoved puts the next lines in their places, up to n.
func (w *writer) putMoved(m *move, n int) error {
	for n = min(n, len(m.order)); n > 0; {
		of, sql := m.order[:1], sqlMove
		if n >= rowsAtOnce {
			of, sql = m.order[:rowsAtOnce], sqlMoveRows
		}
		err := w.c.do(sql, func(st *stmt) {
			for i, p := range of {
				l := &m.lines[p.at]
				st.setLine(i*lineValues, l.number, &l.Line, l.Batch)
			}
		}, nil)
		if err != nil {
			return err
		}
		m.order, n = m.order[len(of):], n-len(of)
	}
	return nil
}

// dropArrivals removes rows of arrived lines, those that follow each other at once.
func (w *writer) dropArrivals(rows []int64) error {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n] == rows[n-1]+1 {
			n++
		}
		first, last := rows[0], rows[n-1]
		err := w.c.do(sqlRowsArrived, func(s *stmt) {
			s.setInt(1, first)
			s.setInt(2, last)
		}, nil)
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// afterMove notes what waits after rows of arrived lines were deleted.
func (w *writer) afterMove() error {
	last, err := lastArrival(w.c)
	if err == nil && last == 0 {
		err = w.mark(0)
	}
	if err != nil {
		return err
	}
	return w.loadWaiting()
}

// moveSome does a step of a move, in the transaction that is open, and reports whether
// more are to follow. Every line is in its place before the row that it arrived in goes.
func (w *writer) moveSome() (more bool, err error) {
	m := w.move
	if m == nil || m.of != w.waiting {
		if m, err = readMove(w.c); err != nil {
			return false, err
		}
		m.of, w.move = w.waiting, m
	}
	if len(m.order) > 0 {
		return true, w.putMoved(m, moveLines)
	}
	n := min(len(m.rows), moveRows)
	if err := w.dropArrivals(m.rows[:n]); err != nil {
		return false, err
	}
	if m.rows = m.rows[n:]; len(m.rows) > 0 {
		return true, nil
	}
	w.move = nil
	if n == 0 {
		return false, nil // there was nothing, or what is damaged
	}
	return false, w.afterMove()
}

// moveBeforeClosing leaves no lines waiting, so that every program of this format can
// open the store. Where that fails, the next one to open it does it.
func (w *writer) moveBeforeClosing() {
	if w.c == nil || w.broken != nil || w.stuck || w.waiting != nil && w.waiting.last == 0 {
		return
	}
	if last, err := lastArrival(w.c); err != nil || last == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if w.lock.Acquire(ctx) != nil {
		return
	}
	defer w.lock.Release()
	for more := true; more; {
		err := w.perform(context.Background(), &job{do: func(w *writer) (err error) {
			more, err = w.moveSome()
			return err
		}})
		if err != nil {
			return
		}
	}
}

// mover moves what has arrived behind the writers.
type mover struct {
	b     *Backend
	after time.Duration // how long it waits for more

	mu      sync.Mutex
	timer   *time.Timer // not nil: it runs when that fires
	running bool
	missed  bool // a commit came while it ran
}

// arrived is called after a commit, with how much waits.
func (m *mover) arrived(bytes int) {
	m.mu.Lock()
	m.missed = m.running
	m.mu.Unlock()
	switch {
	case bytes >= moveBytes:
		m.now()
	case bytes > 0:
		m.later()
	}
}

func (m *mover) later() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.running && m.timer == nil {
		m.timer = time.AfterFunc(m.after, m.now)
	}
}

// now has the mover run, unless it does.
func (m *mover) now() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if !m.running {
		m.running = true
		go m.run()
	}
}

// run moves what has arrived, in transactions between those of the writers.
func (m *mover) run() {
	left := 0
	var err error
	for more := true; more && err == nil; {
		err = m.b.runJob(context.Background(), &job{do: func(w *writer) (err error) {
			more, err = w.moveSome()
			if left = 0; !w.stuck && !w.waiting.broken {
				left = w.waiting.bytes
			}
			if isCorrupt(err) || primary(err) == lib.SQLITE_CONSTRAINT {
				w.stuck = true
			}
			return err
		}})
	}
	if err != nil {
		left = min(left, 1) // not at once again
	}
	m.ended(left)
	if err == nil {
		m.b.runJob(context.Background(), &job{alone: true, do: (*writer).writeBack})
	}
}

// ended is called with how much was left after the last step. A commit that came since
// then found the mover running.
func (m *mover) ended(left int) {
	m.mu.Lock()
	if m.running = false; m.missed {
		left = max(left, 1)
	}
	m.mu.Unlock()
	m.arrived(left)
}
