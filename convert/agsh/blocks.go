package agsh

import (
	"encoding/base64"
	"encoding/json"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// A message's content is a JSON array of blocks in the shape of Anthropic's.
// Each block is taken apart, and kept whole in Raw only where putting it
// together again would not give the same JSON.

// maxNesting bounds blocks in blocks: a tool result holds texts and images, and
// those hold nothing.
const maxNesting = 4

// anthropic is whose shape a signed block has.
const anthropic = "anthropic"

// wireBlock has the fields of all types of blocks.
type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    wireSource      `json:"source"`
}

type wireSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"` // base64
	URL       string `json:"url,omitempty"`
}

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
	var w wireBlock
	if err := json.Unmarshal(raw, &w); err != nil {
		return tidemark.Block{}, tidemark.Invalidf("block: %w", err)
	}
	b := tidemark.Block{Type: w.Type}
	switch w.Type {
	case "text":
		b.Text = w.Text
	case "thinking":
		b.Text, b.Provider, b.Raw = w.Thinking, anthropic, string(raw)
	case "redacted_thinking":
		b = tidemark.Block{Type: tidemark.BlockThinking, Provider: anthropic, Raw: string(raw)}
	case "tool_use":
		b.ID, b.Name, b.Input = w.ID, w.Name, w.Input
	case "tool_result":
		b.ToolUseID, b.IsError = w.ToolUseID, w.IsError
		if json.Unmarshal(w.Content, &b.Text) != nil && len(w.Content) > 0 {
			var err error
			if b.Blocks, err = decodeBlocks(w.Content, nesting+1); err != nil {
				return b, err
			}
		}
	case "image":
		b.MediaType, b.URL = w.Source.MediaType, w.Source.URL
		if data, err := base64.StdEncoding.DecodeString(w.Source.Data); err == nil {
			b.Data = data
		}
	default:
		// A type of a later version: shown by its name, and given back as it is.
		b = tidemark.Block{Type: tidemark.BlockFile, Name: w.Type, MediaType: "application/json", Provider: "agsh", Raw: string(raw)}
	}
	if b.Raw == "" && !convert.SameJSON(encodeBlock(b), raw) {
		b.Provider, b.Raw = "agsh", string(raw)
	}
	return b, nil
}

// encodeBlock writes a block as meka does, nil for one that it has no type for.
func encodeBlock(b tidemark.Block) json.RawMessage {
	if b.Raw != "" && (b.Provider == "agsh" || b.Provider == anthropic && isThinking(b.Raw)) {
		return json.RawMessage(b.Raw)
	}
	switch b.Type {
	case tidemark.BlockText:
		return marshal(struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}{"text", b.Text})
	case tidemark.BlockThinking:
		return marshal(struct {
			Type      string  `json:"type"`
			Thinking  string  `json:"thinking"`
			Signature *string `json:"signature"`
		}{"thinking", b.Text, nil})
	case tidemark.BlockToolUse:
		return marshal(struct {
			Type  string          `json:"type"`
			ID    string          `json:"id"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		}{"tool_use", b.ID, b.Name, orEmpty(b.Input)})
	case tidemark.BlockToolResult:
		return encodeResult(b)
	case tidemark.BlockImage:
		src := wireSource{Type: "base64", MediaType: b.MediaType, Data: base64.StdEncoding.EncodeToString(b.Data)}
		if len(b.Data) == 0 {
			src = wireSource{Type: "url", URL: b.URL}
		}
		return marshal(struct {
			Type   string     `json:"type"`
			Source wireSource `json:"source"`
		}{"image", src})
	}
	return nil
}

func encodeResult(b tidemark.Block) json.RawMessage {
	content := marshal(b.Text)
	if b.Blocks != nil {
		content = encodeBlocks(b.Blocks)
	}
	return marshal(struct {
		Type      string          `json:"type"`
		ToolUseID string          `json:"tool_use_id"`
		Content   json.RawMessage `json:"content"`
		IsError   bool            `json:"is_error"`
	}{"tool_result", b.ToolUseID, content, b.IsError})
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
func orEmpty(input json.RawMessage) json.RawMessage {
	if !json.Valid(input) {
		return json.RawMessage("{}")
	}
	return input
}

// marshal writes JSON that a person reads as it was typed. What is handed to
// it can always be written.
func marshal(v any) json.RawMessage {
	b, _ := convert.Encode(v)
	return b
}
