package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxSign bounds how many characters are drawn as one sign. A letter with
	// thousands of combining marks is an attack on the renderer.
	maxSign = 32
	// foldBytes and foldLines are the size from which pasted text is shown
	// as one placeholder: nobody edits a log file in a prompt, and every key
	// would have to lay it out again.
	foldBytes = 4000
	foldLines = 24
	// tabShown is what a tab in the line looks like.
	tabShown = "    "
)

// Text makes foreign text safe for a terminal. Both functions are required.
type Text struct {
	Clean func(string) string // returns one line without control characters
	Width func(string) int    // returns how many columns clean text takes
}

// cell is one sign of the line being typed: what the cursor steps over at
// once.
type cell struct {
	text  string // what is sent
	show  string // what is drawn
	width int    // in columns
	whole bool   // it stands for what was pasted, and nothing joins it
}

func (c cell) newline() bool { return c.text == "\n" }

// folded reports whether the sign stands for something that is not shown: text
// that is too long, or what was pasted in its place.
func (c cell) folded() bool {
	return c.whole || len(c.text) > foldBytes || c.text != "\n" && strings.Contains(c.text, "\n")
}

// cells splits typed text into signs, without control characters.
func (t Text) cells(s string) []cell {
	cs := make([]cell, 0, len(s))
	for len(s) > 0 {
		n := t.sign(s)
		if c, ok := t.cell(s[:n]); ok {
			cs = append(cs, c)
		}
		s = s[n:]
	}
	return cs
}

// cell returns how a sign is drawn; ok is false for a control.
func (t Text) cell(s string) (c cell, ok bool) {
	switch r, size := utf8.DecodeRuneInString(s); {
	case r == '\n':
		return cell{text: "\n"}, true
	case r == '\t':
		return cell{text: "\t", show: tabShown, width: len(tabShown)}, true
	case isControl(r):
		return cell{}, false
	case size == 1 && r < 0x7f && len(s) == 1:
		return cell{text: s, show: s, width: 1}, true
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	show := t.Clean(s)
	return cell{text: s, show: show, width: t.Width(show)}, true
}

// sign returns the length of the sign at the front of s.
func (t Text) sign(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if n == len(s) || s[n] < utf8.RuneSelf || isControl(r) || isInvalid(r, n) {
		return n
	}
	for count := 1; n < len(s) && count < maxSign; count++ {
		next, size := utf8.DecodeRuneInString(s[n:])
		if isInvalid(next, size) || !t.joins(s[:n], next) {
			break
		}
		n += size
	}
	return n
}

// joins reports whether a character is drawn into the sign before it: a mark
// on a letter, a part of an emoji, the second half of a flag.
func (t Text) joins(sign string, r rune) bool {
	if r < 0x300 || sign == "" {
		return false
	}
	if isRegional(r) {
		first, size := utf8.DecodeRuneInString(sign)
		return isRegional(first) && size == len(sign)
	}
	return t.Width(string(r)) == 0 || t.Width(sign+string(r)) == t.Width(sign)
}

func isRegional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

func isInvalid(r rune, size int) bool { return r == utf8.RuneError && size <= 1 }

// pieces returns pasted text as signs: itself, or one placeholder when it
// is long.
func (t Text) pieces(s string) []cell {
	s = printable(s)
	lines := strings.Count(strings.TrimRight(s, "\n"), "\n")
	if len(s) <= foldBytes && lines < foldLines {
		return t.cells(s)
	}
	show := fmt.Sprintf("[%s of text]", plural(utf8.RuneCountInString(s), "character"))
	if lines > 0 {
		show = fmt.Sprintf("[%s of text]", plural(lines+1, "line"))
	}
	return []cell{{text: s, show: show, width: len(show)}}
}

// whole returns text as one sign.
func (t Text) whole(s string) cell {
	s = t.Clean(s)
	return cell{text: s, show: s, width: t.Width(s), whole: true}
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// printable returns s as UTF-8 in which newlines and tabs are the only control
// characters.
func printable(s string) string {
	if strings.Contains(s, "\r") {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	}
	s = strings.ToValidUTF8(s, "\ufffd")
	return strings.Map(func(r rune) rune {
		if isControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// textOf returns the text that cells stand for.
func textOf(cs []cell) string {
	var b strings.Builder
	for _, c := range cs {
		b.WriteString(c.text)
	}
	return b.String()
}

// truncate cuts clean text to a number of columns, with … if it was cut.
func (t Text) truncate(s string, columns int) string {
	if columns <= 0 {
		return ""
	}
	cut, _ := t.fit(s, columns)
	if cut == s {
		return s
	}
	cut, _ = t.fit(s, columns-1)
	return cut + "…"
}

// fit returns as much of a clean line as fits into some columns, and how many
// it takes.
func (t Text) fit(s string, columns int) (string, int) {
	used, at := 0, 0
	for at < len(s) {
		n, w := t.sign(s[at:]), 1
		if n > 1 || s[at] < ' ' || s[at] >= 0x7f {
			w = t.Width(s[at : at+n])
		}
		if used+w > columns {
			break
		}
		used += w
		at += n
	}
	return s[:at], used
}
