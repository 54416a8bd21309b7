package claudecode

import (
	"encoding/json"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// maxDepth bounds results within results.
const maxDepth = 4

// contentOf turns the content of a message into blocks: a string is one text.
func contentOf(raw json.RawMessage, depth int) (blocks []tidemark.Block, isString bool) {
	text, list, isString := wire.Content(raw)
	if isString {
		return []tidemark.Block{tidemark.Text(text)}, true
	}
	for _, one := range list {
		blocks = append(blocks, blockOf(one, depth))
	}
	return blocks, false
}

// blockOf turns one block of the provider into one of ours. A block with
// anything that ours has no field for is kept in Raw, byte for byte.
func blockOf(raw json.RawMessage, depth int) tidemark.Block {
	b, err := decoder().Block(raw, depth)
	return blockFrom(b, err, raw)
}

func decoder() *wire.Decoder {
	return &wire.Decoder{Provider: provider, ServerTools: true, Result: takeResult, Media: mediaOf,
		Unknown: func(wire.Part) tidemark.Block { return tidemark.Block{Type: tidemark.BlockText} }}
}

// blockFrom is what becomes of a block that was decoded from raw.
func blockFrom(b tidemark.Block, err error, raw []byte) tidemark.Block {
	if err != nil {
		return tidemark.Block{Type: tidemark.BlockText, Provider: provider, Raw: string(raw)}
	}
	if b.Raw != "" {
		b.Data = nil // it is in Raw
	}
	return b
}

func takeResult(b *tidemark.Block, content json.RawMessage, depth int) error {
	if depth >= maxDepth {
		return nil
	}
	inner, isString := contentOf(content, depth+1)
	if isString {
		b.Text = inner[0].Text
	} else {
		b.Blocks = inner
	}
	return nil
}

func mediaOf(p wire.Part, raw json.RawMessage) (b tidemark.Block, known []string, ok bool) {
	if p.Type != "image" && p.Type != "document" {
		return b, nil, false
	}
	b, whole := wire.Media(p, raw)
	if whole {
		return b, []string{"type", "source", "title"}, true
	}
	return b, []string{"type"}, true
}

// rawBlock is the reverse: a block as the provider writes it. It is nil for one
// that the provider would refuse.
func rawBlock(b tidemark.Block) json.RawMessage {
	e := wire.Encoder{ID: callID, Input: objectOf,
		Whole: func(b tidemark.Block) bool { return b.Provider == provider && json.Valid([]byte(b.Raw)) },
		Result: func(b tidemark.Block) any {
			if len(b.Blocks) > 0 {
				return rawBlocks(b.Blocks)
			}
			return b.Text
		}}
	object, raw := e.Block(b)
	if object == nil {
		return raw
	}
	raw, err := json.Marshal(object.Map())
	if err != nil {
		return nil
	}
	return raw
}

// objectOf is the input of a call, which the provider requires to be an object.
func objectOf(input json.RawMessage) any {
	switch {
	case len(input) == 0:
		return json.RawMessage("{}")
	case input[0] == '{' && json.Valid(input):
		return input
	}
	return map[string]any{"input": quoted(input)}
}

func rawBlocks(blocks []tidemark.Block) []json.RawMessage {
	list := []json.RawMessage{}
	for _, b := range blocks {
		if raw := rawBlock(b); raw != nil {
			list = append(list, raw)
		}
	}
	return list
}

// quoted is raw if it is valid JSON, and otherwise a JSON string of it.
func quoted(raw json.RawMessage) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	b, _ := json.Marshal(string(raw))
	return b
}
