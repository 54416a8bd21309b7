package agsh

import (
	"encoding/base64"
	"encoding/json"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// A message's content is a JSON array of blocks in Anthropic's shape. Each block
// is decoded, and kept whole in Raw only where encoding it again would not give
// the same JSON.

// maxNesting bounds nested blocks: a tool result holds texts and images, and
// those hold nothing.
const maxNesting = 4

// anthropic is the provider of signed blocks.
const anthropic = "anthropic"

// decodeBlocks reads an array of blocks.
func decodeBlocks(content []byte, nesting int) ([]tidemark.Block, error) {
	if nesting > maxNesting {
		return nil, tidemark.Invalidf("blocks are nested deeper than %d", maxNesting)
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(content, &raws); err != nil {
		return nil, tidemark.Invalidf("%w", err)
	}
	blocks := make([]tidemark.Block, 0, len(raws))
	for _, raw := range raws {
		b, err := decodeBlock(raw, nesting)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func decodeBlock(raw json.RawMessage, nesting int) (tidemark.Block, error) {
	d := wire.Decoder{Provider: "agsh", Strict: true, Result: takeResult, Media: takeImage, Unknown: takeUnknown,
		Same: func(b tidemark.Block, raw json.RawMessage) bool { return convert.SameJSON(encodeBlock(b), raw) }}
	b, err := d.Block(raw, nesting)
	if b.Type == tidemark.BlockThinking {
		b.Provider = anthropic
	}
	return b, err
}

func takeResult(b *tidemark.Block, content json.RawMessage, nesting int) (err error) {
	if json.Unmarshal(content, &b.Text) != nil && len(content) > 0 {
		b.Blocks, err = decodeBlocks(content, nesting+1)
	}
	return err
}

func takeImage(p wire.Part, raw json.RawMessage) (b tidemark.Block, known []string, ok bool) {
	b, _ = wire.Media(p, raw)
	return b, []string{"type", "source"}, p.Type == "image"
}

// takeUnknown shows a type of a later version by its name; export writes it back
// verbatim.
func takeUnknown(p wire.Part) tidemark.Block {
	return tidemark.Block{Type: tidemark.BlockFile, Name: p.Type, MediaType: "application/json"}
}

// encodeBlock writes a block as meka does, nil for one that it has no type for.
func encodeBlock(b tidemark.Block) json.RawMessage {
	e := wire.Encoder{Input: orEmpty, Says: true,
		Whole: func(b tidemark.Block) bool {
			return b.Provider == "agsh" || b.Provider == anthropic && isThinking(b.Raw)
		},
		Result: func(b tidemark.Block) any {
			if b.Blocks != nil {
				return encodeBlocks(b.Blocks)
			}
			return b.Text
		}}
	object, raw := e.Block(b)
	switch {
	case raw != nil:
		return raw
	case b.Type == tidemark.BlockThinking:
		object = wire.Fields{{Key: "type", Value: "thinking"}, {Key: "thinking", Value: b.Text}, {Key: "signature", Value: nil}}
	case b.Type == tidemark.BlockImage:
		src := wire.Source{Type: "base64", MediaType: b.MediaType, Data: base64.StdEncoding.EncodeToString(b.Data)}
		if len(b.Data) == 0 {
			src = wire.Source{Type: "url", URL: b.URL}
		}
		object = wire.Fields{{Key: "type", Value: "image"}, {Key: "source", Value: src}}
	case b.Type == tidemark.BlockFile, object == nil:
		return nil
	}
	return marshal(object)
}

// encodeBlocks writes the blocks that meka has types for.
func encodeBlocks(blocks []tidemark.Block) json.RawMessage {
	raws := make([]json.RawMessage, 0, len(blocks))
	for _, b := range blocks {
		if raw := encodeBlock(b); raw != nil {
			raws = append(raws, raw)
		}
	}
	return marshal(raws)
}

// isThinking reports whether raw is a signed block that may be sent back.
func isThinking(raw string) bool {
	var w struct {
		Type string `json:"type"`
	}
	return json.Unmarshal([]byte(raw), &w) == nil && (w.Type == "thinking" || w.Type == "redacted_thinking")
}

// orEmpty stands in for arguments that are missing or are no JSON.
func orEmpty(input json.RawMessage) any {
	if !json.Valid(input) {
		return json.RawMessage("{}")
	}
	return input
}

// marshal writes JSON that a person reads as it was typed. Its arguments can
// always be encoded.
func marshal(v any) json.RawMessage {
	b, _ := convert.Encode(v)
	return b
}
