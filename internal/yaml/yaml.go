// Package yaml reads untrusted YAML: it bounds what is short in a file and large
// in memory, records the position of each value, and reports every mistake that
// it can continue after. It writes nothing and opens nothing.
//
//	root, problems := yaml.Parse(data, yaml.Limits{Bytes: 1 << 20, …})
package yaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Limits bound a text before it is parsed, and its aliases while they are
// expanded.
type Limits struct {
	Bytes   int // of the text
	Parts   int // possible tokens: each takes hundreds of bytes
	Keys    int // of one mapping
	Depth   int // of nesting
	Anchors int // with aliases and tags
	Values  int // after aliases are expanded
}

// Shape is what a node is, for messages.
type Shape string

// The shapes.
const (
	Null   Shape = "nothing"
	Text   Shape = "a text"
	Number Shape = "a number"
	Bool   Shape = "true or false"
	List   Shape = "a list"
	Map    Shape = "a mapping"
)

// Node is a value with its position. Aliases are replaced: an anchor's value
// exists once, and is referred to from many places.
type Node struct {
	Shape        Shape
	Text         string // a scalar, as written
	Entries      []Entry
	Items        []*Node
	Line, Column int
	Size         int // the number of values, including nested ones
}

// Entry is a key of a mapping with its value.
type Entry struct {
	Key          string
	Value        *Node
	Line, Column int  // of the key
	Inherited    bool // Merged took it from the defaults
}

// Problem is a mistake and its position.
type Problem struct {
	Line, Column  int
	Message, Hint string
	Syntax        bool // it is not YAML: nothing could be read
}

// Error returns the problem in one line.
func (p Problem) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.Message) }

// Parse returns the one document of a text and what is wrong with it. The node
// is nil when a problem leaves nothing to look at, and when there is no
// document, which is valid YAML.
func Parse(data []byte, l Limits) (*Node, []Problem) {
	root, _, problems := parse(data, l)
	return root, problems
}

// Decode reads a text into a struct whose fields have yaml tags; unknown keys
// are problems. A text without a document changes nothing.
func Decode(data []byte, l Limits, into any) []Problem {
	root, raw, problems := parse(data, l)
	if root == nil || len(problems) > 0 {
		return problems
	}
	plainDates(raw)
	return problemsOf(raw.Load(into, yaml.WithV3Defaults(), yaml.WithKnownFields()), "")
}

// plainDates turns dates into strings: a person who writes one into a string
// field means the text, and no struct here has a time field.
func plainDates(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, c := range n.Content {
		plainDates(c)
	}
}

func parse(data []byte, l Limits) (root *Node, raw *yaml.Node, problems []Problem) {
	text, problem := readable(data, l)
	if problem != nil {
		return nil, nil, []Problem{*problem}
	}
	text, tab, restore := hide(text)
	// The parser is third-party, and the text untrusted.
	defer func() {
		if r := recover(); r != nil {
			root, problems = nil, []Problem{unreadable()}
		}
	}()
	raw, problems = document(text)
	for range maxRepairs {
		repaired, ok := indented(text, tab, problems)
		if !ok {
			break
		}
		text = repaired
		raw, problems = document(text)
	}
	if raw == nil || len(problems) > 0 {
		return nil, nil, problems
	}
	t := tree{Limits: l, restore: restore, made: map[*yaml.Node]*Node{}}
	root = t.node(raw, 0)
	if t.over {
		root = nil
	}
	return root, raw, t.problems
}

func unreadable() Problem {
	return Problem{Line: 1, Column: 1, Message: "this is not YAML that can be read", Hint: "look for quotes and brackets that are not closed", Syntax: true}
}

// Lines returns a text with plain line endings and without a byte order mark.
func Lines(text string) string {
	text = strings.TrimPrefix(text, "\ufeff")
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

func readable(data []byte, l Limits) (string, *Problem) {
	switch {
	case len(data) > l.Bytes:
		return "", &Problem{Line: 1, Column: 1, Message: fmt.Sprintf("is larger than %d bytes", l.Bytes)}
	case !utf8.Valid(data):
		return "", &Problem{Line: 1, Column: 1, Message: "is not UTF-8", Hint: "save it as UTF-8"}
	}
	text := Lines(string(data))
	if parts(text) > l.Parts {
		return "", &Problem{Line: 1, Column: 1, Message: fmt.Sprintf("has more than %d parts", l.Parts)}
	}
	if strings.Contains(text, `\/`) && json.Valid([]byte(text)) {
		text = slashes(text)
	}
	return text, nil
}

// slashes replaces JSON's \/, which the parser does not know, with a slash.
func slashes(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			if i++; text[i] != '/' {
				b.WriteByte('\\')
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// parts counts what may begin or end a token. A long prompt has many such
// characters and is one token; so the lines of a block that clearly begins with
// a key are not counted, unless a quote or bracket before it may mean that it is
// not a block.
func parts(text string) (n int) {
	block, plain := -1, true // the indent of the block's key, -1: in no block
	for line := range strings.Lines(text) {
		body := strings.TrimLeft(line, " ")
		indent := len(line) - len(body)
		if block >= 0 && (indent > block || body == "\n") {
			continue
		}
		block = -1
		n++
		for i := range len(body) {
			switch c := body[i]; c {
			case ':', '-', '?':
				if i+1 == len(body) || strings.IndexByte(" \t\n\"", body[i+1]) >= 0 {
					n++
				}
			case '"', '\'', '[', '{':
				n++
				plain = plain && strings.ContainsAny(body[i+1:], `"'}]`)
			case ']', '}', ',', '&', '*', '!', '#', '%', '|', '>':
				n++
			}
		}
		key, header, ok := strings.Cut(strings.TrimRight(body, "\n"), ": ")
		if ok && plain && isWord(key) && header != "" && (header[0] == '|' || header[0] == '>') && strings.Trim(header[1:], "+-123456789") == "" {
			block = indent
		}
	}
	return n
}

// isWord reports whether a text is a key that needs no quotes.
func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' && i > 0) {
			return false
		}
	}
	return s != ""
}

// hide replaces the characters that the parser takes for line breaks, as YAML
// did until version 1.1, or refuses, although other writers leave them
// unescaped. Each becomes a private-use character that is not in the text, so
// that columns stay the same; restore reverses that. tab is such a stand-in for
// a tab.
func hide(text string) (hidden string, tab rune, restore func(string) string) {
	there := make(map[rune]bool)
	odd := []rune{'\t'}
	for _, r := range text {
		if !there[r] && (r < ' ' && r != '\t' && r != '\n' || 0x7f <= r && r < 0xa0 || r == '\u2028' || r == '\u2029' || r&0xfffe == 0xfffe) {
			odd = append(odd, r)
		}
		there[r] = true
	}
	if len(odd) == 1 && !strings.Contains(text, " \t") {
		return text, '\t', func(s string) string { return s }
	}
	lower := strings.ToLower(text)
	var in, out []string
	next := rune(0xe000)
	for _, r := range odd {
		// An escape in double quotes would produce the stand-in, too.
		for next < 0xf8ff && (there[next] || strings.Contains(lower, fmt.Sprintf("%x", next))) {
			next++
		}
		if r == '\t' {
			tab = next
		} else {
			in = append(in, string(r), string(next))
		}
		out = append(out, string(next), string(r))
		next++
	}
	return strings.NewReplacer(in...).Replace(text), tab, strings.NewReplacer(out...).Replace
}

// maxRepairs bounds how often a text is parsed again.
const maxRepairs = 16

// tabInBlock is the parser's message about a block whose first line begins with
// a tab after its indent. YAML allows that.
const tabInBlock = "found a tab character where an indentation space is expected"

// indented returns the text with a stand-in for the tab that the parser refused;
// false when that is not the problem.
func indented(text string, tab rune, problems []Problem) (string, bool) {
	if len(problems) != 1 || !strings.HasSuffix(problems[0].Message, tabInBlock) {
		return "", false
	}
	lines := strings.Split(text, "\n")
	if problems[0].Line > len(lines) {
		return "", false
	}
	line := &lines[problems[0].Line-1]
	before, after, ok := strings.Cut(*line, "\t")
	if !ok || before == "" || strings.Trim(before, " ") != "" {
		return "", false
	}
	*line = before + string(tab) + after
	return strings.Join(lines, "\n"), true
}

// document returns the content of the only document that has any.
func document(text string) (*yaml.Node, []Problem) {
	var body *yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader([]byte(text)), yaml.WithV3Defaults())
	if err != nil {
		return nil, problemsOf(err, text)
	}
	for {
		var n yaml.Node
		err := loader.Load(&n)
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, problemsOf(err, text)
		}
		if len(n.Content) == 0 || isNothing(n.Content[0]) {
			continue
		}
		if body != nil {
			return nil, []Problem{{Line: n.Line, Column: n.Column, Message: "a second document begins here", Hint: "take out the line ---"}}
		}
		body = n.Content[0]
	}
}

func isNothing(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// problemsOf turns the parser's errors into problems with plain messages.
func problemsOf(err error, text string) []Problem {
	var one *yaml.LoadError
	var many *yaml.LoadErrors
	switch {
	case err == nil:
		return nil
	case errors.As(err, &many) && len(many.Errors) > 0:
		var all []Problem
		for _, e := range many.Errors {
			message := e.Message
			if name, _, ok := strings.Cut(strings.TrimPrefix(message, "field "), " not found in type "); ok {
				message = fmt.Sprintf("unknown field %q", name)
			}
			all = append(all, Problem{Line: e.Mark.Line, Column: e.Mark.Column, Message: clipped(message)})
		}
		return all
	case errors.As(err, &one):
		return []Problem{syntax(one, text)}
	}
	return []Problem{unreadable()}
}

func clipped(s string) string { return fmt.Sprintf("%.160s", s) }

func syntax(e *yaml.LoadError, text string) Problem {
	p := Problem{Line: e.Mark.Line, Column: e.Mark.Column, Syntax: true}
	began := func() { // where the unclosed part was opened
		if e.ContextMark.Line > 0 {
			p.Line, p.Column = e.ContextMark.Line, e.ContextMark.Column
		}
	}
	has := func(part string) bool { return strings.Contains(e.Message, part) }
	switch {
	case has("exceeded max depth"):
		p.Message, p.Syntax = "this is too deep inside", false
	case has("unknown anchor"):
		name := strings.TrimSuffix(strings.TrimPrefix(e.Message, "unknown anchor '"), "' referenced")
		p.Message = fmt.Sprintf("alias *%.40s: there is no anchor &%.40s before it", name, name)
	case has("tab character that violates"), has("cannot start any token") && at(text, e.Mark) == '\t':
		p.Message, p.Hint = "a tab at the beginning of a line", "indent with spaces: YAML allows no tabs there"
	case has("cannot start any token"):
		p.Message, p.Hint = "a text that begins with a character of YAML's own", `put it into quotes, like cron: "@daily"`
	case has("mapping values are not allowed"):
		p.Message, p.Hint = "a second colon in this line", `put a text that holds ": " into quotes`
	case has("unexpected end of stream"):
		began()
		p.Message = "a quote that is not closed"
	case has("expected ',' or ']'"):
		began()
		p.Message = "a bracket [ that is not closed"
	case has("expected ',' or '}'"):
		began()
		p.Message = "a bracket { that is not closed"
	case has("did not find expected node content"):
		p.Message, p.Hint = "a value is missing here", "look for quotes and brackets that are not closed"
	case has("block sequence entries are not allowed"):
		p.Message, p.Hint = "a list that begins behind its key", "begin it on a line of its own"
	case has("could not find expected ':'"):
		began()
		p.Message, p.Hint = "this does not belong to what is above it", "look at the indent: keys of one mapping begin in one column"
	case has("did not find expected key"), has("did not find expected '-' indicator"):
		p.Message, p.Hint = "this does not belong to what is above it", "look at the indent: keys of one mapping begin in one column"
	default:
		p.Message = clipped("this is not YAML: " + e.Message)
	}
	return p
}

// at returns the character at a position, 0 when there is none.
func at(text string, m yaml.Mark) rune {
	lines := strings.SplitN(text, "\n", m.Line+1)
	if m.Line < 1 || m.Line > len(lines) {
		return 0
	}
	for i, r := range []rune(lines[m.Line-1]) {
		if i+1 == m.Column {
			return r
		}
	}
	return 0
}
