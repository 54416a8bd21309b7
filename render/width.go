package render

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// wideSpans are the characters that terminals draw over two columns: the
// scripts of East Asia and emoji, by their blocks. It is a table of blocks,
// not of single characters, so a rare sign may be off by one; terminals differ
// among themselves by more than that.
var wideSpans = []span{
	{0x1100, 0x115f}, {0x231a, 0x231b}, {0x2329, 0x232a}, {0x23e9, 0x23ec}, {0x23f0, 0x23f0}, {0x23f3, 0x23f3},
	{0x25fd, 0x25fe}, {0x2614, 0x2615}, {0x2648, 0x2653}, {0x267f, 0x267f}, {0x2693, 0x2693}, {0x26a1, 0x26a1},
	{0x26aa, 0x26ab}, {0x26bd, 0x26be}, {0x26c4, 0x26c5}, {0x26ce, 0x26ce}, {0x26d4, 0x26d4}, {0x26ea, 0x26ea},
	{0x26f2, 0x26f3}, {0x26f5, 0x26f5}, {0x26fa, 0x26fa}, {0x26fd, 0x26fd}, {0x2705, 0x2705}, {0x270a, 0x270b},
	{0x2728, 0x2728}, {0x274c, 0x274c}, {0x274e, 0x274e}, {0x2753, 0x2755}, {0x2757, 0x2757}, {0x2795, 0x2797},
	{0x27b0, 0x27b0}, {0x27bf, 0x27bf}, {0x2b1b, 0x2b1c}, {0x2b50, 0x2b50}, {0x2b55, 0x2b55},
	{0x2e80, 0x303e}, {0x3041, 0x33ff}, {0x3400, 0x4dbf}, {0x4e00, 0xa4cf}, {0xa960, 0xa97c}, {0xac00, 0xd7a3},
	{0xf900, 0xfaff}, {0xfe10, 0xfe19}, {0xfe30, 0xfe6b}, {0xff01, 0xff60}, {0xffe0, 0xffe6},
	{0x16fe0, 0x18dff}, {0x1aff0, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e},
	{0x1f191, 0x1f19a}, {0x1f200, 0x1f265}, {0x1f300, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c},
	{0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4},
	{0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f567},
	{0x1f57a, 0x1f57a}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
	{0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2}, {0x1f6d5, 0x1f6df}, {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6ff},
	{0x1f7e0, 0x1f7eb}, {0x1f7f0, 0x1f7f0}, {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945}, {0x1f947, 0x1f9ff},
	{0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
}

// Width returns how many columns s takes on a terminal, for aligning tables.
// It measures what CleanLine returns; a control character counts as nothing.
func Width(s string) int {
	total := 0
	for len(s) > 0 {
		n, w := cluster(s)
		s = s[n:]
		total += w
	}
	return total
}

// Truncate returns s when it fits into the columns, and otherwise as much of
// it as fits, followed by …. It never cuts within what is drawn as one sign.
func Truncate(s string, columns int) string {
	if columns <= 0 {
		return ""
	}
	used, cut := 0, 0 // cut: the end of what leaves a column for the ellipsis
	for at := 0; at < len(s); {
		n, w := cluster(s[at:])
		used += w
		if used > columns {
			return s[:cut] + "…"
		}
		at += n
		if used < columns {
			cut = at
		}
	}
	return s
}

// cluster returns the length and the columns of the sign at the front of s: a
// character with everything that is drawn into it. An emoji sequence is one
// emoji wide, as terminals that support sequences draw it.
func cluster(s string) (n, columns int) {
	if b := s[0]; b < ' ' || b == 0x7f {
		return 1, runeWidth(rune(b)) // a tab or another control carries no accent
	}
	if b := s[0]; b >= ' ' && b < 0x7f && (len(s) == 1 || s[1] < utf8.RuneSelf) {
		return 1, 1
	}
	r, n := utf8.DecodeRuneInString(s)
	columns = runeWidth(r)
	first := r
	for n < len(s) {
		next, size := utf8.DecodeRuneInString(s[n:])
		switch {
		case next == emoji && columns == 1:
			columns = 2
		case r == joiner && pictographic(first) && pictographic(next):
		case next >= 0x1f3fb && next <= 0x1f3ff && pictographic(r): // a skin tone
		case isRegional(first) && isRegional(next) && n == 4: // two make a flag
			columns = 2
		case runeWidth(next) != 0 || next < ' ' || next == 0x7f:
			return n, columns
		}
		r = next
		n += size
	}
	return n, columns
}

func isRegional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

func runeWidth(r rune) int {
	switch {
	case r < ' ' || r >= 0x7f && r < 0xa0:
		return 0
	case r < 0x300:
		return 1
	case r >= 0x1160 && r <= 0x11ff, // Hangul vowels and finals join the letter before them
		r == joiner, r == nonJoiner, hidden(r), isSelector(r),
		unicode.Is(unicode.Mn, r), unicode.Is(unicode.Me, r):
		return 0
	case in(r, wideSpans):
		return 2
	}
	return 1
}

// Wrap breaks a line between words so that no row is wider than so many columns.
// A word that is wider has a row of its own, and is not cut: it may be an address
// or an id that somebody copies.
func Wrap(line string, columns int) (rows []string) {
	row, used := "", 0
	for i, word := range strings.Split(line, " ") {
		w := Width(word)
		if i > 0 && used+1+w > columns && strings.TrimSpace(row) != "" {
			rows = append(rows, strings.TrimRight(row, " "))
			row, used = word, w
			continue
		}
		if i > 0 {
			row, used = row+" ", used+1
		}
		row, used = row+word, used+w
	}
	return append(rows, row)
}
