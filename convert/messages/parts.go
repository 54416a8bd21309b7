package messages

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// message is a message of either.
type message struct {
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	ToolCalls    []call          `json:"tool_calls"`
	ToolCallID   string          `json:"tool_call_id"`
	FunctionCall *function       `json:"function_call"`
	Reasoning    string          `json:"reasoning_content"`
	raw          json.RawMessage
	answers      string
	inside       bool // a result
}

type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// part is a part of a message's content.
type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Title     string          `json:"title"`
	Source    *source         `json:"source"`
	ImageURL  *struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File *struct {
		Filename string `json:"filename"`
		FileData string `json:"file_data"`
	} `json:"file"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}

// parts reads content: a text or a list of parts.
func (m *message) parts() (all []part, raws []json.RawMessage) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		if text == "" {
			return nil, nil
		}
		return []part{{Type: "text", Text: text}}, []json.RawMessage{nil}
	}
	var list []json.RawMessage
	if json.Unmarshal(m.Content, &list) != nil {
		return nil, nil
	}
	for _, raw := range list {
		var p part
		if convert.Loose(raw, &p) == nil && p.Type != "" {
			all, raws = append(all, p), append(raws, raw)
		}
	}
	return all, raws
}

func (m *message) blocks(provider string) []tidemark.Block {
	var all []tidemark.Block
	parts, raws := m.parts()
	for i, p := range parts {
		if m.inside && p.Type == "tool_result" {
			p.Type = "tool_result in a tool_result" // kept as it is: there is no end to it
		}
		all = append(all, p.block(raws[i], provider))
	}
	return all
}

// block makes a block of a part. One that has more than a block can say is
// kept whole beside it, to be written as it was.
func (p part) block(raw json.RawMessage, provider string) tidemark.Block {
	var b tidemark.Block
	known := []string{"type"}
	switch {
	case p.Type == "text":
		b, known = tidemark.Text(p.Text), append(known, "text")
	case p.Type == "thinking" || p.Type == "redacted_thinking":
		b = tidemark.Block{Type: tidemark.BlockThinking, Text: p.Thinking}
		known = nil // it is signed: no byte may change
	case p.Type == "tool_use":
		b = tidemark.Block{Type: tidemark.BlockToolUse, ID: p.ID, Name: p.Name, Input: p.Input}
		known = append(known, "id", "name", "input")
	case p.Type == "tool_result":
		b = tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: p.ToolUseID, IsError: p.IsError}
		p.result(&b, provider)
		known = append(known, "tool_use_id", "content", "is_error")
	case p.Source != nil:
		b = p.Source.block(p.Type, p.Title)
		known = append(known, "source", "title")
	case p.ImageURL != nil:
		b = dataURL(tidemark.Block{Type: tidemark.BlockImage}, p.ImageURL.URL)
		known = append(known, "image_url")
	case p.File != nil:
		b = dataURL(tidemark.Block{Type: tidemark.BlockFile, Name: p.File.Filename}, p.File.FileData)
		known = append(known, "file")
	default:
		b, known = tidemark.Block{Type: tidemark.BlockFile, Name: p.Type}, nil
	}
	if raw != nil && hasMore(raw, known) {
		b.Provider, b.Raw = provider, string(raw)
	}
	return b
}

func hasMore(raw json.RawMessage, known []string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return true
	}
	if source := fields["source"]; source != nil && !hasMore(source, []string{"type", "media_type", "data", "url"}) {
		delete(fields, "source")
	}
	for k := range fields {
		if !slices.Contains(known, k) || k == "source" {
			return true
		}
	}
	if image := fields["image_url"]; image != nil {
		return hasMore(image, []string{"url"})
	}
	if file := fields["file"]; file != nil {
		return hasMore(file, []string{"filename", "file_data"})
	}
	return false
}

// result reads the content of a result: a text, or parts.
func (p part) result(b *tidemark.Block, provider string) {
	inner := &message{Content: p.Content, inside: true}
	blocks := inner.blocks(provider)
	var texts []string
	for _, one := range blocks {
		if one.Type == tidemark.BlockText {
			texts = append(texts, one.Text)
		}
	}
	b.Text = strings.Join(texts, "\n")
	if len(blocks) > 1 || len(blocks) != len(texts) {
		b.Blocks = blocks
	}
}

func (s *source) block(kind, title string) tidemark.Block {
	b := tidemark.Block{Type: tidemark.BlockFile, Name: title, MediaType: s.MediaType, URL: s.URL}
	if kind == "image" {
		b.Type = tidemark.BlockImage
	}
	if s.Type == "text" {
		b.Data = []byte(s.Data)
	} else if data, err := base64.StdEncoding.DecodeString(s.Data); err == nil && len(data) > 0 {
		b.Data = data
	}
	return b
}

// dataURL puts what a URL holds, or the URL, into a block.
func dataURL(b tidemark.Block, link string) tidemark.Block {
	if media, data, ok := convert.DataURL(link); ok {
		b.MediaType, b.Data = media, data
		return b
	}
	b.URL = link
	return b
}

// rest is what a message has beyond the fields that an entry holds.
func (m *message) rest(name string, held ...string) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(m.raw, &fields) != nil {
		return nil
	}
	for k, v := range fields {
		if slices.Contains(held, k) || string(v) == "null" {
			delete(fields, k)
		}
	}
	return convert.Keep(name, fields)
}

// anthropicEntries makes entries of a message. Results and what the user says
// are one message there, and two entries here.
func anthropicEntries(n int, m *message) []convert.Entry {
	e := convert.Entry{ID: strconv.Itoa(n)}
	e.Extra = m.rest("anthropic", "role", "content")
	blocks := m.blocks("anthropic")
	switch m.Role {
	case "assistant":
		e.Role, e.Blocks = tidemark.Assistant, blocks
	case "system":
		e.Role, e.Blocks = tidemark.System, blocks
	case "user":
		var results, said []tidemark.Block
		for _, b := range blocks {
			if b.Type == tidemark.BlockToolResult {
				results = append(results, b)
			} else {
				said = append(said, b)
			}
		}
		if e.Role, e.Blocks = tidemark.User, said; len(results) > 0 {
			e.Role, e.Blocks = tidemark.Tool, results
		}
		if len(results) > 0 && len(said) > 0 {
			behind := convert.Entry{ID: e.ID + "#text"}
			behind.Role, behind.Blocks = tidemark.User, said
			return []convert.Entry{e, behind}
		}
	default:
		return nil
	}
	return []convert.Entry{e}
}

// openaiEntries makes an entry of a message.
func openaiEntries(n int, m *message) []convert.Entry {
	e := convert.Entry{ID: strconv.Itoa(n)}
	held := []string{"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "function_call"}
	switch m.Role {
	case "system":
		e.Role = tidemark.System
	case "developer":
		e.Role, held = tidemark.System, held[1:]
	case "user":
		e.Role = tidemark.User
	case "assistant":
		e.Role = tidemark.Assistant
		if m.Reasoning != "" {
			e.Blocks = []tidemark.Block{{Type: tidemark.BlockThinking, Text: m.Reasoning}}
		}
	case "tool", "function":
		e.Role = tidemark.Tool
		b := tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: cmp.Or(m.ToolCallID, m.answers)}
		part{Content: m.Content}.result(&b, "openai")
		e.Blocks, e.Extra = []tidemark.Block{b}, m.rest("openai", held...)
		return []convert.Entry{e}
	default:
		return nil
	}
	e.Blocks = append(e.Blocks, m.blocks("openai")...)
	if f := m.FunctionCall; f != nil {
		m.ToolCalls = append(m.ToolCalls, call{ID: "call-" + e.ID, Function: *f})
	}
	for _, c := range m.ToolCalls {
		b := tidemark.Block{Type: tidemark.BlockToolUse, ID: c.ID, Name: c.Function.Name, Input: arguments(c.Function.Arguments)}
		e.Blocks = append(e.Blocks, b)
	}
	e.Extra = m.rest("openai", held...)
	return []convert.Entry{e}
}

// arguments are JSON in a string. What a model wrote that is no JSON stays a
// string.
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
