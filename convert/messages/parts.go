package messages

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/wire"
)

// message is a message of either format.
type message struct {
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	ToolCalls    []wire.Call     `json:"tool_calls"`
	ToolCallID   string          `json:"tool_call_id"`
	FunctionCall *wire.Function  `json:"function_call"`
	Reasoning    string          `json:"reasoning_content"`
	raw          json.RawMessage
	answers      string
}

// blocksOf reads content: a string or a list of parts. Results nested in a
// result are kept raw, because nesting has no limit.
func blocksOf(content json.RawMessage, provider string, inside bool) []tidemark.Block {
	text, list, _ := wire.Content(content)
	if text != "" {
		return []tidemark.Block{tidemark.Text(text)}
	}
	d := wire.Decoder{Provider: provider, Media: mediaOf, Unknown: unknown}
	if !inside {
		d.Result = func(b *tidemark.Block, content json.RawMessage, _ int) error {
			takeResult(b, content, provider)
			return nil
		}
	}
	var all []tidemark.Block
	for _, raw := range list {
		if b, err := d.Block(raw, 0); err == nil && b.Type != "" {
			all = append(all, b)
		}
	}
	return all
}

// mediaOf reads a part with a file or a picture, in either shape.
func mediaOf(p wire.Part, raw json.RawMessage) (b tidemark.Block, known []string, ok bool) {
	if p.Type == "" || p.Source == nil {
		b, known, ok = wire.LinkedMedia(p, raw)
		return b, known, ok && p.Type != ""
	}
	b, whole := wire.Media(p, raw)
	if whole {
		known = []string{"type", "source", "title"}
	}
	return b, known, true
}

// unknown shows a part by the name of its type. One without a type is dropped.
func unknown(p wire.Part) tidemark.Block {
	switch p.Type {
	case "":
		return tidemark.Block{}
	case "tool_result":
		p.Type = "tool_result in a tool_result"
	}
	return tidemark.Block{Type: tidemark.BlockFile, Name: p.Type}
}

// takeResult reads the content of a result: a text, or parts.
func takeResult(b *tidemark.Block, content json.RawMessage, provider string) {
	blocks := blocksOf(content, provider, true)
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

// rest is the fields of a message that an entry does not hold.
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

// anthropicEntries makes entries from a message. Results and the user's text are
// one message there, and two entries here.
func anthropicEntries(n int, m *message) []convert.Entry {
	e := convert.Entry{ID: strconv.Itoa(n)}
	e.Extra = m.rest("anthropic", "role", "content")
	blocks := blocksOf(m.Content, "anthropic", false)
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
		takeResult(&b, m.Content, "openai")
		e.Blocks, e.Extra = []tidemark.Block{b}, m.rest("openai", held...)
		return []convert.Entry{e}
	default:
		return nil
	}
	e.Blocks = append(e.Blocks, blocksOf(m.Content, "openai", false)...)
	if f := m.FunctionCall; f != nil {
		m.ToolCalls = append(m.ToolCalls, wire.Call{ID: "call-" + e.ID, Function: *f})
	}
	for _, c := range m.ToolCalls {
		e.Blocks = append(e.Blocks, c.Block())
	}
	e.Extra = m.rest("openai", held...)
	return []convert.Entry{e}
}
