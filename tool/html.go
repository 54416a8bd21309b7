package tool

import (
	"html"
	"strings"
)

// htmlText turns a page into readable text in a simple way: paragraphs and
// headings stay apart, links keep their address, and invisible parts are left
// out. It is no HTML parser: it ends for any input, and its output is text.
func htmlText(page string) string {
	w := &textWriter{}
	for page != "" {
		i := strings.IndexByte(page, '<')
		if i < 0 {
			w.text(page)
			break
		}
		w.text(page[:i])
		page = page[i:]
		switch {
		case strings.HasPrefix(page, "<!--"):
			page = after(page[4:], "-->")
		case len(page) > 1 && (isLetter(page[1]) || page[1] == '/' || page[1] == '!' || page[1] == '?'):
			page = w.tag(page)
		default: // a < that begins no tag
			w.text("<")
			page = page[1:]
		}
	}
	return w.String()
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// after returns what follows the first sep, "" when there is none.
func after(s, sep string) string {
	_, rest, _ := strings.Cut(s, sep)
	return rest
}

type textWriter struct {
	out   strings.Builder
	lines int  // newlines at the end of out
	space bool // a blank is due before the next word
	pre   int  // depth in <pre>
	href  string
	named bool // the title was looked for
}

// tag reads one tag, and returns what follows it.
func (w *textWriter) tag(page string) string {
	name, attrs, rest := cutTag(page)
	closing := strings.HasPrefix(name, "/")
	switch name {
	case "script", "style", "noscript", "template", "svg", "head", "iframe", "object":
		if name == "head" && !w.named {
			w.named = true
			w.title(rest)
		}
		if !strings.HasSuffix(attrs, "/") {
			return afterFold(rest, "</"+name)
		}
	case "br":
		w.breakLine(1)
	case "p", "/p", "div", "/div", "section", "/section", "article", "/article", "table", "/table", "ul", "/ul", "ol", "/ol",
		"blockquote", "/blockquote", "header", "/header", "footer", "/footer", "nav", "/nav", "main", "/main", "form", "/form", "hr", "dl", "/dl":
		w.breakLine(2)
	case "tr", "/tr", "dt", "dd", "option", "figcaption":
		w.breakLine(1)
	case "td", "th":
		w.text(" ")
	case "li":
		w.breakLine(1)
		w.word("- ")
	case "pre", "/pre":
		w.breakLine(2)
		if closing {
			w.pre = max(w.pre-1, 0)
		} else {
			w.pre++
		}
	case "h1", "h2", "h3", "h4", "h5", "h6":
		w.breakLine(2)
		w.word(strings.Repeat("#", int(name[1]-'0')) + " ")
	case "/h1", "/h2", "/h3", "/h4", "/h5", "/h6":
		w.breakLine(2)
	case "a":
		w.href = html.UnescapeString(attribute(attrs, "href"))
	case "/a":
		if strings.HasPrefix(w.href, "http://") || strings.HasPrefix(w.href, "https://") || strings.HasPrefix(w.href, "/") {
			w.text(" (" + w.href + ")")
		}
		w.href = ""
	case "img":
		if alt := attribute(attrs, "alt"); alt != "" {
			w.text("[" + alt + "]")
		}
	}
	return rest
}

// title writes the title from a head, which is otherwise left out.
func (w *textWriter) title(head string) {
	i := indexFold(head, "<title")
	end := indexFold(head, "</head")
	if i < 0 || end >= 0 && i > end {
		return
	}
	title, _, _ := strings.Cut(after(head[i:], ">"), "<")
	w.text(title)
	w.breakLine(2)
}

// cutTag splits a page that begins with a tag into the tag's name in lower
// case, its attributes and the rest. A > inside quotes does not end the tag.
func cutTag(page string) (name, attrs, rest string) {
	var quote byte
	end := len(page)
	for i := 1; i < len(page); i++ {
		c := page[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && page[i-1] == '=':
			quote = c
		case c == '>':
			end = i
		}
		if end == i {
			break
		}
	}
	if end < len(page) {
		rest = page[end+1:]
	}
	body := page[1:end]
	n := strings.IndexAny(body, " \t\r\n")
	if n < 0 {
		n = len(body)
	}
	name, closed := strings.CutSuffix(body[:n], "/")
	if attrs = body[n:]; closed {
		attrs += "/"
	}
	return strings.ToLower(name), attrs, rest
}

func attribute(attrs, name string) string {
	i := indexFold(attrs, " "+name+"=")
	if i < 0 {
		return ""
	}
	v := attrs[i+len(name)+2:]
	if v != "" && (v[0] == '"' || v[0] == '\'') {
		v, _, _ = strings.Cut(v[1:], v[:1])
		return v
	}
	v, _, _ = strings.Cut(v, " ")
	return v
}

// indexFold finds an ASCII text, ignoring case.
func indexFold(s, sub string) int {
	for i := 0; i+len(sub) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(sub)], sub) {
			return i
		}
	}
	return -1
}

// afterFold returns what follows the closing tag that begins with end.
func afterFold(s, end string) string {
	i := indexFold(s, end)
	if i < 0 {
		return ""
	}
	return after(s[i:], ">")
}

func (w *textWriter) text(s string) {
	s = html.UnescapeString(s)
	if w.pre > 0 {
		w.word(s)
		return
	}
	for i, part := range strings.FieldsFunc(s, isBlank) {
		if i > 0 || isBlank(rune(s[0])) {
			w.space = true
		}
		w.word(part)
	}
	if s != "" && isBlank(rune(s[len(s)-1])) {
		w.space = true
	}
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == '\f' }

func (w *textWriter) word(s string) {
	if s == "" {
		return
	}
	if w.space && w.lines == 0 && w.out.Len() > 0 {
		w.out.WriteByte(' ')
	}
	w.space = strings.HasSuffix(s, " ") && w.pre == 0
	if w.space {
		s = s[:len(s)-1]
	}
	w.out.WriteString(s)
	w.lines = 0
}

// breakLine makes sure that out ends in n newlines.
func (w *textWriter) breakLine(n int) {
	w.space = false
	for w.lines < n && w.out.Len() > 0 {
		w.out.WriteByte('\n')
		w.lines++
	}
}

func (w *textWriter) String() string { return strings.TrimSpace(w.out.String()) }
