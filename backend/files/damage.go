package files

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// whatIsWrong says why a row is not a line, in words for the person who opens
// the file at that place.
func whatIsWrong(r row, log tidemark.Key) string {
	if r.bytes == nil {
		return "longer than any line"
	}
	if len(r.bytes) == 0 {
		return "an empty line"
	}
	if n := len(salvage(r, log)); n > 1 {
		return fmt.Sprintf("%d lines without a newline between them", n)
	} else if n == 1 {
		return "a line with other bytes beside it"
	}
	if len(bytes.Trim(r.bytes, "\x00")) == 0 {
		return "zeros in place of a line"
	}
	if !utf8.Valid(r.bytes) {
		return "bytes that are not UTF-8"
	}
	var l line
	if err := parseLine(r.bytes, log, &l); err != nil {
		return err.Error()
	}
	return "out of order"
}
