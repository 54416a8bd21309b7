package render

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// The text of messages becomes HTML here. goldmark reads the Markdown; every
// tag and every attribute is written by this file, so that a page can contain
// only what is below. HTML within a message is shown as text, and so is what a
// Markdown viewer would hide: definitions, comments, and the target of a link
// that may not be followed.

// markdown is created when the first message is rendered, since most
// commands never render one.
var markdown = sync.OnceValue(newParser)

// mdHTML writes one text after another.
type mdHTML struct {
	w      *bufio.Writer
	s      *Words
	parser parser.Parser
	source []byte
	buf    []byte
	links  int  // number of open links, of which a page can show one
	cells  int  // number of open table cells
	task   bool // the next text may begin with the box of a task
	room   int  // how many bytes of link targets may still be written
	paint  int  // how many bytes of code may still be coloured
	framed bool // links open a window of their own
}

func (h *mdHTML) text(s string) {
	s = Clean(s)
	if tangled(s) {
		h.say(`<pre class="plain">`)
		preformatted(h.w, s)
		h.say("</pre>\n")
		return
	}
	if h.parser == nil {
		h.parser = markdown()
	}
	h.source = append(h.source[:0], s...)
	h.room = 4*len(s) + spareGoals
	h.paint = maxHighlight
	h.children(h.parser.Parse(text.NewReader(h.source)))
}

// Limits of what is read as Markdown. The time for reading grows with the
// square of these counts; what exceeds one of them was not written to be
// read, and is shown unchanged.
const (
	maxMarkdown   = 1 << 20 // bytes of one text
	maxContainers = 32      // nested quotes and lists that begin on one line
	maxIndented   = 400     // bytes of indentation, for lists nested line by line
	maxBrackets   = 400     // opened in one paragraph
	maxSigns      = 2000    // emphasis signs in one paragraph
	spareGoals    = 4096    // bytes of link targets beyond four times the text
)

// tangled reports whether s exceeds a limit.
func tangled(s string) bool {
	if len(s) > maxMarkdown {
		return true
	}
	brackets, signs := 0, 0
	for line := range strings.SplitSeq(s, "\n") {
		body := strings.TrimLeft(line, " \t")
		if body == "" {
			brackets, signs = 0, 0
			continue
		}
		if len(line)-len(body) > maxIndented || containers(body) > maxContainers {
			return true
		}
		for i := range len(body) {
			switch body[i] {
			case '[':
				brackets++
			case '*', '_', '~':
				signs++
			}
		}
		if brackets > maxBrackets || signs > maxSigns {
			return true
		}
	}
	return false
}

// containers counts the quote and list item signs at the front of s; a
// horizontal rule has none.
func containers(s string) int {
	if (s[0] == '-' || s[0] == '*') && strings.Trim(s, s[:1]+" \t") == "" {
		return 0
	}
	count := 0
	for i := range len(s) {
		switch s[i] {
		case '>', '-', '+', '*', '.', ')':
			count++
		case ' ', '\t', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		default:
			return count
		}
	}
	return count
}

func (h *mdHTML) say(s string) { h.w.WriteString(s) }

func (h *mdHTML) children(n ast.Node) {
	for c := n.FirstChild(); c != nil; {
		if t, ok := c.(*ast.Text); ok {
			c = h.run(t)
			continue
		}
		h.node(c)
		c = c.NextSibling()
	}
}

// within writes the children of n between an opening and a closing tag.
func (h *mdHTML) within(n ast.Node, open, end string) {
	h.say(open)
	h.children(n)
	h.say(end)
}

func (h *mdHTML) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		level := strconv.Itoa(min(n.Level+2, 6)) // below the page's title and the entry's head
		h.within(n, "<h"+level+">", "</h"+level+">\n")
	case *ast.Paragraph:
		h.within(n, "<p>", "</p>\n")
	case *ast.TextBlock:
		h.within(n, "", "\n")
	case *ast.Blockquote:
		h.within(n, "<blockquote dir=\"auto\">\n", "</blockquote>\n")
	case *ast.List:
		h.list(n)
	case *ast.ListItem:
		h.task = true
		h.within(n, "<li>", "</li>\n")
		h.task = false
	case *ast.ThematicBreak:
		h.say("<hr>\n")
	case *ast.CodeBlock:
		h.code(n, "")
	case *ast.FencedCodeBlock:
		h.code(n, language(string(n.Language(h.source))))
	case *ast.HTMLBlock:
		raw := string(n.Lines().Value(h.source))
		if n.HasClosure() {
			raw += string(n.ClosureLine.Value(h.source))
		}
		h.say(`<pre tabindex="0">`)
		preformatted(h.w, raw)
		h.say("</pre>\n")
	case *ast.LinkReferenceDefinition:
		h.definition(n)
	default:
		h.inline(n)
	}
}

func (h *mdHTML) list(n *ast.List) {
	if !n.IsOrdered() {
		h.within(n, "<ul dir=\"auto\">\n", "</ul>\n")
		return
	}
	open := "<ol dir=\"auto\">\n"
	if n.Start != 1 {
		open = `<ol dir="auto" start="` + strconv.Itoa(n.Start) + "\">\n"
	}
	h.within(n, open, "</ol>\n")
}

// code writes a code block. It can be scrolled, so it takes the focus:
// without a pointer there is no other way to see its end.
func (h *mdHTML) code(n ast.Node, language string) {
	h.say(`<pre tabindex="0"><code`)
	if language != "" {
		h.say(` class="language-` + language + `"`) // letters, digits, and a few signs
	}
	h.say(">")
	h.buf = h.buf[:0]
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		h.buf = append(h.buf, line.Value(h.source)...)
	}
	if h.paint -= len(h.buf); h.paint < 0 {
		language = "" // many small blocks count as much as a large one
	}
	highlight(h.w, language, string(h.buf))
	h.say("</code></pre>\n")
}

// definition shows the content of a link definition: a reader should not
// miss what a model was told.
func (h *mdHTML) definition(n *ast.LinkReferenceDefinition) {
	h.say(`<p class="definition">[`)
	escape(h.w, CleanLine(string(n.Label)))
	h.say("]: ")
	escape(h.w, CleanLine(string(n.Destination)))
	if len(n.Title) > 0 {
		h.say(" ")
		escape(h.w, CleanLine(string(n.Title)))
	}
	h.say("</p>\n")
}

func (h *mdHTML) inline(n ast.Node) {
	switch n := n.(type) {
	case *ast.Emphasis:
		if n.Level == 2 {
			h.within(n, "<strong>", "</strong>")
		} else {
			h.within(n, "<em>", "</em>")
		}
	case *strike:
		h.within(n, "<del>", "</del>")
	case *ast.CodeSpan:
		h.codeSpan(n)
	case *ast.Link:
		h.link(n, n.Destination, n.Title)
	case *ast.Image:
		h.image(n)
	case *ast.AutoLink:
		h.address(n.URL(h.source), n.AutoLinkType == ast.AutoLinkEmail)
	case *ast.RawHTML:
		escape(h.w, string(n.Segments.Value(h.source)))
	case *ast.String:
		h.decoded(n.Value)
	case *tableNode:
		h.table(n)
	default:
		h.children(n)
	}
}

func (h *mdHTML) table(n *tableNode) {
	switch {
	case n.kind == kindTable:
		// A wide table scrolls by itself instead of widening the page.
		h.within(n, `<div class="wide" tabindex="0"><table dir="auto">`+"\n", "</table></div>\n")
	case n.kind == kindRow:
		h.within(n, "<tr>", "</tr>\n")
	default:
		tag, open := "td", "<td"
		if n.head {
			tag, open = "th", `<th scope="col"`
		}
		switch n.align {
		case 'c':
			open += ` class="center"`
		case 'r':
			open += ` class="end"`
		}
		h.cells++
		h.within(n, open+">", "</"+tag+">")
		h.cells--
	}
}

func (h *mdHTML) codeSpan(n ast.Node) {
	h.say("<code>")
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		t, ok := c.(*ast.Text)
		if !ok {
			continue
		}
		s := string(t.Segment.Value(h.source))
		if h.cells > 0 {
			s = strings.ReplaceAll(s, `\|`, "|")
		}
		escape(h.w, strings.ReplaceAll(s, "\n", " "))
	}
	h.say("</code>")
}

// run writes t and the texts that continue it, and returns what follows.
// goldmark splits text at signs that turned out to mean nothing, and an
// address may contain some of them.
func (h *mdHTML) run(t *ast.Text) ast.Node {
	from, to := t.Segment.Start, t.Segment.Stop
	next := t.NextSibling()
	for !t.SoftLineBreak() && !t.HardLineBreak() && t.Segment.Padding == 0 {
		more, ok := next.(*ast.Text)
		if !ok || more.Segment.Start != to || more.Segment.Padding != 0 || more.IsRaw() != t.IsRaw() {
			break
		}
		t, to, next = more, more.Segment.Stop, more.NextSibling()
	}
	s := h.source[from:to]
	if h.task {
		s = h.box(s)
	}
	for h.links == 0 {
		start, end := findAddress(s)
		if end == 0 {
			break
		}
		h.decoded(s[:start])
		h.address(s[start:end], false)
		s = s[end:]
	}
	h.decoded(s)
	switch {
	case t.HardLineBreak():
		h.say("<br>\n")
	case t.SoftLineBreak():
		h.say("\n")
	}
	return next
}

// box writes the box of a task, if s begins with one, and returns the rest.
func (h *mdHTML) box(s []byte) []byte {
	h.task = false
	switch {
	case bytes.HasPrefix(s, []byte("[ ] ")):
		h.say("☐")
	case bytes.HasPrefix(s, []byte("[x] ")), bytes.HasPrefix(s, []byte("[X] ")):
		h.say("☑")
	default:
		return s
	}
	return s[3:]
}

// decoded writes Markdown text, in which entities and escapes stand for
// characters. It is cleaned again, because an entity can name a hidden
// character.
func (h *mdHTML) decoded(s []byte) {
	if bytes.IndexByte(s, '&') < 0 && bytes.IndexByte(s, '\\') < 0 {
		escape(h.w, string(s))
		return
	}
	h.buf = appendDecoded(h.buf[:0], s)
	escape(h.w, Clean(string(h.buf)))
}

// link writes a link with its children as its text.
func (h *mdHTML) link(n ast.Node, destination, title []byte) {
	if !h.affords(destination, title) {
		h.children(n)
		return
	}
	dest, ok := href(destination, true)
	if !ok || h.links > 0 {
		h.children(n)
		h.refused(destination)
		return
	}
	h.open(dest)
	if len(title) > 0 {
		h.say(` title="`)
		escape(h.w, CleanLine(string(appendDecoded(nil, title))))
		h.say(`"`)
	}
	h.say(">")
	h.links++
	if n.HasChildren() {
		h.children(n)
	} else {
		escape(h.w, dest)
	}
	h.links--
	h.say("</a>")
}

// affords reports whether there is room for a link target. One definition can
// be used by ten thousand links of three bytes each.
func (h *mdHTML) affords(destination, title []byte) bool {
	h.room -= len(destination) + len(title)
	return h.room >= 0
}

func (h *mdHTML) open(dest string) {
	h.say("<a")
	if h.framed {
		h.say(` target="_blank"`)
	}
	h.say(` rel="noopener noreferrer" href="`)
	escape(h.w, dest)
	h.say(`"`)
}

// refused shows where a link that may not be followed would have led.
func (h *mdHTML) refused(destination []byte) {
	h.say(` <span class="goal">(`)
	escape(h.w, CleanLine(string(appendDecoded(nil, destination))))
	h.say(")</span>")
}

// image writes an image as a link to it: an opened page loads nothing.
func (h *mdHTML) image(n *ast.Image) {
	room := h.affords(n.Destination, nil)
	dest, ok := "", false
	if room && h.links == 0 {
		dest, ok = href(n.Destination, true)
	}
	if ok {
		h.open(dest)
		h.say(">")
	}
	h.say("[")
	escape(h.w, h.s.Image)
	h.say(": ")
	h.links++
	h.children(n)
	h.links--
	h.say("]")
	switch {
	case ok:
		h.say("</a>")
	case room:
		h.refused(n.Destination)
	}
}

// address writes an address as a link to itself.
func (h *mdHTML) address(s []byte, email bool) {
	label := CleanLine(string(s))
	if email && !bytes.HasPrefix(bytes.ToLower(s), []byte("mailto:")) {
		s = append([]byte("mailto:"), s...)
	}
	dest, ok := href(s, false)
	if !ok || h.links > 0 {
		escape(h.w, label)
		return
	}
	h.open(dest)
	h.say(` class="self">`) // not repeated on paper
	escape(h.w, label)
	h.say("</a>")
}

// href returns a destination as an attribute value, and false unless it leads
// to the web or to mail.
func href(destination []byte, decode bool) (string, bool) {
	if decode {
		destination = appendDecoded(nil, destination)
	}
	scheme, rest, ok := bytes.Cut(destination, []byte{':'})
	if !ok || !goodScheme(string(scheme)) {
		return "", false
	}
	if !strings.EqualFold(string(scheme), "mailto") && !bytes.HasPrefix(rest, []byte("//")) {
		return "", false
	}
	return string(util.URLEscape(destination, false)), true
}

// findAddress returns where in s a web address is; end is 0 if there is none.
func findAddress(s []byte) (start, end int) {
	for at := 0; ; {
		i := bytes.Index(s[at:], []byte("://"))
		if i < 0 {
			return 0, 0
		}
		at += i
		start = at
		for start > 0 && at-start < len("https") && letter(s[start-1]) {
			start--
		}
		known := (start == 0 || !letter(s[start-1])) && goodScheme(string(s[start:at]))
		at += len("://")
		if !known {
			continue
		}
		end = at
		for end < len(s) && s[end] > ' ' && bytes.IndexByte([]byte("<>\"`|\\"), s[end]) < 0 {
			end++
		}
		if end = at + trimAddress(s[at:end]); end > at {
			return start, end
		}
	}
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// trimAddress returns the length of s without the signs at its end that
// belong to the surrounding sentence.
func trimAddress(s []byte) int {
	open, closed := bytes.Count(s, []byte{'('}), bytes.Count(s, []byte{')'})
	n := len(s)
	for ; n > 0; n-- {
		c := s[n-1]
		if c == ')' && closed > open {
			closed--
			continue
		}
		if bytes.IndexByte([]byte(".,:;!?'*_~]}"), c) < 0 {
			break
		}
	}
	return n
}
