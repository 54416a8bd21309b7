package herdctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// What is short in a file may be long in memory, and slow to parse; so a file
// is bounded before it is parsed, and its aliases while they are replaced.
const (
	// maxDoc bounds one file: prompts and summaries have no bound of their own.
	maxDoc = 4 << 20
	// maxMarks bounds what may be a token: the scanner makes all of them at
	// once, and each takes hundreds of bytes. It is enough for the state of some
	// five thousand agents.
	maxMarks = 200_000
	// maxKeys bounds one mapping: the time to parse it grows with its square.
	maxKeys = 10_000
	// maxDepth bounds what is inside of each other; herdctl needs six levels.
	maxDepth = 64
	// maxAnchors bounds anchors, aliases and tags: herdctl writes none.
	maxAnchors = 1000
	// maxValues and maxBytes bound what is there when aliases are replaced.
	maxValues = 200_000
	maxBytes  = 2 * maxDoc
)

// object is a mapping as JSON, in which YAML is held, too. A scalar that YAML
// calls a time is a text there.
type object map[string]json.RawMessage

// readDoc reads a file that is one mapping: YAML, or JSON by its name.
func readDoc(fsys fs.FS, name string) (object, error) {
	b, err := readBounded(fsys, name)
	if err != nil {
		return nil, err
	}
	if path.Ext(name) == ".json" {
		return parseJSON(b)
	}
	return parseYAML(b)
}

// readBounded reads a regular file whole: a pipe would be waited for.
func readBounded(fsys fs.FS, name string) ([]byte, error) {
	if info, err := fs.Stat(fsys, name); err == nil && !info.Mode().IsRegular() {
		return nil, tidemark.Invalidf("is no file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDoc+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxDoc:
		return nil, tidemark.Invalidf("is larger than %d bytes", maxDoc)
	case !utf8.Valid(b):
		return nil, tidemark.Invalidf("is not UTF-8")
	}
	return b, nil
}

func parseJSON(b []byte) (object, error) {
	if err := checkParts(b); err != nil {
		return nil, err
	}
	var o object
	err := json.Unmarshal(b, &o)
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &other):
		return nil, tidemark.Invalidf("is no object of JSON")
	case err != nil:
		return nil, tidemark.Invalidf("is no JSON: %w", err)
	case o == nil:
		return nil, tidemark.Invalidf("is empty")
	}
	return o, nil
}

// checkParts returns ErrInvalid for JSON of too many keys and elements.
func checkParts(b []byte) error {
	if len(b) > 1<<20 && convert.Parts(b) > maxValues { // a shorter one need not be counted
		return tidemark.Invalidf("has more than %d parts", maxValues)
	}
	return nil
}

// parseYAML returns the one mapping of a YAML text.
func parseYAML(b []byte) (o object, err error) {
	// The parser is made by others, and the text by anybody.
	defer func() {
		if r := recover(); r != nil {
			o, err = nil, tidemark.Invalidf("is no YAML: %.80s", fmt.Sprint(r))
		}
	}()
	tokens, err := tokenize(string(b))
	if err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		// What its error prints is the text around it, which may take minutes.
		var e interface {
			GetMessage() string
			GetToken() *token.Token
		}
		if errors.As(err, &e) && e.GetToken() != nil && e.GetToken().Position != nil {
			return nil, tidemark.Invalidf("line %d: is no YAML: %.120s", e.GetToken().Position.Line, e.GetMessage())
		}
		return nil, tidemark.Invalidf("is no YAML")
	}
	var body ast.Node
	for _, d := range file.Docs {
		if d.Body == nil || d.Body.Type() == ast.NullType {
			continue
		}
		if body != nil {
			return nil, tidemark.Invalidf("has more than one document")
		}
		body = d.Body
	}
	if body == nil {
		return nil, tidemark.Invalidf("is empty")
	}
	t := tree{anchors: map[string]ast.Node{}}
	raw, err := t.json(body, 0)
	if err != nil {
		return nil, err
	}
	if raw[0] != '{' {
		return nil, tidemark.Invalidf("is no mapping")
	}
	return parseJSON(raw)
}

// tokenize splits a YAML text, and gives up before the scanner or the parser
// would need too much for it.
func tokenize(text string) (token.Tokens, error) {
	if marks(text) > maxMarks {
		return nil, tidemark.Invalidf("has more than %d parts", maxMarks)
	}
	var s scanner.Scanner
	s.Init(text)
	var all token.Tokens
	var bounds bounds
	for {
		some, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		all.Add(some...)
		for _, t := range some {
			if err := bounds.add(t); err != nil {
				return nil, err
			}
		}
	}
}

// marks counts what may begin or end a token. A long prompt has many of them
// and is one token; so the lines of a block that a key plainly begins are not
// counted, as long as no quote or bracket before it may mean that it is none.
func marks(text string) (n int) {
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
				if i+1 == len(body) || body[i+1] == ' ' || body[i+1] == '\t' || body[i+1] == '\n' || body[i+1] == '"' {
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

// bounds counts what makes a text slow to parse.
type bounds struct {
	flow, line, entries, anchors int
	maps                         []struct{ column, keys int } // that are open, by where they begin
}

func (b *bounds) add(t *token.Token) error {
	if t.Position.Line != b.line {
		b.line, b.entries = t.Position.Line, 0
		if b.flow == 0 && t.Position.Column > 4*maxDepth && t.Prev != nil && t.Prev.Position.Line != b.line {
			return tidemark.Invalidf("line %d: is too deep inside", b.line)
		}
	}
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		b.flow++
	case token.SequenceEndType, token.MappingEndType:
		b.flow--
	case token.SequenceEntryType:
		b.entries++
	case token.AnchorType, token.AliasType, token.TagType:
		b.anchors++
	case token.MappingKeyType:
		b.entries++
		b.key(t)
	case token.MappingValueType:
		if t.Prev != nil {
			b.key(t.Prev)
		}
	}
	switch {
	case len(b.maps) > 0 && b.maps[len(b.maps)-1].keys > maxKeys:
		return tidemark.Invalidf("has a mapping of more than %d keys", maxKeys)
	case b.flow > maxDepth || b.entries > maxDepth || len(b.maps) > maxDepth:
		return tidemark.Invalidf("line %d: is too deep inside", b.line)
	case b.anchors > maxAnchors:
		return tidemark.Invalidf("has more than %d anchors, aliases and tags", maxAnchors)
	}
	return nil
}

// key counts a key with those of its mapping: the ones that began at the same
// column, with nothing further out between.
func (b *bounds) key(t *token.Token) {
	column := t.Position.Column
	if b.flow > 0 {
		column = 1<<20 + b.flow
	}
	for len(b.maps) > 0 && b.maps[len(b.maps)-1].column > column {
		b.maps = b.maps[:len(b.maps)-1]
	}
	if n := len(b.maps); n == 0 || b.maps[n-1].column < column {
		b.maps = append(b.maps, struct{ column, keys int }{column, 0})
	}
	b.maps[len(b.maps)-1].keys++
}

// tree makes JSON of parsed YAML.
type tree struct {
	anchors       map[string]ast.Node
	values, bytes int
}

func (t *tree) json(n ast.Node, depth int) (json.RawMessage, error) {
	if t.values++; t.values > maxValues || t.bytes > maxBytes {
		return nil, tidemark.Invalidf("is too large when its aliases are replaced")
	}
	if depth > 2*maxDepth {
		return nil, tidemark.Invalidf("is too deep inside")
	}
	switch n := n.(type) {
	case nil:
		return json.RawMessage("null"), nil
	case *ast.NullNode:
		return json.RawMessage("null"), nil
	case *ast.BoolNode:
		return fmt.Appendf(nil, "%t", n.Value), nil
	case *ast.StringNode:
		return t.text(n.Value), nil
	case *ast.LiteralNode:
		return t.text(n.Value.Value), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		// A number that JSON would write otherwise may be meant as a text.
		text := n.GetToken().Value
		if json.Valid([]byte(text)) {
			t.bytes += len(text)
			return json.RawMessage(text), nil
		}
		return t.text(text), nil
	case *ast.TagNode:
		if scalar, ok := n.Value.(ast.ScalarNode); ok && n.Start.Value == "!!str" {
			return t.text(scalar.GetToken().Value), nil
		}
		return t.json(n.Value, depth+1)
	case *ast.AnchorNode:
		raw, err := t.json(n.Value, depth+1)
		t.anchors[n.Name.GetToken().Value] = n.Value
		return raw, err
	case *ast.AliasNode:
		to, ok := t.anchors[n.Value.GetToken().Value]
		if !ok {
			return nil, tidemark.Invalidf("alias %.40q: has no anchor before it", n.Value.GetToken().Value)
		}
		return t.json(to, depth+1)
	case *ast.MappingNode:
		return t.mapping(n.Values, depth)
	case *ast.MappingValueNode:
		return t.mapping([]*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		return t.sequence(n.Values, depth)
	}
	return nil, tidemark.Invalidf("holds a %s, which herdctl does not write", n.Type())
}

func (t *tree) text(s string) json.RawMessage {
	t.bytes += len(s)
	return quoted(s)
}

func (t *tree) sequence(values []ast.Node, depth int) (json.RawMessage, error) {
	b := []byte{'['}
	for i, v := range values {
		raw, err := t.json(v, depth+1)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, raw...)
	}
	return append(b, ']'), nil
}

func (t *tree) mapping(values []*ast.MappingValueNode, depth int) (json.RawMessage, error) {
	b := []byte{'{'}
	seen := make(map[string]bool, len(values))
	for i, v := range values {
		key, err := keyOf(v.Key)
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, tidemark.Invalidf("key %.40q: is there twice", key)
		}
		seen[key] = true
		raw, err := t.json(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, t.text(key)...), ':'), raw...)
	}
	return append(b, '}'), nil
}

// keyOf returns the text of a key; only a scalar is one.
func keyOf(k ast.MapKeyNode) (string, error) {
	var n ast.Node = k
	if explicit, ok := n.(*ast.MappingKeyNode); ok {
		n = explicit.Value
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode, *ast.MergeKeyNode:
		return n.GetToken().Value, nil
	}
	return "", tidemark.Invalidf("has a key that is no text")
}
