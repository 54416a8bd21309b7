// Package wire decodes and encodes the content of messages in the two shapes
// that most tools took over from model APIs: the blocks of Anthropic, and the
// parts and tool calls of OpenAI's chat completions. Tools differ in what they
// write and in what they accept; each sets the fields of a Decoder or an Encoder
// accordingly. It knows no tool, reads no file, and sends nothing anywhere.
//
//	d := wire.Decoder{Provider: "anthropic", Media: media, Unknown: unknown}
//	b, err := d.Block(raw, 0)
package wire

import (
	"encoding/json"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Block has the fields of all of Anthropic's types of blocks.
type Block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    *Source         `json:"source"`
}

// Source is where the bytes of an image or a document are.
type Source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"` // base64, or a text where the type is "text"
	URL       string `json:"url,omitempty"`
}

// Part is a Block, or a part of a message of chat completions.
type Part struct {
	Block
	Title    string `json:"title"`
	ImageURL *struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File *struct {
		Filename string `json:"filename"`
		FileData string `json:"file_data"`
	} `json:"file"`
}

// Content splits the content of a message, which is a string or a list, whose
// elements may be in the memory of raw. Anything else is neither.
func Content(raw json.RawMessage) (text string, list []json.RawMessage, isText bool) {
	switch {
	case len(raw) == 0:
	case raw[0] == '"':
		text, isText = convert.Text(raw)
	case raw[0] == '[':
		list = elements(raw)
	}
	return text, list, isText
}

func elements(raw json.RawMessage) (list []json.RawMessage) {
	s := scanners.Get().(*convert.Scanner)
	defer scanners.Put(s)
	v, ok := s.Scan(raw)
	if !ok {
		if json.Unmarshal(raw, &list) != nil {
			return nil
		}
		return list
	}
	list = []json.RawMessage{}
	for e := range v.Elements() {
		list = append(list, e.Raw())
	}
	return list
}

// HasMore reports whether an object has fields other than those known. Anything
// but an object has.
func HasMore(object json.RawMessage, known ...string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return true
	}
	for k := range fields {
		if !slices.Contains(known, k) {
			return true
		}
	}
	return false
}

// Input is the input of a call; nil when there is none.
func Input(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// Result returns the result of a call: plain text as such, anything else as
// blocks.
func Result(call string, failed bool, blocks []tidemark.Block) tidemark.Block {
	b := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: call, IsError: failed}
	if len(blocks) == 1 && blocks[0].Type == tidemark.BlockText && blocks[0].Raw == "" {
		b.Text = blocks[0].Text
	} else {
		b.Blocks = blocks
	}
	return b
}
