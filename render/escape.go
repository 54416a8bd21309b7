package render

import (
	"bufio"
	"strconv"
	"unicode/utf8"

	"github.com/yuin/goldmark/util"
)

// entityOf are the characters that have a meaning in HTML, within tags and
// double-quoted attributes as well as between them.
var entityOf = [256]string{'<': "&lt;", '>': "&gt;", '&': "&amp;", '"': "&#34;", '\'': "&#39;"}

// escape writes clean s as HTML text.
func escape(w *bufio.Writer, s string) {
	done := 0
	for i := range len(s) {
		if e := entityOf[s[i]]; e != "" {
			w.WriteString(s[done:i])
			w.WriteString(e)
			done = i + 1
		}
	}
	w.WriteString(s[done:])
}

// preformatted writes s as the text of a <pre>, where HTML would drop a
// newline at the front.
func preformatted(w *bufio.Writer, s string) {
	if s != "" && s[0] == '\n' {
		w.WriteByte('\n')
	}
	escape(w, s)
}

// longestEntity is the length of the longest entity name, with some margin.
const longestEntity = 40

// appendDecoded adds the text that Markdown means by s: a backslash before
// punctuation is dropped, and an entity becomes the character that it
// names.
func appendDecoded(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && util.IsPunct(s[i+1]):
			i++
			dst = append(dst, s[i])
		case c == '&':
			if meant, n := entity(s[i:]); n > 0 {
				dst = append(dst, meant...)
				i += n - 1
				continue
			}
			dst = append(dst, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// entity returns the characters that the entity at the front of s names, and
// its length, 0 if it is none.
func entity(s []byte) (string, int) {
	end := 1
	for end < len(s) && end < longestEntity && s[end] != ';' {
		end++
	}
	if end < 2 || end == len(s) || s[end] != ';' {
		return "", 0
	}
	name := string(s[1:end])
	if name[0] != '#' {
		e, ok := util.LookUpHTML5EntityByName(name)
		if !ok {
			return "", 0
		}
		return string(e.Characters), end + 1
	}
	digits, base := name[1:], 10
	if digits != "" && digits[0]|0x20 == 'x' {
		digits, base = digits[1:], 16
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil || len(digits) > 7 {
		return "", 0
	}
	if n == 0 || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
		n = utf8.RuneError
	}
	return string(rune(n)), end + 1
}
