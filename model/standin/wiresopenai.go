package standin

import (
	"encoding/json"
	"fmt"
)

// chatWire is that of OpenAI's Chat Completions, which many servers speak.
type chatWire struct{}

func (chatWire) name() string { return "chat" }

func hearChat(b []byte) (h heard, err error) {
	var r struct {
		Model    string
		Stream   bool
		Messages []message
		Tools    []struct {
			Function struct {
				Name       string
				Parameters schema
			}
		}
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return h, err
	}
	h = heard{wire: chatWire{}, model: r.Model, stream: r.Stream}
	for _, m := range r.Messages {
		h.hear(m)
	}
	for _, t := range r.Tools {
		h.tools = append(h.tools, offered{t.Function.Name, "", t.Function.Parameters})
	}
	return h, nil
}

func (chatWire) finish(a answer) string {
	switch {
	case a.stop == "max_tokens":
		return "length"
	case len(a.calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (chatWire) usage(a answer) object {
	return object{"prompt_tokens": a.usage.in, "completion_tokens": a.usage.out, "total_tokens": a.usage.in + a.usage.out,
		"prompt_tokens_details": object{"cached_tokens": a.usage.cacheRead}}
}

func (chatWire) call(c call, i, n int) object {
	return object{"index": i, "id": fmt.Sprintf("call_%d_%d", n, i), "type": "function", "function": object{"name": c.name, "arguments": string(c.input)}}
}

func (w chatWire) whole(h heard, a answer, n int) any {
	m := object{"role": "assistant", "content": a.text}
	if a.thoughts != "" {
		m["reasoning_content"] = a.thoughts
	}
	var calls []object
	for i, c := range a.calls {
		calls = append(calls, w.call(c, i, n))
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return object{"id": fmt.Sprintf("chatcmpl-%d", n), "object": "chat.completion", "model": h.model, "usage": w.usage(a),
		"choices": []object{{"index": 0, "message": m, "finish_reason": w.finish(a)}}}
}

func (w chatWire) events(h heard, a answer, n int) (all []event) {
	add := func(delta object, finish any) {
		all = append(all, event{"", object{"id": fmt.Sprintf("chatcmpl-%d", n), "object": "chat.completion.chunk", "model": h.model,
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}}}})
	}
	add(object{"role": "assistant", "content": ""}, nil)
	for _, p := range pieces(a.thoughts) {
		add(object{"reasoning_content": p}, nil)
	}
	for _, p := range pieces(a.text) {
		add(object{"content": p}, nil)
	}
	for i, c := range a.calls {
		add(object{"tool_calls": []object{w.call(c, i, n)}}, nil)
	}
	add(object{}, w.finish(a))
	return append(all, event{"", object{"model": h.model, "choices": []any{}, "usage": w.usage(a)}}, event{"", "[DONE]"})
}

func (chatWire) failure(status int) any {
	kind, message := failures(status)
	if status >= 500 {
		kind = "server_error"
	}
	return object{"error": object{"message": message, "type": kind, "code": kind}}
}

func (w chatWire) late(status int) event { return event{"", w.failure(status)} }

// responsesWire is that of OpenAI's Responses, which Codex speaks.
type responsesWire struct{ chatWire }

func (responsesWire) name() string { return "responses" }

func hearResponses(b []byte) (h heard, err error) {
	type tool struct {
		Type, Name string
		Parameters schema
		Tools      []struct {
			Name       string
			Parameters schema
		}
	}
	var r struct {
		Model  string
		Stream bool
		Input  json.RawMessage
		Tools  []tool
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return h, err
	}
	h = heard{wire: responsesWire{}, model: r.Model, stream: r.Stream}
	var items []message
	if json.Unmarshal(r.Input, &items) != nil { // a text alone
		items = []message{{Role: "user", Content: r.Input}}
	}
	open := false // items of one answer follow each other
	for _, m := range items {
		switch {
		case m.Role == "assistant" || m.Type == "function_call" || m.Type == "custom_tool_call" || m.Type == "reasoning":
			if !open {
				h.answers++
			}
			open = true
		default:
			open = false
			h.hear(m)
		}
	}
	for _, t := range r.Tools {
		h.tools = append(h.tools, offered{t.Name, "", t.Parameters})
		for _, within := range t.Tools {
			h.tools = append(h.tools, offered{within.Name, t.Name, within.Parameters})
		}
	}
	return h, nil
}

func (responsesWire) items(a answer, n int) (all []object) {
	if a.thoughts != "" {
		all = append(all, object{"type": "reasoning", "id": fmt.Sprintf("rs_%d", n), "summary": []object{{"type": "summary_text", "text": a.thoughts}}, "encrypted_content": Sealed})
	}
	if a.text != "" {
		all = append(all, object{"type": "message", "id": fmt.Sprintf("msg_%d", n), "role": "assistant", "status": "completed",
			"content": []object{{"type": "output_text", "text": a.text, "annotations": []any{}}}})
	}
	for i, c := range a.calls {
		o := object{"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", n, i), "call_id": fmt.Sprintf("call_%d_%d", n, i), "name": c.name, "arguments": string(c.input), "status": "completed"}
		if c.space != "" {
			o["namespace"] = c.space
		}
		all = append(all, o)
	}
	return all
}

func (w responsesWire) whole(h heard, a answer, n int) any {
	o := object{"id": fmt.Sprintf("resp_%d", n), "object": "response", "status": "completed", "model": h.model, "output": w.items(a, n), "error": nil,
		"usage": object{"input_tokens": a.usage.in, "input_tokens_details": object{"cached_tokens": a.usage.cacheRead},
			"output_tokens": a.usage.out, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": a.usage.in + a.usage.out}}
	if a.stop == "max_tokens" {
		o["status"], o["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	}
	return o
}

func (w responsesWire) events(h heard, a answer, n int) (all []event) {
	add := func(kind string, o object) {
		o["type"], o["sequence_number"] = kind, len(all)
		all = append(all, event{kind, o})
	}
	add("response.created", object{"response": object{"id": fmt.Sprintf("resp_%d", n), "object": "response", "status": "in_progress", "model": h.model, "output": []any{}}})
	for i, item := range w.items(a, n) {
		add("response.output_item.added", object{"output_index": i, "item": item})
		if item["type"] == "message" {
			for _, p := range pieces(a.text) {
				add("response.output_text.delta", object{"item_id": item["id"], "output_index": i, "content_index": 0, "delta": p})
			}
		}
		add("response.output_item.done", object{"output_index": i, "item": item})
	}
	end := w.whole(h, a, n).(object)
	add("response."+end["status"].(string), object{"response": end})
	return all
}

func (w responsesWire) late(status int) event {
	return event{"response.failed", object{"type": "response.failed", "response": object{"status": "failed", "error": w.failure(status).(object)["error"]}}}
}
