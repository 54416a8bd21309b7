package terminal

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxCells bounds a line that is typed rather than pasted. Every key lays out
// all of it, and whoever types this much can paste.
const maxCells = 100_000

// line is the text being typed, with its cursor. It may have several lines.
type line struct {
	text  Text
	cells []cell
	at    int
	cut   []cell // the last cut, for ^Y
}

func (l *line) String() string { return textOf(l.cells) }

func (l *line) set(s string) {
	l.cells = l.text.pieces(s)
	l.at = len(l.cells)
}

// insert puts typed text at the cursor. A combining mark joins the letter
// before it. It returns false when the line is full.
func (l *line) insert(s string) bool {
	if len(l.cells)+utf8.RuneCountInString(s) > maxCells {
		return false
	}
	from := l.at
	if from > 0 && !l.cells[from-1].newline() && !l.cells[from-1].folded() && len(s) > 0 && s[0] >= utf8.RuneSelf {
		from--
		s = l.cells[from].text + s
	}
	l.replace(from, l.at, l.text.cells(s))
	return true
}

// paste puts text that came in one piece at the cursor.
func (l *line) paste(s string) bool {
	cs := l.text.pieces(s)
	if len(l.cells)+len(cs) > maxCells {
		return false
	}
	l.replace(l.at, l.at, cs)
	return true
}

// pasteSigns puts texts at the cursor, each as one sign, with blanks around them.
func (l *line) pasteSigns(signs []string) bool {
	var cs []cell
	for i, s := range signs {
		if i > 0 || l.at > 0 && isInk(l.cells[l.at-1]) {
			cs = append(cs, l.text.cells(" ")...)
		}
		cs = append(cs, l.text.whole(s))
	}
	cs = append(cs, l.text.cells(" ")...)
	if len(l.cells)+len(cs) > maxCells {
		return false
	}
	l.replace(l.at, l.at, cs)
	return true
}

// replace replaces cells, and puts the cursor after them.
func (l *line) replace(from, to int, cs []cell) {
	l.cells = slices.Replace(l.cells, from, to, cs...)
	l.at = from + len(cs)
}

// kill removes the text between two positions, for ^Y to restore.
func (l *line) kill(from, to int) {
	if from < to {
		l.cut = slices.Clone(l.cells[from:to])
		l.replace(from, to, nil)
	}
}

// edit handles the editing keys of a line, and reports whether the key is one.
func (l *line) edit(key string) bool {
	switch key {
	case "left", "ctrl+b":
		l.at = max(l.at-1, 0)
	case "right", "ctrl+f":
		l.at = min(l.at+1, len(l.cells))
	case "home", "ctrl+a":
		l.at = l.start(l.at)
	case "end", "ctrl+e":
		l.at = l.end(l.at)
	case "ctrl+home":
		l.at = 0
	case "ctrl+end":
		l.at = len(l.cells)
	case "alt+b", "ctrl+left":
		l.at = l.back(isWord)
	case "alt+f", "ctrl+right":
		l.at = l.forth(isWord)
	case "backspace":
		l.replace(max(l.at-1, 0), l.at, nil)
	case "delete", "ctrl+d":
		at := l.at
		l.replace(at, min(at+1, len(l.cells)), nil)
	case "ctrl+k":
		end := l.end(l.at)
		if end == l.at { // at the end of a line, also its newline
			end = min(end+1, len(l.cells))
		}
		l.kill(l.at, end)
	case "ctrl+u":
		l.kill(l.start(l.at), l.at)
	case "ctrl+w":
		l.kill(l.back(isInk), l.at)
	case "alt+backspace":
		l.kill(l.back(isWord), l.at)
	case "alt+d":
		l.kill(l.at, l.forth(isWord))
	case "ctrl+y":
		l.replace(l.at, l.at, slices.Clone(l.cut))
	default:
		return false
	}
	return true
}

// start and end return where the line around a position starts and ends.
func (l *line) start(at int) int {
	for at > 0 && !l.cells[at-1].newline() {
		at--
	}
	return at
}

func (l *line) end(at int) int {
	for at < len(l.cells) && !l.cells[at].newline() {
		at++
	}
	return at
}

// up and down move the cursor to another line of the text, and report whether
// there is one.
func (l *line) up() bool {
	start := l.start(l.at)
	if start == 0 {
		return false
	}
	above := l.start(start - 1)
	l.at = min(above+l.at-start, start-1)
	return true
}

func (l *line) down() bool {
	end := l.end(l.at)
	if end == len(l.cells) {
		return false
	}
	column := l.at - l.start(l.at)
	l.at = min(end+1+column, l.end(end+1))
	return true
}

// back returns where the word before the cursor starts, forth where the
// word after it ends.
func (l *line) back(in func(cell) bool) int {
	at := l.at
	for at > 0 && !in(l.cells[at-1]) {
		at--
	}
	for at > 0 && in(l.cells[at-1]) {
		at--
	}
	return at
}

func (l *line) forth(in func(cell) bool) int {
	at := l.at
	for at < len(l.cells) && !in(l.cells[at]) {
		at++
	}
	for at < len(l.cells) && in(l.cells[at]) {
		at++
	}
	return at
}

func isWord(c cell) bool {
	r, _ := utf8.DecodeRuneInString(c.text)
	return c.folded() || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

func isInk(c cell) bool { return strings.TrimSpace(c.text) != "" }

// continued reports whether the line ends in a backslash before the cursor,
// which asks for another line.
func (l *line) continued() bool {
	return l.at > 0 && l.at == len(l.cells) && l.cells[l.at-1].text == `\`
}
