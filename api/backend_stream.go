package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/tidemark-sessions/tidemark"
)

// maxBlanks bounds the empty lines between two items. They keep a quiet
// connection alive; endless ones are not an answer.
const maxBlanks = 1000

// Reader reads JSON objects, one per line. It needs no more memory than
// the longest allowed line, and only as the bytes come.
type Reader struct {
	in   *bufio.Reader
	most int
	long []byte
}

// NewReader returns a Reader for lines of at most most bytes.
func NewReader(r io.Reader, most int) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, 32<<10), most: most}
}

// Next reads the next object. Anything else is ErrInvalid; an input that
// ends before an object is io.ErrUnexpectedEOF, because every stream ends
// with an object that says so.
func (r *Reader) Next(into any) error {
	for range maxBlanks {
		line, err := r.line()
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := json.Unmarshal(line, into); err != nil {
			return tidemark.Invalidf("a line that is not what it should be: %w", err)
		}
		return nil
	}
	return tidemark.Invalidf("more than %d empty lines", maxBlanks)
}

// line returns the next line; it is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		switch {
		case len(r.long)+len(part) > r.most:
			return nil, tidemark.Invalidf("a line of more than %d bytes", r.most)
		case err == nil && len(r.long) == 0:
			return part, nil
		case err == nil:
			return append(r.long, part...), nil
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		r.long = append(r.long, part...)
	}
}

// Append adds v to buf as one line.
func Append(buf []byte, v any) ([]byte, error) {
	line, err := json.Marshal(v)
	if err != nil {
		return buf, err
	}
	return append(append(buf, line...), '\n'), nil
}
