package wire

import (
	"encoding/json"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Encoder writes Tidemark's blocks as Anthropic's.
type Encoder struct {
	// Whole reports whether a block is written verbatim, from its Raw.
	Whole func(b tidemark.Block) bool
	// ID turns the id of a call into one that is accepted. Nil: all are.
	ID func(id string) string
	// Input returns the input of a call as it is written.
	Input func(input json.RawMessage) any
	// Result returns the content of a result.
	Result func(b tidemark.Block) any
	// Says makes results state explicitly that they are no errors.
	Says bool
}

// Field is a field of an object.
type Field struct {
	Key   string
	Value any
}

// Fields is an object whose fields are written in their order.
type Fields []Field

// Map returns the same object, to be written in alphabetical order.
func (f Fields) Map() map[string]any {
	m := map[string]any{}
	for _, one := range f {
		m[one.Key] = one.Value
		if inner, ok := one.Value.(Fields); ok {
			m[one.Key] = inner.Map()
		}
	}
	return m
}

// MarshalJSON writes the fields in order, without HTML escapes.
func (f Fields) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for i, one := range f {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := convert.Encode(one.Key)
		if err != nil {
			return nil, err
		}
		value, err := convert.Encode(one.Value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}

// Block returns a block as an object; raw instead if the block is written
// verbatim. Both are nil for a block that Anthropic has no type for, including
// unsigned thinking, and for media without content.
func (e *Encoder) Block(b tidemark.Block) (object Fields, raw json.RawMessage) {
	if b.Raw != "" && e.Whole(b) {
		return nil, json.RawMessage(b.Raw)
	}
	id := e.ID
	if id == nil {
		id = func(s string) string { return s }
	}
	switch b.Type {
	case tidemark.BlockText:
		return Fields{{"type", "text"}, {"text", b.Text}}, nil
	case tidemark.BlockToolUse:
		return Fields{{"type", "tool_use"}, {"id", id(b.ID)}, {"name", b.Name}, {"input", e.Input(b.Input)}}, nil
	case tidemark.BlockToolResult:
		object = Fields{{"type", "tool_result"}, {"tool_use_id", id(b.ToolUseID)}, {"content", e.Result(b)}}
		if b.IsError || e.Says {
			object = append(object, Field{"is_error", b.IsError})
		}
		return object, nil
	case tidemark.BlockImage, tidemark.BlockFile:
		return mediaFields(b), nil
	}
	return nil, nil
}

func mediaFields(b tidemark.Block) Fields {
	source := Fields{{"type", "base64"}, {"media_type", b.MediaType}, {"data", b.Data}}
	if len(b.Data) == 0 {
		if b.URL == "" {
			return nil
		}
		source = Fields{{"type", "url"}, {"url", b.URL}}
	}
	object := Fields{{"type", "image"}, {"source", source}}
	if b.Type == tidemark.BlockFile {
		object[0].Value = "document"
		if b.Name != "" {
			object = append(object, Field{"title", b.Name})
		}
	}
	return object
}
