package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Lines reads a log without a lock. Lines that were never acknowledged are not
// seen; a line that was acknowledged and cannot be read is a *tidemark.Damage
// with the file and the number of its row.
func (b *Backend) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if len(spans) == 0 {
		spans = []tidemark.Span{{}}
	}
	return func(yield func(tidemark.Line, error) bool) {
		w := walk{ctx: ctx, b: b, log: log, yield: yield}
		defer w.close()
		for i, span := range spans {
			if err := b.use(ctx); err != nil {
				yield(tidemark.Line{}, err)
				return
			}
			if !nameable(log) {
				return
			}
			if err := w.span(i, span); err != nil {
				yield(tidemark.Line{}, b.readError(log, err))
				return
			}
			if w.stopped {
				return
			}
		}
	}
}

// readError adds to a failed read what it was about.
func (b *Backend) readError(key tidemark.Key, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tidemark.ErrCorrupt) || errors.Is(err, tidemark.ErrStorage) {
		return err
	}
	if b.closed.Load() {
		return errClosed
	}
	if errors.Is(err, fs.ErrPermission) {
		return denied(fmt.Errorf("%s: %w", key, err))
	}
	return tidemark.Storagef("%s: %w", key, err)
}

// walk is one pass over spans of a log, as it was at the first of them.
type walk struct {
	ctx     context.Context
	b       *Backend
	log     tidemark.Key
	opened  bool
	f       durable.File // nil when there is none
	st      state
	yield   func(tidemark.Line, error) bool
	stopped bool
	bad     []row // rows that are no lines, since the last line
	number  rowNumber
}

// open opens the log, and finds out how long it is.
func (w *walk) open() error {
	w.opened = true
	st, before, ok := w.b.recallLog(w.log)
	if ok {
		f, err := w.b.fs.OpenFile(logPath(w.log), os.O_RDONLY)
		if err == nil {
			if info, err := f.Stat(); err == nil && info.ID == st.id && info.Size >= st.size {
				w.f, w.number.f, w.st = f, f, st
				return nil
			}
			f.Close()
		}
	}
	for {
		h, known := w.b.readHead(w.log)
		f, err := w.b.fs.OpenFile(logPath(w.log), os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			w.st, err = w.b.look(w.log)
			return err
		}
		if err != nil {
			return err
		}
		w.f, w.number.f = f, f
		w.st, err = settle(f, w.log, h, known)
		if err != nil || w.st.lost == nil && known {
			if after, statErr := f.Stat(); err == nil && statErr == nil {
				w.b.rememberLog(w.log, before, after, &w.st)
			}
			return err
		}
		id := w.st.id
		w.st, err = w.b.look(w.log) // a log that was dropped meanwhile is no damage
		now, gone := w.b.fs.Stat(logPath(w.log))
		if err != nil || gone != nil || id == 0 || now.ID == id {
			return err
		}
		before = durable.Info{}
		w.close() // another file took its place, for which this state is
		w.f = nil
	}
}

func (w *walk) close() {
	if w.f != nil {
		w.f.Close()
	}
}

func (w *walk) span(index int, span tidemark.Span) error {
	if !w.opened {
		if err := w.open(); err != nil {
			return err
		}
	}
	w.bad = nil
	first, last := span.Of(w.st.Length)
	switch {
	case first > last || w.f == nil && w.st.lost == nil:
		return nil
	case first <= w.st.Trimmed:
		return &tidemark.TrimmedError{Log: w.log, Upto: w.st.Trimmed, Span: index, First: first, Last: last}
	case w.f == nil:
		w.missing(first, last, span.Backwards)
		return nil
	case span.Backwards:
		return w.backwards(&w.st, first, last)
	}
	r, err := seek(w.f, w.log, &w.st, first)
	if err != nil {
		return err
	}
	r.chunk = chunkFor(&w.st, last-first+1+closeLines)
	return w.forwards(r, first, last)
}

// chunkFor returns how much to read at once for n lines, by their average size in the
// log.
func chunkFor(st *state, n int64) int {
	mean := st.mean()
	return int(min(max(n*mean, 4<<10), readBytes))
}

// mean is the average size of a line.
func (st *state) mean() int64 { return st.end/max(st.Length-st.Trimmed, 1) + 1 }

// forwards yields first to last in order.
func (w *walk) forwards(r *forward, first, last int64) error {
	var l line
	next := first
	for next <= last && !w.stopped {
		row, err := r.next()
		if err == io.EOF {
			w.missing(next, w.still(last), false)
			return nil
		}
		if err != nil {
			return err
		}
		if parseLine(row.bytes, w.log, &l) == nil {
			if l.Seq == first {
				w.st.places.add(first, row.at)
			}
			next = w.step(&l, next, last)
		} else if parseMark(row.bytes, w.log) == 0 {
			w.bad = append(w.bad, row)
			glued := salvage(row, w.log)
			for i := range glued {
				next = w.step(&glued[i].line, next, last)
			}
		}
		if next&1023 == 0 {
			if err := w.ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// step yields l when its turn has come, preceded by the damage for missing
// lines, and returns the seq that comes next. Lines before next were not
// requested, or were already yielded.
func (w *walk) step(l *line, next, last int64) int64 {
	if l.Seq < next || next > last || w.stopped {
		if l.Seq < next {
			w.bad = w.bad[:0]
		}
		return next
	}
	if l.Seq > next {
		w.missing(next, min(l.Seq-1, last), false)
	}
	w.bad = w.bad[:0]
	if l.Seq <= last && !w.stopped {
		w.stopped = !w.yield(l.Line, nil)
	}
	return l.Seq + 1
}

// backwards yields last to first.
func (w *walk) backwards(st *state, first, last int64) error {
	end := st.end
	if last < st.Length {
		var err error
		if end, err = w.endOf(st, last); err != nil {
			return err
		}
	}
	r := newBackward(w.f, end)
	r.chunk = chunkFor(st, (last-first+1)*9/8)
	next := last
	oldest := lineStart{}
	defer func() { st.places.add(oldest.seq, oldest.at) }()
	var one [1]found
	for next >= first && !w.stopped {
		got, err := r.prev()
		if err == io.EOF {
			w.missing(first, next, true)
			return nil
		}
		if err != nil {
			return err
		}
		lines := one[:]
		if parseLine(got.bytes, w.log, &one[0].line) != nil {
			if parseMark(got.bytes, w.log) != 0 {
				continue
			}
			w.bad = append([]row{got}, w.bad...)
			lines = salvage(got, w.log)
		} else if one[0].Seq == next {
			oldest = lineStart{next, got.at}
		}
		for i := len(lines) - 1; i >= 0 && next >= first && !w.stopped; i-- {
			next = w.stepBack(&lines[i].line, next, first)
		}
		if err := w.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) stepBack(l *line, next, first int64) int64 {
	if l.Seq > next {
		w.bad = nil
		return next
	}
	if l.Seq < next {
		w.missing(max(l.Seq+1, first), next, true)
	}
	w.bad = nil
	if l.Seq >= first && !w.stopped {
		w.stopped = !w.yield(l.Line, nil)
	}
	return l.Seq - 1
}

// endOf returns where the line after seq begins.
func (w *walk) endOf(st *state, seq int64) (int64, error) {
	if _, after := st.places.around(seq); after.seq == seq+1 {
		return after.at, nil
	}
	r, err := seek(w.f, w.log, st, seq)
	if err != nil {
		return 0, err
	}
	var l line
	for {
		row, err := r.next()
		if err == io.EOF {
			return st.end, nil
		}
		if err != nil {
			return 0, err
		}
		if parseLine(row.bytes, w.log, &l) == nil && l.Seq > seq {
			return row.at, nil
		}
		for _, g := range salvage(row, w.log) {
			if g.Seq > seq {
				return row.stop, nil // the row also holds earlier lines
			}
		}
	}
}

// still returns the last seq that the log has now, at most last: a log may be
// dropped while it is read.
func (w *walk) still(last int64) int64 {
	st, err := w.b.look(w.log)
	if err != nil {
		return last
	}
	return min(last, st.Length)
}

// missing yields a Damage for each seq from first to last. When as many rows are
// unreadable, each seq is matched to its row.
func (w *walk) missing(first, last int64, backwards bool) {
	rows := w.bad
	for i := int64(0); first+i <= last && !w.stopped; i++ {
		seq := first + i
		if backwards {
			seq = last - i
		}
		d := &tidemark.Damage{Key: w.log, Seq: seq, Place: logPath(w.log), What: "the line is missing"}
		if len(rows) > 0 {
			r := rows[0]
			if int64(len(rows)) == last-first+1 {
				r = rows[seq-first]
			}
			d.Place = fmt.Sprintf("%s:%d", logPath(w.log), w.number.of(r.at))
			d.What = whatIsWrong(r, w.log)
		}
		w.stopped = !w.yield(tidemark.Line{Seq: seq}, d)
	}
}

// rowNumber counts rows of a file. Only damage needs the number of its row, so
// it is counted on demand, starting from the last result.
type rowNumber struct {
	f      durable.File
	at     int64
	number int64
}

func (n *rowNumber) of(at int64) int64 {
	if at < n.at || n.number == 0 {
		n.at, n.number = 0, 1
	}
	buf := make([]byte, readBytes)
	for n.at < at {
		m, err := n.f.ReadAt(buf[:min(int64(len(buf)), at-n.at)], n.at)
		n.number += int64(bytes.Count(buf[:m], []byte{'\n'}))
		n.at += int64(m)
		if err != nil {
			break
		}
	}
	return n.number
}
