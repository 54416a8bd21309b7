package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Decoder makes Tidemark's blocks from Anthropic's. Where ours cannot represent
// everything, the block is kept whole in Raw, byte for byte: always for
// thinking, which is signed, and for unknown types.
type Decoder struct {
	// Provider is the Provider of a block that is kept whole.
	Provider string
	// Strict makes a field of an unexpected type an error; otherwise it stays
	// empty.
	Strict bool
	// ServerTools treats every type that ends in tool_use or tool_result as a
	// call or a result: tools that run at the provider have types of their own.
	ServerTools bool
	// Result reads the content of a tool result that is nested depth results
	// deep, and keeps nothing of its memory. Nil: there are no results.
	Result func(b *tidemark.Block, content json.RawMessage, depth int) error
	// Media makes a block from an image or a file; ok is false for anything
	// else. known are the fields that the block represents completely.
	Media func(p Part, raw json.RawMessage) (b tidemark.Block, known []string, ok bool)
	// Unknown makes a block from one of an unknown type.
	Unknown func(p Part) tidemark.Block
	// Same reports whether the block represents everything in raw. Nil: it does
	// when there are only known fields.
	Same func(b tidemark.Block, raw json.RawMessage) bool
}

// maxResults bounds how deep results are read in results.
const maxResults = 4

// NewDecoder returns a Decoder for tools that write Anthropic's blocks as they
// are.
func NewDecoder(provider string) *Decoder {
	d := &Decoder{
		Provider: provider,
		Media: func(p Part, raw json.RawMessage) (b tidemark.Block, known []string, ok bool) {
			if p.Type != "image" && p.Type != "document" {
				return b, nil, false
			}
			b, whole := Media(p, raw)
			if whole {
				known = []string{"type", "source", "title"}
			}
			return b, known, true
		},
		Unknown: func(p Part) tidemark.Block { return tidemark.Block{Type: tidemark.BlockText, Text: p.Text} },
	}
	d.Result = func(b *tidemark.Block, content json.RawMessage, depth int) error {
		var blocks []tidemark.Block
		text, list, isText := Content(content)
		if isText {
			blocks = append(blocks, tidemark.Text(text))
		}
		for _, raw := range list {
			blocks = append(blocks, d.Any(raw, depth+1))
		}
		*b = Result(b.ToolUseID, b.IsError, blocks)
		return nil
	}
	return d
}

// Any is Block, with what is no block kept as it is.
func (d *Decoder) Any(raw json.RawMessage, depth int) tidemark.Block {
	if depth <= maxResults {
		if b, err := d.Block(raw, depth); err == nil {
			return b
		}
	}
	return tidemark.Block{Type: tidemark.BlockText, Provider: d.Provider, Raw: string(raw)}
}

// scanners are for blocks that come alone.
var scanners = sync.Pool{New: func() any { return new(convert.Scanner) }}

// Block decodes one block. The error is that of the JSON, or of Result. The block
// shares no memory with raw.
func (d *Decoder) Block(raw json.RawMessage, depth int) (tidemark.Block, error) {
	s := scanners.Get().(*convert.Scanner)
	defer scanners.Put(s)
	v, ok := s.Scan(raw)
	if !ok {
		return d.decodeAny(raw, depth)
	}
	return d.Value(v, depth)
}

// Value is Block for a block in a text that was scanned.
func (d *Decoder) Value(v convert.Value, depth int) (tidemark.Block, error) {
	p, ok := partOf(v, d.Strict)
	if !ok {
		return d.decodeAny(v.Raw(), depth)
	}
	b, known, err := d.decode(p, v.Raw(), depth)
	if err != nil {
		return b, err
	}
	b.Input = bytes.Clone(b.Input)
	same := known != nil
	if same && d.Same != nil {
		same = d.Same(b, v.Raw())
	} else if same {
		for key := range v.Members() {
			same = same && slices.Contains(known, string(key))
		}
	}
	if !same {
		b.Provider, b.Raw = d.Provider, string(v.Raw())
	}
	return b, nil
}

// partNames are the names of the fields of Part.
var partNames = convert.NamesOf("type", "text", "thinking", "id", "name", "input", "tool_use_id", "content", "is_error", "source", "title", "image_url", "file")

// partOf reads a block as encoding/json would; ok is false for one that it has to
// read itself.
func partOf(v convert.Value, strict bool) (p Part, ok bool) {
	if !v.Exact(partNames) {
		return p, false
	}
	ok = true
	text := func(to *string, v convert.Value) {
		s, is := v.Text()
		*to = s
		ok = ok && (is || !strict || v.Kind() == 'n')
	}
	for key, v := range v.Members() {
		switch string(key) {
		case "type":
			text(&p.Type, v)
		case "text":
			text(&p.Text, v)
		case "thinking":
			text(&p.Thinking, v)
		case "id":
			text(&p.ID, v)
		case "name":
			text(&p.Name, v)
		case "input":
			p.Input = v.Raw()
		case "tool_use_id":
			text(&p.ToolUseID, v)
		case "content":
			p.Content = v.Raw()
		case "is_error":
			p.IsError = v.Kind() == 't'
			ok = ok && (!strict || strings.IndexByte("tfn", v.Kind()) >= 0)
		case "title":
			if !strict { // it is none of Block's fields
				text(&p.Title, v)
			}
		case "source", "image_url", "file":
			ok = false
		}
	}
	return p, ok
}

// decodeAny decodes one block in whatever way it is written.
func (d *Decoder) decodeAny(raw json.RawMessage, depth int) (tidemark.Block, error) {
	var p Part
	err := d.parse(raw, &p)
	if err != nil {
		return tidemark.Block{}, tidemark.Invalidf("block: %w", err)
	}
	b, known, err := d.decode(p, raw, depth)
	if err != nil {
		return b, err
	}
	same := known != nil
	if same && d.Same != nil {
		same = d.Same(b, raw)
	} else if same {
		same = !HasMore(raw, known...)
	}
	if !same {
		b.Provider, b.Raw = d.Provider, string(raw)
	}
	return b, nil
}

func (d *Decoder) parse(raw json.RawMessage, p *Part) error {
	if d.Strict {
		return json.Unmarshal(raw, &p.Block)
	}
	return convert.Loose(raw, p)
}

// decode returns the block and the fields that it represents completely; nil for
// a block that is kept whole.
func (d *Decoder) decode(p Part, raw json.RawMessage, depth int) (b tidemark.Block, known []string, err error) {
	switch kind := p.Type; {
	case kind == "text":
		return tidemark.Text(p.Text), []string{"type", "text"}, nil
	case kind == "thinking", kind == "redacted_thinking":
		return tidemark.Block{Type: tidemark.BlockThinking, Text: p.Thinking}, nil, nil
	case kind == "tool_use", d.ServerTools && strings.HasSuffix(kind, "tool_use"):
		b = tidemark.Block{Type: tidemark.BlockToolUse, ID: p.ID, Name: p.Name, Input: p.Input}
		if kind == "tool_use" {
			known = []string{"type", "id", "name", "input"}
		}
		return b, known, nil
	case kind == "tool_result", d.ServerTools && strings.HasSuffix(kind, "tool_result"):
		if d.Result == nil {
			break
		}
		b = tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: p.ToolUseID, IsError: p.IsError}
		if kind == "tool_result" {
			known = []string{"type", "tool_use_id", "content", "is_error"}
		}
		err = d.Result(&b, p.Content, depth)
		return b, known, err
	}
	if b, known, ok := d.Media(p, raw); ok {
		return b, known, nil
	}
	return d.Unknown(p), nil, nil
}

// Media reads an image, or a document, which is a file. whole says that the
// block represents its source completely: not a text, which would be written as
// base64, nor anything that does not decode or is not known.
func Media(p Part, raw json.RawMessage) (b tidemark.Block, whole bool) {
	b = tidemark.Block{Type: tidemark.BlockFile, Name: p.Title}
	if p.Type == "image" {
		b.Type = tidemark.BlockImage
	}
	s := p.Source
	if s == nil {
		return b, false
	}
	b.MediaType, b.URL = s.MediaType, s.URL
	if s.Type == "text" {
		b.Data = []byte(s.Data)
	} else if data, err := base64.StdEncoding.DecodeString(s.Data); err == nil && len(data) > 0 {
		b.Data = data
	}
	var in struct {
		Source json.RawMessage `json:"source"`
	}
	_ = json.Unmarshal(raw, &in) // it was JSON when p was read from it
	switch s.Type {
	case "base64":
		whole = b.Data != nil && !HasMore(in.Source, "type", "media_type", "data")
	case "url":
		whole = b.URL != "" && !HasMore(in.Source, "type", "url")
	}
	return b, whole
}
