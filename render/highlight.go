package render

import (
	"bufio"
	"strings"
	"unicode/utf8"
)

// Code is coloured here: comments, strings, keywords and numbers, as far as they
// can be recognised without understanding the language. A wrong guess costs a
// colour and nothing else, because colouring never changes the text: each byte
// is written once, in order, escaped as it would be without colours.
//
// Each byte is examined a bounded number of times. Something that is opened and
// never closed extends to the end of its line, or of the code; nothing is tried
// twice.

// maxHighlight is how many bytes of code are coloured in one text. More was not written
// to be read, and each span takes space on the page and time in the browser.
const maxHighlight = 200 << 10

// Kinds of spans, by their names in the style sheet.
const (
	plain    = ""
	comment  = "hl-c"
	quoted   = "hl-s"
	keyword  = "hl-k"
	number   = "hl-n"
	tagName  = "hl-t"
	attrName = "hl-a"
	inserted = "hl-i"
	deleted  = "hl-d"
)

// highlight writes clean code as HTML text with spans around its tokens. No
// span is left open, and none is nested.
func highlight(w *bufio.Writer, language, code string) {
	var g *grammar
	if language != "" && len(code) <= maxHighlight {
		g = languages()[strings.ToLower(language)]
	}
	p := painter{w: w, s: code}
	switch {
	case g == nil:
	case g.form == markupForm:
		p.markup()
	case g.form == diffForm:
		p.diff()
	default:
		p.code(g, 0, len(code))
	}
	escape(w, code[p.done:])
}

// painter writes s from beginning to end.
type painter struct {
	w    *bufio.Writer
	s    string
	done int // how much of s is written
}

// paint puts s[from:to] in a span and returns where the span ends. That is
// after to when the next character belongs to the one before it: a keycap is
// spelled with a digit, and cut in two it would be a hidden character.
func (p *painter) paint(from, to int, class string) int {
	if class == plain || from == to || p.tied(from) {
		return to
	}
	for p.tied(to) {
		_, size := utf8.DecodeRuneInString(p.s[to:])
		to += size
	}
	escape(p.w, p.s[p.done:from])
	p.w.WriteString(`<span class="`)
	p.w.WriteString(class)
	p.w.WriteString(`">`)
	escape(p.w, p.s[from:to])
	p.w.WriteString("</span>")
	p.done = to
	return to
}

// tied reports whether the characters around at belong together.
func (p *painter) tied(at int) bool {
	if at == len(p.s) || at == 0 {
		return false
	}
	if next, _ := utf8.DecodeRuneInString(p.s[at:]); isJoiner(next) || isSelector(next) {
		return true
	}
	prev, _ := utf8.DecodeLastRuneInString(p.s[:at])
	return isJoiner(prev)
}

// code paints s[at:end].
func (p *painter) code(g *grammar, at, end int) {
	s := p.s[:end]
	first := true // only blanks so far on this line
	for at < end {
		switch s[at] {
		case '\n':
			first = true
			at++
			continue
		case ' ', '\t':
			at++
			continue
		}
		to, class := at, plain
		if first {
			to, class = g.front(s, at)
		}
		if to == at {
			to, class = g.token(s, at)
		}
		first = first && g.key == ':' && s[at] == '-' && to == at+1 // a list item, which may be a key
		at = p.paint(at, to, class)
	}
}

// maxKey is how far a line is searched for the sign after its key. A row of
// items on one line is searched from each of them.
const maxKey = 120

// front returns the end of what has a meaning only at the front of a line;
// at means that there is none.
func (g *grammar) front(s string, at int) (int, string) {
	switch {
	case g.directive && s[at] == '#':
		to := at + 1 + blanks(s[at+1:])
		for to < len(s) && letter(s[to]) {
			to++
		}
		return to, keyword
	case g.section && s[at] == '[':
		to := lineEnd(s, at)
		if body := strings.TrimRight(s[at:to], " \t"); body[len(body)-1] == ']' && strings.IndexByte(body, ',') < 0 {
			return at + len(body), tagName
		}
	case g.key != 0:
		for i := at; i < min(len(s), at+maxKey); i++ {
			switch c := s[i]; {
			case c == g.key && i > at && (c != ':' || i+1 == len(s) || s[i+1] == ' ' || s[i+1] == '\n'):
				return at + len(strings.TrimRight(s[at:i], " \t")), attrName
			case strings.IndexByte("\n#;\"'{}[]()", c) >= 0, c == '-' && i == at:
				return at, plain
			}
		}
	}
	return at, plain
}

// token returns the end of the token that begins at at, and what it is.
func (g *grammar) token(s string, at int) (int, string) {
	if to, class := g.sign(s, at); to > at {
		return to, class
	}
	switch c := s[at]; {
	case c >= '0' && c <= '9':
		return g.number(s, at), number
	case g.form == styleForm && (c == '@' || c == '#'):
		return g.styleSign(s, at)
	case g.inWord(c) && (c != '-' || at+1 < len(s) && (letter(s[at+1]) || s[at+1] == '-')):
		to := at + 1
		for to < len(s) && g.inWord(s[to]) {
			to++
		}
		return to, g.word(s, at, to)
	}
	return at + 1, plain
}

// sign returns the end of the comment or string that begins at at; at means
// that there is none.
func (g *grammar) sign(s string, at int) (int, string) {
	if !g.leads[s[at]] {
		return at, plain
	}
	apart := at == 0 || strings.IndexByte(" \t\n;([{,", s[at-1]) >= 0
	for _, b := range g.blocks {
		if strings.HasPrefix(s[at:], b.open) {
			return b.end(s, at), comment
		}
	}
	if apart || !g.apart {
		for _, sign := range g.comments {
			if strings.HasPrefix(s[at:], sign) {
				return lineEnd(s, at), comment
			}
		}
	}
	if !apart && g.key == ':' {
		return at, plain // an apostrophe within a word
	}
	for _, q := range g.quotes {
		if !strings.HasPrefix(s[at:], q.open) {
			continue
		}
		to := q.end(s, at)
		if g.pairs && to < len(s) && strings.HasPrefix(strings.TrimLeft(s[to:], " \t\n"), ":") {
			return to, attrName
		}
		if to > at {
			return to, quoted
		}
	}
	return at, plain
}

// number includes letters: they are the base, the type or the unit.
func (g *grammar) number(s string, at int) int {
	for at++; at < len(s); at++ {
		c, prev := s[at], s[at-1]
		switch {
		case c != '-' && c != '\'' && g.inWord(c):
		case c == '.' && at+1 < len(s) && s[at+1] >= '0' && s[at+1] <= '9':
		case (c == '-' || c == '+') && prev|0x20 == 'e' && at+1 < len(s) && s[at+1] >= '0' && s[at+1] <= '9':
		default:
			return at
		}
	}
	return at
}

func (g *grammar) inWord(c byte) bool {
	return letter(c) || c >= '0' && c <= '9' || c == '_' || c == '$' || c >= utf8.RuneSelf || g.wordSigns != "" && strings.IndexByte(g.wordSigns, c) >= 0
}

// longestWord is longer than every keyword.
const longestWord = 24

// word returns what the word s[at:to] is.
func (g *grammar) word(s string, at, to int) string {
	if g.form == styleForm {
		before := strings.TrimRight(s[:at], " \t\n")
		if before != "" && strings.IndexByte("{;/", before[len(before)-1]) >= 0 && strings.HasPrefix(strings.TrimLeft(s[to:], " \t"), ":") {
			return attrName
		}
		return plain
	}
	if to-at > longestWord || at > 0 && s[at-1] == '.' && !strings.HasSuffix(s[:at], "..") {
		return plain // a member may have the name of a keyword
	}
	name := s[at:to]
	if g.fold {
		name = strings.ToLower(name)
	}
	if g.words[name] {
		return keyword
	}
	return plain
}

// styleSign returns the end of an at-rule's name or of a colour in a style
// sheet.
func (g *grammar) styleSign(s string, at int) (int, string) {
	to := at + 1
	for to < len(s) && g.inWord(s[to]) {
		to++
	}
	if s[at] == '@' {
		return to, keyword
	}
	name := s[at+1 : to]
	if len(name) < 3 || len(name) > 8 || strings.Trim(name, "0123456789abcdefABCDEF") != "" {
		return to, plain
	}
	return to, number
}

func lineEnd(s string, at int) int {
	if n := strings.IndexByte(s[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(s)
}

// maxRune bounds the name of a character after its backslash.
const maxRune = 12

// end returns where what q opens at at ends; at means that it opens nothing
// there.
func (q quote) end(s string, at int) int {
	i := at + len(q.open)
	if q.single {
		if strings.HasPrefix(s[i:], `\`) && i+2 < len(s) {
			n := strings.IndexAny(s[i+2:min(i+2+maxRune, len(s))], "'\n")
			if n >= 0 && s[i+2+n] == '\'' {
				return i + 3 + n
			}
			return at
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == '\'' || r == '\n' || !strings.HasPrefix(s[i+size:], "'") {
			return at
		}
		return i + size + 1
	}
	for i < len(s) {
		switch {
		case q.escape && s[i] == '\\':
			i++
		case s[i] == '\n' && !q.lines:
			return i
		case strings.HasPrefix(s[i:], q.close):
			return i + len(q.close)
		}
		i++
	}
	return len(s)
}

// diff colours removed and added lines. The signs in front say what the
// colours say.
func (p *painter) diff() {
	heads := 0 // how many of the two lines that name the files are still to come
	for at := 0; at < len(p.s); {
		to := lineEnd(p.s, at)
		line, below := p.s[at:to], p.s[min(to+1, len(p.s)):]
		class := plain
		if strings.HasPrefix(line, "--- ") && strings.HasPrefix(below, "+++ ") {
			heads = 2
		}
		switch {
		case heads > 0, strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "index "):
			class = comment
		case strings.HasPrefix(line, "@@"):
			class = keyword
		case strings.HasPrefix(line, "+"):
			class = inserted
		case strings.HasPrefix(line, "-"):
			class = deleted
		}
		heads = max(heads-1, 0)
		at = max(p.paint(at, to, class), to+1)
	}
}
