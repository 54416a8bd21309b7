package files

import (
	"io"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// How far from the end a line may be to be read from there in one piece, with all
// that follows. Earlier ones are found by interpolating over the log's bytes.
const (
	nearLines = 2000
	nearBytes = 256 << 10
)

// closeLines is how far before the wanted line a search may stop: reading on
// from there costs less than another probe.
const closeLines = 32

// seek returns a reader positioned at or shortly before the line seq, never
// after it. Lines need not be of equal length and some may be damaged; both cost
// more probes, never a scan.
func seek(f durable.File, log tidemark.Key, st *state, seq int64) (*forward, error) {
	if seq <= st.Trimmed+1 {
		return &forward{f: f, limit: st.end}, nil
	}
	before, after := st.places.around(seq)
	if before.seq > 0 && seq-before.seq <= closeLines {
		return &forward{f: f, at: before.at, limit: st.end}, nil
	}
	mean := st.mean()
	if n := st.Length - seq; n < nearLines && n*mean < nearBytes {
		return seekNear(f, log, st, seq)
	}
	var l line
	low, lowSeq, high, highSeq := int64(0), st.Trimmed+1, st.end, st.Length+1
	if before.seq > 0 {
		low, lowSeq = before.at, before.seq
	}
	if after.seq > 0 {
		high, highSeq = after.at, after.seq
	}
	for probes := 0; high-low > readBytes/2; probes++ {
		guess := low + int64(float64(high-low)*float64(seq-lowSeq)/float64(max(highSeq-lowSeq, 1)))
		guess -= closeLines / 2 * (high - low) / max(highSeq-lowSeq, 1) // a little early is better
		if probes > 8 {
			guess = low + (high-low)/2 // lines of very unequal length
		}
		guess = min(max(guess, low), high-1)
		r, ok, err := probe(f, log, guess, st.end, &l)
		if err != nil {
			return nil, err
		}
		switch {
		case ok && l.Seq <= seq:
			if seq-l.Seq <= closeLines {
				return r, nil
			}
			if r.at <= low { // no line begins in between
				return &forward{f: f, at: low, limit: st.end}, nil
			}
			low, lowSeq = r.at, l.Seq
		case guess <= low:
			high = low
		default:
			high = guess // the line before the one found begins at or before the guess
			if ok {
				highSeq = max(l.Seq, lowSeq+1)
			}
		}
	}
	return &forward{f: f, at: low, limit: st.end}, nil
}

// probe finds the first whole line that begins after at, and returns a reader
// positioned on it.
func probe(f durable.File, log tidemark.Key, at, end int64, l *line) (*forward, bool, error) {
	r := &forward{f: f, at: at, limit: end}
	// One read of a few lines is usually enough; if not, next reads on.
	buf := make([]byte, min(16<<10, end-at))
	n, err := f.ReadAt(buf, at)
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	r.buf = buf[:n]
	if at > 0 {
		if _, err := r.next(); err != nil {
			return r, false, notEOF(err)
		}
	}
	for {
		here := *r
		row, err := r.next()
		if err != nil {
			return r, false, notEOF(err)
		}
		if parseLine(row.bytes, log, l) == nil {
			return &here, true, nil
		}
		if glued := salvage(row, log); len(glued) > 0 {
			*l = glued[0].line
			return &here, true, nil
		}
	}
}

func notEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// seekNear reads the end of a log in one piece, as much as should hold the
// lines from seq on, and more when it does not.
func seekNear(f durable.File, log tidemark.Key, st *state, seq int64) (*forward, error) {
	wanted := st.Length - seq + 1
	mean := st.mean()
	window := max(wanted*mean*9/8+512, 4<<10)
	var l line
	for {
		at := max(st.end-window, 0)
		buf := make([]byte, st.end-at)
		n, err := f.ReadAt(buf, at)
		if err != nil && err != io.EOF {
			return nil, err
		}
		r := &forward{f: f, buf: buf[:n], at: at, limit: st.end}
		if at == 0 {
			return r, nil
		}
		if _, err := r.next(); err == nil {
			here := *r
			row, err := r.next()
			if err == nil && parseLine(row.bytes, log, &l) == nil && l.Seq <= seq {
				return &here, nil
			}
		}
		if window > 4<<20 {
			// Long or damaged lines: find the place by probes, in bounded memory.
			return seekBack(f, log, st, seq)
		}
		window *= 2
	}
}

// seekBack walks back line by line.
func seekBack(f durable.File, log tidemark.Key, st *state, seq int64) (*forward, error) {
	back := newBackward(f, st.end)
	var l line
	for {
		row, err := back.prev()
		if err == io.EOF {
			return &forward{f: f, limit: st.end}, nil
		}
		if err != nil {
			return nil, err
		}
		if parseLine(row.bytes, log, &l) == nil && l.Seq <= seq {
			return &forward{f: f, at: row.at, limit: st.end}, nil
		}
	}
}
