package runner

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

// maxLine bounds how much of one line is kept. Agents put whole tool results
// into a line; anything longer is an accident.
const maxLine = 8 << 20

// scanLines calls each with every line of r, without its newline, until r ends
// or cannot be read. Of a line longer than maxLine the rest is dropped, and
// left says how many bytes that was. A last line without a newline counts as a
// line. Bytes that are not UTF-8 become U+FFFD, so that every line can be kept
// as text. The slice is valid until each returns.
func scanLines(r io.Reader, each func(line []byte, left int64)) {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte // a line that is longer than the reader's buffer
	var left int64
	for {
		part, err := in.ReadSlice('\n')
		room := maxLine - len(long)
		switch {
		case err == nil && len(long) == 0 && left == 0:
			each(lineText(part), 0)
			continue
		case len(part) > room && err == nil:
			left += int64(len(part) - room - 1) // the newline does not count as lost
			part = part[:room]
		case len(part) > room:
			left += int64(len(part) - room)
			part = part[:room]
		}
		long = append(long, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil || len(long) > 0 || left > 0 {
			each(lineText(long), left)
		}
		if err != nil {
			return
		}
		long, left = long[:0], 0
		if cap(long) > 1<<20 {
			long = nil // do not keep one long line in memory
		}
	}
}

// lineText returns a line as it is kept.
func lineText(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	return line
}
