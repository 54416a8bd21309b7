package compact

import "strings"

// fence is what opened a block of code.
type fence struct {
	sign   byte   // ` or ~, 0: no block is open
	length int    // a closing fence is at least as long
	before string // what precedes a fence on its line: spaces, quote marks
}

// line takes the next line of a text and reports whether it is code, its fences
// included. It is generous: a fence may be in a list, in a quote or deeply
// indented, because what is mistaken for code is merely kept.
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
			before[i] = ' ' // in a list item, only spaces precede the next line
		}
	}
	*f = fence{sign: line[at], length: n, before: string(before)}
	return true
}

// closer returns the line that closes an open block.
func (f *fence) closer() string { return f.before + strings.Repeat(string(f.sign), f.length) }

// run returns how many times c occurs at the start of s.
func run(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

// listMark returns the length of a list marker at the start of s, with the
// spaces after it, 0: none.
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

// pieces splits Markdown into prose and code. A block that is not closed gets a
// closing fence. Apart from that, the pieces joined by newlines are the text
// again.
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
