// Package text cuts text without breaking it, and finds the name that somebody
// meant. It knows bytes and characters, and nothing of screens: how wide text is
// drawn, and what is harmless to draw, is in package render.
//
//	title = text.Clip(title, 200)
package text

import (
	"strings"
	"unicode/utf8"
)

// Clip returns as much of s as fits into n bytes, and never a part of a
// character. Text that is no UTF-8 is cut within a few bytes of n.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for end := n; end > max(n-utf8.UTFMax, 0); end-- {
		if utf8.RuneStart(s[end]) {
			return s[:end]
		}
	}
	return s[:max(n-utf8.UTFMax, 0)]
}

// Shorten is Clip with a "…" behind what was cut, for messages and rows. What is
// no UTF-8 in the part that is left is left out.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(Clip(s, n), "") + "…"
}

// ShortLine is Shorten for a text of several lines, in one.
func ShortLine(s string, n int) string {
	return Shorten(strings.Join(strings.Fields(strings.ToValidUTF8(Clip(s, 10*n), "")), " "), n)
}
