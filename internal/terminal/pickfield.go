package terminal

import (
	"slices"
	"strings"
	"unicode"
)

// maxLine bounds a filter and a title, in characters: anything longer is
// a paste into the wrong window.
const maxLine = 500

// field is one line of text being typed, a filter or a title, with its cursor.
type field struct {
	text []rune
	at   int
}

func newField(s string) field {
	var l field
	l.insert(s)
	return l
}

func (l field) String() string { return string(l.text) }

// before returns the text in front of the cursor.
func (l field) before() string { return string(l.text[:l.at]) }

// insert puts typed or pasted text at the cursor. Controls and newlines become
// spaces, since neither a filter nor a title has a use for them.
func (l *field) insert(s string) {
	s = strings.TrimRight(s, "\r\n")
	added := make([]rune, 0, min(len(s), maxLine))
	for _, r := range s {
		if len(l.text)+len(added) == maxLine {
			break
		}
		if unicode.IsControl(r) {
			r = ' '
		}
		added = append(added, r)
	}
	l.text = slices.Insert(l.text, l.at, added...)
	l.at += len(added)
}

// edit handles the editing keys of a line, and reports whether the key is one.
func (l *field) edit(key string) bool {
	switch key {
	case "left", "ctrl+b":
		l.at = max(l.at-1, 0)
	case "right", "ctrl+f":
		l.at = min(l.at+1, len(l.text))
	case "backspace", "ctrl+h":
		l.cut(l.at - 1)
	case "ctrl+w", "alt+backspace":
		l.cut(l.wordStart())
	case "ctrl+u":
		l.cut(0)
	default:
		return false
	}
	return true
}

// cut removes the text between a position and the cursor.
func (l *field) cut(from int) {
	from = max(from, 0)
	l.text = slices.Delete(l.text, from, l.at)
	l.at = from
}

func (l field) wordStart() int {
	at := l.at
	for at > 0 && l.text[at-1] == ' ' {
		at--
	}
	for at > 0 && l.text[at-1] != ' ' {
		at--
	}
	return at
}
