package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
)

// JSON writes v the same way each time, without white space and without HTML
// escapes. Requests are made with it and not with a client library's own types:
// an update of the library must not change the bytes of an old conversation.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// SchemaOf returns the schema of a tool without white space; an empty one if it
// has none.
func SchemaOf(t Tool) (json.RawMessage, error) {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	return tight(t.Schema, "schema of tool "+t.Name)
}

// InputOf returns the arguments of a call without white space.
func InputOf(b tidemark.Block) (json.RawMessage, error) {
	if len(b.Input) == 0 {
		return json.RawMessage("{}"), nil
	}
	return tight(b.Input, "arguments of "+b.Name)
}

// tight returns an object without white space.
func tight(raw json.RawMessage, what string) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, tidemark.Invalidf("%s: %w", what, err)
	}
	if b.Len() == 0 || b.Bytes()[0] != '{' {
		return nil, tidemark.Invalidf("%s: not a JSON object", what)
	}
	return b.Bytes(), nil
}

// Inside returns what a tool_result holds, as blocks. Its Text repeats the
// text among its Blocks, if there is any.
func Inside(result tidemark.Block) []tidemark.Block {
	isText := func(b tidemark.Block) bool { return b.Type == tidemark.BlockText }
	if result.Text == "" || slices.ContainsFunc(result.Blocks, isText) {
		return result.Blocks
	}
	return append([]tidemark.Block{tidemark.Text(result.Text)}, result.Blocks...)
}

// InWords returns a block as text, for APIs that cannot carry it: the content of
// a text file, and of anything else its name, type and size.
func InWords(b tidemark.Block) string {
	if b.Type == tidemark.BlockText {
		return b.Text
	}
	if b.Type == tidemark.BlockFile && len(b.Data) > 0 && utf8.Valid(b.Data) && !bytes.ContainsRune(b.Data, 0) {
		return strings.TrimSpace("["+b.Type+" "+b.Name) + "]\n" + string(b.Data)
	}
	words := []string{b.Type}
	for _, w := range []string{b.Name, b.MediaType, b.URL} {
		if w != "" {
			words = append(words, w)
		}
	}
	if len(b.Data) > 0 {
		words = append(words, fmt.Sprintf("%d bytes, not shown", len(b.Data)))
	}
	return "[" + strings.Join(words, ", ") + "]"
}
