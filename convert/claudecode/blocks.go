package claudecode

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// maxDepth bounds results within results.
const maxDepth = 4

// contentOf turns the content of a message into blocks: a string is one text.
func contentOf(raw json.RawMessage, depth int) (blocks []tidemark.Block, isString bool) {
	var text string
	var list []json.RawMessage
	switch {
	case len(raw) == 0:
		return nil, false
	case raw[0] == '"' && json.Unmarshal(raw, &text) == nil:
		return []tidemark.Block{tidemark.Text(text)}, true
	case raw[0] != '[' || json.Unmarshal(raw, &list) != nil:
		return nil, false
	}
	for _, one := range list {
		blocks = append(blocks, blockOf(one, depth))
	}
	return blocks, false
}

// blockOf turns one block of the provider into one of ours. What ours has no
// field for stays in Raw, byte for byte.
func blockOf(raw json.RawMessage, depth int) tidemark.Block {
	var in struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		IsError   bool            `json:"is_error"`
		Content   json.RawMessage `json:"content"`
		Title     string          `json:"title"`
		Source    json.RawMessage `json:"source"`
	}
	var fields map[string]json.RawMessage
	if convert.Loose(raw, &in) != nil || json.Unmarshal(raw, &fields) != nil {
		return tidemark.Block{Type: tidemark.BlockText, Provider: provider, Raw: string(raw)}
	}
	b := tidemark.Block{}
	plain := []string{"type"}
	switch kind := in.Type; {
	case kind == "text":
		b = tidemark.Text(in.Text)
		plain = append(plain, "text")
	case kind == "thinking", kind == "redacted_thinking":
		b = tidemark.Block{Type: tidemark.BlockThinking, Text: in.Thinking}
	case strings.HasSuffix(kind, "tool_use"):
		b = tidemark.Block{Type: tidemark.BlockToolUse, ID: in.ID, Name: in.Name, Input: in.Input}
		if kind == "tool_use" {
			plain = append(plain, "id", "name", "input")
		}
	case strings.HasSuffix(kind, "tool_result"):
		b = tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: in.ToolUseID, IsError: in.IsError}
		if depth < maxDepth && in.Content != nil {
			inner, isString := contentOf(in.Content, depth+1)
			if isString {
				b.Text = inner[0].Text
			} else {
				b.Blocks = inner
			}
		}
		if kind == "tool_result" {
			plain = append(plain, "tool_use_id", "content", "is_error")
		}
	case kind == "image", kind == "document":
		var whole bool
		if b, whole = mediaOf(in.Source, kind, in.Title); whole {
			plain = append(plain, "source", "title")
		}
	default:
		b = tidemark.Block{Type: tidemark.BlockText}
	}
	for _, key := range plain {
		delete(fields, key)
	}
	if len(fields) > 0 || b.Type == tidemark.BlockText && in.Type != "text" {
		b.Provider, b.Raw = provider, string(raw)
		if b.Data != nil {
			b.Data = nil // it is in Raw
		}
	}
	return b
}

// mediaOf reads an image or a document. Whole says that nothing of its source
// is lost in the block.
func mediaOf(raw json.RawMessage, kind, title string) (b tidemark.Block, whole bool) {
	b = tidemark.Block{Type: tidemark.BlockImage, Name: title}
	if kind == "document" {
		b.Type = tidemark.BlockFile
	}
	var source struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	}
	if convert.Loose(raw, &source) != nil {
		return b, false
	}
	b.MediaType, b.URL = source.MediaType, source.URL
	switch source.Type {
	case "base64":
		data, err := base64.StdEncoding.DecodeString(source.Data)
		b.Data = data
		return b, err == nil && len(data) > 0
	case "url":
		return b, b.URL != ""
	}
	return b, false
}

// rawBlock is the way back: a block as the provider writes it. It is nil for
// one that the provider would refuse.
func rawBlock(b tidemark.Block) json.RawMessage {
	if b.Raw != "" && b.Provider == provider && json.Valid([]byte(b.Raw)) {
		return json.RawMessage(b.Raw)
	}
	var out any
	switch b.Type {
	case tidemark.BlockText:
		out = map[string]any{"type": "text", "text": b.Text}
	case tidemark.BlockToolUse:
		input := b.Input
		if len(input) == 0 || input[0] != '{' || !json.Valid(input) {
			input, _ = json.Marshal(map[string]any{"input": json.RawMessage(quoted(b.Input))})
			if len(b.Input) == 0 {
				input = json.RawMessage("{}")
			}
		}
		out = map[string]any{"type": "tool_use", "id": callID(b.ID), "name": b.Name, "input": input}
	case tidemark.BlockToolResult:
		m := map[string]any{"type": "tool_result", "tool_use_id": callID(b.ToolUseID), "content": b.Text}
		if len(b.Blocks) > 0 {
			m["content"] = rawBlocks(b.Blocks)
		}
		if b.IsError {
			m["is_error"] = true
		}
		out = m
	case tidemark.BlockImage, tidemark.BlockFile:
		source := map[string]any{"type": "base64", "media_type": b.MediaType, "data": b.Data}
		if len(b.Data) == 0 {
			source = map[string]any{"type": "url", "url": b.URL}
			if b.URL == "" {
				return nil
			}
		}
		m := map[string]any{"type": "image", "source": source}
		if b.Type == tidemark.BlockFile {
			m["type"] = "document"
			if b.Name != "" {
				m["title"] = b.Name
			}
		}
		out = m
	default:
		return nil // thinking without its signature among them
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return raw
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

// quoted is JSON as it is, or as a JSON string when it is none.
func quoted(raw json.RawMessage) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	b, _ := json.Marshal(string(raw))
	return b
}
