package render

import "strings"

// markup colours HTML and XML.
func (p *painter) markup() {
	for at := 0; at < len(p.s); {
		n := strings.IndexByte(p.s[at:], '<')
		if n < 0 {
			return
		}
		at += n
		rest := p.s[at:]
		switch {
		case strings.HasPrefix(rest, "<!--"):
			at = p.paint(at, quote{open: "<!--", close: "-->", lines: true}.end(p.s, at), comment)
		case strings.HasPrefix(rest, "<![CDATA["):
			at = p.paint(at, quote{open: "<![CDATA[", close: "]]>", lines: true}.end(p.s, at), quoted)
		case len(rest) > 1 && (letter(rest[1]) || strings.IndexByte("/!?", rest[1]) >= 0):
			at = p.tag(at)
		default:
			at++
		}
	}
}

// tag colours a tag, including the content of a script or a style, and returns
// where it ends.
func (p *painter) tag(at int) int {
	to := at + 2
	for to < len(p.s) && inName(p.s[to]) {
		to++
	}
	name := strings.ToLower(p.s[at+1 : min(to, at+1+longestWord)])
	at = p.paint(at, to, tagName)
	for at < len(p.s) {
		to = at + 1
		switch c := p.s[at]; {
		case c == '<':
			return at // it is not a tag
		case c == '>':
			at = p.paint(at, to, tagName)
			if name == "script" || name == "style" {
				at = p.foreign(name, at)
			}
			return at
		case c == '"' || c == '\'':
			at = p.paint(at, quote{open: p.s[at:to], close: p.s[at:to], lines: true}.end(p.s, at), quoted)
		case inName(c):
			for to < len(p.s) && inName(p.s[to]) {
				to++
			}
			class := attrName
			if p.s[at-1] == '=' {
				class = quoted
			}
			at = p.paint(at, to, class)
		default:
			at++
		}
	}
	return at
}

// foreign colours a script or a style up to its closing tag.
func (p *painter) foreign(name string, at int) int {
	end := at
	for {
		n := strings.Index(p.s[end:], "</")
		if n < 0 {
			end = len(p.s)
			break
		}
		end += n
		if rest := p.s[end+2:]; len(rest) >= len(name) && strings.EqualFold(rest[:len(name)], name) {
			break
		}
		end += 2
	}
	language := "js"
	if name == "style" {
		language = "css"
	}
	p.code(languages()[language], at, end)
	return max(end, p.done)
}

func inName(c byte) bool {
	return letter(c) || c >= '0' && c <= '9' || c >= 0x80 || strings.IndexByte("_:.-@#", c) >= 0
}
