// Package text cuts text without breaking it. It knows bytes and characters,
// and nothing of screens: how wide text is drawn, and what is harmless to draw,
// is in package render.
//
//	title = text.Clip(title, 200)
package text

import (
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
