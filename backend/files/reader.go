package files

import (
	"bytes"
	"io"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// maxLineBytes is above the longest line that is ever written: a body in base64
// and its envelope. Anything longer is garbage and is skipped without being held
// in memory.
const maxLineBytes = tidemark.MaxBodyBytes/3*4 + 16<<10

// readBytes is how much of a log is read at once.
const readBytes = 64 << 10

// row is one run of bytes that ends in a newline, or at the end of what is
// read: a line of the file, which need not be a line of the log.
type row struct {
	bytes   []byte // without the newline; nil when it is too long to be a line
	at      int64  // where it begins
	stop    int64  // where the next one begins
	newline bool
}

// forward reads rows one after the other. The bytes of a row stay valid when the
// next one is read.
type forward struct {
	f     durable.File
	buf   []byte // read but not yet returned
	at    int64  // where buf begins
	limit int64  // where reading ends
	chunk int    // how much to read at once, 0: readBytes
}

// next returns the next row, or io.EOF after the last one.
func (r *forward) next() (row, error) {
	searched := 0
	for {
		if i := bytes.IndexByte(r.buf[searched:], '\n'); i >= 0 {
			return r.take(searched+i, 1), nil
		}
		searched = len(r.buf)
		if r.at+int64(len(r.buf)) >= r.limit {
			if len(r.buf) == 0 {
				return row{}, io.EOF
			}
			return r.take(len(r.buf), 0), nil
		}
		if len(r.buf) > maxLineBytes {
			return r.skip()
		}
		if err := r.fill(); err != nil {
			return row{}, err
		}
	}
}

func (r *forward) take(n, newline int) row {
	got := row{bytes: r.buf[:n:n], at: r.at, stop: r.at + int64(n+newline), newline: newline == 1}
	r.buf, r.at = r.buf[n+newline:], got.stop
	return got
}

// fill reads on into a fresh buffer, since rows already returned share the old
// one.
func (r *forward) fill() error {
	chunk := r.chunk
	if chunk == 0 {
		chunk = readBytes
	}
	want := min(max(chunk+len(r.buf), 2*len(r.buf)), int(min(r.limit-r.at, 4*maxLineBytes)))
	buf := make([]byte, want)
	n := copy(buf, r.buf)
	m, err := r.f.ReadAt(buf[n:], r.at+int64(n))
	r.buf = buf[:n+m]
	if err == io.EOF || err == nil && m == 0 {
		r.limit = r.at + int64(n+m) // the file shrank meanwhile
		return nil
	}
	return err
}

// skip skips a row that is too long.
func (r *forward) skip() (row, error) {
	got := row{at: r.at}
	r.at += int64(len(r.buf))
	buf := make([]byte, readBytes)
	for {
		n, err := r.f.ReadAt(buf[:min(int64(len(buf)), r.limit-r.at)], r.at)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			r.at += int64(i + 1)
			r.buf = nil
			got.stop, got.newline = r.at, true
			return got, nil
		}
		r.at += int64(n)
		if err == io.EOF || err == nil && n == 0 || r.at >= r.limit {
			r.buf, r.limit, got.stop = nil, r.at, r.at
			return got, nil
		}
		if err != nil {
			return row{}, err
		}
	}
}

// backward reads rows from the end to the beginning.
type backward struct {
	f     durable.File
	buf   []byte // read, and before end
	at    int64  // where buf begins
	chunk int    // how much to read first, 0: readBytes
	rows  []int  // where the rows in buf begin, except the first
}

// usualRows is how many rows are read at once for what a person is shown.
const usualRows = 64

// newBackward reads the rows before end, which is where a row begins.
func newBackward(f durable.File, end int64) *backward { return &backward{f: f, at: end} }

// prev returns the previous row, or io.EOF before the first one.
func (r *backward) prev() (row, error) {
	for {
		n := len(r.buf)
		if n > 0 {
			i := 0
			if last := len(r.rows) - 1; last >= 0 {
				i, r.rows = r.rows[last], r.rows[:last]
			}
			if i > 0 || r.at == 0 {
				stop, newline := n, r.buf[n-1] == '\n'
				if newline {
					stop--
				}
				got := row{bytes: r.buf[i:stop:stop], at: r.at + int64(i), stop: r.at + int64(n), newline: newline}
				r.buf = r.buf[:i]
				return got, nil
			}
			if n > maxLineBytes {
				return r.skip()
			}
		} else if r.at == 0 {
			return row{}, io.EOF
		}
		if err := r.fill(); err != nil {
			return row{}, err
		}
	}
}

func (r *backward) fill() error {
	chunk := r.chunk
	if r.chunk = 0; chunk == 0 {
		chunk = readBytes // a caller that needs more than the first chunk needs much more
	}
	more := min(int64(max(chunk, len(r.buf))), r.at)
	buf := make([]byte, int(more)+len(r.buf))
	n, err := r.f.ReadAt(buf[:more], r.at-more)
	if int64(n) < more {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	copy(buf[more:], r.buf)
	r.buf, r.at = buf, r.at-more
	r.find(int(more))
	return nil
}

// find looks for the rows that begin in the first n bytes, or right after them.
// It searches forward, because finding a byte is many times faster in that
// direction.
func (r *backward) find(n int) {
	if r.rows = r.rows[:0]; r.rows == nil {
		r.rows = make([]int, 0, usualRows)
	}
	for i := 0; i < n; {
		j := bytes.IndexByte(r.buf[i:n], '\n')
		if j < 0 {
			return
		}
		if i += j + 1; i < len(r.buf) {
			r.rows = append(r.rows, i)
		}
	}
}

func (r *backward) skip() (row, error) {
	got := row{stop: r.at + int64(len(r.buf)), newline: r.buf[len(r.buf)-1] == '\n'}
	for r.at > 0 {
		r.buf = nil
		if err := r.fill(); err != nil {
			return row{}, err
		}
		if i := bytes.LastIndexByte(r.buf, '\n') + 1; i > 0 {
			r.buf = r.buf[:i]
			r.find(i)
			got.at = r.at + int64(i)
			return got, nil
		}
	}
	r.buf, r.rows = nil, nil
	return got, nil
}

// found is a line of a log and where it is.
type found struct {
	line
	at, stop int64
}

// maxGlued bounds how many lines are looked for in one damaged row.
const maxGlued = 64

var lineBegins = []byte(`{"seq":`)

// salvage returns the whole lines inside a row that is not one itself: lost
// newlines glue lines together, and a damaged line must not hide the one after
// it.
func salvage(r row, log tidemark.Key) (lines []found) {
	var begins []int
	for i := 0; len(begins) < maxGlued; {
		j := bytes.Index(r.bytes[i:], lineBegins)
		if j < 0 {
			break
		}
		begins = append(begins, i+j)
		i += j + len(lineBegins)
	}
	for n := 0; n < len(begins); n++ {
		// A body may hold what looks like the start of a line, so the farthest
		// end is tried first.
		for m := len(begins); m > n; m-- {
			stop := len(r.bytes)
			if m < len(begins) {
				stop = begins[m]
			}
			stop = begins[n] + bytes.LastIndexByte(r.bytes[begins[n]:stop], '}') + 1
			var l line
			b := r.bytes[begins[n]:stop]
			if scanLine(b, &l) && l.matches(log) {
				lines = append(lines, found{l, r.at + int64(begins[n]), r.at + int64(stop)})
				n = m - 1
				break
			}
		}
	}
	if len(lines) > 0 {
		lines[len(lines)-1].stop = r.stop
	}
	return lines
}
