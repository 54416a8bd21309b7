package render

import "strings"

// fence is the opening line of a code block.
type fence struct {
	sign   byte // ` or ~, 0 if no block is open
	length int  // at least as many close it
	quotes int  // quote marks before each of its lines
	indent int  // blanks before it, which its lines also have
	margin string
}

const (
	maxLead   = 256 // bytes of marks and blanks before the text of a line
	maxBlanks = 16  // columns that a line's blanks indent it by
	maxQuotes = 4   // bars that are drawn before a line
	maxInfo   = 200 // bytes after the fence that opens code
)

// start is the beginning of a line, up to its text.
type start struct {
	at     int    // its length
	quotes int    // number of quote marks
	indent int    // columns of blanks after them
	mark   string // mark of a list item, with the blank after it
}

// begin determines the kind of a line from its beginning, and returns how
// much of it was used. ok is false while more is needed. A line whose kind is
// not clear after maxLead bytes is text.
func (t *Terminal) begin(s string, ended bool) (n int, ok bool) {
	long := len(s) > maxLead
	if long {
		s, ended = s[:maxLead], false
	}
	if t.fence.sign != 0 {
		if n, ok, inside := t.beginCode(s, ended); inside {
			if !ok && long {
				t.codeLine()
			}
			return n, ok || long
		}
		t.fence = fence{} // the quote that contained it is over
	}
	b, ok := readStart(s, ended)
	kind := leafUnknown
	if ok {
		kind, n = leaf(s[b.at:], ended)
	}
	if kind == leafUnknown {
		if !long {
			return 0, false
		}
		b, kind = start{}, leafProse
	}
	return t.beginLeaf(b, kind, n, s), true
}

// beginLeaf begins a line of a known kind, and returns the length of its
// mark.
func (t *Terminal) beginLeaf(b start, kind, mark int, s string) int {
	body, plain := s[b.at:], b.quotes == 0 && b.mark == ""
	switch {
	case body == "" && plain:
		t.endTable()
		t.blank, t.mode = true, modeDone
		return b.at
	case kind == leafRow && plain:
		t.mode = modeRow
		return b.at
	}
	t.endTable()
	t.spaced()
	first, rest := b.margins(t.color)
	if kind == leafFence {
		t.openFence(b, body, mark, first, rest)
		return len(s)
	}
	t.margins(first, rest)
	switch kind {
	case leafRule:
		t.rule(body)
		return len(s)
	case leafHeading:
		t.mode = modeHeading
		if t.color {
			return b.at + mark
		}
	default:
		t.mode = modeProse
	}
	return b.at
}

// readStart reads quote marks, blanks and the mark of a list item.
func readStart(s string, ended bool) (b start, ok bool) {
	for {
		n := blanks(s[b.at:])
		if b.at+n < len(s) && s[b.at+n] == '>' {
			b.quotes++
			b.at += n + 1
			if b.at < len(s) && s[b.at] == ' ' {
				b.at++
			}
			continue
		}
		if b.at+n == len(s) && !ended {
			return b, false
		}
		b.indent = n + 3*strings.Count(s[b.at:b.at+n], "\t")
		b.at += n
		break
	}
	n, ok := itemMark(s[b.at:], ended)
	if n > 0 {
		b.mark = strings.TrimRight(s[b.at:b.at+n], " \t") + " "
		b.at += n
	}
	return b, ok
}

// itemMark returns the length of the mark of a list item at the front of s,
// with its blanks, 0 if there is none. ok is false while more is needed.
func itemMark(s string, ended bool) (n int, ok bool) {
	if s == "" {
		return 0, ended
	}
	if strings.IndexByte("-+*", s[0]) >= 0 {
		if kind, _ := leaf(s, ended); kind == leafRule || kind == leafUnknown {
			return 0, kind == leafRule
		}
		n = 1
	} else {
		for n < len(s) && n < 9 && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		if n == 0 {
			return 0, true
		}
		if n == len(s) {
			return 0, ended
		}
		if s[n] != '.' && s[n] != ')' {
			return 0, true
		}
		n++
	}
	blank := blanks(s[n:])
	switch {
	case n+blank == len(s): // what follows the blanks decides how the item begins
		if ended && blank > 0 {
			return len(s), true
		}
		return 0, ended
	case blank == 0:
		return 0, true
	}
	return n + blank, true
}

// margins are what precedes the lines of the text: bars for quotes, the
// blanks, the mark of the item, and blanks as wide as that below it.
func (b start) margins(color bool) (first, rest string) {
	bar, mark := "> ", b.mark
	if color {
		bar = "│ "
		if mark != "" && strings.IndexByte("-+*", mark[0]) >= 0 {
			mark = "• "
		}
	}
	front := strings.Repeat(bar, min(b.quotes, maxQuotes)) + strings.Repeat(" ", min(b.indent, maxBlanks))
	return front + mark, front + strings.Repeat(" ", Width(mark))
}

// Kinds of the text of a line.
const (
	leafUnknown = iota
	leafProse
	leafHeading
	leafRule
	leafFence
	leafRow
)

// leaf determines the kind of text from its beginning. n is the length of its
// mark.
func leaf(s string, ended bool) (kind, n int) {
	if s == "" {
		if ended {
			return leafProse, 0
		}
		return leafUnknown, 0
	}
	switch c := s[0]; c {
	case '|':
		return leafRow, 0
	case '#':
		n = run(s)
		switch {
		case n > 6:
			return leafProse, 0
		case n == len(s) && !ended:
			return leafUnknown, 0
		case n == len(s) || s[n] == ' ' || s[n] == '\t':
			return leafHeading, n + blanks(s[n:])
		}
	case '`', '~':
		n = run(s)
		info := s[n:]
		switch {
		case n < 3 && info != "", len(info) > maxInfo, c == '`' && strings.IndexByte(info, '`') >= 0:
			return leafProse, 0
		case !ended:
			return leafUnknown, 0
		case n >= 3:
			return leafFence, n
		}
	case '-', '*', '_', '=':
		signs := 0
		for i := range len(s) {
			switch s[i] {
			case c:
				signs++
			case ' ', '\t':
			default:
				return leafProse, 0
			}
		}
		switch {
		case !ended:
			return leafUnknown, 0
		case signs >= 3:
			return leafRule, 0
		}
	}
	return leafProse, 0
}

// maxRule bounds a rule: it separates, it does not fill.
const maxRule = 40

// rule writes a horizontal line.
func (t *Terminal) rule(body string) {
	n := min(t.room(), maxRule)
	if t.color {
		t.put(styleDim, strings.Repeat("─", n), n)
	} else {
		n = min(n, len(body))
		t.put(0, strings.Repeat(body[:1], n), n)
	}
	t.newline()
	t.mode = modeDone
}

// openFence begins a block of code. With colours its fences are not shown.
func (t *Terminal) openFence(b start, body string, n int, first, rest string) {
	t.fence = fence{sign: body[0], length: n, quotes: b.quotes, indent: b.indent + len(b.mark), margin: rest}
	t.mode = modeDone
	switch {
	case !t.color:
		t.margins(first, rest)
		t.say(0, body, true)
		t.endWord()
		t.forceLine()
	case b.mark != "":
		t.margins(first, rest)
		t.forceLine()
	}
	if t.color {
		t.fence.margin += "  "
	}
}

// beginCode begins a line of the open code block, or ends the block.
// inside is false when the line does not belong to it.
func (t *Terminal) beginCode(s string, ended bool) (n int, ok, inside bool) {
	at := 0
	for range t.fence.quotes {
		b := blanks(s[at:])
		switch {
		case at+b == len(s) && !ended:
			return 0, false, true
		case at+b == len(s) || s[at+b] != '>':
			return 0, false, false
		}
		at += b + 1
		if at < len(s) && s[at] == ' ' {
			at++
		} else if at == len(s) && !ended {
			return 0, false, true
		}
	}
	body := at + blanks(s[at:])
	end := body
	for end < len(s) && s[end] == t.fence.sign {
		end++
	}
	if strings.Trim(s[end:], " \t") == "" {
		if !ended {
			return 0, false, true
		}
		if end-body >= t.fence.length {
			t.closeFence(s[body:end])
			return len(s), true, true
		}
	}
	t.codeLine()
	return at + min(body-at, t.fence.indent), true, true
}

func (t *Terminal) codeLine() {
	t.mode = modeCode
	t.spaced()
	t.margins(t.fence.margin, t.fence.margin)
}

func (t *Terminal) closeFence(closer string) {
	if !t.color {
		t.margins(t.fence.margin, t.fence.margin)
		t.say(0, closer, true)
		t.endWord()
		t.forceLine()
	}
	t.fence = fence{}
	t.mode = modeDone
}
