package standin

import (
	"encoding/json"
	"fmt"
	"strings"
)

// wire is the form of a provider's responses.
type wire interface {
	name() string
	events(heard, answer, int) []event
	whole(heard, answer, int) any
	failure(status int) any
	late(status int) event // an error in the middle of a stream
}

type object = map[string]any

// failures are the providers' names and messages for errors.
func failures(status int) (kind, message string) {
	switch status {
	case 400:
		return "invalid_request_error", "this is a bad request"
	case 401:
		return "authentication_error", "invalid API key"
	case 403:
		return "permission_error", "not allowed"
	case 404:
		return "not_found_error", "no such model"
	case 413:
		return "request_too_large", "prompt is too long: 250000 tokens > 200000 maximum"
	case 429:
		return "rate_limit_error", "too many requests"
	case 529:
		return "overloaded_error", "Overloaded"
	}
	return "api_error", "something broke"
}

// message is one of a conversation, in either protocol.
type message struct {
	Type, Role string
	Content    json.RawMessage
}

// texts returns the texts of a message: all of it, or some of its parts.
func (m message) texts() (all []string) {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return []string{s}
	}
	var parts []struct{ Text string }
	if json.Unmarshal(m.Content, &parts) != nil {
		return nil
	}
	for _, p := range parts {
		all = append(all, p.Text)
	}
	return all
}

// hear handles a message.
func (h *heard) hear(m message) {
	switch m.Role {
	case "assistant":
		h.answers++
	case "user":
		var said []string
		for _, s := range m.texts() {
			if typed(s) {
				said = append(said, s)
			}
		}
		if len(said) > 0 {
			h.said = append(h.said, strings.Join(said, "\n"))
			h.answers = 0
		}
	}
}

// anthropicWire is that of the Messages API.
type anthropicWire struct{}

func (anthropicWire) name() string { return "anthropic" }

func hearMessages(b []byte) (h heard, err error) {
	var r struct {
		Model    string
		Stream   bool
		Messages []message
		Tools    []struct {
			Name   string
			Schema schema `json:"input_schema"`
		}
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return h, err
	}
	h = heard{wire: anthropicWire{}, model: r.Model, stream: r.Stream}
	for _, m := range r.Messages {
		h.hear(m)
	}
	for _, t := range r.Tools {
		h.tools = append(h.tools, offered{t.Name, "", t.Schema})
	}
	return h, nil
}

func (anthropicWire) blocks(a answer, n int) (all []object) {
	if a.thoughts != "" {
		all = append(all, object{"type": "thinking", "thinking": a.thoughts, "signature": Signature})
	}
	if a.text != "" {
		all = append(all, object{"type": "text", "text": a.text})
	}
	for i, c := range a.calls {
		all = append(all, object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d_%d", n, i), "name": c.name, "input": c.input})
	}
	return all
}

func (anthropicWire) stop(a answer) string {
	switch {
	case a.stop != "":
		return a.stop
	case len(a.calls) > 0:
		return "tool_use"
	}
	return "end_turn"
}

func (anthropicWire) usage(a answer) object {
	return object{"input_tokens": a.usage.in, "output_tokens": a.usage.out, "cache_read_input_tokens": a.usage.cacheRead, "cache_creation_input_tokens": a.usage.cacheWrite}
}

func (w anthropicWire) whole(h heard, a answer, n int) any {
	return object{"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant", "model": h.model, "content": w.blocks(a, n),
		"stop_reason": w.stop(a), "stop_sequence": nil, "usage": w.usage(a)}
}

func (w anthropicWire) events(h heard, a answer, n int) (all []event) {
	add := func(kind string, o object) {
		o["type"] = kind
		all = append(all, event{kind, o})
	}
	start := w.whole(h, a, n).(object)
	start["content"], start["stop_reason"] = []any{}, nil
	add("message_start", object{"message": start})
	for i, b := range w.blocks(a, n) {
		delta := func(kind, field, s string) {
			for _, p := range pieces(s) {
				add("content_block_delta", object{"index": i, "delta": object{"type": kind, field: p}})
			}
		}
		switch b["type"] {
		case "thinking":
			add("content_block_start", object{"index": i, "content_block": object{"type": "thinking", "thinking": "", "signature": ""}})
			delta("thinking_delta", "thinking", a.thoughts)
			delta("signature_delta", "signature", b["signature"].(string))
		case "text":
			add("content_block_start", object{"index": i, "content_block": object{"type": "text", "text": ""}})
			delta("text_delta", "text", a.text)
		default:
			add("content_block_start", object{"index": i, "content_block": object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}})
			delta("input_json_delta", "partial_json", string(b["input"].(json.RawMessage)))
		}
		add("content_block_stop", object{"index": i})
	}
	add("message_delta", object{"delta": object{"stop_reason": w.stop(a), "stop_sequence": nil}, "usage": object{"output_tokens": a.usage.out}})
	add("message_stop", object{})
	return all
}

func (anthropicWire) failure(status int) any {
	kind, message := failures(status)
	return object{"type": "error", "error": object{"type": kind, "message": message}}
}

func (w anthropicWire) late(status int) event { return event{"error", w.failure(status)} }
