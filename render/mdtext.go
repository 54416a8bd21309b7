package render

import (
	"bufio"
	"strings"
)

// A message is Markdown already, and an export keeps it unchanged except where
// it could affect text outside the message, or make a viewer run, load or
// follow something. The rules hold for any viewer, also for one that disagrees
// about where a list or a paragraph ends:
//
//   - A line that opens or closes a code block is moved to the first column.
//     There it is a fence for every viewer, whatever list it was in, so that
//     this package and the viewer agree on what is code. An open one is
//     closed.
//   - Outside of such blocks, and of code spans that begin and end on a line
//     that can be read in one way only, a < that could begin a tag is written
//     as an entity, and so are the signs that make an image (it would be
//     loaded), a link to anything but the web, mail or a relative target, and
//     a definition, which would affect other messages. An entity is text to
//     every viewer, whatever precedes it.
//   - Headings are lowered by two levels, so that none passes for the head of
//     an entry.
type mdText struct {
	w     *bufio.Writer
	s     string // the text
	done  int    // how much of it is written, so that unchanged text is written in one piece
	fence string // what closes the open code block
	strip int    // indentation of its first line
	doubt bool   // this paragraph may contain a code span of several lines
	above bool   // the line above contains text
}

// text writes s and ends it with a newline.
func (t *mdText) text(s string) {
	t.s, t.done = strings.TrimRight(Clean(s), "\n"), 0
	for at := 0; at <= len(t.s); {
		end := len(t.s)
		if n := strings.IndexByte(t.s[at:], '\n'); n >= 0 {
			end = at + n
		}
		t.line(at, end)
		at = end + 1
	}
	t.w.WriteString(t.s[t.done:])
	t.w.WriteByte('\n')
	if t.fence != "" {
		t.w.WriteString(t.fence)
		t.w.WriteByte('\n')
	}
}

// replace writes the text up to from, and with in place of the text up to to.
func (t *mdText) replace(from, to int, with string) {
	t.w.WriteString(t.s[t.done:from])
	t.w.WriteString(with)
	t.done = to
}

func (t *mdText) line(at, end int) {
	indent := blanks(t.s[at:end])
	body := t.s[at+indent : end]
	switch {
	case t.fence != "":
		t.code(at, end, indent)
		return
	case body == "":
		t.doubt, t.above = false, false
		return
	case openFence(body) > 0:
		t.open(at, end, body, indent)
		return
	}
	if n := markers(body); n > 0 && openFence(body[n:]) > 0 {
		// A list item that is a code block: the item stays, empty. A lone
		// dash below text would turn the text into a heading.
		if t.above {
			t.replace(at, at, "\n")
		}
		sign := len(strings.TrimRight(body[:n], " \t"))
		t.replace(at+indent+sign, at+indent+n, "\n")
		t.open(at+indent+n, end, body[n:], indent+n)
		return
	}
	t.doubt = t.doubt || mayDefine(body)
	t.inline(t.start(at, indent, body), end)
	t.above = true
}

// blanks returns the number of blanks at the front of s.
func blanks(s string) int {
	n := 0
	for n < len(s) && (s[n] == ' ' || s[n] == '\t') {
		n++
	}
	return n
}

// openFence returns the length of the fence at the front of s, 0 if there is
// none.
func openFence(s string) int {
	if s == "" || s[0] != '`' && s[0] != '~' {
		return 0
	}
	n := run(s)
	if n < 3 || s[0] == '`' && strings.IndexByte(s[n:], '`') >= 0 {
		return 0
	}
	return n
}

// run returns how often the first byte of s is repeated.
func run(s string) int {
	n := 1
	for n < len(s) && s[n] == s[0] {
		n++
	}
	return n
}

// markers returns the length of the list item signs at the front of s.
func markers(s string) int {
	at := 0
	for at < len(s) {
		n := 0
		switch c := s[at]; {
		case c == '-' || c == '+' || c == '*':
			n = 1
		case c >= '0' && c <= '9':
			for at+n < len(s) && s[at+n] >= '0' && s[at+n] <= '9' {
				n++
			}
			if at+n == len(s) || s[at+n] != '.' && s[at+n] != ')' {
				return at
			}
			n++
		default:
			return at
		}
		if at+n == len(s) || s[at+n] != ' ' && s[at+n] != '\t' {
			return at
		}
		for at+n < len(s) && (s[at+n] == ' ' || s[at+n] == '\t') {
			n++
		}
		at += n
	}
	return at
}

// open begins a code block at the front of the line. Of the text after the
// fence only a plain word stays, the language: some viewers run blocks marked
// {r}.
func (t *mdText) open(at, end int, fence string, indent int) {
	n := openFence(fence)
	t.fence, t.strip = fence[:n], indent
	name := language(fence[n:])
	if len(t.fence)+len(name) < end-at {
		t.replace(at, end, t.fence+name)
	}
}

// language returns the word at the front of the text after a fence, if it
// can be the name of a language.
func language(info string) string {
	info = strings.TrimLeft(info, " \t")
	for i := range len(info) {
		switch c := info[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
		case c == '_' || c == '+' || c == '#' || c == '.' || c == '-':
		default:
			return info[:i]
		}
	}
	return info
}

// code handles a line of a code block, which may end it.
func (t *mdText) code(at, end, indent int) {
	body := t.s[at+indent : end]
	if body != "" && body[0] == t.fence[0] {
		if n := run(body); n >= len(t.fence) && blanks(body[n:]) == len(body)-n {
			if len(t.fence) < end-at {
				t.replace(at, end, t.fence)
			}
			t.fence, t.doubt, t.above = "", false, false
			return
		}
	}
	n := 0
	for n < t.strip && at+n < end && t.s[at+n] == ' ' {
		n++
	}
	if n > 0 {
		t.replace(at, at+n, "")
	}
}

// start handles the signs at the front of a line that would make it a heading
// or a fence, and returns where the text after them begins.
func (t *mdText) start(at, indent int, s string) int {
	from := at + indent
	switch s[0] {
	case '#':
		n := run(s)
		shallow := indent < 4 && strings.IndexByte(t.s[at:from], '\t') < 0
		if n <= 6 && shallow && (n == len(s) || s[n] == ' ' || s[n] == '\t') {
			t.replace(from, from, "##"[:min(2, 6-n)])
			return from + n
		}
	case '-': // below text, a rule; without the blank line, a heading
		if n := run(s); t.above && blanks(s[n:]) == len(s)-n {
			t.replace(at, at, "\n")
		}
	case '=':
		if n := run(s); t.above && blanks(s[n:]) == len(s)-n {
			t.replace(from, from+1, "&#61;")
			return from + n
		}
	case '`': // no fence, but less exact viewers may take it for one
		if run(s) >= 3 {
			t.replace(from, from+1, "&#96;")
			t.doubt = true
			return from + 1
		}
	}
	return from
}

// telling are the bytes that inline handles.
var telling = [256]bool{'<': true, '`': true, '!': true, ']': true, '\\': true}

// inline handles the text of a line.
func (t *mdText) inline(from, end int) {
	s := t.s[:end]
	asked, spans, escaped := false, false, false
	for i := from; i < len(s); i++ {
		if !telling[s[i]] {
			escaped = false
			continue
		}
		next := byte(' ')
		if i+1 < len(s) {
			next = s[i+1]
		}
		switch s[i] {
		case '\\':
			escaped = !escaped
			continue
		case '`':
			if !asked {
				asked, spans = true, !t.doubt && plainSpans(s[from:])
				t.doubt = !spans
			}
			if spans {
				i += spanEnd(s[i:]) - 1
			}
		case '<':
			// Tags begin with a letter or one of a few signs, links in
			// angle brackets with nearly anything but a blank.
			if next != ' ' && next != '\t' {
				t.entity(i, escaped, "&lt;")
			}
		case '!':
			if next == '[' {
				t.entity(i, escaped, "&#33;")
			}
		case ']':
			if next == ':' {
				i++
				t.entity(i, false, "&#58;")
			} else if next == '(' && !nearby(s[i+2:]) {
				i++
				t.entity(i, false, "&#40;")
			}
		}
		escaped = false
	}
}

// entity writes an entity for the byte at i. A backslash before it is
// dropped: it meant the same, and would now break the entity.
func (t *mdText) entity(i int, escaped bool, entity string) {
	from := i
	if escaped {
		from--
	}
	t.replace(from, i+1, entity)
}

// plainSpans reports whether every code span that begins on the line ends on
// it, and within its cell should the line be a row of a table. With backslashes
// before the signs, formulas, or addresses that could swallow a sign, viewers
// differ.
func plainSpans(s string) bool {
	if strings.Contains(s, "\\`") || strings.IndexByte(s, '$') >= 0 {
		return false
	}
	for cell := range strings.SplitSeq(s, "|") {
		for at := 0; ; {
			i := strings.IndexByte(cell[at:], '`')
			if i < 0 {
				break
			}
			at += i
			n := spanEnd(cell[at:])
			if n == 0 || mayLink(cell[:at]) || mayMail(cell[at:at+n]) {
				return false
			}
			at += n
		}
	}
	return true
}

// longWord is how far back mayLink looks. A longer word may be
// anything.
const longWord = 200

// mayLink reports whether the word at the end of s, after its last blank, may
// be an address that continues after s.
func mayLink(s string) bool {
	from := max(len(s)-longWord, 0)
	i := strings.LastIndexAny(s[from:], " \t")
	if i < 0 && from > 0 {
		return true
	}
	word := s[from+i+1:]
	return strings.ContainsAny(word, ":@") || strings.Contains(word, "www")
}

// mayMail reports whether a mail address may begin before the span s or
// with its first sign, and continue within.
func mayMail(s string) bool {
	at := strings.IndexAny(s, " \t@")
	return at >= 0 && s[at] == '@'
}

// mayDefine reports whether a definition may begin on the line. Viewers look
// for definitions before code spans, so that a span does not protect the
// rest of it.
func mayDefine(s string) bool {
	if letter(s[0]) {
		return false
	}
	for before := len(s) + 1; len(s) < before; {
		before = len(s)
		s = strings.TrimLeft(s[markers(s):], " \t>")
	}
	if s == "" || s[0] != '[' {
		return false
	}
	i := strings.IndexByte(s, ']')
	return i < 0 || s[i-1] == '\\' || i+1 < len(s) && s[i+1] == ':'
}

// spanEnd returns the length of the code span at the front of s, 0 if it
// does not end.
func spanEnd(s string) int {
	open := run(s)
	for i := open; i < len(s); {
		j := strings.IndexByte(s[i:], '`')
		if j < 0 {
			return 0
		}
		i += j
		n := run(s[i:])
		i += n
		if n == open {
			return i
		}
	}
	return 0
}

// nearby reports whether what follows ]( leads to the web, to mail, or to a
// relative target. A target spelled with entities or escapes does not.
func nearby(dest string) bool {
	dest = strings.TrimLeft(dest, " \t")
	for i := range len(dest) {
		switch c := dest[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', c == '_', c == '.', c == '-', c == '~':
		case c == '/' || c == '?' || c == '#' || c == ')' || c == ' ':
			return true
		case c == ':':
			return goodScheme(dest[:i])
		default:
			return false
		}
	}
	return false
}

// goodScheme reports whether links may have the scheme.
func goodScheme(s string) bool {
	return strings.EqualFold(s, "https") || strings.EqualFold(s, "http") || strings.EqualFold(s, "mailto")
}

// mdLine returns s as one line of Markdown that is only text.
func mdLine(s string) string {
	s = CleanLine(s)
	if !strings.ContainsAny(s, mdSigns) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '<':
			b.WriteString("&lt;")
			continue
		case c == '&':
			b.WriteString("&amp;")
			continue
		case strings.IndexByte(mdSigns, c) >= 0:
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

const mdSigns = "\\`*_[]<>&~|$!#"
