package wire

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Call is a tool call in a chat completion.
type Call struct {
	ID       string   `json:"id,omitempty"`
	Function Function `json:"function"`
}

// Function is what is called. Arguments are JSON in a string; some tools store
// the object itself.
type Function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Block returns a call as a block.
func (c Call) Block() tidemark.Block {
	return tidemark.Block{Type: tidemark.BlockToolUse, ID: c.ID, Name: c.Function.Name, Input: arguments(c.Function.Arguments)}
}

// arguments unwraps the JSON from its string. If the model did not write JSON,
// it stays a string.
func arguments(raw json.RawMessage) json.RawMessage {
	var text string
	switch {
	case len(raw) == 0:
		return nil
	case json.Unmarshal(raw, &text) != nil:
		return raw
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	case text == "":
		return nil
	}
	return raw
}

// ArgumentText is the input of a call as text.
func ArgumentText(input json.RawMessage) string {
	var text string
	switch {
	case len(input) == 0 || string(input) == "null":
		return "{}"
	case json.Unmarshal(input, &text) == nil:
		return text
	}
	return string(input)
}

// LinkedMedia reads an image or a file of a chat completion; ok is false when
// the part is neither. known are the fields that the block represents
// completely.
func LinkedMedia(p Part, raw json.RawMessage) (b tidemark.Block, known []string, ok bool) {
	var in struct {
		ImageURL json.RawMessage `json:"image_url"`
		File     json.RawMessage `json:"file"`
	}
	_ = json.Unmarshal(raw, &in) // it was JSON when p was read from it
	switch {
	case p.ImageURL != nil:
		b = Linked(tidemark.Block{Type: tidemark.BlockImage}, p.ImageURL.URL)
		if !HasMore(in.ImageURL, "url") {
			known = []string{"type", "image_url"}
		}
	case p.File != nil:
		b = Linked(tidemark.Block{Type: tidemark.BlockFile, Name: p.File.Filename}, p.File.FileData)
		if !HasMore(in.File, "filename", "file_data") {
			known = []string{"type", "file"}
		}
	default:
		return b, nil, false
	}
	return b, known, true
}

// Linked puts the content of a data URL, or another URL, into a block.
func Linked(b tidemark.Block, link string) tidemark.Block {
	if media, data, ok := parseDataURL(link); ok {
		b.MediaType, b.Data = media, data
		return b
	}
	b.URL = link
	return b
}

// Link is the reverse: the URL of a block, or its bytes in a data URL.
func Link(b tidemark.Block) string {
	return cmp.Or(b.URL, DataURL(b))
}

// DataURL is a block's bytes in a URL.
func DataURL(b tidemark.Block) string {
	return "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
}

// parseDataURL returns the content of a data URL; ok is false for any other URL.
func parseDataURL(address string) (mediaType string, data []byte, ok bool) {
	rest, ok := strings.CutPrefix(address, "data:")
	if !ok {
		return "", nil, false
	}
	mediaType, text, ok := strings.Cut(rest, ";base64,")
	if !ok {
		return "", nil, false
	}
	data, err := base64.StdEncoding.DecodeString(text)
	return mediaType, data, err == nil
}
