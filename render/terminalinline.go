package render

import "strings"

// How far ahead the end of a construct is searched. Until it is found, or that
// much text came, or the line ended, the text after a sign that may begin it
// waits; a stray asterisk should not hold back a paragraph.
const (
	maxEmphasis = 256
	maxSpan     = 512  // a code span, the text of a link
	maxLink     = 2048 // with its address
	maxNested   = 4    // nested emphasis
)

// inline writes the text of one line, or the part of it that came so far.
type inline struct {
	s     string
	ended bool // nothing more comes
	prev  byte // the byte before s, 0 if none
	color bool
	depth int
	say   func(look looks, s string, ends bool) int
}

// special are the signs that may begin a construct.
const special = "\\`*_~[!<"

// run writes as much as is certain, and returns how much of s that is.
func (i *inline) run(look looks) int {
	at := 0
	for at < len(i.s) {
		n := strings.IndexAny(i.s[at:], special)
		if n < 0 {
			return at + i.say(look, i.s[at:], i.ended)
		}
		if n > 0 {
			i.say(look, i.s[at:at+n], true)
			at += n
		}
		n = i.sign(at, look)
		if n == 0 {
			return at
		}
		at += n
	}
	return at
}

// window returns the text that may be examined from a position on, and
// whether it is complete.
func (i *inline) window(at, most int) (w string, complete bool) {
	if w = i.s[at:]; len(w) >= most {
		return w[:most], true
	}
	return w, i.ended
}

// sign writes the construct that begins at a position and returns its
// length, 0 if more text is needed.
func (i *inline) sign(at int, look looks) int {
	w, complete := i.window(at, maxLink)
	var n int
	ok := true
	switch w[0] {
	case '\\':
		if len(w) == 1 && !complete {
			return 0
		}
		if len(w) > 1 && isPunct(w[1]) {
			if i.color {
				i.say(look, w[1:2], true)
			} else {
				i.say(look, w[:2], true)
			}
			return 2
		}
	case '`':
		n, ok = i.codeSpan(at, look)
	case '*', '_', '~':
		n, ok = i.emphasis(at, look)
	case '[':
		n, ok = i.link(at, 0, look)
	case '!':
		if len(w) == 1 && !complete {
			return 0
		}
		if len(w) > 1 && w[1] == '[' {
			n, ok = i.link(at, 1, look)
		}
	case '<':
		n, ok = i.address(at, look)
	}
	switch {
	case !ok:
		return 0
	case n > 0:
		return n
	}
	// It begins nothing; this applies to a whole run of signs.
	n = 1
	if strings.IndexByte("`*_~", w[0]) >= 0 {
		w, _ = i.window(at, maxEmphasis)
		n = run(w)
	}
	i.say(look, w[:n], true)
	return n
}

func isPunct(c byte) bool {
	return c > ' ' && c < 0x7f && !isWordByte(c)
}

// isWordByte reports whether c is part of a word, which everything beyond ASCII
// is.
func isWordByte(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// codeSpan writes the code span at a position. n is 0 if there is none.
func (i *inline) codeSpan(at int, look looks) (n int, ok bool) {
	w, complete := i.window(at, maxSpan)
	open := run(w)
	end := codeEnd(w, 0)
	switch {
	case end < 0 || end == len(w) && !complete: // another backtick may follow
		return 0, complete
	case !i.color:
		i.say(look, w[:end], true)
		return end, true
	}
	code := w[open : end-open]
	if len(code) > 2 && code[0] == ' ' && code[len(code)-1] == ' ' {
		code = code[1 : len(code)-1]
	}
	i.say(look|styleCode, code, true)
	return end, true
}

// codeEnd returns where the code span that begins at a position ends, -1 if
// nowhere.
func codeEnd(w string, at int) int {
	open := run(w[at:])
	for j := at + open; j < len(w); {
		next := strings.IndexByte(w[j:], '`')
		if next < 0 {
			return -1
		}
		j += next
		n := run(w[j:])
		j += n
		if n == open {
			return j
		}
	}
	return -1
}

// emphasis writes the bold, italic or struck text at a position.
func (i *inline) emphasis(at int, look looks) (n int, ok bool) {
	w, complete := i.window(at, maxEmphasis)
	c, open := w[0], run(w)
	if open == len(w) {
		return 0, complete
	}
	before := i.prev
	if at > 0 {
		before = i.s[at-1]
	}
	switch {
	case w[open] == ' ' || w[open] == '\t', open > 3, c == '~' && open != 2,
		c == '_' && isWordByte(before), i.depth >= maxNested, !i.color:
		return 0, true
	}
	inner, end, ok := closing(w, c, open, complete)
	if end == 0 {
		return 0, ok
	}
	switch {
	case c == '~':
		look |= styleStrike
	case open == 1:
		look |= styleItalic
	case open == 2:
		look |= styleBold
	default:
		look |= styleBold | styleItalic
	}
	i.within(w[open:inner], look)
	return end, true
}

// within writes text that is part of another construct.
func (i *inline) within(s string, look looks) {
	in := inline{s: s, ended: true, color: i.color, depth: i.depth + 1, say: i.say}
	in.run(look)
}

// closing finds the signs that close what open signs c at the front of w
// opened: the ends of its text and of the whole. end is 0 when there are none;
// then ok is false while they may still come.
func closing(w string, c byte, open int, complete bool) (inner, end int, ok bool) {
	for j := open; j < len(w); {
		switch w[j] {
		case '\\':
			j += 2
			continue
		case '`':
			e := codeEnd(w, j)
			switch {
			case !complete && (e < 0 || e == len(w)):
				return 0, 0, false // code is not emphasis
			case e < 0:
				e = j + run(w[j:])
			}
			j = e
			continue
		case c:
		default:
			j++
			continue
		}
		n := run(w[j:])
		if j+n == len(w) && !complete {
			return 0, 0, false
		}
		fits := n == open || n > open && n != 2
		if fits && w[j-1] != ' ' && w[j-1] != '\t' && (c != '_' || j+n == len(w) || !isWordByte(w[j+n])) {
			return j + n - open, j + n, true
		}
		j += n
	}
	return 0, 0, complete
}

// link writes the link or, after a !, the image at a position: its text,
// followed by its address.
func (i *inline) link(at, skip int, look looks) (n int, ok bool) {
	w, complete := i.window(at, maxLink)
	text, url, n, ok := linkParts(w[skip:], complete)
	if n == 0 {
		return 0, ok
	}
	if skip > 0 {
		i.say(look|styleDim, "image: ", true)
	}
	if text != "" && text != url {
		i.within(text, look|styleUnder)
		if url != "" {
			i.say(look, " ", true)
		}
	}
	switch {
	case url == "":
	case text == "" || text == url:
		i.say(look|styleUnder, url, true)
	default:
		i.say(look|styleDim, "("+url+")", true)
	}
	return skip + n, true
}

// maxWithin is how deep brackets may be nested in a link. It bounds the
// cost of a line of nothing but brackets.
const maxWithin = 8

// linkParts splits a link. n is 0 when it is none; then ok is false while it
// may become one.
func linkParts(w string, complete bool) (text, url string, n int, ok bool) {
	end, ok := linkText(w, complete)
	if end == 0 {
		return "", "", 0, ok
	}
	n, ok = linkEnd(w, end+2, complete)
	if n == 0 {
		return "", "", 0, ok
	}
	url, _, _ = strings.Cut(strings.TrimSpace(w[end+2:n-1]), " ")
	return w[1:end], strings.Trim(url, "<>"), n, true
}

// linkText returns where the text of a link with an address ends, 0 if it
// is none, or not yet.
func linkText(w string, complete bool) (end int, ok bool) {
	depth := 0
	for ; end < len(w) && end < maxSpan; end++ {
		switch w[end] {
		case '\\':
			end++
			continue
		case '[':
			if depth++; depth > maxWithin {
				return 0, true
			}
		case ']':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	switch {
	case end >= maxSpan:
		return 0, true
	case end+1 >= len(w):
		return 0, complete
	case w[end+1] != '(':
		return 0, true
	}
	return end, true
}

// linkEnd returns where a link ends whose address begins at a position, 0 if
// it is none, or not yet.
func linkEnd(w string, at int, complete bool) (end int, ok bool) {
	quote := byte(0) // the quote around the title
	for parens := 1; at < len(w); at++ {
		switch c := w[at]; {
		case c == '\\':
			at++
		case c == quote:
			quote = 0
		case quote != 0:
		case (c == '"' || c == '\'') && w[at-1] == ' ':
			quote = c
		case c == '(':
			if parens++; parens > maxWithin {
				return 0, true
			}
		case c == ')':
			parens--
		case w[at-1] == ' ' && c != ' ' && w[at-2] != '(':
			return 0, true // an address has no blanks
		}
		if parens == 0 {
			return at + 1, true
		}
	}
	return 0, complete
}

// address writes an address between < and >.
func (i *inline) address(at int, look looks) (n int, ok bool) {
	w, complete := i.window(at, maxLink)
	end := strings.IndexAny(w[1:], "<> ") + 1
	switch {
	case end == 0:
		return 0, complete
	case w[end] != '>' || !strings.Contains(w[:end], "://") && !strings.HasPrefix(w, "<mailto:"):
		return 0, true
	}
	i.say(look|styleUnder, w[1:end], true)
	return end + 1, true
}
