// Package render turns entries into text for a terminal, into Markdown and into
// HTML, and makes foreign text harmless before it gets there.
//
// Text from a model, a tool or an imported file may contain escape sequences
// that set a title, write to the clipboard or hide a line, invisible characters
// that make text read differently from what it is, and tags and links that a
// browser would run, load or follow. The package shows them instead of sending
// them, and drops none. It never reads a store, never queries a terminal, and
// decides only how things look.
//
//	fmt.Println(render.CleanLine(session.Title))
package render

import (
	"unicode/utf8"
)

// Clean returns s as text that does nothing to a terminal but appear on it.
// Newlines and tabs stay, and a carriage return in front of a newline is part
// of that newline. Everything else that could act, hide or reorder is shown in
// the notation of Go: \x1b for a control or a byte that is not UTF-8, \u202e
// or \U000e0041 for a character. It is written out rather than dropped, so
// that a hidden character is seen; the same notation typed as plain text looks
// alike, because escaping every backslash would spoil code and paths.
//
// Clean(Clean(s)) is Clean(s). When nothing has to change, s itself is
// returned and nothing allocated.
func Clean(s string) string { return clean(s, cleaner{}) }

// CleanLine is Clean for what must stay on one line, like a title or a cell of
// a table: newlines, carriage returns and tabs are shown as \n, \r and \t.
func CleanLine(s string) string { return clean(s, cleaner{line: true}) }

func clean(s string, c cleaner) string {
	n, _ := c.keep(s, true)
	if n == len(s) {
		return s
	}
	b := make([]byte, 0, len(s)+len(s)/4+16)
	b = append(b, s[:n]...)
	b, _ = c.append(b, s[n:], true)
	return string(b)
}

// cleaner processes text. Whether a joiner or a variation selector is
// legitimate depends on its neighbours, so it remembers the previous
// character.
type cleaner struct {
	line bool // newlines and tabs are shown too
	prev rune // the previous character, 0 if there is none that the next could belong to
}

// append adds the clean form of s to dst and returns how much of s it used.
// That is all of s when s ends the text; otherwise up to a few bytes at the
// end wait for what follows.
func (c *cleaner) append(dst []byte, s string, ends bool) ([]byte, int) {
	i := 0
	for i < len(s) {
		n, wait := c.keep(s[i:], ends)
		dst = append(dst, s[i:i+n]...)
		i += n
		if wait || i == len(s) {
			break
		}
		dst, n = c.show(dst, s[i:])
		i += n
	}
	return dst, i
}

// keep returns how many bytes at the front of s stay unchanged. It stops at
// what must be shown, and with wait where that depends on bytes still to come.
func (c *cleaner) keep(s string, ends bool) (n int, wait bool) {
	for n < len(s) {
		from := n
		for n < len(s) && (s[n] >= ' ' && s[n] < 0x7f || !c.line && (s[n] == '\n' || s[n] == '\t')) {
			n++
		}
		if n > from {
			c.prev = rune(s[n-1])
			continue
		}
		if b := s[n]; b < utf8.RuneSelf {
			return n, !ends && b == '\r' && n+1 == len(s)
		}
		r, size := utf8.DecodeRuneInString(s[n:])
		if r == utf8.RuneError && size == 1 {
			return n, !ends && !utf8.FullRuneInString(s[n:])
		}
		if isJoiner(r) {
			rest := s[n+size:]
			if !ends && !utf8.FullRuneInString(rest) {
				return n, true
			}
			if next, _ := utf8.DecodeRuneInString(rest); !joins(r, c.prev, next) {
				return n, false
			}
		} else if hidden(r) || isSelector(r) && !selects(c.prev, r) {
			return n, false
		}
		c.prev = r
		n += size
	}
	return n, false
}

// show adds the visible form of the character or byte at the front of s, and
// returns its length in s.
func (c *cleaner) show(dst []byte, s string) ([]byte, int) {
	c.prev = 0
	b := s[0]
	if b < utf8.RuneSelf {
		switch {
		case b == '\r' && !c.line && len(s) > 1 && s[1] == '\n':
			return dst, 1 // the newline after it says the same
		case b == '\n':
			return append(dst, `\n`...), 1
		case b == '\r':
			return append(dst, `\r`...), 1
		case b == '\t':
			return append(dst, `\t`...), 1
		}
		return appendHex(append(dst, `\x`...), rune(b), 2), 1
	}
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1:
		return appendHex(append(dst, `\x`...), rune(b), 2), 1
	case r > 0xffff:
		return appendHex(append(dst, `\U`...), r, 8), size
	}
	return appendHex(append(dst, `\u`...), r, 4), size
}

func appendHex(dst []byte, r rune, digits int) []byte {
	for shift := (digits - 1) * 4; shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[r>>shift&15])
	}
	return dst
}
