package compact

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRunes is the maximum number of code points of one character. Real ones have
// up to ten; a letter with a thousand accents counts as many characters, so that
// a preview of 80 of them is bounded.
const maxRunes = 32

// char returns the length in bytes of the character at the front of s: what a
// person would call one, as far as that can be told without Unicode tables. It
// errs on the side of too long.
func char(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == '\r' && n < len(s) && s[n] == '\n' {
		return n + 1
	}
	first := r
	for count := 1; n < len(s) && count < maxRunes; count++ {
		if s[n] < utf8.RuneSelf && r != joiner {
			break // most text: no ASCII character extends the one before it
		}
		next, size := utf8.DecodeRuneInString(s[n:])
		switch {
		case next < ' ', r < ' ':
			return n
		case r == joiner, extends(next):
		case isRegional(first) && isRegional(next) && count == 1: // two make a flag
		case isLinker(r) && unicode.IsLetter(next):
		case isJamo(r) && next >= 0x1160 && next <= 0x11ff:
		default:
			return n
		}
		r = next
		n += size
	}
	return n
}

const joiner = 0x200d // ZWJ

// extends reports whether r is drawn as part of the character before it:
// accents, vowel signs, joiners, selectors, skin tones, the tags of flags.
func extends(r rune) bool {
	return unicode.Is(unicode.M, r) || r == joiner || r == 0x200c ||
		r >= 0x1f3fb && r <= 0x1f3ff || r >= 0xe0020 && r <= 0xe007f ||
		r == 0xff9e || r == 0xff9f
}

func isRegional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// isJamo reports whether r is a part of a Korean syllable that others may
// follow.
func isJamo(r rune) bool { return r >= 0x1100 && r <= 0x11ff }

// isLinker reports whether r joins the letters around it into one character.
func isLinker(r rune) bool {
	switch r {
	case 0x094d, 0x09cd, 0x0acd, 0x0b4d, 0x0c4d, 0x0d4d:
		return true
	}
	return false
}

// firstChars returns the first n characters of s, and whether that is all.
func firstChars(s string, n int) (string, bool) {
	at := 0
	for ; n > 0 && at < len(s); n-- {
		at += char(s[at:])
	}
	return s[:at], at == len(s)
}

// firstBytes returns as many whole characters of s as take at most n bytes.
func firstBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	at := 0
	for {
		size := char(s[at:])
		if at+size > n {
			return s[:at]
		}
		at += size
	}
}

// charCount returns how many characters s has, at most limit.
func charCount(s string, limit int) int {
	n := 0
	for n < limit && s != "" {
		s = s[char(s):]
		n++
	}
	return n
}

// preview returns the first n characters of s on one line, and … when there
// is more.
func preview(s string, n int) string {
	line := oneLine(s, n*maxRunes*utf8.UTFMax)
	short, all := firstChars(line, n)
	if all {
		return short
	}
	return strings.TrimRight(short, " ") + "…"
}

// oneLine returns the beginning of s with each run of white space as one space
// and without bytes that are not text. It stops soon after enough bytes, so that
// megabytes are not read for a preview.
func oneLine(s string, enough int) string {
	var b strings.Builder
	space := false
	for at, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case r == utf8.RuneError && !strings.HasPrefix(s[at:], "\ufffd"):
			r = '\ufffd'
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
		if b.Len() > enough {
			break
		}
	}
	return b.String()
}
