package model

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

const (
	// maxEventBytes bounds one event. An answer may come in a single one, and
	// JSON may need two bytes for one.
	maxEventBytes = 2 * MaxAnswerBytes
	// maxStreamBytes bounds a stream. Every few letters of an answer come in an
	// envelope of some 150 bytes.
	maxStreamBytes = 64 * MaxAnswerBytes
)

// Sent is a server-sent event.
type Sent struct {
	Name string
	Data []byte // valid until the next one is read
	Cut  bool   // the stream ended inside it
}

// Events reads server-sent events: LF or CR LF, comments left out, memory
// bounded. Its errors are those of the provider, ready for the caller.
type Events struct {
	name  string
	in    *bufio.Reader
	total int64
	line  []byte
	data  []byte
	stray []byte // the beginning of the first line that belongs to no event
	seen  int
}

// NewEvents reads the answer of a provider; alive is called whenever bytes have
// arrived.
func NewEvents(provider string, r io.Reader, alive func()) *Events {
	return &Events{name: provider, in: bufio.NewReaderSize(&living{r, alive}, 16<<10)}
}

type living struct {
	r     io.Reader
	alive func()
}

func (l *living) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > 0 {
		l.alive()
	}
	return n, err
}

// Begin looks at the beginning of an answer, whatever content type the server
// declares: whole means that it is one JSON object and no stream, for Whole to
// read. A page in place of both is an error.
func (e *Events) Begin() (whole bool, err error) {
	first, err := e.first()
	switch {
	case err != nil:
		return false, e.failed(err)
	case first == '<' || first == '[':
		return false, e.Page()
	}
	return first == '{', nil
}

// Page returns the error for something else than what was asked for, with the
// beginning of it.
func (e *Events) Page() error {
	page, _ := e.rest(MaxRefusalBytes)
	return Nonsense(e.name, "answered with a page instead of a stream", page)
}

// Whole returns an answer that is not a stream.
func (e *Events) Whole() ([]byte, error) {
	all, err := e.rest(2 * MaxAnswerBytes)
	if err != nil {
		return nil, e.failed(err)
	}
	return all, nil
}

// failed is the provider's error for one of reading.
func (e *Events) failed(err error) error {
	if err == ErrEndless {
		return Endless(e.name)
	}
	return Lost(e.name, err)
}

// first returns the first byte of the stream that is not white space, without
// consuming it.
func (e *Events) first() (byte, error) {
	for {
		b, err := e.in.ReadByte()
		if err != nil {
			return 0, err
		}
		if e.total++; e.total > maxStreamBytes {
			return 0, ErrEndless
		}
		switch b {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF: // also a byte order mark
			continue
		}
		e.total--
		return b, e.in.UnreadByte()
	}
}

// rest returns what is left of the stream, at most max bytes; more than that
// is ErrEndless, together with the beginning.
func (e *Events) rest(max int) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(e.in, int64(max)+1))
	if err == nil && len(all) > max {
		return all[:max], ErrEndless
	}
	return all, err
}

// Next returns the next event that has data. At the end of the stream the error
// wraps io.EOF, unless the stream had no event and something else; an event that
// the end cut off comes before it, marked.
func (e *Events) Next() (Sent, error) {
	s, err := e.next()
	switch {
	case err == io.EOF && e.seen == 0 && len(e.stray) > 0:
		err = Nonsense(e.name, "answered with something else than a stream", e.stray)
	case err != nil:
		err = e.failed(err)
	}
	return s, err
}

func (e *Events) next() (Sent, error) {
	var s Sent
	e.data = e.data[:0]
	some := false
	for {
		line, err := e.readLine()
		if err == io.EOF && (some || len(line) > 0) {
			some = e.field(line, &s) || some
			if some {
				e.seen++
				s.Data, s.Cut = e.data, true
				return s, nil
			}
		}
		if err != nil {
			return Sent{}, err
		}
		if len(line) > 0 {
			some = e.field(line, &s) || some
			if len(e.data) > maxEventBytes {
				return Sent{}, ErrEndless
			}
			continue
		}
		if some {
			e.seen++
			s.Data = e.data
			return s, nil
		}
		s = Sent{}
	}
}

// field handles one line, and reports whether it was data.
func (e *Events) field(line []byte, s *Sent) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		return true
	case "event":
		s.Name = string(value[:min(len(value), 64)])
	case "", "id", "retry":
	default:
		if e.stray == nil {
			e.stray = bytes.Clone(line[:min(len(line), maxWords)])
		}
	}
	return false
}

// readLine returns a line without its end, LF or CR LF.
func (e *Events) readLine() ([]byte, error) {
	e.line = e.line[:0]
	for {
		part, err := e.in.ReadSlice('\n')
		e.total += int64(len(part))
		e.line = append(e.line, part...)
		switch {
		case e.total > maxStreamBytes || len(e.line) > maxEventBytes:
			return nil, ErrEndless
		case err == bufio.ErrBufferFull:
			continue
		case err != nil:
			return bytes.TrimRight(e.line, "\r"), err
		}
		return bytes.TrimRight(e.line, "\r\n"), nil
	}
}

// Endless returns the error for an answer without end.
func Endless(provider string) error {
	return &Error{Provider: provider, Message: fmt.Sprintf("the answer is longer than %d MB", MaxAnswerBytes>>20), Cause: ErrEndless}
}
