package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clip keeps the beginning and the end of what is written to it, so that a
// command that prints a gigabyte needs no more memory than the limit. The end
// is kept because errors are there.
type clip struct {
	limit int
	head  []byte
	tail  []byte // a ring when it is full
	at    int    // where the ring continues
	total int64
}

func newClip(limit int) *clip { return &clip{limit: limit} }

func (c *clip) Write(b []byte) (int, error) {
	n := len(b)
	c.total += int64(n)
	if room := c.limit/2 - len(c.head); room > 0 {
		k := min(room, len(b))
		c.head = append(c.head, b[:k]...)
		b = b[k:]
	}
	size := c.limit - c.limit/2
	if len(b) > size {
		b = b[len(b)-size:]
	}
	if room := size - len(c.tail); room > 0 {
		k := min(room, len(b))
		c.tail = append(c.tail, b[:k]...)
		b = b[k:]
	}
	for len(b) > 0 {
		k := copy(c.tail[c.at:], b)
		c.at = (c.at + k) % size
		b = b[k:]
	}
	return n, nil
}

// text returns what was kept as valid UTF-8, and whether something was cut.
func (c *clip) text() (string, bool) {
	tail := string(c.tail[c.at:]) + string(c.tail[:c.at])
	left := c.total - int64(len(c.head)+len(tail))
	if left == 0 {
		return bound(string(c.head)+tail, c.limit)
	}
	// A character that was cut in two would become a replacement character.
	head, tail := wholeEnd(string(c.head)), wholeStart(tail)
	left = c.total - int64(len(head)+len(tail))
	return valid(head) + cutNote(left) + valid(tail), true
}

func cutNote(n int64) string { return fmt.Sprintf("\n[… %d bytes left out …]\n", n) }

// valid turns bytes into text: each run of bytes that is not UTF-8 becomes
// one replacement character, and so does a NUL, which many stores of text
// refuse.
func valid(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// bound makes s valid and cuts its middle when it is longer than limit.
func bound(s string, limit int) (string, bool) {
	s = valid(s)
	if len(s) <= limit {
		return s, false
	}
	head, tail := wholeEnd(s[:limit/2]), wholeStart(s[len(s)-(limit-limit/2):])
	return head + cutNote(int64(len(s)-len(head)-len(tail))) + tail, true
}

// wholeEnd drops an incomplete character at the end of s.
func wholeEnd(s string) string {
	for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
		if b := s[len(s)-i]; utf8.RuneStart(b) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				return s[:len(s)-i]
			}
			return s
		}
	}
	return s
}

// wholeStart drops an incomplete character at the beginning of s.
func wholeStart(s string) string {
	for i := 0; i < utf8.UTFMax && i < len(s); i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

// cutLine shortens one long line and says by how much.
func cutLine(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	kept := wholeEnd(s[:limit])
	return fmt.Sprintf("%s [… %d bytes more]", kept, len(s)-len(kept))
}

// looksBinary reports whether the beginning of a file is binary; as in
// git, a NUL decides.
func looksBinary(start []byte) bool {
	return strings.IndexByte(string(start[:min(len(start), sniffBytes)]), 0) >= 0
}

const sniffBytes = 8000
