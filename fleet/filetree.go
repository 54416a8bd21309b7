package fleet

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// What is short in a file may be long in memory, and slow to parse; so a file
// is bounded before it is parsed, and its aliases while they are replaced.
const (
	// maxFile is enough for ten thousand schedules.
	maxFile = 1 << 20
	// maxMarks bounds what may be a token: the scanner makes all of them at
	// once, and each takes hundreds of bytes.
	maxMarks = 250_000
	// maxKeys bounds one mapping: the time to parse it grows with its square,
	// and the longest that makes sense is the environment of an agent.
	maxKeys = 1000
	// maxDepth bounds what is inside of each other; a fleet file needs seven
	// levels.
	maxDepth = 32
	// maxAnchors bounds anchors, aliases and tags.
	maxAnchors = 1000
	// maxValues bounds what is there when aliases are replaced, and maxFilled
	// what the defaults add to it.
	maxValues = 200_000
	maxFilled = 1_000_000
)

// shape is what a node is.
type shape string

const (
	isNull   shape = "nothing"
	isText   shape = "a text"
	isNumber shape = "a number"
	isBool   shape = "true or false"
	isList   shape = "a list"
	isMap    shape = "a mapping"
)

// node is a value of the file, with its place. Aliases are replaced in it:
// what an anchor names is there once, and is pointed to from many places.
type node struct {
	shape        shape
	text         string // a scalar, as it is written
	entries      []entry
	items        []*node
	line, column int
	size         int // how many values it is, with those inside
}

type entry struct {
	key          string
	value        *node
	line, column int  // of the key
	inherited    bool // from the defaults
}

// find returns the entry of a key that is there and not null.
func (n *node) find(key string) (entry, bool) {
	if n != nil {
		for _, e := range n.entries {
			if e.key == key {
				return e, e.value.shape != isNull
			}
		}
	}
	return entry{}, false
}

// get returns the value of a key, nil when it is not there or null.
func (n *node) get(key string) *node {
	e, ok := n.find(key)
	if !ok {
		return nil
	}
	return e.value
}

// says reports whether a key is there, with a value or with nothing.
func (n *node) says(key string) bool {
	return n != nil && slices.ContainsFunc(n.entries, func(e entry) bool { return e.key == key })
}

// own returns the entry of a key that is there and is not a default.
func (n *node) own(key string) (entry, bool) {
	e, ok := n.find(key)
	return e, ok && !e.inherited
}

// merged returns a mapping with what it does not say taken from its defaults,
// as the comment of File has it.
func merged(own, defaults *node) *node {
	if own == nil || defaults == nil || own.shape != isMap || defaults.shape != isMap {
		return own
	}
	both := *own
	both.entries = make([]entry, 0, len(own.entries)+len(defaults.entries))
	said := make(map[string]bool, len(own.entries))
	for _, e := range own.entries {
		said[e.key] = true
		e.value = merged(e.value, defaults.get(e.key))
		both.entries = append(both.entries, e)
	}
	for _, e := range defaults.entries {
		if !said[e.key] {
			e.inherited = true
			both.entries = append(both.entries, e)
		}
	}
	return &both
}

// load returns the one mapping of a file, or nil when there is none to be
// checked any further.
func (c *checker) load(data []byte) (root *node) {
	text, ok := c.readable(data)
	if !ok {
		return nil
	}
	// The parser is made by others, and the text by anybody.
	defer func() {
		if r := recover(); r != nil {
			root = nil
			c.report(1, 1, "this is not YAML that can be read", "look for quotes and brackets that are not closed")
		}
	}()
	tokens, ok := c.tokenize(text)
	if !ok {
		return nil
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		c.syntax(err)
		return nil
	}
	return c.document(parsed)
}

// readable returns the text of a file with plain ends of lines, and reports
// what cannot be a text.
func (c *checker) readable(data []byte) (string, bool) {
	if len(data) > maxFile {
		c.report(1, 1, fmt.Sprintf("the file is larger than %d bytes", maxFile), "put long prompts into files of their own: system: {file: prompts/agent.md}")
		return "", false
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.ReplaceAll(text, "\r", "\n")
	c.lines = strings.Split(strings.ToValidUTF8(text, "\ufffd"), "\n")
	line, column := 1, 0
	for i, r := range text {
		column++
		_, width := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n':
			line, column = line+1, 0
		case r == utf8.RuneError && width == 1:
			c.report(line, column, "the file is not UTF-8", "save it as UTF-8")
			return "", false
		case unicode.IsControl(r) && r != '\t':
			c.report(line, column, fmt.Sprintf("a control character, %U", r), fmt.Sprintf("take it out; in double quotes it can be written as \\x%02x", r))
			return "", false
		}
	}
	return text, true
}

// tokenize splits a YAML text, and gives up before the scanner or the parser
// would need too much for it.
func (c *checker) tokenize(text string) (token.Tokens, bool) {
	if marks(text) > maxMarks {
		c.report(1, 1, fmt.Sprintf("the file has more than %d parts", maxMarks), "put long prompts into files of their own: system: {file: prompts/agent.md}")
		return nil, false
	}
	var s scanner.Scanner
	s.Init(text)
	var all token.Tokens
	var b bounds
	for {
		some, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return all, true
		}
		all.Add(some...)
		if err != nil { // the parser says what it is, by the token
			if all.InvalidToken() == nil {
				c.syntax(err)
			}
			return all, all.InvalidToken() != nil
		}
		for _, t := range some {
			if problem := b.add(t); problem != "" {
				c.report(t.Position.Line, t.Position.Column, problem, "")
				return nil, false
			}
		}
	}
}

// syntax reports an error of the parser. Its own text shows the file around
// it, which may take minutes to make, so only its message is used.
func (c *checker) syntax(err error) {
	var e interface {
		GetMessage() string
		GetToken() *token.Token
	}
	if !errors.As(err, &e) || e.GetToken() == nil || e.GetToken().Position == nil {
		c.report(1, 1, "this is not YAML that can be read", "look for quotes and brackets that are not closed")
		return
	}
	at, message, hint := e.GetToken().Position, e.GetMessage(), ""
	switch {
	case c.unquotedCron(at.Line):
		message, hint = "cron begins with a character of YAML's own", `put it into quotes, like cron: "*/5 * * * *" or cron: "@daily"`
	case strings.Contains(message, `character '	'`) || strings.Contains(message, "tab character"):
		message, hint = "a tab at the beginning of a line", "indent with spaces: YAML allows no tabs there"
	case strings.Contains(message, "mapping value is not allowed"):
		message, hint = "a second colon in this line", `put a text that holds ": " into quotes`
	case strings.Contains(message, "end character of"):
		message, hint = "a quote that is not closed", ""
	case strings.Contains(message, "token ']' not found"):
		message = "a bracket [ that is not closed"
	case strings.Contains(message, "end token '}'"):
		message = "a bracket { that is not closed"
	case strings.Contains(message, "block sequence entries are not allowed"):
		message, hint = "a list that begins behind its key", "begin it on a line of its own"
	case strings.Contains(message, "value is not allowed in this context") || strings.Contains(message, "non-map value"):
		message, hint = "this does not belong to what is above it", "look at the indent: keys of one mapping begin in one column"
	case strings.Contains(message, "reserved character"):
		message, hint = "a text that begins with a character of YAML's own", `put it into quotes, like cron: "@daily"`
	default:
		message = "this is not YAML: " + message
	}
	c.report(at.Line, at.Column, fmt.Sprintf("%.160s", message), hint)
}

// unquotedCron reports that a line has a cron expression that YAML takes for
// an alias or refuses.
func (c *checker) unquotedCron(line int) bool {
	if line < 1 || line > len(c.lines) {
		return false
	}
	_, value, ok := strings.Cut(c.lines[line-1], "cron: ")
	value = strings.TrimLeft(value, " ")
	return ok && value != "" && strings.IndexByte("*@%", value[0]) >= 0
}

func (c *checker) document(parsed *ast.File) *node {
	var body ast.Node
	for _, d := range parsed.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.NullType:
		case body != nil:
			at := d.Body.GetToken().Position
			if d.Start != nil {
				at = d.Start.Position
			}
			c.report(at.Line, at.Column, "a second document begins here", "a fleet file is one document: take out the line ---")
			return nil
		default:
			body = d.Body
		}
	}
	if body == nil {
		c.report(1, 1, "the file is empty", "tidemark fleet init writes one to begin with")
		return nil
	}
	t := tree{checker: c, anchors: map[string]*node{}}
	root := t.node(body, 0)
	if t.over {
		return nil
	}
	if root.shape != isMap {
		c.report(root.line, root.column, "the file is "+string(root.shape)+", and should be a mapping", "begin with: agents:")
		return nil
	}
	return root
}

// tree makes nodes of parsed YAML.
type tree struct {
	*checker
	anchors map[string]*node
	values  int
	over    bool // a bound is: it has been reported, and the rest is not looked at
}

// node converts n. It returns a node in any case, of nothing where n is no
// good.
func (t *tree) node(n ast.Node, depth int) *node {
	out := &node{shape: isNull, line: 1, column: 1, size: 1}
	if n == nil {
		return out
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		out.line, out.column = tk.Position.Line, tk.Position.Column
	}
	if t.values++; t.over || depth > 2*maxDepth || t.values > maxValues {
		t.stop(out)
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.shape, out.text = isBool, n.Token.Value
	case *ast.StringNode:
		out.shape, out.text = isText, n.Value
	case *ast.LiteralNode:
		out.shape, out.text = isText, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.shape, out.text = isNumber, n.GetToken().Value
	case *ast.TagNode:
		t.tag(n, out, depth)
	case *ast.AnchorNode:
		inner := t.node(n.Value, depth+1)
		t.anchors[n.Name.GetToken().Value] = inner
		return inner
	case *ast.AliasNode:
		return t.alias(n, out)
	case *ast.MappingNode:
		t.mapping(n.Values, n.Start, out, depth)
	case *ast.MappingValueNode:
		t.mapping([]*ast.MappingValueNode{n}, nil, out, depth)
	case *ast.SequenceNode:
		out.shape = isList
		for _, v := range n.Values {
			item := t.node(v, depth+1)
			out.items = append(out.items, item)
			out.size += item.size
		}
	default:
		t.report(out.line, out.column, fmt.Sprintf("%s has no meaning here", n.Type()), "")
	}
	return out
}

// stop reports, once, that the file is too much.
func (t *tree) stop(at *node) {
	if !t.over {
		t.report(at.line, at.column, "the file is too large or too deep when its aliases are replaced", "")
	}
	t.over = true
}

// tag takes what is marked as a text, and nothing else.
func (t *tree) tag(n *ast.TagNode, out *node, depth int) {
	if scalar, ok := n.Value.(ast.ScalarNode); ok && n.Start.Value == "!!str" {
		inner := t.node(scalar, depth+1)
		out.shape, out.text = isText, inner.text
		return
	}
	t.report(out.line, out.column, fmt.Sprintf("tag %.40s has no meaning here", n.Start.Value), "take it out")
}

func (t *tree) alias(n *ast.AliasNode, out *node) *node {
	name := n.Value.GetToken().Value
	to, ok := t.anchors[name]
	if !ok {
		t.report(out.line, out.column, fmt.Sprintf("alias *%.40s: there is no anchor &%.40s before it", name, name), "")
		return out
	}
	if t.values += to.size; t.values > maxValues {
		t.stop(out)
		return out
	}
	return to
}

func (t *tree) mapping(values []*ast.MappingValueNode, start *token.Token, out *node, depth int) {
	out.shape = isMap
	seen := make(map[string]int, len(values))
	var merges []*node
	for i, v := range values {
		key, at := keyOf(v.Key)
		if i == 0 && at != nil && (start == nil || start.Value != "{") {
			out.line, out.column = at.Line, at.Column // else it would be the colon
		}
		if at == nil {
			t.report(out.line, out.column, "a key that is no text", "")
			continue
		}
		value := t.node(v.Value, depth+1)
		out.size += value.size
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merges = append(merges, t.merges(value)...)
			continue
		}
		if line, ok := seen[key]; ok {
			t.report(at.Line, at.Column, fmt.Sprintf("key %.40q is there twice", key), fmt.Sprintf("the first one is in line %d", line))
			continue
		}
		seen[key] = at.Line
		out.entries = append(out.entries, entry{key: key, value: value, line: at.Line, column: at.Column})
	}
	for _, m := range merges {
		if t.values += len(m.entries); t.values > maxValues {
			t.stop(out)
			return
		}
		for _, e := range m.entries {
			if _, ok := seen[e.key]; !ok {
				seen[e.key] = e.line
				out.entries = append(out.entries, e)
				out.size += e.value.size
			}
		}
	}
}

// merges returns the mappings that << names: one, or a list of them of which
// the first wins.
func (t *tree) merges(value *node) []*node {
	all := []*node{value}
	if value.shape == isList {
		all = value.items
	}
	var maps []*node
	for _, m := range all {
		if m.shape == isMap {
			maps = append(maps, m)
			continue
		}
		t.report(m.line, m.column, "<< takes mappings, and this is "+string(m.shape), "name one by an alias: <<: *name")
	}
	return maps
}

// keyOf returns the text and the place of a key; nil for one that is no
// scalar.
func keyOf(k ast.MapKeyNode) (string, *token.Position) {
	var n ast.Node = k
	if explicit, ok := n.(*ast.MappingKeyNode); ok {
		n = explicit.Value
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, n.Token.Position
	case *ast.LiteralNode:
		return n.Value.Value, n.Start.Position
	case *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.MergeKeyNode:
		return n.GetToken().Value, n.GetToken().Position
	}
	return "", nil
}
