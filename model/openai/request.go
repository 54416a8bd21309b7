package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// Parts returns what is sent of r, in the order in which a prompt cache reads
// it: the tools, the system message, then a part for each entry: its message, or
// its messages with commas between them. A missing element has an empty part.
// Equal requests have equal parts, and when the entries of one begin with those
// of another, so do its parts.
func (c *Client) Parts(r model.Request) ([][]byte, error) {
	if c.o.Responses {
		return responsesParts(r)
	}
	parts := make([][]byte, 0, len(r.Entries)+2)
	tools, err := toolsOf(r.Tools)
	if err != nil {
		return nil, err
	}
	var system []byte
	if strings.TrimSpace(r.System) != "" {
		if system, err = model.JSON(message{Role: "system", Content: r.System}); err != nil {
			return nil, err
		}
	}
	parts = append(parts, tools, system)
	for i, e := range r.Entries {
		part, err := messagesOf(e)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// head is what a request contains besides the conversation.
type head struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           int    `json:"max_tokens,omitempty"`
	MaxCompletionTokens int    `json:"max_completion_tokens,omitempty"`
	ReasoningEffort     string `json:"reasoning_effort,omitempty"`
}

// body returns a whole request, made of its parts.
func (c *Client) body(r model.Request) ([]byte, error) {
	if c.o.Responses {
		return c.responsesBody(r)
	}
	parts, err := c.Parts(r)
	if err != nil {
		return nil, err
	}
	h := head{Model: r.Model, Stream: true, ReasoningEffort: model.Effort(r.Thinking)}
	h.StreamOptions.IncludeUsage = true
	// OpenAI's own models refuse the older name, other servers do not know the
	// newer one.
	if c.url.Host == "api.openai.com" {
		h.MaxCompletionTokens = r.MaxTokens
	} else {
		h.MaxTokens = r.MaxTokens
	}
	begin, err := model.JSON(h)
	if err != nil {
		return nil, err
	}
	silent := func(p []byte) bool { return len(p) == 0 }
	if !slices.ContainsFunc(parts[2:], func(p []byte) bool { return !silent(p) }) {
		return nil, tidemark.Invalidf("the conversation is empty: there is nothing to answer")
	}
	messages := slices.DeleteFunc(slices.Clone(parts[1:]), silent)
	body := bytes.TrimSuffix(begin, []byte("}"))
	if len(parts[0]) > 0 {
		body = append(append(body, `,"tools":`...), parts[0]...)
	}
	body = append(append(body, `,"messages":[`...), bytes.Join(messages, []byte(","))...)
	return append(body, `]}`...), nil
}

type toolParam struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

func toolsOf(tools []model.Tool) ([]byte, error) {
	if len(tools) == 0 {
		return nil, nil // an empty list is refused
	}
	list := make([]toolParam, len(tools))
	for i, t := range tools {
		schema, err := model.SchemaOf(t)
		if err != nil {
			return nil, err
		}
		list[i].Type = "function"
		list[i].Function.Name, list[i].Function.Description, list[i].Function.Parameters = t.Name, t.Description, schema
	}
	return model.JSON(list)
}

type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // a string, or parts
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type part struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
	File     *file     `json:"file,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type file struct {
	Name string `json:"filename"`
	Data string `json:"file_data"`
}

// messagesOf returns the messages of an entry, joined by commas. Each tool
// result is a message of its own and comes first, since results have to follow
// their calls.
func messagesOf(e tidemark.Entry) ([]byte, error) {
	if e.Kind != "" && e.Kind != tidemark.KindMessage {
		return nil, nil
	}
	var list []message
	var rest []tidemark.Block
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockToolResult {
			list = append(list, resultOf(b))
		} else {
			rest = append(rest, b)
		}
	}
	m, ok, err := speech(e.Role, rest)
	if err != nil {
		return nil, err
	}
	if ok {
		list = append(list, m)
	}
	var out [][]byte
	for _, m := range list {
		raw, err := model.JSON(m)
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return bytes.Join(out, []byte(",")), nil
}

// resultOf returns a tool result as text: this API accepts nothing else.
func resultOf(b tidemark.Block) message {
	var words []string
	for _, inner := range model.Inside(b) {
		words = append(words, model.InWords(inner))
	}
	text := strings.Join(words, "\n")
	if b.IsError {
		text = "error: " + text
	}
	return message{Role: "tool", Content: text, ToolCallID: b.ToolUseID}
}

// speech returns the message of a role, false when there is nothing that can be
// sent. Thinking is left out: each server that wants it back wants it in its own
// form.
func speech(role tidemark.Role, blocks []tidemark.Block) (message, bool, error) {
	m := message{Role: "user"}
	switch role {
	case tidemark.Assistant:
		m.Role = "assistant"
	case tidemark.System:
		m.Role = "system"
	}
	var words []string
	var parts []part
	for _, b := range blocks {
		switch {
		case b.Type == tidemark.BlockThinking:
		case b.Type == tidemark.BlockToolUse:
			input, err := model.InputOf(b)
			if err != nil {
				return m, false, err
			}
			m.ToolCalls = append(m.ToolCalls, toolCall{b.ID, "function", function{b.Name, string(input)}})
		case m.Role == "user" && rich(b) != nil:
			parts = append(textParts(parts, words), *rich(b))
			words = nil
		default:
			words = append(words, model.InWords(b))
		}
	}
	if len(parts) > 0 {
		m.Content = textParts(parts, words)
		return m, true, nil
	}
	text := strings.Join(words, "\n")
	m.Content = text
	return m, text != "" || len(m.ToolCalls) > 0, nil
}

func textParts(parts []part, words []string) []part {
	if text := strings.Join(words, "\n"); text != "" {
		parts = append(parts, part{Type: "text", Text: text})
	}
	return parts
}

// rich returns an image or a document as a part, nil for what has to be sent as
// text.
func rich(b tidemark.Block) *part {
	data := "data:" + b.MediaType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
	switch {
	case b.Type == tidemark.BlockImage && len(b.Data) > 0 && strings.HasPrefix(b.MediaType, "image/"):
		return &part{Type: "image_url", ImageURL: &imageURL{data}}
	case b.Type == tidemark.BlockImage && len(b.Data) == 0 && strings.HasPrefix(b.URL, "https://"):
		return &part{Type: "image_url", ImageURL: &imageURL{b.URL}}
	case b.Type == tidemark.BlockFile && len(b.Data) > 0 && b.MediaType == "application/pdf":
		return &part{Type: "file", File: &file{b.Name, data}}
	}
	return nil
}
