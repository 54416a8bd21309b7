package compact

import "strings"

// fence is what opened a block of code.
type fence struct {
	sign   byte   // ` or ~, 0: no block is open
	length int    // at least as many close it
	before string // what stands before a fence on its line: blanks, marks of quotes
}

// line takes the next line of a text and reports whether it is code, its
// fences included. It is generous: a fence may stand in a list, in a quote or
// deep to the right, because what counts as code by mistake is only kept.
func (f *fence) line(line string) bool {
	at := 0
	for at < len(line) && strings.IndexByte(" \t>", line[at]) >= 0 {
		at++
	}
	if f.sign != 0 {
		n := run(line[at:], f.sign)
		if n >= f.length && strings.TrimSpace(line[at+n:]) == "" {
			f.sign = 0
		}
		return true
	}
	at += listMark(line[at:])
	if at == len(line) || line[at] != '`' && line[at] != '~' {
		return false
	}
	n := run(line[at:], line[at])
	info := strings.TrimSpace(line[at+n:])
	if n < 3 || line[at] == '`' && strings.IndexByte(info, '`') >= 0 {
		return false
	}
	before := []byte(line[:at])
	for i, b := range before {
		if b != '\t' && b != '>' {
			before[i] = ' ' // in an item of a list, only blanks stand before the next line
		}
	}
	*f = fence{sign: line[at], length: n, before: string(before)}
	return true
}

// closer returns the line that closes an open block.
func (f *fence) closer() string { return f.before + strings.Repeat(string(f.sign), f.length) }

// run returns how often s begins with c.
func run(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

// listMark returns the length of the mark of a list item at the front of s,
// with the blanks behind it, 0: none.
func listMark(s string) int {
	n := 0
	for n < len(s) && n < 9 && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	switch {
	case n == len(s):
		return 0
	case n > 0 && s[n] != '.' && s[n] != ')', n == 0 && strings.IndexByte("-+*", s[n]) < 0:
		return 0
	}
	n++
	blanks := run(s[n:], ' ')
	if blanks == 0 {
		return 0
	}
	return n + blanks
}

// piece is a run of prose, or one block of code with its fences.
type piece struct {
	text string
	code bool
}

// pieces splits Markdown into prose and code. A block that is not closed is
// closed. Without that, and without the newline between two pieces, they are
// the text again.
func pieces(s string) []piece {
	var out []piece
	var f fence
	start, at := 0, 0
	flush := func(end int, code bool) {
		if end > start {
			out = append(out, piece{text: strings.TrimSuffix(s[start:end], "\n"), code: code})
		}
		start = end
	}
	for at < len(s) {
		end := len(s)
		if n := strings.IndexByte(s[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		was := f.sign != 0
		code := f.line(strings.TrimRight(s[at:end], "\r\n"))
		switch {
		case code && !was:
			flush(at, false)
		case code && f.sign == 0:
			flush(end, true)
		}
		at = end
	}
	flush(len(s), f.sign != 0)
	if f.sign != 0 {
		out[len(out)-1].text += "\n" + f.closer()
	}
	return out
}
